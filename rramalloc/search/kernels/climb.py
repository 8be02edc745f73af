"""Compiled climbing: exact timing of every move on a critical chain."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rramalloc.compiled import compiled, compiled_part
from rramalloc.ndarrays import Ints
from rramalloc.search.kernels.limits import arrays_of, batches_of, copy_to, next_breakpoint
from rramalloc.search.kernels.schedule import accept, retime, time_all, undo
from rramalloc.timing.kernel import NEVER, NEXT_STEP, Timeline, critical_chain

_WORK_PER_STAGE = 16
"""Work of choosing among the moves, in timed batches of every stage."""
_OVERRUN = 2
"""Multiple of the work allowed that a choice of move begun within it may reach."""


@compiled_part
def drops_on_chain(graph: Any, copies: Any, schedule: Any, makespan: int, enters: Any, drops: Any) -> None:
    """Write the most steps that saving a batch in a stage alone can take off the makespan, -1 if none can.

    It can on a chain of batches that wait for each other: the chain still goes through the windows at which
    it enters and leaves the stage. enters: int64 of length n, room for the batches at which it does.
    """
    last: Any = np.int64(0)
    for stage in range(len(copies)):
        if schedule.finish[stage] == makespan:
            last = stage
    timeline = Timeline(copies, schedule.begin, schedule.starts, NEXT_STEP)
    stays: Any = np.bool_(False)  # of numba's type for any truth value: a literal is compiled for once more
    critical_chain(graph, None, None, timeline, last, stays, enters, drops)
    for i in range(len(copies)):
        if drops[i] >= 0:
            # Only a breakpoint of ceil(W / d) saves a batch; copies between two cost arrays for nothing.
            out, d, more = drops[i], copies[i], next_breakpoint(graph.windows[i], copies[i])
            entered = min((enters[i] + 1) * d, graph.windows[i]) - 1
            # With `more` copies the same windows are that many batches fewer apart: no saving is larger.
            drops[i] = max(0, out // d - enters[i] - (out // more - entered // more))


@compiled_part
def raised(windows: Any, copies: Any, move: int, new: Any) -> None:
    """Write the copies after a move to `new`: of one stage, or of all with most batches for their number."""
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


class Turn(NamedTuple):
    """A choice of the next move, with n stages: of the moves of single stages, and of all together, number n.

    drops: most steps that each stage alone can save, enters: room to work them out; cost: arrays of every
    move; promise: most steps that it can save per array, -1 once it was timed; drop: float64, one value, the
    most that a timed one saves; new: copies after a move.
    """

    drops: Any
    enters: Any
    cost: Any
    promise: Any
    drop: Any
    new: Any


class Climb(NamedTuple):
    """A climb that is under way, int64. copies, best: of every stage; at: see `WORK` and what follows it."""

    copies: Any
    best: Any
    at: Any
    turn: Turn

    @classmethod
    def of(cls, copies: Ints) -> Climb:
        """Return a climb that begins at these copies."""
        n = len(copies)
        drops, enters, cost, new = np.zeros((4, n + 1), dtype=np.int64)
        turn = Turn(drops[:n], enters[:n], cost, np.zeros(n + 1), np.zeros(1), new[:n])
        return cls(copies.copy(), copies.copy(), np.zeros(6, dtype=np.int64), turn)


# Places in `Climb.at`
WORK = 0  # work done, in batches timed
_STATE = 1  # state of the climb: _BEGIN, _NEXT or _CHOOSING
_MAKESPAN = 2  # of the current copies
_SHORTEST = 3  # makespan of the best copies that were found
_CHOSEN = 4  # timed move that saves most per array, -1 for none
_LIKELY = 5  # most promising move before any was timed, -1 for none
_BEGIN = 0  # state: nothing is timed yet
_NEXT = 1  # state: a move was made
_CHOOSING = 2  # state: moves are timed to choose one


@compiled_part
def _price_moves(windows: Any, limits: Any, copies: Any, turn: Turn) -> None:
    """Write the arrays that every move costs and its greatest saving per array; -1 if it does not fit.

    The promise of the last move, of all stages with most batches, is left at what is given.
    """
    n, drops, cost, promise, new = len(windows), turn.drops, turn.cost, turn.promise, turn.new
    left = limits.budget - arrays_of(limits.demand, copies)
    for move in range(n):
        more = next_breakpoint(windows[move], copies[move])
        cost[move] = (more - copies[move]) * limits.demand[move]
        promise[move] = -1.0
        if drops[move] >= 0 and 0 < cost[move] <= left and more <= limits.largest[move]:
            promise[move] = drops[move] / cost[move]
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


@compiled_part
def _begin_turn(graph: Any, limits: Any, climb: Climb, schedule: Any) -> None:
    """Price the moves from the copies of a climb."""
    copies, at, turn, n = climb.copies, climb.at, climb.turn, len(climb.copies)
    drops_on_chain(graph, copies, schedule, at[_MAKESPAN], turn.enters, turn.drops)
    turn.promise[n] = at[_MAKESPAN]
    _price_moves(graph.windows, limits, copies, turn)
    move = _most_promising(turn.promise)
    at[_LIKELY], at[_CHOSEN], at[_STATE] = move if turn.promise[move] >= 0 else -1, -1, _CHOOSING
    at[WORK] += _WORK_PER_STAGE * n
    turn.drop[0] = 0.0


@compiled_part
def _try_move(graph: Any, climb: Climb, move: int, schedule: Any) -> int:
    """Time a move; return the batches timed."""
    at, turn, makespan = climb.at, climb.turn, climb.at[_MAKESPAN]
    raised(graph.windows, climb.copies, move, turn.new)
    # A move that saves less per array than the best so far is given up as soon as its timing shows that.
    limit = makespan - 1 - int(turn.drop[0] * turn.cost[move])
    reached, spent = retime(graph, None, None, None, climb.copies, turn.new, limit, schedule)
    if reached != NEVER:
        undo(schedule)
        if (makespan - reached) / turn.cost[move] > turn.drop[0]:
            at[_CHOSEN], turn.drop[0] = move, (makespan - reached) / turn.cost[move]
    turn.promise[move] = -1.0
    return int(spent)


@compiled_part
def _make_move(graph: Any, climb: Climb, move: int, schedule: Any) -> None:
    """Take a move; the copies are kept if they are the fastest so far."""
    copies, best, at, new = climb.copies, climb.best, climb.at, climb.turn.new
    raised(graph.windows, copies, move, new)
    at[_MAKESPAN], spent = retime(graph, None, None, None, copies, new, NEVER, schedule)
    accept(schedule)
    at[WORK] += spent
    copy_to(copies, new)
    if at[_MAKESPAN] < at[_SHORTEST]:
        at[_SHORTEST] = at[_MAKESPAN]
        copy_to(best, copies)
    at[_STATE] = _NEXT


@compiled
def go_on(graph: Any, limits: Any, most_work: int, effort: int, climb: Climb, schedule: Any) -> bool:
    """Go on with a climb for about `effort` batches, of `most_work` in all; False once it has ended.

    Each turn takes the move with the largest drop per array, else the most promising one. With n stages
    there are up to n moves of n stages, so a turn may take many calls.
    """
    at, turn, done = climb.at, climb.turn, 0
    if at[_STATE] == _BEGIN:
        makespan, work = time_all(graph, None, None, climb.copies, schedule)
        at[_MAKESPAN], at[_SHORTEST], at[WORK], at[_STATE] = makespan, makespan, work, _NEXT
    while done < effort:
        if at[_STATE] == _NEXT:
            if at[WORK] >= most_work:
                return False
            _begin_turn(graph, limits, climb, schedule)
        move = _most_promising(turn.promise)
        done += len(climb.copies)
        # Promises bound the true savings from above, so a turn may end at the first that is not better.
        if turn.promise[move] > turn.drop[0] and at[WORK] < _OVERRUN * most_work:
            spent = _try_move(graph, climb, move, schedule)
            at[WORK] += spent
            done += spent
            continue
        move = at[_LIKELY] if at[_CHOSEN] < 0 else at[_CHOSEN]
        if move < 0:
            return False
        _make_move(graph, climb, move, schedule)
    return True
