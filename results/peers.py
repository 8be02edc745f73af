"""Allocations in the tools that they are exported to: the tool's own against ours, in the tool's own figure.

Writes results/peers.csv and results/peers.md:  RRAMALLOC_PEERS=FOLDER python results/peers.py [TOOL ...]
FOLDER holds the archives of the tools (tests/peers/tools.py); TOOL is a heading of the page, or "counts" for
the counts of arrays alone. What is in a CSV file is not run again.
"""

from __future__ import annotations

import csv
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import peers_counts
import peers_simulators
import peers_tuned
from pages import markdown
from peers_simulators import OURS, Outcome, build, our_copies, run_export

from rramalloc.choices import ObjectiveName
from rramalloc.commands.tune.simulators import TOOLS
from rramalloc.errors import RramallocError
from rramalloc.hardware.hardware import Hardware

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
    """All runs so far, each written when it ends."""

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


# PIMCOMP and pimsim-nn --------------------------------------------------------------------------------------

MODES = {"PIMCOMP, low latency": "low-latency", "PIMCOMP, high throughput": "high-throughput"}
PIMSIM_NETWORKS = ("resnet18", "squeezenet", "inception_v1", "shufflenet", "alexnet")
"""The mesh that it ships has 64 cores, 4096 arrays: VGG-16 needs 8454 for one copy of each layer."""
MARGINS = {"balance, 1/2": 0.5, "balance, 3/4": 0.25}
"""Of the arrays that classifiers leave, what the balance rule gives away, and the margin that it keeps."""


def pimcomp(book: Book, network: str, tool: str) -> None:
    """Its balance and its genetic search on 9216 arrays; ours on as many arrays as each of them took."""
    run = partial(_pimcomp, network, TOOLS["pimcomp"].hardware(), "--mode", MODES[tool])
    balance = book.run(tool, network, "balance", "its own", partial(run, "--own"))
    genetic = [
        book.run(tool, network, "genetic", "its own", partial(run, "--own", "genetic"), repeat=repeat)
        for repeat in range(1, peers_tuned.GENETIC_RUNS + 1)
    ]
    for own in (balance, _median([row for row in genetic if row.value is not None])):
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
Made by `RRAMALLOC_PEERS=FOLDER python results/peers.py`; `results/peers.csv` has every run.

## Arrays: the export's count and the tool's

{counts}
## Time: the tool's own allocation and ours

Times in ms, as each tool reports them: the tool allocates, and ours is searched for with what that took,
once for the latency and once for the interval; no search of ours sees the tool's figure. `ratio`: the
better of ours by its own, below 1 ours is faster; differences below 10 % are ties. `ours, tuned` is what
`tune` comes to with the same budget: it asks the tool, so it is no part of the ratio (see "Tuned" below).
Where runs differ, all columns show medians, `runs` says of how many, and ours may take the arrays of the
median run. Steps, which our search minimises, do not see the communication and synchronisation that bound
these figures.
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
layer of VGG-16 takes 8454 arrays, so it is left out; AlexNet takes 3745, and PIMCOMP's rule overflows the
cores with the second budget. The rule gives away a half or three quarters of the arrays that classifiers
leave. A run takes four minutes: all of ours in the table were made with cores filled as by the rule, before
the export spread reads over them. With that, ours with the fewest steps for SqueezeNet takes 16.87 ms on 3180
arrays in place of 57.6, and 17.65 ms on 2582, where PIMCOMP's genetic search (one run) takes 21.7.""",
    "PIMSYN": """\
256 x 256 cells of 4 bits, a weight in each. Its annealing gets 20 or 60 times the fewest arrays; of its three
best candidates that with the best power efficiency counts, as in its design space. Both sides try as many
designs.""",
    "MNSIM": "MNSIM chooses no copies: its own is one of each layer, on fewer arrays than ours.",
    "NeuroSim": """\
Its rule of copies (`speedUpDegree`) and ours, in no more area than NeuroSim reports for that: equal area, not
equal arrays. The figure is the cycle of its pipeline per image.""",
}
"""The tools in the order of the page."""


def page(book: Book) -> str:
    """The text of results/peers.md."""
    counts = "\n".join(peers_counts.table())
    lines = ["# Allocations in the tools", "", INTRODUCTION.format(counts=counts)]
    for tool, about in ABOUT.items():
        lines += [f"### {tool}", "", about, "", *_table(book, tool)]
    lines += ["### Tuned", "", *peers_tuned.table()]
    notes = [f"- {row.tool}, {row.network}, {row.budget}, {row.allocation}: {row.note}"
             for row in book.rows.values() if row.note]  # fmt: skip
    return "\n".join([*lines, *(["### Not run to the end", "", *notes, ""] if notes else [])])


def _table(book: Book, tool: str) -> list[str]:
    pairs = dict.fromkeys((row.network, row.budget) for row in book.rows.values() if row.tool == tool)
    cases = [Case.of(book, tool, *pair) for pair in sorted(pairs, key=_place)]
    if not cases:
        return []
    sizes = ["arrays", "arrays of ours"]
    if tool == "NeuroSim":
        sizes = ["area in mm2", "area of ours", *sizes]
    tuned = {case: cell for case in cases if (cell := _tuned(tool, case)) is not None}
    head = [
        "network",
        "budget",
        "its own",
        "runs",
        *OURS,
        *(["ours, tuned"] if tuned else []),
        "ratio",
        *sizes,
    ]
    rows = []
    for case in cases:
        cells = case.cells(with_area=tool == "NeuroSim")
        rows.append([*cells[:6], *([tuned.get(case, "-")] if tuned else []), *cells[6:]])
    lines = markdown([head, *rows])
    ratios = [case.ratio for case in cases if case.ratio is not None]
    if ratios:
        won, lost = sum(ratio < 0.9 for ratio in ratios), sum(ratio > 1.1 for ratio in ratios)
        summary = (
            f"Of {len(ratios)} cases ours is faster in {won}, slower in {lost}, "
            f"{len(ratios) - won - lost} are ties; the geometric mean of the ratios is "
            f"{statistics.geometric_mean(ratios):.2f}."
        )
        lines += [summary, ""]
    return lines


TUNED = {
    "PIMCOMP, low latency": ("pimcomp", "balance"),
    "PIMCOMP, high throughput": ("pimcomp --mode high-throughput", "balance"),
    "MNSIM": ("mnsim", "four times the convolutions"),
}
"""Simulator and budget of results/peers_tuned.csv in the tables of the tools."""


def _tuned(tool: str, case: Case) -> str | None:
    """What `tune` reached with the budget of a line, in ms; None if it was not run."""
    simulator, budget = TUNED.get(tool, ("", ""))
    line = peers_tuned.lines().get((simulator, case.network))
    return None if line is None or case.budget != budget else f"{line.tuned / 1e6:.4g}"


def _place(pair: tuple[str, str]) -> tuple[int, str, str]:
    """Order of the rows of a table: the networks that all tools share first."""
    network, budget = pair
    return NETWORKS.index(network) if network in NETWORKS else len(NETWORKS), network, budget


class Case(NamedTuple):
    """A line of a table: medians of the tool's own runs and of ours, None where none ended."""

    network: str
    budget: str
    own: Row | None
    ours: tuple[Row | None, ...]
    runs: int

    @classmethod
    def of(cls, book: Book, tool: str, network: str, budget: str) -> Case:
        """Of all runs; ours are those that may take what the median of the tool's own took."""
        rows = [
            row for row in book.rows.values() if row[:3] == (tool, network, budget) and row.value is not None
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


GIVEN = ("PIMSYN", "MNSIM")
"""Tools whose budgets are given; of the others, ours may take what the tool's own took."""


def _median(rows: list[Row]) -> Row | None:
    """The run with the median figure, the slower one of two in the middle; None if there are none."""
    done = sorted(rows, key=lambda row: row.value or 0.0)
    return done[len(done) // 2] if done else None


def _ms(row: Row | None) -> str:
    return "-" if row is None or row.value is None else f"{row.value / 1e6:.4g}"


def _area(row: Row | None) -> str:
    return "-" if row is None or row.area_um2 is None else f"{row.area_um2 / 1e6:.4g}"


def main() -> None:
    """Measure what is missing and write the page."""
    tools = sys.argv[1:] or ("counts", *ABOUT)
    if "counts" in tools:
        peers_counts.measure()
    measure(Book(), tools)
    PAGE.write_text(page(Book()), encoding="utf-8")


if __name__ == "__main__":
    main()
