"""`rramalloc place`, and `optimize --placed`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands.place.machines import SMALL_TOML
from program import Run


@pytest.fixture
def hardware(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL_TOML)
    return path


@pytest.fixture
def allocation(run: Run, tiny: Path, hardware: Path, tmp_path: Path) -> Path:
    path = tmp_path / "a.json"
    ended = run("optimize", tiny, "--arrays", 40, "--hardware", hardware, "--work", 2, "-o", path, "-q")
    assert ended.code == 0, ended.err
    return path


def test_table_file_and_figure(run: Run, tiny: Path, allocation: Path, tmp_path: Path) -> None:
    placed, figure = tmp_path / "p.json", tmp_path / "p.svg"
    ended = run("place", tiny, "--allocation", allocation, "-o", placed, "--figure", figure)
    assert ended.code == 0, ended.err
    assert ended.out.split("\n")[0].split() == "layer arrays per copy copies tiles straddling".split()
    for label in ("busiest links", "traffic", "latency", "busiest link", "proof"):
        assert label in ended.out
    document = json.loads(placed.read_text())
    used = json.loads(allocation.read_text())["arrays"]["used"]
    assert document["format"] == "rramalloc-placement/2"
    assert len(document["arrays"]) == used
    assert list(document["arrays"][0]) == [
        "chip",
        "tile",
        "index",
        "layer",
        "replica",
        "row_block",
        "column_block",
        "rows",
        "columns",
    ]
    assert figure.read_text().startswith("<svg")


def test_what_does_not_fit_is_one_message_and_no_file(
    run: Run, tiny: Path, hardware: Path, tmp_path: Path
) -> None:
    bare, placed = tmp_path / "bare.json", tmp_path / "p.json"
    bare.write_text('{"copies": {"conv1": 90}}')
    ended = run("place", tiny, "--allocation", bare, "--hardware", hardware, "-o", placed)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("error: the allocation needs ")
    assert "the chips have 72" in ended.err
    assert not placed.exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--hardware", "plain"), "has no [chip]"),
        (("--seed", "-1"), "seed: must be from 0"),
        (("-o", "/nowhere/p.json"), "folder"),
    ],
)
def test_refusals(run: Run, tiny: Path, allocation: Path, options: tuple[str, ...], told: str) -> None:
    ended = run("place", tiny, "--allocation", allocation, *options)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("error: ")
    assert told in ended.err
