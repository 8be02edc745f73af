"""Compiled branch and bound: all rules on a box until nothing changes, then the box is split."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rramalloc.compiled import compiled, compiled_inline
from rramalloc.ndarrays import Ints
from rramalloc.search.kernels.limits import copy_to
from rramalloc.search.kernels.propagate import least_ticks, propagate
from rramalloc.timing.kernel import NEXT_STEP, batch_starts

REFUTED = 0  # outcome: a proof that no allocation meets the target
FOUND = 1  # outcome: an allocation that meets it
UNDECIDED = 2  # outcome: the nodes allowed were used up
_MOST_ENTRIES = 2**22
"""Copies on the stack of open boxes, where there are many stages; depth 64 per stage where there are few."""


class LastBox(NamedTuple):
    """Low and high of the box that was looked at last, and an allocation where one was found; int64."""

    low: Any
    high: Any
    found: Any


class OpenBoxes(NamedTuple):
    """Low and high of boxes still to be searched, and the price that bound best around each.

    at: int64, one value, how many there are. Scratch are starts and first of `batch_starts`.
    """

    at: Any
    stack: Any
    near: Any
    starts: Any
    first: Any

    @classmethod
    def of(
        cls,
        windows: Ints,
        low: Ints,
        high: Ints,
        near: int,
        most_nodes: int,
    ) -> OpenBoxes:
        """Return a box to begin with, and room for as many as that many nodes can leave open.

        near: number of a price near which to look, -1 for all.
        """
        n = len(low)
        deepest = min(64 * n + 64, 1 + _MOST_ENTRIES // n, most_nodes + 3)
        boxes = cls(
            np.array([1]),
            np.empty((deepest, 2, n), dtype=np.int64),
            np.full(deepest, near),
            np.empty(int((-(-windows // low)).sum()), dtype=np.int64),
            np.empty(n + 1, dtype=np.int64),
        )
        boxes.stack[0] = low, high
        return boxes

    def restrict(self, low: Ints, high: Ints) -> None:
        """Cut the open boxes to what they share with another box, and drop those that share nothing."""
        own = self.stack[: self.at[0]]
        np.maximum(own[:, 0], low, out=own[:, 0])
        np.minimum(own[:, 1], high, out=own[:, 1])
        kept = (own[:, 0] <= own[:, 1]).all(axis=1)
        self.at[0] = kept.sum()
        self.stack[: self.at[0]] = own[kept]
        self.near[: self.at[0]] = self.near[: len(kept)][kept]


@compiled_inline
def _most_at_stake(demand: Any, low: Any, high: Any) -> int:
    """Return the stage whose box holds the most arrays, -1 if every box holds one allocation only."""
    chosen, stake = -1, 0
    for i in range(len(low)):
        if demand[i] * (high[i] - low[i]) > stake:
            chosen, stake = i, demand[i] * (high[i] - low[i])
    return chosen


@compiled_inline
def _split(stack: Any, depth: int, low: Any, high: Any, chosen: int) -> None:
    """Push both halves of a box, cut at the geometric middle; the one with fewer copies is on top."""
    # Batches fall with the ratio of copies, so the geometric middle halves what the box can still gain.
    middle = np.int64(np.sqrt(float(low[chosen]) * high[chosen]))
    middle = min(max(middle, low[chosen]), high[chosen] - 1)
    for i in range(len(low)):
        # The halves cover the box and share nothing: no allocation is lost, none is looked at twice.
        for half in range(2):
            stack[depth + half, 0, i] = low[i]
            stack[depth + half, 1, i] = high[i]
    stack[depth, 0, chosen] = middle + 1
    stack[depth + 1, 1, chosen] = middle


@compiled
def refute(
    rules: Any, target: int, most_nodes: int, box: Any, boxes: Any, times: Any, pricing: Any
) -> tuple[int, int, int]:
    """Search open boxes depth first for an allocation that meets the target; return (outcome, nodes, price).

    With most_nodes = 0 a box is not split: `box` is what propagation leaves of it, and `times` tells more;
    else it is scratch. price: number of the one that bounds the last box best.

    Outcome: REFUTED (proven), FOUND: one is in `box.found`, UNDECIDED after most_nodes nodes, where
    another call goes on.
    """
    low, high, found = box
    at, stack, near, starts, first = boxes
    depth = at[0]
    nodes, price = 0, -1
    while depth:
        # Open boxes stay on the stack, so that the next call goes on where this one ends.
        if 0 < most_nodes <= nodes or depth + 2 > len(near):
            at[0] = depth
            return UNDECIDED, nodes, price
        nodes += 1
        depth -= 1
        copy_to(low, stack[depth, 0])
        copy_to(high, stack[depth, 1])
        price = propagate(rules, target, near[depth], low, high, times, pricing)
        # The box is refuted: no allocation in it meets target and budget.
        if price < 0:
            continue
        if most_nodes == 0:
            return UNDECIDED, nodes, price
        least_ticks(rules.clock, low, times.ticks)
        # The lower corner takes the fewest arrays of the box: if it meets the target, it is an answer. Its
        # exact timing is a certificate, whatever the bounds said.
        if batch_starts(rules.graph, None, times.ticks, low, NEXT_STEP, starts, first) <= target:
            copy_to(found, low)
            return FOUND, nodes, price
        chosen = _most_at_stake(rules.demand, low, high)
        if chosen >= 0:
            near[depth], near[depth + 1] = price, price
            _split(stack, depth, low, high, chosen)
            depth += 2
    at[0] = 0
    return REFUTED, nodes, price
