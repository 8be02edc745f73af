"""Section of a Pareto front: what every number of arrays can buy, with its bound and baselines."""

from __future__ import annotations

from typing import Any

from rramalloc.chart import (
    BLUE,
    DASHED,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    SHAPES,
    SKY,
    Axis,
    Chart,
    Key,
    Lists,
    Marks,
    Panel,
    label,
)
from rramalloc.report.section import (
    FIGURE,
    Block,
    Column,
    Detail,
    Fact,
    Section,
    Table,
    section_of,
    shown,
    thinned,
)
from rramalloc.results.pareto_front import FrontPoint, ParetoFront
from rramalloc.units import counted, duration, share, steps

_QUANTITY = {"makespan": "makespan", "interval": "interval", "latency_ns": "latency"}
_COLOURS = (ORANGE, GREEN, PURPLE, SKY, GREY)


def front_section(front: ParetoFront, detail: Detail) -> Section:
    """Headline, the staircase, and its points."""
    points = front.points
    facts = [
        Fact("Points", f"{len(points):,}", f"{front.proven:,} proven"),
        Fact("Arrays", f"{front.minimum:,} to {front.budget:,}", "least to budget"),
    ]
    blocks: list[Block] = []
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
        blocks += [front_chart(front, detail), _table(front, detail)]
        if front.baselines:
            blocks.append(_baselines(front, detail))
    options = front.options
    return section_of(
        "Pareto front",
        front,
        title=f"{front.network.name}: arrays against {_QUANTITY[front.objective]}",
        facts=facts,
        blocks=blocks,
        limit=limit,
        headline=f"{counted(len(points), 'point')}, {front.proven:,} proven",
        made=(("Seed, work", f"{front.seed}, {options.work} units"),),
    )


def _value(front: ParetoFront, value: float) -> str:
    return duration(value) if front.unit == "ns" else steps(int(value))


def front_chart(front: ParetoFront, detail: Detail = FIGURE) -> Chart:
    """The staircase of points, the lower bound below it, and the methods it was compared with."""
    kept = [front.points[place] for place in thinned(len(front.points), detail.marks)]
    last = max(front.budget, kept[-1].arrays)
    beside = _beside(front, detail)
    values = [value for layer in beside for value in layer.data["value"]]
    values += [point.value for point in kept] + [point.lower_bound for point in kept]
    arrays = [kept[0].arrays, last, *(count for layer in beside for count in layer.data["arrays"])]
    unit = f"{_QUANTITY[front.objective]} [{front.unit}]"
    across, up = Axis.around("arrays", arrays, whole=True), Axis.around(unit, values)
    summary = (
        f"A staircase of {len(front.points)} points from {front.points[0].arrays:,} arrays to "
        f"{front.points[-1].arrays:,}, each with a lower bound. The table of points has all values."
    )
    words = (
        f"{counted(len(front.points), 'point')}, {front.proven:,} proven, mean gap {share(front.mean_gap)}"
    )
    fewer = f"{len(kept):,} of {len(front.points):,} points are drawn."
    return Chart(
        title="Pareto front",
        panels=(Panel(across, up, 300, (*_staircase(kept, last), *beside)),),
        summary=summary,
        heading=(f"{label(front.network.name)}: {words}",),
        zoom="xy",
        note="" if len(kept) == len(front.points) else fewer,
    )


def _staircase(points: list[FrontPoint], budget: int) -> tuple[Marks, ...]:
    front, bound = Key("front", BLUE, "stroke"), Key("lower bound", RED, "stroke")
    data: Lists = {
        "arrays": [point.arrays for point in points],
        "value": [point.value for point in points],
        "bound": [point.lower_bound for point in points],
        "gap": [round(100 * point.gap, 4) for point in points],
        "interval": [point.interval for point in points],
    }
    ends = {name: [*data[name], data[name][-1]] for name in ("value", "bound")}
    line = {"arrays": [*data["arrays"], budget], **ends}
    staircase = {"type": "line", "interpolate": "step-after"}
    hover = {
        "arrays": "arrays",
        "value": "value",
        "lower bound": "bound",
        "gap [%]": "gap",
        "interval": "interval",
    }
    dots = {"type": "circle", "size": 30 if len(points) < 200 else 12, "opacity": 1}
    return (
        Marks(staircase, line, {"x": "arrays", "y": "value"}, front),
        Marks(staircase | {"strokeDash": DASHED}, line, {"x": "arrays", "y": "bound"}, bound),
        Marks(dots, data, {"x": "arrays", "y": "value"}, front, hover),
    )


def _beside(front: ParetoFront, detail: Detail) -> list[Marks]:
    """The baselines, a shape and a colour for each."""
    layers = []
    for place, method in enumerate(dict.fromkeys(point.method for point in front.baselines)):
        points = [point for point in front.baselines if point.method == method]
        points = [points[at] for at in thinned(len(points), max(2, detail.marks // 8))]
        data: Lists = {
            "arrays": [point.arrays for point in points],
            "value": [point.value for point in points],
            "method": [method] * len(points),
            "budget": [point.budget for point in points],
        }
        colour, shape = _COLOURS[place % len(_COLOURS)], SHAPES[1:][place % (len(SHAPES) - 1)]
        look = {"type": "point", "size": 45, "strokeWidth": 1.6}
        hover = {"method": "method", "budget": "budget", "arrays": "arrays", "value": "value"}
        channels = {"x": "arrays", "y": "value", "shape": {}}
        layers.append(Marks(look, data, channels, Key(label(method), colour, shape), hover))
    return layers


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
