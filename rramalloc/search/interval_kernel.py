"""Compiled pruning by intervals of copies: a wait depends on the copies on both sides of an edge.

Every stage's box lo ... hi is cut into intervals at breakpoints of ceil(W / d). With d_i in an interval
from `low` up and d_p in one up to `high`, the first batch of i holds windows 0 ... low - 1, so it starts
at least need(p, i, low - 1) // high + hops steps after the first batch of p, that many edges up. Arrays
beyond lo have a price; along a path they add up, and all of them together cannot be more than the spare
budget. An interval in which a stage cannot meet the target on any path through it is cut off.

Source: MODEL.md 4; a Lagrangian relaxation of the budget, tested against exhaustive search.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rramalloc.compiled import compiled

_FAR = 1e18


@compiled
def cut(windows: Any, lo: Any, hi: Any, most: int, low: Any, high: Any, count: Any) -> None:
    """Intervals low[i, m] ... high[i, m], m < count[i] <= most, that cover lo[i] ... hi[i].

    One per breakpoint, or a power of two of them with equal ratios where there are too many.
    """
    for i in range(len(windows)):
        distinct = 0
        d = lo[i]
        while d <= hi[i]:
            distinct += 1
            batches = (windows[i] + d - 1) // d
            if batches <= 1 or distinct > 4 * most:
                break
            d = max(d + 1, (windows[i] + batches - 2) // (batches - 1))
        m = 0
        if distinct <= most:
            d = lo[i]
            while d <= hi[i]:
                batches = (windows[i] + d - 1) // d
                after = hi[i] + 1
                if batches > 1:
                    after = max(d + 1, (windows[i] + batches - 2) // (batches - 1))
                low[i, m] = d
                high[i, m] = min(after - 1, hi[i])
                m += 1
                d = after
        else:
            step = (hi[i] + 1.0) / lo[i]
            parts = 1
            while 2 * parts <= most:
                step = np.sqrt(step)
                parts *= 2
            d, until = lo[i], float(lo[i])
            for part in range(parts):
                until *= step
                end = hi[i] if part == parts - 1 else min(int(until), hi[i])
                if end >= d:
                    low[i, m], high[i, m] = d, end
                    d = end + 1
                    m += 1
        count[i] = m


@compiled
def _from_input(
    windows: Any, wide: Any, early: int, low: Any, high: Any, inverse: Any, count: Any, paid: Any, start: Any,
    begin: Any, done: Any,
) -> None:  # fmt: skip
    """begin[i, m]: least start of i, done[i, m]: least finish, each with what the ancestors of i pay."""
    pointer, producer, offset, need, hops, user = wide
    for i in range(len(windows)):
        for m in range(count[i]):
            begin[i, m] = start[i]
            done[i, m] = 0.0
        for edge in range(pointer[i], pointer[i + 1]):
            p, steps = producer[edge], hops[edge] * (1 - early)
            ended = _FAR
            for k in range(count[p]):
                ended = min(ended, done[p, k] + paid[p, k])
            for m in range(count[i]):
                window = need[offset[edge] + low[i, m] - 1]
                if window >= 0:
                    wait = _FAR
                    for k in range(count[p]):
                        batch = np.int64((window + 0.5) * inverse[p, k])
                        wait = min(wait, begin[p, k] + paid[p, k] + batch)
                    begin[i, m] = max(begin[i, m], wait + steps)
                    if window == windows[p] - 1:
                        begin[i, m] = max(begin[i, m], ended + steps - 1)
                if user[edge] >= 0:
                    rest = (windows[i] - user[edge] + high[i, m] - 1) // high[i, m]
                    done[i, m] = max(done[i, m], ended + steps - 1 + rest)
        for m in range(count[i]):
            run = (windows[i] + high[i, m] - 1) // high[i, m]
            done[i, m] = max(done[i, m], begin[i, m] + run)


@compiled
def _from_target(
    windows: Any, wide: Any, early: int, low: Any, high: Any, inverse: Any, count: Any, paid: Any,
    least_rest: Any, ahead: Any, after: Any,
) -> None:  # fmt: skip
    """ahead[i, m]: least time from the start of i to the end, after[i, m]: from its finish, alike."""
    pointer, producer, offset, need, hops, user = wide
    for i in range(len(windows)):
        for m in range(count[i]):
            ahead[i, m] = 0.0
            after[i, m] = least_rest[i]
    for i in range(len(windows) - 1, -1, -1):
        for m in range(count[i]):
            run = (windows[i] + high[i, m] - 1) // high[i, m]
            ahead[i, m] = max(ahead[i, m], run + after[i, m])
        for edge in range(pointer[i], pointer[i + 1]):
            p, steps = producer[edge], hops[edge] * (1 - early)
            rest = _FAR
            for m in range(count[i]):
                way = 0.0
                if user[edge] >= 0:
                    left = (windows[i] - user[edge] + high[i, m] - 1) // high[i, m]
                    way = left + steps - 1 + after[i, m]
                if need[offset[edge] + low[i, m] - 1] == windows[p] - 1:
                    way = max(way, ahead[i, m] + steps - 1)
                rest = min(rest, way + paid[i, m])
            for k in range(count[p]):
                after[p, k] = max(after[p, k], rest)
                wait = _FAR
                for m in range(count[i]):
                    window = need[offset[edge] + low[i, m] - 1]
                    way = 0.0
                    if window >= 0:
                        way = np.int64((window + 0.5) * inverse[p, k]) + steps + ahead[i, m]
                    wait = min(wait, way + paid[i, m])
                ahead[p, k] = max(ahead[p, k], wait)


@compiled
def prune(
    windows: Any, wide: Any, demand: Any, spare: int, early: int, target: int, price: float, most: int,
    lo: Any, hi: Any, start: Any, rest: Any,
) -> float:  # fmt: skip
    """Cut intervals off both ends of every box at one price per array; the bound the price gives.

    start[i]: least start of stage i, rest[i]: least steps from its finish to the end. If the bound of the
    makespan is above the target, no allocation in the box meets it, and the box is left as it is.
    """
    n = len(windows)
    low, high = np.empty((n, most), dtype=np.int64), np.empty((n, most), dtype=np.int64)
    count = np.empty(n, dtype=np.int64)
    cut(windows, lo, hi, most, low, high, count)
    paid, inverse = np.empty((n, most)), np.empty((n, most))
    for i in range(n):
        for m in range(count[i]):
            paid[i, m] = price * demand[i] * (low[i, m] - lo[i])
            inverse[i, m] = 1.0 / high[i, m]
    begin, done = np.empty((n, most)), np.empty((n, most))
    ahead, after = np.empty((n, most)), np.empty((n, most))
    _from_input(windows, wide, early, low, high, inverse, count, paid, start, begin, done)
    _from_target(windows, wide, early, low, high, inverse, count, paid, rest, ahead, after)
    bound = 0.0
    for i in range(n):
        least = _FAR
        for m in range(count[i]):
            way = max(begin[i, m] + ahead[i, m], done[i, m] + after[i, m]) + paid[i, m]
            begin[i, m] = way
            least = min(least, way)
        bound = max(bound, least - price * spare)
    limit = target + 1e-6
    if bound > limit:
        return bound
    for i in range(n):
        first, last = 0, count[i] - 1
        while begin[i, first] > limit + price * spare:
            first += 1
        while begin[i, last] > limit + price * spare:
            last -= 1
        lo[i], hi[i] = low[i, first], high[i, last]
    return bound
