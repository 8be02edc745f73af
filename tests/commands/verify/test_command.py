"""`rramalloc verify`: `equal` and nothing else, or what differs; errors are one message."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from program import Run

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
tiles = [8, 8]
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
    bare.write_text('{"copies": {"conv1": 2}}')
    assert run("verify", network, "--allocation", bare, "--fc", "crossbar").out == "equal\n"


def test_a_difference_is_told(
    run: Run, files: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cell that is programmed wrongly; nothing else of the program is touched."""
    from rramalloc.commands.verify.crossbars import CrossbarStorage

    right = CrossbarStorage.block
    monkeypatch.setattr(CrossbarStorage, "block", lambda *args: right(*args) ^ 1)
    network, allocation, placement = files
    outcome = run("verify", network, "--allocation", allocation, "--placement", placement)
    assert outcome.code == 1
    assert outcome.out.startswith("different: image 0, layer 'conv1', channel 0, row 0, column 0: expected ")
    assert len(outcome.out.splitlines()) == 1


@pytest.mark.parametrize(
    ("table", "field", "value"),
    [
        ("precision", "signed", "differential"),
        ("precision", "output_bits", 5),
        ("crossbar", "slices", "arrays"),
        ("crossbar", "cell_bits", 1),
        ("timing", "read_ns", 20.0),
        ("chip", "arrays_per_tile", 13),
        ("chip", "tiles", [97, 3]),
    ],
)
def test_hardware_of_a_placement_is_that_of_the_allocation(
    run: Run, files: tuple[Path, Path, Path], table: str, field: str, value: object
) -> None:
    network, allocation, placement = files
    document = json.loads(placement.read_text())
    document["hardware"][table][field] = value
    placement.write_text(json.dumps(document))
    outcome = run("verify", network, "--allocation", allocation, "--placement", placement)
    assert (outcome.code, outcome.out) == (1, "")
    shown = f"{value!r}, the allocation has"
    assert outcome.err.startswith(f"error: {placement}: hardware.{table}.{field}: is {shown}")


def test_what_a_placement_adds_and_how_it_maps(
    run: Run, files: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    """Hardware that only lacks the tiles may be placed on tiles; copies alone say nothing of hardware."""
    network, allocation, placement = files
    without, bare, other = tmp_path / "without.json", tmp_path / "bare.json", tmp_path / "other.toml"
    document = json.loads(allocation.read_text())
    copies = {layer["name"]: layer["copies"] for layer in document["layers"] if layer["copies"]}
    bare.write_text(json.dumps({"copies": copies}))
    document["hardware"]["chip"] = None
    document["hardware"]["name"] = "the same under another name"
    without.write_text(json.dumps(document))
    other.write_text(HARDWARE.replace('"offset"', '"differential"'))
    for source in (without, bare):
        assert run("verify", network, "--allocation", source, "--placement", placement).out == "equal\n"
    placed = ("place", network, "--work", 0, "-o", placement)
    assert run(*placed, "--allocation", allocation, "--mapping", "kernel_split").code == 0
    outcome = run("verify", network, "--allocation", allocation, "--placement", placement)
    assert "options.mapping: is 'kernel_split', the allocation has 'im2col'" in outcome.err
    assert run(*placed, "--allocation", bare, "--hardware", other).code == 0
    assert run("verify", network, "--allocation", bare, "--placement", placement).out == "equal\n"


def test_wrong_usage(run: Run, files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    network, allocation, placement = files
    command = ("verify", network, "--allocation", allocation)
    for options, message in (
        (("--placement", tmp_path / "none.json"), "no such file"),
        (("--placement", allocation), "rramalloc-placement/2"),
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
