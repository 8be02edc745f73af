"""`rramalloc explain`: formats and file."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
from program import Run

from rramalloc.schemas import json_schema


def test_json_csv_and_table_tell_the_same(run: Run, tiny: Path, tmp_path: Path) -> None:
    shared = ("explain", tiny, "--arrays", 12, "--speedup", 1.5, "--work", 5)
    file = tmp_path / "e.json"
    document = run(*shared, "--format", "json", "-o", file).json
    jsonschema.validate(document, json_schema("explanation"))
    assert json.loads(file.read_text()) == document
    rows = run(*shared, "--format", "csv").rows
    assert [int(row["critical"]) for row in rows] == [each["critical"] for each in document["layers"]]
    assert sum(int(row["critical"]) for row in rows) == document["makespan"]
    table = run(*shared).out
    assert document["faster"]["words"] in table
    assert "1.5 x as fast" in table
