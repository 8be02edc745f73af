"""Lower bounds over modes: labels (sets of modes), priced paths, a linear relaxation, and branching on
labels.

What is left of a target is a set of modes for every stage. It is cut into labels; labels that cannot meet the
target on any path at some price per array are removed, then those that the relaxation's reduced costs
exclude, and what is left is cut anew. Every rule holds for every mode in a label, so the bound is one of all
modes, not of a menu.

Source: docs/sources/model.md 4 and 10; a linear program solved by HiGHS, with cuts from transport duality and
along whole paths.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from rramalloc.mapping.mode import ModeTable
from rramalloc.ndarrays import Bools, Floats, Ints
from rramalloc.search import cost
from rramalloc.search.bound.lookups import Ancestors, NeedRules
from rramalloc.search.bound.path_program import PathProgram, Row
from rramalloc.search.bound.paths import Path, Paths
from rramalloc.search.kernels.cuts import Solution
from rramalloc.search.kernels.mode_tables import (
    LabelledModes,
    Pairs,
    PathTimes,
    Potentials,
    Waits,
    cover,
    fill_waits,
    price_labels,
    separate_waits,
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
_LIMIT_OF_AXIS = 1000  # the limit of an axis in the relaxation: of the size of a budget of arrays
# Weights of the features by which modes differ: best of several on five root bounds.
_DEAR = 8.0  # arrays, in target / budget
_MILD = 0.5  # the time of a stage alone
_BUSY = 0.4  # time that a producer is taken to run, in targets
_WORTHWHILE = 1e-3  # of the target, that another solution of pairs of stages must raise the bound by
_WORTHWHILE_PATHS = 4e-4  # of the target, that another solution of whole paths must raise it by
_PATH_ROUNDS = 8  # solutions with paths at most
_IDLE = 2  # successive solutions that may raise the bound too little
_EVERY = 8  # one in this number of violated paths joins the relaxation
_SMOOTHING = 0.5  # weight of the newest solution in a mean, whose longest paths cut deeper than the newest's
TIGHT_ROUNDS = 5  # rounds of prices and relaxation at most
_TIGHT_ENOUGH = 0.9  # a round that keeps more than this part of the modes is the last one
_OF_MODES = ("tall", "wide", "top", "left", "columns")
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
            beyond, extents = own[p]
            grid = graph.grids[p]
            for extent in extents:
                if extent.rows[-1] < 0 or extent.columns[-1] < 0:
                    continue
                y = int(np.searchsorted(extent.rows, grid.height - 1))
                x = int(np.searchsorted(extent.columns, grid.width - 1))
                used = y < len(extent.rows) and x < len(extent.columns)
                user = (y, x) if used else (-1, -1)
                fields.append((p, beyond, place(extent.rows), place(extent.columns), *user))
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
    """Remaining modes, cut into labels. runs, arrays, priced, amounts (by axis): least of every label."""

    rows: Rows
    modes: LabelledModes
    runs: Floats
    arrays: Ints
    priced: Ints
    amounts: Ints
    waits: Waits


@dataclass(frozen=True, slots=True, eq=False)
class TightenResult:
    """Result of tightening a target. bound: no allocation that meets the target takes fewer steps.

    rows: the modes that may still meet it, None if none can; weights: of every label in the relaxation;
    labelling: that they belong to.
    """

    bound: float
    rows: Rows | None
    weights: Floats | None
    labelling: Labelling | None


def _refuted(bound: float) -> TightenResult:
    """Return the result for a target up to this bound that no mode can meet."""
    return TightenResult(bound, None, None, None)


@dataclass(eq=False)
class ModeBounder:
    """Asks which modes of every stage may still meet a target."""

    problem: Problem
    menu: Menu
    pairs: Pairs = field(init=False)

    def __post_init__(self) -> None:
        least = np.array([each.period.min() for each in self.menu.stages], dtype=np.int64)
        self.pairs, self.consumers = pairs_of(self.problem.graph, least)
        edges = {(edge.producer, edge.consumer) for edge in self.problem.graph.timing_edges}
        self.ends = list(zip(self.pairs.producer.tolist(), self.consumers.tolist(), strict=True))
        self.direct = np.array([pair in edges for pair in self.ends], dtype=np.bool_)
        self.paths = Paths(self.problem.graph)
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

    def tighten(self, rows: Rows, target: int, stop: Work, rounds: int = TIGHT_ROUNDS) -> TightenResult:
        """Apply prices and relaxation until they remove few modes more, or the time is up."""
        *_, left = (TightenResult(1.0, rows, None, None), *self.tightening(rows, target, stop, rounds))
        return left

    def tightening(
        self, rows: Rows, target: int, stop: Work, rounds: int = TIGHT_ROUNDS
    ) -> Iterator[TightenResult]:
        """Yield the result of `tighten` after each round."""
        with suppress(OutOfTime):
            yield from self._rounds(rows, target, stop, rounds)

    def _rounds(self, rows: Rows, target: int, stop: Work, rounds: int) -> Iterator[TightenResult]:
        bound, weights = 1.0, None
        for turn in range(rounds):
            left = self.within_budget(rows, target)
            if left is None:
                yield _refuted(target)
                return
            before = sum(map(len, left))
            labels = MOST_LABELS if turn else FEW_LABELS
            labelling = self.label(left, target, labels, stop)
            stop.charge(self._label_seconds(labelling) + cost.PRICED_WAIT * labelling.waits.wait.size)
            kept = self._priced(labelling, target, stop)
            if kept is None:
                yield _refuted(target)
                return
            if not kept.all():
                rows = self._rows_of(labelling, kept)
                if sum(map(len, rows)) < _TIGHT_ENOUGH * before and turn + 1 < rounds:
                    yield TightenResult(bound, rows, weights, labelling)
                    continue
                left = self.within_budget(rows, target)
                if left is None:
                    yield _refuted(target)
                    return
                labelling = self.label(left, target, labels, stop)
                stop.charge(self._label_seconds(labelling))
            relaxed, kept, weights = self._relax(labelling, target, stop)
            bound = max(bound, relaxed)
            if bound > target or kept is None:
                yield _refuted(max(bound, target))
                return
            rows = self._rows_of(labelling, kept)
            yield TightenResult(bound, rows, weights, labelling)
            if turn and sum(map(len, rows)) >= _TIGHT_ENOUGH * before:
                return

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
        amounts = np.zeros((len(axes), *arrays.shape), dtype=np.int64)
        for i, (part, label) in enumerate(zip(parts, labels, strict=True)):
            starts = np.searchsorted(label, np.arange(size[i]))
            runs[i, : size[i]] = np.minimum.reduceat(part.length, starts)
            arrays[i, : size[i]] = np.minimum.reduceat(part.arrays, starts)
            if axes:
                of_part = part.priced(axes, self.menu.prices)
                priced[i, : size[i]] = np.minimum.reduceat(of_part, starts)
            for axis, of_axis in zip(axes, amounts, strict=True):
                of_axis[i, : size[i]] = np.minimum.reduceat(part.amounts(axis), starts)
        count = len(self.consumers)
        waits = Waits(
            np.empty((count, most, most), dtype=np.int64),
            np.empty((count, most, most), dtype=np.int64),
            np.empty((count, most), dtype=np.int64),
            np.zeros((count, most), dtype=np.int64),
        )
        fill_waits(modes, _fastest(modes, block), self.pairs, waits)
        return Labelling(rows, modes, runs, arrays, priced, amounts, waits)

    def _cut(self, stage: int, rows: Ints, target: int, price: float, labels: int) -> Ints:
        """Return a label for each of these modes; labels are sorted as staircases are, which cuts rest on."""
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
        count = cover(features[order], labels, float(np.ptp(features, axis=0).max()), found)
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

    def _rows_of(self, labelling: Labelling, kept: Bools) -> Rows:
        first, label = labelling.modes.first, labelling.modes.label
        return tuple(
            np.sort(own[kept[i, label[first[i] : first[i + 1]]]]) for i, own in enumerate(labelling.rows)
        )

    def _label_seconds(self, labelling: Labelling) -> float:
        """Return the work of cutting modes into labels and filling their tables, counted."""
        per_label = cost.LABEL * float(labelling.modes.size.sum())
        waits = cost.WAIT * int(labelling.waits.wait.size)
        return self._s_per_mode * len(labelling.modes.label) + waits + per_label

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

    def _relax(self, labelling: Labelling, target: int, stop: Work) -> tuple[float, Bools | None, Floats]:
        """Bound, labels that may meet the target, their weights."""
        stop.check()
        program = _Program(self, labelling, target)
        program.run(stop)
        stop.charge(program.counted_s)
        return program.result()


class _Program(PathProgram):
    """The relaxation of one labelling."""

    def __init__(self, owner: ModeBounder, labelling: Labelling, target: int) -> None:
        self.owner, self.labelling = owner, labelling
        size, none = labelling.modes.size, np.zeros(owner.stages, dtype=np.int64)
        super().__init__(size, labelling.runs.shape[1], target, none)
        labels = np.arange(self.width) < size[owner.consumers][:, None]
        self._whole = np.where(labels, labelling.waits.whole, 1).all(axis=1)
        arrays = [own[:count] for own, count in zip(labelling.arrays, size, strict=True)]
        self.begin(labelling.runs, arrays, owner.problem.budget, none)
        for axis, amounts in zip(owner.menu.axes, labelling.amounts, strict=True):
            scale = _LIMIT_OF_AXIS / max(axis.limit, 1)
            every = zip(amounts, size, strict=True)
            self.add_budget([own[:count] * scale for own, count in every], _LIMIT_OF_AXIS)
        self.worthwhile = _WORTHWHILE * self.target
        self.separate(first=True)
        self._paths: dict[int, Path] = {}
        self._searches = 0
        self._add_paths(sorted(owner.paths.useful.keys))

    def separate(self, *, first: bool = False) -> bool:
        """Add the inequalities that the solution violates most; False if there are none.

        first: before there is a solution, those of all edges, as they cut off even weights.
        """
        n, pairs, waits = self.stages, self.owner.pairs, self.labelling.waits
        consumers = self.owner.consumers
        solution = self.solution
        if first:
            even = self.square(np.ones(int(self.first[-1]))) / self.size[:, None]
            solution = Solution(even, np.zeros(n), np.zeros(n))
        weights, begin, end = solution
        rows = []
        for table, to_end in ((waits.wait, False), (waits.middle, True)):
            shape = table.shape[:2]
            out = Potentials(np.zeros(shape[0]), np.zeros(shape), np.zeros(shape))
            separate_waits(pairs, table, self.size, solution, to_end, -self.target_ticks, out)
            for e in self._chosen(out.excess, first):
                p, i = self.owner.ends[e]
                rows.append(self.inequality((n if to_end else 0) + i, p, [(p, out.a[e]), (i, out.b[e])]))
        ended = end[pairs.producer]
        used = pairs.user_row >= 0
        tail = np.where(used, ended + (waits.tail * weights[consumers]).sum(axis=1), -np.inf)
        for e in self._chosen(tail - end[consumers], first):
            p, i = self.owner.ends[e]
            rows.append(self.inequality(n + i, n + p, [(i, waits.tail[e].astype(np.float64))]))
        whole = np.where(self._whole, ended + pairs.beyond, -np.inf)
        for e in self._chosen(whole - begin[consumers], first):
            p, i = self.owner.ends[e]
            rows.append(self.inequality(i, n + p, [(i, np.full(len(weights[i]), float(pairs.beyond[e])))]))
        self.program.add(rows)
        return bool(rows)

    @override
    def run(self, stop: Work) -> int:
        """Solve the program as any other, then again with cuts of whole paths."""
        rounds, idle, mean = super().run(stop), 0, self.solution
        last = rounds + _PATH_ROUNDS
        while rounds < last and idle < _IDLE and not self.refuted and self._separate_paths(mean):
            self.separate()
            before = self.program.value
            idle = idle + 1 if self.program.solve(stop) - before < _WORTHWHILE_PATHS * self.target else 0
            rounds += 1
            mean = mean.mixed(self.solution, _SMOOTHING)
        self.owner.paths.useful.solved(self.active(self._paths))
        return rounds

    def _separate_paths(self, solution: Solution) -> bool:
        """Add the inequalities of some of the longest paths that a solution violates."""
        self._searches += 1
        excess = self.owner.paths.excess(self.labelling.modes, self.target_ticks, solution)
        worst = self.worst(excess, self.stages)
        return self._add_paths([self.owner.paths.to(i) for i in sorted({*worst[::_EVERY], *worst[-1:]})])

    def _add_paths(self, paths: list[Path]) -> bool:
        rows: list[Row] = []
        for path in paths:
            costs = self.owner.paths.costs(path, self.labelling.modes, self.width, self.target_ticks)
            parts = [(leg[0], cost) for leg, cost in zip(path, costs, strict=True)]
            late, early, lag = self.stages + path[0][0], path[-1][0], self.owner.paths.lag(path)
            self._paths[self.program.rows + len(rows)] = path
            rows.append(self.inequality(late, early, parts, lag))
        self.program.add(rows)
        return bool(rows)

    def _chosen(self, excess: Floats, first: bool) -> list[int]:
        """Return the pairs whose inequality is violated most; before the first solution those of edges."""
        if first:
            return np.flatnonzero(self.owner.direct & (excess > -np.inf)).tolist()
        return self.worst(excess, 2 * self.stages)

    @property
    def counted_s(self) -> float:
        """Seconds of what was done."""
        seconds = self.seconds(cost.MODE_PIVOT_ROW) + cost.LONG_ROW * self.program.rows
        return seconds + cost.PATH_LEG * self._searches * self.owner.paths.legs(self.labelling.modes)

    def result(self) -> tuple[float, Bools | None, Floats]:
        """Return the bound that the multipliers prove, and the labels that may still meet the target."""
        bound, kept = self.proven()
        weights = np.clip(self.solution.weights, 0.0, 1.0)
        return bound, kept if kept.any(axis=1).all() else None, weights
