"""Compiled exact timing: one pass over the batches of every stage (MODEL.md 4)."""

from __future__ import annotations

from typing import Any

import numpy as np

from rramalloc.compiled import compiled, compiled_inline


@compiled
def batch_starts(
    windows: Any, pointer: Any, producer: Any, offset: Any, need: Any, replication: Any, handoff: int,
    starts: Any, first: Any,
) -> int:  # fmt: skip
    """Start step of every batch of every stage; returns the makespan.

    windows, replication: int64 of length n; the edges as in FlatEdges; handoff: 1 "next", 0 "same".
    starts: int32 room for all batches, written; first: int64 of length n + 1, written: the batches of
    stage i stand at starts[first[i]] ... starts[first[i + 1] - 1].
    """
    makespan = 0
    first[0] = 0
    for stage in range(len(windows)):
        count, d = windows[stage], replication[stage]
        batches = (count + d - 1) // d
        base = first[stage]
        first[stage + 1] = base + batches
        low, high = pointer[stage], pointer[stage + 1]
        if low == high:
            for batch in range(batches):
                starts[base + batch] = batch
        elif high == low + 1:
            p = producer[low]
            _follow_one(
                starts, base, batches, d, count, need, offset[low], first[p], 1.0 / replication[p], handoff
            )
        else:
            time = -1
            for batch in range(batches):
                last = min((batch + 1) * d, count) - 1
                time += 1
                for edge in range(low, high):
                    window = need[offset[edge] + last]
                    if window >= 0:
                        p = producer[edge]
                        # exact: (w + 0.5) / d is at least 0.5 / d away from a whole number
                        at = first[p] + np.int64((window + 0.5) * (1.0 / replication[p]))
                        time = max(time, starts[at] + handoff)
                starts[base + batch] = time
        makespan = max(makespan, starts[base + batches - 1] + 1)
    return makespan


@compiled_inline
def _follow_one(
    starts: Any, base: int, batches: int, d: int, count: int, need: Any, offset: int, ready: int,
    inverse: float, handoff: int,
) -> None:  # fmt: skip
    """The batches of a stage with a single producer."""
    time = -1
    for batch in range(batches):
        window = need[offset + min((batch + 1) * d, count) - 1]
        time += 1
        if window >= 0:
            time = max(time, starts[ready + np.int64((window + 0.5) * inverse)] + handoff)
        starts[base + batch] = time


@compiled
def makespans(
    windows: Any, pointer: Any, producer: Any, offset: Any, need: Any, replications: Any, handoff: int,
    result: Any,
) -> None:  # fmt: skip
    """Exact makespan of every row of `replications` (int64, k x n) into `result` (int64, k)."""
    room = 0
    for row in range(len(replications)):
        total = 0
        for stage in range(len(windows)):
            d = replications[row, stage]
            total += (windows[stage] + d - 1) // d
        room = max(room, total)
    starts = np.empty(room, dtype=np.int32)
    first = np.empty(len(windows) + 1, dtype=np.int64)
    for row in range(len(replications)):
        result[row] = batch_starts(
            windows, pointer, producer, offset, need, replications[row], handoff, starts, first
        )
