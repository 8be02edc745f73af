"""Section of a network's cost on chiplets: the slowest operator of every group, and what lies between."""

from __future__ import annotations

from typing import Any

from rramalloc.report import style
from rramalloc.report.page import charts
from rramalloc.report.page.allocation import warning_notes
from rramalloc.report.page.parts import Chart, Column, Detail, Fact, Section, Table, shown
from rramalloc.shown import counted
from rramalloc.studies.chiplet.cost import ChipletCost
from rramalloc.units import share

_TERMS = (("compute", style.BLUE), ("communication", style.ORANGE), ("routing", style.GREEN))


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
    drawn = charts.figure(340, "group", f"cost [{cost.unit}]")
    charts.factors(drawn, [str(place) for place in range(len(kept))], "x")
    places = list(range(len(kept)))
    slowest = [max(group.operators.items(), key=lambda item: item[1].cost, default=None) for group in kept]
    columns: dict[str, list[Any]] = {
        "place": places,
        "operator": ["" if each is None else each[0] for each in slowest],
        "before": [0.0, *cost.between][: len(kept)],
    }
    low = [0.0] * len(kept)
    for name, _ in _TERMS:
        values = [0.0 if each is None else float(getattr(each[1], name)) for each in slowest]
        columns[name], columns[f"{name}_from"] = values, low
        low = [start + value for start, value in zip(low, values, strict=True)]
        columns[f"{name}_to"] = low
    columns["before_from"], columns["before_to"] = (
        low,
        [a + b for a, b in zip(low, columns["before"], strict=True)],
    )
    data = charts.source(columns)
    told = [
        ("group", "@place"),
        ("slowest operator", "@operator"),
        *((n, f"@{n}{{0,0.[00]}}") for n, _ in _TERMS),
        ("moved to it before", "@before{0,0.[00]}"),
    ]
    entries = []
    for name, colour in (*_TERMS, ("before", style.PURPLE)):
        bars = drawn.vbar(
            x="place",
            bottom=f"{name}_from",
            top=f"{name}_to",
            width=0.7,
            source=data,
            fill_color=colour,
            line_color=None,
        )
        charts.hover(drawn, [bars], told)
        entries.append(("moved to it before" if name == "before" else name, [bars]))
    drawn.y_range.start = 0
    summary = f"Stacked bars of {counted(len(kept), 'group')}: the terms of the slowest operator of each."
    return Chart("Cost of the groups", (drawn,), summary, "x", keys=charts.keys(entries))


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
