"""Menus: the modes of every stage that a search chooses from, and what all modes together could be.

A stage with H x W windows has millions of modes (blocks of every shape, any number of copies). For a number
of batches only the fewest copies of each block matter to the arrays, so `all_modes` lists those: one row per
block and number of batches. `Menu` keeps the blocks that are among the cheapest for some number of batches,
and the staircase of fewest arrays for every number of batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.choices import MAX_ARRAYS, Divided
from rramalloc.errors import BudgetError, SpecError
from rramalloc.mapping.demand import ModeArrays
from rramalloc.mapping.modes import (
    ArrayCount,
    Variant,
    divisors,
    input_extents,
    largest_block,
    smallest_block,
)
from rramalloc.search.archive import NO_SLOTS, Slots
from rramalloc.search.kernels.clock import Clock
from rramalloc.search.kernels.moves import MenuTables, State
from rramalloc.search.problem import Choice, Column, Problem, variants_of
from rramalloc.search.sensitivity import (
    MOST_PARTS,
    Option,
    Precision,
    cheapest_options,
    price_of_excess,
    price_of_limit,
    tolls,
)
from rramalloc.timing.stage_graph import STEP, BatchTicks

Ints = npt.NDArray[np.int64]

MOST_BLOCKS = 40
"""Blocks of a stage in its menu at most."""
_NEAR = 0.08
"""A block is in the menu if for some number of batches it is at most this part above the fewest arrays."""
_NO_ACCESS = 1e-200  # ns: divisor for blocks without access, whose quotient then exceeds every limit


class Modes(NamedTuple):
    """Modes of one stage, one row each, int64: `low` ... `high` copies all take `batches` batches.

    tall, wide: windows of a block; top, left: pixels by which the first block begins outside of the grid;
    columns: blocks in a row of blocks; total: blocks; arrays, period: of `low` copies, the arrays
    they take and the ticks of a batch, 1 where all stages step together; more copies never take fewer.
    """

    tall: Ints
    wide: Ints
    top: Ints
    left: Ints
    columns: Ints
    total: Ints
    low: Ints
    high: Ints
    batches: Ints
    arrays: Ints
    period: Ints

    @property
    def length(self) -> Ints:
        """Steps, or ticks, of all batches."""
        return self.batches * self.period

    def take(self, rows: npt.NDArray[Any]) -> Modes:
        """Return some of the rows."""
        return Modes(*(column[rows] for column in self))


class Blocks(NamedTuple):
    """Blocks of all stages in a search's menu, those of stage i from first[i] to first[i + 1] - 1; int64.

    As in `Modes`; groups, sharing, spread, tile: as in ArrayCount, which tell the arrays of any copies;
    weight_bits, input_bits, sensitivity: as in Precision, 0 where bits are not chosen; least, most: copies
    that are allowed; toll: price of the sensitivity, in arrays.
    """

    first: Ints
    tall: Ints
    wide: Ints
    top: Ints
    left: Ints
    columns: Ints
    total: Ints
    groups: Ints
    sharing: Ints
    spread: Ints
    tile: Ints
    weight_bits: Ints
    input_bits: Ints
    sensitivity: Ints
    least: Ints
    most: Ints
    toll: Ints


class Stairs(NamedTuple):
    """Fewest arrays for every length: steps first[i] ... first[i + 1] - 1 of stage i of n stages; int64.

    arrays, with the tolls of Blocks, rise and lengths, the time of all batches, fall; block: its number in
    Blocks. After these n staircases, from first[n] on, follow those of the lowest blocks alone: tall blocks
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


@dataclass(frozen=True, eq=False)
class StageModes:
    """Everything that one stage can do with up to `most` arrays."""

    modes: Modes
    blocks: Ints
    """Distinct blocks, a row each, in the columns of `Column`."""
    block: Ints
    """Row of `blocks` of every mode."""
    clock: Clock
    """Ticks of a batch of every row of `blocks`."""

    def take(self, rows: npt.NDArray[Any]) -> StageModes:
        """Return some of the modes."""
        return replace(self, modes=self.modes.take(rows), block=self.block[rows])

    def in_bits(self, precision: Precision) -> StageModes:
        """Return the same modes as those of some bits."""
        blocks = self.blocks.copy()
        blocks[:, Column.WEIGHT_BITS :] = precision
        return replace(self, blocks=blocks)

    @classmethod
    def joined(cls, each: Sequence[StageModes]) -> StageModes:
        """Return the modes of all of them as those of one stage."""
        if len(each) == 1:
            return each[0]
        starts = np.cumsum([0, *(len(own.blocks) for own in each[:-1])]).tolist()
        return cls(
            Modes(*map(np.concatenate, zip(*(own.modes for own in each), strict=True))),
            np.concatenate([own.blocks for own in each]),
            np.concatenate([own.block + start for own, start in zip(each, starts, strict=True)]),
            Clock.joined([own.clock for own in each]),
        )

    def variant(self, row: int) -> Variant:
        """Return the block of a mode, and its bits where they are chosen."""
        return variants_of(self.blocks[self.block[row], None])[0]

    @property
    def sensitivity(self) -> Ints:
        """Sensitivity of every mode, in parts of the limit."""
        parts: Ints = self.blocks[self.block, Column.SENSITIVITY]
        return parts

    def priced(self, price: float) -> Ints:
        """Return the arrays of every mode and the toll of its bits."""
        return self.modes.arrays + tolls(price, self.sensitivity)

    def by_bits(self) -> list[StageModes]:
        """Return the modes with the same bits, of each sensitivity."""
        own = self.sensitivity
        return [self.take(own == parts) for parts in np.unique(own)]

    def clock_by(self, ticks: Callable[[Variant], BatchTicks]) -> Clock:
        """Return the clock of batches that last `ticks` by their block."""
        every = variants_of(self.blocks)
        known = {variant: ticks(variant) for variant in dict.fromkeys(every)}
        return Clock.of([known[variant] for variant in every])

    def with_clock(self, clock: Clock) -> StageModes:
        """Return the same modes with this clock."""
        period = clock.of_each(self.block, self.modes.low)
        return replace(self, modes=self.modes._replace(period=period), clock=clock)

    def no_longer_than(self, longest: int) -> StageModes:
        """Return the modes, which are that short with `low` copies, with no more copies than are as short.

        A batch of more copies may take longer, so those of a block may lie apart: each run of them has a row
        of `blocks` of its own, and no search meets a number in between.
        """
        m, low, high = self.modes, self.modes.low, self.modes.high
        while (low < high).any():  # the ticks of a batch rise with the copies
            middle = (low + high + 1) // 2
            short = m.batches * self.clock.of_each(self.block, middle) <= longest
            low, high = np.where(short, middle, low), np.where(short, high, middle - 1)
        order = np.lexsort((m.low, self.block))
        begins = np.ones(len(order), dtype=np.bool_)
        follows = (self.block[order][1:] == self.block[order][:-1]) & (
            m.low[order][1:] == low[order][:-1] + 1
        )
        begins[1:] = ~follows
        number = np.zeros(len(order), dtype=np.int64)
        number[order] = np.cumsum(begins) - 1
        of = self.block[order][begins]
        return StageModes(m._replace(high=low), self.blocks[of], number, self.clock.take(of))

    def with_copies(self, most: Ints) -> StageModes:
        """Return the modes with at most `most` copies of each block."""
        left = self.take(self.modes.low <= most[self.block])
        high = np.minimum(left.modes.high, most[left.block])
        return replace(left, modes=left.modes._replace(high=high))

    def with_least(self, least: int) -> StageModes:
        """Return the modes with at least `least` copies of a block."""
        left = self.take(self.modes.high >= least)
        low = np.maximum(left.modes.low, least)
        return replace(left, modes=left.modes._replace(low=low, arrays=left.arrays_of(left.block, low)))

    def arrays_of(self, rows: Ints, copies: Ints) -> Ints:
        """Return the arrays that these copies of rows of `blocks` take, as `ArrayCount.arrays`."""
        return _arrays_of(self.blocks[rows], copies)

    def copies_of_blocks(self) -> tuple[Ints, Ints]:
        """Return the fewest and the most copies of every row of `blocks`, 2**60 and 0 without a mode."""
        least, most = np.full(len(self.blocks), 2**60), np.zeros(len(self.blocks), dtype=np.int64)
        np.minimum.at(least, self.block, self.modes.low)
        np.maximum.at(most, self.block, self.modes.high)
        return least, most

    def dividing(self, divide: Divided, most: int) -> StageModes:
        """Return the modes with up to `most` arrays whose copies divide the blocks of a row, or all blocks.

        Each has a row of `blocks` of its own, so that no search meets a number in between.
        """
        of, rows, copies = self.blocks[:, 4 if divide == "width" else 5], list[Ints](), list[Ints]()
        for number in np.unique(of).tolist():
            own = np.flatnonzero(of == number)
            rows.append(np.repeat(own, len(divisors(number))))
            copies.append(np.tile(divisors(number), len(own)))
        blocks, low = self.blocks[np.concatenate(rows)], np.concatenate(copies)
        arrays = _arrays_of(blocks, low)
        order = np.lexsort((low, np.concatenate(rows)))
        order = order[arrays[order] <= most]
        blocks, low, arrays = blocks[order], low[order], arrays[order]
        columns = [blocks[:, :6], low, low, -(-blocks[:, 5] // low), arrays, np.ones_like(low)]
        modes = Modes(*np.column_stack(columns).T.copy())
        return StageModes(modes, blocks, np.arange(len(low)), Clock.of([STEP] * len(low)))

    def fewest(self, price: float = 0.0) -> Ints:
        """Return the rows of `modes` on the staircase: least cost for the length, the cheapest first."""
        return self._fewest(np.arange(len(self.modes.tall)), price)

    def fewest_low(self, price: float) -> Ints:
        """Return the same with the lowest blocks only."""
        return self._fewest(np.flatnonzero(self.modes.tall == self.modes.tall.min(initial=2**60)), price)

    def _fewest(self, among: Ints, price: float) -> Ints:
        m, cost = self.modes.take(among), self.priced(price)[among]
        order = np.lexsort((m.tall, m.total, m.length, cost))
        best = np.minimum.accumulate(m.length[order])
        falls = np.concatenate(([True], best[1:] < best[:-1]))
        rows: Ints = among[order[falls]]
        return rows


def stage_modes(modes: ModeArrays, stage: int, most: int, bits: Variant = ()) -> StageModes:
    """All modes of a stage with up to `most` arrays, all in one step a batch; bits: that end its variants."""
    node = modes.stages[stage]
    shape = modes.network.shapes[node.name]
    unit, largest = smallest_block(node), largest_block(node, shape)
    single = modes.of(stage, (*unit, *bits))
    extents = [input_extents(node, axis, largest[axis])[unit[axis] - 1 :: unit[axis]] for axis in (0, 1)]
    per_pixel = single.rows // (int(extents[0][0]) * int(extents[1][0]))
    columns_per_window = single.columns // (unit[0] * unit[1])
    key = (
        shape[1:],
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
        modes.hardware.own_tiles,
        most,
    )
    return _stage_modes(key)


@lru_cache(maxsize=512)
def _stage_modes(key: tuple[Any, ...]) -> StageModes:
    (
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
        most,
    ) = key
    tall = np.arange(1, largest[0] // unit[0] + 1, dtype=np.int64) * unit[0]
    broad = np.arange(1, largest[1] // unit[1] + 1, dtype=np.int64) * unit[1]
    ph, pw = (grid.ravel() for grid in np.meshgrid(tall, broad, indexing="ij"))
    rows = per_pixel * (np.array(high)[:, None] * np.array(wide)[None, :]).ravel()
    columns = per_window * ph * pw
    top, left = (np.full_like(ph, pad % size) for pad, size in zip(pads, unit, strict=True))
    in_row = -(-(width + left) // pw)
    total = -(-(height + top) // ph) * in_row
    sharing = np.minimum(wordlines // rows, bitlines // columns)
    spread = -(-rows // wordlines) * -(-columns // bitlines) * arrays_per_block
    count = ArrayCount(np.full_like(ph, groups), sharing, spread, np.ones_like(ph))
    count = count if own_tiles is None else count.in_own_tiles(own_tiles)
    given = [np.zeros_like(ph)] * len(Precision._fields)
    blocks = np.stack(np.broadcast_arrays(ph, pw, top, left, in_row, total, *count, *given), axis=1)
    return _listed(blocks[_arrays_of(blocks, 1) <= most], most)


def _arrays_of(blocks: Ints, copies: Ints | int) -> Ints:
    """Return the arrays that copies of each block take. blocks: rows of `StageModes.blocks`."""
    groups, sharing, spread, tile = blocks[:, Column.GROUPS : Column.WEIGHT_BITS].T
    stored = -(-copies * groups // np.maximum(sharing, 1)) * spread
    arrays: Ints = -(-stored // tile) * tile
    return arrays


def modes_of(problem: Problem, stage: int, most: int) -> StageModes:
    """Return the modes of a stage of a problem with up to `most` arrays: blocks and copies, or copies alone.

    Each with the ticks of its batches, and with no more copies than the stage may have.
    """
    each = _untimed_modes_of(problem, stage, most)
    return _shortened(problem, each.with_clock(each.clock_by(partial(problem.graph.clocks, stage))))


def _shortened(problem: Problem, each: StageModes) -> StageModes:
    """Return the modes whose batches take no longer together than is allowed."""
    if problem.longest is None:
        return each
    left = each.take(each.modes.length <= problem.longest)
    return left if problem.time_unit == "steps" else left.no_longer_than(problem.longest)


def listed_modes(problem: Problem, stage: int, most: int) -> StageModes:
    """Return the modes of a stage with up to `most` arrays, without limits of time."""
    if problem.bits is None or not problem.bits.precisions[stage]:
        return _listed_in(problem, stage, most, ())
    return StageModes.joined(
        [_listed_in(problem, stage, most, own[:2]).in_bits(own) for own in problem.bits.precisions[stage]]
    )


def _listed_in(problem: Problem, stage: int, most: int, bits: Variant) -> StageModes:
    """Return the modes of a stage with the bits that end its variants, if they are chosen."""
    modes = problem.modes
    if isinstance(modes, ModeArrays) and modes.chooses_blocks:
        return stage_modes(modes, stage, most, bits)
    count = modes.count(stage, (*problem.graph.blocks[stage], *bits))
    return _listed(np.array([[*_block(problem, stage), *count, 0, 0, 0]], dtype=np.int64), most)


def _untimed_modes_of(problem: Problem, stage: int, most: int) -> StageModes:
    """Return the modes of a stage, all in one step a batch."""
    each = listed_modes(problem, stage, most)
    if problem.modes.divide is not None:
        each = each.dividing(problem.modes.divide, most)
    copies = min(own[stage] for own in (problem.graph.most_copies, problem.most) if own is not None)
    if copies < problem.graph.windows[stage]:
        each = each.with_copies(np.full(len(each.blocks), copies))
    if problem.least is not None:
        each = each.with_least(int(problem.least[stage]))
    if problem.fed_ns is not None:
        per_copy = problem.access_ns(stage, each.blocks)
        most_fed = np.floor(problem.fed_ns[stage] / np.maximum(per_copy, _NO_ACCESS) * (1 + 1e-12))
        if problem.longest_step_ns is not None:
            compute_ns = problem.compute_ns(stage, variants_of(each.blocks))
            most_fed[compute_ns > problem.longest_step_ns * (1 + 1e-12)] = 0
        each = each.with_copies(np.minimum(most_fed, 2.0**40).astype(np.int64))
    return each


def cheapest_of_each(problem: Problem) -> Ints:
    """Return the fewest arrays of the allowed modes of every stage, int64. Raises SpecError for none."""
    fewest, graph = [], problem.graph
    for stage, (block, copies) in enumerate(zip(graph.blocks, problem.smallest.tolist(), strict=True)):
        bits = [()] if problem.bits is None else problem.bits.of(stage)
        most = max(problem.arrays_of_stage(stage, (*block, *own), copies) for own in bits)
        # Where copies must be divisors, more than the fewest, or larger blocks, may be needed.
        while not len((own := _untimed_modes_of(problem, stage, most).modes).low):
            if most >= MAX_ARRAYS:
                raise SpecError(
                    "copies_divide", f"{graph.names[stage][:60]!r} has no divisor within its --copies"
                )
            most = 2 * most + 1
        fewest.append(own.arrays.min())
    return np.array(fewest, dtype=np.int64)


def all_modes(problem: Problem) -> tuple[StageModes, ...]:
    """Return the modes of every stage; equal stages share theirs."""
    spare, clocks = problem.budget - problem.minimum, problem.graph.clocks
    graph_limits = (problem.graph.most_copies, problem.least, problem.most, problem.fed_ns)
    limits = [own for own in graph_limits if own is not None]
    listed, made = dict[object, StageModes](), dict[object, StageModes]()
    stages = []
    for stage in range(len(problem.demand)):
        key: tuple[object, ...] = (problem.graph.kinds[stage], int(problem.demand[stage]))
        key += () if problem.bits is None else (problem.bits.precisions[stage],)
        key += tuple(float(own[stage]) for own in limits)
        if key not in listed:
            listed[key] = _untimed_modes_of(problem, stage, int(problem.lowest[stage]) + spare)
        each = listed[key]
        clock = each.clock_by(partial(clocks, stage))
        key += tuple(column.tobytes() for column in clock)
        if key not in made:
            made[key] = _shortened(problem, each.with_clock(clock))
        stages.append(made[key])
    return tuple(stages)


def unlimited(problem: Problem) -> Problem:
    """Return the problem with as many arrays as its modes can use."""
    every = all_modes(replace(problem, budget=MAX_ARRAYS))
    return replace(problem, budget=sum(int(each.modes.arrays.max()) for each in every))


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
    fed = replace(problem, fed_ns=room, longest_step_ns=step_ns)
    _check_budget(fed, all_modes(fed))
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


def access_of_modes(problem: Problem, stage: int, each: StageModes) -> npt.NDArray[np.float64]:
    """Time that the memory needs in a step for each mode of a stage."""
    access_ns: npt.NDArray[np.float64] = problem.access_ns(stage, each.blocks)[each.block] * each.modes.low
    return access_ns


def step_of_modes(problem: Problem, stage: int, each: StageModes) -> npt.NDArray[np.float64]:
    """Shortest step of each mode of a stage that has the memory to itself, 0 if it is any."""
    compute_ns = problem.compute_ns(stage, variants_of(each.blocks))
    return np.maximum(access_of_modes(problem, stage, each), compute_ns[each.block])


def _least_access_ns(problem: Problem, stage: int, each: StageModes) -> float:
    return float((problem.access_ns(stage, each.blocks) * each.copies_of_blocks()[0]).min())


def limited_to(problem: Problem, longest: int) -> Problem:
    """Return the problem with the modes whose batches take at most `longest` together.

    Of copies alone these lie between a least and a most number of copies. Raises BudgetError if no
    allocation within the budget has such modes.
    """
    longest = longest if problem.longest is None else min(longest, problem.longest)
    limited = replace(problem, longest=longest)
    stages = all_modes(limited)
    _check_budget(limited, stages)
    if not problem.one_block:
        return limited
    least = np.array([int(each.modes.low.min()) for each in stages], dtype=np.int64)
    most = np.array([int(each.modes.high.max()) for each in stages], dtype=np.int64)
    gaps = any(
        len(each.modes.low) and int((each.modes.high - each.modes.low + 1).sum()) <= high - low
        for each, low, high in zip(stages, least.tolist(), most.tolist(), strict=True)
    )
    return replace(problem, least=least, most=most, once=None, longest=longest if gaps else None)


def _check_budget(problem: Problem, stages: Sequence[StageModes]) -> None:
    """Raise BudgetError if the modes left do not fit the budget."""
    needs = [int(each.modes.arrays.min(initial=2**60)) for each in stages]
    if problem.bits is not None and sum(needs) <= problem.budget:
        options = [
            [Option(int(own.modes.arrays.min()), int(own.sensitivity[0])) for own in each.by_bits()]
            for each in stages
        ]
        chosen, _ = cheapest_options(options)
        needs = [own[at].arrays for own, at in zip(options, chosen, strict=True)] if chosen else [2**60]
    if sum(needs) > problem.budget:
        raise BudgetError(sum(needs), problem.budget, list(zip(problem.graph.names, needs, strict=False)))


def _block(problem: Problem, stage: int) -> tuple[int, ...]:
    """Return the block of the graph as columns of `StageModes.blocks`: tall ... total."""
    grid = problem.graph.grids[stage]
    return *grid.block, *grid.phase, grid.columns, grid.total


def _listed(blocks: Ints, most: int) -> StageModes:
    """Return all modes with these blocks and up to `most` arrays."""
    total, groups, sharing, spread, _ = blocks[:, Column.TOTAL : Column.WEIGHT_BITS].T
    whole = most // np.maximum(spread, 1) * np.maximum(sharing, 1) // np.maximum(groups, 1)
    limits = np.where(groups * spread > 0, whole, total)
    # Beyond these copies no mode fits `most` arrays, whatever a tile adds: most are never written out.
    lows, highs = [], []
    for blocks_in_all, limit in zip(total.tolist(), limits.tolist(), strict=True):
        fewest, greatest = copies_by_batches(blocks_in_all)
        fitting = int(np.searchsorted(fewest, limit, side="right"))
        lows.append(fewest[:fitting])
        highs.append(greatest[:fitting])
    number = np.repeat(np.arange(len(blocks)), [len(each) for each in lows])
    low, high = np.concatenate(lows), np.concatenate(highs)
    _, groups, sharing, spread, tile = blocks[number, Column.TOTAL : Column.WEIGHT_BITS].T
    arrays = -(-low * groups // np.maximum(sharing, 1)) * spread
    arrays = -(-arrays // tile) * tile
    fits = arrays <= most
    number, low, high, arrays = number[fits], low[fits], high[fits], arrays[fits]
    batches = -(-blocks[number, Column.TOTAL] // low)
    shapes = blocks[number, : Column.GROUPS].T.copy()
    modes = Modes(*(*shapes, low, high, batches, arrays, np.ones(len(low), dtype=np.int64)))
    return StageModes(modes, blocks, number, Clock.of([STEP] * len(blocks)))


@dataclass(frozen=True, eq=False)
class Menu:
    """Menu of modes of a search. stages: all modes, `blocks` and `stairs` those that are kept.

    numbers: for each stage and every row of its blocks the place among its kept ones, -1 for none.
    price: arrays for a part of the limit of sensitivities, by_bits: staircases of every stage and its bits,
    None where bits are not chosen.
    """

    stages: tuple[StageModes, ...]
    blocks: Blocks
    stairs: Stairs
    clock: Clock
    numbers: tuple[Ints, ...]
    price: float = 0.0
    by_bits: tuple[tuple[_BitStair, ...], ...] | None = None

    def tables(self, problem: Problem, slots: Slots = NO_SLOTS, *, low: bool = False) -> MenuTables:
        """Return the menu in the form that compiled searches read, with the constraints of a problem.

        slots: of an archive of copies alone; low: for climbs on the staircases of the lowest blocks.
        """
        climbed = len(self.stages) if low else 0
        toll, excess = int(tolls(self.price, np.array(MOST_PARTS))), 0.0
        if self.by_bits is not None:
            excess = price_of_excess(self.price, problem.budget)
        blocks, stairs, budget = self.blocks, self.stairs, problem.budget
        return MenuTables(blocks, stairs, climbed, self.clock, budget, slots, toll, excess)

    def block(self, number: int) -> Variant:
        """Height and width of a block by its number, and its bits where they are chosen."""
        return self._variants[number]

    @cached_property
    def _variants(self) -> list[Variant]:
        blocks = self.blocks
        bits = zip(blocks.weight_bits.tolist(), blocks.input_bits.tolist(), strict=True)
        pairs = zip(blocks.tall.tolist(), blocks.wide.tolist(), strict=True)
        return [(*pair, *(own if own[0] else ())) for pair, own in zip(pairs, bits, strict=True)]

    @cached_property
    def has_low_stairs(self) -> bool:
        """Whether the staircases of the lowest blocks are others than those of all."""
        middle = len(self.stairs.arrays) // 2
        return any(not np.array_equal(own[:middle], own[middle:]) for own in self.stairs[1:])

    def choice(self, problem: Problem, state: State) -> Choice:
        """Return the allocation of a state of a compiled search."""
        blocks = tuple(self.block(number) for number in state.block.tolist())
        return problem.choice(state.copies.copy(), blocks)

    def smallest_interval(self, problem: Problem) -> int:
        """Shortest length of all stages with which the cheapest modes fit the budget, by bisection."""
        low, high = 1, int(max(self.stairs.length[self.stairs.first[: len(self.stages)]]))
        if self.by_bits is not None:
            high = max(int(own.length[0]) for some in self.by_bits for own in some)
        while low < high:
            middle = (low + high) // 2
            if self.cheapest(middle)[1] <= problem.budget:
                high = middle
            else:
                low = middle + 1
        return low

    def intervals(self, problem: Problem) -> Ints:
        """Return every length of a stage that can be the interval, the shortest first."""
        own = np.unique(np.concatenate([each.modes.length for each in self.stages]))
        shortest = self.smallest_interval(problem)
        return np.unique(np.append(own[own >= shortest], shortest))

    def state(self, found: Choice) -> State:
        """Return an allocation in the form that the local search changes.

        A menu does not keep every mode, and provers look at all of them: a stage whose mode it does not have
        gets the cheapest one that takes no longer, so the state need not be as fast as the allocation.
        """
        each = zip(found.blocks, found.copies.tolist(), strict=True)
        numbers = np.array([self._number(i, *mode) for i, mode in enumerate(each)], dtype=np.int64)
        state, missing = State(numbers, found.copies.astype(np.int64)), numbers < 0
        if missing.any():
            nearest = self.with_length(found.problem.lengths(found.copies, found.blocks))
            state.block[missing] = nearest.block[missing]
            state.copies[missing] = nearest.copies[missing]
        return state

    def _number(self, stage: int, block: Variant, copies: int) -> int:
        """Return the number of a block that may be stored so often, -1 if the menu has none."""
        for number in range(int(self.blocks.first[stage]), int(self.blocks.first[stage + 1])):
            allowed = self.blocks.least[number] <= copies <= self.blocks.most[number]
            if allowed and self.block(number) == block:
                return number
        return -1

    @property
    def smallest(self) -> State:
        """The fewest arrays of every stage."""
        return self.cheapest(2**60)[0]

    @property
    def fewest_copies(self) -> State:
        """The fewest copies of the smallest block of every stage."""
        first = self.blocks.first[:-1]
        return State(first.copy(), self.blocks.least[first])

    def cheapest(self, length: int) -> tuple[State, int]:
        """Return the fewest arrays with which no stage takes longer, and a bound of their sum.

        It is 2**60 if a stage must take longer, or bits be more sensitive than the limit.
        """
        if self.by_bits is not None:
            options = self._options(length)
            chosen, arrays = cheapest_options(options)
            if not chosen:
                return self.smallest if length < 2**60 else self.with_length(
                    np.full(len(options), length)
                ), arrays
            stairs = [own[at] for own, at in zip(self.by_bits, chosen, strict=True)]
            modes = [(own.block[step], own.copies[step]) for own in stairs for step in [own.step(length)]]
            return State(*np.array(modes, dtype=np.int64).T.copy()), arrays
        steps = self._steps(np.full(len(self.stages), length))
        longer = (self.stairs.length[steps] > length).any()
        return self._state(steps), 2**60 if longer else int(self.stairs.arrays[steps].sum())

    def _options(self, length: int) -> list[list[Option]]:
        """Fewest arrays of every stage and its bits that take no longer; of no use where they must."""
        return [
            [
                Option(int(own.arrays[step]), own.sensitivity)
                if (step := own.step(length)) < len(own.arrays)
                else Option(2**40, 2**50)
                for own in some
            ]
            for some in self.by_bits or ()
        ]

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

    def cheaper(self, stage: int, arrays: int) -> Iterator[tuple[Variant, int]]:
        """Yield the modes of the staircase of a stage with fewer arrays, the nearest first."""
        stairs = self.stairs
        for step in range(int(stairs.first[stage + 1]) - 1, int(stairs.first[stage]) - 1, -1):
            if stairs.arrays[step] < arrays:
                yield self.block(int(stairs.block[step])), int(stairs.copies[step])

    @classmethod
    def of(cls, problem: Problem) -> Menu:
        """Return the menu of a problem. Raises BudgetError if no modes within its limits fit the budget."""
        stages = all_modes(problem)
        _check_budget(problem, stages)
        menu = cls._joined(stages, 0.0, by_bits=problem.bits is not None)
        if problem.bits is None:
            return menu
        options = menu._options(menu.smallest_interval(problem))
        return cls._joined(stages, price_of_limit(options)[0], by_bits=True)

    @classmethod
    def _joined(cls, stages: tuple[StageModes, ...], price: float, *, by_bits: bool) -> Menu:
        first, blocks, clocks = [0], list[Ints](), []
        stairs, low_stairs = list[Ints](), list[Ints]()
        of_bits = list[tuple[_BitStair, ...]]()
        numbers, kept_of = list[Ints](), dict[int, _Kept]()  # equal stages share their modes
        for each in stages:
            if id(each) not in kept_of:
                kept_of[id(each)] = _Kept.of(each, price)
            kept = kept_of[id(each)]
            of_bits.append(tuple(own._replace(block=own.block + first[-1]) for own in kept.of_bits))
            numbers_from = np.array([0, 0, first[-1], 0])
            stairs.append(kept.stairs + numbers_from)
            low_stairs.append(kept.low_stairs + numbers_from)
            blocks.append(kept.blocks)
            clocks.append(kept.clock)
            numbers.append(kept.number)
            first.append(first[-1] + len(kept.blocks))
        stairs += low_stairs
        return cls(
            stages,
            Blocks(np.array(first), *np.concatenate(blocks).T.copy()),
            Stairs(np.cumsum([0, *map(len, stairs)]), *np.concatenate(stairs).T.copy()),
            Clock.joined(clocks),
            tuple(numbers),
            price,
            tuple(of_bits) if by_bits else None,
        )


class _BitStair(NamedTuple):
    """Staircase of a stage with a sensitivity: arrays rise and lengths fall; block: its number in Blocks."""

    sensitivity: int
    arrays: Ints
    length: Ints
    block: Ints
    copies: Ints

    def step(self, length: int) -> int:
        """Return the first step that is no longer, or one more than there are."""
        return int(np.searchsorted(-self.length, -length))


class _Kept(NamedTuple):
    """Modes of a stage that a menu keeps: columns of Stairs and of Blocks but `first`; numbers begin at 0.

    number: of every row of `StageModes.blocks`, -1 if it is not kept.
    """

    stairs: Ints
    low_stairs: Ints
    blocks: Ints
    clock: Clock
    number: Ints
    of_bits: list[_BitStair]

    @classmethod
    def of(cls, each: StageModes, price: float) -> _Kept:
        """Return the staircases, and the blocks that are on them or nearly as cheap; price: for bits."""
        rows, low, modes = each.fewest(price), each.fewest_low(price), each.modes
        by_bits = [(own.modes.take(own.fewest()), own.block[own.fewest()], own) for own in each.by_bits()]
        on_stairs = np.concatenate([each.block[rows], each.block[low], *(own for _, own, _ in by_bits)])
        kept = _kept_blocks(each, np.unique(on_stairs), price)
        number = np.full(len(each.blocks), -1, dtype=np.int64)
        number[kept] = np.arange(len(kept))
        steps = np.stack([each.priced(price), modes.length, number[each.block], modes.low], axis=1)
        least, most = each.copies_of_blocks()
        blocks = np.column_stack(
            [each.blocks[kept], least[kept], most[kept], tolls(price, each.blocks[kept, Column.SENSITIVITY])]
        )
        of_bits = [
            _BitStair(int(own.sensitivity[0]), stair.arrays, stair.length, number[block], stair.low)
            for stair, block, own in by_bits
        ]
        return cls(steps[rows], steps[low], blocks, each.clock.take(kept), number, of_bits)


def _kept_blocks(each: StageModes, on_stairs: Ints, price: float) -> Ints:
    """Blocks of modes on the staircases, the smallest one, and others that are nearly as cheap somewhere."""
    m, rows, cost = each.modes, each.fewest(price), each.priced(price)
    # least cost for at most this length, for every mode
    stair_length, stair_cost = m.length[rows][::-1], cost[rows][::-1]  # lengths rise
    at = np.searchsorted(stair_length, m.length, side="right") - 1
    excess = cost / np.maximum(stair_cost[at], 1)
    near = np.full(len(each.blocks), np.inf)
    np.minimum.at(near, each.block, excess)
    counts = np.zeros(len(each.blocks), dtype=np.int64)
    np.add.at(counts, each.block[excess <= 1 + _NEAR], 1)
    order = np.lexsort((each.blocks[:, Column.TALL], -counts, near))
    rest = [b for b in order.tolist() if near[b] <= 1 + _NEAR and b not in set(on_stairs.tolist())]
    room = max(0, MOST_BLOCKS - len(on_stairs))
    smallest = each.block.min()
    return np.unique(np.concatenate([on_stairs, [smallest], rest[:room]]).astype(np.int64))
