"""All assignments of compute and storage units to the subtasks of a task, in classes of equal time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache, lru_cache, partial
from itertools import groupby
from math import comb, inf
from typing import NamedTuple

import numpy as np

from rramalloc.commands.evaluate.strategy import StrategyPlan
from rramalloc.commands.evaluate.tasks import LayerTask, SplitBy, TaskSplit, TaskTerms
from rramalloc.errors import SpecError
from rramalloc.hardware.performance import ChipPerformance, Rates
from rramalloc.ndarrays import Floats

MAX_ENUMERATED = 64
"""Compute or storage units that can be enumerated."""

Blocks = tuple[tuple[int, ...], ...]


class Assignment(NamedTuple):
    """Compute and storage units of every subtask, which are ordered by their first compute unit."""

    compute: Blocks
    storage: Blocks

    @property
    def name(self) -> str:
        """Subtasks with their units, as "C1+2:D1 C3:D2+3"."""
        return " ".join(
            f"C{'+'.join(map(str, compute))}:D{'+'.join(map(str, storage))}"
            for compute, storage in zip(self.compute, self.storage, strict=True)
        )


def count_assignments(compute: int, least: Sequence[Sequence[int]], storage: int) -> int:
    """Return the number of assignments to Q = 1 ... len(least) subtasks.

    least[Q - 1][q]: storage units of subtask q of Q at least.

    The compute units fall into Q blocks in S(N, Q) ways (Stirling numbers of the second kind); storage units
    are dealt to the Q blocks, which these make distinct, in M! [x^M] prod_q sum_{j >= least_q} x^j / j! ways.
    With one storage unit at least this is the sum of Q! S(N, Q) S(M, Q).
    """
    blocks = [1] + [0] * compute  # Stirling numbers by the number of blocks, row after row
    for _ in range(compute):
        blocks = [0, *(blocks[q - 1] + q * blocks[q] for q in range(1, compute + 1))]
    return sum(blocks[len(needs)] * _deals(storage, tuple(needs))[storage] for needs in least)


def assignments(compute: int, least: Sequence[Sequence[int]], storage: int) -> Iterator[Assignment]:
    """Yield all that `count_assignments` counts: by Q, then by compute units, then by storage units."""
    for needs in least:
        if sum(needs) > storage or len(needs) > compute:
            continue
        for labels in _partitions(compute, len(needs)):
            blocks = _blocks(labels, len(needs))
            for dealt in _dealings(storage, list(needs)):
                yield Assignment(blocks, _blocks(dealt, len(needs)))


@lru_cache(maxsize=2 * MAX_ENUMERATED)  # one list is often the start of the next
def _deals(units: int, needs: tuple[int, ...]) -> tuple[int, ...]:
    """Count the assignments of 0 ... `units` distinct units to subtasks, each with its needs or more."""
    if not needs:
        return (1,) + (0,) * units
    shorter = _deals(units, needs[:-1])
    return tuple(
        sum(comb(total, dealt) * shorter[total - dealt] for dealt in range(needs[-1], total + 1))
        for total in range(units + 1)
    )


def _partitions(units: int, blocks: int) -> Iterator[tuple[int, ...]]:
    """Yield the block of every unit, blocks numbered by their first unit, in lexicographic order."""

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
    """Yield the subtask of every storage unit, in lexicographic order; missing: units each still needs."""
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


MAX_ASSIGNMENTS = 10**5
"""Limit of splits that are timed one by one, because routes have different bandwidths."""
_SPLITS: tuple[SplitBy, ...] = ("windows", "outputs")


class Busiest(NamedTuple):
    """The slowest subtask of a task. subtasks: of the task; share, split: its part of it; terms: its time."""

    subtasks: int
    share: float
    split: SplitBy
    terms: TaskTerms

    @classmethod
    def of(cls, task: LayerTask, parts: TaskSplit) -> Busiest:
        """Return the subtask of a task that takes longest, the first of equals."""
        each = [(part, task._replace(compute_ns=part.compute_ns)) for part in parts]
        timed = [(part, own.terms(part.share, part.split, part.rates)) for part, own in each]
        part, terms = max(timed, key=lambda entry: entry[1].total_ns)
        return cls(len(parts), float(part.share), part.split, terms)


class Best(NamedTuple):
    """The fastest split of one task. name: of its strategy; split: its subtasks; busiest: the slowest one."""

    name: str
    split: TaskSplit
    busiest: Busiest

    @property
    def time_ns(self) -> float:
        """Run time of the task."""
        return self.busiest.terms.total_ns


def times_of(tasks: Sequence[LayerTask], plans: Sequence[StrategyPlan]) -> Floats:
    """Return the run times in ns of tasks x strategies."""
    rows = [
        [Busiest.of(task, plan.split(place)).terms.total_ns for plan in plans]
        for place, task in enumerate(tasks)
    ]
    return np.array(rows, dtype=np.float64).reshape(len(tasks), len(plans))


class SplitClass(NamedTuple):
    """Equivalence class of splits with equal time.

    ways: number of its splits that fit every task; assignment: one of them; split: whether windows or output
    channels are divided.
    """

    name: str
    split: SplitBy
    ways: int
    assignment: Assignment


class Enumeration:
    """All splits of N compute and M storage units among Q = 1 ... N subtasks, in classes of equal time.

    The memory of the chip is divided into M equal units. Windows or output channels are divided evenly, the
    larger shares first. The splits of a class can store the data of every task; the best split of one task
    only has to store the data of that task. If all routes have the chip's bandwidths, time depends on Q and
    on the divided quantity alone: splits are then counted without being listed, else timed one by one.
    ways: number of splits; times_ns: of tasks x classes; bests: of every task.
    Raises SpecError if the chip has fewer units, or no split fits.  Source: docs/sources/companions.md 1.
    """

    def __init__(self, compute: int, storage: int, tasks: Sequence[LayerTask], chip: ChipPerformance) -> None:
        _check_units(compute, storage, chip)
        self._compute, self._storage, self._tasks, self._chip = compute, storage, tasks, chip
        self.unit_bytes = chip.storage_units * chip.unit_bytes // storage
        counts = range(1, min(compute, storage) + 1)
        self.ways = count_assignments(compute, [[1] * count for count in counts], storage)
        if chip.routes and self.ways > MAX_ASSIGNMENTS:
            reason = (
                f"there are {self.ways} ways, each with routes of its own, the limit is {MAX_ASSIGNMENTS}"
            )
            raise SpecError("enumerate", f"{reason}: enumerate fewer units")
        self.bests: list[Best | None] = [None] * len(tasks)
        self.classes: list[SplitClass] = []
        splits = [(count, split) for count in counts for split in _SPLITS[: 1 if count == 1 else 2]]
        if chip.routes:
            self.times_ns = self._look_at_all(splits)
        else:
            for count, split in splits:
                self._count_class(count, split)
            self.times_ns = times_of(tasks, self.plans())
        if not self.classes and not all(self.bests):
            _refuse(storage, tasks, self.unit_bytes)

    def plans(self) -> list[StrategyPlan]:
        """Return one split of every class as a strategy."""
        return [
            StrategyPlan(
                kind.name,
                "enumerate",
                partial(self._split, kind.assignment, kind.split),
                divides_anew=False,
                alike=True,
            )
            for kind in self.classes
        ]

    def _split(self, assignment: Assignment, split: SplitBy, place: int) -> TaskSplit:
        return self._tasks[place].split_among([*zip(*assignment, strict=True)], split, self._chip)

    def _propose(self, place: int, name: str, assignment: Assignment, split: SplitBy) -> None:
        """Keep a split as the best of a task if it is faster than those before."""
        parts = self._split(assignment, split, place)
        best = self.bests[place]
        offered = Best(name, parts, Busiest.of(self._tasks[place], parts))
        if best is None or offered.time_ns < best.time_ns:
            self.bests[place] = offered

    def _count_class(self, count: int, split: SplitBy) -> None:
        """Add the class of splits into `count` subtasks, and propose one split to each task that it fits."""
        name = f"{split} / {count}"
        needs = [self._least(task, count, split) for task in self._tasks]
        every = [max(column) for column in zip(*needs, strict=True)]
        total = count_assignments(self._compute, [every], self._storage)
        if total:
            self.classes.append(SplitClass(name, split, total, self._first(every)))
        for place, need in enumerate(needs):
            if sum(need) <= self._storage:
                self._propose(place, name, self._first(need), split)

    def _first(self, needs: Sequence[int]) -> Assignment:
        return next(assignments(self._compute, [needs], self._storage))

    def _least(self, task: LayerTask, count: int, split: SplitBy) -> list[int]:
        """Return the storage units that each of `count` subtasks needs for the data of a task, at least 1."""
        split = task.split_by(split)
        least = list[int]()
        for share, equal in groupby(task.even_shares(count, split)):
            need = task.need_bytes(share, split, keeps_weights=True)
            least += [max(1, -(-need // self.unit_bytes))] * len(list(equal))
        return least

    def _look_at_all(self, splits: Sequence[tuple[int, SplitBy]]) -> Floats:
        """Classify every split by the routes and storage of its subtasks, then by times; return the times."""
        columns: list[Floats] = []
        classes: list[SplitClass] = []
        rated = cache(self._chip.rates)
        for count, split in splits:
            kinds: dict[tuple[tuple[Rates, int], ...], list[Assignment]] = {}
            for assignment in assignments(self._compute, [[1] * count], self._storage):
                rates = map(rated, assignment.compute, assignment.storage)
                kinds.setdefault(tuple(zip(rates, map(len, assignment.storage), strict=True)), []).append(
                    assignment
                )
            parts = np.array([[(*rates, held) for rates, held in kind] for kind in kinds])
            times = np.array([self._timed_at_once(task, parts, split) for task in self._tasks])
            some = [
                SplitClass(_named(alike[0], split), split, len(alike), alike[0]) for alike in kinds.values()
            ]
            for place, column in enumerate(times.argmin(axis=1).tolist()):
                if np.isfinite(times[place, column]):
                    self._propose(place, some[column].name, some[column].assignment, split)
            for column in np.flatnonzero(np.isfinite(times).all(axis=0)).tolist():
                classes.append(some[column])
                columns.append(times[:, column])
        if not columns:
            return np.empty((len(self._tasks), 0))
        every = np.stack(columns, axis=1)
        _, first, kind_of = np.unique(every, axis=1, return_index=True, return_inverse=True)
        totals = np.bincount(kind_of.ravel(), weights=[alike.ways for alike in classes])
        for number in np.argsort(first, kind="stable").tolist():  # in the order of their first ways
            self.classes.append(classes[first[number]]._replace(ways=int(totals[number])))
        merged: Floats = every[:, np.sort(first)]
        return merged

    def _timed_at_once(self, task: LayerTask, parts: Floats, split: SplitBy) -> Floats:
        """Return the times of a task in ns; parts: rates in, out, storage units of (kinds, subtasks, 3)."""
        split = task.split_by(split)
        shares = task.even_shares(parts.shape[1], split)
        part = np.array([float(share) for share in shares])
        read = np.where(part > 0, 1.0, 0.0) if split == "outputs" else part
        times = read * task.bytes_in / parts[:, :, 0] + part * task.compute_ns
        times = times + part * task.bytes_out / parts[:, :, 1]
        needs = [task.need_bytes(share, split, keeps_weights=True) for share in shares]
        fits = (np.array(needs, dtype=np.float64) <= parts[:, :, 2] * self.unit_bytes).all(axis=1)
        fastest: Floats = np.where(fits, times.max(axis=1), inf)
        return fastest


def _named(assignment: Assignment, split: SplitBy) -> str:
    return assignment.name if split == "windows" else f"{assignment.name} by outputs"


def _check_units(compute: int, storage: int, chip: ChipPerformance) -> None:
    """Raise SpecError unless the chip has the compute units, and its routes fit the storage units.

    Without routes its memory can be divided into any number of storage units.
    """
    most = min(chip.processors, MAX_ENUMERATED)
    if not 1 <= compute <= most:
        has = f"the chip has {chip.processors} (processors)"
        limit = has if most < MAX_ENUMERATED else "more are too many ways"
        raise SpecError("enumerate", f"compute units must be from 1 to {most}, got {compute}: {limit}")
    if not 1 <= storage <= MAX_ENUMERATED:
        reason = f"storage units must be from 1 to {MAX_ENUMERATED}, got {storage}: more are too many ways"
        raise SpecError("enumerate", reason)
    if chip.routes and storage != chip.storage_units:
        raise SpecError(
            "enumerate",
            f"storage units must be {chip.storage_units}, got {storage}: routes belong to units of the chip",
        )


def _refuse(storage: int, tasks: Sequence[LayerTask], unit_bytes: int) -> None:
    """Raise SpecError with the memory that the largest task lacks in one subtask, which needs least."""
    needs = [task.need_bytes(Fraction(1), "windows", keeps_weights=True) for task in tasks]
    task = tasks[needs.index(max(needs))]
    need = max(needs)
    raise SpecError(
        f"enumerate: task {task.name[:60]!r}",
        f"needs {need} bytes for its input, output and weights, {storage} storage units of "
        f"{unit_bytes} bytes hold {storage * unit_bytes}: the chip needs more memory",
    )
