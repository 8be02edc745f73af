"""Allocations in the tools that they are exported to: the tool's own against ours, in the tool's own figure.

Writes results/peers.csv and results/peers.md:  RRAMALLOC_PEERS=FOLDER python results/peers.py [TOOL ...]
FOLDER holds the archives of the tools (tests/peers/tools.py). What is in the CSV file is not run again.
"""

from __future__ import annotations

import csv
import json
import os
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import peers_simulators
from pages import markdown
from peers_simulators import OURS, Outcome, build

from rramalloc.api import export, optimize
from rramalloc.errors import RramallocError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import load_hardware

ROOT = Path(__file__).resolve().parents[1]
CSV, PAGE = ROOT / "results" / "peers.csv", ROOT / "results" / "peers.md"
NETWORKS = ("alexnet", "vgg16", "resnet18", "squeezenet", "inception_v1", "shufflenet")
LIMIT_S = 900
"""Of one run of a tool."""


class Row(NamedTuple):
    """One run.

    budget: what the tool was asked for; limit: what an allocation of ours may take, in arrays (NeuroSim: in
    um2), 0 for its own; arrays: stored in the tool; area_um2: where that is the limit; value: its figure.
    """

    tool: str
    network: str
    budget: str
    allocation: str
    repeat: int
    limit: int
    arrays: int
    area_um2: float | None
    value: float | None
    note: str = ""


Key = tuple[str, str, str, str, int, int]
"""The fields of a row up to its limit."""


class Book:
    """All runs so far, each written as soon as it is known."""

    def __init__(self) -> None:
        self.rows: dict[Key, Row] = {}
        if CSV.exists():
            with CSV.open(encoding="utf-8", newline="") as file:
                for cells in csv.DictReader(file):
                    row = _read(cells)
                    self.rows[row[:6]] = row

    def run(
        self, tool: str, network: str, budget: str, allocation: str, run: Callable[[], Outcome], *,
        repeat: int = 1, limit: int = 0,
    ) -> Row:  # fmt: skip
        """The row of this run: from the file, or made now. What a tool cannot do is a row with a note."""
        key = (tool, network, budget, allocation, repeat, limit)
        if key not in self.rows:
            try:
                outcome = run()
                row = Row(*key, outcome.arrays, outcome.area_um2, outcome.value)
            except (RramallocError, RuntimeError, subprocess.TimeoutExpired) as error:
                note = "no answer in time" if isinstance(error, subprocess.TimeoutExpired) else str(error)
                row = Row(*key, 0, None, None, note.splitlines()[0][:200])
            self.rows[key] = row
            new = not CSV.exists()
            with CSV.open("a", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                if new:
                    writer.writerow(Row._fields)
                writer.writerow(["" if cell is None else cell for cell in row])
            print(*row, flush=True)
        return self.rows[key]


def _read(cells: dict[str, str]) -> Row:
    area_um2, value = (float(text) if text else None for text in (cells["area_um2"], cells["value"]))
    return Row(
        cells["tool"], cells["network"], cells["budget"], cells["allocation"], int(cells["repeat"]),
        int(cells["limit"]), int(cells["arrays"]), area_um2, value, cells["note"],
    )  # fmt: skip


# PIMCOMP ----------------------------------------------------------------------------------------------------

MODES = {"PIMCOMP, low latency": "element", "PIMCOMP, high throughput": "batch"}
GENETIC_RUNS = 5
"""Its genetic search is seeded by the clock."""


def pimcomp(book: Book, network: str, tool: str) -> None:
    """Its balance and its genetic search on 9216 arrays; ours on as many arrays as each of them took."""
    granularity = MODES[tool]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        export(network, {}, "pimcomp", hardware="pimcomp").save(folder)
        balance = book.run(tool, network, "balance", "its own", partial(_pimcomp, folder, granularity))
        genetic = [
            book.run(
                tool,
                network,
                "genetic",
                "its own",
                lambda: _pimcomp(folder, granularity, "GA"),
                repeat=repeat,
            )
            for repeat in range(1, GENETIC_RUNS + 1)
        ]
    for own in (balance, _median(genetic)):
        if own is None or own.value is None:
            continue
        for allocation, objective in OURS.items():
            book.run(
                tool, network, own.budget, allocation,
                partial(_ours, network, own.arrays, objective, granularity), limit=own.arrays,
            )  # fmt: skip


def _ours(network: str, arrays: int, objective: str, granularity: str) -> Outcome:
    allocation = optimize(network, arrays=arrays, hardware="pimcomp", objective=objective, progress=False)
    with tempfile.TemporaryDirectory() as folder:
        export(network, allocation, "pimcomp").save(folder)
        return _pimcomp(Path(folder), granularity, copies=Path(folder) / "replication.json")


def _pimcomp(
    folder: Path, granularity: str, method: str = "balance", *, copies: Path | None = None,
    simulation: Path | None = None, config: dict[str, object] | None = None, margin: float = 0.5,
) -> Outcome:  # fmt: skip
    """One run of PIMCOMP on an exported folder, with its own copies or those given."""
    checkout = build("pimcomp-patched")
    settings = json.loads((folder / "run.json").read_text())
    with tempfile.TemporaryDirectory() as work:
        for name in ("build", "output", "models/JSON"):
            (Path(work) / name).mkdir(parents=True)
        shutil.copy(folder / "network.json", Path(work) / "models" / "JSON")
        written = config or json.loads((folder / "config.json").read_text())
        (Path(work) / "config.json").write_text(json.dumps(written))
        variables = {
            "LAST_NODE": str(settings["last_node"]), "LAST_CH": str(settings["last_pixels"]),
            "MARGIN": str(margin),
        }  # fmt: skip
        if copies is not None:
            variables["REPLICATION_JSON"] = str(copies)
        options = ["-m=network", f"-r={method}", f"-p={granularity}"]
        for _ in range(10):  # now and then it ends with a segmentation fault, and the same run does not
            done = subprocess.run(
                [str(checkout / "build" / "PIMCOMP-NN"), *options, *(["-s=YES"] if simulation else [])],
                cwd=Path(work) / "build", env={**os.environ, **variables}, capture_output=True, text=True,
                errors="replace", timeout=LIMIT_S, preexec_fn=_limit_stack,
            )  # fmt: skip
            if done.returncode != -signal.SIGSEGV:
                break
        if simulation is not None:
            for made in (Path(work) / "output").glob("SimulationInfo*"):
                shutil.copy(made, simulation)
    time_ns = re.search(r"practical \(ns\)\n([\d.]+)", done.stdout)
    used = re.search(r"USED_CROSSBARS (\d+)", done.stdout)
    if done.returncode or time_ns is None or used is None:
        raise RuntimeError(f"PIMCOMP ended with code {done.returncode}")
    if granularity == "element" and "[effective_instruction_group_num]" not in done.stdout:
        raise RuntimeError("PIMCOMP did not finish the schedule")
    if copies is not None and int(used[1]) != settings["arrays"]:
        raise RuntimeError(f"PIMCOMP stores {used[1]} arrays, the export counted {settings['arrays']}")
    return Outcome(int(used[1]), float(time_ns[1]))


def _limit_stack() -> None:
    resource.setrlimit(resource.RLIMIT_STACK, (2**26, resource.getrlimit(resource.RLIMIT_STACK)[1]))


# pimsim-nn --------------------------------------------------------------------------------------------------

PIMSIM_NETWORKS = ("resnet18", "squeezenet", "inception_v1", "shufflenet")
"""The mesh that it ships has 64 cores, 4096 arrays: AlexNet and VGG-16 with their classifiers do not fit."""
PIMSIM_LIMIT_MS = 2000
"""Simulated time after which it gives up and reports a latency of 0; its example says 100 ms."""
MARGINS = {"balance, 1/2": 0.5, "balance, 3/4": 0.25}
"""Of the arrays that classifiers leave, what its balance rule gives away, and the margin that it keeps."""


def pimsim(book: Book, network: str, budget: str) -> None:
    """PIMCOMP's instructions for its own balance and for ours, in pimsim-nn."""
    own = book.run("pimsim-nn", network, budget, "its own", partial(_pimsim, network, margin=MARGINS[budget]))
    if own.value is None:
        return
    for allocation, objective in OURS.items():
        book.run(
            "pimsim-nn", network, budget, allocation, partial(_pimsim, network, own.arrays, objective),
            limit=own.arrays,
        )  # fmt: skip


def _pimsim(network: str, arrays: int = 0, objective: str = "", margin: float = 0.5) -> Outcome:
    checkout = build("pimsim-nn")
    example = checkout / "example" / "config"
    config = json.loads((example / "latency_config.json").read_text())
    config["sim_config"] |= {"sim_mode": 1, "sim_time": PIMSIM_LIMIT_MS}
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        hardware = _mesh_of_64()
        copies = None
        if arrays:
            allocation = optimize(
                network, arrays=arrays, hardware=hardware, objective=objective, progress=False
            )
            export(network, allocation, "pimcomp").save(folder)
            copies = folder / "replication.json"
        else:
            export(network, {}, "pimcomp", hardware=hardware).save(folder)
        stored = _pimcomp(folder, "element", copies=copies, simulation=folder / "sim.gz", margin=margin)
        shutil.copy(example / "network_mesh_64.json", folder)
        (folder / "latency.json").write_text(json.dumps(config))
        done = subprocess.run(
            [str(checkout / "build" / "ChipTest"), str(folder / "sim.gz"), str(folder / "latency.json")],
            cwd=folder, capture_output=True, text=True, errors="replace", timeout=LIMIT_S,
            env={**os.environ, "LD_LIBRARY_PATH": str(checkout / "build" / "packages" / "systemc" / "src")},
        )  # fmt: skip
    report = done.stdout.partition("Chip Simulation Result")[2]
    latency = re.search(r"latency:\s*([\d.]+)\s*(ms|us|ns|s)\b", report)
    if done.returncode or latency is None:
        raise RuntimeError(f"pimsim-nn ended with code {done.returncode}: {done.stdout[-100:]!r}")
    if not float(latency[1]):
        raise RuntimeError(f"pimsim-nn did not end within {PIMSIM_LIMIT_MS} ms of simulated time")
    return Outcome(stored.arrays, float(latency[1]) * {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[latency[2]])


def _mesh_of_64() -> Hardware:
    preset = load_hardware("pimcomp")
    assert preset.chip is not None
    return preset.model_copy(update={"chip": preset.chip.model_copy(update={"tiles": (8, 8)})})


# The page ---------------------------------------------------------------------------------------------------


def measure(book: Book, tools: Iterable[str]) -> None:
    """Run what is not in the book."""
    wanted = set(tools)
    for network in NETWORKS:
        for tool in MODES:
            if tool in wanted:
                pimcomp(book, network, tool)
    peers_simulators.measure(book.run, wanted)
    if "pimsim-nn" in wanted:
        for budget in MARGINS:
            for network in PIMSIM_NETWORKS:
                pimsim(book, network, budget)


INTRODUCTION = """\
Made by `RRAMALLOC_PEERS=FOLDER python results/peers.py`; `results/peers.csv` has every run. Times in ms, as
each tool reports them, at equal arrays: the tool allocates, and ours is searched for with as many arrays as
that took, once for the latency and once for the interval. PIMCOMP's balance rule is deterministic. Its
genetic search is seeded by the clock and chooses, beside the copies, the core of every array group for this
very figure; our copies are placed as those of its balance rule, and no search of ours sees its cores. Of
several runs the median stands here; `runs` says how many there were. `ratio`: the better of ours by
its own, below 1 ours is faster; differences below 10 % are ties. Steps, which our search minimises,
do not see the communication and synchronisation that bound these figures.

MNSIM chooses no copies: its own is one of each layer, on fewer arrays than ours. NeuroSim's figure is the
cycle of its pipeline per image, at equal arrays, not at equal area. PIMSYN counts the arrays of grouped
convolutions in its own way, so ours for ShuffleNet takes up to 12 % more of them. pimsim-nn has 64 cores:
AlexNet and VGG-16 do not fit.\
"""


def page(book: Book) -> str:
    """The tables of results/peers.md."""
    lines = ["# Allocations in the tools", "", INTRODUCTION, ""]
    for tool in dict.fromkeys(row.tool for row in book.rows.values()):
        lines += [f"## {tool}", ""]
        table = [["network", "budget", "arrays", "its own", "runs", *OURS, "arrays of ours", "ratio"]]
        ratios = []
        pairs = dict.fromkeys((row.network, row.budget) for row in book.rows.values() if row.tool == tool)
        for network, budget in sorted(pairs, key=_place):
            cells, ratio = _line(book, tool, network, budget)
            table.append(cells)
            ratios += [] if ratio is None else [ratio]
        lines += markdown(table)
        if ratios:
            won = sum(ratio < 0.9 for ratio in ratios)
            lost = sum(ratio > 1.1 for ratio in ratios)
            middle = statistics.geometric_mean(ratios)
            summary = (
                f"Of {len(ratios)} cases ours is faster in {won}, slower in {lost}, "
                f"{len(ratios) - won - lost} are ties; the geometric mean of the ratios is {middle:.2f}."
            )
            lines += [summary, ""]
    notes = [f"- {row.tool}, {row.network}, {row.budget}, {row.allocation}: {row.note}"
             for row in book.rows.values() if row.note]  # fmt: skip
    return "\n".join([*lines, *(["## Not run to the end", "", *notes, ""] if notes else [])])


def _place(pair: tuple[str, str]) -> tuple[int, str, str]:
    """Order of the rows of a table: the networks that all tools share first."""
    network, budget = pair
    return NETWORKS.index(network) if network in NETWORKS else len(NETWORKS), network, budget


def _line(book: Book, tool: str, network: str, budget: str) -> tuple[list[str], float | None]:
    rows = [
        row for row in book.rows.values() if (row.tool, row.network, row.budget) == (tool, network, budget)
    ]
    medians = {name: _median([row for row in rows if row.allocation == name]) for name in ("its own", *OURS)}
    own, ours = medians["its own"], [medians[name] for name in OURS]
    best = min((row.value for row in ours if row is not None and row.value is not None), default=None)
    ratio = best / own.value if best is not None and own is not None and own.value is not None else None
    runs = sum(row.allocation == "its own" and row.value is not None for row in rows)
    return [
        network, budget, "-" if own is None else str(own.arrays), _ms(own), str(runs), *map(_ms, ours),
        ", ".join(str(row.arrays) for row in ours if row is not None) or "-",
        "-" if ratio is None else f"{ratio:.2f}",
    ], ratio  # fmt: skip


def _median(rows: list[Row]) -> Row | None:
    """The run with the median figure, the slower one of two in the middle; None if none ended."""
    done = sorted((row for row in rows if row.value is not None), key=lambda row: row.value or 0.0)
    return done[len(done) // 2] if done else None


def _ms(row: Row | None) -> str:
    return "-" if row is None or row.value is None else f"{row.value / 1e6:.4g}"


def main() -> None:
    """Measure what is missing and write the page."""
    measure(Book(), sys.argv[1:] or (*MODES, "pimsim-nn", "PIMSYN", "MNSIM", "NeuroSim"))
    PAGE.write_text(page(Book()), encoding="utf-8")


if __name__ == "__main__":
    main()
