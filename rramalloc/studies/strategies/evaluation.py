"""Evaluation: which strategy is fastest layer after layer, and what holds every task back."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rramalloc.hardware.hardware import Precision
from rramalloc.network.node import Name
from rramalloc.records import Record
from rramalloc.results.allocation import Count, NetworkId
from rramalloc.shown import Shown, frame_of, one_line
from rramalloc.studies.strategies.chip import ChipPerformance
from rramalloc.studies.strategies.load import write_load
from rramalloc.studies.strategies.performance import Matrix, column_sums, write_performance
from rramalloc.studies.strategies.source import Source
from rramalloc.studies.strategies.tasks import Term

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
class Evaluation(Shown):
    """Strategies side by side. document: the summary; names: of the strategies, the matrix's columns;
    performance_ns: float64 of tasks x strategies; sources: where the load matrix is made from.
    """

    document: EvaluationDocument
    names: tuple[str, ...]
    performance_ns: Matrix
    sources: tuple[Source, ...]

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
        told = self.document
        best = f"strategy {one_line(told.best, 60)} takes {told.time_ns:,.6g} ns"
        return told.network.name, f"{best}, the best of {told.strategies:,}"

    def _table(self) -> pd.DataFrame:
        times = ("in_ns", "compute_ns", "out_ns", "time_ns", "dominant")
        return frame_of(self.document.tasks, ("name", "operator", "windows", "subtasks", *times))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was assumed or ignored."""
        return self.document.warnings
