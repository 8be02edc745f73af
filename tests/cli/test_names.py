"""Names from files in what is printed: no formula for a spreadsheet, no control of a terminal."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from program import Run

pytestmark = pytest.mark.quick


def test_names_as_commands_print_them(run: Run, tmp_path: Path) -> None:
    names = ("=1+1", "a\x1b[2J", "b\x9b2J", "c\u202ed", "d\nerror: e")
    nodes: list[dict[str, object]] = [{"name": "input", "op": "input", "shape": [3, 8, 8]}]
    for name in names:
        nodes.append(
            {"name": name, "op": "conv", "inputs": [nodes[-1]["name"]], "out_channels": 4, "kernel": 1}
        )
    path = tmp_path / "n.json"
    path.write_text(json.dumps({"format": "rramalloc-network/1", "name": "n\x1b[2J", "nodes": nodes}))
    printed = run("inspect", path, "--format", "csv").out
    cells = [row[0] for row in csv.reader(printed.splitlines())][1:]
    assert cells == ["'=1+1", r"a\x1b[2J", r"b\x9b2J", r"c\u202ed", r"d\nerror: e"]
    document = run("inspect", path, "--format", "json")
    assert [layer["name"] for layer in document.json["layers"]] == list(names)
    refused = run("optimize", path, "--arrays", 0).err
    for text in (printed, document.out, run("inspect", path).out, refused):
        assert all(c.isprintable() or c == "\n" for c in text)
        assert "\nerror: e" not in text
