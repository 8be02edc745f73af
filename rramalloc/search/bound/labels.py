"""Which modes may still meet a target: labels (sets of modes) on priced paths.

What is left of a target is a set of modes for every stage. It is cut into labels, labels that cannot meet the
target on any path at some price per array are removed, and what is left is cut anew. Every rule holds for
every mode in a label, so what is refuted is refuted for all modes, not for those of a menu.

Source: docs/sources/model.md 4 and 10; prices as in kernels/prices.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rramalloc.mapping.mode import ModeTable
from rramalloc.ndarrays import Bools, Floats, Ints
from rramalloc.search import cost
from rramalloc.search.bound.lookups import Ancestors, NeedRules
from rramalloc.search.kernels.mode_tables import (
    LabelledModes,
    Pairs,
    PathTimes,
    Waits,
    cut_into_labels,
    fill_waits,
    price_labels,
)
from rramalloc.search.kernels.prices import ArrayPrice
from rramalloc.search.menu import Menu, StageModes
from rramalloc.search.problem import Problem
from rramalloc.search.resources import priced_limit
from rramalloc.search.work import OutOfTime, Work
from rramalloc.timing.dependencies import Extent, through, union
from rramalloc.timing.stage_graph import StageGraph

Rows = tuple[Ints, ...]
"""Entries of the StageModes of every stage that may still meet the target."""
Extents = tuple[Extent, ...]

FEW_LABELS = 16  # labels of a stage in the first round, which removes most modes
MOST_LABELS = 40  # labels of a stage in the later rounds
_CHECKS = 20
"""Rows of a stage at which middles are looked at."""
_HOPS = 24  # edges between two stages of a pair at most
_ENOUGH_PAIRS = 2000  # pairs from which on no longer ways are followed
_CHEAPEST = 1.0 / 8.0  # first price, in target / budget: steps per array
_DEAREST = 8.0  # last price for every stage, in target / budget
_RATIO = 1.6  # ratio of successive prices
# Weights of the features by which modes differ: best of several on five root bounds.
_DEAR = 8.0  # arrays, in target / budget
_MILD = 0.5  # the time of a stage alone
_BUSY = 0.4  # time that a producer is taken to run, in targets
TIGHT_ROUNDS = 5  # rounds of prices at most
_TIGHT_ENOUGH = 0.9  # a round that keeps more than this part of the modes is the last one
_OF_MODES = ("tall", "wide", "top", "left", "image", "columns")
"""Columns of every mode that the tables read."""
_OF_ENTRIES = ("low", "high", "batches", "period")
"""Columns of every mode and its copies that they read."""


def pairs_of(graph: StageGraph, least: Ints) -> tuple[Pairs, Ints]:
    """Return the pairs of stages up to some edges apart for compiled code, and the consumer of each.

    least: ticks that a batch of every stage lasts in any mode.
    """
    edges = graph.flat_extents
    direct: list[Ancestors[Extents]] = [{} for _ in graph.stages]
    at = 0
    for edge in graph.timing_edges:
        direct[edge.consumer][edge.producer] = int(edges.lag[at]), edge.extents
        at += len(edge.extents)
    found = [own.copy() for own in direct]
    extents = NeedRules(_composed, lambda first, second: union((*first, *second)))
    levels = extents.levels_up(direct, least)
    for _ in range(2, _HOPS + 1):
        if sum(map(len, found)) >= _ENOUGH_PAIRS:
            break
        extents.merge(found, next(levels))
    return _flat_pairs(graph, found)


def _composed(needed: Extents, others: Extents) -> Extents:
    return union(tuple(through(a, b) for a in needed for b in others))


def _flat_pairs(graph: StageGraph, reached: list[Ancestors[Extents]]) -> tuple[Pairs, Ints]:
    tables: list[npt.NDArray[np.int32]] = []
    offsets: dict[int, int] = {}
    total = 0

    def place(table: npt.NDArray[np.int32]) -> int:
        nonlocal total
        if id(table) not in offsets:
            offsets[id(table)] = total
            tables.append(table)
            total += len(table)
        return offsets[id(table)]

    pointer, fields, consumers = [0], list[tuple[int, ...]](), list[int]()
    check_first, checked = [0], list[int]()
    for i, own in enumerate(reached):
        for p in sorted(own):
            delay, extents = own[p]
            grid = graph.grids[p]
            for extent in extents:
                if extent.rows[-1] < 0 or extent.columns[-1] < 0:
                    continue
                y = int(np.searchsorted(extent.rows, grid.height - 1))
                x = int(np.searchsorted(extent.columns, grid.width - 1))
                used = y < len(extent.rows) and x < len(extent.columns)
                user = (y, x) if used else (-1, -1)
                fields.append((p, delay, place(extent.rows), place(extent.columns), *user))
                consumers.append(i)
        pointer.append(len(fields))
        height = graph.grids[i].height
        rows = np.unique(np.linspace(0, height - 1, min(height, _CHECKS)).astype(np.int64))
        checked += rows.tolist()
        check_first.append(len(checked))
    producer, least, row, column, user_row, user_column = (
        np.array(fields, dtype=np.int64).reshape(-1, 6).T.copy()
    )
    pairs = Pairs(
        np.array(pointer, dtype=np.int64),
        producer,
        least,
        row,
        column,
        user_row,
        user_column,
        np.concatenate([*tables, np.zeros(1, dtype=np.int32)]),
        np.array(check_first, dtype=np.int64),
        np.array(checked, dtype=np.int64),
    )
    return pairs, np.array(consumers, dtype=np.int64)


def _fastest(modes: LabelledModes, block: Ints) -> LabelledModes:
    """Keep of modes with the same label, block and length of a batch the one with most copies.

    Modes of a block come with copies in rising order.
    """
    stage = np.repeat(np.arange(len(modes.size)), np.diff(modes.first))
    changes = np.zeros(len(block), dtype=np.bool_)
    for column in (stage, modes.label, block, modes.period):
        changes[:-1] |= column[1:] != column[:-1]
    changes[-1:] = True
    rows = np.flatnonzero(changes)
    taken = {name: getattr(modes, name)[rows] for name in ("label", *_OF_MODES, *_OF_ENTRIES)}
    return modes._replace(first=np.searchsorted(rows, modes.first), **taken)


@dataclass(frozen=True, eq=False)
class Labelling:
    """Remaining modes, cut into labels. runs, arrays, priced: least of every label."""

    rows: Rows
    modes: LabelledModes
    runs: Floats
    arrays: Ints
    priced: Ints
    waits: Waits


@dataclass(eq=False)
class ModeBounder:
    """Asks which modes of every stage may still meet a target."""

    problem: Problem
    menu: Menu
    pairs: Pairs = field(init=False)

    def __post_init__(self) -> None:
        least = np.array([each.period.min() for each in self.menu.stages], dtype=np.int64)
        self.pairs, self.consumers = pairs_of(self.problem.graph, least)
        self.stages = len(self.problem.demand)
        grids = self.problem.graph.grids
        self._height = np.array([grid.height for grid in grids], dtype=np.int64)
        self._width = np.array([grid.width for grid in grids], dtype=np.int64)
        self._s_per_mode = cost.MODE + cost.MODE_OF_PAIR * len(self.consumers) / self.stages

    @cached_property
    def _budgets(self) -> list[tuple[list[Ints], int]]:
        """Return the amounts of every mode, and their limit: of cost, of each axis, of priced cost."""
        stages, menu = self.menu.stages, self.menu
        budgets = [([each.arrays for each in stages], int(self.problem.budget))]
        budgets += [([each.amounts(axis) for each in stages], axis.limit) for axis in menu.axes]
        if menu.axes:
            budgets.append(([each.priced(menu.axes, menu.prices) for each in stages], self._priced_limit))
        return budgets

    @property
    def _priced_limit(self) -> int:
        """The priced cost that no allocation within all limits exceeds."""
        return priced_limit(self.problem.resources, self.menu.prices, self.problem.budget)

    @property
    def label_all_s(self) -> float:
        """Seconds of cutting all modes into labels, counted."""
        return self._s_per_mode * sum(len(each.arrays) for each in self.menu.stages)

    @property
    def everything(self) -> Rows:
        """All modes of all stages."""
        return tuple(np.arange(len(each.arrays)) for each in self.menu.stages)

    def within_budget(self, rows: Rows, target: int) -> Rows | None:
        """Leave out modes that last longer than the target, or take more of a budget than others leave."""
        stages = self.menu.stages
        rows = tuple(own[stages[i].length[own] <= target] for i, own in enumerate(rows))
        if not all(len(own) for own in rows):
            return None
        for taken, budget in self._budgets:
            least = np.array([int(taken[i][own].min()) for i, own in enumerate(rows)])
            spare = budget - int(least.sum())
            if spare < 0:
                return None
            rows = tuple(own[taken[i][own] <= least[i] + spare] for i, own in enumerate(rows))
        return rows

    def tighten(self, rows: Rows, target: int, stop: Work, rounds: int = TIGHT_ROUNDS) -> Rows | None:
        """Return the modes that may still meet the target, None if a stage has none left."""
        *_, left = (rows, *self.tightening(rows, target, stop, rounds))
        return left

    def tightening(
        self, rows: Rows, target: int, stop: Work, rounds: int = TIGHT_ROUNDS
    ) -> Iterator[Rows | None]:
        """Yield the result of `tighten` after each round, until one removes few modes or the time is up."""
        left = self.within_budget(rows, target)
        with suppress(OutOfTime):
            for turn in range(rounds):
                before = left
                if before is not None:
                    left = self._round(before, target, MOST_LABELS if turn else FEW_LABELS, stop)
                yield left
                if (
                    before is None
                    or left is None
                    or (turn and _count(left) >= _TIGHT_ENOUGH * _count(before))
                ):
                    return

    def _round(self, rows: Rows, target: int, labels: int, stop: Work) -> Rows | None:
        """Cut modes into labels, and leave out labels that priced paths or budgets exclude."""
        labelling = self.label(rows, target, labels, stop)
        work_s = self._s_per_mode * len(labelling.modes.label) + cost.LABEL * int(labelling.modes.size.sum())
        work_s += cost.LABELLED_STAGE * self.stages
        stop.charge(work_s + (cost.WAIT + cost.PRICED_WAIT) * labelling.waits.wait.size)
        kept = self._priced(labelling, target, stop)
        if kept is None:
            return None
        first, label = labelling.modes.first, labelling.modes.label
        each = enumerate(labelling.rows)
        left = (np.sort(own[kept[i, label[first[i] : first[i + 1]]]]) for i, own in each)
        return self.within_budget(tuple(left), target)

    def label(self, rows: Rows, target: int, most: int, stop: Work) -> Labelling:
        """Cut the modes of every stage into at most `most` labels of similar arrays, times and waits.

        Raises OutOfTime.
        """
        price = target / self.problem.budget
        labels, orders = [], []
        for i, own in enumerate(rows):
            stop.check()
            label = self._cut(i, own, target, price, most)
            order = np.argsort(label, kind="stable")
            labels.append(label[order])
            orders.append(own[order])
        rows = tuple(orders)
        size = np.array([int(label[-1]) + 1 for label in labels], dtype=np.int64)
        first = np.concatenate(([0], np.cumsum([len(own) for own in rows]))).astype(np.int64)
        parts = [self.menu.stages[i].take(own) for i, own in enumerate(rows)]
        of_modes = ModeTable.joined([part.each for part in parts])
        columns = {name: getattr(of_modes, name) for name in _OF_MODES}
        columns |= {name: np.concatenate([getattr(part, name) for part in parts]) for name in _OF_ENTRIES}
        modes = LabelledModes(
            first=first,
            label=np.concatenate(labels),
            size=size,
            height=self._height,
            width=self._width,
            **columns,
        )
        block = np.concatenate([self.menu.stages[i].row[own] for i, own in enumerate(rows)])
        most = int(size.max())
        runs, arrays = np.zeros((self.stages, most)), np.zeros((self.stages, most), dtype=np.int64)
        priced, axes = np.zeros_like(arrays), self.menu.axes
        for i, (part, label) in enumerate(zip(parts, labels, strict=True)):
            starts = np.searchsorted(label, np.arange(size[i]))
            runs[i, : size[i]] = np.minimum.reduceat(part.length, starts)
            arrays[i, : size[i]] = np.minimum.reduceat(part.arrays, starts)
            if axes:
                of_part = part.priced(axes, self.menu.prices)
                priced[i, : size[i]] = np.minimum.reduceat(of_part, starts)
        count = len(self.consumers)
        waits = Waits(
            np.empty((count, most, most), dtype=np.int64),
            np.empty((count, most, most), dtype=np.int64),
            np.empty((count, most), dtype=np.int64),
            np.zeros((count, most), dtype=np.int64),
        )
        fill_waits(modes, _fastest(modes, block), self.pairs, waits)
        return Labelling(rows, modes, runs, arrays, priced, waits)

    def _cut(self, stage: int, rows: Ints, target: int, price: float, labels: int) -> Ints:
        """Return a label for each of these modes; labels are sorted as staircases are."""
        if len(rows) <= labels:
            every = self.menu.stages[stage]
            order = np.lexsort((every.arrays[rows], -every.length[rows]))
            label = np.empty(len(rows), dtype=np.int64)
            label[order] = np.arange(len(rows))
            return label
        modes = self.menu.stages[stage].take(rows)
        priced = modes.priced(self.menu.axes, self.menu.prices)
        features = self._features(stage, modes, priced, target, _DEAR * price)
        order = np.argsort(features.sum(axis=1), kind="stable")
        found = np.empty(len(rows), dtype=np.int64)
        count = cut_into_labels(features[order], labels, float(np.ptp(features, axis=0).max()), found)
        label = np.empty(len(rows), dtype=np.int64)
        label[order] = found
        least = np.full((2, count), np.inf)
        np.minimum.at(least[0], label, modes.length)
        np.minimum.at(least[1], label, modes.arrays)
        place = np.empty(count, dtype=np.int64)
        place[np.lexsort((least[1], -least[0]))] = np.arange(count)
        return place[label]

    def _features(self, stage: int, modes: StageModes, priced: Ints, target: int, price: float) -> Floats:
        """Return the cost of each mode in steps, alone and by the waits of others: one row for each mode."""
        height = int(self._height[stage])
        rate = _BUSY * target / height
        low, high, period, block = modes.low, modes.high, modes.period, modes.each
        rows, columns = np.divmod(low - 1, block.columns)
        need = (rows + 1) * block.tall - block.top - 1 + (columns + 1) / block.columns
        features = [_MILD * modes.length, price * priced, rate * need, rate * block.tall]
        for y in np.unique([0, 1, 3, height // 4, height // 2, 3 * height // 4]):
            last = (y + block.top) // block.tall * block.columns + block.columns - 1
            features.append((last // high + 1) * period)
        for y in np.unique([height // 2, height - 4, height - 2]):
            last = (y + block.top) // block.tall * block.columns + block.columns - 1
            features.append(_MILD * (modes.batches - last // low) * period)
        return np.stack(features, axis=1).astype(np.float64)

    def _priced(self, labelling: Labelling, target: int, stop: Work) -> Bools | None:
        """Return the labels that priced paths do not exclude, None if a stage has none left."""
        size, shape = labelling.modes.size, labelling.runs.shape
        exists = np.arange(shape[1]) < size[:, None]
        kept = exists.copy()
        times = PathTimes(*(np.empty(shape) for _ in range(5)))
        budgets = [(labelling.arrays, int(self.problem.budget))]
        if any(self.menu.prices):
            budgets.append((labelling.priced, self._priced_limit))
        for arrays, budget in budgets:
            # Of all labels, as price_labels pays beyond the least of all: kept ones alone may all take more.
            least = np.where(exists, arrays, np.int64(2**60)).min(axis=1)
            spare, price = budget - int(least.sum()), 0.0
            while True:
                stop.check()
                propose = ArrayPrice(target, price, spare)
                price_labels(self.pairs, labelling.waits, size, labelling.runs, arrays, propose, times, kept)
                if not kept.any(axis=1).all():
                    return None
                if price > _DEAREST * self.stages * target / budget or spare == 0:
                    break
                price = price * _RATIO if price else _CHEAPEST * target / budget
        left: Bools = kept | ~exists
        return left


def _count(rows: Rows) -> int:
    """Return the number of modes of all stages."""
    return sum(map(len, rows))
