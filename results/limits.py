"""Gaps of `auto` where copies of layers are held or limited, against those of the same cases without limits.

A case is a network on square arrays with a budget; every second layer on average is held at, or limited to,
numbers of copies that are drawn, the same in every run. Default work, seed 0.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from random import Random

from pages import SEARCHED, Study, gaps_by_networks, markdown
from search import CHAINS

from rramalloc.allocation.case import Case
from rramalloc.errors import BudgetError
from rramalloc.hardware.loader import load_hardware
from rramalloc.importers import load
from rramalloc.search import auto
from rramalloc.search.problem import Problem
from rramalloc.search.work import Work

NETWORKS = (
    *("alexnet", "vgg16", "resnet18", "squeezenet"),
    *("inception_v1", "mobilenet_v2", "shufflenet", "unet"),
)
CROSSBARS, FACTORS = (128,), (2.0, 16.0)
HELD = 0.5
"""Share of the layers that are held or limited."""


@dataclass(frozen=True)
class Row:
    """One case: the makespan and its bound, without limits and with those of `held` layers."""

    network: str
    crossbar: int
    factor: float
    arrays: int
    free: int
    free_bound: int
    held: int
    limited: int
    limited_bound: int

    @property
    def free_gap(self) -> float:
        return 1 - self.free_bound / self.free

    @property
    def gap(self) -> float:
        return 1 - self.limited_bound / self.limited


def limits(case: Case, seed: str) -> dict[str, tuple[int, int]]:
    """Draw the fewest and the most copies of some layers: one number, or up to four times the least."""
    random, drawn = Random(seed), dict[str, tuple[int, int]]()
    for name, most in zip(case.graph.names, case.graph.most_copies.tolist(), strict=True):
        if random.random() < HELD:
            low = random.randint(1, min(4, most))
            drawn[name] = low, min(most, low * random.choice((1, 2, 4)))
    return drawn


def run(network: str, crossbar: int, factor: float) -> list[Row]:
    """Search with and without limits. A budget that the limits exceed becomes the least they need."""
    case = Case(load(network), load_hardware("plain").with_crossbar(crossbar, crossbar))
    drawn = limits(case, f"{network} {crossbar} {factor}")
    held = replace(case, copies=drawn)
    arrays = int(case.minimum * factor)
    try:
        problem = held.problem(arrays)
    except BudgetError as error:
        arrays = error.need
        problem = held.problem(arrays)
    free, limited = (_solved(each) for each in (case.problem(arrays), problem))
    return [Row(network, crossbar, factor, arrays, *free, len(drawn), *limited)]


def _solved(problem: Problem) -> tuple[int, int]:
    answer = auto.solve(problem, Work(cores=1), 0)
    return answer.choice.makespan, int(answer.lower_bound)


def answer(rows: Sequence[Row]) -> str:
    """Return the gaps with and without limits."""
    free, limited = [row.free_gap for row in rows], [row.gap for row in rows]
    return (
        f"**With limits the gap is {statistics.median(limited):.1%} in the median** ({max(limited):.1%} at "
        f"most), without "
        f"them {statistics.median(free):.1%} ({max(free):.1%})."
    )


def body(rows: Sequence[Row]) -> Iterator[str]:
    """Yield gaps of kinds of networks, and every case."""
    yield (
        f"{len(rows)} cases: networks on square arrays, budgets as multiples of the minimum, at least what "
        "the limits need. On average every second layer is held at or limited to drawn numbers of copies."
    )
    yield ""
    yield from gaps_by_networks(rows, CHAINS, (" without limits", " with limits"), ("free_gap", "gap"))
    each_case = [["network", "lines", "x min", "arrays", "steps", "gap", "held", "steps", "gap"]]
    for row in rows:
        case = [row.network, str(row.crossbar), f"{row.factor:g}", str(row.arrays)]
        found = [str(row.held), str(row.limited), f"{row.gap:.1%}"]
        each_case.append([*case, str(row.free), f"{row.free_gap:.1%}", *found])
    yield from markdown(each_case)


STUDY = Study(
    title="Copies that are held or limited",
    question="Are allocations as close to their bound when copies of layers are held or limited?",
    row=Row,
    cases=list(product(NETWORKS, CROSSBARS, FACTORS)),
    measure=run,
    answer=answer,
    body=body,
    decided_by=SEARCHED,
)
