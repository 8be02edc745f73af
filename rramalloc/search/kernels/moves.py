"""Compiled local search over modes, copies and blocks at once: annealing the arrays that a target takes,
rebalancing and climbing on the exact makespan. A menu may hold one block for each stage: then over copies.

A state is a block and a number of copies for every stage. Changes give a stage fewer or more batches, with
the block it has or with the one that takes the fewest arrays for them, or another block at about the same
batches. The length of a stage is the time of all its batches: their number, times the ticks of each where
stages have their own clocks. Only operations that every machine rounds alike are used, so a seed gives the
same run everywhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rramalloc.compiled import compiled, compiled_inline, compiled_part
from rramalloc.search.cost import BATCH_NS, CHANGE_NS
from rramalloc.search.kernels.clock import ticks_of
from rramalloc.search.kernels.deadlines import Deadlines, meets, renew, set_deadlines
from rramalloc.search.kernels.draws import below, draw, jump
from rramalloc.search.kernels.limits import batches_of, copy_to, with_batches
from rramalloc.search.kernels.schedule import Schedule, accept, retime, time_all
from rramalloc.search.kernels.slots import update, would_update
from rramalloc.timing.kernel import NEVER, NEXT_STEP, Shapes, Timeline, critical_chain
from rramalloc.timing.stage_graph import FlatEdges

# Shares of changes, cumulative: a draw below the first tries another block, and so on; the rest takes arrays
# from a stage.
_P_BLOCK = 0.25  # another block
_P_FASTER = 0.4  # fewer batches
_P_COPY = 0.5  # one copy more or less
_P_STAIRS = 0.5  # share of changes of batches that also take the block with the fewest arrays for them
_P_SWITCH = 0.25  # share of these that go from the lowest blocks to all blocks, or back
_LONGEST_RAISE = 0.15  # largest part of a stage's batches that a change removes; small changes are the rule
_LONGEST_LOWER = 0.1  # largest part of a stage's batches that a change adds
_STEPS_AHEAD = 4
"""Steps of a staircase that a climb looks at."""
_WORK_PER_BATCH = 5  # work of a round of rebalancing per batch, in batches timed: times, deadlines, rooms
_WORK_PER_STAGE = 150  # work of a round of rebalancing per stage, in batches timed
_SHORTENINGS = 60  # times that all stages are shortened until a target is met: each by at least 0.5 %
_SHORTER = 0.995  # most of their batches that one shortening leaves, so that it always makes progress
_WORK_PER_CLIMB = 4
"""Work of a step of a climb, for each batch."""


REBALANCE = 0  # number of the search that balances the slack of all stages
CLIMB = 1  # number of the search along critical chains
SHORTEN = 2  # number of the search that shortens all stages
ANNEAL = 3  # number of the search by simulated annealing


class Run(NamedTuple):
    """Compiled search and its settings; each search says which of them it reads.

    target: a makespan; rounds: of the search, at most; weight: of the newest room beside that of the rounds
    before, 0 ... 1; most_work: batches timed; hot, cold: first and last temperature, in arrays.
    """

    search: int
    target: int = 0
    rounds: int = 0
    weight: float = 1.0
    most_work: int = 0
    hot: float = 1.0
    cold: float = 1.0


class State(NamedTuple):
    """A mode for every stage, int64 of length n: number of its block in the menu, and copies."""

    block: Any
    copies: Any


@compiled_part
def arrays_of_mode(blocks: Any, block: int, copies: int) -> int:
    """Return the arrays of `copies` of a mode, and the price of its bits."""
    sharing, tile = max(blocks.sharing[block], 1), blocks.tile[block]
    stored = (copies * blocks.groups[block] + sharing - 1) // sharing * blocks.spread[block]
    return (stored + tile - 1) // tile * tile + blocks.bits_price[block]


@compiled_part
def set_shape(blocks: Any, block: int, i: int, shapes: Any) -> None:
    """Give stage i the block in the form that timing reads."""
    shapes.tall[i], shapes.wide[i] = blocks.tall[block], blocks.wide[block]
    shapes.top[i], shapes.left[i] = blocks.top[block], blocks.left[block]
    shapes.columns[i], shapes.total[i] = blocks.columns[block], blocks.total[block]


@compiled_part
def used_by(blocks: Any, state: Any) -> int:
    """Return the priced cost of a state: its arrays and the price of its bits."""
    used = 0
    for i in range(len(state.block)):
        used += arrays_of_mode(blocks, state.block[i], state.copies[i])
    return used


@compiled_part
def _usage_of_mode(menu: Any, axis: int, block: int, copies: int) -> int:
    """Return the usage of an axis by `copies` of a mode."""
    blocks, axes = menu.blocks, menu.axes
    of_bits = axes.per_part[axis] * blocks.sensitivity[block]
    per_array = axes.per_array[axis, blocks.kind[block]]
    if per_array == 0:
        return of_bits
    stored = (arrays_of_mode(blocks, block, copies) - blocks.bits_price[block]) // blocks.price[block]
    return of_bits + stored * per_array


@compiled_part
def step_with(stairs: Any, i: int, length: int) -> int:
    """Return the step of a staircase with the fewest arrays for at most this length, or the last one."""
    low, high = stairs.first[i], stairs.first[i + 1] - 1
    # Bisection: steps of a staircase have falling lengths and rising arrays.
    while low < high:  # lengths fall
        middle = (low + high) // 2
        if stairs.length[middle] <= length:
            high = middle
        else:
            low = middle + 1
    return low


@compiled_part
def _set(blocks: Any, state: Any, i: int, block: int, copies: int) -> int:
    """Give stage i a mode; return the arrays that this adds."""
    before = arrays_of_mode(blocks, state.block[i], state.copies[i])
    state.block[i], state.copies[i] = block, min(max(copies, blocks.least[block]), blocks.most[block])
    return arrays_of_mode(blocks, block, state.copies[i]) - before


@compiled_part
def _staircase(tall: Any, stairs: Any, block: Any, i: int, rng: Any) -> int:
    """Return a staircase of stage i: mostly of the lowest blocks if its block is one, else of all."""
    low = i + len(block)
    is_low = tall[block[i]] == tall[stairs.block[stairs.first[low]]]
    return low if is_low == (draw(rng) >= _P_SWITCH) else i


@compiled_inline
def _rebatch(menu: Any, state: Any, i: int, batches: int, rng: Any) -> int:
    """Give stage i at most the length of `batches` of its batches, with its own or the cheapest block.

    Returns the arrays that this adds.
    """
    blocks, stairs, block = menu.blocks, menu.stairs, state.block[i]
    if draw(rng) < _P_STAIRS:
        # Blocks differ in ticks, so what is compared is the length of the whole stage, not its batches.
        length = batches * ticks_of(menu.clock, block, state.copies[i])
        step = step_with(stairs, _staircase(blocks.tall, stairs, state.block, i, rng), length)
        block, copies = stairs.block[step], stairs.copies[step]
    else:
        copies = with_batches(blocks.total[block], batches)
    return _set(blocks, state, i, block, copies)


@compiled_inline
def _lower(menu: Any, state: Any, j: int, rng: Any) -> int:
    """Give stage j more batches, enough to save an array; return the arrays added, at most 0."""
    blocks, stairs, block, copies = menu.blocks, menu.stairs, state.block[j], state.copies[j]
    batches = batches_of(blocks.total[block], copies)
    own, target_batches = arrays_of_mode(blocks, block, copies), batches + jump(rng, batches, _LONGEST_LOWER)
    if draw(rng) < _P_STAIRS:
        staircase = _staircase(blocks.tall, stairs, state.block, j, rng)
        step = step_with(stairs, staircase, target_batches * ticks_of(menu.clock, block, copies))
        while step > stairs.first[staircase] and stairs.arrays[step] >= own:
            step -= 1
        block, copies = stairs.block[step], stairs.copies[step]
    else:
        fewer = with_batches(blocks.total[block], target_batches)
        # Copies that share arrays, or a tile, free none by one copy less: go down to the next full one.
        if arrays_of_mode(blocks, block, fewer) == own and blocks.groups[block] > 0:
            freed = own - blocks.bits_price[block] - blocks.tile[block]
            fewer = freed // blocks.spread[block] * max(blocks.sharing[block], 1) // blocks.groups[block]
        copies = max(fewer, blocks.least[block])
    if arrays_of_mode(blocks, block, copies) >= own:
        return 0
    return _set(blocks, state, j, block, copies)


class MenuTables(NamedTuple):
    """Tables that the search reads: the menu's modes, Stairs and Clock, and the arrays that may be used.

    first: number of the first mode of every stage, and of all; blocks: ModeTable; climbed: number of the
    first stage's staircase among those that are climbed, see Stairs; slots: of an archive that keeps what is
    fastest for its number of arrays, of copies alone; budget: of the priced cost; axes: what else is limited.
    """

    first: Any
    blocks: Any
    stairs: Any
    climbed: int
    clock: Any
    budget: int
    slots: Any
    axes: Any

    @property
    def priced_above_cost(self) -> int:
        """Upper bound of the prices that an allocation within all limits pays beside its cost."""
        return int(self.budget - self.axes.limit[0]) if len(self.axes.limit) else 0


class Scratch(NamedTuple):
    """Working memory of the searches over a menu: what they show to timing, and states between two changes.

    shapes, ticks: of the state that is timed; state, room, smooth, counts, leaves: by stage;
    changed: stages that `retime` is to time again.
    """

    shapes: Any
    ticks: Any
    schedule: Any
    deadlines: Any
    state: Any
    room: Any
    smooth: Any
    counts: Any
    leaves: Any
    changed: Any

    @classmethod
    def of(cls, edges: FlatEdges) -> Scratch:
        """Return memory for searches over menus of a graph."""
        n = len(edges.height)
        whole = np.empty((12, n), dtype=np.int64)
        return cls(
            Shapes(*whole[:6]),
            whole[6],
            Schedule.of_modes(edges),
            Deadlines.of(edges),
            State(whole[7], whole[8]),
            whole[9],
            np.empty(n),
            whole[10],
            whole[11],
            np.zeros(n, dtype=np.bool_),
        )


@compiled_part
def _fits(menu: Any, used: int, state: Any) -> bool:
    """Return True if a state keeps to every limit; `used` is its priced cost."""
    if used > menu.budget:
        return False
    kept = True
    for axis in range(len(menu.axes.limit)):
        kept = kept and _usage(menu, state, axis) <= menu.axes.limit[axis]
    return kept


@compiled_part
def _usage(menu: Any, state: Any, axis: int) -> int:
    """Return the usage of an axis by a state."""
    held = 0
    for i in range(len(state.block)):
        held += _usage_of_mode(menu, axis, state.block[i], state.copies[i])
    return held


@compiled_part
def _penalty(axes: Any, axis: int, held: int) -> float:
    """Return the cost that an annealing counts for an axis: of all cost, and of what is above a limit."""
    if axis == 0:  # the cost, whose limit is in the budget of the priced cost
        return float(held)
    return axes.excess[axis] * max(held - axes.limit[axis], 0)


@compiled_part
def _penalty_change(menu: Any, current: Any, new: Any, i: int) -> float:
    """Return the change of the penalised cost if stage i takes its new mode."""
    axes, cost = menu.axes, 0.0
    for axis in range(len(axes.limit)):
        before = _usage_of_mode(menu, axis, current.block[i], current.copies[i])
        after = _usage_of_mode(menu, axis, new.block[i], new.copies[i])
        held = axes.held[axis]
        cost += _penalty(axes, axis, held + after - before) - _penalty(axes, axis, held)
    return cost


@compiled_part
def _archive(slots: Any, used: int, makespan: int, copies: Any) -> None:
    """Keep an allocation in the archive if it is the fastest of its slot."""
    if would_update(slots, used, makespan):
        update(slots, used, makespan, copies)


@compiled_part
def write_shape(blocks: Any, clock: Any, state: Any, i: int, shapes: Any, ticks: Any) -> None:
    """Write block and ticks of stage i in the form that timing reads."""
    set_shape(blocks, state.block[i], i, shapes)
    ticks[i] = ticks_of(clock, state.block[i], state.copies[i])


@compiled_part
def write_shapes(blocks: Any, clock: Any, state: Any, shapes: Any, ticks: Any) -> None:
    """Write blocks and ticks of all stages in the form that timing reads."""
    for i in range(len(state.block)):
        write_shape(blocks, clock, state, i, shapes, ticks)


@compiled_part
def _save(state: Any, into: Any) -> None:
    """Copy a state."""
    copy_to(into.block, state.block)
    copy_to(into.copies, state.copies)


@compiled_inline
def _change(menu: Any, rng: Any, i: int, state: Any) -> int:
    """Give stage i another mode near its own; return the arrays that this adds."""
    blocks, block, copies = menu.blocks, state.block[i], state.copies[i]
    kind, batches = draw(rng), batches_of(blocks.total[block], copies)
    if kind < _P_BLOCK:
        other = menu.first[i] + below(rng, menu.first[i + 1] - menu.first[i])
        target_batches = batches + (below(rng, 3) - 1) * (jump(rng, batches, _LONGEST_LOWER) - below(rng, 2))
        period = ticks_of(menu.clock, block, copies)
        # The same length in the other block's ticks.
        target_batches = target_batches * period // ticks_of(menu.clock, other, copies)
        return _set(blocks, state, i, other, with_batches(blocks.total[other], max(target_batches, 1)))
    if kind < _P_FASTER:
        return _rebatch(menu, state, i, max(batches - jump(rng, batches, _LONGEST_RAISE), 1), rng)
    if kind < _P_COPY:
        return _set(blocks, state, i, block, copies + 1 - 2 * below(rng, 2))
    return _lower(menu, state, i, rng)


@compiled_inline
def _anneal(
    edges: Any, menu: Any, run: Any, rng: Any, current: Any, best: Any, scratch: Any
) -> tuple[int, float]:
    """Anneal the arrays of `current`, which meets the target, until they fit the budget.

    The state that fits, or else takes the fewest arrays, is in `best`. Returns the changes tried, at most
    `rounds`, and nanoseconds.

    A change of one stage is timed up to the deadlines of its consumers; only one that is accepted is followed
    through the network.
    """
    shapes, ticks, schedule, deadlines = scratch.shapes, scratch.ticks, scratch.schedule, scratch.deadlines
    new, target, n = scratch.state, run.target, len(current.block)
    write_shapes(menu.blocks, menu.clock, current, scratch.shapes, scratch.ticks)
    _, work = time_all(edges, shapes, ticks, current.copies, schedule)
    set_deadlines(edges, shapes, ticks, current.copies, schedule.needs, target, deadlines)
    used, axes = used_by(menu.blocks, current), menu.axes
    cost, steps = float(used), 0
    if len(axes.limit):
        cost = 0.0
        for axis in range(len(axes.limit)):
            axes.held[axis] = _usage(menu, current, axis)
            cost += _penalty(axes, axis, axes.held[axis])
    least = cost
    fits = _fits(menu, used, current)
    _save(current, best)
    _save(current, new)
    while steps < run.rounds and not fits:
        # The inverse temperature rises linearly from 1 / hot to 1 / cold.
        heat = run.hot / (1.0 + (run.hot / run.cold - 1.0) * (steps / run.rounds))
        steps += 1
        i = below(rng, n)
        added = _change(menu, rng, i, new)
        if new.block[i] == current.block[i] and new.copies[i] == current.copies[i]:
            continue
        # Threshold by a uniform draw of mean `heat` in place of exp(-added / heat): no logarithm, so every
        # machine rounds alike. Changes that remove arrays always pass.
        dearer = float(added) if len(axes.limit) == 0 else _penalty_change(menu, current, new, i)
        met = dearer <= 2.0 * draw(rng) * heat
        if met:
            write_shape(menu.blocks, menu.clock, new, i, shapes, ticks)
            # One stage is timed against the deadlines of its consumers: exact, and far cheaper than the
            # network.
            met, batches = meets(edges, shapes, ticks, new.copies, target, i, schedule, deadlines)
            work += batches
        if not met:
            new.block[i], new.copies[i] = current.block[i], current.copies[i]
            write_shape(menu.blocks, menu.clock, new, i, shapes, ticks)
            continue
        scratch.changed[i] = True
        makespan, batches = retime(
            edges, shapes, ticks, scratch.changed, current.copies, new.copies, target, schedule
        )
        scratch.changed[i] = False
        accept(schedule)
        work += batches + renew(edges, shapes, ticks, new.copies, schedule.needs, target, i, deadlines)
        for axis in range(len(axes.limit)):
            before = _usage_of_mode(menu, axis, current.block[i], current.copies[i])
            after = _usage_of_mode(menu, axis, new.block[i], new.copies[i])
            axes.held[axis] += after - before
        current.block[i], current.copies[i] = new.block[i], new.copies[i]
        used, cost = used + added, cost + dearer
        # The archive takes every state on the way, whether it fits the budget of this run or not.
        _archive(menu.slots, used, makespan, current.copies)
        fits = _fits(menu, used, current)
        if cost < least or fits:
            least = cost
            _save(current, best)
    return steps, BATCH_NS * work + CHANGE_NS * steps


@compiled_inline
def _shorten(edges: Any, menu: Any, target: int, current: Any, scratch: Any) -> tuple[int, float]:
    """Add copies to all stages of `current` until it meets the target; return (makespan, nanoseconds).

    The makespan is above the target where more copies do not help; arrays may pass the budget.
    """
    blocks, n, ticks, before = menu.blocks, len(current.block), scratch.ticks, scratch.state.copies
    write_shapes(menu.blocks, menu.clock, current, scratch.shapes, scratch.ticks)
    makespan, work = time_all(edges, scratch.shapes, ticks, current.copies, scratch.schedule)
    batches = scratch.counts
    for i in range(n):
        before[i] = current.copies[i]
        batches[i] = batches_of(blocks.total[current.block[i]], before[i])
    part, turn = 1.0, 0
    while makespan > target and turn < _SHORTENINGS:
        turn += 1
        # All stages are shortened by the ratio that the makespan lacks, by 0.5 % at least so that it ends.
        part *= min(target / makespan, _SHORTER)
        for i in range(n):
            block, target_batches = current.block[i], int(batches[i] * part)
            if target_batches < batches[i]:
                copies = with_batches(blocks.total[block], target_batches)
                current.copies[i] = min(copies, blocks.most[block])
                ticks[i] = ticks_of(menu.clock, block, current.copies[i])
        makespan, timed_now = retime(
            edges, scratch.shapes, ticks, scratch.changed, before, current.copies, NEVER, scratch.schedule
        )
        accept(scratch.schedule)
        work += timed_now
        copy_to(before, current.copies)
    return makespan, BATCH_NS * work


@compiled_part
def _cheapest_for_room(stairs: Any, climbed: int, room: Any, extra: int, cheapest: Any) -> int:
    """Write the cheapest mode of every stage for its room + `extra` and return the arrays they take."""
    used = 0
    for i in range(len(room)):
        step = step_with(stairs, climbed + i, max(room[i] + extra, 1))
        cheapest.block[i], cheapest.copies[i] = stairs.block[step], stairs.copies[step]
        used += stairs.arrays[step]
    return used


@compiled_inline
def _rebalance(edges: Any, menu: Any, run: Any, current: Any, best: Any, scratch: Any) -> tuple[int, float]:
    """Iterate `rounds` times from `current`: (makespan of the best state, nanoseconds); it is in `best`.

    Each round simulates exactly, finds when every stage starts and when it must end at the latest, and
    gives it the cheapest mode for that room, lengthened equally for all until the budget is met.
    """
    shapes, ticks, schedule, latest = scratch.shapes, scratch.ticks, scratch.schedule, scratch.deadlines
    room, smooth, cheapest, n = scratch.room, scratch.smooth, scratch.state, len(current.block)
    longest = 0
    for i in range(n):
        longest = max(longest, menu.stairs.length[menu.stairs.first[menu.climbed + i]])
    shortest, work = NEVER, 0
    for turn in range(run.rounds):
        write_shapes(menu.blocks, menu.clock, current, scratch.shapes, scratch.ticks)
        makespan, _ = time_all(edges, shapes, ticks, current.copies, schedule)
        used = used_by(menu.blocks, current)
        _archive(menu.slots, used, makespan, current.copies)
        if makespan < shortest and _fits(menu, used, current):
            shortest = makespan
            _save(current, best)
        set_deadlines(edges, shapes, ticks, current.copies, schedule.needs, makespan, latest)
        work += _WORK_PER_STAGE * n
        tightest = 0
        for i in range(n):
            batches = batches_of(shapes.total[i], current.copies[i])
            work += _WORK_PER_BATCH * batches
            own = latest.finish[latest.begin[i] + batches - 1] - schedule.starts[schedule.begin[i]]
            smooth[i] = own if turn == 0 else run.weight * own + (1.0 - run.weight) * smooth[i]
            room[i] = np.int64(smooth[i])
            tightest = max(tightest, room[i])
        low, high = 1 - tightest, longest
        while low < high:
            middle = (low + high) // 2
            if _cheapest_for_room(menu.stairs, menu.climbed, room, middle, cheapest) <= menu.budget:
                high = middle
            else:
                low = middle + 1
        if _cheapest_for_room(menu.stairs, menu.climbed, room, low, cheapest) > menu.budget:
            break
        _save(cheapest, current)
    return shortest, BATCH_NS * work


@compiled_inline
def _climb(edges: Any, menu: Any, run: Any, current: Any, best: Any, scratch: Any) -> tuple[int, float]:
    """Climb the staircases from `current` along critical chains: (makespan, nanoseconds).

    Each round gives arrays to the stage of a critical chain that saves most of its batches there per array,
    whether or not the makespan falls at once, since stages wait for each other. It ends at the target or
    after `most_work`; the makespan is that of the last state timed, the fastest that fits is in `best`.
    """
    blocks, stairs, shapes, ticks = menu.blocks, menu.stairs, scratch.shapes, scratch.ticks
    schedule, n = scratch.schedule, len(current.block)
    enters, leaves = scratch.counts, scratch.leaves
    write_shapes(menu.blocks, menu.clock, current, scratch.shapes, scratch.ticks)
    used, makespan, shortest, work = used_by(blocks, current), NEVER, NEVER, 0
    eager: Any = np.bool_(False)  # of numba's type for any truth value: a literal is compiled for once more
    while work < run.most_work:
        makespan, _ = time_all(edges, shapes, ticks, current.copies, schedule)
        last: Any = np.int64(0)
        for stage in range(n):
            work += _WORK_PER_CLIMB * batches_of(shapes.total[stage], current.copies[stage])
            if schedule.finish[stage] == makespan:
                last = stage
        _archive(menu.slots, used, makespan, current.copies)
        if makespan < shortest and _fits(menu, used, current):
            shortest = makespan
            _save(current, best)
        if makespan <= run.target:
            break
        timeline = Timeline(current.copies, schedule.begin, schedule.starts, NEXT_STEP)
        critical_chain(edges, shapes, ticks, timeline, last, eager, enters, leaves)
        eager = not eager
        step, most_saved = 0, 0.0
        chosen: Any = np.int64(-1)
        for i in range(n):
            if leaves[i] < 0:
                continue
            time = (leaves[i] // current.copies[i] - enters[i] + 1) * ticks[i]
            length = batches_of(shapes.total[i], current.copies[i]) * ticks[i]
            own = arrays_of_mode(blocks, current.block[i], current.copies[i])
            begin = step_with(stairs, menu.climbed + i, length - 1)
            for other in range(begin, min(begin + _STEPS_AHEAD, stairs.first[menu.climbed + i + 1])):
                added = stairs.arrays[other] - own
                saved = time * (1.0 - stairs.length[other] / length) / max(added, 1)
                if stairs.length[other] < length and used + added <= menu.budget and saved > most_saved:
                    chosen, step, most_saved = i, other, saved
        if chosen < 0:
            break
        used += stairs.arrays[step] - arrays_of_mode(blocks, current.block[chosen], current.copies[chosen])
        current.block[chosen], current.copies[chosen] = stairs.block[step], stairs.copies[step]
        write_shape(menu.blocks, menu.clock, current, chosen, shapes, ticks)
    return makespan, BATCH_NS * work


@compiled
def search(
    edges: Any, menu: Any, run: Any, rng: Any, current: Any, best: Any, scratch: Any
) -> tuple[int, float]:
    """Run one of the searches from `current`, which it changes in place: (makespan, nanoseconds counted).

    Of annealing, the changes tried in place of the makespan. rng: uint64 of length 1, not 0, the generator's
    state. All are one function, as most of what they call, and of what they are called with, is the same.
    """
    if run.search == REBALANCE:
        return _rebalance(edges, menu, run, current, best, scratch)
    if run.search == CLIMB:
        return _climb(edges, menu, run, current, best, scratch)
    if run.search == SHORTEN:
        return _shorten(edges, menu, run.target, current, scratch)
    return _anneal(edges, menu, run, rng, current, best, scratch)
