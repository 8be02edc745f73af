"""Own clocks against common steps: gaps of `auto`, and what a simulation costs.

python results/clocks.py [--networks N ...] [--crossbars 128 ...] [--factors 2 ...] [--fresh] [--page]

Runs what results/clocks.csv lacks and appends it there, then writes results/clocks.md. A case is a network on
square arrays with a budget; with own clocks every stage has a period drawn from 1 ... 16 ticks, the same in
every run. Both searches have the default work, seed 0 and one core.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass, replace
from itertools import product
from random import Random

import numpy as np
from measured import RESULTS
from pages import by_budget
from rows import read, write
from search import CHAINS, CROSSBARS, FACTORS, NETWORKS

from rramalloc.allocation.case import Case
from rramalloc.hardware.loader import load_hardware
from rramalloc.importers import load
from rramalloc.mapping.mode import Mode
from rramalloc.search import auto
from rramalloc.search.problem import Problem
from rramalloc.search.work import Work
from rramalloc.timing.kernel import NEXT_STEP, batch_starts
from rramalloc.timing.simulate import makespan_of
from rramalloc.timing.stage_graph import BatchTicks

LONGEST = 16
GAP_GOAL, COST_GOAL = 1.5, 1.3
RUNS = 200
CSV, PAGE = RESULTS / "clocks.csv", RESULTS / "clocks.md"


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


def run(network: str, crossbar: int, factor: float) -> Row:
    """Search with and without own clocks, and time simulations of the answer of the first."""
    hardware = load_hardware("plain").with_crossbar(crossbar, crossbar)
    problem = Case(load(network), hardware).problem(2**30)
    problem = replace(problem, budget=int(problem.minimum * factor))
    begun = time.process_time()
    plain = auto.solve(problem, Work(cores=1), 0)
    steps_s = time.process_time() - begun
    periods = Periods(f"{network} {crossbar} {factor}", len(problem.demand))
    own = replace(problem, graph=problem.graph.timed(periods))
    begun = time.process_time()
    clocked = auto.solve(own, Work(cores=1), 0)
    return Row(
        network=network, crossbar=crossbar, factor=factor, arrays=problem.budget,
        steps=makespan_of(problem.graph, plain.choice.copies), steps_bound=plain.lower_bound,
        steps_s=round(steps_s, 2), ticks=makespan_of(own.graph, clocked.choice.copies),
        ticks_bound=clocked.lower_bound, ticks_s=round(time.process_time() - begun, 2),
        cost=round(cost(problem, plain.choice.copies, np.array(periods.ticks, dtype=np.int64)), 3),
    )  # fmt: skip


def cost(problem: Problem, copies: np.ndarray, ticks: np.ndarray) -> float:
    """Processor time of a simulation in ticks over that of one in steps, in turn, the least of each."""
    graph = problem.graph
    size = int((-(-graph.windows // copies)).sum())
    room = {None: np.empty(size, np.int32), "ticks": np.empty(size, np.int64)}
    first = np.empty(len(copies) + 1, dtype=np.int64)
    spent: dict[str | None, list[float]] = {None: [], "ticks": []}
    for number in range(RUNS):
        for kind, own in ((None, None), ("ticks", ticks)):
            begun = time.perf_counter()
            batch_starts(graph.flat_binding, None, own, copies, NEXT_STEP, room[kind], first)
            if number:
                spent[kind].append(time.perf_counter() - begun)
    return min(spent["ticks"]) / min(spent[None])


def page(rows: list[Row]) -> str:
    about = (
        f"{len(rows)} cases: networks on square arrays, budgets as multiples of the minimum. `auto` with "
        f"common steps, and with own clocks whose periods are drawn from 1 ... {LONGEST} ticks for every "
        "stage; default work, seed 0, one core. Gap: distance of the makespan from its lower bound."
    )
    lines = [
        "# Own clocks: gaps and cost",
        "",
        "Made by `python results/clocks.py`.",
        "",
        about,
        "",
        "| networks | cases | gap, steps: median | mean | gap, own clocks: median | mean | largest |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, chosen in (
        ("chains", [row for row in rows if row.network in CHAINS]),
        ("others", [row for row in rows if row.network not in CHAINS]),
        ("all", rows),
    ):
        if not chosen:
            continue
        plain, own = [row.steps_gap for row in chosen], [row.ticks_gap for row in chosen]
        cells = [name, str(len(chosen))]
        cells += [f"{value:.1%}" for value in (statistics.median(plain), statistics.mean(plain))]
        cells += [f"{value:.1%}" for value in (statistics.median(own), statistics.mean(own), max(own))]
        lines.append("| " + " | ".join(cells) + " |")
    costs = [row.cost for row in rows]
    times = [row.ticks_s / max(row.steps_s, 0.01) for row in rows]
    within = sum(row.ticks_gap <= GAP_GOAL * row.steps_gap + 1e-9 for row in rows)
    gaps = f"at most {GAP_GOAL:g} times that with steps (goal): {within} of {len(rows)} cases"
    longer = f"{statistics.median(costs):.2f} times as long in the median, {max(costs):.2f} at most"
    search = f"{statistics.median(times):.2f} times that with steps in the median"
    lines += [
        "",
        f"- gap with own clocks {gaps}",
        f"- a simulation of the same allocation takes {longer} (goal {COST_GOAL:g})",
        f"- processor time of a search with the default work: {search}",
        "",
        "Ticks and gap with own clocks by network, lines of an array, and budget; all else: `clocks.csv`.",
        "",
    ]
    lines += by_budget({row.case: f"{row.ticks} ({row.ticks_gap:.1%})" for row in rows})
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--crossbars", nargs="+", type=int, default=CROSSBARS)
    parser.add_argument("--factors", nargs="+", type=float, default=FACTORS)
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--page", action="store_true", help="only write the page")
    asked = parser.parse_args()
    rows = {row.case: row for row in ([] if asked.fresh else read(CSV, Row))}
    for case in product(asked.networks, asked.crossbars, asked.factors):
        if case not in rows and not asked.page:
            rows[case] = run(*case)
            print(rows[case], flush=True)
            write(CSV, rows.values(), Row)
    order = {case: place for place, case in enumerate(product(NETWORKS, CROSSBARS, FACTORS))}
    ordered = sorted(rows.values(), key=lambda row: order.get(row.case, len(order)))
    write(CSV, ordered, Row)
    PAGE.write_text(page(ordered))


if __name__ == "__main__":
    main()
