"""Exports run in PIMCOMP: its schedules finish with our copies, on as many arrays as the export counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from peers.reports import run_export
from peers.tools import build, needs_tools

import rramalloc.api as api
from rramalloc.importers import load

CHIP = 9216
NETWORKS = ("alexnet", "vgg16", "resnet18", "squeezenet", "inception_v1", "shufflenet")


@needs_tools
@pytest.mark.parametrize("network", NETWORKS)
def test_a_network_runs_to_the_end(network: str, tmp_path: Path) -> None:
    """`run.py` itself fails where PIMCOMP stores other arrays than the export counted."""
    allocation = api.optimize(network, arrays=CHIP, hardware="pimcomp", method="proportional", progress=False)
    report = run_export(network, allocation, "pimcomp", "pimcomp", tmp_path / "out", build("pimcomp"))
    stored = {stage.name: 1 for stage in load(network).stages} | dict(allocation.replication)
    assert report.copies == stored
    assert report.values["arrays"] <= CHIP
    assert report.values["latency_ns"] > 0


@needs_tools
def test_a_checkout_stays_as_it_is(tmp_path: Path) -> None:
    """What is built below it would end in the tool's own build."""
    checkout = build("pimcomp")
    before = sorted(checkout.rglob("*"))
    run_export("resnet18", {}, "pimcomp", "pimcomp", tmp_path / "out", checkout)
    assert sorted(checkout.rglob("*")) == before


@needs_tools
def test_its_own_copies(tmp_path: Path) -> None:
    """As PIMCOMP's balance rule chose them when it was run by hand (docs/sources/peers.md)."""
    options = ("--own",)
    report = run_export("resnet18", {}, "pimcomp", "pimcomp", tmp_path / "out", build("pimcomp"), *options)
    assert report.values["arrays"] == 5334
    assert sorted(report.copies.values(), reverse=True)[:6] == [381, 96, 96, 96, 96, 24]


@needs_tools
def test_high_throughput(tmp_path: Path) -> None:
    allocation = api.optimize("squeezenet", arrays=CHIP, hardware="pimcomp", work=2, progress=False)
    options = ("--mode", "high-throughput")
    report = run_export(
        "squeezenet", allocation, "pimcomp", "pimcomp", tmp_path / "out", build("pimcomp"), *options
    )
    assert report.values["interval_ns"] > 0


@needs_tools
@pytest.mark.parametrize("hardware", ["isaac", "isaac-todaes", "raella"])
def test_other_hardware_runs(hardware: str, tmp_path: Path) -> None:
    """Cells of several bits, other arrays and cores; a large mesh where there is no [chip]."""
    copies = {"conv1": 60}
    report = run_export("resnet18", copies, "pimcomp", hardware, tmp_path / "out", build("pimcomp"))
    assert report.copies["conv1"] == 60
