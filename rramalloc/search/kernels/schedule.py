"""Compiled retiming: the exact schedule of an allocation, and what a change of its copies makes of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rramalloc.compiled import compiled_maker, compiled_part
from rramalloc.timing.kernel import NEVER, NEXT_STEP, Needs, run_stage


class Schedule(NamedTuple):
    """The schedule of an allocation, and room for that of a neighbour.

    starts: two places for the batch starts of every stage; begin[i]: where those in force stand,
    spare[i]: the other place; finish: of every stage, new_finish: where `moved`, stages whose places the last
    `retime` swapped because their starts changed; needs: Needs that are kept, or None.
    """

    starts: Any
    begin: Any
    spare: Any
    finish: Any
    new_finish: Any
    moved: Any
    needs: Any


@compiled_part
def run_apart(
    edges: Any, shapes: Any, ticks: Any, copies: Any, stage: int, limit: int, schedule: Any, needs: Any
) -> tuple[int, int]:  # fmt: skip
    """As `run_stage`, in the other place of the stage."""
    return run_stage(
        edges, shapes, ticks, stage, copies, schedule.begin, schedule.spare[stage], NEXT_STEP, limit,
        schedule.starts, needs,
    )  # fmt: skip


@compiled_part
def retime(
    edges: Any, shapes: Any, ticks: Any, reshaped: Any, old: Any, new: Any, limit: int, schedule: Any
) -> tuple[int, int]:  # fmt: skip
    """(makespan, work) after the copies `old` became `new`; only what depends on the change is timed again.

    edges, shapes, ticks: as for `run_stage`; reshaped: where shapes are given, stages whose blocks changed
    as well.

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
        changed = new[i] != old[i]
        if shapes is not None:
            changed = changed or reshaped[i]
        touched = changed
        for edge in range(low, high):
            touched = touched or moved[edges.producer[edge]]
        finish = schedule.finish[i]
        if touched:
            finish, batches = run_apart(edges, shapes, ticks, new, i, limit, schedule, schedule.needs)
            if finish == NEVER:
                undo(schedule)
                return NEVER, work + batches
            work += batches * (1 + high - low)
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
    """Whether so many times from two places on are not the same."""
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


@compiled_maker
def new_needs(edges: Any) -> Needs:
    """Room for what batches need by all edges, whatever the blocks."""
    first = np.zeros(len(edges.producer) + 1, dtype=np.int64)
    for i in range(len(edges.height)):
        for edge in range(edges.pointer[i], edges.pointer[i + 1]):
            first[edge + 1] = first[edge] + edges.height[i] * edges.width[i]
    return Needs(first, np.empty(first[-1], dtype=np.int32))


@compiled_maker
def timed(
    edges: Any, shapes: Any, ticks: Any, copies: Any, time: Any, needs: Any
) -> tuple[Any, int, int]:  # fmt: skip
    """(schedule, makespan, work) of an allocation; edges, shapes, ticks, needs: as for `run_stage`.

    time: STEPS or TICKS.
    """
    n = len(copies)
    begin, spare = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    total: Any = np.int64(0)
    for i in range(n):
        begin[i] = 2 * total
        most = edges.windows[i] if shapes is None else edges.height[i] * edges.width[i]
        spare[i] = begin[i] + most
        total += most
    schedule = Schedule(
        np.empty(2 * total, dtype=time.dtype), begin, spare, np.zeros(n, dtype=np.int64),
        np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.bool_), needs,
    )  # fmt: skip
    none, every = np.zeros(n, dtype=np.int64), np.ones(n, dtype=np.bool_)
    makespan, work = retime(edges, shapes, ticks, every, none, copies, NEVER, schedule)
    accept(schedule)
    return schedule, makespan, work
