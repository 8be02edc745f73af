"""Section of a network's cost on chiplets: the slowest operator of every group, and what lies between."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rramalloc.chart import BLUE, GREEN, ORANGE, PURPLE, Axis, Chart, Key, Lists, Panel, stacked
from rramalloc.commands.chiplet.chiplet_optimize import ChipletSchedule
from rramalloc.commands.chiplet.cost import ChipletCost
from rramalloc.page.section import Detail, Fact, Section, Table, table, warning_notes
from rramalloc.units import counted, quantity, share

_TERMS = {
    "compute": Key("compute", BLUE),
    "communication": Key("communication", ORANGE),
    "routing": Key("routing", GREEN),
    "before": Key("moved to it before", PURPLE),
}
"""Field and legend of what a group's bar is stacked from."""


def schedule_section(schedule: ChipletSchedule, detail: Detail) -> Section:
    """Return the section as `chiplet_section`, with the bound, other schedules, and where every operator
    runs."""
    section = chiplet_section(schedule.cost, detail)
    unit = schedule.cost.unit
    bound = Fact(
        "Lower bound", f"{quantity(schedule.lower_bound, unit)}", f"{share(schedule.gap)} below at most"
    )
    ratios = "Schedule=name, Total float, Ratio float"
    others = table("Other schedules", ratios, schedule.baselines, detail, folded=False)
    columns = "Group int, Operator, Strategy, Units int, First, Last"
    places = table("Strategies and submeshes", columns, schedule.rows(), detail)
    warnings = [*section.blocks[: len(schedule.cost.warnings)]]
    own = warning_notes(tuple(w for w in schedule.warnings if w not in schedule.cost.warnings))
    return replace(
        section,
        title=f"Schedule on chiplets: {quantity(schedule.total, unit)}",
        subtitle=schedule.description.name or "Chiplet schedule",
        facts=(*section.facts, bound),
        blocks=(*own, *warnings, others, *section.blocks[len(warnings) :], places),
        made=(("Proof", schedule.proof), ("Seed", str(schedule.seed))),
    )


def chiplet_section(cost: ChipletCost, detail: Detail) -> Section:
    """Return the section: headline, stacked terms of the groups, operators and edges."""
    moved = sum(cost.between)
    facts: tuple[Fact, ...] = (
        Fact("Total", f"{quantity(cost.total, cost.unit)}"),
        Fact(
            "Groups",
            f"{len(cost.groups):,}",
            f"{quantity(sum(group.cost for group in cost.groups), cost.unit)}",
        ),
        Fact(
            "Between groups",
            f"{quantity(moved, cost.unit)}",
            f"{share(moved / cost.total) if cost.total else 0} of all",
        ),
    )
    slowest = max(range(len(cost.groups)), key=lambda place: cost.groups[place].cost, default=None)
    if cost.pipelined is not None:
        facts += (Fact("Pipelined", f"{quantity(cost.pipelined, cost.unit)}", "all stages at the same time"),)
    limit = ""
    if slowest is not None and cost.total:
        part = cost.groups[slowest].cost / cost.total
        limit = f"Group {slowest} takes longest, {share(part)} of the total"
    blocks: list[Any] = list(warning_notes(cost.warnings))
    if cost.groups:
        blocks += [_chart(cost, detail), *_tables(cost, detail)]
    return Section(
        title=f"Inference on chiplets: {quantity(cost.total, cost.unit)}",
        subtitle="Chiplet cost",
        facts=facts,
        blocks=tuple(blocks),
        limit=limit,
        headline=f"{quantity(cost.total, cost.unit)} in {counted(len(cost.groups), 'group')}",
    )


def _chart(cost: ChipletCost, detail: Detail) -> Chart:
    """Draw groups and what lies between them one after the other, as the total adds them up."""
    kept = cost.groups[: max(1, detail.marks // 4)]
    slowest = [max(group.operators.items(), key=lambda item: item[1].cost, default=None) for group in kept]
    data: Lists = {
        "place": list(range(len(kept))),
        "operator": ["" if each is None else each[0] for each in slowest],
        "before": [0.0, *cost.between][: len(kept)],
    }
    for name in ("compute", "communication", "routing"):
        data[name] = [0.0 if each is None else float(getattr(each[1], name)) for each in slowest]
    hover = {"group": "place", "slowest operator": "operator"}
    hover |= {key.name: name for name, key in _TERMS.items()}
    layers, highest = stacked(data, _TERMS, hover)
    across = Axis.of_names([str(place) for place in data["place"]], "group")
    up = Axis(f"cost [{cost.unit}]", 0, highest * 1.04 or 1)
    summary = f"Stacked bars of {counted(len(kept), 'group')}: the terms of the slowest operator of each."
    return Chart("Cost of the groups", (Panel(across, up, 240, tuple(layers)),), summary)


def _tables(cost: ChipletCost, detail: Detail) -> list[Table]:
    terms = "Communication float, Routing float, Cost float"
    of_operators = f"Group int, Operator, Compute float, {terms}"
    tables = [table("Operators", of_operators, cost.rows(), detail, folded=False)]
    if cost.edges:
        tables.append(table("Edges", f"From=source, To, {terms}", cost.edges, detail))
    return tables
