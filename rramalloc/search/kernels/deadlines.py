"""Compiled deadlines: when batches must have ended for a target to be met, and what still meets it.

With the exact schedule of a state and its deadlines, a stage may take another mode if its consumers still
start in time: nothing else has to be timed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rramalloc.compiled import compiled_part
from rramalloc.ndarrays import sparse
from rramalloc.search.kernels.limits import batches_of
from rramalloc.search.kernels.schedule import differ, run_apart, two_places
from rramalloc.timing.kernel import NEVER
from rramalloc.timing.stage_graph import FlatEdges


class Deadlines(NamedTuple):
    """Latest finish of every batch with which no stage ends after a target; written by `set_deadlines`.

    finish: two places for the batches of every stage; begin[i]: where those in force stand, spare[i]: the
    other place; moved: stages whose deadlines the last `renew` changed. Edges edge[pointer[p]] ...
    edge[pointer[p + 1] - 1] leave stage p, each into stage user[...] of the same place.
    """

    finish: Any
    begin: Any
    spare: Any
    moved: Any
    pointer: Any
    edge: Any
    user: Any

    @classmethod
    def of(cls, edges: FlatEdges) -> Deadlines:
        """Return memory for the deadlines of any blocks and copies."""
        n = len(edges.height)
        edge = np.argsort(edges.producer, kind="stable")
        leave = np.bincount(edges.producer, minlength=n)
        pointer = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(leave, dtype=np.int64)))
        most = edges.height * edges.width
        finish = sparse(2 * int(most.sum()), np.int64)
        moved = np.empty(n, dtype=np.bool_)
        return cls(finish, *two_places(most), moved, pointer, edge, edges.consumer[edge])


@compiled_part
def set_deadlines(
    edges: Any, shapes: Any, ticks: Any, copies: Any, needs: Any, target: int, deadlines: Any
) -> None:
    """Write the deadlines of a state under a target; edges, shapes, ticks: as for `run_stage`."""
    for i in range(len(copies) - 1, -1, -1):
        _fill(edges, shapes, ticks, copies, needs, target, i, deadlines)
        deadlines.begin[i], deadlines.spare[i] = deadlines.spare[i], deadlines.begin[i]


@compiled_part
def _fill(
    edges: Any, shapes: Any, ticks: Any, copies: Any, needs: Any, target: int, p: int, deadlines: Any
) -> int:
    """Write the deadlines of stage p, from its consumers, to its spare place; the batches looked at."""
    finish, out, batches = deadlines.finish, deadlines.spare[p], batches_of(shapes.total[p], copies[p])
    for batch in range(batches):
        finish[out + batch] = target
    work = batches
    for at in range(deadlines.pointer[p], deadlines.pointer[p + 1]):
        edge, i = deadlines.edge[at], deadlines.user[at]
        used_from, needed_from = deadlines.begin[i], needs.first[edge]
        before, users = ticks[i] + edges.lag[edge], batches_of(shapes.total[i], copies[i])
        work += users
        for batch in range(users):
            needed = needs.batch[needed_from + batch]
            # A batch must end a batch length and a lag before the deadline of every batch that needs it.
            if needed >= 0 and finish[used_from + batch] - before < finish[out + needed]:
                finish[out + needed] = finish[used_from + batch] - before
    for batch in range(batches - 2, -1, -1):
        # The batches of a stage follow one another, so a deadline is at least a batch before the next one.
        after = finish[out + batch + 1] - ticks[p]
        if after < finish[out + batch]:
            finish[out + batch] = after
    return work


@compiled_part
def renew(
    edges: Any, shapes: Any, ticks: Any, copies: Any, needs: Any, target: int, changed: int, deadlines: Any
) -> int:
    """Set the deadlines after a stage took another mode: its own, and upstream of it; the work."""
    finish, begin, spare, moved = deadlines.finish, deadlines.begin, deadlines.spare, deadlines.moved
    work = 0
    for p in range(changed, -1, -1):
        moved[p] = False
        touched = p == changed
        for at in range(deadlines.pointer[p], deadlines.pointer[p + 1]):
            # Deadlines depend on consumers alone: only stages upstream of a deadline that moved can change.
            touched = touched or (deadlines.user[at] <= changed and moved[deadlines.user[at]])
        if not touched:
            continue
        work += _fill(edges, shapes, ticks, copies, needs, target, p, deadlines)
        if p == changed or differ(finish, begin[p], spare[p], batches_of(shapes.total[p], copies[p])):
            moved[p] = True
            begin[p], spare[p] = spare[p], begin[p]
    return work


@compiled_part
def meets(
    edges: Any, shapes: Any, ticks: Any, copies: Any, target: int, changed: int, schedule: Any, deadlines: Any
) -> tuple[bool, int]:
    """Return (whether the target is met after a stage took another mode, the work as of `retime`).

    schedule, deadlines: of the state before; the spare places of the schedule are used.
    """
    starts, begin, spare = schedule.starts, schedule.begin, schedule.spare
    finish, work = run_apart(edges, shapes, ticks, copies, changed, target, schedule, None)
    work *= 1 + edges.pointer[changed + 1] - edges.pointer[changed]
    if finish == NEVER:
        return False, work
    begin[changed], spare[changed] = spare[changed], begin[changed]
    met, at, end = True, deadlines.pointer[changed], deadlines.pointer[changed + 1]
    # Deadlines of the consumers sum up the rest of the network: if all direct consumers keep theirs, every
    # stage after them does too, and the makespan meets the target.
    while met and at < end:
        i = deadlines.user[at]
        finish, batches = run_apart(edges, shapes, ticks, copies, i, target, schedule, None)
        met = finish != NEVER and _in_time(starts, spare[i], ticks[i], batches, deadlines, i)
        work += batches * (1 + edges.pointer[i + 1] - edges.pointer[i])
        at += 1
    begin[changed], spare[changed] = spare[changed], begin[changed]
    return met, work


@compiled_part
def _in_time(starts: Any, at: int, period: int, batches: int, deadlines: Any, stage: int) -> bool:
    """Return True if the batches of a stage, with starts[at] ..., end by their deadlines."""
    begin, batch = deadlines.begin[stage], 0
    while batch < batches and starts[at + batch] + period <= deadlines.finish[begin + batch]:
        batch += 1
    return batch == batches
