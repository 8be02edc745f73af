"""Compiled bounds along whole paths: a price per array lets the spare budget be shared by all stages.

A Lagrangian relaxation of the budget: an allocation that meets it pays at most price * spare in all for
arrays beyond low. So a path whose waits, runs, tails and payments exceed target + price * spare proves
that no allocation in the box meets the target.

`price_paths` takes every stage's cheapest copies on their own. `cut_intervals` also sees that a wait depends
on the copies on both sides of an edge: every stage's box is cut into intervals at breakpoints of ceil(W / d).
Let d_i be in an interval from `low` up and d_p in one up to `high`. The first batch of i holds windows
0 ... low - 1. So it starts at least (need(p, i, low - 1) // high + 1) * t + delay ticks after the first
batch of p, with t the least ticks of a batch of p in its interval. An interval in which a stage cannot meet
the target on any path through it is cut off.

Source: docs/sources/model.md 4; tested against exhaustive search.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rramalloc.compiled import compiled, compiled_inline, compiled_part
from rramalloc.search.kernels.clock import ticks_of
from rramalloc.search.kernels.limits import next_breakpoint

_FEW = 16
"""Copies of which each is tried; of more the minimum is found by its formula."""
_FAR = 1e18  # stands for an infinite time: above every sum of ticks and payments
_SLACK = 1e-6  # a bound must pass a target by this: sums of rounded numbers may exceed the true sum
_EXACT = 2.0**16  # targets up to this many ticks have that slack, longer ones in proportion


class ArrayPrice(NamedTuple):
    """A price in ticks per array beyond the least, for all of `spare` arrays; target: makespan."""

    target: int
    price: float
    spare: int


class Paths(NamedTuple):
    """Scratch: least ticks and payments on paths to and from every stage.

    before: to its start, done: to its finish; ahead: from its start to the end, after: from its finish. With
    one number a stage the stage's own payment is in `done`, and with one an interval it is in none.
    """

    before: Any
    done: Any
    ahead: Any
    after: Any


class Runs(NamedTuple):
    """Scratch: least ticks and payments of every stage for its windows, float64.

    wait, rest: by pair of Reach, of the ancestor until the first batch can start, 0 where it need not wait,
    and of the stage after the last window of the ancestor; all: of all windows of a stage.
    """

    wait: Any
    rest: Any
    all: Any


class Intervals(NamedTuple):
    """Interval m < size[i] of stage i: low[i, m] ... high[i, m] copies; paid: for those beyond the least.

    ticks: of a batch of the fewest of them.
    """

    low: Any
    high: Any
    size: Any
    inverse: Any
    paid: Any
    ticks: Any


class Pricing(NamedTuple):
    """Scratch. paths: a number for each stage, ways: for each interval; rest[i]: ticks after stage i."""

    paths: Paths
    ways: Paths
    runs: Runs
    intervals: Intervals
    rest: Any

    @classmethod
    def of(cls, stages: int, pairs: int, intervals: int) -> Pricing:
        """Return working memory for `stages`, `pairs` of Reach, and `intervals` of every stage."""
        size = stages, intervals
        whole, numbers = np.empty((3, *size), dtype=np.int64), np.empty((6, *size))
        count, rest = np.empty((2, stages), dtype=np.int64)
        return cls(
            Paths(*np.empty((4, stages))),
            Paths(*numbers[:4]),
            Runs(np.empty(pairs), np.empty(pairs), np.empty(stages)),
            Intervals(whole[0], whole[1], count, numbers[4], numbers[5], whole[2]),
            rest,
        )


@compiled_inline
def with_slack(target: int) -> float:
    """Return the value that a bound must pass to refute a target."""
    return float(target + _SLACK * max(1.0, target / _EXACT))


@compiled_part
def _cheapest(work: int, price: float, low: int, high: int) -> float:
    """Return a lower bound of ceil(work / d) + price * (d - low) over low <= d <= high."""
    if price <= 0.0 or low == high:
        return float((work + high - 1) // high)
    if high - low <= _FEW:
        least = float((work + low - 1) // low)
        for d in range(low + 1, high + 1):
            least = min(least, (work + d - 1) // d + price * (d - low))
        return least
    # Without rounding up, work / d + price * (d - low) is convex in d: its minimum over whole d is beside the
    # square root, and is at most the minimum with rounding up.
    best = min(max(np.sqrt(work / price), float(low)), float(high))
    d = np.floor(best)
    under = work / d + price * (d - low)
    d = min(d + 1.0, float(high))
    return float(min(under, work / d + price * (d - low)))


@compiled_inline
def _cheapest_ticks(rules: Any, times: Any, price: float, i: int, work: int, low: Any, high: Any) -> float:
    """Return the least ticks of stage i for `work` windows and its payment; one batch at least."""
    ticks = times.ticks[i]
    batches = _cheapest(work, price * rules.demand[i] / ticks, low[i], high[i])
    return float(ticks * max(1.0, batches))


@compiled_part
def _priced_forward(rules: Any, price: float, low: Any, high: Any, times: Any, paths: Any, runs: Any) -> None:
    """Fill the longest priced paths from the input, with a price per array that a stage takes beyond low:

    before[i] <= start(i) + price * (those arrays of the ancestors of i), done[i] the same for the finish of
    i, its own arrays included. A path visits a stage once, so no array is paid for twice.
    """
    windows, reach = rules.graph.windows, rules.reach
    pointer, producer, offset, need, delays, user = reach
    before, done = paths.before, paths.done
    for i in range(len(windows)):
        before[i] = times.start[i]
        tail = 0.0
        for edge in range(pointer[i], pointer[i + 1]):
            p = producer[edge]
            window = need[offset[edge] + low[i] - 1]
            delay = delays[edge]
            if window >= 0:
                wait = _cheapest_ticks(rules, times, price, p, window + 1, low, high) + delay
                runs.wait[edge] = wait
                before[i] = max(before[i], before[p] + wait)
                if window == windows[p] - 1:
                    before[i] = max(before[i], done[p] + delay)
            if user[edge] >= 0:
                runs.rest[edge] = _cheapest_ticks(rules, times, price, i, windows[i] - user[edge], low, high)
                tail = max(tail, done[p] + runs.rest[edge] + delay)
        runs.all[i] = _cheapest_ticks(rules, times, price, i, windows[i], low, high)
        done[i] = max(tail, before[i] + runs.all[i])


@compiled_part
def price_paths(rules: Any, array_price: Any, low: Any, high: Any, times: Any, paths: Any, runs: Any) -> bool:
    """Return False if Lagrangian path bounds refute the target; raise `low` where they imply it.

    after[i] is to what remains when i has finished, ahead[i] when it has started, as `before` is to what
    went before; a stage that runs from start to end between them cannot beat the target.
    Raises low where the remaining time asks for it.
    """
    windows, reach = rules.graph.windows, rules.reach
    pointer, producer, offset, need, delays, user = reach
    price, bought = array_price.price, array_price.price * array_price.spare
    before, done, ahead, after = paths.before, paths.done, paths.ahead, paths.after
    limit = with_slack(array_price.target)
    _priced_forward(rules, price, low, high, times, paths, runs)
    for i in range(len(windows)):
        after[i] = 0.0
        ahead[i] = 0.0
    for i in range(len(windows) - 1, -1, -1):
        # `bought` is what the budget can pay at most at this price: a path that needs more than the target
        # plus this is in no allocation that meets both.
        total = runs.all[i]
        room = limit - before[i] - after[i] + bought
        if total > room or done[i] + after[i] - bought > limit or room < times.ticks[i]:
            return False
        batches = np.int64(min(room / times.ticks[i], 1e15))
        ahead[i] = max(ahead[i], total + after[i])
        for edge in range(pointer[i], pointer[i + 1]):
            p = producer[edge]
            window = need[offset[edge] + low[i] - 1]
            delay = delays[edge]
            if window >= 0:
                ahead[p] = max(ahead[p], runs.wait[edge] + ahead[i])
                if window == windows[p] - 1:
                    after[p] = max(after[p], ahead[i] + delay)
            if user[edge] >= 0:
                after[p] = max(after[p], after[i] + runs.rest[edge] + delay)
        low[i] = max(low[i], (windows[i] + batches - 1) // batches)
        if low[i] > high[i]:
            return False
    return True


@compiled_part
def intervals_of(windows: Any, lowest: Any, highest: Any, low: Any, high: Any, count: Any) -> None:
    """Write the intervals low[i, m] ... high[i, m], m < count[i], that cover lowest[i] ... highest[i].

    One per breakpoint, or a power of two of them with equal ratios where there is no room for so many.
    """
    most = low.shape[1]
    for i in range(len(windows)):
        m, d = 0, lowest[i]
        while d <= highest[i] and m < most:
            after = next_breakpoint(windows[i], d)
            if after == d or after > highest[i] + 1:
                after = highest[i] + 1
            low[i, m], high[i, m] = d, after - 1
            d = after
            m += 1
        # Too many breakpoints: coarser intervals bound worse, but cover the same copies.
        if d <= highest[i]:
            m = _equal_ratios(lowest[i], highest[i], low[i], high[i])
        count[i] = m


@compiled_part
def _equal_ratios(lowest: int, highest: int, low: Any, high: Any) -> int:
    """Cut lowest ... highest into intervals of equal ratios; how many."""
    step = (highest + 1.0) / lowest
    parts = 1
    while 2 * parts <= len(low):
        step = np.sqrt(step)
        parts *= 2
    m, d, until = 0, lowest, float(lowest)
    for part in range(parts):
        until *= step
        end = highest if part == parts - 1 else min(int(until), highest)
        if end >= d:
            low[m], high[m] = d, end
            d = end + 1
            m += 1
    return m


@compiled_part
def _from_input(windows: Any, reach: Any, intervals: Any, start: Any, paths: Any) -> None:
    """Fill before[i, m], done[i, m]: least start and finish of i, plus the priced arrays of its ancestors."""
    pointer, producer, offset, need, delays, user = reach
    low, high, count, inverse, paid, ticks = intervals
    before, done = paths.before, paths.done
    for i in range(len(windows)):
        for m in range(count[i]):
            before[i, m] = start[i]
            done[i, m] = 0.0
        for edge in range(pointer[i], pointer[i + 1]):
            p, delay, used = producer[edge], delays[edge], user[edge]
            ended = _FAR
            for k in range(count[p]):
                ended = min(ended, done[p, k] + paid[p, k])
            for m in range(count[i]):
                window = need[offset[edge] + low[i, m] - 1]
                if window >= 0:
                    wait = _FAR
                    for k in range(count[p]):
                        batches = np.int64((window + 0.5) * inverse[p, k]) + 1
                        # The best interval of p bounds the wait from below whatever p takes; 0.5 keeps the
                        # product with the inverse on the right side of whole numbers.
                        wait = min(wait, before[p, k] + paid[p, k] + batches * ticks[p, k])
                    before[i, m] = max(before[i, m], wait + delay)
                    if window == windows[p] - 1:
                        before[i, m] = max(before[i, m], ended + delay)
                if used >= 0:
                    rest = (windows[i] - used + high[i, m] - 1) // high[i, m] * ticks[i, m]
                    done[i, m] = max(done[i, m], ended + delay + rest)
        for m in range(count[i]):
            run = (windows[i] + high[i, m] - 1) // high[i, m] * ticks[i, m]
            done[i, m] = max(done[i, m], before[i, m] + run)


@compiled_part
def _from_target(windows: Any, reach: Any, intervals: Any, least_rest: Any, paths: Any) -> None:
    """Fill ahead[i, m] and after[i, m]: least priced time from start and finish of i to the end."""
    pointer, producer, offset, need, delays, user = reach
    low, high, count, inverse, paid, ticks = intervals
    ahead, after = paths.ahead, paths.after
    for i in range(len(windows)):
        for m in range(count[i]):
            ahead[i, m] = 0.0
            after[i, m] = least_rest[i]
    for i in range(len(windows) - 1, -1, -1):
        for m in range(count[i]):
            run = (windows[i] + high[i, m] - 1) // high[i, m] * ticks[i, m]
            ahead[i, m] = max(ahead[i, m], run + after[i, m])
        for edge in range(pointer[i], pointer[i + 1]):
            p, delay, used = producer[edge], delays[edge], user[edge]
            at = offset[edge]
            rest = _FAR
            for m in range(count[i]):
                way = 0.0
                if used >= 0:
                    left = (windows[i] - used + high[i, m] - 1) // high[i, m] * ticks[i, m]
                    way = left + delay + after[i, m]
                if need[at + low[i, m] - 1] == windows[p] - 1:
                    way = max(way, ahead[i, m] + delay)
                rest = min(rest, way + paid[i, m])
            for k in range(count[p]):
                after[p, k] = max(after[p, k], rest)
                wait = _FAR
                for m in range(count[i]):
                    window = need[at + low[i, m] - 1]
                    way = 0.0
                    if window >= 0:
                        batches = np.int64((window + 0.5) * inverse[p, k]) + 1
                        way = batches * ticks[p, k] + delay + ahead[i, m]
                    wait = min(wait, way + paid[i, m])
                ahead[p, k] = max(ahead[p, k], wait)


@compiled_inline
def _fill_intervals(rules: Any, price: float, lowest: Any, highest: Any, intervals: Any) -> None:
    """Cut every box into intervals, with a price in ticks for every array beyond the least."""
    low, high, count, inverse, paid, ticks = intervals
    intervals_of(rules.graph.windows, lowest, highest, low, high, count)
    for i in range(len(count)):
        for m in range(count[i]):
            paid[i, m] = price * rules.demand[i] * (low[i, m] - lowest[i])
            # The fewest arrays, the most copies and the least ticks of an interval: each bounds all copies in
            # it.
            inverse[i, m] = 1.0 / high[i, m]
            ticks[i, m] = ticks_of(rules.clock, i, low[i, m])


@compiled
def ways_to_end(rules: Any, price: float, lowest: Any, highest: Any, pricing: Any) -> None:
    """Write pricing.ways.ahead and .after of all intervals of a box, with pricing.rest given."""
    _fill_intervals(rules, price, lowest, highest, pricing.intervals)
    _from_target(rules.graph.windows, rules.reach, pricing.intervals, pricing.rest, pricing.ways)


@compiled_inline
def cut_intervals(rules: Any, array_price: Any, lowest: Any, highest: Any, start: Any, pricing: Any) -> float:
    """Cut intervals off both ends of every box at one price per array; the bound the price gives.

    start[i]: least start of stage i. If the bound of the makespan is above the target, no allocation in the
    box meets it, and the box is left as it is.
    """
    windows, intervals, paths = rules.graph.windows, pricing.intervals, pricing.ways
    low, high, count, _, paid, _ = intervals
    _fill_intervals(rules, array_price.price, lowest, highest, intervals)
    before, done, ahead, after = paths
    _from_input(windows, rules.reach, intervals, start, paths)
    _from_target(windows, rules.reach, intervals, pricing.rest, paths)
    bound, bought = 0.0, array_price.price * array_price.spare
    for i in range(len(windows)):
        least = _FAR
        for m in range(count[i]):
            way = max(before[i, m] + ahead[i, m], done[i, m] + after[i, m])
            way += paid[i, m]
            before[i, m] = way
            least = min(least, way)
        bound = max(bound, least - bought)
    limit = with_slack(array_price.target)
    if bound > limit:
        return bound
    for i in range(len(windows)):
        first, last = 0, count[i] - 1
        while before[i, first] > limit + bought:
            first += 1
        while before[i, last] > limit + bought:
            last -= 1
        lowest[i], highest[i] = low[i, first], high[i, last]
    return bound
