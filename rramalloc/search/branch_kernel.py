"""Compiled branch and bound: all rules on a box until nothing changes, then the box is split."""

from __future__ import annotations

from typing import Any

import numpy as np

from rramalloc.compiled import compiled
from rramalloc.mapping.packing_kernel import cannot_fit, packing_scratch, placeable
from rramalloc.search.bound_kernel import share_budget, shrink
from rramalloc.search.interval_kernel import prune
from rramalloc.search.price_kernel import priced
from rramalloc.timing.kernel import batch_starts

_ROUNDS = 4
_ENOUGH = 0.98
"""A round that leaves more than this part of the box is the last one."""
_RATIO = 1.5
"""Of successive prices that are tried."""


@compiled
def price_count(stages: int) -> int:
    """Prices that are worth trying: the last one is so high that no array beyond the least is bought."""
    count, price = 1, 1.0 / 8.0
    while price < 8.0 * stages:
        price *= _RATIO
        count += 1
    return count


@compiled
def propagate(
    graph: Any, wide: Any, tables: Any, demand: Any, budget: int, early: int, target: int, most: int,
    near: int, lo: Any, hi: Any, start: Any, finish: Any, latest: Any,
) -> int:  # fmt: skip
    """Shrink the box to a fixed point; -1 if no allocation in it meets target and budget.

    most: intervals per stage for the pruning in interval_kernel, 0 for none; near: number of the price
    that bound best before, only its neighbours are tried, -1 for all. Returns the number of the price that
    bounds best now. start, finish and latest are scratch space.
    """
    for _ in range(_ROUNDS):
        width = (hi - lo).sum()
        if not shrink(graph, tables, demand, budget, early, target, lo, hi, start, finish, latest):
            return -1
        best = _within_prices(
            graph, wide, tables, demand, budget, early, target, most, near, lo, hi, start, latest
        )
        if best < 0:
            return -1
        near = best if near >= 0 else near
        if (hi - lo).sum() >= _ENOUGH * width:
            break
    return best


@compiled
def _within_prices(
    graph: Any, wide: Any, tables: Any, demand: Any, budget: int, early: int, target: int, most: int,
    near: int, lo: Any, hi: Any, start: Any, latest: Any,
) -> int:  # fmt: skip
    """The spare budget is shared by all: try prices per array, the box shrinks with each that bites."""
    windows, first = graph[0], tables[1]
    n = len(lo)
    before, done, after, ahead = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    rest = np.empty(n, dtype=np.int64)
    for i in range(n):
        rest[i] = target - latest[first[i + 1] - 1]
    count = price_count(n)
    begin, end = (max(near - 1, 0), min(near + 2, count)) if near >= 0 else (0, count)
    best, highest = begin, -1.0
    for number in range(begin, end):
        price = target / (8.0 * budget)
        for _ in range(number):
            price *= _RATIO
        spare = share_budget(demand, budget, lo, hi)
        if spare < 0:
            return -1
        if spare == 0:
            return best
        if not priced(
            windows, wide, demand, spare, early, target, price, lo, hi, start, before, done, after, ahead
        ):
            return -1
        spare = share_budget(demand, budget, lo, hi)
        if spare < 0:
            return -1
        if most:
            bound = prune(windows, wide, demand, spare, early, target, price, most, lo, hi, start, rest)
            if bound > target + 1e-6:
                return -1
            if bound > highest:
                best, highest = number, bound
    return best if share_budget(demand, budget, lo, hi) >= 0 else -1


@compiled
def _most_at_stake(demand: Any, lo: Any, hi: Any) -> int:
    """The stage whose box holds the most arrays, -1 if every box holds one allocation only."""
    chosen, stake = -1, 0
    for i in range(len(lo)):
        if demand[i] * (hi[i] - lo[i]) > stake:
            chosen, stake = i, demand[i] * (hi[i] - lo[i])
    return chosen


@compiled
def _split(stack: Any, depth: int, lo: Any, hi: Any, chosen: int) -> None:
    """Both halves of a box, cut at the geometric middle; the one with fewer copies on top."""
    middle = min(max(np.int64(np.sqrt(float(lo[chosen]) * hi[chosen])), lo[chosen]), hi[chosen] - 1)
    stack[depth, 0], stack[depth, 1] = lo, hi
    stack[depth, 0, chosen] = middle + 1
    stack[depth + 1, 0], stack[depth + 1, 1] = lo, hi
    stack[depth + 1, 1, chosen] = middle


@compiled
def refute(
    graph: Any, wide: Any, tables: Any, demand: Any, budget: int, packing: Any, early: int, target: int,
    most: int, root_lo: Any, root_hi: Any, most_nodes: int, found: Any,
) -> tuple[int, int]:  # fmt: skip
    """Depth-first search of a box for an allocation that meets the target: (outcome, nodes).

    outcome: 0 there is none (proven), 1 one is in `found`, 2 undecided after most_nodes nodes, or because
    it is not clear whether the one in `found` can be placed in tiles. All allocations in a box have at
    least the copies of its lower corner, so where that cannot be placed none can.
    """
    windows, pointer, producer, offset, need = graph
    sizes, kind, tiles, arrays = packing
    scratch, doubt = packing_scratch(sizes), 0
    n = len(windows)
    room = min(64 * n + 64, 1 + 2**22 // n)
    stack, near = np.empty((room, 2, n), dtype=np.int64), np.empty(room, dtype=np.int64)
    start, index = np.empty(n, dtype=np.int64), np.empty(n + 1, dtype=np.int64)
    finish, latest = np.empty(tables[2], dtype=np.int64), np.empty(tables[2], dtype=np.int64)
    starts = np.empty(((windows + root_lo - 1) // root_lo).sum(), dtype=np.int32)
    stack[0, 0], stack[0, 1], near[0] = root_lo, root_hi, -1
    depth, nodes = 1, 0
    while depth:
        if nodes >= most_nodes or depth + 2 > room:
            return 2, nodes
        nodes += 1
        depth -= 1
        lo, hi = stack[depth, 0].copy(), stack[depth, 1].copy()
        price = propagate(
            graph, wide, tables, demand, budget, early, target, most, near[depth], lo, hi, start, finish,
            latest,
        )  # fmt: skip
        if price < 0 or (tiles and cannot_fit(sizes, kind, lo, tiles, arrays, scratch)):
            continue
        if batch_starts(windows, pointer, producer, offset, need, lo, 1 - early, starts, index) <= target:
            placed = placeable(packing, lo, scratch)
            if placed or doubt == 0:
                found[:] = lo
            if placed:
                return 1, nodes
            doubt = 2
            continue
        chosen = _most_at_stake(demand, lo, hi)
        if chosen >= 0:
            near[depth], near[depth + 1] = price, price
            _split(stack, depth, lo, hi, chosen)
            depth += 2
    return doubt, nodes
