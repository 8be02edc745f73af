"""Modes against copies: the makespan of `auto` with mapping sdk and im2col, and of baselines.

python results/modes.py [--networks N ...] [--crossbars 128 ...] [--factors 2 ...] [--fresh] [--page]

Runs what results/modes.csv lacks and appends it there, then writes results/modes.md. Times are of one process
with compiled code in its cache, from the problem to the candidate, on the machine at hand.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from measured import RESULTS
from pages import by_budget
from rows import append, read

from rramalloc.allocation.case import Case
from rramalloc.hardware.loader import load_hardware
from rramalloc.importers import load
from rramalloc.mapping.demand import Storage
from rramalloc.mapping.options import MappingOptions
from rramalloc.methods.registry import method_named, method_names
from rramalloc.search import auto, repair
from rramalloc.search.problem import Problem
from rramalloc.search.work import Work
from rramalloc.timing.kernel import NEXT_STEP, Shapes, batch_starts
from rramalloc.timing.simulate import makespan_of

CHAINS = ("alexnet", "vgg16")
NETWORKS = (
    *CHAINS, "resnet18", "resnet50", "squeezenet", "inception_v1", "mobilenet_v2", "densenet121", "unet",
)  # fmt: skip
CROSSBARS, FACTORS = (128, 256, 512), (1.2, 2.0, 4.0, 16.0)
"""Lines of square arrays, and budgets as multiples of the minimum of im2col, rounded down."""
BASELINES = ("sdk", "vw-sdk", "gain", "balance", "proportional")
GOALS = {128: 1.2, 256: 1.6, 512: 2.3}
"""Ratios im2col / sdk in the median."""
CSV, PAGE = RESULTS / "modes.csv", RESULTS / "modes.md"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One case. plain: auto without modes; modes: auto with them; baseline: the best of them."""

    network: str
    crossbar: int
    factor: float
    arrays: int
    plain: int
    plain_bound: int
    plain_s: float
    modes: int
    modes_bound: int
    modes_s: float
    counted_s: float
    baseline: int
    baseline_method: str

    @property
    def ratio(self) -> float:
        return self.plain / self.modes

    @property
    def gap(self) -> float:
        return 1 - self.modes_bound / self.modes


def problem_of(network: str, crossbar: int, factor: float) -> Problem:
    """The problem with modes; its budget is that factor of the arrays that im2col needs."""
    hardware = load_hardware("plain").with_crossbar(crossbar, crossbar)
    net, options = load(network), MappingOptions(mapping="sdk")
    minimum = Case(net, hardware, options).problem(2**30).minimum
    return Case(net, hardware, options).problem(int(minimum * factor + 1e-9))


def clocked(call: Callable[[], Any]) -> tuple[Any, float]:
    begun = time.perf_counter()
    result = call()
    return result, time.perf_counter() - begun


def run(network: str, crossbar: int, factor: float) -> Row:
    problem = problem_of(network, crossbar, factor)
    without = replace(problem, storage=Storage.of_copies(problem.demand))
    plain, plain_s = clocked(lambda: auto.solve(without, Work(), 0))
    modes, modes_s = clocked(lambda: auto.solve(problem, Work(), 0))
    reached = {}
    for name in BASELINES:
        if name in method_names():
            candidate = method_named(name).solve(problem, Work(), 0)
            copies = repair.fitting(problem, candidate.choice.copies, candidate.choice.modes)
            reached[name] = makespan_of(problem.in_blocks(candidate.choice.modes).graph, copies)
    best = min(reached, key=lambda name: reached[name])
    return Row(
        network=network, crossbar=crossbar, factor=factor, arrays=problem.budget,
        plain=makespan_of(problem.graph, plain.choice.copies), plain_bound=plain.lower_bound,
        plain_s=round(plain_s, 2),
        modes=makespan_of(problem.in_blocks(modes.choice.modes).graph, modes.choice.copies),
        modes_bound=modes.lower_bound, modes_s=round(modes_s, 2), counted_s=round(modes.work_s or 0.0, 2),
        baseline=reached[best], baseline_method=best,
    )  # fmt: skip


def simulations_per_second() -> float:
    """Exact simulations of VGG-16 with blocks on 4096 arrays of 128 x 128, one core, median of seven."""
    hardware = load_hardware("plain")
    problem = Case(load("vgg16"), hardware, MappingOptions(mapping="sdk")).problem(4096)
    candidate = auto.solve(problem, Work(work=20), 0)
    graph = problem.in_blocks(candidate.choice.modes).graph
    shapes, copies = Shapes.of(graph.grids), candidate.choice.copies
    starts, first = np.empty(2**20, dtype=np.int32), np.empty(len(copies) + 1, dtype=np.int64)
    rates = []
    for _ in range(7):
        begun = time.perf_counter()
        for _ in range(2000):
            batch_starts(graph.flat_extents, shapes, None, copies, NEXT_STEP, starts, first)
        rates.append(2000 / (time.perf_counter() - begun))
    return statistics.median(rates)


def page(rows: list[Row], rate: float, note: str) -> str:
    """The page, from the rows; note: how the times were taken."""
    order = {name: place for place, name in enumerate(NETWORKS)}
    rows = sorted(rows, key=lambda row: (order[row.network], row.crossbar, row.factor))

    def median(values: Iterable[float]) -> float:
        return statistics.median(list(values))

    lines = [
        "# Modes: blocks and copies against copies alone", "",
        "Made by `python results/modes.py`.", *(["", note] if note else []), "",
        (
            f"{len(rows)} cases: networks on square arrays, budgets as multiples of im2col's minimum. `auto` "
            "with mapping im2col (copies) and with mapping sdk (blocks and copies), default work, seed 0; "
            f"the best of the baselines {', '.join(BASELINES)}. Gap: distance of the makespan from the lower "
            "bound over all modes."
        ), "",
        "| arrays | cases | im2col / sdk, median (goal) | least | most | gap, median | largest |",
        "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for crossbar in CROSSBARS:
        own = [row for row in rows if row.crossbar == crossbar]
        if own:
            ratios = [row.ratio for row in own]
            lines.append(
                f"| {crossbar} x {crossbar} | {len(own)} | {median(ratios):.2f} ({GOALS[crossbar]}) | "
                f"{min(ratios):.2f} | {max(ratios):.2f} | {median(row.gap for row in own):.1%} | "
                f"{max(row.gap for row in own):.1%} |"
            )
    lines.append("")
    for words, own in (
        ("chains", [row for row in rows if row.network in CHAINS]),
        ("branching networks", [row for row in rows if row.network not in CHAINS]),
    ):
        if own:
            lines.append(
                f"- {words}: gap {median(row.gap for row in own):.1%} in the median, "
                f"{max(row.gap for row in own):.1%} at most; "
                f"time {median(row.modes_s for row in own):.1f} s in the median, "
                f"{max(row.modes_s for row in own):.1f} s at most"
            )
    slower = [row for row in rows if row.modes > row.plain]
    beaten = [row for row in rows if row.baseline < row.modes]
    lines += [
        f"- slower than without modes: {len(slower)} cases; slower than a baseline: {len(beaten)} cases",
        f"- {rate:,.0f} exact simulations of VGG-16 with its blocks on 4096 arrays a second, one core",
        "",
        "Steps with im2col, with sdk, and the gap, by network, lines of an array, and budget (`modes.csv`).",
        "",
    ]
    cells = {
        (row.network, row.crossbar, row.factor): f"{row.plain}, {row.modes} ({row.gap:.1%})" for row in rows
    }
    lines += by_budget(cells)
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS))
    parser.add_argument("--crossbars", nargs="+", type=int, default=list(CROSSBARS))
    parser.add_argument("--factors", nargs="+", type=float, default=list(FACTORS))
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--page", action="store_true", help="only write the page")
    parser.add_argument("--note", default="", help="a sentence for the page, on how the times were taken")
    chosen = parser.parse_args()
    if chosen.fresh:
        CSV.unlink(missing_ok=True)
    rows: list[Row] = read(CSV, Row)
    done = {(row.network, row.crossbar, row.factor) for row in rows}
    cases = [] if chosen.page else product(chosen.networks, chosen.crossbars, chosen.factors)
    for case in cases:
        if case not in done:
            row = run(*case)
            append(CSV, row)
            rows.append(row)
            print(row, flush=True)
    PAGE.write_text(page(rows, simulations_per_second(), chosen.note), encoding="utf-8")


if __name__ == "__main__":
    main()
