"""Sections of the companion methods: strategies layer after layer, folded filters, measured latencies."""

from __future__ import annotations

from collections.abc import Sequence

from rramalloc.chart import BLUE, GREEN, ORANGE, Axis, Chart, Key, Lists, Panel, stacked
from rramalloc.columns import Column, columns_of
from rramalloc.report.section import Detail, Fact, Section, Table, table, thinned, warning_notes
from rramalloc.results.filter_folding import FilterFold, Folded, NetworkFold
from rramalloc.studies.strategies.evaluation import EvaluationDocument, TaskTime
from rramalloc.timing.latency_table import LatencyTable
from rramalloc.units import counted, duration, share

Bars = Sequence[tuple[Key, Sequence[float]]]


def stacked_bars(title: str, across: str, up: str, names: Sequence[str], bars: Bars, detail: Detail) -> Chart:
    """A stacked bar for each name, as many as the detail allows."""
    kept = thinned(len(names), max(2, detail.marks // (4 * len(bars))))
    data: Lists = {"place": list(range(len(kept))), "name": [names[at] for at in kept]}
    data |= {key.name: [float(values[at]) for at in kept] for key, values in bars}
    layers, highest = stacked(data, {key.name: key for key, _ in bars}, {across: "name"})
    labels = Axis.of_names(data["name"], across)
    axis = Axis(up, 0, highest * 1.04 or 1)
    return Chart(title, (Panel(labels, axis, 240, tuple(layers)),), f"Bars of {len(kept)} of {len(names)}.")


def evaluation_section(result: EvaluationDocument, detail: Detail) -> Section:
    """Times of the tasks under the best strategy and composed, strategies, and proposed copies."""
    facts = [Fact("Best strategy", duration(result.time_ns), result.best)]
    if result.composed is not None:
        facts.append(Fact("Composed", duration(result.composed.time_ns), "best strategy of every task"))
    if result.proposal is not None:
        arrays = f"{result.proposal.used:,} of {result.proposal.budget:,} arrays"
        facts.append(Fact("Proposed copies", duration(result.proposal.time_ns), arrays))
    facts.append(Fact("Strategies", f"{result.strategies:,}"))
    best = result.tasks
    if result.composed is not None and result.composed.time_ns < result.time_ns:
        best = result.composed.tasks
    bars: Bars = (
        (Key("in-transfer", ORANGE), [task.in_ns / 1e3 for task in best]),
        (Key("compute", BLUE), [task.compute_ns / 1e3 for task in best]),
        (Key("out-transfer", GREEN), [task.out_ns / 1e3 for task in best]),
    )
    chart = stacked_bars("Time of the tasks", "task", "us", [task.name for task in best], bars, detail)
    tables = [_tasks(f"Tasks under {result.best}", result.tasks, detail)]
    if result.composed is not None:
        tables.append(_tasks("Tasks, each under its best strategy", result.composed.tasks, detail))
    time = "Time [ns] float=time_ns"
    if result.proposal is not None:
        columns = f"Layer=name, Demand int, Copies int=replication, Arrays int, {time}"
        tables.append(table("Proposed copies", columns, result.proposal.layers, detail, folded=False))
    ranked = f"Strategy=name, {time}, Ratio float"
    tables.append(table("Fastest strategies", ranked, result.ranking, detail))
    slowest = max(best, key=lambda task: task.time_ns)
    return Section(
        title=f"{result.network.name}, layer after layer: {duration(result.time_ns)}",
        subtitle="Evaluation of strategies",
        facts=tuple(facts),
        blocks=(*warning_notes(result.warnings), chart, *tables),
        limit=f"{slowest.name} takes longest, {duration(slowest.time_ns)}, most of it {slowest.dominant}",
        headline=f"{result.best} takes {duration(result.time_ns)}",
    )


def _tasks(title: str, tasks: Sequence[TaskTime], detail: Detail) -> Table:
    columns = (
        "Task=name, Operator, Strategy, Subtasks int, Split, Share percent, In [ns] float=in_ns, "
        "Compute [ns] float=compute_ns, Out [ns] float=out_ns, Time [ns] float=time_ns, Dominant"
    )
    return table(title, columns, tasks, detail)


def fold_section(result: FilterFold | NetworkFold, detail: Detail) -> Section:
    """Filters before and after, and what that saves."""
    blocks: tuple[Chart, ...] = ()
    if isinstance(result, FilterFold):
        facts = (
            Fact("Work saved", share(result.saving), f"{result.work_before:,} to {result.work_after:,}"),
            Fact("Fold", f"{result.n_h} x {result.n_w}", f"rule {result.chosen}"),
        )
        folds: Sequence[Folded] = [result]
        title = f"Filter {_by(result.filter_before)}, folded"
    else:
        folded = [layer for layer in result.layers if layer.size is not None]
        saved, before, after = "Arrays saved", result.demand_before, result.demand_after
        if result.array_steps_before is not None and result.array_steps_after is not None:
            saved, before, after = "Array-steps saved", result.array_steps_before, result.array_steps_after
        facts = (
            Fact(saved, share(result.saving), f"{before:,} to {after:,}"),
            Fact("Layers folded", f"{len(folded):,}", f"of {len(result.layers):,}"),
        )
        folds = result.layers
        title = f"{result.network.name}, folded: {result.demand_after:,} arrays"
        bars: Bars = (
            (Key("folded", BLUE), [layer.demand_after for layer in result.layers]),
            (Key("saved", ORANGE), [layer.demand_before - layer.demand_after for layer in result.layers]),
        )
        names = [layer.name for layer in result.layers]
        blocks = (stacked_bars("Arrays of one copy", "layer", "arrays", names, bars, detail),)
    columns = (
        Column("Layer", value=lambda each: getattr(each, "name", "filter")),
        *columns_of("Filter before, Filter, Stride, Dilation"),
    )
    warnings = result.warnings if isinstance(result, NetworkFold) else ()
    filters = table("Filters (C_o, K_h, K_w, C_i)", columns, folds, detail, folded=False)
    return Section(
        title=title,
        subtitle="Filter folding",
        facts=facts,
        blocks=(*warning_notes(warnings), *blocks, filters),
        headline=f"{share(result.saving)} saved",
    )


def _by(sizes: Sequence[int]) -> str:
    return " x ".join(map(str, sizes))


def latency_section(result: LatencyTable, detail: Detail) -> Section:
    """Latencies of the layers, and the overhead that was taken off."""
    layers = [row for row in result.rows if row.operator != "network"]
    total = sum(row.latency_ns for row in layers)
    facts = [Fact("Layers", f"{len(layers):,}", f"{duration(total)} together, each distinct one once")]
    if result.overhead is not None:
        cost = result.overhead
        facts.append(Fact("Overhead a run", duration(max(0.0, cost.c_ns)), f"R^2 {cost.r2:.6f}"))
        each = f"{cost.a_ns_per_byte:.4g} in, {cost.b_ns_per_byte:.4g} out"
        facts.append(Fact("Overhead a byte [ns]", each))
    names = [f"{row.operator} {_by(row.shape)}" for row in layers]
    bars: Bars = ((Key("latency", BLUE), [max(0.0, row.latency_ns) / 1e3 for row in layers]),)
    columns = (
        "Operator, Shape, Parameters=brief_parameters, Latency [ns] float=latency_ns, "
        "Noise [ns] float=noise_ns, Lowest [ns] float=low_ns, Highest [ns] float=high_ns, Runs int=n, "
        "Flags=flag_text"
    )
    chart = (stacked_bars("Latency of the layers", "layer", "us", names, bars, detail),) if layers else ()
    device = next((row.device for row in result.rows if row.device), "unknown device")
    return Section(
        title="Measured latencies",
        subtitle=device,
        facts=tuple(facts),
        blocks=(
            *warning_notes(result.warnings),
            *chart,
            table("Layers", columns, result.rows, detail, folded=False),
        ),
        headline=f"{counted(len(layers), 'layer')} on {device}",
    )
