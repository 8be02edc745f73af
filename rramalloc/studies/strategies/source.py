"""Sources: where the columns of the matrices come from, plans held in memory or ways made on the fly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from rramalloc.errors import SpecError
from rramalloc.records import check_range
from rramalloc.studies.strategies.chip import ChipPerformance
from rramalloc.studies.strategies.enumerate import MAX_ENUMERATED, Blocks, Way, count_ways, ways
from rramalloc.studies.strategies.plan import Plan
from rramalloc.studies.strategies.tasks import Task

MAX_LIMIT = 10**6
"""Ways that are evaluated at most: each has a name, which takes memory."""
MAX_ENTRIES = 10**8
"""Tasks times strategies: the matrix takes 8 bytes each."""
_TOLD_EVERY = 8192
Shares = npt.NDArray[np.float64]
Progress = Callable[[int, int], None]
"""Told how many strategies are made, and of how many."""


class Busiest(NamedTuple):
    """Number of subtasks of a task, and the largest share of its windows that one has."""

    subtasks: int
    share: float


class Source(Protocol):
    """Some columns of the matrices.

    names: of the strategies; alike: whether each splits all tasks in the same way.
    """

    names: list[str]
    alike: bool

    def largest_shares(self) -> Shares:
        """Largest share of the windows that a subtask has: float64 of tasks x strategies."""
        ...

    def busiest(self, task: int, column: int) -> Busiest:
        """The subtask of a task that takes longest under a strategy."""
        ...

    def loads(self, task: int) -> Iterator[str]:
        """A row of the load matrix: for each strategy [[subtask, [compute], [storage]], ...] as JSON."""
        ...


class Plans:
    """Strategies from files and allocations."""

    alike = False

    def __init__(self, plans: Sequence[Plan], tasks: Sequence[Task]) -> None:
        self._plans, self._tasks = plans, len(tasks)
        self.names = [plan.name for plan in plans]

    def largest_shares(self) -> Shares:
        """As Source."""
        rows = [[float(plan.largest_share(task)) for plan in self._plans] for task in range(self._tasks)]
        return np.array(rows, dtype=np.float64).reshape(self._tasks, len(self._plans))

    def busiest(self, task: int, column: int) -> Busiest:
        """As Source."""
        plan = self._plans[column]
        return Busiest(len(plan.splits[task]), float(plan.largest_share(task)))

    def loads(self, task: int) -> Iterator[str]:
        """As Source."""
        for plan in self._plans:
            split = plan.splits[task]
            yield _entry((part.compute for part in split), (part.storage for part in split))


class Enumeration:
    """The first ways, at most `limit`, to give N compute and M storage units to Q = 1 ... N subtasks.

    Every task is split alike, its windows dealt out evenly; ways whose storage cannot hold the data of
    every task are left out. ways: all there are; fitting: those whose storage suffices.
    Raises SpecError if the chip has fewer units, or no way fits.  Source: SYSTEMS.md 1.
    """

    alike = True

    def __init__(
        self, compute: int, storage: int, tasks: Sequence[Task], chip: ChipPerformance, limit: int,
        on_progress: Progress | None = None,
    ) -> None:  # fmt: skip
        self._compute, self._storage, self._tasks = compute, storage, tasks
        most = min(compute, storage)
        _check_units(compute, storage, chip)
        check_range("limit", limit, 1, MAX_LIMIT)
        self._least = [_least_storage(count, tasks, chip) for count in range(1, most + 1)]
        self.ways = count_ways(compute, [[1] * count for count in range(1, most + 1)], storage)
        self.fitting = count_ways(compute, self._least, storage)
        if not self.fitting:
            _refuse(storage, tasks, chip)
        self._limit = min(limit, self.fitting)
        check_entries(len(tasks), self._limit)
        counts: list[int] = []
        self.names = []
        for way in self._ways():
            self.names.append(way.name)
            counts.append(len(way.compute))
            if on_progress is not None and len(counts) % _TOLD_EVERY == 0:
                on_progress(len(counts), self._limit)
        self._counts = np.array(counts, dtype=np.int64)

    def _ways(self) -> Iterator[Way]:
        return islice(ways(self._compute, self._least, self._storage), self._limit)

    def largest_shares(self) -> Shares:
        """As Source."""
        counts = range(1, len(self._least) + 1)
        by_count = [[float(task.even_shares(count)[0]) for count in counts] for task in self._tasks]
        return np.array(by_count)[:, self._counts - 1]

    def busiest(self, task: int, column: int) -> Busiest:
        """As Source."""
        count = int(self._counts[column])
        return Busiest(count, float(self._tasks[task].even_shares(count)[0]))

    def loads(self, task: int) -> Iterator[str]:
        """As Source."""
        for way in self._ways():
            yield _entry(way.compute, way.storage)


def check_entries(tasks: int, strategies: int) -> None:
    """Raise SpecError if a matrix of that size would take too much memory."""
    if tasks * strategies > MAX_ENTRIES:
        raise SpecError(
            "limit",
            f"{tasks} tasks x {strategies} strategies are more than {MAX_ENTRIES} entries of a matrix: "
            f"at most {MAX_ENTRIES // tasks} strategies fit",
        )


def _entry(compute: Iterable[Sequence[int]] | Blocks, storage: Iterable[Sequence[int]] | Blocks) -> str:
    parts = (
        f"[{number},[{','.join(map(str, own))}],[{','.join(map(str, held))}]]"
        for number, (own, held) in enumerate(zip(compute, storage, strict=True), 1)
    )
    return f"[{','.join(parts)}]"


def _check_units(compute: int, storage: int, chip: ChipPerformance) -> None:
    for what, count, have, field in (
        ("compute units", compute, chip.processors, "processors"),
        ("storage units", storage, chip.storage_units, "storage_units"),
    ):
        if not 1 <= count <= min(have, MAX_ENUMERATED):
            limit = f"the chip has {have} ({field})" if have <= MAX_ENUMERATED else "more are too many ways"
            raise SpecError(
                "enumerate", f"{what} must be from 1 to {min(have, MAX_ENUMERATED)}, got {count}: {limit}"
            )


def _least_storage(subtasks: int, tasks: Sequence[Task], chip: ChipPerformance) -> list[int]:
    """Storage units that each of so many subtasks needs for the data of every task, 1 at least."""
    least = [1] * subtasks
    for task in tasks:
        units: list[int] = []
        for share, equal in groupby(task.even_shares(subtasks)):
            need = task.need_bytes(share, keeps_weights=True)
            units += [-(-need // chip.unit_bytes)] * len(list(equal))
        least = list(map(max, least, units))
    return least


def _refuse(storage: int, tasks: Sequence[Task], chip: ChipPerformance) -> None:
    """One subtask needs least in all: if not even that fits, say by how much."""
    (whole,) = tasks[0].even_shares(1)
    task = max(tasks, key=lambda task: task.need_bytes(whole, keeps_weights=True))
    need = task.need_bytes(whole, keeps_weights=True)
    raise SpecError(
        f"enumerate: task {task.name[:60]!r}",
        f"needs {need} bytes for its input, output and weights, {storage} storage units of "
        f"{chip.unit_bytes} bytes hold {storage * chip.unit_bytes}: use more or larger storage units",
    )
