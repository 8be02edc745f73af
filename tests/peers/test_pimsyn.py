"""Exports run in PIMSYN: its design space has our copies on as many arrays as the export counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from peers.reports import run_export
from peers.tools import build, needs_tools

import rramalloc
from rramalloc.errors import UnsupportedError

HARDWARE = """name = "small"
source = "made for this test: few bits of a number, so that PIMSYN's graph of operations stays small"
[crossbar]
wordlines = 256
bitlines = 256
cell_bits = 4
[precision]
weight_bits = 4
input_bits = 4
output_bits = 4
signed = "offset"
"""
BUDGETS = {
    "alexnet": 3000,
    "vgg11": 16000,
    "vgg16": 40000,
    "resnet18": 12000,
    "squeezenet": 8000,
    "mobilenet_v1": 12000,
}


@needs_tools
@pytest.mark.parametrize("network", list(BUDGETS))
def test_a_network_runs_to_the_end(network: str, tmp_path: Path) -> None:
    """`run.py` itself fails where PIMSYN counts other copies or arrays than the export."""
    (tmp_path / "small.toml").write_text(HARDWARE)
    hardware = str(tmp_path / "small.toml")
    allocation = rramalloc.optimize(
        network, arrays=BUDGETS[network], hardware=hardware, work=2, progress=False
    )
    report = run_export(
        network, allocation, "pimsyn", hardware, tmp_path / "out", build("pimsyn"), "--genes", "1"
    )
    for layer in allocation.layers:
        assert report.copies[layer.name] == layer.copies
    assert report.values["latency_ns"] > 0


@pytest.mark.parametrize(("network", "reason"), [("unet", "'upsample'"), ("vit_b16", "square")])
def test_what_it_cannot_express_is_refused_before_anything_is_written(network: str, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        rramalloc.export(network, {}, "pimsyn", hardware="plain")


@needs_tools
def test_its_own_copies(tmp_path: Path) -> None:
    """Its annealing spends about the arrays that it is given; classifiers take 896 more."""
    (tmp_path / "small.toml").write_text(HARDWARE)
    options = ("--own", "920", "--genes", "2")
    report = run_export(
        "alexnet", {}, "pimsyn", str(tmp_path / "small.toml"), tmp_path / "out", build("pimsyn"), *options
    )
    assert report.values["arrays"] - 896 == pytest.approx(920, rel=0.05)
    assert report.copies["conv1"] > report.copies["conv2"] > report.copies["conv5"]
