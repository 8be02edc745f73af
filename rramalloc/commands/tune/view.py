"""View of a tuning: the best figure over evaluations, and the figures of all allocations."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import accumulate
from operator import itemgetter

from rramalloc.chart import (
    BLUE,
    DASHED,
    GREEN,
    GREY,
    ORANGE,
    Axis,
    Chart,
    Key,
    Marks,
    Panel,
    label,
    lists,
    named,
)
from rramalloc.commands.tune.tuning import Tuning
from rramalloc.units import counted, number_of, rounded, share
from rramalloc.view.view import FIGURE, Detail, Fact, Table, View, table, thinned

_HIGHEST = 3.0  # figures above this multiple of the best are beyond the axis: the worst say little


def tuning_view(tuning: Tuning) -> View:
    """Return the view: best figure over evaluations, the choices side by side, and every allocation."""
    judged = table(
        "Allocations that were judged",
        tuning.judged,
        "no.=number, origin, figure, expected, arrays, makespan, failure",
        spare="makespan expected arrays",
    )
    return View.of(
        tuning,
        kind="Tuning",
        title=f"{tuning.network.name} in {label(tuning.options.simulator, 60)}: {rounded(tuning.figure)}",
        sentence="; ".join(
            f"{share(1 - tuning.figure / figure)} below {name[0].lower()}{name[1:]}"
            for name, figure in _others(tuning)
            if figure > tuning.figure
        ),
        facts=_facts(tuning),
        tables=(judged, _choices(tuning), _copies(tuning)),
        charts={"figures": partial(tuning_chart, tuning)},
    )


def _facts(tuning: Tuning) -> Iterator[Fact]:
    chosen, model = tuning.options, tuning.model
    yield Fact("simulator", chosen.simulator)
    failed = f", {tuning.failed} failed" if tuning.failed else ""
    yield Fact("evaluations", tuning.evaluations, note=f"of {chosen.evaluations}{failed}")
    if tuning.own is not None:
        yield Fact("tool's own", tuning.own.figure, note=f"on {number_of(tuning.own.arrays, 'array')}")
    if tuning.before is None:
        yield Fact("before", "failed")
    else:
        yield Fact("before", tuning.before, note=", with the fewest steps")
    used = tuning.allocation.arrays.used
    change = "" if not tuning.before else f", {tuning.figure / tuning.before - 1:+.1%}"
    yield Fact("tuned", tuning.figure, note=f"on {used} of {number_of(tuning.arrays, 'array')}{change}")
    if model is not None:
        rank = "" if model.spearman is None else f", rank correlation {model.spearman:.2f}"
        misses = f"clocks alone miss by {share(model.residual)}, left-out answers by {share(model.left_out)}"
        yield Fact("model", f"{model.form}: {misses}{rank}")


def _others(tuning: Tuning) -> list[tuple[str, float]]:
    """Return name and figure of the allocations that the tuned one is compared with."""
    others = []
    if tuning.before is not None:
        others.append(("Fewest steps", tuning.before))
    if tuning.own is not None:
        others.append(("The tool's own choice", tuning.own.figure))
    return others


def tuning_chart(tuning: Tuning, *, detail: Detail = FIGURE) -> Chart:
    """Chart the figures in the order of evaluation, the best so far, and the figures before tuning."""
    rows = [row for row in tuning.judged if row.figure is not None]
    figures = [row.figure or 0.0 for row in rows]
    so_far = list(accumulate(figures, min))
    kept = thinned(len(rows), max(2, detail.marks // 4))
    low, high = min(figures), max(figures)
    highest = min(high, max([_HIGHEST * low, *(figure for _, figure in _others(tuning))]))
    data = lists([rows[at] for at in kept], "number, figure, origin, arrays")
    hover = named("number, origin, arrays, figure")
    circle = {"type": "circle", "size": 30, "opacity": 1}
    place = {"x": "number", "y": "figure"}
    layers = [Marks(circle, data, place, Key("an allocation", ORANGE), hover)]
    data = {"number": [rows[at].number for at in kept], "best": [so_far[at] for at in kept]}
    line = {"type": "line", "interpolate": "step-after"}
    hover = {"number": "number", "best so far": "best"}
    layers.append(Marks(line, data, {"x": "number", "y": "best"}, Key("best so far", BLUE, "stroke"), hover))
    ends = [rows[0].number, rows[-1].number]
    for (name, figure), colour in zip(_others(tuning), (GREY, GREEN), strict=False):
        data = {"number": [float(end) for end in ends], "figure": [figure, figure]}
        dashes = {"type": "line", "strokeDash": DASHED}
        layers.append(
            Marks(dashes, data, {"x": "number", "y": "figure"}, Key(name.lower(), colour, "stroke"))
        )
    space = 0.05 * (highest - low) or 0.05 * low or 1.0
    across = Axis.around("allocation, in the order of questions", [float(end) for end in ends], integers=True)
    panel = Panel(
        across, Axis("figure of the simulator", max(0.0, low - space), highest + space), 260, tuple(layers)
    )
    above_axis = sum(figure > highest + space for figure in figures)
    return Chart(
        "Best figure over evaluations",
        (panel,),
        f"The best figure fell from {rounded(so_far[0])} to {rounded(so_far[-1])}; the table has all values.",
        (f"{label(tuning.network.name)} in {label(tuning.options.simulator, 60)}",),
        zoom="xy",
        note=f"{counted(above_axis, 'allocation')} above the axis." if above_axis else "",
    )


def _choices(tuning: Tuning) -> Table:
    """Return the table of the tool's own choice, ours before and after."""
    rows: list[tuple[str, float, int]] = []
    if tuning.own is not None:
        rows.append(("own choice of the tool", tuning.own.figure, tuning.own.arrays))
    first = tuning.judged[0]
    if tuning.before is not None:
        rows.append((f"{first.origin}, before tuning", tuning.before, first.arrays))
    rows.append(("tuned", tuning.figure, tuning.allocation.arrays.used))
    return table(
        "Choices",
        rows,
        "allocation, figure, arrays, tuned / this=ratio",
        shown=0,
        allocation=itemgetter(0),
        figure=itemgetter(1),
        arrays=itemgetter(2),
        ratio=lambda row: tuning.figure / row[1] if row[1] else None,
    )


def _copies(tuning: Tuning) -> Table:
    """Return the table of copies of every layer before and after."""
    before = tuning.judged[0].copies
    return table(
        "Copies of the layers",
        [*before],
        "layer, fewest_steps, tuned, own_choice",
        shown=0,
        layer=str,
        fewest_steps=before.get,
        tuned=tuning.allocation.copies.get,
        own_choice=lambda name: None if tuning.own is None else tuning.own.copies.get(name),
    )
