"""The evaluation of many strategies at once, layer after layer (SYSTEMS.md 1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from rramalloc.errors import SpecError
from rramalloc.hardware.hardware import Precision
from rramalloc.mapping.options import FullyConnected
from rramalloc.network.network import Network
from rramalloc.records import brief
from rramalloc.results.allocation import NetworkId
from rramalloc.studies.strategies.chip import ChipPerformance
from rramalloc.studies.strategies.evaluation import (
    Enumerated,
    Evaluation,
    EvaluationDocument,
    StrategyTime,
    TaskTime,
)
from rramalloc.studies.strategies.performance import Matrix, column_sums
from rramalloc.studies.strategies.plan import Plan
from rramalloc.studies.strategies.source import Enumeration, Plans, Progress, Source, check_entries
from rramalloc.studies.strategies.tasks import Task, tasks_of
from rramalloc.version import __version__

DEFAULT_LIMIT = 100_000
_RANKED = 100

Planner = Callable[[Sequence[Task]], Plan]
"""Works a strategy out once the tasks are known."""


def evaluate_strategies(
    network: Network, chip: ChipPerformance, precision: Precision, fc: FullyConnected,
    planners: Iterable[Planner], *, units: tuple[int, int] | None = None, limit: int = DEFAULT_LIMIT,
    on_progress: Progress | None = None,
) -> Evaluation:  # fmt: skip
    """Run times of all tasks under all strategies, given or enumerated, and the best of them.

    units: compute and storage units of which the first `limit` ways of sharing them out are enumerated.
    Run time of a task = max over its subtasks of share * (bytes_in / bandwidth_in + bytes_in * cost +
    bytes_out / bandwidth_out). Raises SpecError, UnsupportedError.  Source: SYSTEMS.md 1.
    """
    tasks = tasks_of(network, chip, precision, fc)
    plans = [planner(tasks) for planner in planners]
    sources: list[Source] = [Plans(plans, tasks)] if plans else []
    enumerated = None
    if units is not None:
        enumeration = Enumeration(*units, tasks, chip, limit, on_progress)
        sources.append(enumeration)
        enumerated = _enumerated(enumeration, units)
    names = [name for source in sources for name in source.names]
    _check_names(names, plans)
    check_entries(len(tasks), len(names))
    matrix = _matrix(tasks, sources)
    total = column_sums(matrix)
    best = int(total.argmin())
    document = EvaluationDocument(
        rramalloc_version=__version__,
        network=NetworkId.of(network),
        chip=chip,
        precision=precision,
        fc=fc,
        strategies=len(names),
        enumerated=enumerated,
        best=names[best],
        time_ns=float(total[best]),
        equals=int((total == total[best]).sum()),
        tasks=tuple(_task_times(tasks, matrix[:, best], sources, best)),
        ranking=_ranking(names, total),
        warnings=network.warnings,
    )
    return Evaluation(document, tuple(names), matrix, tuple(sources))


def _matrix(tasks: Sequence[Task], sources: Sequence[Source]) -> Matrix:
    shares = [source.largest_shares() for source in sources]
    matrix = shares[0] if len(shares) == 1 else np.concatenate(shares, axis=1)
    for row, task in zip(matrix, tasks, strict=True):
        row *= task.total_ns
    return matrix


def _task_times(
    tasks: Sequence[Task], times_ns: Matrix, sources: Sequence[Source], column: int
) -> Iterable[TaskTime]:
    for source in sources:
        if column < len(source.names):
            break
        column -= len(source.names)
    for number, (task, time_ns) in enumerate(zip(tasks, times_ns.tolist(), strict=True)):
        subtasks, share = source.busiest(number, column)
        yield TaskTime(
            name=task.name,
            operator=task.operator,
            windows=task.windows,
            bytes_in=task.bytes_in,
            bytes_out=task.bytes_out,
            bytes_working=task.bytes_working,
            subtasks=subtasks,
            share=share,
            in_ns=share * task.in_ns,
            compute_ns=share * task.compute_ns,
            out_ns=share * task.out_ns,
            time_ns=time_ns,
            dominant=task.dominant,
        )


def _ranking(names: Sequence[str], total: Matrix) -> tuple[StrategyTime, ...]:
    order = np.argsort(total, kind="stable")[:_RANKED].tolist()
    least = float(total[order[0]])
    return tuple(
        StrategyTime(
            name=names[place],
            time_ns=float(total[place]),
            ratio=float(total[place]) / least if least else 1.0,
        )
        for place in order
    )


def _enumerated(enumeration: Enumeration, units: tuple[int, int]) -> Enumerated:
    return Enumerated(
        compute_units=units[0],
        storage_units=units[1],
        unit_bytes=enumeration.unit_bytes,
        ways=enumeration.ways,
        fitting=enumeration.fitting,
        evaluated=len(enumeration.names),
    )


def _check_names(names: Sequence[str], plans: Sequence[Plan]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        homes = [plan.where for plan in plans if plan.name == twice[0]]
        told = f" ({' and '.join(homes[:2])})" if len(homes) > 1 else ""
        raise SpecError(
            "strategies", f"two of them are named {brief(twice[0])}{told}: give each a name of its own"
        )
