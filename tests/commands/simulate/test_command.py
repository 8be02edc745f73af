"""`rramalloc simulate`: allocation files and bare copies."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

pytestmark = pytest.mark.quick

Run = Callable[..., Any]


@pytest.fixture
def simulate(run: Run, tiny: Path, tmp_path: Path) -> Run:
    """Simulate the small network with a document as its allocation."""

    def call(document: object, *arguments: object) -> Any:
        path = tmp_path / "bare.json"
        path.write_text(json.dumps(document))
        return run("simulate", tiny, "--allocation", path, "--format", "json", *arguments)

    return call


def test_one_copy_of_everything(run: Run, simulate: Run) -> None:
    """docs/sources/model.md 4. conv2 pixel (y, x) needs pool row min(y + 1, 7), so conv1 row 2 * min(y
    + 1, 7) + 1.

    conv1 ends at 256; its last pixel allows conv2's window (6, 6), after which 56 - 54 and 8 windows follow.
    """
    document = simulate({"copies": {}}).json
    jsonschema.validate(document, run("schema", "simulation").json)
    first, second = document["layers"]
    assert (first["start"], first["finish"], first["stall_steps"]) == (0, 256, 0)
    assert second["start"] == 3 * 16 + 4  # pixel (3, 3) of conv1 is its window 51, there from step 52
    assert second["finish"] == 256 + 10  # windows 54 ... 63, the first of them starts at 256
    assert document["makespan"] == 266
    assert document["interval"] == 256
    assert document["arrays"] == 1 + 2
    assert [(edge["producer"], edge["consumer"]) for edge in document["edges"]] == [("conv1", "conv2")]
    assert document["critical_path"][-1]["finish"] == 266


FORMAT = "rramalloc-allocation/2"


@pytest.mark.parametrize(
    "document",
    [
        [],
        None,
        {"copies": []},
        {"copies": {}, "more": 1},
        {"layers": []},
        {"format": "rramalloc-allocation/3", "layers": []},
        {"format": FORMAT, "layers": [{"name": "conv1", "copies": 1}] * 2},
    ],
)
def test_documents_that_are_no_allocation(document: object, simulate: Run) -> None:
    outcome = simulate(document)
    assert outcome.code == 1
    assert outcome.err.startswith("error: ")
    assert "bare.json: " in outcome.err


def test_allocation_file_brings_its_hardware_and_options(run: Run, tiny: Path, tmp_path: Path) -> None:
    path = tmp_path / "allocation.json"
    options = ("--hardware", "isaac", "--fc", "crossbar", "--arrays", 1000, "--work", 0)
    made = run("optimize", tiny, *options, "-o", path, "--format", "json").json
    again = run("simulate", tiny, "--allocation", path, "--format", "json").json
    assert again["hardware"] == made["hardware"]
    assert again["latency_ns"] == made["latency_ns"]
    for old, new in zip(made["layers"], again["layers"], strict=True):
        assert old.items() <= new.items()
    other = run("simulate", tiny, "--allocation", path, "--hardware", "plain", "--format", "json").json
    assert other["latency_ns"] is None
    assert other["makespan"] == again["makespan"]
    del made["network"]["sha256"]  # a file by hand: then it is not known which network it was made for
    path.write_text(json.dumps(made))
    assert (
        run("simulate", tiny, "--allocation", path, "--format", "json").json["makespan"] == again["makespan"]
    )


def test_blocks_and_cycles_of_a_bare_allocation(run: Run, simulate: Run) -> None:
    """docs/sources/model.md 10 and 11. conv1 computes 8 x 8 blocks of 2 x 2 windows, one a batch.

    Window (y, x) of conv2 needs pooled pixel (min(y + 1, 7), min(x + 1, 7)), which is conv1's block of that
    number: the first needs block 9, there after 10 batches; window (6, 6) = 54 the last, there after 64, and
    10 windows are left. conv1: 4 * 4 * 3 = 48 rows, 4 * 16 columns, so two copies share an array.
    """
    modes = {"copies": {}, "block": {"conv1": [2, 2]}}
    document = simulate(modes).json
    jsonschema.validate(document, run("schema", "simulation").json)
    jsonschema.validate(modes | {"cycles": {"conv1": 3}}, run("schema", "bare-allocation").json)
    first, second = document["layers"]
    assert (first["block"], first["batches"], first["finish"], first["arrays"]) == ([2, 2], 64, 64, 1)
    assert (second["block"], second["start"], second["finish"], second["arrays"]) == ([1, 1], 10, 74, 2)
    assert "cycles" not in first
    assert document["published"] is None
    assert [document["critical_path"][1][key] for key in ("row", "column")] == [3, 3], (
        "the last pixel of block 9"
    )
    own = simulate(modes | {"cycles": {"conv1": 3}}).json
    assert [(layer["cycles"], layer["finish"]) for layer in own["layers"]] == [(3, 192), (1, 202)]
    assert own["interval"] == 192
    assert simulate(modes | {"copies": {"conv1": 2}}).json["arrays"] == 1 + 2
    table = simulate(modes, "--format", "csv").rows
    assert [(row["name"], row["block"]) for row in table] == [("conv1", "2x2"), ("conv2", "1x1")]


@pytest.mark.parametrize(
    ("modes", "message"),
    [
        ({"block": {"conv1": [17, 1]}}, "block.conv1: must be from [1, 1] to [16, 16], which covers"),
        ({"block": {"conv1": 2}}, "block.conv1: "),
        ({"block": {"conv1": [1, 10**30]}}, "block.conv1[1]: "),
        ({"cycles": {"conv1": 2**37}}, "cycles.conv1: must be a whole number of ticks from 1 to"),
        ({"cycles": {"conv1": 2**36}, "copies": {}}, None),
        ({"cycles": {"conv9": 1}}, "cycles: the network has no stage 'conv9'"),
        (
            {"block": {"conv1": [2, 2]}, "copies": {"conv1": 65}},
            "copies.conv1: must be from 1 to its 64 blocks of 2 x 2 windows, got 65",
        ),
    ],
)
def test_modes_that_cannot_be(modes: dict[str, Any], message: str | None, simulate: Run) -> None:
    outcome = simulate({"copies": {}} | modes)
    if message is None:
        assert outcome.json["makespan"] == 256 * 2**36 + 10
        return
    assert (outcome.code, outcome.out) == (1, "")
    assert f"bare.json: {message}" in outcome.err
