"""Compiled local search over modes: annealing and rebalancing on the exact makespan, copies and blocks at
once.

A state is a block and a number of copies for every stage. Moves give a stage fewer or more batches, with the
block it has or with the one that takes the fewest arrays for them, or change its block at about the same
batches. The length of a stage is the time of all its batches: their number, times the ticks of each where
stages have their own clocks. Only operations that every machine rounds alike are used, so a seed gives the
same run everywhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rramalloc.compiled import compiled, compiled_maker, compiled_part
from rramalloc.search.kernels.anneal import below, draw, jump
from rramalloc.search.kernels.clock import ticks_of
from rramalloc.search.kernels.limits import batches_of, copy_to, with_batches
from rramalloc.search.kernels.schedule import accept, retime, timed
from rramalloc.timing.kernel import NEVER, NEXT_STEP, Shapes, batch_starts, needed_block

_P_BLOCK, _P_RAISE, _P_NUDGE = 0.25, 0.75, 0.85
"""Shares of moves: up to the first another block, up to the second fewer batches, up to the third a copy
more or less; the rest takes batches from a stage first."""
_P_GROUP, _GROUP_CHANGE, _GROUP_TRIES = 0.1, 0.4, 6
"""Share of moves that scale the batches of successive stages, by how much at most, and how many such groups
are slowed down in turn."""
_P_STAIRS, _P_SWITCH = 0.5, 0.25
"""Share of changes of batches that also take the block with the fewest arrays for them, and of these those
between all blocks and the lowest ones."""
_LONGEST_RAISE, _LONGEST_LOWER = 0.15, 0.1
"""Batches by which a move changes a stage at most, as a part of its batches; small changes are the rule."""
_REFILLS = 4
"""Stages that are offered a batch less from the arrays that a move leaves over."""
_TRIES, _OTHERS_FIRST = 8, 3
"""Stages drawn, times the stages there are, until a move fits; so many of them spare the raised stage."""
_STEPS_AHEAD = 4
"""Steps of a staircase that a climb looks at."""
_WORK_PER_BATCH, _WORK_PER_STAGE = 8, 1500
"""Of a round of rebalancing, in batches timed."""
_WORK_PER_TRY = 10
"""Batches that take as long as a stage drawn."""


class State(NamedTuple):
    """A mode for every stage, int64 of length n: number of its block in the menu, and copies."""

    block: Any
    copies: Any


@compiled_maker
def new_ticks(clock: Any, state: Any) -> Any:
    """Ticks of a batch of every stage."""
    ticks = np.empty(len(state.block), dtype=np.int64)
    for i in range(len(ticks)):
        ticks[i] = ticks_of(clock, state.block[i], state.copies[i])
    return ticks


@compiled_part
def arrays_of_mode(blocks: Any, block: int, copies: int) -> int:
    """Arrays that so many copies of a block take."""
    sharing = blocks.sharing[block]
    if sharing > 0:
        return (copies * blocks.groups[block] + sharing - 1) // sharing
    return copies * blocks.groups[block] * blocks.spread[block]


@compiled_part
def set_shape(blocks: Any, block: int, i: int, shapes: Any) -> None:
    """Give stage i the block in the form that timing reads."""
    shapes.tall[i], shapes.wide[i] = blocks.tall[block], blocks.wide[block]
    shapes.top[i], shapes.left[i] = blocks.top[block], blocks.left[block]
    shapes.columns[i], shapes.total[i] = blocks.columns[block], blocks.total[block]


@compiled_maker
def new_shapes(blocks: Any, state: Any) -> Any:
    """The blocks of a state in the form that timing reads."""
    n = len(state.block)
    shapes = Shapes(
        np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64),
        np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64),
    )  # fmt: skip
    for i in range(n):
        set_shape(blocks, state.block[i], i, shapes)
    return shapes


@compiled_part
def used_by(blocks: Any, state: Any) -> int:
    """Arrays that a state uses."""
    used = 0
    for i in range(len(state.block)):
        used += arrays_of_mode(blocks, state.block[i], state.copies[i])
    return used


@compiled_part
def step_with(stairs: Any, i: int, length: int) -> int:
    """The step of a staircase with the fewest arrays for at most this length; the last one if none is."""
    low, high = stairs.first[i], stairs.first[i + 1] - 1
    while low < high:  # lengths fall
        middle = (low + high) // 2
        if stairs.length[middle] <= length:
            high = middle
        else:
            low = middle + 1
    return low


@compiled_part
def _set(menu: Any, state: Any, i: int, block: int, copies: int) -> int:
    """Give stage i a mode; the arrays that this adds."""
    before = arrays_of_mode(menu.blocks, state.block[i], state.copies[i])
    state.block[i], state.copies[i] = (
        block,
        min(max(copies, menu.blocks.least[block]), menu.blocks.most[block]),
    )
    return arrays_of_mode(menu.blocks, block, state.copies[i]) - before


@compiled_part
def _staircase(menu: Any, state: Any, i: int, rng: Any) -> int:
    """A staircase of stage i: mostly that of the lowest blocks if its block is one, else that of all."""
    low = i + len(state.block)
    lowest = menu.blocks.tall[menu.stairs.block[menu.stairs.first[low]]]
    is_low = menu.blocks.tall[state.block[i]] == lowest
    return low if is_low == (draw(rng) >= _P_SWITCH) else i


@compiled_part
def _rebatch(menu: Any, state: Any, i: int, batches: int, rng: Any) -> int:
    """Give stage i at most the length of so many of its batches, with its own or the cheapest block.

    Returns the arrays that this adds.
    """
    block = state.block[i]
    if draw(rng) < _P_STAIRS:
        length = batches * ticks_of(menu.clock, block, state.copies[i])
        step = step_with(menu.stairs, _staircase(menu, state, i, rng), length)
        return _set(menu, state, i, menu.stairs.block[step], menu.stairs.copies[step])
    return _set(menu, state, i, block, with_batches(menu.blocks.total[block], batches))


@compiled_part
def _lower(menu: Any, state: Any, j: int, rng: Any) -> int:
    """More batches for stage j, enough to save an array; the arrays that this adds, never more than none."""
    blocks, stairs, block, copies = menu.blocks, menu.stairs, state.block[j], state.copies[j]
    batches = batches_of(blocks.total[block], copies)
    own, wanted = arrays_of_mode(blocks, block, copies), batches + jump(rng, batches, _LONGEST_LOWER)
    if draw(rng) < _P_STAIRS:
        staircase = _staircase(menu, state, j, rng)
        step = step_with(stairs, staircase, wanted * ticks_of(menu.clock, block, copies))
        while step > stairs.first[staircase] and stairs.arrays[step] >= own:
            step -= 1
        block, copies = stairs.block[step], stairs.copies[step]
    else:
        fewer = with_batches(blocks.total[block], wanted)
        if arrays_of_mode(blocks, block, fewer) == own and blocks.sharing[block] > 0:
            fewer = (own - 1) * blocks.sharing[block] // blocks.groups[block]
        copies = max(fewer, blocks.least[block])
    if arrays_of_mode(blocks, block, copies) >= own:
        return 0
    return _set(menu, state, j, block, copies)


@compiled_part
def _scale_group(menu: Any, state: Any, factor: float, rng: Any) -> int:
    """Scale the batches of successive stages that have as many windows; the arrays that this adds."""
    blocks, n = menu.blocks, len(state.block)
    i = below(rng, n)
    longest = 1 + below(rng, n)
    windows = _windows(blocks, i)
    added = 0
    for j in range(i, n):
        if j - i >= longest or _windows(blocks, j) != windows:
            break
        batches = batches_of(blocks.total[state.block[j]], state.copies[j])
        added += _rebatch(menu, state, j, max(int(batches * factor), 1), rng)
    return added


@compiled_part
def _windows(blocks: Any, i: int) -> int:
    """Blocks of the first shape in the menu of a stage, which is the smallest."""
    return blocks.total[blocks.first[i]]


@compiled_part
def _propose(menu: Any, rng: Any, used: int, state: Any) -> tuple[int, int]:
    """Change a random stage and take arrays from others until it fits: (arrays then used, stages tried)."""
    blocks, n = menu.blocks, len(state.block)
    i = below(rng, n)
    kind = draw(rng)
    block = state.block[i]
    tries, grouped = 0, draw(rng) < _P_GROUP
    if grouped:
        used += _scale_group(menu, state, 1.0 - _GROUP_CHANGE * draw(rng), rng)
        kind = 2.0
        while used > menu.budget and tries < _GROUP_TRIES:
            tries += 1
            used += _scale_group(menu, state, 1.0 + _GROUP_CHANGE * draw(rng), rng)
    batches = batches_of(blocks.total[block], state.copies[i])
    if kind < _P_BLOCK:
        other = blocks.first[i] + below(rng, blocks.first[i + 1] - blocks.first[i])
        wanted = batches + (below(rng, 3) - 1) * (jump(rng, batches, _LONGEST_LOWER) - below(rng, 2))
        period = ticks_of(menu.clock, block, state.copies[i])
        wanted = wanted * period // ticks_of(menu.clock, other, state.copies[i])
        used += _set(menu, state, i, other, with_batches(blocks.total[other], max(wanted, 1)))
    elif kind < _P_RAISE:
        used += _rebatch(menu, state, i, max(batches - jump(rng, batches, _LONGEST_RAISE), 1), rng)
    elif kind < _P_NUDGE:
        used += _set(menu, state, i, block, state.copies[i] + 1 - 2 * below(rng, 2))
    elif not grouped:
        used += _lower(menu, state, i, rng)
    while used > menu.budget and tries < _TRIES * n:
        tries += 1
        j = below(rng, n)
        if j != i or tries > _OTHERS_FIRST * n:
            used += _lower(menu, state, j, rng)
    for _ in range(_REFILLS):
        j = below(rng, n)
        block, copies = state.block[j], state.copies[j]
        batches = batches_of(blocks.total[block], copies)
        if batches > 1:
            added = _rebatch(menu, state, j, batches - 1, rng)
            if used + added <= menu.budget:
                used += added
            else:
                state.block[j], state.copies[j] = block, copies
    return used, tries


class MenuTables(NamedTuple):
    """What the search reads: the menu's Blocks, Stairs and Clock, and the arrays that may be used.

    climbed: number of the first stage's staircase among those that are climbed, see Stairs.
    """

    blocks: Any
    stairs: Any
    climbed: int
    clock: Any
    budget: int


@compiled
def anneal_modes(edges: Any, menu: Any, cooling: Any, rng: Any, current: Any, best: Any) -> tuple[int, int]:
    """Improve `current` (changed in place): (best makespan, batches timed); the best state is in `best`.

    rng: uint64 of length 1, not 0, the generator's state.
    """
    blocks, clock, n = menu.blocks, menu.clock, len(current.block)
    shapes, ticks = new_shapes(blocks, current), new_ticks(clock, current)
    schedule, makespan, work = timed(edges, shapes, ticks, current.copies, clock.time)
    used = used_by(blocks, current)
    copy_to(best.block, current.block)
    copy_to(best.copies, current.copies)
    shortest, fewest = makespan, used
    new = State(current.block.copy(), current.copies.copy())
    reshaped = np.zeros(n, dtype=np.bool_)
    for step in range(cooling.rounds):
        if shortest <= cooling.target:
            break
        heat = shortest * cooling.hot / (1.0 + (cooling.hot / cooling.cold - 1.0) * (step / cooling.rounds))
        limit = makespan + int(2.0 * draw(rng) * heat)
        taken, tries = _propose(menu, rng, used, new)
        work += tries * _WORK_PER_TRY
        reached = NEVER
        if taken <= menu.budget:
            for i in range(n):
                reshaped[i] = new.block[i] != current.block[i]
                if reshaped[i]:
                    set_shape(blocks, new.block[i], i, shapes)
                ticks[i] = ticks_of(clock, new.block[i], new.copies[i])
            reached, timed_now = retime(
                edges, shapes, ticks, reshaped, current.copies, new.copies, limit, schedule
            )
            work += timed_now
            if reached == NEVER:
                for i in range(n):
                    if reshaped[i]:
                        set_shape(blocks, current.block[i], i, shapes)
                    ticks[i] = ticks_of(clock, current.block[i], current.copies[i])
        if reached == NEVER:
            copy_to(new.block, current.block)
            copy_to(new.copies, current.copies)
            continue
        accept(schedule)
        copy_to(current.block, new.block)
        copy_to(current.copies, new.copies)
        makespan, used = reached, taken
        if makespan < shortest or (makespan == shortest and used < fewest):
            shortest, fewest = makespan, used
            copy_to(best.block, current.block)
            copy_to(best.copies, current.copies)
    return shortest, work


@compiled_part
def _latest_finishes(
    edges: Any, shapes: Any, ticks: Any, copies: Any, first: Any, makespan: int, latest: Any
) -> None:  # fmt: skip
    """Latest finish of every batch with which the makespan is kept, consumers first."""
    n = len(copies)
    for batch in range(first[n]):
        latest[batch] = makespan
    for i in range(n - 1, -1, -1):
        base, batches, period = first[i], first[i + 1] - first[i], ticks[i]
        for batch in range(batches - 2, -1, -1):
            after = latest[base + batch + 1] - period
            if after < latest[base + batch]:
                latest[base + batch] = after
        for edge in range(edges.pointer[i], edges.pointer[i + 1]):
            p = edges.producer[edge]
            # batches that end in one row of blocks need one row of the producer's: walk those rows
            across, total, inverse = shapes.columns[i], shapes.total[i], 1.0 / copies[p]
            per_wide, beside = 1.0 / shapes.wide[p], shapes.left[p] + 0.5
            before = period + edges.lag[edge]
            row = -1
            row_start: Any = np.int64(-1)
            least: Any = np.int64(-1)
            for batch in range(batches):
                last = min((batch + 1) * copies[i], total) - 1
                if last >= (row + 1) * across:
                    row = last // across
                    least = needed_block(edges, shapes, edge, i, p, row * across - 1) if row else np.int64(-1)
                    end = needed_block(edges, shapes, edge, i, p, row * across + across - 1)
                    row_start = end // shapes.columns[p] * shapes.columns[p] if end >= 0 else np.int64(-1)
                needed = least
                if row_start >= 0:
                    right = (last - row * across + 1) * shapes.wide[i] - shapes.left[i]
                    pixel = edges.table[edges.column[edge] + min(right, edges.width[i]) - 1]
                    if pixel >= 0:
                        needed = max(needed, row_start + np.int64((pixel + beside) * per_wide))
                if needed >= 0:
                    at = first[p] + np.int64((needed + 0.5) * inverse)
                    if latest[base + batch] - before < latest[at]:
                        latest[at] = latest[base + batch] - before


@compiled_part
def _most_batches(edges: Any) -> int:
    """Batches of all stages at most."""
    most = 0
    for i in range(len(edges.height)):
        most += edges.height[i] * edges.width[i]
    return most


@compiled_part
def _wanted(menu: Any, room: Any, extra: int, wanted: Any) -> int:
    """The cheapest mode of every stage for its room + `extra`; the arrays they take."""
    used = 0
    for i in range(len(room)):
        step = step_with(menu.stairs, menu.climbed + i, max(room[i] + extra, 1))
        wanted.block[i], wanted.copies[i] = menu.stairs.block[step], menu.stairs.copies[step]
        used += menu.stairs.arrays[step]
    return used


@compiled
def rebalance_modes(
    edges: Any, menu: Any, rounds: int, weight: float, current: Any, best: Any
) -> tuple[int, int]:
    """Iterate from `current` (changed in place): (best makespan, batches timed); the best state is in `best`.

    Each round simulates exactly, finds when every stage starts and when it must end at the latest, and
    gives it the cheapest mode for that room, lengthened equally for all until the budget is met.
    weight: of the new room beside the room of the rounds before, 0 ... 1.
    """
    blocks, clock, n = menu.blocks, menu.clock, len(current.block)
    most = _most_batches(edges)
    starts, latest = np.empty(most, dtype=clock.time.dtype), np.empty(most, dtype=clock.time.dtype)
    longest = 0
    for i in range(n):
        longest = max(longest, menu.stairs.length[menu.stairs.first[menu.climbed + i]])
    first, room = np.empty(n + 1, dtype=np.int64), np.empty(n, dtype=np.int64)
    smooth = np.zeros(n)
    wanted = State(current.block.copy(), current.copies.copy())
    shortest, work = NEVER, 0
    for turn in range(rounds):
        shapes, ticks = new_shapes(blocks, current), new_ticks(clock, current)
        makespan = batch_starts(edges, shapes, ticks, current.copies, NEXT_STEP, starts, first)
        work += _WORK_PER_BATCH * first[n] + _WORK_PER_STAGE * n
        if makespan < shortest and used_by(blocks, current) <= menu.budget:
            shortest = makespan
            copy_to(best.block, current.block)
            copy_to(best.copies, current.copies)
        _latest_finishes(edges, shapes, ticks, current.copies, first, makespan, latest)
        tightest = 0
        for i in range(n):
            own = latest[first[i + 1] - 1] - starts[first[i]]
            smooth[i] = own if turn == 0 else weight * own + (1.0 - weight) * smooth[i]
            room[i] = np.int64(smooth[i])
            tightest = max(tightest, room[i])
        low, high = 1 - tightest, longest
        while low < high:
            middle = (low + high) // 2
            if _wanted(menu, room, middle, wanted) <= menu.budget:
                high = middle
            else:
                low = middle + 1
        if _wanted(menu, room, low, wanted) > menu.budget:
            break
        copy_to(current.block, wanted.block)
        copy_to(current.copies, wanted.copies)
    return shortest, work


@compiled_part
def _critical_batches(
    edges: Any, shapes: Any, ticks: Any, copies: Any, starts: Any, first: Any, eager: bool, counts: Any
) -> None:  # fmt: skip
    """Batches of every stage on one chain of batches that wait for each other from time 0 to the end.

    eager: go on to the producer wherever a batch waits for it, else stay in the stage as long as possible.
    """
    n = len(copies)
    i, batch = 0, 0
    end: Any = np.int64(0)
    for stage in range(n):
        counts[stage] = 0
        finish = starts[first[stage + 1] - 1] + ticks[stage]
        if finish >= end:
            i, batch, end = stage, first[stage + 1] - first[stage] - 1, finish
    while True:
        counts[i] += 1
        time = starts[first[i] + batch]
        if time == 0:
            break
        behind = batch > 0 and starts[first[i] + batch - 1] + ticks[i] == time
        if behind and not eager:
            batch -= 1
            continue
        last = min((batch + 1) * copies[i], shapes.total[i]) - 1
        found = False
        for edge in range(edges.pointer[i], edges.pointer[i + 1]):
            p = edges.producer[edge]
            needed = needed_block(edges, shapes, edge, i, p, last)
            if needed >= 0:
                used_from = starts[first[p] + needed // copies[p]] + ticks[p] + edges.lag[edge]
                if used_from == time:
                    i, batch, found = p, needed // copies[p], True
                    break
        if not found:
            batch -= 1


@compiled
def grow_modes(edges: Any, menu: Any, current: Any, best: Any, most_work: int) -> tuple[int, int]:
    """Climb the staircases from `current` (changed in place) along critical chains: as `rebalance_modes`.

    Each round gives arrays to the stage of a critical chain that saves most of its batches there per array,
    whether or not the makespan falls at once, since stages wait for each other.
    """
    blocks, stairs, n = menu.blocks, menu.stairs, len(current.block)
    shapes, ticks = new_shapes(blocks, current), new_ticks(menu.clock, current)
    starts = np.empty(_most_batches(edges), dtype=menu.clock.time.dtype)
    first = np.empty(n + 1, dtype=np.int64)
    counts = np.empty(n, dtype=np.int64)
    used, shortest, work, eager = used_by(blocks, current), NEVER, 0, False
    while work < most_work:
        makespan = batch_starts(edges, shapes, ticks, current.copies, NEXT_STEP, starts, first)
        work += 2 * first[n]
        if makespan < shortest and used <= menu.budget:
            shortest = makespan
            copy_to(best.block, current.block)
            copy_to(best.copies, current.copies)
        _critical_batches(edges, shapes, ticks, current.copies, starts, first, eager, counts)
        eager = not eager
        chosen, step, most_saved = -1, 0, 0.0
        for i in range(n):
            if counts[i] == 0:
                continue
            time = counts[i] * ticks[i]
            length = (first[i + 1] - first[i]) * ticks[i]
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
        set_shape(blocks, current.block[chosen], chosen, shapes)
        ticks[chosen] = ticks_of(menu.clock, current.block[chosen], current.copies[chosen])
    return shortest, work
