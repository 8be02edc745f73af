"""View of a comparison: all methods side by side, a panel of the chart a budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from statistics import median
from typing import Any

from rramalloc.chart import (
    BLUE,
    RED,
    SKY,
    Axis,
    Chart,
    Key,
    Marks,
    Panel,
    bars,
    columns,
    label,
    named,
    row_height,
    rule,
)
from rramalloc.choices import By
from rramalloc.commands.compare.comparison import REFERENCE, SCALARS, Comparison, Row
from rramalloc.methods.registry import method_names
from rramalloc.timing.figures import ENERGY_AREA
from rramalloc.units import counted, number_of, plain_quantity, quantity, quoted, share
from rramalloc.view.pivot import MOST_PANELS, Cell, pivot_chart, pivot_table
from rramalloc.view.view import FIGURE, Detail, Fact, Table, View, table, thinned

_LETTER = 6  # pixels of a letter of the words beside a bar
_BELOW = 4  # panels up to which one is below the other, and bounds that are told one by one
_LEAST_END = 1.3  # ratio at which the axis ends at the least
_BEYOND = 2.5  # the axis ends at this multiple of the median ratio at most
_REFERENCE = Key(REFERENCE, BLUE)
_METHOD = Key("other methods", SKY)
_REPAIRED = Key("repaired to fit", "#9fd0ee")
_BOUND = Key("lower bound", RED, "stroke")
_SPREAD = Key("spread of seeds", "#777777", "stroke")
_HOVER = named("method, makespan, ratio, gap [%]=gap, arrays used=used")


def comparison_view(comparison: Comparison, *, efficiency: bool = False, by: By | None = None) -> View:
    """Return the view: bars of ratios, and all rows; efficiency: with TOPS; by: values by method instead."""
    rows = comparison.rows
    # of CSV: every number of a row, energy and area where there are any
    measured = any("edp" in row.model_dump() for row in rows)
    fields = [field for field in SCALARS if measured or field not in ENERGY_AREA]
    pivoted = pivot_table(_cells(comparison), comparison.objective_unit)
    left_out = table("Left out", comparison.skipped, "network?, arrays, method, reason", shown=0)
    return View.of(
        comparison,
        kind="Comparison",
        title=f"{comparison.subject}: methods side by side",
        sentence=_best(comparison) if rows else "",
        facts=_facts(comparison),
        tables=(pivoted if by else _table(comparison, efficiency=efficiency), left_out),
        charts={"methods": partial(methods_chart, comparison)} if rows else {},
        notes=(
            f"skipped {left.method}{f' of {left.network}' if left.network else ''} at "
            f"{number_of(left.arrays, 'array')}: {left.reason}"
            for left in comparison.skipped
        ),
        csv=None if by else table("Methods", rows, ", ".join((*fields, "kinds?"))),
    )


def _cells(comparison: Comparison) -> list[Cell]:
    """Return the values, methods in the order in which they were asked for."""
    rows = sorted(comparison.rows, key=lambda row: comparison.options.methods.index(row.method))
    return [Cell(row.network, row.arrays, row.method, row.objective_value) for row in rows]


def _table(comparison: Comparison, *, efficiency: bool) -> Table:
    rates = ", stream_energy_pj, tops, tops_per_w" if efficiency else ""
    return table(
        "Methods",
        comparison.rows,
        f"{'network, ' if comparison.networks else ''}arrays, method, makespan, ratio, interval, used, "
        "kinds?, recurrence, published, latency_ns, "
        f"energy_pj, edp, area_um2{rates}, work_s, clock_s, best, worst, remark",
        spare="published recurrence clock_s best worst remark used work_s interval area_um2 edp energy_pj "
        "latency_ns",
        best=lambda row: row.best if row.runs > 1 else None,
        worst=lambda row: row.worst if row.runs > 1 else None,
        remark=lambda row: "repaired" if row.repaired else "",
    )


def _facts(comparison: Comparison) -> Iterator[Fact]:
    groups = comparison.groups
    if len(groups) > _BELOW:
        gaps = [first.gap for first, *_ in groups.values()]
        words = f"of the best method: {share(median(gaps))} in the median, {share(max(gaps))} at most"
        yield Fact("gap", words)
    else:
        for (network, budget), (first, *_) in groups.items():
            bound = plain_quantity(first.lower_bound, comparison.objective_unit)
            of = f" of {network}" if comparison.networks else ""
            words = (
                f"{bound}{of} with {number_of(budget, 'array')}, {first.method} is within {share(first.gap)}"
            )
            yield Fact("lower bound", words)
    if any(row.runs > 1 for row in comparison.rows):
        words = f"{comparison.options.seeds}: the median run is shown, with the best and the worst makespan"
        yield Fact("seeds", words)
    if any(row.repaired for row in comparison.rows):
        yield Fact("repaired", "copies were taken away until the allocation fits")
    if any(row.work_s is not None for row in comparison.rows):
        yield Fact("work", "counted on a reference core, the same on every machine")


def _best(comparison: Comparison) -> str:
    """Return in words the best result, its bound and the range of all methods, or who is best how often."""
    if len(comparison.groups) > 1:
        return _best_of_all(comparison)
    (network, budget), group = next(iter(comparison.groups.items()))
    fastest = min(group, key=lambda row: (row.ratio, row.makespan))
    slowest = max(group, key=lambda row: row.ratio)
    least = quantity(fastest.lower_bound, comparison.objective_unit)
    of = f" of {quoted(network)}" if comparison.networks else ""
    words = f"With {counted(budget, 'array')} no allocation{of} takes less than {least}"
    if 0 < fastest.ratio < slowest.ratio:
        times = f"{slowest.ratio / fastest.ratio:.3g} times as long as {quoted(fastest.method)}"
        words += f"; the method {quoted(slowest.method)} takes {times}"
    return words


def _best_of_all(comparison: Comparison) -> str:
    """Return in words which method is best in the most cases, and how far the last one is from the best."""
    ratios: dict[str, list[float]] = {}
    for row in comparison.rows:
        ratios.setdefault(row.method, []).append(row.ratio)
    wins = {method: sum(ratio <= 1 for ratio in own) for method, own in ratios.items()}
    method = max(wins, key=lambda name: wins[name])
    cases = "networks and budgets" if comparison.networks else "budgets"
    of = f"{wins[method]} of {len(comparison.groups)} {cases}"
    words = f"The method {quoted(method)} is the best, alone or beside others, in {of}"
    last = max(ratios, key=lambda name: median(ratios[name]))
    middle = median(ratios[last])
    return f"{words}; {quoted(last)} takes {middle:.3g} times the best in the median" if middle > 1 else words


def methods_chart(
    comparison: Comparison,
    *,
    by: By | None = None,
    detail: Detail = FIGURE,  # noqa: ARG001
) -> Chart:
    """Chart the ratio of every method to the best one, a panel a network and budget.

    Of more than 24 panels, 24 are drawn, spread evenly from the first to the last. Bars far beyond the
    others end at the end of the axis; their numbers are written next to them. by: values in small multiples.
    """
    every = [*comparison.groups.items()]
    drawn = [every[place] for place in thinned(len(every), MOST_PANELS)]
    measure = {"ns": "latency", "pJ": "energy", "pJ ns": "EDP"}.get(comparison.objective_unit, "makespan")
    if by is not None:
        unit, of = comparison.objective_unit, f"{comparison.subject}: {measure}"
        return pivot_chart(_cells(comparison), by, measure, unit, of, method_names())
    ratio = f"{measure} / {measure} of the best"
    panels = tuple(
        _panel(comparison, group, ratio, comparison.group_name(*place) if len(drawn) > 1 else "")
        for place, group in drawn
    )
    first, rows = drawn[0]
    ratios = ", ".join(f"{quoted(row.method)} {row.ratio:.3f}" for row in rows[:6])
    arrays = comparison.group_name(*first)
    of = "networks and budgets" if comparison.networks else "budgets"
    some = f"{len(drawn)} of {len(every)} {of} are drawn. " if len(drawn) < len(every) else ""
    return Chart(
        title=f"Methods with {arrays}" if len(drawn) == 1 else "Methods side by side",
        panels=panels,
        summary=f"{ratio[0].upper()}{ratio[1:]} with {arrays}: {ratios}.",
        heading=(f"{label(comparison.subject)}: methods side by side",),
        zoom="",
        note=f"{some}Beside each bar: {measure} and ratio. » marks a bar that goes on beyond the axis.",
        columns=1 if len(drawn) <= _BELOW else 2,
    )


def _panel(comparison: Comparison, rows: Sequence[Row], ratio: str, title: str) -> Panel:
    """Return the panel of one budget: a bar of equal height for every method."""
    ratios = sorted(row.ratio for row in rows)
    end = max(_LEAST_END, min(ratios[-1], _BEYOND * ratios[len(ratios) // 2]))
    layers: list[Marks] = []
    for key in (_REFERENCE, _METHOD, _REPAIRED):
        marks = [
            _mark(place, row, end, comparison.objective_unit)
            for place, row in enumerate(rows)
            if _kind(row) is key
        ]
        if marks:
            look = {"stroke": BLUE, "strokeDash": [3, 2]} if key is _REPAIRED else {}
            layers.append(bars(columns(marks), {"datum": 0}, "shown", key=key, hover=_HOVER, look=look))
    marks = [_mark(place, row, end, comparison.objective_unit) for place, row in enumerate(rows)]
    spread = [mark for mark, row in zip(marks, rows, strict=True) if row.runs > 1]
    if spread:
        seeds = {"type": "rule", "strokeWidth": 2}
        layers.append(Marks(seeds, columns(spread), {"x": "low", "x2": "high", "y": "row"}, _SPREAD))
    beside = {"type": "text", "align": "left", "dx": 5}
    layers.append(Marks(beside, columns(marks), {"x": "reach", "y": "row", "text": "words"}))
    layers.append(rule(max(row.ratio * (1 - row.gap) for row in rows), "x", key=_BOUND))
    names = Axis.of_names([row.method for row in rows])
    room = _LETTER * max(len(mark["words"]) for mark in marks)
    across = Axis(ratio, 0, end, margin=room + 10)
    return Panel(across, names, row_height(len(rows)), tuple(layers), title)


def _kind(row: Row) -> Key:
    if row.repaired:
        return _REPAIRED
    return _REFERENCE if row.method == REFERENCE else _METHOD


def _mark(place: int, row: Row, end: float, unit: str) -> dict[str, Any]:
    """Return the marks and the label of a row; `end`: of the longest bar."""
    scale = row.ratio / max(1, row.makespan)
    high = min(row.worst * scale, end)
    value = f"{row.makespan:,}" if unit == "steps" else quantity(row.objective_value, unit)
    return {
        "row": place, "method": row.method, "makespan": row.makespan, "ratio": round(row.ratio, 6),
        "shown": min(row.ratio, end), "gap": round(100 * row.gap, 4), "used": row.used,
        "low": min(row.best * scale, end), "high": high,
        "reach": max(min(row.ratio, end), high if row.runs > 1 else 0.0),
        "words": f"{'» ' if row.ratio > end else ''}{value} ({row.ratio:.3f})",
    }  # fmt: skip
