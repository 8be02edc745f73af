"""Section of a network's cost on chiplets: the slowest operator of every group, and what lies between."""

from __future__ import annotations

from typing import Any

from rramalloc.chart import BLUE, GREEN, ORANGE, PURPLE, Axis, Chart, Key, Layer, Lists, Panel
from rramalloc.report.allocation_section import warning_notes
from rramalloc.report.section import Column, Detail, Fact, Section, Table, shown
from rramalloc.studies.chiplet.cost import ChipletCost
from rramalloc.units import counted, share

_TERMS = (
    ("compute", Key("compute", BLUE)),
    ("communication", Key("communication", ORANGE)),
    ("routing", Key("routing", GREEN)),
    ("before", Key("moved to it before", PURPLE)),
)
"""Field and legend of what a group's bar is stacked from."""


def chiplet_section(cost: ChipletCost, detail: Detail) -> Section:
    """Headline, stacked terms of the groups, operators and edges."""
    moved = sum(cost.between)
    facts = (
        Fact("Total", f"{cost.total:,.6g} {cost.unit}"),
        Fact(
            "Groups", f"{len(cost.groups):,}", f"{sum(group.cost for group in cost.groups):,.6g} {cost.unit}"
        ),
        Fact(
            "Between groups",
            f"{moved:,.6g} {cost.unit}",
            f"{share(moved / cost.total) if cost.total else 0} of all",
        ),
    )
    slowest = max(range(len(cost.groups)), key=lambda place: cost.groups[place].cost, default=None)
    limit = ""
    if slowest is not None and cost.total:
        part = cost.groups[slowest].cost / cost.total
        limit = f"Group {slowest} takes longest, {share(part)} of the total"
    blocks: list[Any] = list(warning_notes(cost.warnings))
    if cost.groups:
        blocks += [_chart(cost, detail), *_tables(cost, detail)]
    return Section(
        title=f"Inference on chiplets: {cost.total:,.6g} {cost.unit}",
        subtitle="Chiplet cost",
        facts=facts,
        blocks=tuple(blocks),
        limit=limit,
        headline=f"{cost.total:,.6g} {cost.unit} in {counted(len(cost.groups), 'group')}",
    )


def _chart(cost: ChipletCost, detail: Detail) -> Chart:
    """Groups and what lies between them one after the other, as the total adds them up."""
    kept = cost.groups[: max(1, detail.marks // 4)]
    slowest = [max(group.operators.items(), key=lambda item: item[1].cost, default=None) for group in kept]
    data: Lists = {
        "group": list(range(len(kept))),
        "operator": ["" if each is None else each[0] for each in slowest],
        "before": [0.0, *cost.between][: len(kept)],
        "base": [0.0] * len(kept),
    }
    for name, _ in _TERMS[:-1]:
        data[name] = [0.0 if each is None else float(getattr(each[1], name)) for each in slowest]
    hover = {"group": "group", "slowest operator": "operator"} | {key.name: name for name, key in _TERMS}
    layers, low = [], "base"
    for name, key in _TERMS:
        top = f"{name}_top"
        data[top] = [start + value for start, value in zip(data[low], data[name], strict=True)]
        channels = {"x": "left", "x2": "right", "y": top, "y2": low}
        sides = {"left": "datum.group - 0.35", "right": "datum.group + 0.35"}
        layers.append(Layer({"type": "rect"}, data, channels, key, hover, sides))
        low = top
    across = Axis.of_names([str(place) for place in data["group"]], "group")
    up = Axis(f"cost [{cost.unit}]", 0, max(data[low]) * 1.04 or 1)
    summary = f"Stacked bars of {counted(len(kept), 'group')}: the terms of the slowest operator of each."
    return Chart("Cost of the groups", (Panel(across, up, 240, tuple(layers)),), summary)


def _tables(cost: ChipletCost, detail: Detail) -> list[Table]:
    terms = (Column("Compute", "float"), Column("Communication", "float"), Column("Routing", "float"))
    operators = [
        (place, name, each.compute, each.communication, each.routing, each.cost)
        for place, group in enumerate(cost.groups)
        for name, each in group.operators.items()
    ]
    heads = (Column("Group", "int"), Column("Operator"), *terms, Column("Cost", "float"))
    tables = [Table("Operators", heads, operators, folded=False)]
    if cost.edges:
        edges = [(e.source, e.to, e.communication, e.routing, e.cost) for e in cost.edges]
        tables.append(
            Table("Edges", (Column("From"), Column("To"), *terms[1:], Column("Cost", "float")), edges)
        )
    return [shown(table, detail) for table in tables]
