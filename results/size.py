"""The chip for three networks, alone and together, beside a grid sweep and a genetic search.

All but the times is the same on every machine, unless a question reaches its limit of a minute.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from pages import RESULTS, SEARCHED, Study, markdown, seconds_text

import rramalloc
from rramalloc.errors import InfeasibleError

RATES = {
    "isaac": {"resnet18": 2000.0, "mobilenet_v1": 2000.0, "vgg11": 500.0},
    "adc_limited": {"resnet18": 10000.0, "mobilenet_v1": 10000.0, "vgg11": 2000.0},
}
"""Inputs a second that every network must reach, by hardware."""
FILES = {"isaac": "isaac", "adc_limited": str(RESULTS.parent / "docs" / "examples" / "adc_limited.toml")}
READS = {"isaac": 1.0, "adc_limited": 0.125}
"""Length of a read of the components' powers, as a part of 100 ns."""
LINES, ADCS = (64, 128, 256, 512), (1, 2, 4, 8, 16)
CHOICES = [(lines, adcs) for lines in LINES for adcs in ADCS]
WORK, LIMIT_S = 20, 60.0
POPULATION, GENERATIONS, SEEDS = 4, 4, 10
TOGETHER = "together"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A question and its answers.

    lines, adcs: of a chosen array; cost, bound: um2; searched: candidates of `size` that were searched to
    their end; grid: the least cost of all, one by one; genetic: the median of what its seeds find, of which
    `found` find the grid's; asked: candidates that it looked at, seconds: of one core, both in the mean.
    """

    hardware: str
    network: str
    lines: int
    adcs: int
    arrays: int
    cost: float
    bound: float
    searched: int
    seconds: float
    grid: float
    grid_seconds: float
    genetic: float
    found: int
    asked: float
    genetic_seconds: float


def question(hardware: str, networks: list[str], choices: list[tuple[int, int]]) -> dict[str, Any]:
    """Return the question of some candidates, areas and energies of arrays as the page says."""
    sides = [lines / 128 for lines, _ in choices]
    read = READS[hardware]
    choose = {
        "crossbar": [f"{lines}x{lines}" for lines, _ in choices],
        "timing.columns_per_adc": [lines // adcs for lines, adcs in choices],
        "energy.area_um2": [25.0 * side**2 + 385.0 * side + 30.0 for side in sides],
        "energy.read_pj": [read * (30.0 * side**2 + 18.5 * side + 2.5) for side in sides],
        "energy.leakage_mw": [0.4255] * len(choices),
    }
    wanted = [{"network": name, "target_throughput": RATES[hardware][name]} for name in networks]
    return {
        "hardware": FILES[hardware], "networks": wanted, "work": WORK, "choose": choose,
        "zip": [list(choose)],
    }  # fmt: skip


class Costs:
    """What every candidate costs, searched by itself, and how long that took."""

    def __init__(self, hardware: str, networks: list[str]) -> None:
        self.hardware, self.networks = hardware, networks
        self.known: dict[tuple[int, int], tuple[float, float]] = {}

    def __call__(self, choice: tuple[int, int]) -> float:
        if choice not in self.known:
            start = time.process_time()
            asked = question(self.hardware, self.networks, [choice])
            try:
                cost = rramalloc.size(asked, progress=False, time_limit_s=LIMIT_S).cost
            except InfeasibleError:
                cost = math.inf
            self.known[choice] = cost, time.process_time() - start
        return self.known[choice][0]

    def seconds(self, choices: set[tuple[int, int]]) -> float:
        """Seconds that these took."""
        return sum(self.known[choice][1] for choice in choices)


def genetic(cost: Callable[[tuple[int, int]], float], seed: int) -> set[tuple[int, int]]:
    """Return the candidates that a small genetic search looks at: two genes, lines and ADCs.

    Of every generation the better half stays; each of the others takes a gene from each of two of these, and
    one in two genes is drawn anew.
    """
    random = Random(seed)
    people = random.sample(CHOICES, POPULATION)
    seen = set(people)
    for _ in range(GENERATIONS):
        parents = sorted(people, key=cost)[: POPULATION // 2]
        children = []
        for _ in range(POPULATION - len(parents)):
            lines, adcs = random.choice(parents)[0], random.choice(parents)[1]
            if random.random() < 0.5:
                lines = random.choice(LINES)
            if random.random() < 0.5:
                adcs = random.choice(ADCS)
            children.append((lines, adcs))
        people = [*parents, *children]
        seen.update(people)
    return seen


def run(hardware: str, network: str) -> list[Row]:
    """Answer a question by `size`, by the grid and by the genetic search."""
    rramalloc.size(question("isaac", ["vgg11"], CHOICES[-5:]), progress=False)  # loads compiled code
    networks = [*RATES[hardware]] if network == TOGETHER else [network]
    start = time.process_time()
    found = rramalloc.size(question(hardware, networks, CHOICES), progress=False, time_limit_s=LIMIT_S)
    seconds = time.process_time() - start
    costs = Costs(hardware, networks)
    grid = min(map(costs, CHOICES))
    asked = [genetic(costs, seed) for seed in range(SEEDS)]
    least = [min(map(costs, each)) for each in asked]
    lines = found.chip.hardware.crossbar.wordlines
    (chosen,) = [own.choices for own in found.candidates if own.why == "chosen"]
    row = Row(
        hardware=hardware, network=network, lines=lines,
        adcs=lines // chosen["timing.columns_per_adc"],
        arrays=found.chip.arrays, cost=found.cost, bound=found.lower_bound, searched=found.searched,
        seconds=round(seconds, 2), grid=grid, grid_seconds=round(costs.seconds(set(CHOICES)), 2),
        genetic=statistics.median(least), found=sum(cost <= grid for cost in least),
        asked=statistics.mean(map(len, asked)),
        genetic_seconds=round(statistics.mean(map(costs.seconds, asked)), 2),
    )  # fmt: skip
    return [row]


INTRODUCTION = f"""\
[`size`](../docs/size.md) looks for the chip with the least area on which networks reach given rates, alone or
in turn on the same chip, in whole tiles. The hardware is the preset `isaac` or
[adc_limited.toml](../docs/examples/adc_limited.toml), on which ADCs bind. The {len(CHOICES)} candidates are
arrays of {", ".join(map(str, LINES))} lines with {", ".join(map(str, ADCS))} ADCs. ISAAC's table gives the
components of an array of 128 x 128 only; those of other sizes are assumed to grow as follows, with
s = lines / 128: cells with s^2, converters of rows, sample and hold and registers with s, shift and add not
at all. So an array without ADCs has 25 s^2 + 385 s + 30 um2, and takes 30 s^2 + 18.5 s + 2.5 pJ for a read of
100 ns, of which adc_limited.toml counts an eighth.

- proven: no candidate with less area reaches the rates; searched: candidates of all whose allocations were
  searched to their end
- grid: every candidate searched by itself with the same work, {WORK} units for each network
- genetic: a search over lines and ADCs, {POPULATION} candidates in {GENERATIONS} generations, each searched
  like those of the grid; median of {SEEDS} seeds, and in brackets how many of them find the least area
- s: seconds of one core; of the genetic search the mean of its seeds
"""


def answer(rows: Sequence[Row]) -> str:
    """Return what is proven, and with how many of the candidates searched."""
    proven = sum(row.bound >= row.cost for row in rows)
    searched = sum(row.searched for row in rows) / (len(rows) * len(CHOICES))
    faster = sum(row.grid_seconds for row in rows) / sum(row.seconds for row in rows)
    return (
        f"**The cheapest chip is proven in {proven} of {len(rows)} questions with {searched:.0%} of the "
        f"candidates "
        f"searched to their end**; a grid of all of them takes {faster:.1f} times as long."
    )


def body(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what is asked, and the table."""
    table = [
        ["hardware", "network", "inputs/s", "lines", "ADCs", "arrays", "mm2", "bound", "searched", "s",
         "grid, mm2", "s", "genetic, mm2", "s"],
    ]  # fmt: skip
    for row in rows:
        rate = RATES[row.hardware].get(row.network)
        table.append([
            row.hardware, row.network, "-" if rate is None else f"{rate:,.0f}", str(row.lines), str(row.adcs),
            f"{row.arrays:,}", f"**{row.cost / 1e6:.3f}**",
            "proven" if row.bound >= row.cost else f"{row.bound / 1e6:.3f}",
            f"{row.searched} of {len(CHOICES)}", seconds_text(row.seconds),
            f"{row.grid / 1e6:.3f}", seconds_text(row.grid_seconds),
            f"{row.genetic / 1e6:.3f} ({row.found})", seconds_text(row.genetic_seconds),
        ])  # fmt: skip
    yield INTRODUCTION
    yield from markdown(table)
    most = max(row.searched for row in rows) / len(CHOICES)
    behind = sum(row.cost > row.genetic for row in rows)
    hits = sum(row.found for row in rows) / (len(rows) * SEEDS)
    asked = statistics.mean(row.asked for row in rows)
    differs = sum(row.cost != row.grid for row in rows)
    yield (
        f"At most {most:.0%} of the candidates are searched to their end. The area differs from the grid's "
        f"in "
        f"{differs} questions. It is above the genetic search's median in {behind}; {hits:.0%} of the runs "
        f"of that "
        f"search find the least area, after a look at {asked:.1f} candidates in the mean, and prove nothing."
    )


STUDY = Study(
    title="One chip for several networks",
    question=(
        "What is the cheapest chip on which several networks reach their rates, and how soon is that proven?"
    ),
    row=Row,
    cases=[(hardware, network) for hardware in RATES for network in (*RATES[hardware], TOGETHER)],
    measure=run,
    answer=answer,
    body=body,
    decided_by=(*SEARCHED, "commands/size"),
)
