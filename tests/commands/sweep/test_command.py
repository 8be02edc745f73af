"""`rramalloc sweep`: what it prints, and how it fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import rramalloc
from rramalloc.commands.sweep.sweep import read_sweep
from rramalloc.schemas import json_schema

Run = Callable[..., Any]


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


@pytest.mark.usefixtures("in_this_process")
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
        "name": "try",
        "points": "12",
        "done": "12 (100 %)",
        "failed": "4",
    }
    status = run("sweep", spec, "-o", folder, "--status", "--format", "json").json
    jsonschema.validate(status, json_schema("sweep-status"))
    assert (status["done"], status["failed"], status["left_s"]) == (12, 4, None)
    (row,) = run("sweep", spec, "-o", folder, "--status", "--format", "csv").rows
    assert row["done"] == "12"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--jobs", 0], "jobs: must be from 1"),
        (["--jobs", 1, "--scheduler", "tcp://127.0.0.1:1"], "jobs: is for workers"),
    ],
)
def test_wrong_options(options: list[object], told: str, spec: Path, tmp_path: Path, run: Run) -> None:
    outcome = run("sweep", spec, "-o", tmp_path / "rows", *options)
    assert (outcome.code, outcome.out) == (1, "")
    assert told in outcome.err
    assert not (tmp_path / "rows").exists()


@pytest.mark.usefixtures("in_this_process")
def test_a_page_says_which_charts_it_leaves_out(tiny: Path, tmp_path: Path) -> None:
    """Nine networks on one hardware: charts of eight, and a note; of eight, no note."""
    names = [f"n{number}.json" for number in range(9)]
    for name in names:
        text = tiny.read_text().replace('"name": "tiny"', f'"name": "{name[:2]}"')
        (tmp_path / name).write_text(text)
    for count, notes in ((9, 1), (8, 0)):
        networks = [str(tmp_path / name) for name in names[:count]]
        spec = {"networks": networks, "arrays": [9], "methods": ["none"]}
        rramalloc.sweep(spec, tmp_path / f"rows{count}")
        view = read_sweep(str(tmp_path / f"rows{count}")).view()
        assert len(view.charts) == 8
        told = [note for note in view.notes if "the first 8 of 9" in note]
        assert len(told) == notes


@pytest.mark.usefixtures("in_this_process")
def test_by_network_as_compare_has_it(tiny: Path, tmp_path: Path, run: Run) -> None:
    """A column a method, what else varies beside the network; LaTeX and columns as elsewhere."""
    spec = tmp_path / "spec.toml"
    spec.write_text(
        f'networks = "{tiny}"\narrays = [9, "x2"]\ncrossbars = ["128x128", "64x128"]\n'
        'methods = ["none", "interval"]\n'
    )
    words = ("sweep", spec, "-o", tmp_path / "rows", "--jobs", 1, "-q")
    rows = run(*words, "--format", "csv").rows
    pivoted = run(*words, "--by", "budget", "--format", "csv", "--figure", tmp_path / "by.svg").rows
    assert [(row["network"], row["arrays"]) for row in pivoted] == [
        ("tiny, 128x128", "9"),
        ("tiny, 128x128", "x2"),
        ("tiny, 64x128", "9"),
        ("tiny, 64x128", "x2"),
    ]
    makespans = {
        (f"tiny, {row['crossbar']}", row["arrays_asked"], row["method"]): row["makespan"] for row in rows
    }
    for row in pivoted:
        for method in ("none", "interval"):
            assert row[method] == makespans[row["network"], row["arrays"], method]
    assert "x2 arrays" in (tmp_path / "by.svg").read_text()
    latex = run(
        *words,
        "--by",
        "method",
        "--format",
        "latex",
        "--columns",
        "arrays,none",
        "--caption",
        "C",
        "--label",
        "t:c",
        "--plain-units",
    ).out
    assert "\\caption{C}\n\\label{t:c}" in latex
    assert "arrays & none" in latex
    some = run(*words, "--format", "csv", "--columns", "network,makespan").rows
    assert some == [{"network": row["network"], "makespan": row["makespan"]} for row in rows]
    assert "no column named 'nope'" in run(*words, "--columns", "nope").err
    assert "--plot arrays,edp" in run(*words, "--by", "method", "--plot", "used,edp").err
