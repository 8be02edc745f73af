"""Compiled climbing: exact timing of every move on a critical chain."""

from __future__ import annotations

from typing import Any

import numpy as np

from rramalloc.compiled import compiled_maker, compiled_maker_part, compiled_part
from rramalloc.search.kernels.limits import arrays_of, batches_of, copy_to, next_breakpoint
from rramalloc.search.kernels.schedule import accept, retime, time_all, undo
from rramalloc.timing.kernel import NEVER

_WORK_PER_STAGE = 16
"""Work of choosing among the moves, in timed batches of every stage."""
_OVERRUN = 2
"""Multiple of the work allowed that a choice of move begun within it may reach."""


@compiled_part
def critical_chain(graph: Any, copies: Any, schedule: Any, makespan: int, drops: Any) -> None:
    """Follow a chain of batches, each starting the step after the last, from the end back to step 0.

    drops: written, the most steps that saving a batch in a stage alone can take off the makespan: the chain
    still goes through the windows at which it enters and leaves the stage. -1 for stages off the chain.
    """
    windows, starts, begin = graph.windows, schedule.starts, schedule.begin
    i, out = 0, 0
    for stage in range(len(windows)):
        drops[stage] = -1
        if schedule.finish[stage] == makespan:
            i, out = stage, windows[stage] - 1
    while i >= 0:
        # Only a breakpoint of ceil(W / d) saves a batch; copies between two of them cost arrays for nothing.
        d, more = copies[i], next_breakpoint(windows[i], copies[i])
        batch = out // d
        before, enters, leaves = -1, 0, 0
        while starts[begin[i] + batch] > 0:
            time = starts[begin[i] + batch]
            # The batch started when the one before it ended, so the stage itself holds it back, not an input.
            if batch > 0 and starts[begin[i] + batch - 1] + 1 == time:
                batch -= 1
                continue
            enters = min((batch + 1) * d, windows[i]) - 1
            for edge in range(graph.pointer[i], graph.pointer[i + 1]):
                window = graph.need[graph.offset[edge] + enters]
                if window >= 0:
                    p = graph.producer[edge]
                    if starts[begin[p] + window // copies[p]] + 1 == time:
                        before, leaves = p, window
                        break
            break
        # With `more` copies the same windows are that many batches fewer apart: the saving cannot be larger.
        drop = out // d - batch - (out // more - enters // more)
        drops[i] = max(drops[i], 0) + max(0, drop)
        i, out = before, leaves


@compiled_part
def raised(windows: Any, copies: Any, move: int, new: Any) -> None:
    """Into `new` the copies after a move: of one stage, or of all with most batches if it is their number."""
    n = len(windows)
    copy_to(new, copies)
    if move < n:
        new[move] = next_breakpoint(windows[move], copies[move])
        return
    slowest = 0
    for i in range(n):
        slowest = max(slowest, batches_of(windows[i], copies[i]))
    for i in range(n):
        if batches_of(windows[i], copies[i]) == slowest:
            new[i] = next_breakpoint(windows[i], copies[i])


@compiled_maker_part
def _price_moves(windows: Any, limits: Any, copies: Any, drops: Any, cost: Any, promise: Any) -> None:
    """Write the arrays that every move costs and its greatest saving per array; -1 if it does not fit.

    The promise of the last move, of all stages with most batches, is left at what is given.
    """
    n = len(windows)
    left = limits.budget - arrays_of(limits.demand, copies)
    for move in range(n):
        more = next_breakpoint(windows[move], copies[move])
        cost[move] = (more - copies[move]) * limits.demand[move]
        promise[move] = -1.0
        if drops[move] >= 0 and 0 < cost[move] <= left and more <= limits.largest[move]:
            promise[move] = drops[move] / cost[move]
    new = np.empty_like(copies)
    raised(windows, copies, n, new)
    cost[n] = 0
    for i in range(n):
        cost[n] += (new[i] - copies[i]) * limits.demand[i]
        if new[i] > limits.largest[i]:
            promise[n] = -1.0
    if not 0 < cost[n] <= left:
        promise[n] = -1.0


@compiled_part
def _most_promising(promise: Any) -> int:
    """Return the move with the largest promise, the first of equals."""
    best = 0
    for move in range(1, len(promise)):
        if promise[move] > promise[best]:
            best = move
    return best


@compiled_maker_part
def _best_move(
    graph: Any, limits: Any, copies: Any, makespan: int, schedule: Any, drops: Any, most_work: int
) -> tuple[int, int]:
    """(move, work): the one with the largest drop per array, else the most promising; -1 if none fits.

    No further move is timed once `most_work` is done: with n stages there are up to n moves of n stages.
    """
    n = len(copies)
    cost, promise, new = np.empty(n + 1, dtype=np.int64), np.empty(n + 1), np.empty_like(copies)
    promise[n] = makespan
    _price_moves(graph.windows, limits, copies, drops, cost, promise)
    move = _most_promising(promise)
    likely = move if promise[move] >= 0 else -1
    work, chosen, drop = _WORK_PER_STAGE * n, -1, 0.0
    # Promises bound the true savings from above, so the loop may end at the first that is not better.
    while promise[move] > drop and work < most_work:
        raised(graph.windows, copies, move, new)
        # A move that saves less per array than the best so far is given up as soon as its timing shows that.
        limit = makespan - 1 - int(drop * cost[move])
        reached, spent = retime(graph, None, None, None, copies, new, limit, schedule)
        work += spent
        if reached != NEVER:
            undo(schedule)
            if (makespan - reached) / cost[move] > drop:
                chosen, drop = move, (makespan - reached) / cost[move]
        promise[move] = -1.0
        move = _most_promising(promise)
    return (likely if chosen < 0 else chosen), work


@compiled_maker
def climb(graph: Any, limits: Any, most_work: int, copies: Any, best: Any, schedule: Any) -> int:
    """Climb from `copies` (changed in place); the best allocation is in `best`. Returns the batches timed."""
    drops, new = np.empty_like(copies), np.empty_like(copies)
    makespan, work = time_all(graph, None, None, copies, schedule)
    shortest = makespan
    copy_to(best, copies)
    while work < most_work:
        critical_chain(graph, copies, schedule, makespan, drops)
        move, spent = _best_move(
            graph, limits, copies, makespan, schedule, drops, _OVERRUN * most_work - work
        )
        work += spent
        if move < 0:
            break
        raised(graph.windows, copies, move, new)
        makespan, spent = retime(graph, None, None, None, copies, new, NEVER, schedule)
        accept(schedule)
        work += spent
        copy_to(copies, new)
        if makespan < shortest:
            shortest = makespan
            copy_to(best, copies)
    return work
