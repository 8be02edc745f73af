"""`rramalloc verify`: `equal` and nothing else, or what differs; errors are one message."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.conftest import Run

HARDWARE = """
name = "small"
source = "made for a test"
[crossbar]
wordlines = 32
bitlines = 32
cell_bits = 2
[precision]
weight_bits = 4
input_bits = 6
output_bits = 6
signed = "offset"
[timing]
read_ns = 10.0
dac_bits = 1
[chip]
arrays_per_tile = 12
straddle = true
tiles = [4, 4]
chips = [1, 1]
"""


@pytest.fixture
def files(run: Run, tiny: Path, tmp_path: Path) -> tuple[Path, Path, Path]:
    """Network, allocation and placement."""
    (tmp_path / "small.toml").write_text(HARDWARE)
    allocation, placement = tmp_path / "a.json", tmp_path / "p.json"
    hardware = ("--hardware", tmp_path / "small.toml", "--work", 0)
    assert run("optimize", tiny, "--arrays", 90, *hardware, "-o", allocation).code == 0
    assert run("place", tiny, "--allocation", allocation, "-o", placement, "--work", 0).code == 0
    return tiny, allocation, placement


def test_equal(run: Run, files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    network, allocation, placement = files
    given = run("verify", network, "--allocation", allocation, "--placement", placement)
    assert (given.code, given.out) == (0, "equal\n")
    placed = run("verify", network, "--allocation", allocation, "--images", 2, "--seed", 7)
    assert (placed.code, placed.out) == (0, "equal\n")
    bare = tmp_path / "bare.json"
    bare.write_text('{"replication": {"conv1": 2}}')
    assert run("verify", network, "--allocation", bare, "--fc", "crossbar").out == "equal\n"


def test_modes_end_with_equal(run: Run, files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    """Modes through files: what `optimize --mapping sdk` finds is placed and computes the right numbers."""
    network, allocation, placement = files
    (tmp_path / "large.toml").write_text(HARDWARE.replace("lines = 32", "lines = 128"))
    hardware = ("--hardware", tmp_path / "large.toml", "--work", 1)
    made = run("optimize", network, "--arrays", 16, "--mapping", "sdk", *hardware, "-o", allocation)
    assert made.code == 0, made.err
    assert any(layer["block"] != [1, 1] for layer in json.loads(allocation.read_text())["layers"])
    placed = run("place", network, "--allocation", allocation, "-o", placement, "--work", 1)
    assert placed.out.split("\n")[0].split() == [
        "layer",
        "demand",
        "replication",
        "block",
        "tiles",
        "straddling",
        "utilisation",
    ]
    assert {array["copies"] for array in json.loads(placement.read_text())["arrays"]} == {1}
    given = run("verify", network, "--allocation", allocation, "--placement", placement)
    assert (given.code, given.out) == (0, "equal\n")


def corrupted(placement: Path, change: str) -> Path:
    document = json.loads(placement.read_text())
    arrays = document["arrays"]
    match change:
        case "drop":
            del arrays[3]
        case "twice":
            arrays.append(dict(arrays[0], index=11, tile=[3, 3]))
        case "replica":
            arrays[0]["replica"] += 1
        case "layer":
            one = next(a for a in arrays if a["layer"] == "conv1")
            other = next(a for a in arrays if a["layer"] == "conv2")
            one["layer"], other["layer"] = other["layer"], one["layer"]
        case "block":
            arrays[0]["row_block"], arrays[0]["column_block"] = 77, 0
    placement.write_text(json.dumps(document))
    return placement


@pytest.mark.parametrize("change", ["drop", "layer"])
def test_wrong_placement(run: Run, files: tuple[Path, Path, Path], change: str) -> None:
    network, allocation, placement = files
    wrong = corrupted(placement, change)
    outcome = run("verify", network, "--allocation", allocation, "--placement", wrong)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith(f"error: {placement}: ")


def test_a_difference_is_told(
    run: Run, files: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cell that is programmed wrongly; nothing else of the program is touched."""
    from rramalloc.commands.verify.crossbars import Storage

    right = Storage.block
    monkeypatch.setattr(Storage, "block", lambda *args: right(*args) ^ 1)
    network, allocation, placement = files
    outcome = run("verify", network, "--allocation", allocation, "--placement", placement)
    assert outcome.code == 1
    assert outcome.out.startswith("different: image 0, layer 'conv1', channel 0, row 0, column 0: expected ")
    assert len(outcome.out.splitlines()) == 1


def test_wrong_usage(run: Run, files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    network, allocation, placement = files
    command = ("verify", network, "--allocation", allocation)
    for options, message in (
        (("--placement", tmp_path / "none.json"), "no such file"),
        (("--placement", allocation), "rramalloc-placement/1"),
        (("--placement", placement, "--mapping", "im2col"), "mapping: is what the placement says"),
        (("--adc-bits", 0), "adc_bits: must be from 1 to 52"),
        (("--noise", -1), "noise: must be from 0 to 1"),
        (("--images", 0), "images: must be from 1"),
    ):
        outcome = run(*command, *options)
        assert (outcome.code, outcome.out) == (1, "")
        assert message in outcome.err
        assert len(outcome.err.splitlines()) == 1
    assert run("verify", network).code == 2
    other = run("verify", "vgg16", "--allocation", allocation, "--placement", placement)
    assert other.code == 1
    assert "another network" in other.err
