"""Compiled propagation of boxes low <= d <= high under a target makespan: the rules behind every bound.

All rules hold under exact timing (docs/sources/model.md 4) with handoff "next" for every allocation in the
box, and tighten when the box shrinks. Availability of a pixel is its finish. Checkpoints are chosen windows
of a stage: row ends, and the last window always. Per stage i and window w:

  finish(i, w) >= start(i) + ceil((w + 1) / high) * t            the batch of w is number floor(w / d)
  finish(i, w) >= finish(i, v) + floor((w - v) / high) * t       for v < w: batches are t ticks apart
  finish(i, w) >= available(p, need(p, i, w)) + lag(p, i) + t    for every producer p
  start(i)     >= available(p, need(p, i, low - 1)) + lag(p, i)  the first batch holds windows 0 ... low - 1

with t the ticks of a batch of `low` copies of i, 1 where all stages step together. The same rules hold
backwards from the target for the latest finish. A stage whose copies are fixed (low = high) is
treated batch by batch.  Source: docs/sources/model.md 4; tested against exhaustive search.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rramalloc.compiled import compiled_inline, compiled_part
from rramalloc.search.kernels.clock import ticks_of
from rramalloc.search.kernels.prices import ArrayPrice, cut_intervals, price_paths, with_slack

_PASSES = 12  # over the rules of time; a box that is not at the fixed point is wider, so still valid
_ROUNDS = 4  # of times and prices in turn; fewer leave a wider box, which is still valid
_ENOUGH = 0.98
"""A round that leaves more than this part of the box is the last one."""
_RATIO = 1.5
"""Ratio of successive prices that are tried."""
_CHEAPEST = 1.0 / 8.0  # first price, in target / budget: steps per array
_DEAREST = 8.0  # last price for every stage, in target / budget: it buys no array beyond the least


class Rules(NamedTuple):
    """Parts of a problem that propagation reads.

    graph: FlatEdges; clock: Clock; reach: Reach; checkpoints: Checkpoints; demand: int64 of length n;
    intervals: per stage for the pruning of `cut_intervals`, 0 for none.
    """

    graph: Any
    clock: Any
    reach: Any
    checkpoints: Any
    demand: Any
    budget: int
    intervals: int


class Times(NamedTuple):
    """Scratch: least start of every stage, least and latest finish of every checkpoint; int64.

    ticks: least ticks of a batch of every stage, those of its fewest copies.
    """

    start: Any
    finish: Any
    latest: Any
    ticks: Any

    @classmethod
    def of(cls, stages: int, checkpoints: int) -> Times:
        """Return working memory for `stages` and `checkpoints`."""
        return cls(*(np.empty(size, dtype=np.int64) for size in (stages, checkpoints, checkpoints, stages)))


@compiled_part
def _last_at_most(points: Any, low: int, high: int, window: int) -> int:
    """Return the largest index in low ... high - 1 with points[index] <= window, low - 1 if there is none."""
    while low < high:
        middle = (low + high) // 2
        if points[middle] <= window:
            low = middle + 1
        else:
            high = middle
    return low - 1


@compiled_inline
def _finish_of(checkpoints: Any, times: Any, stage: int, at: int, window: int, high: Any) -> int:
    """Return the least finish of a window of a stage; at: last checkpoint of the stage at or before it."""
    most, ticks = high[stage], times.ticks[stage]
    bound = times.start[stage] + (window + most) // most * ticks
    if at >= checkpoints.first[stage]:
        bound = max(bound, times.finish[at] + (window - checkpoints.points[at]) // most * ticks)
    return bound


@compiled_part
def forward(graph: Any, checkpoints: Any, low: Any, high: Any, times: Any) -> None:
    """Write the least start of every stage and the least finish of every checkpoint, producers first."""
    windows = graph.windows
    pointer = graph.pointer
    producer = graph.producer
    offset = graph.offset
    need = graph.need
    lag = graph.lag
    points, first, start, finish = checkpoints.points, checkpoints.first, times.start, times.finish
    needed_at, edge_first = checkpoints.needed_at, checkpoints.edge_first
    for i in range(len(windows)):
        # `ticks` are those of the fewest copies: more copies never take fewer, so every bound below holds
        # for all allocations in the box.
        begin, most, fixed, ticks = 0, high[i], low[i] == high[i], times.ticks[i]
        for edge in range(pointer[i], pointer[i + 1]):
            p = producer[edge]
            # The first batch holds windows 0 ... low - 1 whatever the copies are, and waits for all of their
            # needs.
            window = need[offset[edge] + low[i] - 1]
            if window >= 0:
                at = _last_at_most(points, first[p], first[p + 1], window)
                begin = max(begin, _finish_of(checkpoints, times, p, at, window, high) + lag[edge])
        start[i] = begin
        for r in range(first[i], first[i + 1]):
            window = points[r]
            # With at most `most` copies a batch, window w is in batch number w // most or a later one.
            bound = begin + (window + most) // most * ticks
            if r > first[i]:
                gap = window // most - points[r - 1] // most if fixed else (window - points[r - 1]) // most
                # Two windows are at least that many batches apart; fixed copies give the exact number.
                bound = max(bound, finish[r - 1] + gap * ticks)
            # A batch waits for the needs of its last window. With copies not fixed only w itself is sure to
            # be in it.
            last = min((window // most + 1) * most, windows[i]) - 1 if fixed else window
            for edge in range(pointer[i], pointer[i + 1]):
                p = producer[edge]
                needed = need[offset[edge] + last]
                if needed < 0:
                    continue
                if fixed:
                    at = _last_at_most(points, first[p], first[p + 1], needed)
                else:
                    at = needed_at[edge_first[edge] + r - first[i]]
                ready = _finish_of(checkpoints, times, p, at, needed, high) + lag[edge]
                bound = max(bound, ready + ticks)
            finish[r] = bound


@compiled_part
def backward(graph: Any, checkpoints: Any, target: int, high: Any, times: Any) -> None:
    """Write the deadline of every checkpoint for the target, consumers first."""
    points, first, edge_first = checkpoints.points, checkpoints.first, checkpoints.edge_first
    user, user_at, pointer, producer = checkpoints.user, checkpoints.user_at, graph.pointer, graph.producer
    latest = times.latest
    for r in range(len(latest)):
        latest[r] = target
    for i in range(len(high) - 1, -1, -1):
        end, ticks = first[i + 1] - 1, times.ticks[i]
        for r in range(end - 1, first[i] - 1, -1):
            # From the batch of one checkpoint to that of the next at least floor(distance / high) batches
            # pass.
            bound = min(latest[r], latest[r + 1] - (points[r + 1] - points[r]) // high[i] * ticks)
            latest[r] = min(bound, latest[end] - (points[end] - points[r]) // high[i] * ticks)
        for edge in range(pointer[i], pointer[i + 1]):
            p = producer[edge]
            shift = edge_first[edge] + first[i + 1] - first[i] - first[p]
            for r in range(first[p], first[p + 1]):
                # `window` is the first of the consumer that needs checkpoint r: it must start a batch after r
                # is there.
                window = user[shift + r]
                if window >= 0:
                    at = user_at[shift + r]
                    bound = latest[at] - (points[at] - window) // high[i] * ticks
                    bound = min(bound, latest[end] - (points[end] - window) // high[i] * ticks)
                    latest[r] = min(latest[r], bound - ticks - graph.lag[edge])


@compiled_part
def _raise_low(checkpoints: Any, low: Any, high: Any, times: Any) -> bool:
    """Raise low to the copies that every stage needs to be in time; False if that exceeds high."""
    points, first = checkpoints.points, checkpoints.first
    start, finish, latest, ticks = times
    for i in range(len(low)):
        copies = low[i]
        end = first[i + 1] - 1
        for r in range(first[i], end + 1):
            # Until its latest finish a window has room for that many batches, so windows 0 ... w need at
            # least ceil((w + 1) / room) copies; the windows after it must go into the batches left until the
            # end.
            room = (latest[r] - start[i]) // ticks[i]
            left = (latest[end] - finish[r]) // ticks[i]
            if room <= 0 or finish[r] > latest[r] or left < 0:
                return False
            copies = max(copies, (points[r] + room) // room)
            if r < end:
                copies = max(copies, (points[end] - points[r]) // (left + 1) + 1)
        if copies > high[i]:
            return False
        low[i] = copies
    return True


@compiled_part
def _lower_high(graph: Any, checkpoints: Any, low: Any, high: Any, times: Any) -> None:
    """Lower the most copies of stages whose first batch would wait until the rest misses its deadline."""
    windows = graph.windows
    pointer = graph.pointer
    producer = graph.producer
    offset = graph.offset
    need = graph.need
    points, first, latest = checkpoints.points, checkpoints.first, times.latest
    for i in range(len(low)):
        # No copies in the box run the stage faster than `high`, so its first batch must start by `limit`.
        # More copies put more windows into the first batch, which then waits longer: the largest that is in
        # time is found by bisection.
        rest = (windows[i] + high[i] - 1) // high[i] * times.ticks[i]
        limit = latest[first[i + 1] - 1] - rest
        for edge in range(pointer[i], pointer[i + 1]):
            p = producer[edge]
            fewest, most = low[i], high[i]
            while fewest < most:  # most copies whose first batch can start by `limit`
                middle = (fewest + most + 1) // 2
                window = need[offset[edge] + middle - 1]
                ready = 0
                if window >= 0:
                    at = _last_at_most(points, first[p], first[p + 1], window)
                    ready = _finish_of(checkpoints, times, p, at, window, high) + graph.lag[edge]
                if ready > limit:
                    most = middle - 1
                else:
                    fewest = middle
            high[i] = fewest


@compiled_part
def box_size(low: Any, high: Any) -> int:
    """Return the copies by which the two ends of a box differ, of all stages."""
    copies = 0
    for i in range(len(low)):
        copies += high[i] - low[i]
    return copies


@compiled_part
def share_budget(demand: Any, budget: int, low: Any, high: Any) -> int:
    """Lower the most copies to what the spare budget leaves each stage alone; return the spare arrays."""
    spare = budget
    for i in range(len(low)):
        spare -= demand[i] * low[i]
    if spare >= 0:
        for i in range(len(low)):
            # All other stages need their fewest copies at least, so one stage can take the whole spare budget
            # at most.
            high[i] = min(high[i], low[i] + spare // demand[i])
    return spare


@compiled_part
def least_ticks(clock: Any, low: Any, ticks: Any) -> None:
    """Write the ticks of a batch of every stage with its fewest copies."""
    for i in range(len(low)):
        ticks[i] = ticks_of(clock, i, low[i])


@compiled_inline
def _tighten_times(rules: Any, target: int, low: Any, high: Any, times: Any) -> bool:
    """Apply the rules of this module until none of them tightens the box; False if it is empty."""
    graph, checkpoints = rules.graph, rules.checkpoints
    for _ in range(_PASSES):
        before = box_size(low, high)
        if share_budget(rules.demand, rules.budget, low, high) < 0:
            return False
        least_ticks(rules.clock, low, times.ticks)
        forward(graph, checkpoints, low, high, times)
        backward(graph, checkpoints, target, high, times)
        if not _raise_low(checkpoints, low, high, times):
            return False
        _lower_high(graph, checkpoints, low, high, times)
        if box_size(low, high) == before:
            break
    return share_budget(rules.demand, rules.budget, low, high) >= 0


@compiled_part
def price_count(stages: int) -> int:
    """Return the number of prices worth trying."""
    count, price = 1, _CHEAPEST
    while price < _DEAREST * stages:
        price *= _RATIO
        count += 1
    return count


@compiled_inline
def price_of(target: int, budget: int, number: int) -> float:
    """Return a price, in ticks per array, by its number."""
    price = target * _CHEAPEST / budget
    for _ in range(number):
        price *= _RATIO
    return price


@compiled_inline
def _tighten_prices(rules: Any, target: int, near: int, low: Any, high: Any, times: Any, pricing: Any) -> int:
    """Tighten the box by each price per array that is violated: all stages share the spare budget.

    Returns the number of the price that bounds best, -1 if the box is empty.
    """
    n, demand, budget = len(low), rules.demand, rules.budget
    for i in range(n):
        pricing.rest[i] = target - times.latest[rules.checkpoints.first[i + 1] - 1]
    begin, end = 0, price_count(n)
    if near >= 0:
        begin, end = max(near - 1, 0), min(near + 2, end)
    best, highest = begin, -1.0
    for number in range(begin, end):
        price = price_of(target, budget, number)
        spare = share_budget(demand, budget, low, high)
        if spare < 0:
            return -1
        if spare == 0:
            return best
        # By weak duality every price >= 0 gives a valid bound; the prices differ only in strength.
        array_price = ArrayPrice(target, price, spare)
        if not price_paths(rules, array_price, low, high, times, pricing.paths, pricing.runs):
            return -1
        spare = share_budget(demand, budget, low, high)
        if spare < 0:
            return -1
        if rules.intervals:
            bound = cut_intervals(rules, ArrayPrice(target, price, spare), low, high, times.start, pricing)
            if bound > with_slack(target):
                return -1
            if bound > highest:
                best, highest = number, bound
    return best if share_budget(demand, budget, low, high) >= 0 else -1


@compiled_inline
def propagate(rules: Any, target: int, near: int, low: Any, high: Any, times: Any, pricing: Any) -> int:
    """Shrink the box to a fixed point; -1 if no allocation in it meets target and budget.

    near: number of the price that bound best before, only its neighbours are tried, -1 for all. Returns the
    number of the price that bounds best now.
    """
    best = -1
    for _ in range(_ROUNDS):
        before = box_size(low, high)
        if not _tighten_times(rules, target, low, high, times):
            return -1
        best = _tighten_prices(rules, target, near, low, high, times, pricing)
        if best < 0:
            return -1
        near = best if near >= 0 else near
        if box_size(low, high) >= _ENOUGH * before:
            break
    return best
