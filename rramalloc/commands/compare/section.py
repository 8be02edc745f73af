"""Section of a comparison: all methods side by side, a chart a budget."""

from __future__ import annotations

from collections.abc import Sequence
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
from rramalloc.commands.compare.comparison import REFERENCE, Comparison, Row
from rramalloc.page.section import Block, Detail, Fact, Note, Section, section_of, table_of, thinned
from rramalloc.units import counted, quantity, quoted, share, steps

_MOST_PANELS = 8  # budgets that a chart shows
_LEAST_END = 1.3  # ratio at which the axis ends at the least
_BEYOND = 2.5  # the axis ends at this multiple of the median ratio at most
_REFERENCE = Key(f"{REFERENCE} (the reference)", BLUE)
_METHOD = Key("other methods", SKY)
_REPAIRED = Key("repaired to fit", "#9fd0ee")
_BOUND = Key("lower bound", RED, "stroke")
_SPREAD = Key("spread of seeds", "#777777", "stroke")
_HOVER = named("method, makespan, ratio, gap [%]=gap, arrays used=used")
_SHOWN = tuple(
    "arrays method makespan ratio gap interval used kinds recurrence published latency_ns energy_pj edp "
    "area_um2 work_s clock_s best worst repaired proof".split()
)


def comparison_section(comparison: Comparison, detail: Detail) -> Section:
    """Return the section: headline, bars of ratios, and all rows."""
    rows, budgets = comparison.rows, comparison.budgets
    facts = [
        Fact("Methods", f"{len({row.method for row in rows}):,}"),
        Fact("Budgets", ", ".join(f"{budget:,}" for budget in budgets[:4]) or "none", "arrays"),
    ]
    blocks: list[Block] = []
    limit = ""
    if rows:
        group = comparison.at(budgets[0])
        fastest = min(group, key=lambda row: (row.ratio, row.makespan))
        slowest = max(group, key=lambda row: row.ratio)
        facts.append(
            Fact(
                "Fastest",
                steps(fastest.makespan),
                f"{quoted(fastest.method)} with {counted(budgets[0], 'array')}",
            )
        )
        facts.append(Fact("Its gap", share(fastest.gap), _distance(comparison, fastest)))
        least = quantity(fastest.lower_bound, comparison.objective_unit)
        limit = f"With {counted(budgets[0], 'array')} no allocation takes less than {least}"
        if 0 < fastest.ratio < slowest.ratio:
            times = f"{slowest.ratio / fastest.ratio:.3g} times as long as {quoted(fastest.method)}"
            limit += f"; the method {quoted(slowest.method)} takes {times}"
        shown_budgets = [budgets[place] for place in thinned(len(budgets), _MOST_PANELS)]
        blocks += [methods_chart(comparison, [budget]) for budget in shown_budgets]
        if len(budgets) > _MOST_PANELS:
            blocks.append(
                Note(f"{_MOST_PANELS} of {len(budgets)} budgets are drawn, from the first to the last.")
            )
        blocks.append(table_of("All rows", rows, _SHOWN, detail, folded=False))
    if comparison.skipped:
        blocks.append(table_of("Left out", comparison.skipped, ("arrays", "method", "reason"), detail))
    options = comparison.options
    return section_of(
        "Comparison",
        comparison,
        title=f"{comparison.network.name}: methods side by side",
        facts=facts,
        blocks=blocks,
        limit=limit,
        headline=f"{counted(len(rows), 'row')} at {counted(len(budgets), 'budget')}",
        made=(("Seeds, work", f"{options.seeds} from {options.seed}, {options.work} units a run"),),
    )


def _distance(comparison: Comparison, row: Row) -> str:
    extent = comparison.coverage.extent if comparison.coverage else ""
    return "at most from optimal" if row.gap else f"proven optimal{extent}"


def methods_chart(comparison: Comparison, budgets: Sequence[int] | None = None) -> Chart:
    """Chart the ratio of every method to the reference, a panel a budget.

    Of more than eight budgets, eight are drawn, spread evenly from the first to the last. Bars far beyond the
    others end at the end of the axis; their numbers are written next to them.
    """
    every = comparison.budgets
    drawn = budgets or [every[place] for place in thinned(len(every), _MOST_PANELS)]
    measure = {"ns": "latency", "pJ": "energy", "pJ ns": "EDP"}.get(comparison.objective_unit, "makespan")
    reference = any(row.method == REFERENCE for row in comparison.rows)
    ratio = f"{measure} / {measure} of {REFERENCE if reference else 'best'}"
    titles = [counted(budget, "array") if len(drawn) > 1 else "" for budget in drawn]
    panels = tuple(
        _panel(comparison, comparison.at(budget), ratio, title)
        for budget, title in zip(drawn, titles, strict=True)
    )
    rows = comparison.at(drawn[0])
    ratios = ", ".join(f"{quoted(row.method)} {row.ratio:.3f}" for row in rows[:6])
    arrays = counted(drawn[0], "array")
    return Chart(
        title=f"Methods with {arrays}" if len(drawn) == 1 else "Methods side by side",
        panels=panels,
        summary=f"{ratio[0].upper()}{ratio[1:]} with {arrays}: {ratios}.",
        heading=(f"{label(comparison.network.name)}: methods side by side",),
        zoom="",
        note=f"Beside each bar: {measure} and ratio. » marks a bar that goes on beyond the axis.",
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
    across = Axis(ratio, 0, end * 1.24)
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
