"""Compiled branch and bound: all rules on a box until nothing changes, then the box is split."""

from __future__ import annotations

from typing import Any

import numpy as np

from rramalloc.compiled import compiled
from rramalloc.search.bound_kernel import share_budget, shrink
from rramalloc.search.interval_kernel import prune
from rramalloc.search.price_kernel import priced
from rramalloc.timing.kernel import batch_starts

_ROUNDS = 4
_ENOUGH = 0.98
"""A round that leaves more than this part of the box is the last one."""


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
        if not shrink(graph, tables, demand, budget, early, target, lo, hi, start, finish, latest):
            return False
        if not _within_prices(graph, tables, demand, budget, early, target, 0, lo, hi, start, latest):
            return False
        if most and not _within_prices(
            graph, tables, demand, budget, early, target, most, lo, hi, start, latest
        ):
            return False
        if (hi - lo).sum() >= _ENOUGH * width:
            break
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
        spare = share_budget(demand, budget, lo, hi)
        if spare <= 0:
            return spare == 0
        if most:
            possible = prune(graph, tables, demand, spare, early, target, price, most, lo, hi, start, latest)
        else:
            possible = priced(
                graph, tables, demand, spare, early, target, price, lo, hi, start, before, done, after, ahead
            )
        if not possible:
            return False
        price *= 2.0
    return share_budget(demand, budget, lo, hi) >= 0


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
