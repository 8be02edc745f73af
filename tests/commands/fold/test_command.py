"""`rramalloc fold`, and `--fold` of the commands that take a mapping."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from rramalloc.schemas import json_schema

Run = Callable[..., Any]
SPLIT = ("--mapping", "kernel_split", "--fold")


@pytest.mark.quick
def test_worked_filter(run: Run) -> None:
    """docs/sources/companions.md 3: (64, 6, 6, 4), stride (2, 2), A 64 by the source's steps, the default
    rule."""
    outcome = run("fold", "--filter", "64,6,6,4", "--stride", "2,2", "--align", 64, "--format", "json")
    told = outcome.json
    jsonschema.validate(told, json_schema("fold"))
    expected = {
        "n_total": 16,
        "n_h": 8,
        "n_w": 2,
        "filter": [64, 1, 3, 64],
        "stride": [1, 1],
        "dilation": [1, 1],
        "padding_added": 12,
        "overlap": [6, 0],
        "work_before": 64 * 64 * 36,
        "work_after": 64 * 64 * 3,
        "exact": True,
        "checked": None,
    }
    assert {name: told[name] for name in expected} == expected
    assert told["saving"] == pytest.approx(1 - 3 / 36)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ((), 2, "give either a NETWORK or --filter"),
        (("--filter", "1,1,1,1"), 2, "needs --align"),
        (("vgg16", "--align", 64), 2, "--align is for --filter only"),
        (("--filter", "1,1,1,1", "--align", 4, "--crossbar", "8x8"), 2, "--crossbar is for a NETWORK only"),
        (("--filter", "1,2,3", "--align", 4), 1, "filter: takes 4 numbers, got 3"),
        (("--filter", "a,2,3,4", "--align", 4), 1, "--filter: must be whole"),
        (("--filter", "1,0,3,4", "--align", 4), 1, "filter: sizes must be"),
        (("--filter", "1,3,3,4", "--align", 4, "--stride", "1"), 1, "stride: takes 2"),
        (("--filter", "1,3,3,4", "--align", 4, "--input", "2,9"), 1, "padded input has 2 in height"),
        (
            ("--filter", "1,3,3,4", "--align", 64, "--dilation", "2,1"),
            1,
            "dilated by 2 in height: its pixels are not neighbours",
        ),
        (("--filter", "4,3,3,4", "--align", 8, "--groups", 3), 1, "groups: 3"),
        (("--filter", "1,9999,9999,4", "--align", 64, "--check"), 1, "too large to try"),
    ],
)
def test_what_cannot_be_folded(words: tuple[object, ...], code: int, message: str, run: Run) -> None:
    outcome = run("fold", *words)
    assert outcome.code == code
    assert message in outcome.err
    assert outcome.out == ""


def test_network(run: Run, tiny: Path, tmp_path: Path) -> None:
    """conv1: 9 positions of 3 -> 1 of 27; conv2: 9 of 16 -> 144 rows, 2 arrays of 128."""
    output = tmp_path / "fold.json"
    told = run("fold", tiny, "--crossbar", "128x128", "--check", "--format", "json", "-o", output).json
    jsonschema.validate(told, json_schema("network-fold"))
    assert json.loads(output.read_text()) == told
    assert (told["arrays_before"], told["arrays_after"]) == (18, 3)
    assert told["saving"] == pytest.approx(15 / 18)
    first, second = told["layers"]
    assert (first["name"], first["n_h"], first["n_w"], first["filter"]) == ("conv1", 3, 3, [16, 1, 1, 27])
    assert (first["arrays_before"], first["arrays_after"], first["checked"]) == (9, 1, True)
    assert (second["arrays_before"], second["arrays_after"], second["checked"]) == (9, 2, True)
    shown = run("fold", tiny).out
    assert "18 -> 3 arrays" in shown
    assert "16x1x1x27" in shown
    rows = run("fold", tiny, "--format", "csv").rows
    assert [row["arrays_after"] for row in rows] == ["1", "2"]


def test_layers_that_cannot_be_folded_are_told(run: Run, tmp_path: Path) -> None:
    nodes = [
        {"name": "in", "op": "input", "shape": [3, 9, 9]},
        {"name": "wide", "op": "conv", "inputs": ["in"], "out_channels": 4, "kernel": 3, "dilation": 2},
    ]
    path = tmp_path / "dilated.json"
    path.write_text(json.dumps({"format": "rramalloc-network/1", "name": "d", "nodes": nodes}))
    outcome = run("fold", path, "--check", "--format", "json")
    (layer,) = outcome.json["layers"]
    assert (layer["arrays_before"], layer["arrays_after"], layer["dilation"]) == (9, 9, [2, 2])
    assert layer["checked"] is None
    assert outcome.err.startswith("wide: the kernel is dilated by 2 in height")


def test_optimize_uses_and_keeps_the_folds(run: Run, tiny: Path, tmp_path: Path) -> None:
    """With 18 arrays an unfolded network has no spare ones; folded it needs 3, so layers are copied."""
    saved = tmp_path / "folded.json"
    plain = run("optimize", tiny, "--arrays", 18, *SPLIT[:2], "--format", "json", "-q").json
    folded = run("optimize", tiny, "--arrays", 18, *SPLIT, "--format", "json", "-q", "-o", saved).json
    jsonschema.validate(folded, json_schema("allocation"))
    assert (plain["options"]["fold"], folded["options"]["fold"]) == (False, True)
    assert all("fold" not in layer for layer in plain["layers"])
    assert [(layer["fold"], layer["arrays_per_copy"]) for layer in folded["layers"]] == [
        ([3, 3], 1),
        ([3, 3], 2),
    ]
    assert plain["makespan"] > folded["makespan"]
    assert plain["arrays"]["minimum"] == 18
    assert folded["arrays"]["minimum"] == 3

    again = run("simulate", tiny, "--allocation", saved, "--format", "json", "-q").json
    assert again["makespan"] == folded["makespan"]
    assert again["arrays"] == folded["arrays"]["used"]
    assert [layer["fold"] for layer in again["layers"]] == [[3, 3], [3, 3]]
    for words, demand in ((("--no-fold",), [9, 9]), (("--mapping", "im2col"), [1, 2])):
        other = run("simulate", tiny, "--allocation", saved, *words, "--format", "json", "-q").json
        assert [layer["arrays_per_copy"] for layer in other["layers"]] == demand
        assert other["makespan"] == folded["makespan"]
