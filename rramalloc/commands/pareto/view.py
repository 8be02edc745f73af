"""View of a Pareto front: its points with their bounds, and baselines."""

from __future__ import annotations

from functools import partial

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
    lists,
    named,
)
from rramalloc.commands.pareto.pareto_front import FrontPoint, ParetoFront
from rramalloc.units import counted, quantity, share
from rramalloc.view.view import FIGURE, Detail, Fact, View, table, thinned

_WORDS = {"latency_ns": "latency", "edp": "EDP"}
_COLOURS = (ORANGE, GREEN, PURPLE, SKY, GREY)
_FRONT = Key("front", BLUE, "stroke")


def _named(quantity: str) -> str:
    return _WORDS.get(quantity, quantity)


def front_view(front: ParetoFront, *, efficiency: bool = False) -> View:
    """Return the view: the staircase, its points, and the methods beside it; efficiency: with TOPS."""
    rates = ", stream_energy_pj, tops, tops_per_w" if efficiency else ""
    against = "" if front.against == "arrays" else f" against {front.against} in {front.against_unit}"
    points = table(
        "Points of the front",
        front.points,
        f"against=against_value[{front.against_unit}]?, arrays, kinds?, makespan, interval, latency_ns, "
        f"energy_pj?, edp?, area_um2?{rates}, value[{front.unit}], lower_bound[{front.unit}], gap",
        spare="area_um2 edp energy_pj value latency_ns interval gap lower_bound",
    )
    baselines = table(
        "Baselines", front.baselines, f"method, budget, arrays, makespan, value[{front.unit}]", shown=0
    )
    many = len(front.points)
    objective = f"{front.objective} in {front.unit}{against}, up to {front.budget} arrays"
    return View.of(
        front,
        kind="Pareto front",
        title=f"{front.network.name}: {_named(front.against)} against {_named(front.objective)}",
        sentence=_fall(front) if many else "",
        facts=(
            Fact("objective", objective),
            Fact("points", many, note=f", {front.proven} of them proven"),
            *([Fact("mean gap", front.mean_gap, "share", "from optimal at most")] if many else ()),
        ),
        tables=(points, baselines),
        charts={"front": partial(front_chart, front)},
    )


def _fall(front: ParetoFront) -> str:
    """Return in words by how much the objective falls along the front."""
    first, last = front.points[0], front.points[-1]
    times = first.value / last.value if last.value else 1.0
    ends = (quantity(point.across, front.against_unit) for point in (first, last))
    return (
        f"From {' to '.join(ends)} the {_named(front.objective)} falls from "
        f"{quantity(first.value, front.unit)} to {quantity(last.value, front.unit)}, by a factor of "
        f"{times:,.3g}"
    )


def front_chart(front: ParetoFront, *, detail: Detail = FIGURE) -> Chart | None:
    """Draw the staircase of points, the lower bound below it, and the methods it was compared with."""
    if not front.points:
        return None
    kept = [front.points[place] for place in thinned(len(front.points), detail.marks)]
    last = max(front.budget, kept[-1].arrays) if front.against == "arrays" else kept[-1].across
    beside = _beside(front, detail)
    values = [value for layer in beside for value in layer.data["value"]]
    values += [point.value for point in kept] + [point.lower_bound for point in kept]
    ends = [kept[0].across, last, *(count for layer in beside for count in layer.data["arrays"])]
    is_counted = front.against_unit in ("arrays", "steps", "ticks")
    against = _named(front.against)
    of_against = "" if front.against == "arrays" else front.against_unit
    across = Axis.around(against, ends, unit=of_against, integers=is_counted)
    up = Axis.around(_named(front.objective), values, unit=front.unit)
    summary = (
        f"A staircase of {len(front.points)} points from {quantity(kept[0].across, front.against_unit)} to "
        f"{quantity(kept[-1].across, front.against_unit)}, each with a lower bound. "
        f"The table of points has all values."
    )
    words = (
        f"{counted(len(front.points), 'point')}, {front.proven:,} proven, mean gap {share(front.mean_gap)}"
    )
    fewer = f"{len(kept):,} of {len(front.points):,} points are drawn."
    return Chart(
        title="Pareto front",
        panels=(Panel(across, up, 300, (*_lines(kept, last), *beside, _dots(kept))),),
        summary=summary,
        heading=(f"{label(front.network.name)}: {words}",),
        zoom="xy",
        note="" if len(kept) == len(front.points) else fewer,
    )


def _lines(points: list[FrontPoint], end: float) -> tuple[Marks, Marks]:
    """Return the staircases of the values and of their bounds up to the end of the axis."""
    data = lists([*points, points[-1]], "value, bound=lower_bound")
    line: Lists = {"across": [*(point.across for point in points), end], **data}
    staircase = {"type": "line", "interpolate": "step-after"}
    bound = Key("lower bound", RED, "stroke")
    return (
        Marks(staircase, line, {"x": "across", "y": "value"}, _FRONT),
        Marks(staircase | {"strokeDash": DASHED}, line, {"x": "across", "y": "bound"}, bound),
    )


def _dots(points: list[FrontPoint]) -> Marks:
    """Return the points of the front, which are drawn last: no baseline covers one."""
    data: Lists = {
        **lists(points, "arrays, across, value, bound=lower_bound, interval"),
        "gap": [round(100 * point.gap, 4) for point in points],
    }
    hover = named("arrays, value, lower bound=bound, gap [%]=gap, interval")
    dots = {"type": "circle", "size": 30 if len(points) < 200 else 12, "opacity": 1}
    return Marks(dots, data, {"x": "across", "y": "value"}, _FRONT, hover)


def _beside(front: ParetoFront, detail: Detail) -> list[Marks]:
    """Draw the baselines, a shape and a colour for each."""
    layers = []
    for place, method in enumerate(dict.fromkeys(point.method for point in front.baselines)):
        points = [point for point in front.baselines if point.method == method]
        points = [points[at] for at in thinned(len(points), max(2, detail.marks // 8))]
        data = lists(points, "arrays, value, method, budget")
        colour, shape = _COLOURS[place % len(_COLOURS)], SHAPES[1:][place % (len(SHAPES) - 1)]
        look = {"type": "point", "size": 45, "strokeWidth": 1.6}
        hover = named("method, budget, arrays, value")
        channels = {"x": "arrays", "y": "value", "shape": {}}
        layers.append(Marks(look, data, channels, Key(label(method), colour, shape), hover))
    return layers
