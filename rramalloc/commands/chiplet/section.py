"""Section of a network's cost on chiplets: the slowest operator of every group, and what lies between."""

from __future__ import annotations

from dataclasses import replace

from rramalloc.chart import BLUE, GREEN, ORANGE, PURPLE, Key
from rramalloc.commands.chiplet.chiplet_optimize import ChipletSchedule
from rramalloc.commands.chiplet.cost import ChipletCost
from rramalloc.page.section import Bars, Block, Detail, Fact, Section, stacked_bars, table, warning_notes
from rramalloc.units import counted, quantity, share


def schedule_section(schedule: ChipletSchedule, detail: Detail) -> Section:
    """Return the section of the cost, with the bound, other schedules, and where every operator runs."""
    cost = schedule.cost.model_copy(update={"warnings": schedule.warnings})
    section, unit = chiplet_section(cost, detail), schedule.cost.unit
    note = f"{share(schedule.gap)} below at most"
    ratios = "Schedule=name, Total float, Ratio float"
    columns = "Group int, Operator, Strategy, Units int, First, Last"
    return replace(
        section,
        title=f"Schedule on chiplets: {quantity(schedule.total, unit)}",
        subtitle=schedule.description.name or "Chiplet schedule",
        facts=(*section.facts, Fact("Lower bound", quantity(schedule.lower_bound, unit), note)),
        blocks=(
            *section.blocks,
            table("Other schedules", ratios, schedule.baselines, detail, folded=False),
            table("Strategies and submeshes", columns, schedule.rows(), detail),
        ),
        made=(("Proof", schedule.proof), ("Seed", str(schedule.seed))),
    )


def chiplet_section(cost: ChipletCost, detail: Detail) -> Section:
    """Return the section: headline, stacked terms of the groups, operators and edges."""
    moved, total, unit = sum(cost.between), quantity(cost.total, cost.unit), cost.unit
    part = share(moved / cost.total) if cost.total else "0"
    facts = [
        Fact("Total", total),
        Fact("Groups", f"{len(cost.groups):,}", quantity(cost.computed, unit)),
        Fact("Between groups", quantity(moved, unit), f"{part} of all"),
    ]
    if cost.pipelined is not None:
        facts.append(Fact("Pipelined", quantity(cost.pipelined, unit), "all stages at the same time"))
    named = [max(group.operators.items(), key=lambda item: item[1].cost) for group in cost.groups]
    slowest = [operator for _, operator in named]
    bars: Bars = (
        (Key("compute", BLUE), [operator.compute for operator in slowest]),
        (Key("communication", ORANGE), [operator.communication for operator in slowest]),
        (Key("routing", GREEN), [operator.routing for operator in slowest]),
        (Key("moved to it before", PURPLE), [0.0, *cost.between]),
    )
    names = [f"{number}: {name}" for number, (name, _) in enumerate(named)]
    terms = "Communication float, Routing float, Cost float"
    blocks: list[Block] = [
        *warning_notes(cost.warnings),
        stacked_bars("Cost of the groups", "group: slowest operator", f"cost [{unit}]", names, bars, detail),
        table("Operators", f"Group int, Operator, Compute float, {terms}", cost.rows(), detail, folded=False),
    ]
    if cost.edges:
        blocks.append(table("Edges", f"From=source, To, {terms}", cost.edges, detail))
    limit = ""
    if cost.total:
        longest = max(range(len(slowest)), key=lambda group: slowest[group].cost)
        limit = f"Group {longest} takes longest, {share(slowest[longest].cost / cost.total)} of the total"
    return Section(
        title=f"Inference on chiplets: {total}",
        subtitle="Chiplet cost",
        facts=tuple(facts),
        blocks=tuple(blocks),
        limit=limit,
        headline=f"{total} in {counted(len(cost.groups), 'group')}",
    )
