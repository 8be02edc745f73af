"""Exports run in NeuroSim V1.4 and V1.5: they make our copies in as many tiles as the export counts."""

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


V1_4, V1_5 = "neurosim", "neurosim-1.5"
NETWORKS = ("alexnet", "alexnet_todaes", "vgg11", "vgg16", "vgg19", "tiny_yolov2")


@needs_tools
@pytest.mark.parametrize(
    ("network", "tool"), [*((network, V1_4) for network in NETWORKS), ("vgg16", V1_5), ("tiny_yolov2", V1_5)]
)
def test_a_network_runs_to_the_end(network: str, tool: str, folder: Path, tmp_path: Path) -> None:
    """`run.py` itself fails where NeuroSim makes other copies or tiles than the export says."""
    allocation = allocated(network, 1.2, "neurosim")
    options = ("--build", str(folder))
    report = run_export(network, allocation, "neurosim", "neurosim", tmp_path / "out", build(tool), *options)
    for layer in allocation.layers:
        assert report.copies[layer.name] >= layer.copies
    assert report.values["cycle_ns"] > 0
    assert report.values["version"] == (1.5 if tool == V1_5 else 1.4)


@needs_tools
def test_layers_of_a_network_with_branches_run(folder: Path, tmp_path: Path) -> None:
    """`run.py` compares copies and tiles of all 26 layers of SqueezeNet."""
    allocation = allocated("squeezenet", 1.2, "neurosim")
    place = ("squeezenet", allocation, "neurosim", "neurosim", tmp_path / "out", build(V1_4))
    report = run_export(*place, "--build", str(folder), "--vectors", "2", layers_only=True)
    assert len(report.copies) == 26
    assert report.values["cycle_ns"] > 0


@needs_tools
@pytest.mark.parametrize(("hardware", "tool"), [("plain", V1_4), ("isaac", V1_5)])
def test_other_hardware_runs(hardware: str, tool: str, folder: Path, tmp_path: Path) -> None:
    allocation = allocated("alexnet", 2, hardware)
    options = ("--build", str(folder))
    report = run_export("alexnet", allocation, "neurosim", hardware, tmp_path / "out", build(tool), *options)
    assert report.values["cycle_ns"] > 0


@needs_tools
def test_both_versions_count_the_same(folder: Path, tmp_path: Path) -> None:
    """Copies, arrays and tiles; times and areas differ, as their values of devices do."""
    allocation = allocated("alexnet", 1.2, "neurosim")
    reports = [
        run_export(
            "alexnet", allocation, "neurosim", "neurosim", tmp_path / tool, build(tool),
            "--build", str(folder), "--vectors", "2",
        )
        for tool in (V1_4, V1_5)
    ]  # fmt: skip
    assert reports[0].copies == reports[1].copies
    assert reports[0].arrays == reports[1].arrays
    assert reports[0].values["tiles"] == reports[1].values["tiles"]


@pytest.mark.parametrize(
    ("network", "reason"),
    [("resnet18", "chains only"), ("squeezenet", "chains only"), ("mobilenet_v1", "no grouped convolution")],
)
def test_what_it_cannot_express_is_refused_before_anything_is_written(network: str, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        rramalloc.export(network, {}, "neurosim", hardware="neurosim")
