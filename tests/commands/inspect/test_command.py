"""`rramalloc inspect`: stages, demand and the smallest budget."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

Run = Callable[..., Any]


@pytest.mark.quick
def test_json(run: Run, tiny: Path, tmp_path: Path) -> None:
    target = tmp_path / "inspection.json"
    outcome = run("inspect", tiny, "--format", "json", "-o", target)
    document = outcome.json
    jsonschema.validate(document, run("schema", "inspection").json)
    assert target.read_text() == outcome.out
    first, second = document["layers"]
    assert (first["windows"], first["arrays_per_copy"], first["weights"]) == (256, 1, 27 * 16)
    assert (second["input"], second["output"]) == ([16, 8, 8], [32, 8, 8])
    assert second["macs"] == 144 * 32 * 64
    assert second["utilisation"] == 144 * 32 / (2 * 128 * 128)
    assert (document["minimum"], document["saturation"]) == (3, 256 + 2 * 64)
    assert document["host"] == ["fc"]


def test_local_file_wins_over_a_shipped_name(
    run: Run, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("inspect", "vgg16.json", "--format", "json").json["minimum"] == 902
    tiny.rename(tmp_path / "vgg16.json")
    assert run("inspect", "vgg16.json", "--format", "json").json["minimum"] == 3


@pytest.mark.quick
def test_no_stage_is_left(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "fc.json"
    source = {"name": "i", "op": "input", "shape": [8, 1, 1]}
    path.write_text(json.dumps({"format": "rramalloc-network/1", "name": "n", "nodes": [source]}))
    outcome = run("inspect", path)
    assert outcome.code == 1
    assert "fc.json: has no stage: no convolution and no linear layer" in outcome.err


def test_linear_layers_alone_are_on_the_arrays(run: Run, tmp_path: Path) -> None:
    """784 x 300 on 128 x 128: 7 * 3 arrays; 300 x 10: 3 * 1. Steps: one behind the other."""
    path, allocation, placed = (tmp_path / name for name in ("mlp.json", "a.json", "p.json"))
    path.write_text(
        '{"format": "rramalloc-network/1", "name": "mlp", "nodes": ['
        '{"name": "x", "op": "input", "shape": [784, 1, 1]}, '
        '{"name": "a", "op": "linear", "inputs": ["x"], "out_features": 300}, '
        '{"name": "b", "op": "linear", "inputs": ["a"], "out_features": 10}]}'
    )
    told = "all weight layers are linear layers on a single pixel: on the arrays, not on the host"
    for fc in ("host", "crossbar"):
        outcome = run("optimize", path, "--arrays", "24", "--fc", fc, "-o", allocation, "--format", "json")
        assert outcome.code == 0
        assert told in outcome.err
        result = json.loads(outcome.out)
        assert (result["arrays"]["minimum"], result["makespan"]) == (24, 2)
        assert run("verify", path, "--allocation", allocation).code == 0
        assert run("place", path, "--allocation", allocation, "--hardware", "isaac", "-o", placed).code == 0


@pytest.mark.parametrize("shape", ["x", "=1,3", "a=", "a=1,0", "a=" + "1," * 9 + "1", "a=" + "9" * 20])
def test_input_shapes_that_are_none(shape: str, run: Run) -> None:
    outcome = run("inspect", "vgg16", "--input-shape", shape)
    assert outcome.code == 1
    assert outcome.err.startswith("error: --input-shape: must be NAME=SIZES such as images=1,3,224,224")


def test_modes_with_the_fewest_arrays(run: Run) -> None:
    """docs/sources/model.md 10. On 512 x 512 a block of 1 x 8 windows of conv1_1 (3 x 3, 3 -> 64, 224 x 224)
    reads 3 * 10 * 3 = 90 rows for 8 * 64 = 512 columns; conv1_2 (64 -> 64) has 2 x 2 in 1024 rows, 2 arrays.
    """
    document = run("inspect", "vgg16", "--crossbar", "512x512", "--mapping", "sdk", "--format", "json").json
    jsonschema.validate(document, run("schema", "inspection").json)
    first, second = document["layers"][:2]
    assert [first["modes"][0][key] for key in ("block", "copies", "arrays", "batches")] == [
        [1, 8],
        1,
        1,
        224 * 28,
    ]
    assert first["modes"][0]["utilisation"] == 8 * 27 * 64 / 512**2
    assert [second["modes"][0][key] for key in ("block", "arrays", "batches")] == [[2, 2], 2, 112 * 112]
    for layer in document["layers"]:
        steps = [mode["batches"] for mode in layer["modes"]]
        assert steps == sorted(steps, reverse=True)
        assert all(mode["arrays"] <= 16 * layer["arrays_per_copy"] for mode in layer["modes"])
    assert "modes" not in run("inspect", "vgg16", "--format", "json").json["layers"][0]
    table = run("inspect", "vgg16", "--crossbar", "512x512", "--mapping", "sdk").out
    assert "1x8" in table
