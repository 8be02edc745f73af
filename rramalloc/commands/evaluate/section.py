"""Section of an evaluation: strategies layer after layer."""

from __future__ import annotations

from collections.abc import Sequence

from rramalloc.chart import BLUE, GREEN, ORANGE, Key
from rramalloc.commands.evaluate.evaluation import EvaluationDocument, TaskTime
from rramalloc.page.section import Bars, Detail, Fact, Section, Table, stacked_bars, table, warning_notes
from rramalloc.units import duration


def evaluation_section(result: EvaluationDocument, detail: Detail) -> Section:
    """Return the section: tasks under the best strategy and composed, strategies, proposed copies."""
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
    time = "Time float=time_ns"
    if result.proposal is not None:
        columns = f"Layer=name, Arrays per copy int, Copies int, Arrays int, {time}"
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
        "Task=name, Operator, Strategy, Subtasks int, Split, Share percent, In float=in_ns, "
        "Compute float=compute_ns, Out float=out_ns, Time float=time_ns, Dominant"
    )
    return table(title, columns, tasks, detail)
