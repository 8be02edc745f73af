"""`rramalloc verify`: `equal` and nothing else, or what differs; errors are one message."""

from __future__ import annotations

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
