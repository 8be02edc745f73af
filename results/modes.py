"""Modes against copies: the makespan of `auto` with mapping sdk and im2col, and of baselines."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from pages import SEARCHED, Study, by_budget, markdown

from rramalloc.allocation.case import Case
from rramalloc.hardware.loader import load_hardware
from rramalloc.importers import load
from rramalloc.mapping.demand import Storage
from rramalloc.mapping.options import MappingOptions
from rramalloc.methods.registry import method_named, method_names
from rramalloc.search import auto, repair
from rramalloc.search.problem import Answer, Problem
from rramalloc.search.work import Work
from rramalloc.timing.simulate import makespan_of

CHAINS = ("alexnet", "vgg16")
NETWORKS = (
    *CHAINS, "resnet18", "resnet50", "squeezenet", "inception_v1", "mobilenet_v2", "densenet121", "unet",
)  # fmt: skip
CROSSBARS, FACTORS = (128, 256, 512), (1.2, 2.0, 4.0, 16.0)
"""Lines of square arrays, and budgets as multiples of the minimum of im2col, rounded down."""
BASELINES = ("sdk", "vw-sdk", "gain", "balance", "proportional")


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


def clocked(call: Callable[[], Answer]) -> tuple[Answer, float]:
    """Return a result and the processor seconds that it took."""
    begun = time.process_time()
    result = call()
    return result, time.process_time() - begun


def run(network: str, crossbar: int, factor: float) -> list[Row]:
    """Search with and without modes, and run the baselines."""
    problem = problem_of(network, crossbar, factor)
    without = replace(problem, storage=Storage.of_copies(problem.demand))
    plain, plain_s = clocked(lambda: auto.solve(without, Work(cores=1), 0))
    modes, modes_s = clocked(lambda: auto.solve(problem, Work(cores=1), 0))
    reached = {}
    for name in BASELINES:
        if name in method_names():
            candidate = method_named(name).solve(problem, Work(), 0)
            copies = repair.fitting(problem, candidate.choice.copies, candidate.choice.modes)
            reached[name] = makespan_of(problem.in_modes(candidate.choice.modes).graph, copies)
    best = min(reached, key=lambda name: reached[name])
    row = Row(
        network=network, crossbar=crossbar, factor=factor, arrays=problem.budget,
        plain=makespan_of(problem.graph, plain.choice.copies), plain_bound=round(plain.lower_bound),
        plain_s=round(plain_s, 2),
        modes=makespan_of(problem.in_modes(modes.choice.modes).graph, modes.choice.copies),
        modes_bound=round(modes.lower_bound), modes_s=round(modes_s, 2),
        baseline=reached[best], baseline_method=best,
    )  # fmt: skip
    return [row]


def answer(rows: Sequence[Row]) -> str:
    """Return how much faster modes are."""
    ratios = [
        f"{statistics.median(own):.2f} on {crossbar} x {crossbar}"
        for crossbar in CROSSBARS
        if (own := [row.ratio for row in rows if row.crossbar == crossbar])
    ]
    gaps = [row.gap for row in rows]
    return (
        f"**Modes are faster than copies alone, times in the median: {', '.join(ratios)}**; their gap is "
        f"{statistics.median(gaps):.1%} in the median, {max(gaps):.1%} at most."
    )


def body(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a table by size of the arrays, comparisons, and every case."""
    yield (
        f"{len(rows)} cases: networks on square arrays, budgets as multiples of im2col's minimum. `auto` "
        "with mapping im2col (copies) and with mapping sdk (blocks and copies), default work, seed 0, one "
        "core; "
        f"the best of the baselines {', '.join(BASELINES)}. Gap: distance of the makespan from the lower "
        "bound over all modes."
    )
    yield ""
    table = [["arrays", "cases", "im2col / sdk, median", "least", "most", "gap, median", "largest"]]
    for crossbar in CROSSBARS:
        own = [row for row in rows if row.crossbar == crossbar]
        if own:
            ratios, gaps = [row.ratio for row in own], [row.gap for row in own]
            ratio = [f"{value:.2f}" for value in (statistics.median(ratios), min(ratios), max(ratios))]
            gap = [f"{value:.1%}" for value in (statistics.median(gaps), max(gaps))]
            table.append([f"{crossbar} x {crossbar}", str(len(own)), *ratio, *gap])
    yield from markdown(table)
    for words, own in (
        ("chains", [row for row in rows if row.network in CHAINS]),
        ("branching networks", [row for row in rows if row.network not in CHAINS]),
    ):
        if own:
            gaps, times = [row.gap for row in own], [row.modes_s for row in own]
            yield (
                f"- {words}: gap {statistics.median(gaps):.1%} in the median, {max(gaps):.1%} at most; "
                f"time {statistics.median(times):.1f} s in the median, {max(times):.1f} s at most"
            )
    slower = sum(row.modes > row.plain for row in rows)
    beaten = sum(row.baseline < row.modes for row in rows)
    yield f"- slower than without modes: {slower} cases; slower than a baseline: {beaten} cases"
    yield ""
    yield "Steps with im2col, with sdk, and the gap, by network, lines of an array, and budget (`modes.csv`)."
    yield ""
    yield from by_budget(
        {(row.network, row.crossbar, row.factor): f"{row.plain}, {row.modes} ({row.gap:.1%})" for row in rows}
    )


STUDY = Study(
    title="Modes: blocks and copies against copies alone",
    question="How much faster are blocks of windows and copies than copies alone, on the same arrays?",
    row=Row,
    cases=list(product(NETWORKS, CROSSBARS, FACTORS)),
    measure=run,
    answer=answer,
    body=body,
    decided_by=SEARCHED,
)
