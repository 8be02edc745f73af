"""Every method on every shipped network; all numbers are counted or simulated, none is measured."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pages import SEARCHED, Case, Study, markdown, seconds_text

import rramalloc
from rramalloc.chart import BLUE, ORANGE, Axis, Chart, Marks, Panel, row_height
from rramalloc.commands.compare.comparison import REFERENCE
from rramalloc.methods.registry import METHODS, method_named
from rramalloc.network.shipped import shipped_names

ALL = tuple(name for name in METHODS if not method_named(name).needs)
FIGURES = {
    "methods": "comparison_methods.svg",
    "vgg16 2048": "comparison_vgg16.svg",
    "vgg16 2048 copies": "comparison_vgg16_copies.svg",
    "vgg16 2048 timeline": "comparison_vgg16_timeline.svg",
}


@dataclass(frozen=True)
class Row:
    """One method on one network, or why it has no allocation (`skipped`); steps, None then.

    ratio: makespan over that of auto; work_s: counted, in seconds of a reference core; best, median, worst:
    of all seeds; repaired: copies were taken away until the allocation fits; copies: in the order of layers.
    """

    network: str
    arrays: int
    method: str
    makespan: int | None
    interval: int | None
    used: int | None
    ratio: float | None
    work_s: float | None
    lower_bound: float | None
    gap: float | None
    repaired: bool
    best: int | None
    median: int | None
    worst: int | None
    copies: str
    skipped: str

    @property
    def label(self) -> str:
        return f"{self.network} {self.arrays}"


Table = Mapping[str, Mapping[str, Row]]
"""Rows by network and arrays, then by method."""


def cases() -> Iterator[Case]:
    """Twice the fewest arrays of every network, and VGG-16 with 2048."""
    yield from ((network, "x2") for network in shipped_names())
    yield "vgg16", "2048"


def run(network: str, arrays: str) -> list[Row]:
    """Compare all methods."""
    found = rramalloc.compare(network, arrays)
    rows = [
        Row(
            network, row.arrays, row.method, row.makespan, row.interval, row.used, row.ratio, row.work_s,
            row.lower_bound, row.gap, row.repaired, row.best, row.median, row.worst,
            " ".join(map(str, row.copies.values())), "",
        )
        for row in found.rows
    ]  # fmt: skip
    none = (None,) * 7
    rows += [
        Row(network, left.arrays, left.method, *none, False, None, None, None, "", left.reason)
        for left in found.skipped
    ]
    return rows


def table_of(rows: Sequence[Row]) -> Table:
    """Rows that have an allocation."""
    table: dict[str, dict[str, Row]] = {}
    for row in rows:
        if not row.skipped:
            table.setdefault(row.label, {})[row.method] = row
    return table


def ratios_of(table: Table, method: str) -> list[float]:
    """The ratios of a method on all networks."""
    found = (rows[method].ratio for rows in table.values() if method in rows)
    return [ratio for ratio in found if ratio is not None]


def ratio_rows(table: Table) -> Iterator[list[str]]:
    """Yield a line for each network."""
    yield ["network, arrays", "auto", "bound", "gap", *(name for name in ALL if name != REFERENCE)]
    for label, rows in table.items():
        auto = rows[REFERENCE]
        cells = [label, f"{auto.makespan:,}", f"{auto.lower_bound:,.0f}", f"{auto.gap or 0:.1%}"]
        yield cells + [ratio_cell(rows.get(name)) for name in ALL if name != REFERENCE]


def ratio_cell(row: Row | None) -> str:
    """Ratio, bold where the method is as fast as auto or faster, with a star where it was repaired."""
    if row is None or row.ratio is None:
        return "-"
    text = f"{row.ratio:.3f}" if row.ratio < 100 else f"{row.ratio:.0f}"
    text = f"**{text}**" if row.ratio <= 1 else text
    return f"{text}\\*" if row.repaired else text


def method_rows(table: Table) -> Iterator[list[str]]:
    """Yield a line for each method, auto first, then by the mean ratio."""
    yield ["method", "networks", "as fast as auto", "faster", "ratio, median", "mean", "largest", "repaired",
           "spread, largest", "work s, median"]  # fmt: skip
    lines = []
    for name in ALL:
        runs = [rows[name] for rows in table.values() if name in rows]
        ratios = ratios_of(table, name)
        if not ratios:
            continue
        spreads = [((run.worst or 0) - (run.best or 0)) / (run.median or 1) for run in runs]
        counted = [run.work_s for run in runs if run.work_s]
        line = [
            name, str(len(runs)), str(ratios.count(1.0)), str(sum(ratio < 1 for ratio in ratios)),
            f"{statistics.median(ratios):.3f}", f"{statistics.geometric_mean(ratios):.3f}",
            f"{max(ratios):.3f}", str(sum(run.repaired for run in runs)),
            f"{max(spreads):.1%}" if method_named(name).seeded else "-",
            seconds_text(statistics.median(counted)) if counted else "-",
        ]  # fmt: skip
        lines.append((name != REFERENCE, statistics.geometric_mean(ratios), line))
    yield from (line for *_, line in sorted(lines))


def figures(rows: Sequence[Row]) -> Mapping[str, Chart]:
    """Draw the methods, and VGG-16 with 2048 arrays."""
    compared = rramalloc.compare("vgg16", 2048)
    allocation = rramalloc.optimize("vgg16", 2048)
    drawn = (
        of_methods(table_of(rows)),
        compared.plot.methods(),
        allocation.plot.copies(),
        allocation.plot.timeline(),
    )
    return dict(zip(FIGURES.values(), drawn, strict=True))


def of_methods(table: Table) -> Chart:
    """Draw the ratio of every method on every network, its median as a bar; what is far off stands at the "
    "end."""
    end = 2.0
    names = [line[0] for line in method_rows(table)][1:]
    points: dict[str, list[Any]] = {"ratio": [], "row": [], "colour": []}
    middles: dict[str, list[Any]] = {"ratio": [], "top": [], "bottom": []}
    far: dict[str, list[Any]] = {"end": [], "row": [], "words": []}
    for place, name in enumerate(names):
        ratios = ratios_of(table, name)
        within = [ratio for ratio in ratios if ratio <= end]
        points["ratio"] += within
        points["row"] += [place] * len(within)
        points["colour"] += [BLUE if name == REFERENCE else ORANGE] * len(within)
        if len(within) < len(ratios):
            far["end"].append(end)
            far["row"].append(place)
            far["words"].append(f"» {len(ratios) - len(within)} up to {max(ratios):.3g}")
        middle = statistics.median(ratios)
        if middle <= end:
            middles["ratio"].append(middle)
            middles["top"].append(place - 0.36)
            middles["bottom"].append(place + 0.36)
    dots = {"x": "ratio", "y": "row", "color": {"field": "colour", "type": "nominal", "scale": None}}
    layers = (
        Marks({"type": "circle", "size": 24, "opacity": 0.6}, points, dots),
        Marks({"type": "rule", "strokeWidth": 2}, middles, {"x": "ratio", "y": "top", "y2": "bottom"}),
        Marks({"type": "text", "align": "left", "dx": 4}, far, {"x": "end", "y": "row", "text": "words"}),
    )
    across = Axis(
        "makespan / makespan of auto, one point a network, the black line is the median", 0.97, end * 1.12
    )
    panel = Panel(across, Axis.of_names(names), row_height(len(names)), layers)
    return Chart("Methods", (panel,), "Ratio of every method on every network.")


def beaten(table: Table) -> list[str]:
    """Where a method is faster than auto."""
    return [
        f"{label}: {name} {row.makespan}, auto {rows[REFERENCE].makespan}"
        for label, rows in table.items()
        for name, row in rows.items()
        if row.ratio is not None and row.ratio < 1
    ]


def answer(rows: Sequence[Row]) -> str:
    """Return the best of the other methods, and how often one is faster than auto."""
    table = table_of(rows)
    others = [name for name in ALL if name != REFERENCE and ratios_of(table, name)]
    mean, best = min((statistics.geometric_mean(ratios_of(table, name)), name) for name in others)
    faster = len(table) - len(beaten(table))
    return (
        f"**No other method is faster than `auto` in {faster} of {len(table)} cases**; the next best in the "
        f"mean is `{best}`, {mean:.3f} times as slow."
    )


NOTES = """\
Every method on every shipped network with twice the arrays it needs at least (crossbars of 128 x 128, plain
weights, classifiers on the host), and on VGG-16 with 2048 arrays. Every allocation is simulated exactly.
ratio: makespan over that of auto, in bold where it is not larger; a star where copies were taken away because
what the method asked for does not fit. Methods with a seed show the median of 5 seeds. work: counted, in
seconds of a reference core. All numbers, copies and reasons for what was skipped: `comparison.csv`. All of it
is the same on every machine. [Published figures](published.md) and allocations have a page of their own."""


def body(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what is compared, a table of methods, one of networks, and the figures."""
    table = table_of(rows)
    faster = beaten(table)
    yield from (
        NOTES,
        "",
        f"Cases in which a method is faster than auto: {len(faster)}{':' if faster else '.'}",
        "",
    )
    yield from [*(f"- {item}" for item in faster), ""] if faster else []
    yield from ("## Methods", "", *markdown(method_rows(table)))
    yield "mean: geometric. spread: largest minus smallest makespan of the seeds, over the median."
    yield from ("", f"![ratios]({FIGURES['methods']})", "", "## Networks", "", *markdown(ratio_rows(table)))
    yield from ("## VGG-16 with 2048 arrays", "")
    for name, figure in FIGURES.items():
        if name != "methods":
            yield from (f"![{name}]({figure})", "")


STUDY = Study(
    title="Methods compared",
    question="How good are published methods and simple rules beside the search, timed exactly?",
    row=Row,
    cases=list(cases()),
    measure=run,
    answer=answer,
    body=body,
    decided_by=(*SEARCHED, "commands/compare"),
    figures=figures,
)
