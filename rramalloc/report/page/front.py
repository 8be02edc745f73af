"""Section of a Pareto front: what every number of arrays can buy, with its bound and baselines."""

from __future__ import annotations

from typing import Any

from rramalloc.report import style
from rramalloc.report.page import charts
from rramalloc.report.page.allocation import hardware_words, mapping_words, network_words, warning_notes
from rramalloc.report.page.parts import Chart, Column, Detail, Fact, Section, Table, shown, thinned
from rramalloc.shown import counted
from rramalloc.studies.pareto_front import FrontPoint, ParetoFront
from rramalloc.units import share

_QUANTITY = {"makespan": "makespan", "interval": "interval", "latency_ns": "latency"}
_WIDE = 20
_MARKERS = ("square", "diamond", "triangle", "inverted_triangle", "hex", "star", "cross", "x", "plus")
_COLOURS = (style.ORANGE, style.GREEN, style.RED, style.PURPLE, style.SKY, style.GREY)


def front_section(front: ParetoFront, detail: Detail) -> Section:
    """Headline, the staircase, and its points."""
    points = front.points
    facts = [
        Fact("Points", f"{len(points):,}", f"{front.proven:,} proven"),
        Fact("Arrays", f"{front.minimum:,} to {front.budget:,}", "least to budget"),
    ]
    blocks: list[Any] = list(warning_notes(front.warnings))
    limit = ""
    if points:
        first, last = points[0], points[-1]
        facts.append(Fact("Mean gap", share(front.mean_gap)))
        name = _QUANTITY[front.objective]
        facts.append(
            Fact(f"Least {name}", _value(front, last.value), f"with {counted(last.arrays, 'array')}")
        )
        times = first.value / last.value if last.value else 1.0
        limit = (
            f"From {first.arrays:,} to {last.arrays:,} arrays the {name} falls from "
            f"{_value(front, first.value)} to {_value(front, last.value)}, by a factor of {times:,.3g}"
        )
        blocks += [_chart(front, detail), _table(front, detail)]
        if front.baselines:
            blocks.append(_baselines(front, detail))
    options = front.options
    return Section(
        title=f"{front.network.name}: arrays against {_QUANTITY[front.objective]}",
        subtitle=f"Pareto front · {hardware_words(front.hardware)}",
        facts=tuple(facts),
        blocks=tuple(blocks),
        limit=limit,
        headline=f"{counted(len(points), 'point')}, {front.proven:,} proven",
        made=(
            ("Network", network_words(front.network)),
            ("Hardware", hardware_words(front.hardware)),
            ("Mapping", mapping_words(options)),
            ("Seed, work", f"{front.seed}, {options.work} units"),
            ("rramalloc", front.rramalloc_version),
        ),
    )


def _value(front: ParetoFront, value: float) -> str:
    return f"{value:,.6g} ns" if front.unit == "ns" else f"{value:,} steps"


def _chart(front: ParetoFront, detail: Detail) -> Chart:
    kept = [front.points[place] for place in thinned(len(front.points), detail.marks)]
    wide = len(kept) > 1 and kept[-1].arrays / kept[0].arrays > _WIDE
    high = len(kept) > 1 and kept[-1].value > 0 and kept[0].value / kept[-1].value > _WIDE
    unit = f"{_QUANTITY[front.objective]} [{front.unit}]"
    drawn = charts.figure(420, "arrays", unit, x_log=wide, y_log=high, drag="box_zoom")
    entries = _staircase(drawn, kept, max(front.budget, kept[-1].arrays))
    entries += _beside(drawn, front, detail)
    summary = (
        f"A staircase of {len(front.points)} points from {front.points[0].arrays:,} arrays to "
        f"{front.points[-1].arrays:,}, each with a lower bound. The table of points has all values."
    )
    note = (
        "" if len(kept) == len(front.points) else f"{len(kept):,} of {len(front.points):,} points are drawn."
    )
    return Chart("Pareto front", (drawn,), summary, "xy", note, charts.keys(entries))


def _staircase(drawn: Any, points: list[FrontPoint], budget: int) -> list[tuple[str, list[Any]]]:
    arrays = [*(point.arrays for point in points), budget]
    values = [*(point.value for point in points), points[-1].value]
    bounds = [*(point.lower_bound for point in points), points[-1].lower_bound]
    line = drawn.step(x=arrays, y=values, mode="after", line_color=style.BLUE, line_width=2)
    below = drawn.step(
        x=arrays, y=bounds, mode="after", line_color=style.RED, line_width=1.4, line_dash="dashed"
    )
    data = charts.source(
        {
            "arrays": arrays[:-1],
            "value": values[:-1],
            "bound": bounds[:-1],
            "gap": [round(100 * point.gap, 4) for point in points],
            "interval": [point.interval for point in points],
        }
    )
    dots = drawn.scatter(
        x="arrays",
        y="value",
        size=6 if len(points) < 200 else 4,
        source=data,
        fill_color=style.BLUE,
        line_color=None,
    )
    charts.hover(
        drawn,
        [dots],
        [
            ("arrays", "@arrays{0,0}"),
            ("value", "@value{0,0.[00]}"),
            ("lower bound", "@bound{0,0.[00]}"),
            ("gap", "@gap{0.00} %"),
            ("interval", "@interval{0,0}"),
        ],
    )
    return [("front", [line, dots]), ("lower bound", [below])]


def _beside(drawn: Any, front: ParetoFront, detail: Detail) -> list[tuple[str, list[Any]]]:
    """The baselines, a marker and a colour for each."""
    entries = []
    for place, method in enumerate(dict.fromkeys(point.method for point in front.baselines)):
        points = [point for point in front.baselines if point.method == method]
        points = [points[at] for at in thinned(len(points), max(2, detail.marks // 8))]
        data = charts.source(
            {
                "arrays": [point.arrays for point in points],
                "value": [point.value for point in points],
                "method": [method] * len(points),
                "budget": [point.budget for point in points],
            }
        )
        colour, marker = _COLOURS[place % len(_COLOURS)], _MARKERS[place % len(_MARKERS)]
        marks = drawn.scatter(
            x="arrays",
            y="value",
            size=8,
            marker=marker,
            source=data,
            fill_color=colour,
            line_color=colour,
            fill_alpha=0.85,
        )
        charts.hover(
            drawn,
            [marks],
            [
                ("method", "@method"),
                ("budget", "@budget{0,0}"),
                ("arrays", "@arrays{0,0}"),
                ("value", "@value{0,0.[00]}"),
            ],
        )
        entries.append((method, [marks]))
    return entries


def _table(front: ParetoFront, detail: Detail) -> Table:
    number: Any = "int" if front.unit == "steps" else "float"
    heads = (
        Column("Arrays", "int"),
        Column(f"{_QUANTITY[front.objective].capitalize()} [{front.unit}]", number),
        Column("Lower bound", number),
        Column("Gap", "percent"),
        Column("Makespan", "int"),
        Column("Interval", "int"),
    )
    rows = [(p.arrays, p.value, p.lower_bound, p.gap, p.makespan, p.interval) for p in front.points]
    return shown(Table("Points of the front", heads, rows), detail)


def _baselines(front: ParetoFront, detail: Detail) -> Table:
    number: Any = "int" if front.unit == "steps" else "float"
    heads = (
        Column("Method"),
        Column("Budget", "int"),
        Column("Arrays", "int"),
        Column("Makespan", "int"),
        Column(f"Value [{front.unit}]", number),
    )
    rows = [(p.method, p.budget, p.arrays, p.makespan, p.value) for p in front.baselines]
    return shown(Table("Baselines", heads, rows), detail)
