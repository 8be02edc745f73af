"""Compiled separation: inequalities of the relaxation that a fractional solution violates most.

A label is an interval of copies of a stage, x[i, m] the weight of label m of stage i (their sum is 1).
For a pair (p, i) of Reach whose labels are k and m, three inequalities hold for every allocation:

  start_i >= start_p + wait(k, m)         wait(k, m) = need(low_m - 1) // high_k + hops
  finish_i >= start_p + need(w) // high_k + hops + (W_i - 1 - w) // high_m + 1        for every window w
  finish_i >= finish_p + max(1, ceil((W_i - user) / high_m)) + hops - 1

The first is linear in x only after its pair cost is replaced by the sum a_k + b_m <= wait(k, m) that is
largest at x: the dual of a transport problem, solved along the staircase, and made valid by taking b and
then a as large as all waits allow.  Source: MODEL.md 4.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rramalloc.compiled import compiled


@compiled
def waits(
    wide: Any, low: Any, high: Any, count: Any, x: Any, begin: Any, target: int, a: Any, b: Any, excess: Any
) -> None:
    """For every pair the potentials a[e], b[e] of its wait, and by how much (x, begin) violates it."""
    pointer, producer, offset, need, hops, _ = wide
    labels = x.shape[1]
    cost = np.empty((labels, labels))
    for i in range(len(count)):
        for e in range(pointer[i], pointer[i + 1]):
            p = producer[e]
            for m in range(count[i]):
                window = need[offset[e] + low[i, m] - 1]
                for k in range(count[p]):
                    cost[k, m] = window // high[p, k] + hops[e] if window >= 0 else -float(target)
            _potentials(cost, x[p], x[i], count[p], count[i], a[e], b[e])
            total = begin[p] - begin[i]
            for k in range(count[p]):
                total += a[e, k] * x[p, k]
            for m in range(count[i]):
                total += b[e, m] * x[i, m]
            excess[e] = total


@compiled
def _potentials(cost: Any, left: Any, right: Any, rows: int, columns: int, a: Any, b: Any) -> None:
    """Sums a_k + b_m <= cost[k, m], tight along the staircase that couples `left` and `right`."""
    k, m = 0, 0
    a[0], b[0] = 0.0, cost[0, 0]
    here, there = left[0], right[0]
    while k + 1 < rows or m + 1 < columns:
        if m + 1 == columns or (k + 1 < rows and here <= there):
            there -= here
            k += 1
            here = left[k]
            a[k] = cost[k, m] - b[m]
        else:
            here -= there
            m += 1
            there = right[m]
            b[m] = cost[k, m] - a[k]
    for m in range(columns):
        least = cost[0, m] - a[0]
        for k in range(1, rows):
            least = min(least, cost[k, m] - a[k])
        b[m] = least
    for k in range(rows):
        least = cost[k, 0] - b[0]
        for m in range(1, columns):
            least = min(least, cost[k, m] - b[m])
        a[k] = least


@compiled
def middles(
    windows: Any,
    wide: Any,
    corner: Any,
    corners: Any,
    high: Any,
    count: Any,
    x: Any,
    begin: Any,
    end: Any,
    window: Any,
    excess: Any,
) -> None:
    """For every pair the corner of its table whose inequality (x, begin, end) violates most.

    corners[corner[e]] ... corners[corner[e + 1] - 1]: windows of i to choose from.
    """
    pointer, producer, offset, need, hops, _ = wide
    for i in range(len(count)):
        for e in range(pointer[i], pointer[i + 1]):
            p = producer[e]
            excess[e], window[e] = -1.0, -1
            for c in range(corner[e], corner[e + 1]):
                w = corners[c]
                total = begin[p] - end[i] + hops[e] + 1.0
                for k in range(count[p]):
                    total += x[p, k] * (need[offset[e] + w] // high[p, k])
                for m in range(count[i]):
                    total += x[i, m] * ((windows[i] - 1 - w) // high[i, m])
                if window[e] < 0 or total > excess[e]:
                    excess[e], window[e] = total, w


@compiled
def tails(windows: Any, wide: Any, high: Any, count: Any, x: Any, end: Any, excess: Any) -> None:
    """For every pair by how much (x, end) violates its tail."""
    pointer, producer, _, _, hops, user = wide
    for i in range(len(count)):
        for e in range(pointer[i], pointer[i + 1]):
            excess[e] = -1.0
            if user[e] >= 0:
                total = end[producer[e]] - end[i] + hops[e] - 1.0
                for m in range(count[i]):
                    total += x[i, m] * max(1, (windows[i] - user[e] + high[i, m] - 1) // high[i, m])
                excess[e] = total


@compiled
def upper_hull(need: Any, first: int, count: int, hull: Any) -> int:
    """Corners of the upper hull of the points (w, need[first + w]), those with need < 0 left out."""
    size = 0
    for w in range(count):
        v = need[first + w]
        if v < 0:
            continue
        while size >= 2:
            u, t = hull[size - 1], hull[size - 2]
            if (need[first + u] - need[first + t]) * (w - u) <= (v - need[first + u]) * (u - t):
                size -= 1
            else:
                break
        hull[size] = w
        size += 1
    return size
