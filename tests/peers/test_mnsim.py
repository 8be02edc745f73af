"""Exports run in MNSIM 2.0: it stores and times our copies on as many arrays as the export counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from peers.reports import allocated, run_export
from peers.tools import build, needs_tools

import rramalloc.api as api
from rramalloc.errors import UnsupportedError
from rramalloc.importers import load


@needs_tools
@pytest.mark.parametrize("network", ["alexnet", "vgg11", "vgg16", "vgg19", "resnet18", "resnet50"])
def test_a_network_runs_to_the_end(network: str, tmp_path: Path) -> None:
    """`run.py` itself fails where MNSIM counts other arrays than the export."""
    allocation = allocated(network, 1.5, "mnsim")
    report = run_export(network, allocation, "mnsim", "mnsim", tmp_path / "out", build("mnsim"))
    shapes = load(network).shapes
    for layer in allocation.layers:
        assert report.copies[layer.name] == min(layer.replication, shapes[layer.name].width)
    assert report.values["latency_ns"] > 0


@needs_tools
@pytest.mark.parametrize("hardware", ["plain", "pimcomp", "raella", "prime"])
def test_other_hardware_runs(hardware: str, tmp_path: Path) -> None:
    """Cells of several bits, no [chip], tiles that are no square."""
    allocation = allocated("resnet18", 1.2, hardware)
    report = run_export("resnet18", allocation, "mnsim", hardware, tmp_path / "out", build("mnsim"))
    assert report.values["latency_ns"] > 0


@pytest.mark.parametrize(
    ("network", "reason"),
    [
        ("squeezenet", "no layer for 'concat'"),
        ("mobilenet_v2", "no grouped convolution"),
        ("densenet121", "no layer for 'concat'"),
    ],
)
def test_what_it_cannot_express_is_refused_before_anything_is_written(network: str, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        api.export(network, {}, "mnsim", hardware="mnsim")
