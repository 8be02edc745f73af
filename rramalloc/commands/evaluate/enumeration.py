"""The columns of the matrices: plans held in memory, or all ways to share units out, in classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import groupby
from math import comb, inf
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from rramalloc.commands.evaluate.strategy import Split, StrategyPlan, Subtask
from rramalloc.commands.evaluate.tasks import LayerTask, SplitBy, TaskTerms
from rramalloc.errors import SpecError
from rramalloc.hardware.performance import ChipPerformance, Rates

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


def count_ways(compute: int, least: Sequence[Sequence[int]], storage: int) -> int:
    """Return the number of ways for Q = 1 ... len(least) subtasks, subtask q with least[Q - 1][q] storage
    units or more.

    The compute units fall into Q blocks in S(N, Q) ways (Stirling numbers of the second kind); storage units
    are dealt to the Q blocks, which these make distinct, in M! [x^M] prod_q sum_{j >= least_q} x^j / j! ways.
    With one storage unit at least this is the sum of Q! S(N, Q) S(M, Q).
    """
    blocks = _stirling(compute)
    return sum(blocks[len(needs)] * _deals(storage, tuple(needs))[storage] for needs in least)


def ways(compute: int, least: Sequence[Sequence[int]], storage: int) -> Iterator[Assignment]:
    """Yield the ways that `count_ways` counts: by Q, then by compute units, then by storage units."""
    for needs in least:
        if sum(needs) > storage or len(needs) > compute:
            continue
        for labels in _partitions(compute, len(needs)):
            own = _blocks(labels, len(needs))
            for dealt in _dealings(storage, list(needs)):
                yield Assignment(own, _blocks(dealt, len(needs)))


def _stirling(units: int) -> list[int]:
    """Return the numbers of ways to part `units` distinct units into 0, 1, ... non-empty blocks."""
    row = [1] + [0] * units
    for _ in range(units):
        row = [0, *(row[blocks - 1] + blocks * row[blocks] for blocks in range(1, units + 1))]
    return row


@lru_cache(maxsize=2 * MAX_ENUMERATED)  # one list is often the start of the next
def _deals(units: int, needs: tuple[int, ...]) -> tuple[int, ...]:
    """Return the numbers of ways to deal 0 ... `units` distinct units to distinct subtasks, each with its
    needs or more."""
    if not needs:
        return (1,) + (0,) * units
    shorter = _deals(units, needs[:-1])
    return tuple(
        sum(comb(total, own) * shorter[total - own] for own in range(needs[-1], total + 1))
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
    """Yield the subtask of every storage unit, in lexicographic order; missing: units each subtask still
    needs."""
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


MAX_WAYS = 10**5
"""Ways that are looked at one by one, where routes have bandwidths of their own."""
MAX_ENTRIES = 10**8
"""Tasks times strategies: the matrix takes 8 bytes each."""
_SPLITS: tuple[SplitBy, ...] = ("windows", "outputs")
Times = npt.NDArray[np.float64]


class Busiest(NamedTuple):
    """Number of subtasks of a task, and the one that takes longest: its share, what is split, its time."""

    subtasks: int
    share: float
    split: SplitBy
    terms: TaskTerms


class Best(NamedTuple):
    """The fastest way to do one task: its strategy's name, its subtasks, and the one that takes longest."""

    name: str
    split: Split
    busiest: Busiest


class ColumnSource(ABC):
    """Some columns of the matrices.

    names: of the strategies; alike: whether each splits all tasks in the same way.
    """

    names: list[str]
    alike: bool

    def __init__(self, tasks: Sequence[LayerTask]) -> None:
        self._tasks = tasks

    @abstractmethod
    def split(self, task: int, column: int) -> Split:
        """Return the subtasks of a task under a strategy."""

    @abstractmethod
    def loads(self, task: int) -> Iterator[str]:
        """Yield a row of the load matrix: for each strategy [[subtask, [compute], [storage]], ...]
        as JSON."""

    @abstractmethod
    def best(self, task: int) -> Best | None:
        """Return the fastest way to do a task whose units are divided anew for it; None if there is none."""

    def busiest(self, task: int, column: int) -> Busiest:
        """Return the subtask of a task that takes longest under a strategy, the first of equals."""
        return _busiest(self._tasks[task], self.split(task, column))

    def times_ns(self) -> Times:
        """Run times: float64 of tasks x strategies."""
        rows = [
            [self.busiest(task, column).terms.total_ns for column in range(len(self.names))]
            for task in range(len(self._tasks))
        ]
        return np.array(rows, dtype=np.float64).reshape(len(self._tasks), len(self.names))


class PlanColumns(ColumnSource):
    """Strategies from files and allocations."""

    alike = False

    def __init__(self, plans: Sequence[StrategyPlan], tasks: Sequence[LayerTask]) -> None:
        super().__init__(tasks)
        self._plans = plans
        self.names = [plan.name for plan in plans]

    @override
    def split(self, task: int, column: int) -> Split:
        return self._plans[column].splits[task]

    @override
    def loads(self, task: int) -> Iterator[str]:
        for plan in self._plans:
            split = plan.splits[task]
            yield _entry((part.compute for part in split), (part.storage for part in split))

    @override
    def best(self, task: int) -> Best | None:
        free = [column for column, plan in enumerate(self._plans) if plan.divides_anew]
        if not free:
            return None
        column = min(free, key=lambda column: self.busiest(task, column).terms.total_ns)
        return Best(self.names[column], self.split(task, column), self.busiest(task, column))


class WayClass(NamedTuple):
    """Ways of equal time. ways: that fit every task; way: one of them; split: what it deals out."""

    name: str
    split: SplitBy
    ways: int
    way: Assignment


class Enumeration(ColumnSource):
    """Ways to give N compute and M storage units to Q = 1 ... N subtasks, in classes of equal time.

    The memory of the chip is divided into M equal units. Windows or output channels are dealt out evenly, the
    larger shares first. A column is a class whose storage can hold the data of every task; the best way of
    one task only has to hold the data of that task. Where no route has bandwidths of its own, time depends
    on Q and on what is split alone, so ways are counted and not made; else they are looked at one by one.
    ways: to share the units out; classes: those of the columns.
    Raises SpecError if the chip has fewer units, or no way fits.  Source: docs/sources/companions.md 1.
    """

    alike = True

    def __init__(self, compute: int, storage: int, tasks: Sequence[LayerTask], chip: ChipPerformance) -> None:
        super().__init__(tasks)
        self._compute, self._storage, self._chip = compute, storage, chip
        _check_units(compute, storage, chip)
        self.unit_bytes = chip.storage_units * chip.unit_bytes // storage
        self._most = min(compute, storage)
        self.ways = count_ways(compute, [[1] * count for count in range(1, self._most + 1)], storage)
        self._best: list[Best | None] = [None] * len(tasks)
        self.classes: list[WayClass] = []
        self._times: Times | None = None
        if chip.routes:
            self._look_at_all()
        else:
            self._count_classes()
        if not self.classes and not all(self._best):
            _refuse(storage, tasks, self.unit_bytes)
        self.names = [each.name for each in self.classes]

    def _count_classes(self) -> None:
        for count in range(1, self._most + 1):
            for split in _SPLITS[: 1 if count == 1 else 2]:
                needs = [self._least(task, count, split) for task in self._tasks]
                name = f"{split} / {count}"
                every = [max(column) for column in zip(*needs, strict=True)]
                total = count_ways(self._compute, [every], self._storage)
                if total:
                    self.classes.append(WayClass(name, split, total, self._first(every)))
                for place, need in enumerate(needs):
                    if sum(need) <= self._storage:
                        self._offer(place, name, split, need)

    def _offer(self, place: int, name: str, split: SplitBy, need: Sequence[int]) -> None:
        """Keep a class if it does a task faster than those before."""
        task, best = self._tasks[place], self._best[place]
        busiest = self._timed(task, len(need), split)
        if best is None or busiest.terms.total_ns < best.busiest.terms.total_ns:
            self._best[place] = Best(name, self._subtasks(task, self._first(need), split), busiest)

    def _first(self, needs: Sequence[int]) -> Assignment:
        return next(ways(self._compute, [needs], self._storage))

    def _least(self, task: LayerTask, count: int, split: SplitBy) -> list[int]:
        """Return the storage units that each of `count` subtasks needs for the data of a task, at least 1."""
        least: list[int] = []
        for share, equal in groupby(task.even_shares(count, _of(split, task))):
            need = task.need_bytes(share, _of(split, task), keeps_weights=True)
            least += [max(1, -(-need // self.unit_bytes))] * len(list(equal))
        return least

    def _timed(self, task: LayerTask, count: int, split: SplitBy) -> Busiest:
        share = task.even_shares(count, _of(split, task))[0]
        terms = task.terms(share, _of(split, task), self._chip.own_rates)
        return Busiest(count, float(share), _of(split, task), terms)

    def _subtasks(self, task: LayerTask, way: Assignment, split: SplitBy) -> Split:
        shares = task.even_shares(len(way.compute), _of(split, task))
        return tuple(
            Subtask(own, held, share, _of(split, task), self._chip.rates(own, held))
            for own, held, share in zip(way.compute, way.storage, shares, strict=True)
        )

    def _look_at_all(self) -> None:
        """Classify every way, with the routes between its units; alike are those with equal routes and
        storage."""
        if self.ways > MAX_WAYS:
            raise SpecError(
                "enumerate",
                f"there are {self.ways} ways, each with routes of its own, the limit is {MAX_WAYS}: "
                f"enumerate fewer units",
            )
        columns: list[Times] = []
        classes: list[WayClass] = []
        rated = cache(self._chip.rates)
        for count in range(1, self._most + 1):
            kinds: dict[tuple[tuple[Rates, int], ...], list[Assignment]] = {}
            for way in ways(self._compute, [[1] * count], self._storage):
                rates = map(rated, way.compute, way.storage)
                kinds.setdefault(tuple(zip(rates, map(len, way.storage), strict=True)), []).append(way)
            parts = np.array([[(*rates, held) for rates, held in kind] for kind in kinds])
            some = list(kinds.values())
            for split in _SPLITS[: 1 if count == 1 else 2]:
                times = np.array([self._timed_at_once(task, parts, split) for task in self._tasks])
                self._offer_fastest(times, [each[0] for each in some], split)
                for column in np.flatnonzero(np.isfinite(times).all(axis=0)).tolist():
                    way = some[column][0]
                    classes.append(WayClass(_named(way, split), split, len(some[column]), way))
                    columns.append(times[:, column])
        if columns:
            self._merge(classes, np.stack(columns, axis=1))

    def _timed_at_once(self, task: LayerTask, parts: Times, split: SplitBy) -> Times:
        """Return the times of a task in ns for rates in, rates out and storage units of (kinds,
        subtasks, 3)."""
        shares = task.even_shares(parts.shape[1], _of(split, task))
        part = np.array([float(share) for share in shares])
        read = np.where(part > 0, 1.0, 0.0) if _of(split, task) == "outputs" else part
        times = read * task.bytes_in / parts[:, :, 0] + part * task.compute_ns
        times = times + part * task.bytes_out / parts[:, :, 1]
        needs = [task.need_bytes(share, _of(split, task), keeps_weights=True) for share in shares]
        fits = (np.array(needs, dtype=np.float64) <= parts[:, :, 2] * self.unit_bytes).all(axis=1)
        fastest: Times = np.where(fits, times.max(axis=1), inf)
        return fastest

    def _offer_fastest(self, times: Times, some: Sequence[Assignment], split: SplitBy) -> None:
        """Keep the fastest ways of each task if they are faster than those before."""
        for place, (task, column) in enumerate(zip(self._tasks, times.argmin(axis=1).tolist(), strict=True)):
            best = self._best[place]
            if times[place, column] < (inf if best is None else best.busiest.terms.total_ns):
                parts = self._subtasks(task, some[column], split)
                self._best[place] = Best(_named(some[column], split), parts, _busiest(task, parts))

    def _merge(self, classes: Sequence[WayClass], times: Times) -> None:
        """Merge all classes of equal times, in the order of their first ways."""
        _, first, kind = np.unique(times, axis=1, return_index=True, return_inverse=True)
        totals = [0] * len(first)
        for each, number in zip(classes, kind.ravel().tolist(), strict=True):
            totals[number] += each.ways
        for number in np.argsort(first, kind="stable").tolist():
            self.classes.append(classes[first[number]]._replace(ways=totals[number]))
        self._times = times[:, np.sort(first)]

    @override
    def times_ns(self) -> Times:
        return super().times_ns() if self._times is None else self._times

    @override
    def split(self, task: int, column: int) -> Split:
        kind = self.classes[column]
        return self._subtasks(self._tasks[task], kind.way, kind.split)

    @override
    def loads(self, task: int) -> Iterator[str]:
        for kind in self.classes:
            yield _entry(kind.way.compute, kind.way.storage)

    @override
    def best(self, task: int) -> Best | None:
        return self._best[task]


def _named(way: Assignment, split: SplitBy) -> str:
    return way.name if split == "windows" else f"{way.name} by outputs"


def _of(split: SplitBy, task: LayerTask) -> SplitBy:
    return split if task.is_layer else "windows"


def _busiest(task: LayerTask, parts: Split) -> Busiest:
    timed = [(part, task.terms(part.share, part.split, part.rates)) for part in parts]
    part, terms = max(timed, key=lambda each: each[1].total_ns)
    return Busiest(len(parts), float(part.share), part.split, terms)


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
    """Check that the chip has the compute units; its memory is divided into any number of equal storage
    units."""
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
    """Raise SpecError if not even one subtask fits, which needs least in all: say by how much."""
    (whole,) = tasks[0].even_shares(1, "windows")
    task = max(tasks, key=lambda task: task.need_bytes(whole, "windows", keeps_weights=True))
    need = task.need_bytes(whole, "windows", keeps_weights=True)
    raise SpecError(
        f"enumerate: task {task.name[:60]!r}",
        f"needs {need} bytes for its input, output and weights, {storage} storage units of "
        f"{unit_bytes} bytes hold {storage * unit_bytes}: the chip needs more memory",
    )
