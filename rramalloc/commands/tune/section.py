"""Section of a tuning: how the best figure fell, and what the simulator said of every allocation."""

from __future__ import annotations

from itertools import accumulate

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
from rramalloc.columns import Column, columns_of
from rramalloc.commands.tune.tuning import Tuning
from rramalloc.page.section import (
    FIGURE,
    Block,
    Detail,
    Fact,
    Note,
    Section,
    Table,
    section_of,
    table,
    table_of,
    thinned,
)
from rramalloc.units import counted, rounded, share

_HIGHEST = 3.0  # figures above this multiple of the best are beyond the axis: the worst say little


def tuning_section(tuning: Tuning, detail: Detail) -> Section:
    """Return the section: headline, best figure over evaluations, the choices side by side, and every
    allocation."""
    facts = [Fact("Tuned", f"{rounded(tuning.figure)}", counted(tuning.allocation.arrays.used, "array"))]
    for name, figure, words in _others(tuning):
        facts.append(Fact(name, f"{rounded(figure)}", words))
    asked = f"of {tuning.options.evaluations:,}, {tuning.failed:,} failed"
    facts.append(Fact("Evaluations", f"{tuning.evaluations:,}", asked))
    blocks: list[Block] = [tuning_chart(tuning, detail), _choices(tuning)]
    if (model := tuning.model) is not None:
        rank = "not defined" if model.spearman is None else f"{model.spearman:.2f}"
        blocks.append(
            Note(
                f"Model: the clocks of the form {model.form!r} miss the figures by {share(model.residual)}; "
                f"answers that were left out are missed by {share(model.left_out)}, rank correlation {rank}."
            )
        )
    fields = ("number", "origin", "figure", "expected", "arrays", "makespan", "failure")
    blocks.append(table_of("Allocations that were judged", tuning.judged, fields, detail))
    blocks.append(_copies(tuning, detail))
    options = tuning.options
    return section_of(
        "Tuning",
        tuning,
        title=f"{tuning.network.name} in {label(options.simulator, 60)}: {rounded(tuning.figure)}",
        facts=facts,
        blocks=blocks,
        limit="; ".join(
            f"{share(1 - tuning.figure / figure)} below {name[0].lower()}{name[1:]}"
            for name, figure, _ in _others(tuning)
            if figure > tuning.figure
        ),
        headline=f"{rounded(tuning.figure)} after {counted(tuning.evaluations, 'evaluation')}",
        made=(
            ("Simulator", options.simulator),
            ("Budget", counted(tuning.arrays, "array")),
            ("Seed, evaluations at a time", f"{options.seed}, {options.jobs}"),
        ),
    )


def _others(tuning: Tuning) -> list[tuple[str, float, str]]:
    """Return the comparisons of the tuned allocation: name, figure, a few words."""
    others = []
    if tuning.before is not None:
        others.append(("Fewest steps", tuning.before, "before tuning"))
    if tuning.own is not None:
        others.append(("The tool's own choice", tuning.own.figure, counted(tuning.own.arrays, "array")))
    return others


def tuning_chart(tuning: Tuning, detail: Detail = FIGURE) -> Chart:
    """Chart the figures in the order of questions, the best so far, and the figures that tuning
    began with."""
    rows = [row for row in tuning.judged if row.figure is not None]
    figures = [row.figure or 0.0 for row in rows]
    so_far = list(accumulate(figures, min))
    kept = thinned(len(rows), max(2, detail.marks // 4))
    low, high = min(figures), max(figures)
    highest = min(high, max([_HIGHEST * low, *(figure for _, figure, _ in _others(tuning))]))
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
    for (name, figure, _), colour in zip(_others(tuning), (GREY, GREEN), strict=False):
        data = {"number": [float(end) for end in ends], "figure": [figure, figure]}
        dashes = {"type": "line", "strokeDash": DASHED}
        layers.append(
            Marks(dashes, data, {"x": "number", "y": "figure"}, Key(name.lower(), colour, "stroke"))
        )
    space = 0.05 * (highest - low) or 0.05 * low or 1.0
    across = Axis.around("allocation, in the order of questions", [float(end) for end in ends], whole=True)
    panel = Panel(
        across, Axis("figure of the simulator", max(0.0, low - space), highest + space), 260, tuple(layers)
    )
    beyond = sum(figure > highest + space for figure in figures)
    return Chart(
        "Best figure over evaluations",
        (panel,),
        f"The best figure fell from {rounded(so_far[0])} to {rounded(so_far[-1])}; the table has all values.",
        (f"{label(tuning.network.name)} in {label(tuning.options.simulator, 60)}",),
        zoom="xy",
        note=f"{counted(beyond, 'allocation')} above the axis." if beyond else "",
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
    cells = [
        (name, figure, arrays, tuning.figure / figure if figure else None) for name, figure, arrays in rows
    ]
    heads = columns_of("Allocation, Figure float, Arrays int, Tuned / this float")
    return Table("Choices", tuple(heads), cells, folded=False)


def _copies(tuning: Tuning, detail: Detail) -> Table:
    """Return the table of copies of every layer before and after."""
    before, after = tuning.judged[0].copies, tuning.allocation.copies
    own = {} if tuning.own is None else tuning.own.copies
    columns = [
        Column("Layer", value=str),
        Column("Fewest steps", "int", before.get),
        Column("Tuned", "int", after.get),
    ]
    if own:
        columns.append(Column("Own choice", "int", own.get))
    return table("Copies of the layers", columns, [*before], detail)
