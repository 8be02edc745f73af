"""Views of a network's cost on chiplets: the slowest operator of every group, and the edges between."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from rramalloc.chart import BLUE, GREEN, ORANGE, PURPLE, Chart, Key
from rramalloc.commands.chiplet.chiplet_optimize import ChipletSchedule
from rramalloc.commands.chiplet.cost import ChipletComparison, ChipletCost
from rramalloc.units import counted, plain_quantity, quantity, share
from rramalloc.view.charts import Bars, stacked_bars
from rramalloc.view.view import FIGURE, Detail, Fact, View, table

_SPARE = "routing communication compute"
_SEQUENTIAL = ", sequential: one group after the other, with the transfers between them"
_PIPELINED = ", all stages at the same time, without transfers between tiles: what `optimize` counts"


def cost_view(cost: ChipletCost) -> View:
    """Return the view: stacked terms of the groups, operators, edges, and sums."""
    edges = table("Edges", cost.edges, f"from=source, to, {_terms(cost)}", spare=_SPARE)
    operators = table(
        "Operators", cost.rows(), f"group, operator, compute[{cost.unit}], {_terms(cost)}", spare=_SPARE
    )
    facts = [
        Fact("groups", cost.computed, cost.unit, f"in {len(cost.groups)} groups"),
        Fact("between", sum(cost.between), cost.unit),
        Fact("total", cost.total, cost.unit, "" if cost.pipelined is None else _SEQUENTIAL),
    ]
    if cost.pipelined is not None:
        facts.append(Fact("pipelined", cost.pipelined, cost.unit, _PIPELINED))
    return View.of(
        cost,
        kind="Chiplet cost",
        title=f"Inference on chiplets: {quantity(cost.total, cost.unit)}",
        sentence=_longest(cost),
        facts=facts,
        tables=(operators, edges),
        charts={"groups": partial(groups_chart, cost)},
    )


def _terms(cost: ChipletCost) -> str:
    return ", ".join(f"{name}[{cost.unit}]" for name in ("communication", "routing", "cost"))


def schedule_view(schedule: ChipletSchedule) -> View:
    """Return the view: where every operator runs, the bound, other schedules, and the terms of the cost."""
    operators = table(
        "Strategies and submeshes",
        schedule.rows(),
        f"group, operator, strategy, units, first, compute[{schedule.cost.unit}], {_terms(schedule.cost)}",
        spare=f"first {_SPARE}",
    )
    others = table(
        "Other schedules", schedule.baselines, f"schedule=name, total[{schedule.cost.unit}], ratio", shown=0
    )
    return View.of(
        schedule,
        kind="Chiplet schedule",
        title=f"Schedule on chiplets: {quantity(schedule.total, schedule.cost.unit)}",
        facts=_found(schedule),
        tables=(operators, others),
        charts={"groups": partial(groups_chart, schedule.cost)},
    )


def _found(schedule: ChipletSchedule) -> Iterator[Fact]:
    cost = schedule.cost
    unit = schedule.cost.unit
    if schedule.description.name is not None:
        yield Fact("network", schedule.description.name)
    yield Fact("total", schedule.total, unit, f"in {counted(len(cost.groups), 'group')}")
    yield Fact("between", sum(cost.between), unit, "of it")
    yield Fact("lower bound", schedule.lower_bound, unit)
    yield Fact("gap", schedule.gap, "share", "from optimal at most")
    yield Fact("proof", schedule.proof)
    for baseline in schedule.baselines:
        words = f"{plain_quantity(baseline.total, unit)}, {baseline.ratio:.3f} times as much"
        yield Fact(baseline.name, words)
    yield Fact("options", f"{schedule.options:,} strategies with their submeshes, of all operators")


def chiplet_comparison_view(comparison: ChipletComparison) -> View:
    """Return the view: the descriptions side by side."""
    columns = "description=name, groups, in groups=computed, between, total, unit, ratio"
    return View.of(
        comparison,
        kind="Chiplet descriptions",
        title="Descriptions side by side",
        tables=[table("Descriptions", comparison.descriptions, columns)],
    )


def groups_chart(cost: ChipletCost, *, detail: Detail = FIGURE) -> Chart | None:
    """Stack the terms of the slowest operator of every group."""
    named = [max(group.operators.items(), key=lambda item: item[1].cost) for group in cost.groups]
    slowest = [operator for _, operator in named]
    bars: Bars = (
        (Key("compute", BLUE), [operator.compute for operator in slowest]),
        (Key("communication", ORANGE), [operator.communication for operator in slowest]),
        (Key("routing", GREEN), [operator.routing for operator in slowest]),
        (Key("moved to it before", PURPLE), [0.0, *cost.between]),
    )
    names = [f"{number}: {name}" for number, (name, _) in enumerate(named)]
    up = f"cost [{cost.unit}]"
    return stacked_bars("Cost of the groups", "group: slowest operator", up, names, bars, detail=detail)


def _longest(cost: ChipletCost) -> str:
    """Return which group takes longest, in words; empty where nothing takes any time."""
    if not cost.total:
        return ""
    longest = max(range(len(cost.groups)), key=lambda group: cost.groups[group].cost)
    return f"Group {longest} takes longest, {share(cost.groups[longest].cost / cost.total)} of the total"
