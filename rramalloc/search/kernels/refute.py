"""Compiled branch and bound: all rules on a box until nothing changes, then the box is split."""

from __future__ import annotations

from typing import Any

import numpy as np

from rramalloc.compiled import compiled, compiled_part
from rramalloc.mapping.packing_kernel import cannot_fit
from rramalloc.search.kernels.limits import batches_of, copy_to, packing_scratch, placeable
from rramalloc.search.kernels.propagate import Times, least_ticks, propagate
from rramalloc.timing.kernel import NEXT_STEP, batch_starts

NO_ALLOCATION, FOUND, UNDECIDED = 0, 1, 2
_MOST_ENTRIES = 2**22
"""Copies on the stack of open boxes, where there are many stages; depth 64 per stage where there are few."""


@compiled_part
def _never_placeable(room: Any, copies: Any, scratch: Any) -> bool:
    """Whether an allocation certainly cannot be placed in tiles."""
    if room is None:
        return False
    return cannot_fit(room.sizes, room.kind, copies, room.tiles, room.arrays, scratch)


@compiled_part
def _most_at_stake(demand: Any, low: Any, high: Any) -> int:
    """The stage whose box holds the most arrays, -1 if every box holds one allocation only."""
    chosen, stake = -1, 0
    for i in range(len(low)):
        if demand[i] * (high[i] - low[i]) > stake:
            chosen, stake = i, demand[i] * (high[i] - low[i])
    return chosen


@compiled_part
def _split(stack: Any, depth: int, low: Any, high: Any, chosen: int) -> None:
    """Both halves of a box, cut at the geometric middle; the one with fewer copies on top."""
    middle = np.int64(np.sqrt(float(low[chosen]) * high[chosen]))
    middle = min(max(middle, low[chosen]), high[chosen] - 1)
    for i in range(len(low)):
        for half in range(2):
            stack[depth + half, 0, i] = low[i]
            stack[depth + half, 1, i] = high[i]
    stack[depth, 0, chosen] = middle + 1
    stack[depth + 1, 1, chosen] = middle


@compiled
def refute(
    rules: Any, room: Any, target: int, low: Any, high: Any, most_nodes: int, found: Any
) -> tuple[int, int]:  # fmt: skip
    """Depth-first search of a box (changed) for an allocation that meets the target: (outcome, nodes).

    room: TileRoom or None. Outcome: NO_ALLOCATION (proven), FOUND: one is in `found`, UNDECIDED after
    most_nodes nodes, or because it is not clear whether the one in `found` can be placed in tiles. All
    allocations in a box have at least the copies of its lower corner: where that cannot be placed none can.
    """
    windows, n, total = rules.graph.windows, len(low), rules.checkpoints.total
    scratch, doubt = packing_scratch(room), NO_ALLOCATION
    deepest = min(64 * n + 64, 1 + _MOST_ENTRIES // n)
    stack, near = np.empty((deepest, 2, n), dtype=np.int64), np.empty(deepest, dtype=np.int64)
    times = Times(
        np.empty(n, dtype=np.int64), np.empty(total, dtype=np.int64), np.empty(total, dtype=np.int64),
        np.empty(n, dtype=np.int64),
    )  # fmt: skip
    batches = np.int64(0)
    for i in range(n):
        batches += batches_of(windows[i], low[i])
        stack[0, 0, i], stack[0, 1, i] = low[i], high[i]
    starts, first = np.empty(batches, dtype=np.int64), np.empty(n + 1, dtype=np.int64)
    near[0] = -1
    depth, nodes = 1, 0
    while depth:
        if nodes >= most_nodes or depth + 2 > deepest:
            return UNDECIDED, nodes
        nodes += 1
        depth -= 1
        copy_to(low, stack[depth, 0])
        copy_to(high, stack[depth, 1])
        price = propagate(rules, target, near[depth], low, high, times)
        if price < 0 or _never_placeable(room, low, scratch):
            continue
        least_ticks(rules.clock, low, times.ticks)
        if batch_starts(rules.graph, None, times.ticks, low, NEXT_STEP, starts, first) <= target:
            placed = placeable(room, low, scratch)
            if placed or doubt == NO_ALLOCATION:
                copy_to(found, low)
            if placed:
                return FOUND, nodes
            doubt = UNDECIDED
            continue
        chosen = _most_at_stake(rules.demand, low, high)
        if chosen >= 0:
            near[depth], near[depth + 1] = price, price
            _split(stack, depth, low, high, chosen)
            depth += 2
    return doubt, nodes
