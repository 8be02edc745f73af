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

import numpy as np

from rramalloc.compiled import compiled, compiled_inline
from rramalloc.search.interval_kernel import prune
from rramalloc.timing.kernel import batch_starts

_PASSES = 12
_ROUNDS = 4
_FEW = 16


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
def _share_budget(demand: Any, budget: int, lo: Any, hi: Any) -> int:
    """Most copies the spare budget leaves for each stage alone; the spare arrays, negative if none."""
    spare = budget
    for i in range(len(lo)):
        spare -= demand[i] * lo[i]
    if spare >= 0:
        for i in range(len(lo)):
            hi[i] = min(hi[i], lo[i] + spare // demand[i])
    return spare


@compiled
def propagate(
    graph: Any, tables: Any, demand: Any, budget: int, early: int, target: int, most: int,
    lo: Any, hi: Any, start: Any, finish: Any, latest: Any,
) -> bool:  # fmt: skip
    """Shrink the box to a fixed point; False if no allocation in it meets target and budget.

    most: intervals per stage for the pruning in interval_kernel, 0 for none; start, finish and latest are
    scratch space.
    """
    for _ in range(_ROUNDS):
        width = (hi - lo).sum()
        if not _shrink(graph, tables, demand, budget, early, target, lo, hi, start, finish, latest):
            return False
        if not _within_prices(graph, tables, demand, budget, early, target, 0, lo, hi, start, latest):
            return False
        if most and not _within_prices(
            graph, tables, demand, budget, early, target, most, lo, hi, start, latest
        ):
            return False
        if (hi - lo).sum() >= 0.98 * width:
            break
    return True


@compiled
def _shrink(
    graph: Any, tables: Any, demand: Any, budget: int, early: int, target: int,
    lo: Any, hi: Any, start: Any, finish: Any, latest: Any,
) -> bool:  # fmt: skip
    """The rules of this module in turn, until none of them bites."""
    for _ in range(_PASSES):
        before = lo.sum() - hi.sum()
        if _share_budget(demand, budget, lo, hi) < 0:
            return False
        forward(graph, tables, early, lo, hi, start, finish)
        backward(graph, tables, early, target, hi, latest)
        if not _raise_lo(graph, tables, lo, hi, start, finish, latest):
            return False
        _lower_hi(graph, tables, early, lo, hi, start, finish, latest)
        if lo.sum() - hi.sum() == before:
            break
    return _share_budget(demand, budget, lo, hi) >= 0


@compiled_inline
def _cheapest(work: int, price: float, low: int, high: int) -> float:
    """At most the minimum over whole d in low ... high of ceil(work / d) + price * (d - low)."""
    if price <= 0.0 or low == high:
        return float((work + high - 1) // high)
    if high - low <= _FEW:
        least = float((work + low - 1) // low)
        for d in range(low + 1, high + 1):
            least = min(least, (work + d - 1) // d + price * (d - low))
        return least
    best = min(max(np.sqrt(work / price), float(low)), float(high))
    d = np.floor(best)
    under = work / d + price * (d - low)
    d = min(d + 1.0, float(high))
    return min(under, work / d + price * (d - low))


@compiled
def _priced_forward(
    graph: Any, tables: Any, demand: Any, early: int, price: float, lo: Any, hi: Any, start: Any,
    before: Any, done: Any,
) -> None:  # fmt: skip
    """Along every path from the input, with a price per array that a stage takes beyond lo:

    before[i] <= start(i) + price * (those arrays of the ancestors of i), done[i] the same for the finish of
    i, its own arrays included. A path visits a stage once, so no array is paid for twice.
    """
    windows, pointer, producer, offset, need = graph
    _, first, _, _, user, _, edge_first = tables
    for i in range(len(windows)):
        before[i] = start[i]
        tail = 0.0
        for edge in range(pointer[i], pointer[i + 1]):
            p = producer[edge]
            window = need[offset[edge] + lo[i] - 1]
            if window >= 0:
                wait = max(1.0, _cheapest(window + 1, price * demand[p], lo[p], hi[p])) - early
                before[i] = max(before[i], before[p] + wait)
                if window == windows[p] - 1:
                    before[i] = max(before[i], done[p] - early)
            last = edge_first[edge] + first[i + 1] - first[i] + first[p + 1] - 1 - first[p]
            if user[last] >= 0:
                rest = _cheapest(windows[i] - user[last], price * demand[i], lo[i], hi[i])
                tail = max(tail, done[p] + max(1.0, rest) - early)
        done[i] = max(tail, before[i] + _cheapest(windows[i], price * demand[i], lo[i], hi[i]))


@compiled
def _priced(
    graph: Any, tables: Any, demand: Any, spare: int, early: int, target: int, price: float,
    lo: Any, hi: Any, start: Any, before: Any, done: Any, after: Any, ahead: Any,
) -> bool:  # fmt: skip
    """Whether the target is still possible when every array beyond lo has a price in steps.

    after[i] is to what remains when i has finished, ahead[i] when it has started, as `before` is to what
    went before; a stage that runs from start to end between them cannot beat the target.
    Raises lo where the remaining time asks for it.
    """
    windows, pointer, producer, offset, need = graph
    _, first, _, _, user, _, edge_first = tables
    _priced_forward(graph, tables, demand, early, price, lo, hi, start, before, done)
    after[:] = 0.0
    ahead[:] = 0.0
    for i in range(len(windows) - 1, -1, -1):
        total = _cheapest(windows[i], price * demand[i], lo[i], hi[i])
        room = target - before[i] - after[i] + price * spare + 1e-6
        if total > room or done[i] + after[i] - price * spare > target + 1e-6 or room < 1.0:
            return False
        steps = np.int64(min(room, 1e15))
        ahead[i] = max(ahead[i], total + after[i])
        for edge in range(pointer[i], pointer[i + 1]):
            p = producer[edge]
            window = need[offset[edge] + lo[i] - 1]
            if window >= 0:
                wait = max(1.0, _cheapest(window + 1, price * demand[p], lo[p], hi[p])) - early
                ahead[p] = max(ahead[p], wait + ahead[i])
                if window == windows[p] - 1:
                    after[p] = max(after[p], ahead[i] - early)
            last = edge_first[edge] + first[i + 1] - first[i] + first[p + 1] - 1 - first[p]
            if user[last] >= 0:
                rest = _cheapest(windows[i] - user[last], price * demand[i], lo[i], hi[i])
                after[p] = max(after[p], after[i] + max(1.0, rest) - early)
        lo[i] = max(lo[i], (windows[i] + steps - 1) // steps)
        if lo[i] > hi[i]:
            return False
    return True


@compiled
def _within_prices(
    graph: Any, tables: Any, demand: Any, budget: int, early: int, target: int, most: int,
    lo: Any, hi: Any, start: Any, latest: Any,
) -> bool:  # fmt: skip
    """The spare budget is shared by all: try prices per array, the box shrinks with each that bites."""
    n = len(lo)
    before, done, after, ahead = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    price = target / (8.0 * budget)
    highest = 8.0 * target * n / budget
    while price < highest:
        spare = _share_budget(demand, budget, lo, hi)
        if spare <= 0:
            return spare == 0
        if most:
            possible = prune(graph, tables, demand, spare, early, target, price, most, lo, hi, start, latest)
        else:
            possible = _priced(
                graph, tables, demand, spare, early, target, price, lo, hi, start, before, done, after, ahead
            )
        if not possible:
            return False
        price *= 2.0
    return _share_budget(demand, budget, lo, hi) >= 0


@compiled
def refute(
    graph: Any, tables: Any, demand: Any, budget: int, early: int, target: int, most: int,
    root_lo: Any, root_hi: Any, most_nodes: int, found: Any,
) -> tuple[int, int]:  # fmt: skip
    """Depth-first search of a box for an allocation that meets the target: (outcome, nodes).

    outcome: 0 there is none (proven), 1 one is in `found`, 2 undecided after most_nodes nodes.
    """
    windows, pointer, producer, offset, need = graph
    n = len(windows)
    room = min(64 * n + 64, 1 + 2**22 // n)
    stack = np.empty((room, 2, n), dtype=np.int64)
    start, finish = np.empty(n, dtype=np.int64), np.empty(tables[2], dtype=np.int64)
    latest = np.empty(tables[2], dtype=np.int64)
    batches = 0
    for i in range(n):
        batches += (windows[i] + root_lo[i] - 1) // root_lo[i]
    starts, index = np.empty(batches, dtype=np.int32), np.empty(n + 1, dtype=np.int64)
    stack[0, 0], stack[0, 1] = root_lo, root_hi
    depth, nodes = 1, 0
    while depth:
        if nodes >= most_nodes or depth + 2 > room:
            return 2, nodes
        nodes += 1
        depth -= 1
        lo, hi = stack[depth, 0].copy(), stack[depth, 1].copy()
        if not propagate(graph, tables, demand, budget, early, target, most, lo, hi, start, finish, latest):
            continue
        makespan = batch_starts(windows, pointer, producer, offset, need, lo, 1 - early, starts, index)
        if makespan <= target:
            found[:] = lo
            return 1, nodes
        chosen, stake = -1, 0
        for i in range(n):
            if demand[i] * (hi[i] - lo[i]) > stake:
                chosen, stake = i, demand[i] * (hi[i] - lo[i])
        if chosen < 0:
            continue
        middle = min(max(np.int64(np.sqrt(float(lo[chosen]) * hi[chosen])), lo[chosen]), hi[chosen] - 1)
        stack[depth, 0], stack[depth, 1] = lo, hi
        stack[depth, 0, chosen] = middle + 1
        stack[depth + 1, 0], stack[depth + 1, 1] = lo, hi
        stack[depth + 1, 1, chosen] = middle
        depth += 2
    return 0, nodes
