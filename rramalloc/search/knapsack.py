"""Multiple-choice knapsack: the cheapest option of every stage within limits of what all of them take in sum.

Prices of the limits (Lagrange multipliers) bound the least cost from below. Stage by stage all combinations
are kept that no other one undercuts in cost and in what it takes of every limit (Nemhauser and Ullmann,
Management Science 15, 1969); a bound of the cost leaves out those too far above it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rramalloc.ndarrays import Floats, Ints
from rramalloc.search import cost
from rramalloc.search.work import Work

HALVINGS = 60  # bisection of a price: more than the 53 bits of a double
_ROUNDS_OF_PRICES = 6  # of block coordinate ascent: prices hardly move after these
_MOST_COMBINATIONS = 2**24
"""Limit of the combinations of kept sums with the options of one stage: it bounds the memory."""
_DEAREST = 2.0**60  # cost of all that a limit leaves: no option costs so much


class Options(NamedTuple):
    """Options of all stages, those of stage i from first[i] on.

    costs: of every option, int64 or float64; amounts: int64, shape (options, limits), what each takes beyond
    the least of its stage; room: int64, what the limits leave for all stages together; rounding: part of a
    sum of costs by which two that are equal may differ.
    """

    first: Ints
    costs: Ints | Floats
    amounts: Ints
    room: Ints
    rounding: float = 0.0

    @classmethod
    def of(cls, each: Sequence[Sequence[tuple[int, ...]]], limits: Sequence[int]) -> Options:
        """Return the options of stages with one or more of them, (cost, what is taken of every limit)."""
        first = np.cumsum([0, *map(len, each)])
        table = np.array([own for some in each for own in some], dtype=np.int64).reshape(-1, 1 + len(limits))
        least = np.minimum.reduceat(table[:, 1:], first[:-1], axis=0)
        amounts = table[:, 1:] - np.repeat(least, np.diff(first), axis=0)
        return cls(first, table[:, 0], amounts, np.array(limits, dtype=np.int64) - least.sum(axis=0))

    def priced(self, prices: Floats) -> Floats:
        """Return the cost of every option and of what it takes at these prices."""
        priced: Floats = self.costs + self.amounts @ prices
        return priced

    def cheapest(self, priced: Floats) -> Ints:
        """Return the option of every stage with the least priced cost, of equals the first one."""
        cheapest = np.flatnonzero(self.beyond(priced) <= 0)
        chosen: Ints = cheapest[np.searchsorted(cheapest, self.first[:-1])]
        return chosen

    def beyond(self, priced: Floats) -> Floats:
        """Return by how much the priced cost of every option exceeds the least of its stage."""
        least = np.minimum.reduceat(priced, self.first[:-1])
        beyond: Floats = priced - np.repeat(least, np.diff(self.first))
        return beyond


def dual(options: Options) -> tuple[Floats, float]:
    """Return prices at which the cheapest options about keep to the limits, and the best bound on the way.

    Prices: float64, one a limit; bound: a cost that no choice within the limits undercuts. One price after
    the other is raised, by bisection, until its limit holds, several times where there are several: block
    coordinate ascent of the Lagrangian dual, of which every value is a bound.
    """
    limits, bound = np.flatnonzero(options.room >= 0).tolist(), -math.inf  # the others hold at no price
    prices = np.zeros(len(options.room))

    def exceeds(limit: int, price: float) -> bool:
        trial = prices.copy()
        trial[limit] = price
        cheapest = options.beyond(options.priced(trial)) <= 0
        taken = np.where(cheapest, options.amounts[:, limit], 2**60)
        return int(np.minimum.reduceat(taken, options.first[:-1]).sum()) > int(options.room[limit])

    for _ in range(1 if len(limits) < 2 else _ROUNDS_OF_PRICES):
        for limit in limits:
            unit = 1 / max(int(options.room[limit]), 1)
            low, high = 0.0, unit
            while exceeds(limit, high) and high < _DEAREST * unit:
                low, high = high, 2.0 * high
            for _ in range(HALVINGS if exceeds(limit, low) else 0):
                middle = (low + high) / 2
                if exceeds(limit, middle):
                    low = middle
                else:
                    high = middle
            prices[limit] = high if exceeds(limit, low) else low
            bound = max(bound, _value(options, prices))
    return prices, max(bound, _value(options, 0 * prices))


def _value(options: Options, prices: Floats) -> float:
    least = np.minimum.reduceat(options.priced(prices), options.first[:-1])
    return float(least.sum() - prices @ options.room)


def cheapest(
    options: Options,
    most: int = _MOST_COMBINATIONS,
    stop: Work | None = None,
    prices: Floats | None = None,
    window: float = math.inf,
) -> tuple[Ints, bool]:
    """Return the options with the least cost in sum within the limits, and whether none costs less.

    No options where no choice keeps to the limits, or where the work allowed ends. most: combinations that
    are kept of a stage, of more only some; prices, window: leave out what exceeds the least cost at these
    prices by more than `window`, which is no choice then.
    """
    none = np.zeros(0, dtype=np.int64)
    beyond = options.beyond(options.priced(np.zeros(len(options.room)) if prices is None else prices))
    costs, excess = options.costs[:1] * 0, np.zeros(1)
    taken = np.zeros((1, len(options.room)), dtype=np.int64)
    exact, history = True, list[tuple[Ints, Ints]]()
    for low, high in pairwise(options.first.tolist()):
        near = low + np.flatnonzero(beyond[low:high] <= window)
        if stop is not None:
            if stop.is_used_up:
                return none, False
            stop.charge(cost.COMBINATION * (len(near) * len(costs) + 1))
        taken = (taken[:, None] + options.amounts[near]).reshape(len(costs) * len(near), len(options.room))
        excess = (excess[:, None] + beyond[near]).ravel()
        costs = (costs[:, None] + options.costs[near]).ravel()
        allowed = np.flatnonzero((taken <= options.room).all(axis=1) & (excess <= window))
        kept = _undominated(costs, taken, allowed)
        if not len(kept):
            return none, exact
        most_kept = min(most, max(1, _MOST_COMBINATIONS // max(1, len(near))))
        if len(kept) > most_kept:
            exact, kept = False, kept[np.linspace(0, len(kept) - 1, most_kept).astype(np.int64)]
        parent, option = np.divmod(kept, len(near))
        history.append((parent, near[option]))
        costs, taken, excess = costs[kept], taken[kept], excess[kept]
    at, chosen = 0, list[int]()
    if options.rounding:  # costs rise and what is taken of a limit falls: the last of equals takes least
        at = int(np.flatnonzero(costs <= costs[0] * (1 + options.rounding))[-1])
    for parent, option in reversed(history):
        chosen.append(int(option[at]))
        at = int(parent[at])
    return np.array(chosen[::-1], dtype=np.int64), exact


def _undominated(costs: Ints | Floats, taken: Ints, among: Ints) -> Ints:
    """Return those that no other one undercuts in cost and in every amount, the least cost first."""
    order = among[np.lexsort((*taken[among].T[::-1], costs[among]))]
    if not len(order) or taken.shape[1] == 0:
        return order[:1]
    if taken.shape[1] == 1:
        falling = np.minimum.accumulate(taken[order, 0])
        return order[np.concatenate(([True], falling[1:] < falling[:-1]))]
    kept, rows = list[int](), taken[order]
    best = np.zeros((0, taken.shape[1]), dtype=np.int64)
    for place, row in enumerate(rows):  # of those before none costs more
        if not (best <= row).all(axis=1).any():
            best = np.vstack([best[~(row <= best).all(axis=1)], row])
            kept.append(place)
    return order[kept]
