"""Compiled retiming: the exact schedule of an allocation, and what a change of its copies makes of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rramalloc.compiled import compiled_inline, compiled_part
from rramalloc.ndarrays import Ints, sparse
from rramalloc.timing.kernel import NEVER, NEXT_STEP, Needs, Timeline, run_stage
from rramalloc.timing.stage_graph import FlatEdges


class Schedule(NamedTuple):
    """The schedule of an allocation, and room for that of a neighbour; made empty, and written by `time_all`.

    starts: two places for the batch starts of every stage; begin[i]: where those in force stand,
    spare[i]: the other place; finish: of every stage, new_finish: where `moved`, stages whose places the last
    `retime` swapped because their starts changed; needs: Needs that are kept.
    """

    starts: Any
    begin: Any
    spare: Any
    finish: Any
    new_finish: Any
    moved: Any
    needs: Any

    @classmethod
    def of_modes(cls, edges: FlatEdges) -> Schedule:
        """Return memory for any blocks and copies."""
        most = edges.height * edges.width
        first = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(most[edges.consumer], dtype=np.int64)))
        needs = Needs(first, sparse(int(first[-1]), np.int32))
        finish, new_finish = np.empty((2, len(most)), dtype=np.int64)
        starts = sparse(2 * int(most.sum()), np.int64)
        moved = np.empty(len(most), dtype=np.bool_)
        return cls(starts, *two_places(most), finish, new_finish, moved, needs)


def two_places(most: Ints) -> tuple[Ints, Ints]:
    """Return the two places for the batches of every stage, one after the other, at most `most` in each."""
    begin = 2 * (np.cumsum(most) - most)
    return begin, begin + most


@compiled_part
def time_all(edges: Any, shapes: Any, ticks: Any, copies: Any, schedule: Any) -> tuple[int, int]:
    """Time an allocation; return (makespan, work). edges, shapes, ticks: as for `run_stage`."""
    begin, makespan, work = schedule.begin, 0, len(copies)
    for i in range(len(copies)):
        timeline = Timeline(copies, begin, schedule.starts, NEXT_STEP)
        finish, batches = run_stage(edges, shapes, ticks, schedule.needs, timeline, i, begin[i], NEVER)
        schedule.finish[i] = finish
        work += batches * (1 + edges.pointer[i + 1] - edges.pointer[i])
        if finish > makespan:
            makespan = finish
    return makespan, work


@compiled_inline
def run_apart(
    edges: Any, shapes: Any, ticks: Any, copies: Any, stage: int, limit: int, schedule: Any, needs: Any
) -> tuple[int, int]:
    """Call `run_stage` into the other place of the stage."""
    timeline = Timeline(copies, schedule.begin, schedule.starts, NEXT_STEP)
    return run_stage(edges, shapes, ticks, needs, timeline, stage, schedule.spare[stage], limit)


@compiled_part
def retime(
    edges: Any, shapes: Any, ticks: Any, reshaped: Any, old: Any, new: Any, limit: int, schedule: Any
) -> tuple[int, int]:
    """Time again what depends on the change from copies `old` to `new`; return (makespan, work).

    edges, shapes, ticks: as for `run_stage`; reshaped: stages whose blocks changed as well.

    The makespan is NEVER if it is above `limit`, and the schedule stays as it was. work: batches times edges
    that were timed, and one for each stage.
    """
    starts, begin, spare, moved = schedule.starts, schedule.begin, schedule.spare, schedule.moved
    n = len(new)
    makespan, work = 0, n
    for i in range(n):
        moved[i] = False
    for i in range(n):
        low, high = edges.pointer[i], edges.pointer[i + 1]
        changed = new[i] != old[i] or reshaped[i]
        touched = changed
        for edge in range(low, high):
            # Exact timing of a stage depends on its own mode and its producers' times alone.
            touched = touched or moved[edges.producer[edge]]
        finish = schedule.finish[i]
        if touched:
            finish, batches = run_apart(edges, shapes, ticks, new, i, limit, schedule, schedule.needs)
            # A finish above the limit makes the makespan exceed it too: the rest need not be timed.
            if finish == NEVER:
                undo(schedule)
                return NEVER, work + batches
            work += batches * (1 + high - low)
            # Where the new times equal the old ones, the change ends here and no consumer is timed for it.
            if changed or differ(starts, begin[i], spare[i], batches):
                moved[i] = True
                begin[i], spare[i] = spare[i], begin[i]
                schedule.new_finish[i] = finish
        if finish > makespan:
            makespan = finish
    if makespan > limit:
        undo(schedule)
        return NEVER, work
    return makespan, work


@compiled_part
def differ(times: Any, one: int, other: int, count: int) -> bool:
    """Return True if `count` times from two places on are not the same."""
    same = 0
    while same < count and times[one + same] == times[other + same]:
        same += 1
    return same < count


@compiled_part
def undo(schedule: Any) -> None:
    """Return to the schedule before the last `retime`."""
    for i in range(len(schedule.moved)):
        if schedule.moved[i]:
            schedule.begin[i], schedule.spare[i] = schedule.spare[i], schedule.begin[i]


@compiled_part
def accept(schedule: Any) -> None:
    """Make the schedule of the last `retime` the one that the next change starts from."""
    for i in range(len(schedule.moved)):
        if schedule.moved[i]:
            schedule.finish[i] = schedule.new_finish[i]
