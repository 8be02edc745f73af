"""Evaluation: which strategy is fastest layer after layer, and what holds every task back.

Source: docs/sources/companions.md 1.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rramalloc.choices import FullyConnected
from rramalloc.errors import SpecError
from rramalloc.hardware.hardware import Precision
from rramalloc.network.network import Network
from rramalloc.network.node import Name
from rramalloc.records import Record, brief
from rramalloc.result import Result, frame_of
from rramalloc.results.allocation import Count, NetworkId
from rramalloc.studies.strategies.chip import ChipPerformance
from rramalloc.studies.strategies.enumeration import (
    ColumnSource,
    Enumeration,
    PlanColumns,
    Progress,
    check_entries,
)
from rramalloc.studies.strategies.matrices import Matrix, column_sums, write_load, write_performance
from rramalloc.studies.strategies.strategy import StrategyPlan
from rramalloc.studies.strategies.tasks import LayerTask, Term, tasks_of
from rramalloc.units import one_line
from rramalloc.version import __version__

if TYPE_CHECKING:
    import pandas as pd

FORMAT: Literal["rramalloc-evaluation/1"] = "rramalloc-evaluation/1"


class TaskTime(Record):
    """A task under the best strategy.

    bytes_in, bytes_out, bytes_working: of the whole task (input, output, weights); subtasks: how many;
    share: of the windows, of the subtask that takes longest; in_ns, compute_ns, out_ns: its three terms,
    time_ns: their sum, the task's run time; dominant: the largest term, the same under every strategy.
    """

    name: Name
    operator: str
    windows: Count
    bytes_in: Count
    bytes_out: Count
    bytes_working: Count
    subtasks: Count
    share: float
    in_ns: float
    compute_ns: float
    out_ns: float
    time_ns: float
    dominant: Term


class StrategyTime(Record):
    """Run time of the network under a strategy; ratio: to the best one."""

    name: Name
    time_ns: float
    ratio: float


class Enumerated(Record):
    """What was enumerated.

    unit_bytes: of a storage unit, an equal part of the chip's memory; ways: all there are; fitting: those
    whose storage suffices; evaluated: so many, the fastest among them.
    """

    compute_units: Count
    storage_units: Count
    unit_bytes: int
    ways: int
    fitting: int
    evaluated: Count


class EvaluationDocument(Record):
    """What `evaluate --format json` prints.

    best: the fastest strategy, the first of equals; equals: how many are as fast; ranking: the fastest
    strategies, at most 100; enumerated: None without --enumerate.
    """

    format: Literal["rramalloc-evaluation/1"] = FORMAT
    rramalloc_version: str
    network: NetworkId
    chip: ChipPerformance
    precision: Precision
    fc: Literal["host", "crossbar"]
    strategies: Count
    enumerated: Enumerated | None
    best: Name
    time_ns: float
    equals: Count
    tasks: tuple[TaskTime, ...]
    ranking: tuple[StrategyTime, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Result):
    """Strategies side by side. document: the summary; names: of the strategies, the matrix's columns;
    performance_ns: float64 of tasks x strategies; sources: where the load matrix is made from.
    """

    document: EvaluationDocument
    names: tuple[str, ...]
    performance_ns: Matrix
    sources: tuple[ColumnSource, ...]

    @property
    def best(self) -> str:
        """Name of the fastest strategy."""
        return self.document.best

    @property
    def time_ns(self) -> float:
        """The network's run time under the best strategy."""
        return self.document.time_ns

    @property
    def task_names(self) -> tuple[str, ...]:
        """Names of the tasks, the matrix's rows."""
        return tuple(task.name for task in self.document.tasks)

    def totals_ns(self) -> dict[str, float]:
        """Run time of the network under every strategy."""
        return dict(zip(self.names, column_sums(self.performance_ns).tolist(), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """The document that `evaluate --format json` prints, without the matrices."""
        return self.document.model_dump(mode="json")

    def to_frame(self) -> pd.DataFrame:
        """The performance matrix in ns: a row per task, a column per strategy."""
        import pandas as pd

        index = pd.Index(self.task_names, name="task")
        return pd.DataFrame(self.performance_ns, index=index, columns=pd.Index(self.names))

    def save_load(self, path: str | os.PathLike[str]) -> None:
        """Write the load matrix as JSON, whole or not at all. Raises FileError."""
        write_load(path, self.document.network, self.document.chip, self.task_names, self.sources)

    def save_performance(self, path: str | os.PathLike[str]) -> None:
        """Write the performance matrix as CSV or Parquet, whole or not. Raises SpecError, FileError."""
        write_performance(path, self.performance_ns, self.task_names, self.names)

    def _headline(self) -> tuple[str, str]:
        document = self.document
        best = f"strategy {one_line(document.best, 60)} takes {document.time_ns:,.6g} ns"
        return document.network.name, f"{best}, the best of {document.strategies:,}"

    def _table(self) -> pd.DataFrame:
        times = ("in_ns", "compute_ns", "out_ns", "time_ns", "dominant")
        return frame_of(self.document.tasks, ("name", "operator", "windows", "subtasks", *times))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was assumed or ignored."""
        return self.document.warnings


DEFAULT_LIMIT = 100_000
_RANKED = 100

Planner = Callable[[Sequence[LayerTask]], StrategyPlan]
"""Works a strategy out for the tasks of a network."""


def evaluate_strategies(
    network: Network, chip: ChipPerformance, precision: Precision, fc: FullyConnected,
    planners: Iterable[Planner], *, units: tuple[int, int] | None = None, limit: int = DEFAULT_LIMIT,
    on_progress: Progress | None = None,
) -> Evaluation:  # fmt: skip
    """Run times of all tasks under all strategies, given or enumerated, and the best of them.

    units: compute and storage units of which the first `limit` ways of sharing them out are enumerated.
    Run time of a task = max over its subtasks of share * (bytes_in / bandwidth_in + bytes_in * cost +
    bytes_out / bandwidth_out). Raises SpecError, UnsupportedError.  Source: docs/sources/companions.md 1.
    """
    tasks = tasks_of(network, chip, precision, fc)
    plans = [planner(tasks) for planner in planners]
    sources: list[ColumnSource] = [PlanColumns(plans, tasks)] if plans else []
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


def _matrix(tasks: Sequence[LayerTask], sources: Sequence[ColumnSource]) -> Matrix:
    shares = [source.largest_shares() for source in sources]
    matrix = shares[0] if len(shares) == 1 else np.concatenate(shares, axis=1)
    for row, task in zip(matrix, tasks, strict=True):
        row *= task.total_ns
    return matrix


def _task_times(
    tasks: Sequence[LayerTask], times_ns: Matrix, sources: Sequence[ColumnSource], column: int
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


def _check_names(names: Sequence[str], plans: Sequence[StrategyPlan]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        homes = [plan.where for plan in plans if plan.name == twice[0]]
        origins = f" ({' and '.join(homes[:2])})" if len(homes) > 1 else ""
        raise SpecError(
            "strategies", f"two of them are named {brief(twice[0])}{origins}: give each a name of its own"
        )
