"""Compiled propagation of boxes lo <= d <= hi under a target makespan: the rules behind every bound.

All rules hold under exact timing (MODEL.md 4) for every allocation in the box, and tighten when the box
shrinks. Availability of a pixel is its finish, or finish - 1 with handoff "same" (`early` = 1).
Checkpoints are chosen windows of a stage (row ends, the last window always). Per stage i and window w:

  finish(i, w) >= start(i) + ceil((w + 1) / hi)            the batch of w is number floor(w / d)
  finish(i, w) >= finish(i, v) + floor((w - v) / hi)       for v < w: batches are a step apart
  finish(i, w) >= available(p, need(p, i, w)) + 1          for every producer p
  start(i)     >= available(p, need(p, i, lo - 1))         the first batch holds windows 0 ... lo - 1

and the same backwards from the target for the latest finish. A stage whose copies are fixed (lo = hi) is
treated batch by batch.  Source: MODEL.md 4; tested against exhaustive search.
"""

from __future__ import annotations

from typing import Any

from rramalloc.compiled import compiled, compiled_inline

_PASSES = 12


@compiled_inline
def _last_at_most(points: Any, low: int, high: int, window: int) -> int:
    """Largest index in low ... high - 1 with points[index] <= window, low - 1 if there is none."""
    while low < high:
        middle = (low + high) // 2
        if points[middle] <= window:
            low = middle + 1
        else:
            high = middle
    return low - 1


@compiled_inline
def _finish_of(points: Any, first: int, at: int, window: int, start: int, high: int, finish: Any) -> int:
    """Least finish of `window`; `at`: last checkpoint at or before it, `first`: the stage's first one."""
    bound = start + (window + high) // high
    if at >= first:
        bound = max(bound, finish[at] + (window - points[at]) // high)
    return bound


@compiled
def forward(graph: Any, tables: Any, early: int, lo: Any, hi: Any, start: Any, finish: Any) -> None:
    """Least start of every stage and least finish of every checkpoint, producers first."""
    windows, pointer, producer, offset, need = graph
    points, first, _, needed_at, _, _, edge_first = tables
    for i in range(len(windows)):
        begin = 0
        for edge in range(pointer[i], pointer[i + 1]):
            p = producer[edge]
            window = need[offset[edge] + lo[i] - 1]
            if window >= 0:
                at = _last_at_most(points, first[p], first[p + 1], window)
                ready = _finish_of(points, first[p], at, window, start[p], hi[p], finish)
                begin = max(begin, ready - early)
        start[i] = begin
        fixed = lo[i] == hi[i]
        for r in range(first[i], first[i + 1]):
            window = points[r]
            bound = begin + (window + hi[i]) // hi[i]
            if r > first[i]:
                gap = window // hi[i] - points[r - 1] // hi[i] if fixed else (window - points[r - 1]) // hi[i]
                bound = max(bound, finish[r - 1] + gap)
            for edge in range(pointer[i], pointer[i + 1]):
                p = producer[edge]
                if fixed:
                    last = min((window // hi[i] + 1) * hi[i], windows[i]) - 1
                    wanted = need[offset[edge] + last]
                    if wanted < 0:
                        continue
                    at = _last_at_most(points, first[p], first[p + 1], wanted)
                else:
                    wanted = need[offset[edge] + window]
                    if wanted < 0:
                        continue
                    at = needed_at[edge_first[edge] + r - first[i]]
                ready = _finish_of(points, first[p], at, wanted, start[p], hi[p], finish)
                bound = max(bound, ready - early + 1)
            finish[r] = bound


@compiled
def backward(graph: Any, tables: Any, early: int, target: int, hi: Any, latest: Any) -> None:
    """Latest finish of every checkpoint with which the target can be met, consumers first."""
    windows, pointer, producer, _, _ = graph
    points, first, _, _, user, user_at, edge_first = tables
    latest[:] = target
    for i in range(len(windows) - 1, -1, -1):
        end = first[i + 1] - 1
        for r in range(end - 1, first[i] - 1, -1):
            bound = min(latest[r], latest[r + 1] - (points[r + 1] - points[r]) // hi[i])
            latest[r] = min(bound, latest[end] - (points[end] - points[r]) // hi[i])
        for edge in range(pointer[i], pointer[i + 1]):
            p = producer[edge]
            shift = edge_first[edge] + first[i + 1] - first[i] - first[p]
            for r in range(first[p], first[p + 1]):
                window = user[shift + r]
                if window >= 0:
                    at = user_at[shift + r]
                    bound = latest[at] - (points[at] - window) // hi[i]
                    bound = min(bound, latest[end] - (points[end] - window) // hi[i])
                    latest[r] = min(latest[r], bound - 1 + early)


@compiled
def _raise_lo(graph: Any, tables: Any, lo: Any, hi: Any, start: Any, finish: Any, latest: Any) -> bool:
    """Copies that every stage needs to be in time; False if that is more than it may have."""
    windows = graph[0]
    points, first = tables[0], tables[1]
    for i in range(len(windows)):
        copies = lo[i]
        end = first[i + 1] - 1
        for r in range(first[i], end + 1):
            room = latest[r] - start[i]
            if room <= 0 or finish[r] > latest[r]:
                return False
            copies = max(copies, (points[r] + room) // room)
            left = latest[end] - finish[r]
            if left < 0:
                return False
            if r < end:
                copies = max(copies, (points[end] - points[r]) // (left + 1) + 1)
        if copies > hi[i]:
            return False
        lo[i] = copies
    return True


@compiled
def _lower_hi(
    graph: Any, tables: Any, early: int, lo: Any, hi: Any, start: Any, finish: Any, latest: Any
) -> None:
    """Fewer copies where the first batch would wait so long that the rest is late."""
    windows, pointer, producer, offset, need = graph
    points, first = tables[0], tables[1]
    for i in range(len(windows)):
        rest = (windows[i] + hi[i] - 1) // hi[i]
        limit = latest[first[i + 1] - 1] - rest
        for edge in range(pointer[i], pointer[i + 1]):
            p = producer[edge]
            low, high = lo[i], hi[i]
            while low < high:  # most copies whose first batch can start by `limit`
                middle = (low + high + 1) // 2
                window = need[offset[edge] + middle - 1]
                ready = 0
                if window >= 0:
                    at = _last_at_most(points, first[p], first[p + 1], window)
                    ready = _finish_of(points, first[p], at, window, start[p], hi[p], finish) - early
                if ready > limit:
                    high = middle - 1
                else:
                    low = middle
            hi[i] = low


@compiled
def share_budget(demand: Any, budget: int, lo: Any, hi: Any) -> int:
    """Most copies the spare budget leaves for each stage alone; the spare arrays, negative if none."""
    spare = budget
    for i in range(len(lo)):
        spare -= demand[i] * lo[i]
    if spare >= 0:
        for i in range(len(lo)):
            hi[i] = min(hi[i], lo[i] + spare // demand[i])
    return spare


@compiled
def shrink(
    graph: Any, tables: Any, demand: Any, budget: int, early: int, target: int,
    lo: Any, hi: Any, start: Any, finish: Any, latest: Any,
) -> bool:  # fmt: skip
    """The rules of this module in turn, until none of them bites."""
    for _ in range(_PASSES):
        before = lo.sum() - hi.sum()
        if share_budget(demand, budget, lo, hi) < 0:
            return False
        forward(graph, tables, early, lo, hi, start, finish)
        backward(graph, tables, early, target, hi, latest)
        if not _raise_lo(graph, tables, lo, hi, start, finish, latest):
            return False
        _lower_hi(graph, tables, early, lo, hi, start, finish, latest)
        if lo.sum() - hi.sum() == before:
            break
    return share_budget(demand, budget, lo, hi) >= 0
