"""Compiled rebalancing: give every stage the copies that its own slack in the exact schedule asks for."""

from __future__ import annotations

from typing import Any

import numpy as np

from rramalloc.compiled import compiled
from rramalloc.mapping.packing_kernel import packing_scratch, placeable
from rramalloc.search.archive_kernel import keep, would_keep
from rramalloc.timing.kernel import batch_starts


@compiled
def _latest(graph: Any, copies: Any, first: Any, makespan: int, delay: int, latest: Any) -> None:
    """Latest finish of every batch with which the makespan is kept, consumers first."""
    windows, pointer, producer, offset, need = graph
    latest[:] = makespan
    for i in range(len(windows) - 1, -1, -1):
        base, batches = first[i], first[i + 1] - first[i]
        for batch in range(batches - 2, -1, -1):
            latest[base + batch] = min(latest[base + batch], latest[base + batch + 1] - 1)
        for edge in range(pointer[i], pointer[i + 1]):
            p = producer[edge]
            inverse = 1.0 / copies[p]
            for batch in range(batches):
                window = need[offset[edge] + min((batch + 1) * copies[i], windows[i]) - 1]
                if window >= 0:
                    at = first[p] + np.int64((window + 0.5) * inverse)
                    latest[at] = min(latest[at], latest[base + batch] - delay)


@compiled
def _wanted(
    graph: Any, demand: Any, smallest: Any, largest: Any, copies: Any, room: Any, extra: int, damping: int,
    wanted: Any,
) -> int:  # fmt: skip
    """Copies with which every stage ends in its room + `extra` steps; the arrays they take.

    damping: quarters of the way, on a logarithmic scale, from the present copies to those wanted.
    """
    windows = graph[0]
    used = 0
    for i in range(len(windows)):
        steps = max(room[i] + extra, 1)
        goal = float(min(max((windows[i] + steps - 1) // steps, smallest[i]), largest[i]))
        now = float(copies[i])
        if damping == 1:
            goal = np.sqrt(now * np.sqrt(now * goal))
        elif damping == 2:
            goal = np.sqrt(now * goal)
        elif damping == 3:
            goal = np.sqrt(goal * np.sqrt(now * goal))
        rounded = min(max(np.int64(goal + 0.5), smallest[i]), largest[i])
        batches = (windows[i] + rounded - 1) // rounded
        wanted[i] = max((windows[i] + batches - 1) // batches, smallest[i])
        used += wanted[i] * demand[i]
    return used


@compiled
def rebalance(
    graph: Any, demand: Any, budget: int, packing: Any, smallest: Any, largest: Any, delay: int, copies: Any,
    rounds: int, damping: int, best: Any, slots: Any,
) -> tuple[int, int]:  # fmt: skip
    """Iterate from `copies` (changed in place): (best makespan within the budget, batches simulated).

    Each round simulates exactly, finds when every stage starts and when it must end at the latest, and
    gives it the copies for that room, lengthened equally for all until the budget is met.
    slots: as for `anneal`. The best allocation is in `best`; the makespan is 0 if none was within the budget
    and placeable.
    """
    windows, pointer, producer, offset, need = graph
    n = len(windows)
    most = int(windows.sum())
    starts, latest = np.empty(most, dtype=np.int32), np.empty(most, dtype=np.int32)
    first, room = np.empty(n + 1, dtype=np.int64), np.empty(n, dtype=np.int64)
    wanted = np.empty(n, dtype=np.int64)
    scratch = packing_scratch(packing[0])
    shortest, simulated = 0, 0
    for _ in range(rounds):
        used = 0
        for i in range(n):
            used += copies[i] * demand[i]
        makespan = batch_starts(windows, pointer, producer, offset, need, copies, delay, starts, first)
        simulated += first[n]
        faster = used <= budget and (shortest == 0 or makespan < shortest)
        if (faster or would_keep(slots, used, makespan)) and placeable(packing, copies, scratch):
            keep(slots, used, makespan, copies)
            if faster:
                shortest = makespan
                best[:] = copies
        _latest(graph, copies, first, makespan, delay, latest[: first[n]])
        tightest = 0
        for i in range(n):
            room[i] = latest[first[i + 1] - 1] - starts[first[i]]
            tightest = max(tightest, room[i])
        low, high = 1 - int(tightest), most
        while low < high:
            middle = (low + high) // 2
            if _wanted(graph, demand, smallest, largest, copies, room, middle, damping, wanted) <= budget:
                high = middle
            else:
                low = middle + 1
        used = _wanted(graph, demand, smallest, largest, copies, room, low, damping, wanted)
        settled = used > budget
        for i in range(n):
            if wanted[i] != copies[i]:
                break
        else:
            settled = True
        if settled:
            break
        copies[:] = wanted
    return shortest, simulated
