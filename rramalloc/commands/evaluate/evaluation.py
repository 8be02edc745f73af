"""Evaluation: the fastest strategy layer after layer, and the bottleneck of every task.

Its matrices are the units of every subtask (load, streamed JSON) and run times (performance, CSV or Parquet).
Source: docs/sources/companions.md 1.
"""

from __future__ import annotations

import csv
import io
import json
import operator
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from rramalloc.allocation.allocation import NetworkId, PositiveCount
from rramalloc.commands.evaluate.enumeration import Best, Busiest, Enumeration, times_of
from rramalloc.commands.evaluate.strategy import Strategy, StrategyPlan, SubtaskEntry
from rramalloc.commands.evaluate.tasks import LayerTask, SplitBy, TaskSplit, Term
from rramalloc.csv_rows import csv_cell
from rramalloc.errors import SpecError
from rramalloc.files import check_writable, open_to_write, write_json
from rramalloc.hardware.performance import ChipPerformance
from rramalloc.hardware.tables import Precision
from rramalloc.mapping.options import MappingOptions
from rramalloc.ndarrays import Floats
from rramalloc.network.network import Network
from rramalloc.network.node import Name
from rramalloc.parquet import require_parquet, write_parquet
from rramalloc.records import Record, absent, brief
from rramalloc.result import AnswerRecord, Result
from rramalloc.units import one_line, rounded
from rramalloc.version import __version__
from rramalloc.view.view import View

if TYPE_CHECKING:
    import pandas as pd


class LoadMatrix(Record):
    """Units of every subtask.

    matrix: tasks x strategies; an entry lists (subtask, compute units, storage units).

    Units and subtasks are numbered from 1.  Source: docs/sources/companions.md 1.
    """

    format: Literal["rramalloc-load-matrix/1"] = "rramalloc-load-matrix/1"
    network: NetworkId
    chip: ChipPerformance
    tasks: tuple[str, ...]
    strategies: tuple[str, ...]
    matrix: tuple[tuple[tuple[tuple[int, tuple[int, ...], tuple[int, ...]], ...], ...], ...]


def _entry(split: TaskSplit) -> str:
    """Return [[subtask, [compute units], [storage units]], ...] as JSON."""
    parts = (
        f"[{number},[{','.join(map(str, part.compute))}],[{','.join(map(str, part.storage))}]]"
        for number, part in enumerate(split, 1)
    )
    return f"[{','.join(parts)}]"


MAX_ENTRIES = 10**8
"""Tasks times strategies: the matrix takes 8 bytes each."""
_OWN = ("strategy", "time_ns")


def column_sums(matrix: Floats) -> Floats:
    """Sum over the tasks, added in execution order, so that it is the same on every machine."""
    total = np.zeros(matrix.shape[1])
    for row in matrix:
        total += row
    return total


def check_performance_path(path: str | os.PathLike[str] | None, tasks: Sequence[str] = ()) -> None:
    """Raise SpecError, FileError if the matrix cannot be written to `path`."""
    if path is None:
        return
    kind = Path(path).suffix.lower()
    if kind not in (".csv", ".parquet"):
        raise SpecError(os.fspath(path), "the performance matrix is written as .csv or .parquet")
    check_writable(path)
    if kind == ".parquet":
        require_parquet(os.fspath(path))
        for name in (name for name in _OWN if name in tasks):
            raise SpecError(
                os.fspath(path),
                f"has a column {name!r} of its own, as a layer is called: rename the layer or write .csv",
            )


def _line(cells: Sequence[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(map(csv_cell, cells))
    return text.getvalue().encode()


def _numbers(row: Floats) -> bytes:
    """Return the shortest texts that read back as the same numbers; equal numbers are written out once."""
    values, places = np.unique(row, return_inverse=True)
    texts = np.array([repr(value) for value in values.tolist()], dtype=object)
    return ",".join(texts[places].tolist()).encode()


FORMAT: Literal["rramalloc-evaluation/2"] = "rramalloc-evaluation/2"


class TaskTime(Record):
    """A task under a strategy.

    bytes_in, bytes_out, bytes_working: of the whole task (input, output, weights); strategy: its name;
    subtasks: how many; split: what is dealt out to them; share: of the subtask that takes longest; in_ns,
    compute_ns, out_ns: its three terms; time_ns: their sum, the task's run time; dominant: the largest term.
    """

    name: Name
    operator: str
    windows: PositiveCount
    bytes_in: int
    bytes_out: int
    bytes_working: int
    strategy: Name
    subtasks: PositiveCount
    split: SplitBy
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


class EnumeratedClass(Record):
    """Ways to share units out that take equal time.

    subtasks: how many; split: what is dealt out to them; ways: whose storage can hold every task; time_ns: of
    the network.
    """

    name: Name
    subtasks: PositiveCount
    split: SplitBy
    ways: int
    time_ns: float


class Enumerated(Record):
    """Enumerated strategies of the chip.

    unit_bytes: of a storage unit, an equal part of the chip's memory; ways: to share the units out;
    classes: of equal time, all there are that fit every task.
    """

    compute_units: PositiveCount
    storage_units: PositiveCount
    unit_bytes: int
    ways: int
    classes: tuple[EnumeratedClass, ...]


class Composition(Record):
    """The best strategy of every task, where units are divided anew for each.

    time_ns: the sum over the tasks; tasks: each under its own strategy.
    """

    time_ns: float
    tasks: tuple[TaskTime, ...]


class ProposedLayer(Record):
    """Copies of a layer. arrays: of all of them; time_ns: of the layer; kind: None where there is one."""

    name: Name
    arrays_per_copy: PositiveCount
    copies: PositiveCount
    arrays: PositiveCount
    time_ns: float
    kind: Name | None = Field(None, exclude_if=absent)


class Proposal(Record):
    """The copies of least time, layer after layer, where copies keep their arrays.

    budget, used: arrays; time_ns: of the network; proven: whether no other numbers of copies are faster.
    """

    budget: PositiveCount
    used: PositiveCount
    time_ns: float
    proven: bool
    layers: tuple[ProposedLayer, ...]


class EvaluationDocument(AnswerRecord):
    """Document that `evaluate --format json` prints.

    set_values: of the hardware of chip and precision, as in Hardware;
    best: the fastest strategy, the first of equals; equals: how many are as fast; ranking: the fastest
    strategies, at most 100; enumerated: None without --enumerate; composed: None where all strategies are
    allocations; proposal: None without --arrays; not_counted: what times leave out.
    """

    rows_in = "tasks"

    format: Literal["rramalloc-evaluation/2"] = FORMAT
    network: NetworkId
    chip: ChipPerformance
    precision: Precision
    set_values: tuple[str, ...] | None = Field(None, exclude_if=absent)
    fc: Literal["host", "crossbar"]
    host: tuple[Name, ...] = Field((), exclude_if=operator.not_)
    strategies: PositiveCount
    enumerated: Enumerated | None
    best: Name
    time_ns: float
    equals: PositiveCount
    tasks: tuple[TaskTime, ...]
    ranking: tuple[StrategyTime, ...]
    composed: Composition | None = None
    proposal: Proposal | None = None

    def _headline(self) -> tuple[str, str]:
        best = f"strategy {one_line(self.best, 60)} takes {rounded(self.time_ns)} ns"
        return self.network.name, f"{best}, the best of {self.strategies:,}"


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Result):
    """Strategies side by side. document: the summary; performance_ns: float64 of tasks x strategies; plans:
    the strategies, the matrix's columns; composed: the best strategy of every task as one, None where all
    strategies are allocations.
    """

    document: EvaluationDocument
    performance_ns: Floats
    plans: tuple[StrategyPlan, ...]
    composed: Strategy | None = None

    def __post_init__(self) -> None:
        self.performance_ns.setflags(write=False)

    def __deepcopy__(self, memo: dict[int, Any]) -> Evaluation:
        return self  # nothing of it can be changed

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the strategies, the matrix's columns."""
        return tuple(plan.name for plan in self.plans)

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
        """Return the document that `evaluate --format json` prints, without the matrices."""
        return self.document.to_dict()

    def to_frame(self) -> pd.DataFrame:
        """Return the performance matrix in ns: a row per task, a column per strategy."""
        import pandas as pd

        index = pd.Index(self.task_names, name="task")
        return pd.DataFrame(self.performance_ns, index=index, columns=pd.Index(self.names))

    def save_load(self, path: str | os.PathLike[str]) -> None:
        """Write the load matrix as JSON, whole or not, a row in memory at a time. Raises FileError."""
        head: dict[str, Any] = {
            "format": "rramalloc-load-matrix/1",
            "network": self.document.network.model_dump(mode="json"),
            "chip": self.document.chip.model_dump(mode="json"),
            "tasks": self.task_names,
            "strategies": self.names,
        }
        fields = ",\n".join(
            f'"{key}": {json.dumps(value, ensure_ascii=False, allow_nan=False)}'
            for key, value in head.items()
        )
        alike = all(plan.alike for plan in self.plans)
        row = b""
        with open_to_write(path) as stream:
            stream.write(f'{{\n{fields},\n"matrix": ['.encode())
            for task in range(len(self.task_names)):
                if not (row and alike):
                    entries = ",\n".join(_entry(plan.split(task)) for plan in self.plans)
                    row = f"\n[{entries}]".encode()
                stream.write(b"," + row if task else row)
            stream.write(b"\n]\n}\n")

    def save_performance(self, path: str | os.PathLike[str]) -> None:
        """Write the whole performance matrix, in ns; an error leaves no file. Raises SpecError, FileError.

        CSV has the matrix as it is, a row per task and a column per strategy. Parquet, which is made for many
        rows, has it transposed: a row per strategy with its name, time_ns (the column's sum) and every task.
        """
        check_performance_path(path, self.task_names)
        if Path(path).suffix.lower() == ".parquet":
            import pyarrow as pa

            sums = column_sums(self.performance_ns)
            columns = [pa.array(self.names, pa.string()), *map(pa.array, (sums, *self.performance_ns))]
            table = pa.table(columns, names=[*_OWN, *self.task_names])
            write_parquet(path, table.schema, [table])
            return
        with open_to_write(path) as stream:
            stream.write(_line(["task", *self.names]))
            for name, row in zip(self.task_names, self.performance_ns, strict=True):
                stream.write(_line([name]).rstrip(b"\n") + b"," + _numbers(row) + b"\n")

    def save_proposal(self, path: str | os.PathLike[str]) -> None:
        """Write the copies that were found, else the composed strategy. Raises SpecError, FileError."""
        proposal = self.document.proposal
        if proposal is not None:
            copies = {layer.name: layer.copies for layer in proposal.layers}
            kinds = {layer.name: layer.kind for layer in proposal.layers if layer.kind is not None}
            write_json(path, {"copies": copies} | ({"kind": kinds} if kinds else {}))
        elif self.composed is not None:
            self.composed.save(path)
        else:
            raise SpecError(
                os.fspath(path),
                "nothing is proposed: allocations keep their arrays; give units or a budget of arrays",
            )

    def _headline(self) -> tuple[str, str]:
        return self.document._headline()

    def view(self, **known: Any) -> View:
        """Return the view of its summary."""
        return self.document.view(**known)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Assumptions and ignored inputs."""
        return self.document.warnings


_RANKED = 100  # strategies in the ranking of the document
COMPOSED = "composed"
"""Name of the strategy that has the best of all others for every task."""


def evaluate_strategies(
    network: Network,
    chip: ChipPerformance,
    precision: Precision,
    tasks: Sequence[LayerTask],
    options: MappingOptions,
    plans: Sequence[StrategyPlan],
    *,
    units: tuple[int, int] | None = None,
    proposal: Proposal | None = None,
) -> Evaluation:
    """Run times of all tasks under all strategies, given, enumerated or proposed, and the best of them.

    units: compute and storage units of which all ways of sharing them out are enumerated; proposal: what one
    of the plans is made from. Raises SpecError, UnsupportedError.  Source: docs/sources/companions.md 1.
    """
    enumeration = None if units is None else Enumeration(*units, tasks, chip)
    columns = [*plans, *(() if enumeration is None else enumeration.plans())]
    given_ns = times_of(tasks, plans)
    bests = list[Best]()
    for place, task in enumerate(tasks):
        offered = [] if enumeration is None else [enumeration.bests[place]]
        free = [column for column, plan in enumerate(plans) if plan.divides_anew]
        if free:
            plan = plans[min(free, key=given_ns[place].__getitem__)]
            offered = [Best(plan.name, plan.split(place), Busiest.of(task, plan.split(place))), *offered]
        bests += sorted((best for best in offered if best is not None), key=lambda best: best.time_ns)[:1]
    composed = strategy = None
    if len(bests) == len(tasks):
        composed, strategy = _composed(tasks, bests)
        if not columns:
            columns = [StrategyPlan(COMPOSED, COMPOSED, [best.split for best in bests].__getitem__)]
            given_ns = times_of(tasks, columns)
    _check_names(columns)
    if len(tasks) * len(columns) > MAX_ENTRIES:
        large = f"{len(tasks)} tasks x {len(columns)} strategies are more than {MAX_ENTRIES} entries"
        most = f"at most {MAX_ENTRIES // len(tasks)} strategies fit"
        raise SpecError("limit", f"{large} of a matrix: {most}")
    matrix = given_ns if enumeration is None else np.hstack([given_ns, enumeration.times_ns])
    total = column_sums(matrix)
    order = np.argsort(total, kind="stable")[:_RANKED].tolist()
    least = float(total[order[0]])
    best = columns[order[0]]
    enumerated = None
    if enumeration is not None and units is not None:
        totals = column_sums(enumeration.times_ns).tolist()
        classes = [
            EnumeratedClass.gather(kind, subtasks=len(kind.assignment.compute), time_ns=time_ns)
            for kind, time_ns in zip(enumeration.classes, totals, strict=True)
        ]
        compute, storage = units
        enumerated = Enumerated.gather(
            enumeration, compute_units=compute, storage_units=storage, classes=tuple(classes)
        )
    document = EvaluationDocument(
        rramalloc_version=__version__,
        network=NetworkId.of(network),
        chip=chip,
        precision=precision,
        fc=options.fc,
        host=options.host,
        strategies=len(columns),
        enumerated=enumerated,
        best=best.name,
        time_ns=least,
        equals=int((total == least).sum()),
        tasks=tuple(
            _task_time(task, best.name, Busiest.of(task, best.split(place)))
            for place, task in enumerate(tasks)
        ),
        ranking=tuple(
            StrategyTime(
                name=columns[column].name,
                time_ns=float(total[column]),
                ratio=float(total[column]) / least if least else 1.0,
            )
            for column in order
        ),
        composed=composed,
        proposal=proposal,
        warnings=network.warnings,
    )
    return Evaluation(document, matrix, tuple(columns), strategy)


def _composed(tasks: Sequence[LayerTask], bests: Sequence[Best]) -> tuple[Composition, Strategy]:
    """Return the best strategy of every task, also as a table that `evaluate` reads again."""
    times = []
    entries = {}
    for task, best in zip(tasks, bests, strict=True):
        times.append(_task_time(task, best.name, best.busiest))
        entries[task.name] = tuple(
            SubtaskEntry(
                compute=tuple(part.compute),
                storage=tuple(part.storage),
                share=float(part.share),
                split=part.split,
            )
            for part in best.split
        )
    total = sum((time.time_ns for time in times), 0.0)
    return Composition(time_ns=total, tasks=tuple(times)), Strategy(name=COMPOSED, tasks=entries)


def _task_time(task: LayerTask, strategy: str, busiest: Busiest) -> TaskTime:
    terms = busiest.terms
    return TaskTime.gather(terms, busiest, task, strategy=strategy, time_ns=terms.total_ns)


def _check_names(plans: Sequence[StrategyPlan]) -> None:
    twice = [name for name, count in Counter(plan.name for plan in plans).items() if count > 1]
    if twice:
        homes = [plan.where for plan in plans if plan.name == twice[0]]
        origins = f" ({' and '.join(homes[:2])})"
        raise SpecError(
            "strategies", f"two of them are named {brief(twice[0])}{origins}: give each a name of its own"
        )
