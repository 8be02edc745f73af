"""Compiled bounds along whole paths: a price per array lets the spare budget be shared by all stages.

A Lagrangian relaxation of the budget: an allocation that meets it pays at most price * spare in all for
arrays beyond lo, so a path whose waits, runs, tails and payments exceed target + price * spare proves
that no allocation in the box meets the target.  Source: MODEL.md 4; tested against exhaustive search.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rramalloc.compiled import compiled, compiled_inline

_FEW = 16


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
    windows: Any, wide: Any, demand: Any, early: int, price: float, lo: Any, hi: Any, start: Any,
    before: Any, done: Any,
) -> None:  # fmt: skip
    """Along every path from the input, with a price per array that a stage takes beyond lo:

    before[i] <= start(i) + price * (those arrays of the ancestors of i), done[i] the same for the finish of
    i, its own arrays included. A path visits a stage once, so no array is paid for twice.
    """
    pointer, producer, offset, need, hops, user = wide
    for i in range(len(windows)):
        before[i] = start[i]
        tail = 0.0
        for edge in range(pointer[i], pointer[i + 1]):
            p = producer[edge]
            window = need[offset[edge] + lo[i] - 1]
            extra = (hops[edge] - 1) * (1 - early)
            if window >= 0:
                wait = max(1.0, _cheapest(window + 1, price * demand[p], lo[p], hi[p])) - early + extra
                before[i] = max(before[i], before[p] + wait)
                if window == windows[p] - 1:
                    before[i] = max(before[i], done[p] - early + extra)
            if user[edge] >= 0:
                rest = _cheapest(windows[i] - user[edge], price * demand[i], lo[i], hi[i])
                tail = max(tail, done[p] + max(1.0, rest) - early + extra)
        done[i] = max(tail, before[i] + _cheapest(windows[i], price * demand[i], lo[i], hi[i]))


@compiled
def priced(
    windows: Any, wide: Any, demand: Any, spare: int, early: int, target: int, price: float,
    lo: Any, hi: Any, start: Any, before: Any, done: Any, after: Any, ahead: Any,
) -> bool:  # fmt: skip
    """Whether the target is still possible when every array beyond lo has a price in steps.

    after[i] is to what remains when i has finished, ahead[i] when it has started, as `before` is to what
    went before; a stage that runs from start to end between them cannot beat the target.
    Raises lo where the remaining time asks for it.
    """
    pointer, producer, offset, need, hops, user = wide
    _priced_forward(windows, wide, demand, early, price, lo, hi, start, before, done)
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
            extra = (hops[edge] - 1) * (1 - early)
            if window >= 0:
                wait = max(1.0, _cheapest(window + 1, price * demand[p], lo[p], hi[p])) - early + extra
                ahead[p] = max(ahead[p], wait + ahead[i])
                if window == windows[p] - 1:
                    after[p] = max(after[p], ahead[i] - early + extra)
            if user[edge] >= 0:
                rest = _cheapest(windows[i] - user[edge], price * demand[i], lo[i], hi[i])
                after[p] = max(after[p], after[i] + max(1.0, rest) - early + extra)
        lo[i] = max(lo[i], (windows[i] + steps - 1) // steps)
        if lo[i] > hi[i]:
            return False
    return True
