"""Exports run in NeuroSim V1.4: it makes our copies in as many tiles as the export counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from peers.reports import allocated, run_export
from peers.tools import build, needs_tools

import rramalloc
from rramalloc.errors import UnsupportedError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where NeuroSim is built, once for all networks."""
    return tmp_path_factory.mktemp("neurosim")


@needs_tools
@pytest.mark.parametrize("network", ["alexnet", "alexnet_todaes", "vgg11", "vgg16", "vgg19", "tiny_yolov2"])
def test_a_network_runs_to_the_end(network: str, folder: Path, tmp_path: Path) -> None:
    """`run.py` itself fails where NeuroSim makes other copies or tiles than the export says."""
    allocation = allocated(network, 1.2, "neurosim")
    report = run_export(
        network,
        allocation,
        "neurosim",
        "neurosim",
        tmp_path / "out",
        build("neurosim"),
        "--build",
        str(folder),
    )
    for layer in allocation.layers:
        assert report.copies[layer.name] >= layer.replication
    assert report.values["cycle_ns"] > 0


@needs_tools
@pytest.mark.parametrize("hardware", ["plain", "isaac"])
def test_other_hardware_runs(hardware: str, folder: Path, tmp_path: Path) -> None:
    allocation = allocated("alexnet", 2, hardware)
    options = ("--build", str(folder))
    report = run_export(
        "alexnet", allocation, "neurosim", hardware, tmp_path / "out", build("neurosim"), *options
    )
    assert report.values["cycle_ns"] > 0


@pytest.mark.parametrize(
    ("network", "reason"),
    [("resnet18", "chains only"), ("squeezenet", "chains only"), ("mobilenet_v1", "no grouped convolution")],
)
def test_what_it_cannot_express_is_refused_before_anything_is_written(network: str, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        rramalloc.export(network, {}, "neurosim", hardware="neurosim")
