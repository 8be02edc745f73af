"""Menus: the modes of every stage that a search chooses from, and what all modes together could be.

A stage with H x W windows has millions of modes (blocks of every shape, any number of copies). For a number
of batches only the fewest copies of each block matter to the arrays, so `all_modes` lists those: one row per
block and number of batches. `Menu` keeps the blocks that are among the cheapest for some number of batches,
and the staircase of fewest arrays for every number of batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.choices import Divided
from rramalloc.errors import BudgetError, SpecError
from rramalloc.mapping.demand import Storage
from rramalloc.mapping.mode import PLAIN, Mode, ModeOfEach, ModeTable
from rramalloc.mapping.modes import ArrayCount, divisors, input_extents, largest_block, smallest_block
from rramalloc.ndarrays import Floats, Ints
from rramalloc.rounding import SAME_PRODUCT
from rramalloc.search.kernels.clock import Clock
from rramalloc.search.kernels.limits import LimitTables
from rramalloc.search.kernels.moves import MenuTables, State
from rramalloc.search.kernels.slots import NO_SLOTS, Slots
from rramalloc.search.problem import Choice, Problem
from rramalloc.search.resources import (
    ONE_KIND,
    Axis,
    Cost,
    Option,
    Prices,
    cheapest_options,
    priced_limit,
    prices_of_excess,
    prices_of_limits,
    whole_price,
)
from rramalloc.search.work import Work
from rramalloc.timing.stage_graph import STEP, BatchTicks

MOST_BLOCKS = 40
"""Blocks of a stage in its menu at most."""
_NEAR = 0.08
"""A block is in the menu if for some number of batches it is at most this part above the fewest arrays."""
_NO_ACCESS = 1e-200  # ns: divisor for blocks without access, whose quotient then exceeds every limit


class Stairs(NamedTuple):
    """Fewest arrays for every length: steps first[i] ... first[i + 1] - 1 of stage i of n stages; int64.

    arrays, with the price of bits, rise and lengths, the time of all batches, fall; block: number of the
    mode. After these n staircases, from first[n] on, follow those of the lowest blocks alone: tall blocks
    save arrays, but make other stages wait.
    """

    first: Ints
    arrays: Ints
    length: Ints
    block: Ints
    copies: Ints


@lru_cache(maxsize=256)
def copies_by_batches(total: int) -> tuple[Ints, Ints]:
    """Return the fewest and the most copies of each number of batches that `total` blocks can take."""
    roots = np.arange(1, math.isqrt(total) + 2)
    copies = np.unique(np.concatenate((roots, -(-total // roots))))
    batches = -(-total // copies)
    low: Ints = copies[-(-total // batches) == copies]
    return low, np.append(low[1:] - 1, total)


_COLUMNS = ("low", "high", "batches", "arrays", "period")
"""Columns of the entries of a stage beside the row of their mode."""


@dataclass(frozen=True, eq=False)
class StageModes:
    """Modes and copies of one stage up to a number of arrays: columns, int64.

    table: the distinct modes; row: the mode in it of every entry; low, high: copies, all of which take
    `batches` batches; arrays, period: of `low` copies, the arrays they take and the ticks of a batch, 1
    where all stages step together; more copies never take fewer. clock: of every row of `table`.
    """

    table: ModeTable
    row: Ints
    low: Ints
    high: Ints
    batches: Ints
    arrays: Ints
    period: Ints
    clock: Clock

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self.row)

    @property
    def length(self) -> Ints:
        """Steps, or ticks, of all batches."""
        return self.batches * self.period

    @cached_property
    def each(self) -> ModeTable:
        """The mode of every entry, as a table."""
        return self.table.take(self.row)

    def take(self, rows: npt.NDArray[Any]) -> StageModes:
        """Return some of the entries."""
        own = {name: getattr(self, name)[rows] for name in _COLUMNS}
        return replace(self, row=self.row[rows], **own)

    def with_columns(self, **columns: Any) -> StageModes:
        """Return the same modes with numbers in all rows of some columns of the table."""
        own = {name: np.full(self.table.rows, value) for name, value in columns.items()}
        return replace(self, table=self.table._replace(**own))

    @classmethod
    def joined(cls, each: Sequence[StageModes]) -> StageModes:
        """Return the modes of all of them as those of one stage."""
        if len(each) == 1:
            return each[0]
        starts = np.cumsum([0, *(own.table.rows for own in each[:-1])]).tolist()
        columns = {name: np.concatenate([getattr(own, name) for own in each]) for name in _COLUMNS}
        return cls(
            ModeTable.joined([own.table for own in each]),
            np.concatenate([own.row + start for own, start in zip(each, starts, strict=True)]),
            **columns,
            clock=Clock.joined([own.clock for own in each]),
        )

    @cached_property
    def modes(self) -> list[Mode]:
        """Mode of every row of the table."""
        return self.table.modes()

    def mode(self, entry: int) -> Mode:
        """Return the mode of an entry."""
        return self.modes[int(self.row[entry])]

    def amounts(self, axis: Axis) -> Ints:
        """Return what every entry takes of an axis."""
        own = self.each
        return axis.amounts(own.kind, self.arrays // own.weight, own.sensitivity)

    def taken(self, axes: Sequence[Axis]) -> Ints:
        """Return the cost of every entry and what it takes of every axis, shape (entries, 1 + axes)."""
        return np.stack([self.arrays, *(self.amounts(axis) for axis in axes)], axis=1)

    def priced(self, axes: Sequence[Axis], prices: Prices) -> Ints:
        """Return the cost of every entry and of what it takes of each axis."""
        cost = self.arrays
        for axis, price in zip(axes, prices, strict=True):
            if price:
                cost = cost + whole_price(price, self.amounts(axis))
        return cost

    def alike(self) -> list[Ints]:
        """Return the entries of the same kind of arrays and the same sensitivity, of each such pair."""
        pairs = np.stack([self.each.kind, self.each.sensitivity], axis=1)
        if (pairs == pairs[:1]).all():
            return [np.arange(len(self))][: len(self)]
        distinct, number = np.unique(pairs, axis=0, return_inverse=True)
        return [np.flatnonzero(number.ravel() == at) for at in range(len(distinct))]

    def options(self, entries: Sequence[int], axes: Sequence[Axis]) -> list[Option]:
        """Return the cost of entries and what they take of every axis."""
        return [tuple(row) for row in self.take(np.array(entries, dtype=np.int64)).taken(axes).tolist()]

    def cheapest_alike(self, axes: Sequence[Axis]) -> list[Option]:
        """Return the cost and amounts of the cheapest entry of each kind of arrays and sensitivity."""
        return self.options([int(own[self.arrays[own].argmin()]) for own in self.alike()], axes)

    def clock_by(self, ticks: Callable[[Mode], BatchTicks]) -> Clock:
        """Return the clock of batches that last `ticks` by their mode."""
        known = {mode: ticks(mode) for mode in dict.fromkeys(self.modes)}
        return Clock.of([known[mode] for mode in self.modes])

    def with_clock(self, clock: Clock) -> StageModes:
        """Return the same modes with this clock."""
        return replace(self, period=clock.of_each(self.row, self.low), clock=clock)

    def no_longer_than(self, longest: int) -> StageModes:
        """Return the entries, which are that short with `low` copies, with no more copies than are as short.

        A batch of more copies may take longer, so those of a mode may lie apart: each run of them has a row
        of the table of its own, and no search meets a number in between.
        """
        low, high = self.low, self.high
        while (low < high).any():  # the ticks of a batch rise with the copies
            middle = (low + high + 1) // 2
            short = self.batches * self.clock.of_each(self.row, middle) <= longest
            low, high = np.where(short, middle, low), np.where(short, high, middle - 1)
        order = np.lexsort((self.low, self.row))
        begins = np.ones(len(order), dtype=np.bool_)
        same_mode = self.row[order][1:] == self.row[order][:-1]
        begins[1:] = ~(same_mode & (self.low[order][1:] == low[order][:-1] + 1))
        row = np.zeros(len(order), dtype=np.int64)
        row[order] = np.cumsum(begins) - 1
        of = self.row[order][begins]
        return replace(self, table=self.table.take(of), row=row, high=low, clock=self.clock.take(of))

    def with_copies(self, most: Ints) -> StageModes:
        """Return the entries with at most `most` copies of each mode."""
        left = self.take(self.low <= most[self.row])
        return replace(left, high=np.minimum(left.high, most[left.row]))

    def with_least(self, least: int) -> StageModes:
        """Return the entries with at least `least` copies of a mode."""
        left = self.take(self.high >= least)
        low = np.maximum(left.low, least)
        return replace(left, low=low, arrays=left.each.arrays(low))

    def copies_of_modes(self) -> tuple[Ints, Ints]:
        """Return the fewest and the most copies of every row of the table, 2**60 and 0 without an entry."""
        least, most = np.full(self.table.rows, 2**60), np.zeros(self.table.rows, dtype=np.int64)
        np.minimum.at(least, self.row, self.low)
        np.maximum.at(most, self.row, self.high)
        return least, most

    def dividing(self, divide: Divided, most: int) -> StageModes:
        """Return the modes with up to `most` arrays whose copies divide the blocks of a row, or all blocks.

        Each has a row of the table of its own, so that no search meets a number in between.
        """
        of = self.table.columns if divide == "width" else self.table.total
        none = np.zeros(0, dtype=np.int64)
        rows, copies = [none], [none]
        for number in np.unique(of).tolist():
            own = np.flatnonzero(of == number)
            rows.append(np.repeat(own, len(divisors(number))))
            copies.append(np.tile(divisors(number), len(own)))
        row, low = np.concatenate(rows), np.concatenate(copies)
        table = self.table.take(row)
        arrays = table.arrays(low)
        order = np.lexsort((low, row))
        order = order[arrays[order] <= most]
        table, low, arrays = table.take(order), low[order], arrays[order]
        every, clock = np.arange(len(low)), Clock.of([STEP] * len(low))
        return StageModes(table, every, low, low, -(-table.total // low), arrays, np.ones_like(low), clock)

    def fewest(self, priced: Ints | None = None, *, low: bool = False) -> Ints:
        """Return the entries on the staircase: least cost for the length, the cheapest first.

        priced: cost of every entry, that of its arrays if left out; low: of the lowest blocks only.
        """
        among = np.arange(len(self))
        if low:
            among = np.flatnonzero(self.each.tall == self.each.tall.min(initial=2**60))
        own, cost = self.take(among), (self.arrays if priced is None else priced)[among]
        order = np.lexsort((own.each.tall, own.each.total, own.length, cost))
        best = np.minimum.accumulate(own.length[order])
        falls = np.concatenate(([True], best[1:] < best[:-1]))
        rows: Ints = among[order[falls]]
        return rows


def stage_modes(storage: Storage, stage: int, most: int, mode: Mode = PLAIN) -> StageModes:
    """Return all blocks of a stage with up to `most` arrays, the bits and kind of `mode`, a step a batch."""
    node, (network, hardware) = storage.stages[stage], storage.laid_out
    shape = network.shapes[node.name]
    unit, largest = smallest_block(node), largest_block(node, shape)
    single = storage.of(stage, mode.in_block(unit))
    extents = [input_extents(node, axis, largest[axis])[unit[axis] - 1 :: unit[axis]] for axis in (0, 1)]
    per_pixel = single.rows // (int(extents[0][0]) * int(extents[1][0]))
    columns_per_window = single.columns // (unit[0] * unit[1])
    key = (
        shape.images,
        shape.grid,
        unit,
        largest,
        getattr(node, "pads", (0, 0))[:2] if unit != (1, 1) else (0, 0),
        tuple(extents[0].tolist()),
        tuple(extents[1].tolist()),
        per_pixel,
        columns_per_window,
        single.groups,
        single.arrays_per_block,
        single.crossbar.wordlines,
        single.crossbar.bitlines,
        hardware.own_tiles,
        storage.weight(mode),
        most,
    )
    return _stage_modes(key)


@lru_cache(maxsize=512)
def _stage_modes(key: tuple[Any, ...]) -> StageModes:
    (
        images,
        (height, width),
        unit,
        largest,
        pads,
        high,
        wide,
        per_pixel,
        per_window,
        groups,
        arrays_per_block,
        wordlines,
        bitlines,
        own_tiles,
        weight,
        most,
    ) = key
    tall = np.arange(1, largest[0] // unit[0] + 1, dtype=np.int64) * unit[0]
    broad = np.arange(1, largest[1] // unit[1] + 1, dtype=np.int64) * unit[1]
    ph, pw = (grid.ravel() for grid in np.meshgrid(tall, broad, indexing="ij"))
    rows = per_pixel * (np.array(high)[:, None] * np.array(wide)[None, :]).ravel()
    columns = per_window * ph * pw
    top, left = (np.full_like(ph, pad % size) for pad, size in zip(pads, unit, strict=True))
    in_row = -(-(width + left) // pw)
    total = images * -(-(height + top) // ph) * in_row
    sharing = np.minimum(wordlines // rows, bitlines // columns)
    spread = -(-rows // wordlines) * -(-columns // bitlines) * arrays_per_block
    count = ArrayCount(np.full_like(ph, groups), sharing, spread, np.ones_like(ph))
    count = (count if own_tiles is None else count.in_own_tiles(own_tiles)).weighted(weight)
    table = ModeTable.of(
        tall=ph,
        wide=pw,
        top=top,
        left=left,
        image=height,
        columns=in_row,
        total=total,
        **count._asdict(),
        weight=weight,
    )
    return _listed(table.take(table.arrays(1) <= most), most)


def modes_of(problem: Problem, stage: int, most: int) -> StageModes:
    """Return the modes of a stage of a problem with up to `most` arrays: blocks and copies, or copies alone.

    Each with the ticks of its batches, and with no more copies than the stage may have.
    """
    each = _untimed_modes_of(problem, stage, most)
    return _shortened(problem, each.with_clock(each.clock_by(partial(problem.graph.clocks, stage))))


def _shortened(problem: Problem, each: StageModes) -> StageModes:
    """Return the modes whose batches take no longer together than is allowed."""
    if problem.limits.longest is None:
        return each
    left = each.take(each.length <= problem.limits.longest)
    return left if problem.time_unit == "steps" else left.no_longer_than(problem.limits.longest)


def listed_modes(problem: Problem, stage: int, most: int) -> StageModes:
    """Return the modes of a stage with up to `most` arrays, without limits of time."""
    if problem.alternatives is None or not problem.alternatives.each[stage]:
        kind = problem.graph.modes[stage].kind
        listed = _listed_in(problem, stage, most, PLAIN._replace(kind=kind))
        return listed.with_columns(kind=kind) if kind else listed
    each = [
        _listed_in(problem, stage, most, own.mode).with_columns(**own._asdict())
        for own in problem.alternatives.each[stage]
    ]
    return StageModes.joined(each)


def _listed_in(problem: Problem, stage: int, most: int, mode: Mode) -> StageModes:
    """Return the modes of a stage in all blocks that it may have, with the other choices of a mode."""
    storage, grid = problem.storage, problem.graph.grids[stage]
    if storage.chooses_blocks and not storage.is_digital(mode):
        return stage_modes(storage, stage, most, mode)
    count = storage.count(stage, mode.in_block(grid.block))
    table = ModeTable.of(
        tall=np.array([grid.block[0]], dtype=np.int64),
        wide=grid.block[1],
        top=grid.phase[0],
        left=grid.phase[1],
        image=grid.image_height,
        columns=grid.columns,
        total=grid.total,
        **count._asdict(),
        weight=storage.weight(mode),
    )
    return _listed(table, most)


def _untimed_modes_of(problem: Problem, stage: int, most: int) -> StageModes:
    """Return the modes of a stage, all in one step a batch."""
    each = listed_modes(problem, stage, most)
    if problem.storage.divide is not None:
        each = each.dividing(problem.storage.divide, most)
    copies = min(own[stage] for own in (problem.graph.most_copies, problem.held.most) if own is not None)
    if copies < problem.graph.windows[stage]:
        each = each.with_copies(np.full(each.table.rows, copies))
    if problem.held.least is not None:
        each = each.with_least(int(problem.held.least[stage]))
    limits = problem.limits
    if limits.fed_ns is not None:
        per_copy = problem.time.access_ns(stage, each.modes)
        most_fed = np.floor(limits.fed_ns[stage] / np.maximum(per_copy, _NO_ACCESS) * (1 + SAME_PRODUCT))
        if limits.longest_step_ns is not None:
            compute_ns = problem.time.compute_ns(stage, each.modes)
            most_fed[compute_ns > limits.longest_step_ns * (1 + SAME_PRODUCT)] = 0
        each = each.with_copies(np.minimum(most_fed, 2.0**40).astype(np.int64))
    return each


def cheapest_of_each(problem: Problem) -> Ints:
    """Return the least cost of the allowed modes of every stage, int64. Raises SpecError for none."""
    fewest, graph, known = list[int](), problem.graph, dict[object, int]()
    for stage, (mode, copies) in enumerate(zip(graph.modes, problem.smallest.tolist(), strict=True)):
        key = (*_likeness(problem, stage), mode, copies)
        if key in known:  # of 5,000 stages most are alike
            fewest.append(known[key])
            continue
        choices = (PLAIN,) if problem.alternatives is None else problem.alternatives.of(stage)
        most = max(problem.arrays_of_stage(stage, own.in_block(mode.block), copies) for own in choices)
        # Where copies must be divisors, more than the fewest, or larger blocks, may be needed.
        while not len(own := _untimed_modes_of(problem, stage, most)):
            if most >= problem.resources.most:
                raise SpecError(
                    "copies_divide", f"{graph.names[stage][:60]!r} has no divisor within its --copies"
                )
            most = 2 * most + 1
        known[key] = int(own.arrays.min())
        fewest.append(known[key])
    return np.array(fewest, dtype=np.int64)


def with_least_cost(problem: Problem) -> Problem:
    """Return the problem with the least cost of the modes that every stage may have.

    Raises BudgetError if no modes within the limits of every kind of arrays fit; SpecError for none.
    """
    problem = replace(problem, once=cheapest_of_each(problem))
    if len(problem.resources.weights) > 1:
        check_budget(problem, all_modes(problem))  # the cheapest modes fit, but not always within all limits
    return problem


def copies_alone(problem: Problem) -> tuple[Problem, Menu] | None:
    """Return the problem with copies of the graph's blocks alone, and its menu; None if none of them fit.

    Also None where the arrays of copies are not proportional to their number, or these are all there is.
    """
    storage = problem.storage
    if not storage.is_chosen_freely or (storage.choices and not problem.chooses_blocks):
        return None
    try:
        alone = replace(problem, storage=storage.with_copies_alone(problem.demand), once=None)
        return alone, Menu.of(alone)  # looks at the limits of kinds and of sensitivities, too
    except BudgetError:
        return None


def on_each_kind(problem: Problem) -> Iterator[tuple[int, Problem]]:
    """Yield the kinds of arrays of which each alone holds every layer, and the problem with it.

    Nothing where there are not several.
    """
    if problem.alternatives is None:
        return
    kinds = problem.alternatives.kinds
    for kind in kinds if len(kinds) > 1 else ():
        if not problem.alternatives.holds_all(kind):
            continue
        try:
            yield kind, _on_kind(problem, kind)
        except BudgetError:
            continue


def _on_kind(problem: Problem, kind: int) -> Problem:
    """Return the problem with arrays of one kind alone, of copies alone where nothing else is left to choose.

    Raises BudgetError where they do not hold every layer.
    """
    if problem.alternatives is None:
        raise AssertionError("there are several kinds")
    alternatives, limits = problem.alternatives.of_kind(kind), problem.resources
    # A graph has the bits of its layers: where a table gives others, even one choice is one of modes.
    by_bits = any(len(some) > 1 or any(own.weight_bits for own in some) for some in alternatives.each)
    if problem.chooses_blocks or not problem.storage.is_chosen_freely or by_bits:
        return with_least_cost(
            replace(problem, alternatives=alternatives, held=problem.held._replace(start=None))
        )
    each = zip(problem.graph.modes, alternatives.each, strict=True)
    alone = problem.in_modes(tuple(own[0].mode.in_block(mode.block) if own else mode for mode, own in each))
    demand = problem.storage.stored(alone.graph.modes, np.ones_like(problem.demand))
    most = [problem.budget // limits.weights[kind]]
    most += [axis.limit // axis.per_array[kind] for axis in limits.axes if axis.per_array[kind]]
    return replace(
        alone,
        demand=demand,
        budget=Cost(min(most)),
        storage=replace(Storage.of_copies(demand), weights=(1,) * len(limits.weights)),
        alternatives=None,
        resources=ONE_KIND,
        once=None,
        held=alone.held._replace(start=None),
    )


def in_kinds_of(problem: Problem, modes: ModeOfEach) -> Problem:
    """Return the problem with the kind of arrays of every stage as in these modes, copies left to choose."""
    if problem.alternatives is None:
        return problem
    each = tuple(
        tuple(own for own in some if own.kind == mode.kind)
        for some, mode in zip(problem.alternatives.each, modes, strict=True)
    )
    alternatives = replace(problem.alternatives, each=each)
    demand = problem.storage.stored(modes, np.ones_like(problem.demand))
    fixed = problem.in_modes(modes)
    return with_least_cost(replace(fixed, alternatives=alternatives, demand=demand))


def _likeness(problem: Problem, stage: int) -> tuple[object, ...]:
    """Return a key that stages share whose modes are the same."""
    held, limits = problem.held, problem.limits
    key: tuple[object, ...] = (problem.graph.kinds[stage], int(problem.demand[stage]))
    key += () if problem.alternatives is None else (problem.alternatives.each[stage],)
    each = (problem.graph.most_copies, held.least, held.most, limits.fed_ns)
    return key + tuple(float(own[stage]) for own in each if own is not None)


def all_modes(problem: Problem) -> tuple[StageModes, ...]:
    """Return the modes of every stage; equal stages share theirs."""
    spare, clocks = problem.budget - problem.minimum, problem.graph.clocks
    listed, made = dict[object, StageModes](), dict[object, StageModes]()
    stages = []
    for stage in range(len(problem.demand)):
        key = _likeness(problem, stage)
        if key not in listed:
            listed[key] = _untimed_modes_of(problem, stage, int(problem.lowest[stage]) + spare)
        each = listed[key]
        clock = each.clock if problem.time_unit == "steps" else each.clock_by(partial(clocks, stage))
        key += tuple(column.tobytes() for column in clock)
        if key not in made:
            made[key] = _shortened(problem, each.with_clock(clock))
        stages.append(made[key])
    return tuple(stages)


def unlimited(problem: Problem) -> Problem:
    """Return the problem with as many arrays as its modes can use."""
    most = problem.resources.most
    every = all_modes(replace(problem, budget=most))
    return replace(problem, budget=Cost(min(most, sum(int(each.arrays.max()) for each in every))))


def fed_by(problem: Problem, step_ns: float) -> Problem:
    """Return the problem with the modes that a step of this length can feed.

    With a shared bandwidth a stage's limit supposes that all others take their least access, so all limits
    together need not be reachable. Raises BudgetError if no allocation within the budget has such a step.
    """
    step_time = problem.step_time
    if step_time is None:
        raise ValueError("the problem has no step time")
    if problem.one_block:
        most = np.minimum(step_time.most_copies(step_ns, problem.smallest), problem.graph.windows)
        if (most < problem.smallest).any():
            raise BudgetError(problem.minimum, 0, [])
        return problem.with_most(most)
    room = np.full(len(problem.demand), step_ns)
    if step_time.shared:
        least = np.array([_least_access_ns(problem, i, own) for i, own in enumerate(all_modes(problem))])
        room = step_ns - (float(least.sum()) - least)
    fed = replace(problem, limits=problem.limits._replace(fed_ns=room, longest_step_ns=step_ns))
    check_budget(fed, all_modes(fed))
    return fed


def shortest_step_ns(problem: Problem, stages: Sequence[StageModes]) -> float:
    """Return the length that the memory and the rest of the hardware leave a step at least; 0 without a time.

    stages: all modes of the problem.
    """
    step_time = problem.step_time
    if step_time is None or step_time.transfer is not None:
        return 0.0 if step_time is None else step_time.step_ns(problem.smallest)
    least = [_least_access_ns(problem, i, own) for i, own in enumerate(stages)]
    return max(step_time.compute_ns, sum(least) if step_time.shared else max(least))


def access_of_modes(problem: Problem, stage: int, each: StageModes) -> Floats:
    """Time that the memory needs in a step for each mode of a stage."""
    access_ns: Floats = problem.time.access_ns(stage, each.modes)[each.row] * each.low
    return access_ns


def step_of_modes(problem: Problem, stage: int, each: StageModes) -> Floats:
    """Return the shortest step of each mode of a stage that has the memory to itself, 0 if any will do."""
    compute_ns = problem.time.compute_ns(stage, each.modes)
    return np.maximum(access_of_modes(problem, stage, each), compute_ns[each.row])


def _least_access_ns(problem: Problem, stage: int, each: StageModes) -> float:
    return float((problem.time.access_ns(stage, each.modes) * each.copies_of_modes()[0]).min())


def limited_to(problem: Problem, longest: int) -> Problem:
    """Return the problem with the modes whose batches take at most `longest` together.

    Of copies alone these lie between a least and a most number of copies. Raises BudgetError if no
    allocation within the budget has such modes.
    """
    longest = longest if problem.limits.longest is None else min(longest, problem.limits.longest)
    limited = replace(problem, limits=problem.limits._replace(longest=longest))
    stages = all_modes(limited)
    check_budget(limited, stages)
    if not problem.one_block:
        return limited
    least = np.array([int(each.low.min()) for each in stages], dtype=np.int64)
    most = np.array([int(each.high.max()) for each in stages], dtype=np.int64)
    gaps = any(
        len(each.low) and int((each.high - each.low + 1).sum()) <= high - low
        for each, low, high in zip(stages, least.tolist(), most.tolist(), strict=True)
    )
    limits = problem.limits._replace(longest=longest if gaps else None)
    return replace(problem, once=None, limits=limits, held=problem.held._replace(least=least, most=most))


def check_budget(problem: Problem, stages: Sequence[StageModes]) -> None:
    """Raise BudgetError if the modes left do not fit the budget."""
    needs, axes = [int(each.arrays.min(initial=2**60)) for each in stages], problem.resources.axes
    if axes and sum(needs) <= problem.budget:
        options = [each.cheapest_alike(axes) for each in stages]
        chosen, _ = cheapest_options(options, axes)
        needs = [own[at][0] for own, at in zip(options, chosen, strict=True)] if chosen else [2**60]
    if sum(needs) > problem.budget:
        each = list(zip(problem.graph.names, needs, strict=False))
        in_unit = problem.resources.unit, problem.resources.per_unit
        raise BudgetError(sum(needs), problem.budget, each, in_unit=in_unit)


def _listed(table: ModeTable, most: int) -> StageModes:
    """Return all modes of a table with up to `most` arrays."""
    whole = most // np.maximum(table.spread, 1) * np.maximum(table.sharing, 1) // np.maximum(table.groups, 1)
    limits = np.where(table.groups * table.spread > 0, whole, table.total)
    # Beyond these copies no mode fits `most` arrays, whatever a tile adds: most are never written out.
    lows, highs = [], []
    for total, limit in zip(table.total.tolist(), limits.tolist(), strict=True):
        fewest, greatest = copies_by_batches(total)
        fitting = int(np.searchsorted(fewest, limit, side="right"))
        lows.append(fewest[:fitting])
        highs.append(greatest[:fitting])
    row = np.repeat(np.arange(table.rows), [len(each) for each in lows])
    none = np.zeros(0, dtype=np.int64)  # a kind of arrays, or bits, may have no mode that fits
    low, high = np.concatenate([none, *lows]), np.concatenate([none, *highs])
    arrays = table.take(row).arrays(low)
    fits = arrays <= most
    row, low, high, arrays = row[fits], low[fits], high[fits], arrays[fits]
    batches, clock = -(-table.total[row] // low), Clock.of([STEP] * table.rows)
    return StageModes(table, row, low, high, batches, arrays, np.ones_like(low), clock)


@dataclass(frozen=True, eq=False)
class Menu:
    """Menu of modes of a search. stages: all modes, `blocks` and `stairs` those that are kept.

    first: number of the first kept mode of every stage, and of all; numbers: for each stage and every row of
    its table the place among its kept ones, -1 for none.
    axes: what is limited beside the cost, prices: of it; alike: where something is, the staircases of every
    stage, one for each kind of arrays and sensitivity; known: least cost with which no stage
    takes longer than a length, by this.
    """

    stages: tuple[StageModes, ...]
    first: Ints
    blocks: ModeTable
    stairs: Stairs
    clock: Clock
    numbers: tuple[Ints, ...]
    axes: tuple[Axis, ...] = ()
    prices: Prices = ()
    alike: tuple[tuple[_AlikeStair, ...], ...] = ()
    known: dict[int, int] = field(default_factory=dict)

    def tables(self, problem: Problem, slots: Slots = NO_SLOTS, *, low: bool = False) -> MenuTables:
        """Return the menu in the form that compiled searches read, with the constraints of a problem.

        slots: of an archive of copies alone; low: for climbs on the staircases of the lowest blocks.
        """
        climbed, budget = len(self.stages) if low else 0, problem.budget
        weights = problem.resources.weights
        every, excess = list[Axis](), list[float]()
        if self.axes:
            every = [Axis("cost", budget, weights), *self.axes]
            excess = [1.0, *prices_of_excess(problem.resources, self.prices, budget)]
        axes = LimitTables(
            np.array([axis.per_array for axis in every], dtype=np.int64).reshape(-1, len(weights)),
            np.array([axis.per_part for axis in every], dtype=np.int64),
            np.array([axis.limit for axis in every], dtype=np.int64),
            np.array(excess, dtype=np.float64),
            np.zeros(len(every), dtype=np.int64),
        )
        most = priced_limit(problem.resources, self.prices, budget)
        return MenuTables(self.first, self.blocks, self.stairs, climbed, self.clock, most, slots, axes)

    def mode(self, number: int) -> Mode:
        """Return a kept mode by its number."""
        return self._modes[number]

    @cached_property
    def _modes(self) -> list[Mode]:
        return self.blocks.modes()

    @cached_property
    def has_low_stairs(self) -> bool:
        """Whether the staircases of the lowest blocks are others than those of all."""
        middle = len(self.stairs.arrays) // 2
        return any(not np.array_equal(own[:middle], own[middle:]) for own in self.stairs[1:])

    def choice(self, problem: Problem, state: State) -> Choice:
        """Return the allocation of a state of a compiled search."""
        modes = tuple(self.mode(number) for number in state.block.tolist())
        return problem.choice(state.copies.copy(), modes)

    @cached_property
    def lengths(self) -> Ints:
        """Every length of a stage on its staircases, the shortest first."""
        if self.axes:
            return np.unique(np.concatenate([own.length for some in self.alike for own in some]))
        return np.unique(self.stairs.length[: self.stairs.first[len(self.stages)]])

    def smallest_interval(self, problem: Problem, stop: Work | None = None) -> int:
        """Return the smallest interval with which the cheapest modes fit the budget.

        By bisection of the lengths of stages, one of which it is. Where time runs out an interval that no
        allocation undercuts.
        """
        low, high = 0, len(self.lengths) - 1
        while low < high:
            middle = (low + high) // 2
            length = int(self.lengths[middle])
            cost = self.known.get(length) or self.cheapest(length, stop)[1]
            if stop is not None and stop.out_of_time:
                break
            self.known[length] = cost
            low, high = (low, middle) if cost <= problem.budget else (middle + 1, high)
        return int(self.lengths[low])

    def intervals(self, problem: Problem) -> Ints:
        """Return every length of a stage that can be the interval, the shortest first."""
        own = np.unique(np.concatenate([each.length for each in self.stages]))
        shortest = self.smallest_interval(problem)
        return np.unique(np.append(own[own >= shortest], shortest))

    def state(self, found: Choice) -> State:
        """Return an allocation in the form that the local search changes.

        A menu does not keep every mode, and provers look at all of them: a stage whose mode it does not have
        gets the cheapest one that takes no longer, so the state need not be as fast as the allocation.
        """
        each = zip(found.modes, found.copies.tolist(), strict=True)
        numbers = np.array([self._number(i, *mode) for i, mode in enumerate(each)], dtype=np.int64)
        state, missing = State(numbers, found.copies.astype(np.int64)), numbers < 0
        if missing.any():
            nearest = self.with_length(found.problem.time.lengths(found.copies, found.modes))
            state.block[missing] = nearest.block[missing]
            state.copies[missing] = nearest.copies[missing]
        return state

    def _number(self, stage: int, mode: Mode, copies: int) -> int:
        """Return the number of a block that may be stored so often, -1 if the menu has none."""
        for number in range(int(self.first[stage]), int(self.first[stage + 1])):
            allowed = self.blocks.least[number] <= copies <= self.blocks.most[number]
            if allowed and self.mode(number) == mode:
                return number
        return -1

    @cached_property
    def smallest(self) -> State:
        """The fewest arrays of every stage."""
        return self.cheapest(2**60)[0]

    @property
    def fewest_copies(self) -> State:
        """The fewest copies of the smallest block of every stage."""
        first = self.first[:-1]
        return State(first.copy(), self.blocks.least[first])

    def cheapest(self, length: int, stop: Work | None = None) -> tuple[State, int]:
        """Return the least cost with which no stage takes longer, and a bound of it; stop: is charged.

        It is 2**60 if a stage must take longer, or something take more than its limit.
        """
        if self.axes:
            alike = self._steps_of_alike(length)
            chosen, arrays = cheapest_options(_options_of(alike, self.axes), self.axes, stop)
            if not chosen:
                return self.smallest if length < 2**60 else self.with_length(
                    np.full(len(alike), length)
                ), arrays
            each = [some[at] for some, at in zip(alike, chosen, strict=True)]
            modes = [(own.block[step], own.copies[step]) for own, step in each]
            return State(*np.array(modes, dtype=np.int64).T.copy()), arrays
        steps = self._steps(np.full(len(self.stages), length))
        longer = (self.stairs.length[steps] > length).any()
        return self._state(steps), 2**60 if longer else int(self.stairs.arrays[steps].sum())

    def _steps_of_alike(self, length: int) -> list[list[tuple[_AlikeStair, int]]]:
        """Return the first step that takes no longer on the staircases of every stage that have one."""
        every = [[(own, own.step(length)) for own in some] for some in self.alike]
        return [[(own, step) for own, step in some if step < len(own.arrays)] for some in every]

    def with_length(self, length: Ints) -> State:
        """Return the cheapest modes for at most this length of every stage, or its shortest; bits priced."""
        return self._state(self._steps(length))

    def _steps(self, length: Ints) -> Ints:
        """Return for every stage the first step of its staircase that is not longer, or the last one."""
        low, last = self.stairs.first[: len(self.stages)], self.stairs.first[1 : len(self.stages) + 1] - 1
        high = last
        while (low < high).any():  # lengths fall
            middle = (low + high) // 2
            longer = self.stairs.length[middle] > length
            low, high = np.minimum(np.where(longer, middle + 1, low), last), np.where(longer, high, middle)
        return low

    def _state(self, steps: Ints) -> State:
        return State(self.stairs.block[steps], self.stairs.copies[steps])

    def cheaper(self, stage: int, arrays: int) -> Iterator[tuple[Mode, int]]:
        """Yield the modes of the staircase of a stage with fewer arrays, the nearest first."""
        stairs = self.stairs
        for step in range(int(stairs.first[stage + 1]) - 1, int(stairs.first[stage]) - 1, -1):
            if stairs.arrays[step] < arrays:
                yield self.mode(int(stairs.block[step])), int(stairs.copies[step])

    @classmethod
    def of(cls, problem: Problem, stop: Work | None = None) -> Menu:
        """Return the menu of a problem; stop: is charged for the prices of its limits.

        Raises BudgetError if no modes within its limits fit the budget.
        """
        stages = all_modes(problem)
        check_budget(problem, stages)
        axes = problem.resources.axes
        menu = cls._joined(stages, axes, tuple(0.0 for _ in axes))
        if not axes:
            return menu
        steps = menu._steps_of_alike(menu.smallest_interval(problem, stop))
        if not all(steps):  # time ran out before an interval was known that every stage can have
            steps = menu._steps_of_alike(2**60)
        options = _options_of(steps, axes)
        priced = cls._joined(stages, axes, prices_of_limits(options, axes, stop)[0])
        return replace(priced, known=menu.known)  # prices change no cost

    @classmethod
    def _joined(cls, stages: tuple[StageModes, ...], axes: tuple[Axis, ...], prices: Prices) -> Menu:
        first, blocks, clocks = [0], list[ModeTable](), []
        stairs, low_stairs = list[Ints](), list[Ints]()
        alike = list[tuple[_AlikeStair, ...]]()
        numbers, kept_of = list[Ints](), dict[int, _Kept]()  # equal stages share their modes
        for each in stages:
            if id(each) not in kept_of:
                kept_of[id(each)] = _Kept.of(each, axes, prices)
            kept = kept_of[id(each)]
            alike.append(tuple(own._replace(block=own.block + first[-1]) for own in kept.alike))
            numbers_from = np.array([0, 0, first[-1], 0])
            stairs.append(kept.stairs + numbers_from)
            low_stairs.append(kept.low_stairs + numbers_from)
            blocks.append(kept.table)
            clocks.append(kept.clock)
            numbers.append(kept.number)
            first.append(first[-1] + kept.table.rows)
        stairs += low_stairs
        return cls(
            stages,
            np.array(first),
            ModeTable.joined(blocks),
            Stairs(np.cumsum([0, *map(len, stairs)]), *np.concatenate(stairs).T.copy()),
            Clock.joined(clocks),
            tuple(numbers),
            axes,
            prices,
            tuple(alike) if axes else (),
        )


class _AlikeStair(NamedTuple):
    """Staircase of a stage on one kind of arrays with one sensitivity: cost rises and lengths fall.

    weight: cost of an array; block: number of the mode.
    """

    kind: int
    sensitivity: int
    weight: int
    arrays: Ints
    length: Ints
    block: Ints
    copies: Ints

    def step(self, length: int) -> int:
        """Return the first step that is no longer, or one more than there are."""
        return int(np.searchsorted(-self.length, -length))

    def option(self, step: int, axes: Sequence[Axis]) -> Option:
        """Return the cost of a step and what it takes of every axis."""
        cost = self.arrays[step : step + 1]
        kind, parts = np.array([self.kind]), np.array([self.sensitivity])
        return int(cost[0]), *(int(axis.amounts(kind, cost // self.weight, parts)[0]) for axis in axes)


def _options_of(
    steps: Sequence[Sequence[tuple[_AlikeStair, int]]], axes: Sequence[Axis]
) -> list[list[Option]]:
    return [[own.option(step, axes) for own, step in some] for some in steps]


class _Kept(NamedTuple):
    """Modes of a stage that a menu keeps: columns of Stairs, and a table; numbers begin at 0.

    number: of every row of `StageModes.table`, -1 if it is not kept.
    """

    stairs: Ints
    low_stairs: Ints
    table: ModeTable
    clock: Clock
    number: Ints
    alike: list[_AlikeStair]

    @classmethod
    def of(cls, each: StageModes, axes: Sequence[Axis], prices: Prices) -> _Kept:
        """Return the staircases, and the modes that are on them or nearly as cheap; prices: of the axes."""
        priced = each.priced(axes, prices)
        rows, low = each.fewest(priced), each.fewest(priced, low=True)
        alike = [own.take(own.fewest()) for own in map(each.take, each.alike())]
        on_stairs = np.concatenate([each.row[rows], each.row[low], *(own.row for own in alike)])
        kept = _kept_modes(each, np.unique(on_stairs), rows, priced)
        number = np.full(each.table.rows, -1, dtype=np.int64)
        number[kept] = np.arange(len(kept))
        steps = np.stack([priced, each.length, number[each.row], each.low], axis=1)
        least, most = each.copies_of_modes()
        table = _priced_table(each.table, axes, prices)._replace(least=least, most=most).take(kept)
        stairs = [
            _AlikeStair(
                int(own.each.kind[0]),
                int(own.each.sensitivity[0]),
                int(own.each.weight[0]),
                own.arrays,
                own.length,
                number[own.row],
                own.low,
            )
            for own in alike
        ]
        return cls(steps[rows], steps[low], table, each.clock.take(kept), number, stairs)


def _priced_table(table: ModeTable, axes: Sequence[Axis], prices: Prices) -> ModeTable:
    """Return the table with what an array and the bits of a mode cost at these prices."""
    one, none = np.ones_like(table.kind), np.zeros_like(table.kind)
    price, bits_price = table.weight, none
    for axis, own in zip(axes, prices, strict=True):
        price = price + whole_price(own, axis.amounts(table.kind, one, none))
        bits_price = bits_price + whole_price(own, axis.amounts(table.kind, none, table.sensitivity))
    spread, tile = (column // table.weight * price for column in (table.spread, table.tile))
    return table._replace(price=price, bits_price=bits_price, spread=spread, tile=tile)


def _kept_modes(each: StageModes, on_stairs: Ints, rows: Ints, cost: Ints) -> Ints:
    """Return the modes on the staircases, the smallest one, and others that are nearly as cheap somewhere."""
    # least cost for at most this length, for every mode
    stair_length, stair_cost = each.length[rows][::-1], cost[rows][::-1]  # lengths rise
    at = np.searchsorted(stair_length, each.length, side="right") - 1
    excess = cost / np.maximum(stair_cost[at], 1)
    near = np.full(each.table.rows, np.inf)
    np.minimum.at(near, each.row, excess)
    counts = np.zeros(each.table.rows, dtype=np.int64)
    np.add.at(counts, each.row[excess <= 1 + _NEAR], 1)
    order = np.lexsort((each.table.tall, -counts, near))
    rest = [b for b in order.tolist() if near[b] <= 1 + _NEAR and b not in set(on_stairs.tolist())]
    room = max(0, MOST_BLOCKS - len(on_stairs))
    smallest = each.row.min()
    return np.unique(np.concatenate([on_stairs, [smallest], rest[:room]]).astype(np.int64))
