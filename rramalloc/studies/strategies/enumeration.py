"""The columns of the matrices: plans held in memory, or all ways to share units out, made on the fly."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby, islice
from math import comb
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from rramalloc.errors import SpecError
from rramalloc.records import check_range
from rramalloc.studies.strategies.chip import ChipPerformance
from rramalloc.studies.strategies.strategy import StrategyPlan
from rramalloc.studies.strategies.tasks import LayerTask

MAX_ENUMERATED = 64
"""Compute or storage units that can be enumerated."""

Blocks = tuple[tuple[int, ...], ...]


class Way(NamedTuple):
    """Compute and storage units of every subtask, which are ordered by their first compute unit."""

    compute: Blocks
    storage: Blocks

    @property
    def name(self) -> str:
        """Such as "C1+2:D1 C3:D2+3"."""
        return " ".join(
            f"C{'+'.join(map(str, compute))}:D{'+'.join(map(str, storage))}"
            for compute, storage in zip(self.compute, self.storage, strict=True)
        )


def count_ways(compute: int, least: Sequence[Sequence[int]], storage: int) -> int:
    """Number of ways for Q = 1 ... len(least) subtasks, subtask q with least[Q - 1][q] storage units or more.

    The compute units fall into Q blocks in S(N, Q) ways (Stirling numbers of the second kind); storage units
    are dealt to the Q blocks, which these make distinct, in M! [x^M] prod_q sum_{j >= least_q} x^j / j! ways.
    With one storage unit at least this is the sum of Q! S(N, Q) S(M, Q).
    """
    blocks = _stirling(compute)
    return sum(blocks[len(needs)] * _deals(storage, tuple(needs))[storage] for needs in least)


def ways(compute: int, least: Sequence[Sequence[int]], storage: int) -> Iterator[Way]:
    """The ways that `count_ways` counts: by Q, then by compute units, then by storage units."""
    for needs in least:
        if sum(needs) > storage or len(needs) > compute:
            continue
        for labels in _partitions(compute, len(needs)):
            own = _blocks(labels, len(needs))
            for dealt in _dealings(storage, list(needs)):
                yield Way(own, _blocks(dealt, len(needs)))


def _stirling(units: int) -> list[int]:
    """Ways to part `units` distinct units into 0, 1, ... non-empty blocks."""
    row = [1] + [0] * units
    for _ in range(units):
        row = [0, *(row[blocks - 1] + blocks * row[blocks] for blocks in range(1, units + 1))]
    return row


@lru_cache(maxsize=2 * MAX_ENUMERATED)  # one list is often the start of the next
def _deals(units: int, needs: tuple[int, ...]) -> tuple[int, ...]:
    """Ways to deal 0 ... `units` distinct units to distinct subtasks, each with its needs or more."""
    if not needs:
        return (1,) + (0,) * units
    shorter = _deals(units, needs[:-1])
    return tuple(
        sum(comb(total, own) * shorter[total - own] for own in range(needs[-1], total + 1))
        for total in range(units + 1)
    )


def _partitions(units: int, blocks: int) -> Iterator[tuple[int, ...]]:
    """Block of every unit, blocks numbered by their first unit, in lexicographic order."""

    def extend(labels: tuple[int, ...], opened: int) -> Iterator[tuple[int, ...]]:
        left = units - len(labels)
        if not left:
            yield labels
            return
        for label in range(min(opened + 1, blocks)):
            if blocks - max(opened, label + 1) < left:
                yield from extend((*labels, label), max(opened, label + 1))

    return extend((), 0)


def _dealings(units: int, missing: list[int]) -> Iterator[tuple[int, ...]]:
    """Subtask of every storage unit, in lexicographic order; missing: units each subtask still needs."""
    labels = [0] * units

    def extend(place: int, needed: int) -> Iterator[tuple[int, ...]]:
        if place == units:
            yield tuple(labels)
            return
        for label in range(len(missing)):
            useful = missing[label] > 0
            if needed - useful < units - place:
                labels[place] = label
                missing[label] -= 1
                yield from extend(place + 1, needed - useful)
                missing[label] += 1

    return extend(0, sum(missing))


def _blocks(labels: Sequence[int], count: int) -> Blocks:
    members: list[list[int]] = [[] for _ in range(count)]
    for unit, label in enumerate(labels, 1):
        members[label].append(unit)
    return tuple(map(tuple, members))


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


class ColumnSource(Protocol):
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


class PlanColumns:
    """Strategies from files and allocations."""

    alike = False

    def __init__(self, plans: Sequence[StrategyPlan], tasks: Sequence[LayerTask]) -> None:
        self._plans, self._tasks = plans, len(tasks)
        self.names = [plan.name for plan in plans]

    def largest_shares(self) -> Shares:
        """As ColumnSource."""
        rows = [[float(plan.largest_share(task)) for plan in self._plans] for task in range(self._tasks)]
        return np.array(rows, dtype=np.float64).reshape(self._tasks, len(self._plans))

    def busiest(self, task: int, column: int) -> Busiest:
        """As ColumnSource."""
        plan = self._plans[column]
        return Busiest(len(plan.splits[task]), float(plan.largest_share(task)))

    def loads(self, task: int) -> Iterator[str]:
        """As ColumnSource."""
        for plan in self._plans:
            split = plan.splits[task]
            yield _entry((part.compute for part in split), (part.storage for part in split))


class Enumeration:
    """Ways to give N compute and M storage units to Q = 1 ... N subtasks, at most `limit` of them.

    The memory of the chip is divided into M equal units. Every task is split alike, its windows dealt out
    evenly; ways whose storage cannot hold the data of every task are left out. All ways of equal Q take
    equal time: kept are one way of every Q, then the ways of the fastest Q, so that no way that is left out
    is faster than the best one. ways: all there are; fitting: those whose storage suffices.
    Raises SpecError if the chip has fewer units, or no way fits.  Source: docs/sources/companions.md 1.
    """

    alike = True

    def __init__(
        self, compute: int, storage: int, tasks: Sequence[LayerTask], chip: ChipPerformance, limit: int,
        on_progress: Progress | None = None,
    ) -> None:  # fmt: skip
        self._compute, self._storage, self._tasks = compute, storage, tasks
        most = min(compute, storage)
        _check_units(compute, storage, chip)
        check_range("limit", limit, 1, MAX_LIMIT)
        self.unit_bytes = chip.storage_units * chip.unit_bytes // storage
        self._least = [_least_storage(count, tasks, self.unit_bytes) for count in range(1, most + 1)]
        self.ways = count_ways(compute, [[1] * count for count in range(1, most + 1)], storage)
        counts_of = [count_ways(compute, [needs], storage) for needs in self._least]
        self.fitting = sum(counts_of)
        if not self.fitting:
            _refuse(storage, tasks, self.unit_bytes)
        self._limit = min(limit, self.fitting)
        times_ns = [
            math.fsum(float(task.even_shares(count)[0]) * task.total_ns for task in tasks)
            for count in range(1, most + 1)
        ]
        self._kept = _kept(counts_of, times_ns, self._limit)
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
        for needs, kept in zip(self._least, self._kept, strict=True):
            yield from islice(ways(self._compute, [needs], self._storage), kept)

    def largest_shares(self) -> Shares:
        """As ColumnSource."""
        counts = range(1, len(self._least) + 1)
        by_count = [[float(task.even_shares(count)[0]) for count in counts] for task in self._tasks]
        return np.array(by_count)[:, self._counts - 1]

    def busiest(self, task: int, column: int) -> Busiest:
        """As ColumnSource."""
        count = int(self._counts[column])
        return Busiest(count, float(self._tasks[task].even_shares(count)[0]))

    def loads(self, task: int) -> Iterator[str]:
        """As ColumnSource."""
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


def _kept(counts: Sequence[int], times_ns: Sequence[float], limit: int) -> list[int]:
    """Of how many ways of each number of subtasks `limit` are kept: one of each, then all of the fastest."""
    order = sorted((place for place, count in enumerate(counts) if count), key=times_ns.__getitem__)[:limit]
    kept = [int(place in order) for place in range(len(counts))]
    left = limit - len(order)
    for place in order:
        more = min(left, counts[place] - 1)
        kept[place] += more
        left -= more
    return kept


def _least_storage(subtasks: int, tasks: Sequence[LayerTask], unit_bytes: int) -> list[int]:
    """Storage units that each of so many subtasks needs for the data of every task, 1 at least."""
    least = [1] * subtasks
    for task in tasks:
        units: list[int] = []
        for share, equal in groupby(task.even_shares(subtasks)):
            need = task.need_bytes(share, keeps_weights=True)
            units += [-(-need // unit_bytes)] * len(list(equal))
        least = list(map(max, least, units))
    return least


def _refuse(storage: int, tasks: Sequence[LayerTask], unit_bytes: int) -> None:
    """One subtask needs least in all: if not even that fits, say by how much."""
    (whole,) = tasks[0].even_shares(1)
    task = max(tasks, key=lambda task: task.need_bytes(whole, keeps_weights=True))
    need = task.need_bytes(whole, keeps_weights=True)
    raise SpecError(
        f"enumerate: task {task.name[:60]!r}",
        f"needs {need} bytes for its input, output and weights, {storage} storage units of "
        f"{unit_bytes} bytes hold {storage * unit_bytes}: the chip needs more memory",
    )
