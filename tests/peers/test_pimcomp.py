"""Exports run in PIMCOMP: its schedules finish with our copies, on as many arrays as the export counts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from peers.reports import run_export
from peers.tools import build, needs_tools

import rramalloc
from rramalloc.importers import load

CHIP = 9216
MODES = ("low-latency", "high-throughput")
NETWORKS = ("alexnet", "vgg16", "resnet18", "squeezenet", "inception_v1", "shufflenet")


@needs_tools
@pytest.mark.parametrize("network", NETWORKS)
def test_a_network_runs_to_the_end(network: str, tmp_path: Path) -> None:
    """`run.py` itself fails where PIMCOMP stores other arrays than the export counted."""
    allocation = rramalloc.optimize(
        network, arrays=CHIP, hardware="pimcomp", method="proportional", progress=False
    )
    report = run_export(network, allocation, "pimcomp", "pimcomp", tmp_path / "out", build("pimcomp"))
    stored = {stage.name: 1 for stage in load(network).stages} | dict(allocation.copies)
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
    allocation = rramalloc.optimize("squeezenet", arrays=CHIP, hardware="pimcomp", work=2, progress=False)
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


@needs_tools
@pytest.mark.parametrize("mode", MODES)
def test_cores_in_the_order_of_the_tool_change_nothing(mode: str, tmp_path: Path) -> None:
    """Cores filled first fit, as its balance rule does, give the figure of an export without cores.json."""
    allocation = rramalloc.optimize("alexnet", arrays=CHIP, hardware="pimcomp", method="proportional")
    rramalloc.export(load("alexnet"), allocation, "pimcomp").save(tmp_path)
    nodes = json.loads((tmp_path / "network.json").read_text())["node_list"]
    spread = json.loads((tmp_path / "cores.json").read_text())
    assert len({core for cores in spread.values() for core in cores}) == 144

    left, filled = [64] * 144, dict[str, list[int]]()
    for node in nodes:
        if (key := str(node["index"])) in spread:
            outputs = node["param"].get("output_channel") or node["param"]["num_output"]
            for _ in spread[key]:
                core = next(core for core in range(144) if left[core] >= -(-outputs // 128))
                left[core] -= -(-outputs // 128)
                filled.setdefault(key, []).append(core)
    figures = {}
    for name, cores in {"spread": spread, "filled": filled, "its own": None}.items():
        (tmp_path / "cores.json").unlink(missing_ok=True)
        if cores is not None:
            (tmp_path / "cores.json").write_text(json.dumps(cores))
        command = [sys.executable, str(tmp_path / "run.py"), str(build("pimcomp")), "--mode", mode]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        figures[name] = float(done.stdout.split()[-1])
    assert figures["filled"] == figures["its own"]
    assert figures["spread"] < figures["its own"]


@needs_tools
def test_cores_without_room_are_an_error(tmp_path: Path) -> None:
    """An array group too many in a core, or none for a group: the tool itself would not notice."""
    rramalloc.export(load("squeezenet"), {}, "pimcomp", hardware="pimcomp").save(tmp_path)
    cores = json.loads((tmp_path / "cores.json").read_text())
    command = [sys.executable, str(tmp_path / "run.py"), str(build("pimcomp"))]
    others = list(cores)[1:]
    for wrong, words in (
        ({key: [0] * len(where) for key, where in cores.items()}, "gets too many arrays"),
        ({key: cores[key] for key in others}, "not given for every array group"),
    ):
        (tmp_path / "cores.json").write_text(json.dumps(wrong))
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode != 0
        assert words in done.stderr
