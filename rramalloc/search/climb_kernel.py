"""Compiled climbing: exact timing of every move on a critical chain."""

from __future__ import annotations

from typing import Any

import numpy as np

from rramalloc.compiled import compiled

_NEVER = 2**62
_WORK_PER_STAGE = 16
"""Work of choosing among the moves, as if so many batches of every stage were timed."""

_OVERRUN = 2
"""A choice of move that was begun within the work allowed may take it to so many times that work."""


@compiled
def _timed(
    graph: Any, base: Any, old: Any, copies: Any, cutoff: int, known: Any, moved: Any, starts: Any
) -> tuple[int, int]:  # fmt: skip
    """(makespan, work) after the copies `old` became `copies`.

    known: batch starts before the change; starts: those after it, written for stages in `moved`, which depend
    on the change. The makespan is _NEVER once it must exceed `cutoff`.
    """
    windows, pointer, producer, offset, need = graph
    makespan, work = 0, len(windows)
    moved[:] = False
    for i in range(len(windows)):
        d = copies[i]
        batches = (windows[i] + d - 1) // d
        touched = copies[i] != old[i]
        for edge in range(pointer[i], pointer[i + 1]):
            touched = touched or moved[producer[edge]]
        if not touched:
            makespan = max(makespan, known[base[i] + batches - 1] + 1)
            continue
        time, same = -1, copies[i] == old[i]
        for batch in range(batches):
            last = min((batch + 1) * d, windows[i]) - 1
            time += 1
            for edge in range(pointer[i], pointer[i + 1]):
                window = need[offset[edge] + last]
                if window >= 0:
                    p = producer[edge]
                    at = base[p] + np.int64((window + 0.5) * (1.0 / copies[p]))
                    time = max(time, (starts[at] if moved[p] else known[at]) + 1)
            if time + batches - batch > cutoff:
                return _NEVER, work + batch
            starts[base[i] + batch] = time
            same = same and known[base[i] + batch] == time
        work += batches * (1 + pointer[i + 1] - pointer[i])
        moved[i] = not same
        makespan = max(makespan, time + 1)
    return (makespan if makespan <= cutoff else _NEVER), work


@compiled
def _keep(windows: Any, base: Any, copies: Any, moved: Any, starts: Any) -> None:
    """Make the new starts of the stages in `moved` the known ones."""
    for i in range(len(windows)):
        if moved[i]:
            end = base[i] + (windows[i] + copies[i] - 1) // copies[i]
            starts[0, base[i] : end] = starts[1, base[i] : end]


@compiled
def _next(windows: int, copies: int) -> int:
    """Fewest copies that save a batch; the same if there is but one."""
    batches = (windows + copies - 1) // copies
    return copies if batches == 1 else (windows + batches - 2) // (batches - 1)


@compiled
def _chain(graph: Any, base: Any, copies: Any, starts: Any, makespan: int, drops: Any) -> None:
    """Follow a chain of batches, each starting the step after the last, from the end back to step 0.

    drops: written, the most steps that saving a batch in a stage alone can take off the makespan: the chain
    still goes through the windows at which it enters and leaves the stage. -1 for stages off the chain.
    """
    windows, pointer, producer, offset, need = graph
    drops[:] = -1
    i, out = 0, 0
    for stage in range(len(windows)):
        last = (windows[stage] + copies[stage] - 1) // copies[stage] - 1
        if starts[base[stage] + last] + 1 == makespan:
            i, out = stage, windows[stage] - 1
    while i >= 0:
        d, more = copies[i], _next(windows[i], copies[i])
        batch = out // d
        before, enters, leaves = -1, 0, 0
        while starts[base[i] + batch] > 0:
            time = starts[base[i] + batch]
            if batch > 0 and starts[base[i] + batch - 1] + 1 == time:
                batch -= 1
                continue
            enters = min((batch + 1) * d, windows[i]) - 1
            for edge in range(pointer[i], pointer[i + 1]):
                window = need[offset[edge] + enters]
                if window >= 0:
                    p = producer[edge]
                    if starts[base[p] + window // copies[p]] + 1 == time:
                        before, leaves = p, window
                        break
            break
        steps = out // d - batch
        drops[i] = max(drops[i], 0) + max(0, steps - (out // more - enters // more))
        i, out = before, leaves


@compiled
def _raise(windows: Any, copies: Any, move: int, new: Any) -> None:
    """Into `new` the copies after a move: of one stage, or of all with most batches if it is their number."""
    n = len(windows)
    new[:] = copies
    if move < n:
        new[move] = _next(windows[move], copies[move])
        return
    slowest = ((windows + copies - 1) // copies).max()
    for i in range(n):
        if (windows[i] + copies[i] - 1) // copies[i] == slowest:
            new[i] = _next(windows[i], copies[i])


@compiled
def _best_move(
    graph: Any, base: Any, demand: Any, left: int, largest: Any, copies: Any, makespan: int, moved: Any,
    starts: Any, drops: Any, new: Any, most_work: int,
) -> tuple[int, int]:  # fmt: skip
    """(move, work): the one with the largest drop per array, else the most promising; -1 if none fits.

    No further move is timed once `most_work` is done: with n stages there are up to n moves of n stages.
    """
    n = len(demand)
    arrays, promise = np.zeros(n + 1, dtype=np.int64), np.full(n + 1, -1.0)
    for move in range(n):
        more = _next(graph[0][move], copies[move])
        arrays[move] = (more - copies[move]) * demand[move]
        if drops[move] >= 0 and 0 < arrays[move] <= left and more <= largest[move]:
            promise[move] = drops[move] / arrays[move]
    _raise(graph[0], copies, n, new)
    arrays[n] = ((new - copies) * demand).sum()
    if 0 < arrays[n] <= left and (new <= largest).all():
        promise[n] = makespan
    order = np.argsort(-promise, kind="mergesort")
    work, chosen, drop = _WORK_PER_STAGE * n, -1, 0.0
    for move in order:
        if promise[move] < 0 or promise[move] <= drop or work >= most_work:
            break
        _raise(graph[0], copies, move, new)
        cutoff = makespan - 1 - int(drop * arrays[move])
        reached, spent = _timed(graph, base, copies, new, cutoff, starts[0], moved, starts[1])
        work += spent
        if reached != _NEVER and (makespan - reached) / arrays[move] > drop:
            chosen, drop = move, (makespan - reached) / arrays[move]
    if chosen < 0 and promise[order[0]] >= 0:
        chosen = order[0]
    return chosen, work


@compiled
def climb(graph: Any, demand: Any, budget: int, largest: Any, copies: Any, most_work: int, best: Any) -> int:
    """Climb from `copies` (changed in place); the best allocation is in `best`. Returns the batches timed."""
    windows = graph[0]
    n = len(windows)
    base = np.zeros(n, dtype=np.int64)
    for i in range(1, n):
        base[i] = base[i - 1] + windows[i - 1]
    starts = np.full((2, base[n - 1] + windows[n - 1]), -1, dtype=np.int32)
    moved, drops, new = np.zeros(n, dtype=np.bool_), np.zeros_like(copies), np.zeros_like(copies)
    makespan, work = _timed(graph, base, new, copies, _NEVER, starts[0], moved, starts[1])
    _keep(windows, base, copies, moved, starts)
    shortest = makespan
    best[:] = copies
    while work < most_work:
        _chain(graph, base, copies, starts[0], makespan, drops)
        left = budget - (copies * demand).sum()
        move, spent = _best_move(
            graph, base, demand, left, largest, copies, makespan, moved, starts, drops, new,
            _OVERRUN * most_work - work,
        )  # fmt: skip
        work += spent
        if move < 0:
            break
        _raise(windows, copies, move, new)
        makespan, spent = _timed(graph, base, copies, new, _NEVER, starts[0], moved, starts[1])
        work += spent
        copies[:] = new
        _keep(windows, base, copies, moved, starts)
        if makespan < shortest:
            shortest = makespan
            best[:] = copies
    return work
