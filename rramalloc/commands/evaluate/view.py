"""View of an evaluation: strategies layer after layer."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from rramalloc.chart import BLUE, GREEN, ORANGE, Chart, Key
from rramalloc.commands.evaluate.evaluation import EvaluationDocument
from rramalloc.units import duration, share
from rramalloc.view.charts import Bars, stacked_bars
from rramalloc.view.view import FIGURE, Detail, Fact, Table, View, table

_SHOWN = 10
"""Strategies that a terminal prints."""


def evaluation_view(result: EvaluationDocument) -> View:
    """Return the view: tasks under the best strategy and composed, strategies, proposed copies."""
    slowest = max(result.tasks, key=lambda task: task.time_ns)
    return View.of(
        result,
        kind="Evaluation of strategies",
        title=f"{result.network.name}, layer after layer: {duration(result.time_ns)}",
        sentence=f"{slowest.name} takes longest, {duration(slowest.time_ns)}, most of it {slowest.dominant}",
        extent=f"{len(result.tasks)} tasks, one after the other",
        facts=_facts(result),
        tables=_tables(result),
        charts={"tasks": partial(tasks_chart, result)},
    )


def _is_composed(result: EvaluationDocument) -> bool:
    """Return True if the best strategy of every task takes less time than any one strategy."""
    return result.composed is not None and result.composed.time_ns < result.time_ns


def _tables(result: EvaluationDocument) -> Iterator[Table]:
    yield table(
        f"Tasks under {result.best}",
        result.tasks,
        "task=name, operator, windows, bytes in=bytes_in, bytes out=bytes_out, subtasks, split, share, "
        "in=in_ns, compute=compute_ns, out=out_ns, time=time_ns, dominant",
        spare="windows bytes_in bytes_out operator share split out_ns in_ns compute_ns subtasks",
    )
    yield table(
        "Fastest strategies", result.ranking, "strategy=name, time_ns, ratio", spare="ratio", shown=_SHOWN
    )
    if result.composed is not None:
        yield table(
            "Tasks, each under its best strategy",
            result.composed.tasks,
            "task=name, best strategy=strategy, subtasks, split, share, time=time_ns, dominant",
            spare="dominant time_ns share split subtasks",
            shown=None if _is_composed(result) else 0,
        )
    if result.proposal is not None:
        layers = result.proposal.layers
        columns = "layer=name, kind, arrays_per_copy, copies, arrays, time=time_ns"
        yield table("Proposed copies", layers, columns, spare="arrays_per_copy")


def _facts(result: EvaluationDocument) -> Iterator[Fact]:
    chip = result.chip
    units = f"{chip.processors} processors, {chip.storage_units} storage units of {chip.unit_bytes} bytes"
    yield Fact("chip", units)
    many = result.enumerated
    if many is not None:
        units = f"{many.compute_units} compute and {many.storage_units} storage units"
        several = "1 class" if len(many.classes) == 1 else f"{len(many.classes)} classes"
        classes = f"{several} of equal time that fit every task"
        yield Fact("enumerated", f"{many.ways} ways to share {units} out; {classes}")
    yield Fact("strategies", result.strategies)
    others = result.equals - 1
    equal = ", as does one other" if others == 1 else f", as do {others} others" if others else ""
    yield Fact("best", f"{result.best} takes {duration(result.time_ns)}{equal}")
    if result.composed is not None:
        yield Fact("composed", result.composed.time_ns, "ns", "with the best strategy of every task")
    proposal = result.proposal
    if proposal is not None:
        proof = "no other numbers of copies are faster" if proposal.proven else "not proven the least"
        words = f"in {proposal.used} arrays used of {proposal.budget}; {proof}"
        yield Fact("proposed", proposal.time_ns, "ns", words)
    terms = {"in-transfer": "in_ns", "compute": "compute_ns", "out-transfer": "out_ns"}
    parts = {name: sum(getattr(task, term) for task in result.tasks) for name, term in terms.items()}
    shares = [f"{name} {share(part / result.time_ns)}" for name, part in parts.items() if result.time_ns]
    yield Fact("held back by", ", ".join(shares) or "nothing")


def tasks_chart(result: EvaluationDocument, *, detail: Detail = FIGURE) -> Chart | None:
    """Stack the times of every task under the best strategy, or each under its own if that is faster."""
    tasks = result.tasks
    if result.composed is not None and _is_composed(result):
        tasks = result.composed.tasks
    bars: Bars = (
        (Key("in-transfer", ORANGE), [task.in_ns / 1e3 for task in tasks]),
        (Key("compute", BLUE), [task.compute_ns / 1e3 for task in tasks]),
        (Key("out-transfer", GREEN), [task.out_ns / 1e3 for task in tasks]),
    )
    names = [task.name for task in tasks]
    return stacked_bars("Time of the tasks", "task", "us", names, bars, detail=detail)
