"""Compiled rebalancing: give every stage the copies that its own slack in the exact schedule asks for."""

from __future__ import annotations

from typing import Any

import numpy as np

from rramalloc.compiled import compiled, compiled_part
from rramalloc.search.archive import keep, would_keep
from rramalloc.search.kernels.limits import (
    arrays_of,
    batches_of,
    copy_to,
    packing_scratch,
    placeable,
    with_batches,
)
from rramalloc.timing.kernel import NEXT_STEP, batch_starts


@compiled_part
def latest_starts(graph: Any, copies: Any, first: Any, makespan: int, latest: Any) -> None:
    """Latest finish of every batch with which the makespan is kept, consumers first."""
    windows, need = graph.windows, graph.need
    n = len(windows)
    for batch in range(first[n]):
        latest[batch] = makespan
    for i in range(n - 1, -1, -1):
        base, batches = first[i], first[i + 1] - first[i]
        for batch in range(batches - 2, -1, -1):
            after = latest[base + batch + 1] - 1
            if after < latest[base + batch]:
                latest[base + batch] = after
        for edge in range(graph.pointer[i], graph.pointer[i + 1]):
            p, offset = graph.producer[edge], graph.offset[edge]
            inverse, ready = 1.0 / copies[p], first[p]
            last = -1
            for batch in range(batches):
                last += copies[i]
                if last >= windows[i]:
                    last = windows[i] - 1
                window = need[offset + last]
                if window >= 0:
                    at = ready + np.int64((window + 0.5) * inverse)
                    if latest[base + batch] - 1 < latest[at]:
                        latest[at] = latest[base + batch] - 1


@compiled_part
def _wanted(
    windows: Any, limits: Any, copies: Any, room: Any, extra: int, damping: int, wanted: Any
) -> int:  # fmt: skip
    """Copies with which every stage ends in its room + `extra` steps; the arrays they take.

    damping: quarters of the way, on a logarithmic scale, from the present copies to those wanted.
    """
    used = 0
    for i in range(len(windows)):
        steps = max(room[i] + extra, 1)
        goal = float(min(max(batches_of(windows[i], steps), limits.smallest[i]), limits.largest[i]))
        now = float(copies[i])
        if damping == 1:
            goal = np.sqrt(now * np.sqrt(now * goal))
        elif damping == 2:
            goal = np.sqrt(now * goal)
        elif damping == 3:
            goal = np.sqrt(goal * np.sqrt(now * goal))
        rounded = min(max(np.int64(goal + 0.5), limits.smallest[i]), limits.largest[i])
        wanted[i] = max(with_batches(windows[i], batches_of(windows[i], rounded)), limits.smallest[i])
        used += wanted[i] * limits.demand[i]
    return used


@compiled
def rebalance(
    graph: Any, limits: Any, rounds: int, damping: int, copies: Any, best: Any, slots: Any
) -> tuple[int, int]:  # fmt: skip
    """Iterate from `copies` (changed in place): (best makespan within the budget, batches simulated).

    Each round simulates exactly, finds when every stage starts and when it must end at the latest, and
    gives it the copies for that room, lengthened equally for all until the budget is met.
    slots: as for `anneal`. The best allocation is in `best`; the makespan is 0 if none was within the budget
    and placeable.
    """
    windows, n = graph.windows, len(graph.windows)
    most = 0
    for i in range(n):
        most += windows[i]
    starts, latest = np.empty(most, dtype=np.int32), np.empty(most, dtype=np.int32)
    first, room = np.empty(n + 1, dtype=np.int64), np.empty(n, dtype=np.int64)
    wanted = np.empty(n, dtype=np.int64)
    scratch = packing_scratch(limits.room)
    shortest, simulated = 0, 0
    for _ in range(rounds):
        used = arrays_of(limits.demand, copies)
        makespan = batch_starts(graph, None, None, copies, NEXT_STEP, starts, first)
        simulated += first[n]
        faster = used <= limits.budget and (shortest == 0 or makespan < shortest)
        if (faster or would_keep(slots, used, makespan)) and placeable(limits.room, copies, scratch):
            keep(slots, used, makespan, copies)
            if faster:
                shortest = makespan
                copy_to(best, copies)
        latest_starts(graph, copies, first, makespan, latest)
        tightest = 0
        for i in range(n):
            room[i] = latest[first[i + 1] - 1] - starts[first[i]]
            tightest = max(tightest, room[i])
        low, high = 1 - tightest, most
        while low < high:
            middle = (low + high) // 2
            if _wanted(windows, limits, copies, room, middle, damping, wanted) <= limits.budget:
                high = middle
            else:
                low = middle + 1
        if _wanted(windows, limits, copies, room, low, damping, wanted) > limits.budget:
            break
        settled = True
        for i in range(n):
            settled = settled and wanted[i] == copies[i]
        if settled:
            break
        copy_to(copies, wanted)
    return shortest, simulated
