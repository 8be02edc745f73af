"""Compiled exact timing: the loop over the batches of a stage, and all stages (docs/sources/model.md 4)."""

from __future__ import annotations

from typing import Any

import numpy as np

from rramalloc.compiled import compiled, compiled_part

NEVER: Any = np.int64(2**62)
"""The finish of what must pass a limit."""
NEXT_STEP: Any = np.int64(1)
"""Steps from a start until its pixels can be used with handoff "next"; np.int64, as all else numba passes."""


@compiled_part
def run_stage(
    graph: Any, stage: int, copies: Any, begin: Any, out: int, delay: int, limit: int, starts: Any
) -> tuple[int, int]:
    """Start steps of all batches of a stage from starts[out] on: (finish, batches).

    graph: FlatEdges; starts of producer p stand from starts[begin[p]] on; delay: steps from a producer's
    start until its pixels can be used. Once the finish must pass `limit`: (NEVER, batches before the first
    that must).

    start(b) = max(start(b - 1) + 1, what each edge allows) is the largest of the same recurrence over single
    edges, so the edges are walked one after the other, each with its table and its producer at hand.
    """
    d, windows, need = copies[stage], graph.windows[stage], graph.need
    batches = (windows + d - 1) // d
    if batches > limit:
        return NEVER, 0
    for batch in range(batches):
        starts[out + batch] = batch
    counted = batches
    for edge in range(graph.pointer[stage], graph.pointer[stage + 1]):
        p = graph.producer[edge]
        offset, ready, inverse = graph.offset[edge], begin[p], 1.0 / copies[p]
        time, last = -1, -1
        for batch in range(counted):
            last += d
            if last >= windows:
                last = windows - 1
            time += 1
            if starts[out + batch] > time:
                time = starts[out + batch]
            window = need[offset + last]
            if window >= 0:
                # exact: (window + 0.5) / d is at least 0.5 / d away from a whole number
                available = starts[ready + np.int64((window + 0.5) * inverse)] + delay
                if available > time:
                    time = available
            if time + batches - batch > limit:
                counted = batch
                break
            starts[out + batch] = time
    if counted < batches:
        return NEVER, counted
    return starts[out + batches - 1] + 1, batches


@compiled
def batch_starts(graph: Any, copies: Any, delay: int, starts: Any, first: Any) -> int:
    """Start step of every batch of every stage; returns the makespan.

    copies: int64 of length n; delay: 1 for handoff "next", 0 for "same"; starts: int32 room for all batches,
    written; first: int64 of length n + 1, written: stage i has starts[first[i]] ... starts[first[i + 1] - 1].
    """
    makespan = 0
    first[0] = 0
    for stage in range(len(graph.windows)):
        finish, batches = run_stage(graph, stage, copies, first, first[stage], delay, NEVER, starts)
        first[stage + 1] = first[stage] + batches
        if finish > makespan:
            makespan = finish
    return makespan


@compiled
def makespans(graph: Any, replications: Any, delay: int, result: Any) -> None:
    """Exact makespan of every row of `replications` (int64, k x n) into `result` (int64, k)."""
    most = 0
    for windows in graph.windows:
        most += windows
    starts = np.empty(most, dtype=np.int32)
    first = np.empty(len(graph.windows) + 1, dtype=np.int64)
    for row in range(len(replications)):
        result[row] = batch_starts(graph, replications[row], delay, starts, first)
