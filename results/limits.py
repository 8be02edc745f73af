"""Gaps of `auto` where copies of layers are held or limited, against those of the same cases without limits.

python results/limits.py [--networks N ...] [--crossbars 128 ...] [--factors 2 ...]

Writes results/limits.md. By default 16 cases, which take minutes; all 96 of results/search.py, with
--networks, --crossbars 128 256 and --factors 1.2 2 4 16, take an hour. A case is a network on square arrays
with a budget; every second layer on average is held at, or limited to, numbers of copies that are drawn, the
same in every run. Default work, seed 0.
"""

from __future__ import annotations

import argparse
import statistics
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import product
from random import Random
from typing import NamedTuple

from measured import RESULTS
from pages import markdown
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
GAP_GOAL = 1.5
"""Ratio of the gaps in the median that is wanted at most."""
HELD = 0.5
"""Share of the layers that are held or limited."""
PAGE = RESULTS / "limits.md"


class Row(NamedTuple):
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


def run(asked: tuple[str, int, float]) -> Row:
    """Search with and without limits. A budget that the limits exceed becomes the least they need."""
    network, crossbar, factor = asked
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
    return Row(network, crossbar, factor, arrays, *free, len(drawn), *limited)


def _solved(problem: Problem) -> tuple[int, int]:
    answer = auto.solve(problem, Work(cores=1), 0)
    return answer.choice.makespan, answer.lower_bound


def page(rows: list[Row]) -> str:
    """Return the page of all cases."""
    about = (
        f"{len(rows)} cases: networks on square arrays, budgets as multiples of the minimum, at least what "
        "the limits need. On average every second layer is held at or limited to drawn numbers of copies."
    )
    title = "# Copies that are held or limited: gaps"
    lines = [title, "", "Made by `python results/limits.py`.", "", about, ""]
    heads = ["networks", "cases", "gap without limits: median", "mean", "gap with limits: median", "mean"]
    table = [[*heads, "largest"]]
    for name, chosen in (
        ("chains", [row for row in rows if row.network in CHAINS]),
        ("others", [row for row in rows if row.network not in CHAINS]),
        ("all", rows),
    ):
        free, held = [row.free_gap for row in chosen] or [0.0], [row.gap for row in chosen] or [0.0]
        each = (statistics.median(free), statistics.mean(free), statistics.median(held))
        figures = [f"{gap:.1%}" for gap in (*each, statistics.mean(held), max(held))]
        table.append([name, str(len(chosen)), *figures])
    within = sum(row.gap <= GAP_GOAL * row.free_gap + 1e-9 for row in rows)
    lines += markdown(table)
    lines += [f"Gap at most {GAP_GOAL:g} times that without limits: {within} of {len(rows)} cases.", ""]
    each_case = [["network", "lines", "x min", "arrays", "steps", "gap", "held", "steps", "gap"]]
    for row in rows:
        case = [row.network, str(row.crossbar), f"{row.factor:g}", str(row.arrays)]
        found = [str(row.held), str(row.limited), f"{row.gap:.1%}"]
        each_case.append([*case, str(row.free), f"{row.free_gap:.1%}", *found])
    return "\n".join([*lines, *markdown(each_case)]).rstrip("\n") + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--crossbars", nargs="+", type=int, default=CROSSBARS)
    parser.add_argument("--factors", nargs="+", type=float, default=FACTORS)
    asked = parser.parse_args()
    cases = list(product(asked.networks, asked.crossbars, asked.factors))
    with ProcessPoolExecutor() as pool:
        PAGE.write_text(page(list(pool.map(run, cases))))


if __name__ == "__main__":
    main()
