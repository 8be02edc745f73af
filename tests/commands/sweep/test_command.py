"""`rramalloc sweep`: what it prints, and how it fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import rramalloc
from rramalloc.schemas import json_schema

Run = Callable[..., Any]
POINTS = 2 * 3 * 2


@pytest.fixture
def spec(tiny: Path) -> Path:
    """12 points of which the 4 with 2 arrays fail: 3 are needed."""
    path = tiny.parent / "spec.toml"
    path.write_text(
        'name = "try"\nnetworks = "tiny.json"\narrays = [2, 9, "x2"]\ncrossbars = ["128x128", "64x128"]\n'
        'methods = ["none", "interval"]\n'
    )
    return path


def test_table_and_notes(spec: Path, tmp_path: Path, run: Run) -> None:
    outcome = run("sweep", spec, "-o", tmp_path / "rows", "--jobs", 1)
    assert outcome.code == 0
    header, _, *lines = outcome.out.splitlines()
    assert header.split() == ["network", "method", "points", "failed", "best", "makespan"]
    assert [line.split()[:4] for line in lines] == [
        ["tiny", "none", "6", "2"],
        ["tiny", "interval", "6", "2"],
    ]
    first, *rest = outcome.err.splitlines()
    assert first == "12 points: 2 crossbars x 3 arrays x 2 methods"
    assert "12 points computed, 0 were there" in rest
    assert any(line.startswith("4 points failed") for line in rest)
    assert any("BudgetError: needs 3 arrays" in line for line in rest)


def test_rows_as_json_and_csv(spec: Path, tmp_path: Path, run: Run) -> None:
    folder = tmp_path / "rows"
    printed = run("sweep", spec, "-o", folder, "--jobs", 1, "--format", "json", "--quiet")
    assert printed.err == ""
    result = rramalloc.sweep(spec, folder)
    assert result.computed == 0
    assert printed.out == json.dumps(result.to_dict(), indent=2, ensure_ascii=False) + "\n"
    jsonschema.validate(printed.json, json_schema("sweep"))
    told = [(row["crossbar"], row["arrays_asked"], row["method"]) for row in printed.json["rows"]]
    assert told[:3] == [("128x128", "2", "none"), ("128x128", "2", "interval"), ("128x128", "9", "none")]
    again = run("sweep", spec, "-o", folder, "--format", "csv")
    rows = again.rows
    assert len(rows) == POINTS
    assert [row["makespan"] for row in rows] == [str(row["makespan"] or "") for row in printed.json["rows"]]
    assert "0 points computed, 12 were there" in again.err


def test_status(spec: Path, tmp_path: Path, run: Run) -> None:
    folder = tmp_path / "rows"
    before = run("sweep", spec, "-o", folder, "--status")
    assert (before.code, before.out) == (1, "")
    assert "holds no sweep yet" in before.err
    assert not folder.exists()
    run("sweep", spec, "-o", folder, "--jobs", 1)
    table = run("sweep", spec, "-o", folder, "--status")
    assert table.code == 0
    assert dict(line.split(None, 1) for line in table.out.splitlines()) == {
        "name": "try", "points": "12", "done": "12 (100 %)", "failed": "4"
    }  # fmt: skip
    status = run("sweep", spec, "-o", folder, "--status", "--format", "json").json
    jsonschema.validate(status, json_schema("sweep-status"))
    assert (status["done"], status["failed"], status["left_s"]) == (12, 4, None)
    (row,) = run("sweep", spec, "-o", folder, "--status", "--format", "csv").rows
    assert row["done"] == "12"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        pytest.param(["--jobs", 0], "jobs: must be from 1", id="no processes"),
        pytest.param(["--jobs", 1, "--scheduler", "tcp://127.0.0.1:1"], "jobs: is for workers", id="both"),
    ],
)
def test_wrong_options(options: list[object], told: str, spec: Path, tmp_path: Path, run: Run) -> None:
    outcome = run("sweep", spec, "-o", tmp_path / "rows", *options)
    assert (outcome.code, outcome.out) == (1, "")
    assert told in outcome.err
    assert not (tmp_path / "rows").exists()


def test_wrong_files(spec: Path, tmp_path: Path, run: Run) -> None:
    assert "no such file" in run("sweep", tmp_path / "gone.toml", "-o", tmp_path / "rows").err
    other = tmp_path / "other.toml"
    other.write_text('networks = "tiny.json"\narrays = "x3"\ncolour = "red"')
    assert "other.toml: colour: this field is not known" in run("sweep", other, "-o", tmp_path / "rows").err
    assert not (tmp_path / "rows").exists()
    assert run("sweep", spec).code == 2
