"""`rramalloc pareto`: formats, figure and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
from program import Run

from rramalloc.schemas import json_schema


def test_json_csv_and_table_tell_the_same(run: Run, tiny: Path) -> None:
    shared = ("pareto", tiny, "--arrays", 40, "--work", 20)
    document = run(*shared, "--format", "json").json
    jsonschema.validate(document, json_schema("pareto"))
    rows = run(*shared, "--format", "csv").rows
    assert [(int(row["arrays"]), int(row["makespan"])) for row in rows] == [
        (point["arrays"], point["makespan"]) for point in document["points"]
    ]
    table = run(*shared).out
    assert f"{len(rows)}, {document['proven']} of them proven" in table
    assert str(rows[-1]["makespan"]) in table


def test_figure_and_file_are_written(run: Run, tiny: Path, tmp_path: Path) -> None:
    figure, file = tmp_path / "front.svg", tmp_path / "front.json"
    outcome = run("pareto", tiny, "--arrays", 40, "--work", 20, "--figure", figure, "-o", file)
    assert outcome.code == 0
    assert ElementTree.fromstring(figure.read_text()).tag.endswith("svg")  # noqa: S314
    document = json.loads(file.read_text())
    assert {point["method"] for point in document["baselines"]} >= {"gain", "uniform"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--arrays", 40, "--baselines", "gane"), "gain"),
        (("--arrays", 40, "--objective", "latency_ns"), "[timing]"),
    ],
)
def test_what_cannot_be_served_is_said(
    run: Run, tiny: Path, arguments: tuple[object, ...], words: str
) -> None:
    outcome = run("pareto", tiny, *arguments)
    assert outcome.code == 1
    assert outcome.out == ""
    assert words in outcome.err
