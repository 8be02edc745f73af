"""Allocations in the tools that they are exported to: the tool's own against ours, in the tool's own figure.

RRAMALLOC_PEERS names the folder with the archives of the tools (tests/peers/tools.py).
"""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from pages import SEARCHED, Study, markdown
from peers_simulators import OURS, Outcome, build, missing, mnsim, neurosim, our_copies, pimsyn, run_export

from rramalloc.choices import ObjectiveName
from rramalloc.commands.tune.simulators import TOOLS
from rramalloc.errors import RramallocError
from rramalloc.hardware.hardware import Hardware

GENETIC_RUNS = 3
"""Of PIMCOMP's genetic search, which is seeded by the clock."""


@dataclass(frozen=True)
class Row:
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
    """The runs of a case."""

    def __init__(self) -> None:
        self.rows: dict[Key, Row] = {}

    def run(
        self, tool: str, network: str, budget: str, allocation: str, run: Callable[[], Outcome], *,
        repeat: int = 1, limit: int = 0,
    ) -> Row:  # fmt: skip
        """The row of this run. What a tool cannot do is a row with a note."""
        key = (tool, network, budget, allocation, repeat, limit)
        if key not in self.rows:
            try:
                outcome = run()
                row = Row(*key, outcome.arrays, outcome.area_um2, outcome.value)
            except (RramallocError, RuntimeError, subprocess.TimeoutExpired) as error:
                note = "no answer in time" if isinstance(error, subprocess.TimeoutExpired) else str(error)
                row = Row(*key, 0, None, None, note.splitlines()[0][:200])
            self.rows[key] = row
        return self.rows[key]


# PIMCOMP and pimsim-nn --------------------------------------------------------------------------------------

MODES = {"PIMCOMP, low latency": "low-latency", "PIMCOMP, high throughput": "high-throughput"}
MARGINS = {"balance, 1/2": 0.5, "balance, 3/4": 0.25}
"""Of the arrays that classifiers leave, what the balance rule gives away, and the margin that it keeps."""


def pimcomp(tool: str, book: Book, network: str, budget: str) -> None:
    """Its balance or its genetic search on 9216 arrays; ours on as many arrays as that took."""
    run = partial(_pimcomp, network, TOOLS["pimcomp"].hardware(), "--mode", MODES[tool])
    if budget == "balance":
        own: Row | None = book.run(tool, network, budget, "its own", partial(run, "--own"))
    else:
        genetic = partial(run, "--own", "genetic")
        runs = [
            book.run(tool, network, budget, "its own", genetic, repeat=repeat)
            for repeat in range(1, GENETIC_RUNS + 1)
        ]
        own = _median([row for row in runs if row.value is not None])
    if own is not None:
        _ours(book, own, run)


def pimsim(book: Book, network: str, budget: str) -> None:
    """PIMCOMP's instructions for its own balance and for ours, in pimsim-nn."""
    run = partial(_pimcomp, network, TOOLS["pimsim"].hardware(), str(build("pimsim-nn")))
    margin = str(MARGINS[budget])
    own = book.run(
        "pimsim-nn", network, budget, "its own", partial(run, "--own", "balance", "--margin", margin)
    )
    _ours(book, own, run)


def _ours(book: Book, own: Row, run: Callable[..., Outcome]) -> None:
    """Ours on the arrays of its own."""
    if own.value is not None:
        for allocation, objective in OURS.items():
            ours = partial(run, arrays=own.arrays, objective=objective)
            book.run(own.tool, own.network, own.budget, allocation, ours, limit=own.arrays)


def _pimcomp(
    network: str, hardware: Hardware, *options: str, arrays: int = 0, objective: ObjectiveName = "latency"
) -> Outcome:
    """What run.py reports: of an allocation of ours on `arrays`, or of the tool's own."""
    copies = our_copies(network, arrays, hardware, objective) if arrays else {}
    report = run_export(network, copies, "pimcomp", hardware, *options)
    return Outcome(int(report["arrays"]), report.get("latency_ns") or report["interval_ns"])


# The page ---------------------------------------------------------------------------------------------------

ONE: Mapping[str, Callable[[Book, str, str], None]] = {
    **{tool: partial(pimcomp, tool) for tool in MODES},
    "pimsim-nn": pimsim,
    "PIMSYN": lambda book, *case: pimsyn(book.run, *case),
    "MNSIM": lambda book, *case: mnsim(book.run, *case),
    "NeuroSim": lambda book, *case: neurosim(book.run, *case),
}
"""How a network with a budget is run in a tool."""
CASES = (
    *((tool, network, budget) for tool in MODES for network in ("alexnet", "resnet18", "squeezenet")
      for budget in ("balance", "genetic")),
    ("pimsim-nn", "squeezenet", "balance, 1/2"),
    ("PIMSYN", "alexnet", "20 times the least"),
    *(("MNSIM", network, budget) for network in ("alexnet", "vgg16", "resnet18")
      for budget in ("twice the convolutions", "four times the convolutions")),
    ("NeuroSim", "alexnet", "speedUpDegree 8"),
    ("NeuroSim", "vgg11", "speedUpDegree 8"),
)  # fmt: skip


def run(tool: str, network: str, budget: str) -> list[Row]:
    """Run the tool's own allocation and ours."""
    book = Book()
    ONE[tool](book, network, budget)
    return list(book.rows.values())


INTRODUCTION = """\
Times in ms, as each tool reports them: the tool allocates, and ours is searched for with what that took,
once for the latency and once for the interval; no search of ours sees the tool's figure. `ratio`: the
better of ours by its own, below 1 ours is faster; differences below 10 % are ties. What `tune` comes to,
which asks the tool, is on [another page](peers_tuned.md). Where runs differ, all columns show medians, `runs`
says of how many, and ours may take the arrays of the median run. Steps, which our search minimises, do not
see the communication and synchronisation that bound these figures.
"""
ABOUT = {
    "PIMCOMP, low latency": """\
9216 arrays in 144 cores. The balance rule is deterministic and fills core after core in the order of the
layers. The genetic search is seeded by the clock and chooses copies and the core of every array group for
this very figure. Ours searches for copies by steps alone, and the export spreads them over cores so that all
start about as many reads; of 1 to 64 copies of a layer together in a core, 4 and 8 were the fastest on these
networks, and it takes 8.""",
    "PIMCOMP, high throughput": "As above; the figure is the time between inputs.",
    "pimsim-nn": """\
PIMCOMP's instructions, simulated on the mesh of 64 cores (4096 arrays) that pimsim-nn ships. One copy of each
layer of VGG-16 takes 8454 arrays and of AlexNet 3745, so they are left out. PIMCOMP's rule gives away half of
the arrays that classifiers leave. A run takes four minutes.""",
    "PIMSYN": """\
256 x 256 cells of 4 bits, a weight in each. Its annealing gets 20 times the fewest arrays; of its three
best candidates that with the best power efficiency counts, as in its design space. Both sides try as many
designs.""",
    "MNSIM": """\
MNSIM chooses no copies: its own is one of each layer, on fewer arrays than ours. These ratios are what copies
bring in it, and do not count above.""",
    "NeuroSim": """\
Its rule of copies (`speedUpDegree`) and ours, in no more area than NeuroSim reports for that: equal area, not
equal arrays. The figure is the cycle of its pipeline per image.""",
}
"""The tools in the order of the page."""


def answer(rows: Sequence[Row]) -> str:
    """Return how often ours is faster in the tools that choose copies."""
    tools = [tool for tool in ABOUT if tool not in CHOOSES_NO_COPIES]
    ratios = [case.ratio for tool in tools for case in cases_of(rows, tool) if case.ratio is not None]
    won, lost = sum(ratio < 0.9 for ratio in ratios), sum(ratio > 1.1 for ratio in ratios)
    return (
        f"In the own figures of tools that choose copies **ours is faster in {won}, slower in {lost} of "
        f"{len(ratios)} cases**, with no more arrays or area; the others are ties."
    )


def body(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a section for each tool."""
    yield INTRODUCTION
    for tool, about in ABOUT.items():
        if any(row.tool == tool for row in rows):
            yield from (f"## {tool}", "", about, "", *_table(rows, tool))
    notes = [
        f"- {row.tool}, {row.network}, {row.budget}, {row.allocation}: {row.note}" for row in rows if row.note
    ]
    yield from ("## Not run to the end", "", *notes) if notes else ()


def cases_of(rows: Sequence[Row], tool: str) -> list[Case]:
    """The lines of a tool's table."""
    pairs = dict.fromkeys((row.network, row.budget) for row in rows if row.tool == tool)
    return [Case.of(rows, tool, *pair) for pair in pairs]


def _table(rows: Sequence[Row], tool: str) -> list[str]:
    cases = cases_of(rows, tool)
    sizes = ["arrays", "arrays of ours"]
    if tool == "NeuroSim":
        sizes = ["area in mm2", "area of ours", *sizes]
    head = ["network", "budget", "its own", "runs", *OURS, "ratio", *sizes]
    lines = markdown([head, *(case.cells(with_area=tool == "NeuroSim") for case in cases)])
    ratios = [case.ratio for case in cases if case.ratio is not None]
    if ratios:
        lines += [f"The geometric mean of the ratios is {statistics.geometric_mean(ratios):.2f}.", ""]
    return lines


class Case(NamedTuple):
    """A line of a table: medians of the tool's own runs and of ours, None where none ended."""

    network: str
    budget: str
    own: Row | None
    ours: tuple[Row | None, ...]
    runs: int

    @classmethod
    def of(cls, every: Sequence[Row], tool: str, network: str, budget: str) -> Case:
        """Of all runs; ours are those that may take what the median of the tool's own took."""
        rows = [
            row
            for row in every
            if (row.tool, row.network, row.budget) == (tool, network, budget) and row.value is not None
        ]
        own = [row for row in rows if row.allocation == "its own"]
        median = _median(own)
        taken = set() if median is None else {median.arrays, round(median.area_um2 or 0)}
        fair = [row for row in rows if row.limit in taken or tool in GIVEN]
        ours = tuple(_median([row for row in fair if row.allocation == name]) for name in OURS)
        return cls(network, budget, median, ours, len(own))

    @property
    def ratio(self) -> float | None:
        """The better of ours by the tool's own."""
        best = min((row.value for row in self.ours if row and row.value), default=None)
        return best / self.own.value if best and self.own and self.own.value else None

    def cells(self, *, with_area: bool) -> list[str]:
        """As the table shows it."""
        arrays = [
            str(self.own.arrays) if self.own else "-",
            ", ".join(str(row.arrays) for row in self.ours if row),
        ]
        areas = [_area(self.own), ", ".join(_area(row) for row in self.ours if row)] if with_area else []
        return [
            self.network, self.budget, _ms(self.own), str(self.runs), *map(_ms, self.ours),
            "-" if self.ratio is None else f"{self.ratio:.2f}", *areas, *(cell or "-" for cell in arrays),
        ]  # fmt: skip


CHOOSES_NO_COPIES = ("MNSIM",)
GIVEN = ("PIMSYN", *CHOOSES_NO_COPIES)
"""Tools whose budgets are given; of the others, ours may take what the tool's own took."""


def _median(rows: list[Row]) -> Row | None:
    """The run with the median figure, the slower one of two in the middle; None if there are none."""
    done = sorted(rows, key=lambda row: row.value or 0.0)
    return done[len(done) // 2] if done else None


def _ms(row: Row | None) -> str:
    return "-" if row is None or row.value is None else f"{row.value / 1e6:.4g}"


def _area(row: Row | None) -> str:
    return "-" if row is None or row.area_um2 is None else f"{row.area_um2 / 1e6:.4g}"


STUDY = Study(
    title="Allocations in the tools",
    question=(
        "Are our allocations faster in the tools that they are exported to, by those tools' own figures?"
    ),
    row=Row,
    cases=CASES,
    measure=run,
    answer=answer,
    body=body,
    decided_by=(*SEARCHED, "commands/export"),
    missing=missing,
)
