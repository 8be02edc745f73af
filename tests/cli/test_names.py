"""Names from files in what is printed: no formula for a spreadsheet, no control of a terminal."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from cli.conftest import Run

from rramalloc.csv_rows import csv_cell, csv_rows

FORMULAS = ("=cmd|' /C calc'!A0", "+cmd", "-cmd", "@SUM(A1)", "'=1")


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_are_text_and_read_back(name: str) -> None:
    cell = str(csv_cell(name))
    assert cell == f"'{name}"
    assert [row["name"] for _, row in csv_rows(f'name\n"{cell}"\n', "t.csv", ["name"])] == [name]


@pytest.mark.parametrize("value", [-3, -0.5, "-3", "+1e-3", "conv1", None, True, "3x-1"])
def test_numbers_stay_numbers(value: object) -> None:
    assert csv_cell(value) is value


def test_names_as_commands_print_them(run: Run, tmp_path: Path) -> None:
    names = ("=1+1", "a\x1b[2J", "b\x9b2J", "c\u202ed")
    nodes: list[dict[str, object]] = [{"name": "input", "op": "input", "shape": [3, 8, 8]}]
    for name in names:
        nodes.append(
            {"name": name, "op": "conv", "inputs": [nodes[-1]["name"]], "out_channels": 4, "kernel": 1}
        )
    path = tmp_path / "n.json"
    path.write_text(json.dumps({"format": "rramalloc-network/1", "name": "n", "nodes": nodes}))
    printed = run("inspect", path, "--format", "csv").out
    cells = [row[0] for row in csv.reader(printed.splitlines())][1:]
    assert cells == ["'=1+1", r"a\x1b[2J", r"b\x9b2J", r"c\u202ed"]
    document = run("inspect", path, "--format", "json")
    assert [layer["name"] for layer in document.json["layers"]] == list(names)
    for text in (printed, document.out, run("inspect", path).out):
        assert all(c.isprintable() or c == "\n" for c in text)
