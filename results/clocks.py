"""Own clocks against common steps: gaps of `auto`, and what a simulation costs.

A case is a network on square arrays with a budget; with own clocks every stage has a period drawn from 1 to
16 ticks, the same in every run. Both searches have the default work, seed 0 and one core.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from random import Random

import numpy as np
from pages import SEARCHED, Study, by_budget, gaps_by_networks
from search import CHAINS, CROSSBARS, FACTORS, NETWORKS

from rramalloc.allocation.case import Case
from rramalloc.hardware.loader import load_hardware
from rramalloc.importers import load
from rramalloc.mapping.mode import Mode
from rramalloc.search import auto
from rramalloc.search.problem import Problem
from rramalloc.search.resources import Cost
from rramalloc.search.work import Work
from rramalloc.timing.kernel import NEXT_STEP, batch_starts
from rramalloc.timing.simulate import makespan_of
from rramalloc.timing.stage_graph import BatchTicks

LONGEST = 16
RUNS = 200


@dataclass(frozen=True, kw_only=True)
class Row:
    """One case. steps: of auto with common steps; ticks: with own clocks; *_s: processor time; cost: time of
    a simulation of the same allocation with own clocks over that with steps.
    """

    network: str
    crossbar: int
    factor: float
    arrays: int
    steps: int
    steps_bound: int
    steps_s: float
    ticks: int
    ticks_bound: int
    ticks_s: float
    cost: float

    @property
    def case(self) -> tuple[str, int, float]:
        return self.network, self.crossbar, self.factor

    @property
    def steps_gap(self) -> float:
        return 1 - self.steps_bound / self.steps

    @property
    def ticks_gap(self) -> float:
        return 1 - self.ticks_bound / self.ticks


class Periods:
    """Random periods of all stages of a case."""

    def __init__(self, seed: str, stages: int) -> None:
        random = Random(seed)
        self.ticks = [random.randint(1, LONGEST) for _ in range(stages)]

    def __call__(self, stage: int, mode: Mode) -> BatchTicks:
        return BatchTicks((self.ticks[stage],), 0.0)


def problem_of(network: str, crossbar: int, factor: float) -> Problem:
    """Return a case with common steps."""
    hardware = load_hardware("plain").with_crossbar(crossbar, crossbar)
    problem = Case(load(network), hardware).problem(2**30)
    return replace(problem, budget=Cost(int(problem.minimum * factor)))


def periods_of(network: str, crossbar: int, factor: float, problem: Problem) -> Periods:
    """Return the periods of a case, the same in every run."""
    return Periods(f"{network} {crossbar} {factor}", len(problem.demand))


def run(network: str, crossbar: int, factor: float) -> list[Row]:
    """Search with and without own clocks, and time simulations of the answer of the first."""
    problem = problem_of(network, crossbar, factor)
    begun = time.process_time()
    plain = auto.solve(problem, Work(cores=1), 0)
    steps_s = time.process_time() - begun
    periods = periods_of(network, crossbar, factor, problem)
    own = replace(problem, graph=problem.graph.timed(periods))
    begun = time.process_time()
    clocked = auto.solve(own, Work(cores=1), 0)
    row = Row(
        network=network, crossbar=crossbar, factor=factor, arrays=problem.budget,
        steps=makespan_of(problem.graph, plain.choice.copies), steps_bound=int(plain.lower_bound),
        steps_s=round(steps_s, 2), ticks=makespan_of(own.graph, clocked.choice.copies),
        ticks_bound=int(clocked.lower_bound), ticks_s=round(time.process_time() - begun, 2),
        cost=round(cost(problem, plain.choice.copies, np.array(periods.ticks, dtype=np.int64)), 3),
    )  # fmt: skip
    return [row]


def cost(problem: Problem, copies: np.ndarray, ticks: np.ndarray) -> float:
    """Processor time of a simulation in ticks over that of one in steps, in turn, the least of each."""
    graph = problem.graph
    size = int((-(-graph.windows // copies)).sum())
    in_steps = (np.ones_like(ticks), np.empty(size, np.int32))
    in_ticks = (ticks, np.empty(size, np.int64))
    first = np.empty(len(copies) + 1, dtype=np.int64)
    spent: tuple[list[float], list[float]] = ([], [])
    for number in range(RUNS):
        for kind, (own, starts) in enumerate((in_steps, in_ticks)):
            begun = time.perf_counter()
            batch_starts(graph.flat_binding, None, own, copies, NEXT_STEP, starts, first)
            if number:
                spent[kind].append(time.perf_counter() - begun)
    return min(spent[1]) / min(spent[0])


def answer(rows: Sequence[Row]) -> str:
    """Return the gaps with and without own clocks."""
    own, plain = ([getattr(row, name) for row in rows] for name in ("ticks_gap", "steps_gap"))
    return (
        f"**With own clocks the gap is {statistics.median(own):.1%} in the median** ({max(own):.1%} at "
        f"most), with common "
        f"steps {statistics.median(plain):.1%} ({max(plain):.1%})."
    )


def body(rows: Sequence[Row]) -> Iterator[str]:
    """Yield gaps of kinds of networks, the cost of ticks, and every case."""
    yield (
        f"{len(rows)} cases: networks on square arrays, budgets as multiples of the minimum. `auto` with "
        f"common steps, and with own clocks whose periods are drawn from 1 ... {LONGEST} ticks for every "
        "stage; default work, seed 0, one core. Gap: distance of the makespan from its lower bound."
    )
    yield ""
    yield from gaps_by_networks(rows, CHAINS, (", steps", ", own clocks"), ("steps_gap", "ticks_gap"))
    costs = [row.cost for row in rows]
    times = [row.ticks_s / max(row.steps_s, 0.01) for row in rows]
    yield (
        f"A simulation of the same allocation in ticks takes {statistics.median(costs):.2f} times as long "
        f"as in steps in "
        f"the median, {max(costs):.2f} at most; a search {statistics.median(times):.2f} times in the median."
    )
    yield ""
    yield "Ticks and gap with own clocks by network, lines of an array, and budget; all else: `clocks.csv`."
    yield ""
    yield from by_budget({row.case: f"{row.ticks} ({row.ticks_gap:.1%})" for row in rows})


STUDY = Study(
    title="Own clocks: gaps and cost",
    question="Are allocations as close to their bound when stages have clocks of their own?",
    row=Row,
    cases=list(product(NETWORKS, CROSSBARS, FACTORS)),
    measure=run,
    answer=answer,
    body=body,
    decided_by=SEARCHED,
)
