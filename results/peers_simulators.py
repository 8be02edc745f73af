"""Runs for peers.py in PIMSYN, MNSIM and NeuroSim, each through the run.py of an export.

The figure is the one that run.py prints: PIMSYN's time of its most efficient design, MNSIM's latency, and
NeuroSim's pipeline cycle per image. Arrays are counted by the tools.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple

from rramalloc.api import inspect, optimize
from rramalloc.choices import Mapping as MappingName
from rramalloc.choices import ObjectiveName
from rramalloc.commands.export.export import export
from rramalloc.commands.tune.simulators import TOOLS
from rramalloc.errors import RramallocError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import load_hardware
from rramalloc.importers import load
from rramalloc.mapping.demand import demands
from rramalloc.timing.stage_graph import StageGraph


class Outcome(NamedTuple):
    """Arrays that a tool stored, its figure, and the area that it reports."""

    arrays: int
    value: float
    area_um2: float | None = None


Run = Callable[..., Any]
"""`peers.Book.run`: tool, network, budget, allocation, what to run, repeat, limit -> the row of it."""

OURS: dict[str, ObjectiveName] = {"ours, latency": "latency", "ours, interval": "interval"}
LIMIT_S = 900
"""Of one run of a tool."""

ROOT = Path(__file__).resolve().parents[1]
ARCHIVES = "RRAMALLOC_PEERS"


def missing() -> str:
    """Return what is not there."""
    return "" if os.environ.get(ARCHIVES) else f"{ARCHIVES} does not name the archives of the tools"


def build(tool: str) -> Path:
    """A checkout of a tool, built, as for the tests."""
    source = spec_from_file_location("peer_tools", ROOT / "tests" / "peers" / "tools.py")
    assert source is not None
    assert source.loader is not None
    tools = module_from_spec(source)
    sys.modules["peer_tools"] = tools
    source.loader.exec_module(tools)
    return Path(tools.build(tool))


def run_export(
    network: str, copies: Mapping[str, int], target: str, hardware: str | Hardware, *options: str
) -> dict[str, float]:
    """What run.py of this export prints besides its layers."""
    with tempfile.TemporaryDirectory() as folder:
        export(network, dict(copies), target, hardware=hardware).save(folder)
        return report_of(Path(folder), target, *options)


def report_of(folder: Path, target: str, *options: str) -> dict[str, float]:
    command = [sys.executable, str(folder / "run.py"), str(build(target)), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip()[-200:] or f"{target} ended with code {done.returncode}")
    lines = [line.split() for line in done.stdout.splitlines()]
    return {words[0]: float(words[1]) for words in lines if len(words) == 2}


def our_copies(
    network: str,
    arrays: int,
    hardware: str | Hardware,
    objective: ObjectiveName,
    mapping: MappingName = "im2col",
) -> dict[str, int]:
    """Copies by layer name of our allocation."""
    allocation = optimize(
        network,
        arrays=arrays,
        hardware=hardware,
        mapping=mapping,
        objective=objective,
        progress=False,
    )
    return {layer.name: layer.copies for layer in allocation.layers}


# MNSIM ------------------------------------------------------------------------------------------------------

MNSIM_BUDGETS = {"twice the convolutions": 2, "four times the convolutions": 4}
"""MNSIM chooses no copies: its own allocation is one of each layer, on fewer arrays."""


def mnsim(run: Run, network: str, budget: str) -> None:
    """One copy each, its default, and ours on so many times the arrays of the convolutions."""
    plain = load_hardware("plain").with_crossbar(256, 256)  # an array for each processing element
    arrays = MNSIM_BUDGETS[budget] * inspect(network, hardware=plain, mapping="whole_kernel").minimum
    run("MNSIM", network, budget, "its own", partial(_mnsim, network, {}))
    for allocation, objective in OURS.items():
        copies = our_copies(network, arrays, plain, objective, "whole_kernel")
        run("MNSIM", network, budget, allocation, partial(_mnsim, network, copies), limit=arrays)


def _mnsim(network: str, copies: Mapping[str, int]) -> Outcome:
    report = run_export(network, copies, "mnsim", "mnsim")
    return Outcome(int(report["arrays"]), report["latency_ns"])


# NeuroSim ---------------------------------------------------------------------------------------------------

NEUROSIM_BUDGETS = {"speedUpDegree 8": 8, "speedUpDegree 4": 4}


def neurosim(run: Run, network: str, budget: str) -> None:
    """Its rule `pipelineSpeedUp`, and ours in as much area as NeuroSim reports of that."""
    degree, folder = NEUROSIM_BUDGETS[budget], build("neurosim").parent / "neurosim-built"
    own = run("NeuroSim", network, budget, "its own", partial(_neurosim_own, network, degree, folder))
    if own.value is None:
        return
    for allocation, objective in OURS.items():
        run(
            "NeuroSim", network, budget, allocation,
            partial(_neurosim_ours, network, own.arrays, own.area_um2, objective, folder),
            limit=round(own.area_um2),
        )  # fmt: skip


def _neurosim_own(network: str, degree: int, folder: Path) -> Outcome:
    with tempfile.TemporaryDirectory() as made:
        export(network, {}, "neurosim", hardware="neurosim").save(made)
        settings = json.loads((Path(made) / "settings.json").read_text())
        settings["parameters"]["speedUpDegree"] = degree
        (Path(made) / "settings.json").write_text(json.dumps(settings))
        return _neurosim_outcome(report_of(Path(made), "neurosim", "--own", "--build", str(folder)))


def _neurosim_ours(
    network: str, arrays: int, area_um2: float, objective: ObjectiveName, folder: Path
) -> Outcome:
    """Ours on the most arrays that NeuroSim builds in no more area, of budgets about as large."""
    low, high = 1, arrays + 1
    while high - low > 1:
        middle = (low + high) // 2
        if _neurosim_arrays(network, middle, objective)[0] <= arrays:
            low = middle
        else:
            high = middle
    step = max(1, low // 64)
    budgets = range(low - 3 * step, low + 6 * step, step)
    built = {_neurosim_arrays(network, budget, objective) for budget in budgets}
    for _, copies in sorted(built, reverse=True):
        if not copies:
            continue
        report = run_export(network, dict(copies), "neurosim", "neurosim", "--build", str(folder))
        if report["area_um2"] <= area_um2:
            return _neurosim_outcome(report)
    raise RuntimeError("no allocation of ours takes as little area")


@cache
def _neurosim_arrays(
    network: str, budget: int, objective: ObjectiveName
) -> tuple[int, tuple[tuple[str, int], ...]]:
    """Arrays that NeuroSim builds for ours, and the copies; none below one copy of each layer."""
    try:
        copies = our_copies(network, budget, "neurosim", objective)
    except RramallocError:
        return 0, ()
    files = {file.name: file.text for file in export(network, copies, "neurosim", hardware="neurosim").files}
    return sum(json.loads(files["settings.json"])["arrays"]), tuple(copies.items())


def _neurosim_outcome(report: Mapping[str, float]) -> Outcome:
    return Outcome(int(report["arrays"]), report["cycle_ns"], report["area_um2"])


# PIMSYN -----------------------------------------------------------------------------------------------------

PIMSYN_BUDGETS = {"20 times the least": 20, "60 times the least": 60}
PIMSYN_RUNS, GENES, CANDIDATES = 3, 2, 3
"""Runs with seeds of their own; allocations of the annealing that are evaluated, and designs of each."""


def pimsyn(run: Run, network: str, budget: str) -> None:
    """The best of its annealing's candidates, and ours on as many arrays with as many designs."""
    hardware = TOOLS["pimsyn"].hardware()
    source = load(network)
    graph = StageGraph.build(source)
    least = dict(zip(graph.names, demands(source, graph.stages, hardware), strict=True))
    arrays = PIMSYN_BUDGETS[budget] * sum(least.values())
    for repeat in range(1, PIMSYN_RUNS + 1):
        own = partial(_pimsyn, network, {}, hardware, GENES, repeat, "--own", str(arrays))
        run("PIMSYN", network, budget, "its own", own, repeat=repeat)
        for allocation, objective in OURS.items():
            copies = our_copies(network, arrays, hardware, objective)
            ours = partial(_pimsyn, network, copies, hardware, CANDIDATES * GENES, repeat)
            run("PIMSYN", network, budget, allocation, ours, repeat=repeat, limit=arrays)


def _pimsyn(
    network: str, copies: Mapping[str, int], hardware: Hardware, genes: int, seed: int, *options: str
) -> Outcome:
    words = ("--genes", str(genes), "--seed", str(seed), *options)
    report = run_export(network, copies, "pimsyn", hardware, *words)
    return Outcome(int(report["arrays"]), report["latency_ns"])
