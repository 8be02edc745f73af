"""Compiled pruning by intervals of copies: a wait depends on the copies on both sides of an edge.

Every stage's box lo ... hi is cut into intervals at breakpoints of ceil(W / d). With d_i in an interval
from `low` up and d_p in one up to `high`, the first batch of i holds windows 0 ... low - 1, so it starts
at least need(p, i, low - 1) // high + 1 steps after the first batch of p. Arrays beyond lo have a price;
along a path they add up, and all of them together cannot be more than the spare budget. An interval in
which a stage cannot meet the target on any path through it is cut off.

Source: MODEL.md 4; a Lagrangian relaxation of the budget, tested against exhaustive search.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rramalloc.compiled import compiled

_FAR = 1e18


@compiled
def _cut(windows: Any, lo: Any, hi: Any, most: int, low: Any, high: Any, count: Any) -> None:
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
    graph: Any, tables: Any, early: int, low: Any, high: Any, count: Any, paid: Any, start: Any,
    begin: Any, done: Any,
) -> None:  # fmt: skip
    """begin[i, m]: least start of i, done[i, m]: least finish, each with what the ancestors of i pay."""
    windows, pointer, producer, offset, need = graph
    _, first, _, _, user, _, edge_first = tables
    for i in range(len(windows)):
        for m in range(count[i]):
            begin[i, m] = start[i]
            done[i, m] = 0.0
        for edge in range(pointer[i], pointer[i + 1]):
            p = producer[edge]
            ended = _FAR
            for k in range(count[p]):
                ended = min(ended, done[p, k] + paid[p, k])
            last = edge_first[edge] + first[i + 1] - first[i] + first[p + 1] - 1 - first[p]
            for m in range(count[i]):
                window = need[offset[edge] + low[i, m] - 1]
                if window >= 0:
                    wait = _FAR
                    for k in range(count[p]):
                        wait = min(wait, begin[p, k] + paid[p, k] + window // high[p, k] + 1 - early)
                    begin[i, m] = max(begin[i, m], wait)
                    if window == windows[p] - 1:
                        begin[i, m] = max(begin[i, m], ended - early)
                if user[last] >= 0:
                    rest = (windows[i] - user[last] + high[i, m] - 1) // high[i, m]
                    done[i, m] = max(done[i, m], ended - early + rest)
        for m in range(count[i]):
            run = (windows[i] + high[i, m] - 1) // high[i, m]
            done[i, m] = max(done[i, m], begin[i, m] + run)


@compiled
def _from_target(
    graph: Any, tables: Any, early: int, low: Any, high: Any, count: Any, paid: Any, latest: Any, target: int,
    ahead: Any, after: Any,
) -> None:  # fmt: skip
    """ahead[i, m]: least time from the start of i to the end, after[i, m]: from its finish, alike."""
    windows, pointer, producer, offset, need = graph
    _, first, _, _, user, _, edge_first = tables
    for i in range(len(windows)):
        for m in range(count[i]):
            ahead[i, m] = 0.0
            after[i, m] = target - latest[first[i + 1] - 1]
    for i in range(len(windows) - 1, -1, -1):
        for m in range(count[i]):
            run = (windows[i] + high[i, m] - 1) // high[i, m]
            ahead[i, m] = max(ahead[i, m], run + after[i, m])
        for edge in range(pointer[i], pointer[i + 1]):
            p = producer[edge]
            last = edge_first[edge] + first[i + 1] - first[i] + first[p + 1] - 1 - first[p]
            rest = _FAR
            for m in range(count[i]):
                way = 0.0
                if user[last] >= 0:
                    left = (windows[i] - user[last] + high[i, m] - 1) // high[i, m]
                    way = left - early + after[i, m]
                if need[offset[edge] + low[i, m] - 1] == windows[p] - 1:
                    way = max(way, ahead[i, m] - early)
                rest = min(rest, way + paid[i, m])
            for k in range(count[p]):
                after[p, k] = max(after[p, k], rest)
                wait = _FAR
                for m in range(count[i]):
                    window = need[offset[edge] + low[i, m] - 1]
                    way = 0.0
                    if window >= 0:
                        way = window // high[p, k] + 1 - early + ahead[i, m]
                    wait = min(wait, way + paid[i, m])
                ahead[p, k] = max(ahead[p, k], wait)


@compiled
def prune(
    graph: Any, tables: Any, demand: Any, spare: int, early: int, target: int, price: float, most: int,
    lo: Any, hi: Any, start: Any, latest: Any,
) -> bool:  # fmt: skip
    """Cut intervals off both ends of every box at one price per array; False if one has none left."""
    windows = graph[0]
    n = len(windows)
    low, high = np.empty((n, most), dtype=np.int64), np.empty((n, most), dtype=np.int64)
    count = np.empty(n, dtype=np.int64)
    _cut(windows, lo, hi, most, low, high, count)
    paid = np.empty((n, most))
    for i in range(n):
        for m in range(count[i]):
            paid[i, m] = price * demand[i] * (low[i, m] - lo[i])
    begin, done = np.empty((n, most)), np.empty((n, most))
    ahead, after = np.empty((n, most)), np.empty((n, most))
    _from_input(graph, tables, early, low, high, count, paid, start, begin, done)
    _from_target(graph, tables, early, low, high, count, paid, latest, target, ahead, after)
    limit = target + price * spare + 1e-6
    for i in range(n):
        lowest, highest = -1, -1
        for m in range(count[i]):
            way = max(begin[i, m] + ahead[i, m], done[i, m] + after[i, m])
            if way + paid[i, m] <= limit:
                lowest = m if lowest < 0 else lowest
                highest = m
        if lowest < 0:
            return False
        lo[i], hi[i] = low[i, lowest], high[i, highest]
    return True
