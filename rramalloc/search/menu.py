"""Menus: the modes of every stage that a search chooses from, and what all modes together could be.

A stage with H x W windows has millions of modes (blocks of every shape, any number of copies). For a number
of batches only the fewest copies of each block matter to the arrays, so `all_modes` lists those: one row per
block and number of batches. `Menu` keeps the blocks that are among the cheapest for some number of batches,
and the staircase of fewest arrays for every number of batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.compiled import compiled
from rramalloc.errors import BudgetError
from rramalloc.mapping.demand import ModeArrays
from rramalloc.mapping.modes import ArrayCount, breakpoints, input_extents, largest_block, smallest_block
from rramalloc.network.geometry import Pair
from rramalloc.search.archive import NO_SLOTS, Slots
from rramalloc.search.kernels.clock import Clock
from rramalloc.search.kernels.moves import MenuTables, State
from rramalloc.search.problem import Choice, Problem
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
    least, most: copies that are allowed.
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
    least: Ints
    most: Ints


class Stairs(NamedTuple):
    """Fewest arrays for every length: steps first[i] ... first[i + 1] - 1 of stage i of n stages; int64.

    arrays rise and lengths, the time of all batches, fall; block: its number in Blocks. After these n
    staircases, from first[n] on, follow those of the lowest blocks alone: tall blocks save arrays, but make
    other stages wait.
    """

    first: Ints
    arrays: Ints
    length: Ints
    block: Ints
    copies: Ints


@compiled
def _list_modes(blocks: Any, most_arrays: int, out: Any) -> int:
    """Rows (block number, low, high, batches, arrays) of all blocks up to `most_arrays`; how many.

    blocks: columns total, groups, sharing, spread, tile. Without room in `out` they are only counted.
    """
    rows = 0
    for block in range(len(blocks)):
        total, groups, sharing, spread, tile = blocks[block]
        copies = 1
        while True:
            arrays = (copies * groups + max(sharing, 1) - 1) // max(sharing, 1) * spread
            arrays = (arrays + tile - 1) // tile * tile
            if arrays > most_arrays:
                break
            batches = (total + copies - 1) // copies
            following = total + 1 if batches == 1 else (total + batches - 2) // (batches - 1)
            if rows < len(out):
                out[rows, 0], out[rows, 1], out[rows, 2] = block, copies, following - 1
                out[rows, 3], out[rows, 4] = batches, arrays
            rows += 1
            copies = following
            if batches == 1:
                break
    return rows


@dataclass(frozen=True, eq=False)
class StageModes:
    """Everything that one stage can do with up to `most` arrays."""

    modes: Modes
    blocks: Ints
    """Distinct blocks: tall, wide, top, left, columns, total, groups, sharing, spread, tile, a row each."""
    block: Ints
    """Row of `blocks` of every mode."""
    clock: Clock
    """Ticks of a batch of every row of `blocks`."""

    def take(self, rows: npt.NDArray[Any]) -> StageModes:
        """Return some of the modes."""
        return replace(self, modes=self.modes.take(rows), block=self.block[rows])

    def clock_by(self, ticks: Callable[[Pair], BatchTicks]) -> Clock:
        """Return the clock of batches that last `ticks` by their block."""
        return Clock.of([ticks((tall, wide)) for tall, wide in self.blocks[:, :2].tolist()])

    def with_clock(self, clock: Clock) -> StageModes:
        """Return the same modes with this clock."""
        period = clock.of_each(self.block, self.modes.low)
        return replace(self, modes=self.modes._replace(period=period), clock=clock)

    def with_copies(self, most: Ints) -> StageModes:
        """Return the modes with at most `most` copies of each block."""
        left = self.take(self.modes.low <= most[self.block])
        high = np.minimum(left.modes.high, most[left.block])
        return replace(left, modes=left.modes._replace(high=high))

    def with_least(self, least: int) -> StageModes:
        """Return the modes with at least so many copies of a block."""
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

    @property
    def fewest(self) -> Ints:
        """Rows of `modes` on the staircase: fewest arrays for the length, shortest first in arrays."""
        return self._fewest(np.arange(len(self.modes.tall)))

    @property
    def fewest_low(self) -> Ints:
        """The same with the lowest blocks only."""
        return self._fewest(np.flatnonzero(self.modes.tall == self.modes.tall.min(initial=2**60)))

    def _fewest(self, among: Ints) -> Ints:
        m = self.modes.take(among)
        order = np.lexsort((m.tall, m.total, m.length, m.arrays))
        best = np.minimum.accumulate(m.length[order])
        falls = np.concatenate(([True], best[1:] < best[:-1]))
        rows: Ints = among[order[falls]]
        return rows


def stage_modes(modes: ModeArrays, stage: int, most: int) -> StageModes:
    """All modes of a stage with up to `most` arrays, all in one step a batch."""
    node = modes.stages[stage]
    shape = modes.network.shapes[node.name]
    unit, largest = smallest_block(node), largest_block(node, shape)
    single = modes.of(stage, unit)
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
    blocks = np.stack(np.broadcast_arrays(ph, pw, top, left, in_row, total, *count), axis=1)
    return _listed(blocks[_arrays_of(blocks, 1) <= most], most)


def _arrays_of(blocks: Ints, copies: Ints | int) -> Ints:
    """Return the arrays that copies of each block take. blocks: rows of `StageModes.blocks`."""
    groups, sharing, spread, tile = blocks[:, 6:].T
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
    return each if problem.longest is None else each.take(each.modes.length <= problem.longest)


def listed_modes(problem: Problem, stage: int, most: int) -> StageModes:
    """Return the modes of a stage with up to `most` arrays, without limits of time."""
    modes = problem.block_modes
    if modes is None:
        return copies_only(problem, stage, most)
    if modes.demand is None:
        return stage_modes(modes, stage, most)
    block = problem.graph.blocks[stage]
    return _listed(np.array([[*_block(problem, stage), *modes.count(stage, block)]], dtype=np.int64), most)


def _untimed_modes_of(problem: Problem, stage: int, most: int) -> StageModes:
    """Return the modes of a stage, all in one step a batch."""
    each = listed_modes(problem, stage, most)
    copies = min(own[stage] for own in (problem.graph.most_copies, problem.most) if own is not None)
    if copies < problem.graph.windows[stage]:
        each = each.with_copies(np.full(len(each.blocks), copies))
    if problem.least is not None:
        each = each.with_least(int(problem.least[stage]))
    if problem.fed_ns is not None:
        per_copy = problem.access_ns(stage, each.blocks)
        most_fed = np.floor(problem.fed_ns[stage] / np.maximum(per_copy, _NO_ACCESS) * (1 + 1e-12))
        each = each.with_copies(np.minimum(most_fed, 2.0**40).astype(np.int64))
    return each


def cheapest_of_each(problem: Problem) -> Ints:
    """Return the fewest arrays that the allowed modes of every stage take, int64."""
    most = problem.arrays_of_stages(problem.smallest).tolist()
    fewest = [
        _untimed_modes_of(problem, stage, arrays).modes.arrays.min() for stage, arrays in enumerate(most)
    ]
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
    fed = replace(problem, fed_ns=room)
    _check_budget(fed, all_modes(fed))
    return fed


def _least_access_ns(problem: Problem, stage: int, each: StageModes) -> float:
    return float((problem.access_ns(stage, each.blocks) * each.copies_of_blocks()[0]).min())


def limited_to(problem: Problem, longest: int) -> Problem:
    """Return the problem with the modes whose batches take at most `longest` together.

    Of copies alone these lie between a least and a most number of copies. Raises BudgetError if no
    allocation within the budget has such modes.
    """
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
    return replace(problem, least=least, most=most, longest=longest if gaps else None)


def _check_budget(problem: Problem, stages: Sequence[StageModes]) -> None:
    """Raise BudgetError if the modes left do not fit the budget."""
    needs = [int(each.modes.arrays.min(initial=2**60)) for each in stages]
    if sum(needs) > problem.budget:
        raise BudgetError(sum(needs), problem.budget, list(zip(problem.graph.names, needs, strict=True)))


def copies_only(problem: Problem, stage: int, most: int) -> StageModes:
    """Return the modes of a stage whose copies all compute the block of the graph, up to `most` arrays."""
    return _copies_of(_block(problem, stage), int(problem.demand[stage]), int(problem.smallest[stage]), most)


def _block(problem: Problem, stage: int) -> tuple[int, ...]:
    """Return the block of the graph as columns of `StageModes.blocks`: tall ... total."""
    grid = problem.graph.grids[stage]
    return *grid.block, *grid.phase, grid.columns, grid.total


@lru_cache(maxsize=512)
def _copies_of(block: tuple[int, ...], demand: int, least: int, most: int) -> StageModes:
    total = block[-1]
    useful = breakpoints(total, most // demand if demand else total)  # digital stages take no arrays
    batches = -(-total // useful)
    high = np.where(batches == 1, total, -(-total // np.maximum(batches - 1, 1)) - 1)
    kept = high >= least
    low = np.maximum(useful, least)[kept]
    ones = np.ones(len(low), dtype=np.int64)
    tall, wide, top, left, columns, windows = (size * ones for size in block)
    modes = Modes(tall, wide, top, left, columns, windows, low, high[kept], batches[kept], low * demand, ones)
    rows = np.array([[*block, 1, 0, demand, 1]], dtype=np.int64)
    steps = Clock.of([STEP])
    return StageModes(modes, rows, np.zeros(len(low), dtype=np.int64), steps)


def _listed(blocks: Ints, most: int) -> StageModes:
    """Return all modes with these blocks and up to `most` arrays."""
    economics = np.ascontiguousarray(blocks[:, 5:])
    size = int(_list_modes(economics, most, np.zeros((0, 5), dtype=np.int64)))
    listed = np.empty((size, 5), dtype=np.int64)
    _list_modes(economics, most, listed)
    number = listed[:, 0]
    columns = [blocks[number, :6], listed[:, 1:], np.ones(size, dtype=np.int64)]
    steps = Clock.of([STEP] * len(blocks))
    return StageModes(Modes(*np.column_stack(columns).T.copy()), blocks, number, steps)


@dataclass(frozen=True, eq=False)
class Menu:
    """Menu of modes of a search. stages: all modes, `blocks` and `stairs` those that are kept.

    numbers: for each stage and every row of its blocks the place among its kept ones, -1 for none.
    """

    stages: tuple[StageModes, ...]
    blocks: Blocks
    stairs: Stairs
    clock: Clock
    numbers: tuple[Ints, ...]

    def tables(self, problem: Problem, slots: Slots = NO_SLOTS, *, low: bool = False) -> MenuTables:
        """Return the menu in the form that compiled searches read, with the constraints of a problem.

        slots: of an archive of copies alone; low: for climbs on the staircases of the lowest blocks.
        """
        climbed = len(self.stages) if low else 0
        room = problem.limits.room if problem.graph.weighted.all() else None
        return MenuTables(self.blocks, self.stairs, climbed, self.clock, problem.budget, room, slots)

    def block(self, number: int) -> Pair:
        """Height and width of a block by its number."""
        return int(self.blocks.tall[number]), int(self.blocks.wide[number])

    def choice(self, problem: Problem, state: State) -> Choice:
        """Return the allocation of a state of a compiled search."""
        blocks = tuple(self.block(number) for number in state.block.tolist())
        return problem.choice(state.copies.copy(), blocks)

    def smallest_interval(self, problem: Problem) -> int:
        """Shortest length of all stages with which the cheapest modes fit budget and tiles, by bisection."""
        low, high = 1, int(max(self.stairs.length[self.stairs.first[: len(self.stages)]]))
        while low < high:
            middle = (low + high) // 2
            state, arrays = self.cheapest(middle)
            found = self.choice(problem, state)
            fits = arrays <= problem.budget
            if fits and (problem.tiles is None or problem.holds(found.copies, found.blocks)):
                high = middle
            else:
                low = middle + 1
        return low

    def state(self, blocks: Sequence[Pair], copies: Ints) -> State:
        """Return an allocation in the form that the local search changes.

        Raises ValueError for a block that the menu has not.
        """
        numbers = []
        for i, block in enumerate(blocks):
            first, end = int(self.blocks.first[i]), int(self.blocks.first[i + 1])
            numbers.append(first + [self.block(number) for number in range(first, end)].index(block))
        return State(np.array(numbers, dtype=np.int64), copies.astype(np.int64))

    def known_state(self, blocks: Sequence[Pair], copies: Ints) -> State | None:
        """Return the same, None for a block that the menu has not."""
        try:
            return self.state(blocks, copies)
        except ValueError:
            return None

    @property
    def smallest(self) -> State:
        """The fewest arrays of every stage."""
        return self.with_length(np.full(len(self.stages), 2**60))

    @property
    def fewest_copies(self) -> State:
        """The fewest copies of the smallest block of every stage."""
        first = self.blocks.first[:-1]
        return State(first.copy(), self.blocks.least[first])

    def cheapest(self, length: int) -> tuple[State, int]:
        """Return the fewest arrays with which no stage takes longer, and their sum; 2**60 if a stage must."""
        steps = self._steps(np.full(len(self.stages), length))
        longer = (self.stairs.length[steps] > length).any()
        return self._state(steps), 2**60 if longer else int(self.stairs.arrays[steps].sum())

    def with_length(self, length: Ints) -> State:
        """Return the fewest arrays for at most this length of every stage, or its shortest."""
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

    def cheaper(self, stage: int, arrays: int) -> Iterator[tuple[Pair, int]]:
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
        return cls._joined(stages)

    @classmethod
    def _joined(cls, stages: tuple[StageModes, ...]) -> Menu:
        first, blocks, clocks = [0], list[Ints](), []
        stairs, low_stairs = list[Ints](), list[Ints]()
        numbers, kept_of = list[Ints](), dict[int, _Kept]()  # equal stages share their modes
        for each in stages:
            if id(each) not in kept_of:
                kept_of[id(each)] = _Kept.of(each)
            kept = kept_of[id(each)]
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
        )


class _Kept(NamedTuple):
    """Modes of a stage that a menu keeps: columns of Stairs and of Blocks but `first`; numbers begin at 0.

    number: of every row of `StageModes.blocks`, -1 if it is not kept.
    """

    stairs: Ints
    low_stairs: Ints
    blocks: Ints
    clock: Clock
    number: Ints

    @classmethod
    def of(cls, each: StageModes) -> _Kept:
        """Return the staircases, and the blocks that are on them or nearly as cheap."""
        rows, low, modes = each.fewest, each.fewest_low, each.modes
        kept = _kept_blocks(each, np.concatenate([rows, low]))
        number = np.full(len(each.blocks), -1, dtype=np.int64)
        number[kept] = np.arange(len(kept))
        steps = np.stack([modes.arrays, modes.length, number[each.block], modes.low], axis=1)
        least, most = each.copies_of_blocks()
        blocks = np.column_stack([each.blocks[kept], least[kept], most[kept]])
        return cls(steps[rows], steps[low], blocks, each.clock.take(kept), number)


def _kept_blocks(each: StageModes, on_stairs: Ints) -> Ints:
    """Blocks of modes on the staircases, the smallest one, and others that are nearly as cheap somewhere."""
    m, rows = each.modes, each.fewest
    on_stairs = np.unique(each.block[on_stairs])
    # fewest arrays for at most this length, for every mode
    stair_length, stair_arrays = m.length[rows][::-1], m.arrays[rows][::-1]  # lengths rise
    at = np.searchsorted(stair_length, m.length, side="right") - 1
    excess = m.arrays / np.maximum(stair_arrays[at], 1)
    near = np.full(len(each.blocks), np.inf)
    np.minimum.at(near, each.block, excess)
    counts = np.zeros(len(each.blocks), dtype=np.int64)
    np.add.at(counts, each.block[excess <= 1 + _NEAR], 1)
    order = np.lexsort((each.blocks[:, 0], -counts, near))
    rest = [b for b in order.tolist() if near[b] <= 1 + _NEAR and b not in set(on_stairs.tolist())]
    room = max(0, MOST_BLOCKS - len(on_stairs))
    smallest = each.block.min()
    return np.unique(np.concatenate([on_stairs, [smallest], rest[:room]]).astype(np.int64))
