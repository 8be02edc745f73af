"""Multiple-choice knapsack: the cheapest option of every stage within limits of what all of them take in sum.

Prices of the limits (Lagrange multipliers) bound the least cost from below. Stage by stage all combinations
are kept that no other one undercuts in cost and in what it takes of every limit (Nemhauser and Ullmann,
Management Science 15, 1969); a bound of the cost leaves out those too far above it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from rramalloc.compiled import compiled, compiled_part
from rramalloc.ndarrays import Bools, Floats, Ints
from rramalloc.rounding import SAME_SUM
from rramalloc.search import cost
from rramalloc.search.work import Work

_DEAREST = 2.0**60  # highest price, in costs for all that a limit leaves: no option costs so much
_HALVINGS = 120  # bisection of a price: 60 find its order of magnitude, and a double has 53 bits
_ROUNDS_OF_PRICES = 6  # of block coordinate ascent: prices hardly move after these
LOOKS_PER_OPTION = 60  # charged for prices: most of the halvings of an order of magnitude see few options
_MOST_COMBINATIONS = 2**24
"""Limit of the combinations of kept sums with the options of one stage: it bounds the memory."""
MOST_SUMS_OF_SEVERAL = 2**9
"""Sums kept of a stage where several axes are limited: to compare them takes the square."""


class Knapsack(NamedTuple):
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
    def of(
        cls,
        costs: Sequence[Ints | Floats],
        taken: Sequence[Ints],
        limits: Sequence[int],
        rounding: float = 0.0,
    ) -> Knapsack:
        """Return the options of stages. costs: of those of each; taken: of every limit, (options, limits)."""
        first = np.cumsum([0, *map(len, costs)])
        amounts = np.concatenate(taken)
        least = np.minimum.reduceat(amounts, first[:-1], axis=0)
        above_least = amounts - np.repeat(least, np.diff(first), axis=0)
        room = np.array(limits, dtype=np.int64) - least.sum(axis=0)
        every: Any = np.concatenate(costs)  # of whole numbers, or of floats
        return cls(first, every, above_least, room, rounding)

    def priced(self, prices: Floats) -> Floats:
        """Return the cost of every option and of what it takes at these prices."""
        priced: Floats = self.costs + self.amounts @ prices
        return priced

    def reduced_costs(self, prices: Floats) -> Floats:
        """Return by how much the priced cost of every option exceeds the least of its stage."""
        priced = self.priced(prices)
        least = np.minimum.reduceat(priced, self.first[:-1])
        reduced: Floats = priced - np.repeat(least, np.diff(self.first))
        return reduced


def dual(options: Knapsack) -> tuple[Floats, float]:
    """Return prices at which the cheapest options about keep to the limits, and the best bound on the way.

    Prices: float64, one a limit; bound: a cost that no choice within the limits undercuts. One price after
    the other is raised, by bisection, until its limit holds, several times where there are several: block
    coordinate ascent of the Lagrangian dual, of which every value is a bound.
    """
    limits = np.flatnonzero(options.room >= 0).tolist()  # the others hold at no price
    prices = np.zeros(len(options.room))
    bounds = [_value(options, prices)]

    def exceeds(limit: int, price: float) -> bool:
        trial = prices.copy()
        trial[limit] = price
        taken = np.where(options.reduced_costs(trial) <= 0, options.amounts[:, limit], 2**60)
        return int(np.minimum.reduceat(taken, options.first[:-1]).sum()) > int(options.room[limit])

    for _ in range(1 if len(limits) < 2 else _ROUNDS_OF_PRICES):
        for limit in limits:
            low = 0.0
            high = _DEAREST / max(int(options.room[limit]), 1) if exceeds(limit, low) else 0.0
            for _ in range(_HALVINGS if high > 0 else 0):
                middle = (low + high) / 2
                if exceeds(limit, middle):
                    low = middle
                else:
                    high = middle
            prices[limit] = high
            bounds.append(_value(options, prices))
    return prices, max(bounds)


def _value(options: Knapsack, prices: Floats) -> float:
    least = np.minimum.reduceat(options.priced(prices), options.first[:-1])
    return float(least.sum() - prices @ options.room)


class LeastSum(NamedTuple):
    """Options with the least sum of costs found. bound: no choice within the limit has a smaller sum."""

    chosen: Ints
    bound: float
    proven: bool


def least_sum(options: Knapsack, stop: Work) -> LeastSum:
    """Return one option of every stage, least in the sum of costs; of equal sums the one that takes least.

    options: under one limit of each stage with rising amounts and falling costs; under several the first is
    that of arrays, and some choice keeps to all. Of whole costs every sum is exact.
    """
    several = len(options.room) > 1
    prices, least = dual(options)
    stop.charge(cost.OPTION * len(options.costs) * LOOKS_PER_OPTION)
    greedy = _frugal(options) if several else _greedy(options, options.reduced_costs(prices))
    most = float(options.costs[greedy].sum())
    slack = SAME_SUM * most
    bound = max(0.0, least - slack)
    if options.costs.dtype == np.int64:
        bound = math.ceil(bound)
    kept = MOST_SUMS_OF_SEVERAL if several else _MOST_COMBINATIONS
    chosen, exact = cheapest(options, kept, stop, prices, most - least + 2 * slack)
    if not len(chosen):
        return LeastSum(greedy, bound, False)
    return LeastSum(chosen, max(bound, float(options.costs[chosen].sum())) if exact else bound, exact)


def _greedy(options: Knapsack, reduced: Floats) -> Ints:
    """Return the options that are cheapest at some price, and spend what is left where it saves most.

    reduced: reduced costs of the options at these prices, 0 of the cheapest.
    """
    first = options.first
    costs = options.costs
    taken = options.amounts[:, 0]
    at_price = np.flatnonzero(reduced <= 0)
    chosen: Ints = at_price[np.searchsorted(at_price, first[:-1])]
    while True:
        stages = np.flatnonzero(chosen + 1 < first[1:])
        following = chosen[stages] + 1
        more = taken[following] - taken[chosen[stages]]
        fits = (more <= options.room[0] - taken[chosen].sum()) & (costs[following] < costs[chosen[stages]])
        if not fits.any():
            return chosen
        saving = (costs[following] - costs[chosen[stages]]) / more
        chosen[stages[np.argmin(np.where(fits, saving, 0.0))]] += 1


def _frugal(options: Knapsack) -> Ints:
    """Return options within several limits: of the sums that are kept the cheapest, or the fewest arrays."""
    for costs in (options.costs, options.amounts[:, 0]):
        chosen, _ = cheapest(options._replace(costs=costs), MOST_SUMS_OF_SEVERAL)
        if len(chosen):
            return chosen
    raise AssertionError("a problem is refused where no choice keeps to its limits")


def cheapest(
    options: Knapsack,
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
    reduced = options.reduced_costs(np.zeros(len(options.room)) if prices is None else prices)
    costs = options.costs[:1] * 0
    excess = np.zeros(1)
    taken = np.zeros((1, len(options.room)), dtype=np.int64)
    exact = True
    history = list[tuple[Ints, Ints]]()
    for low, high in pairwise(options.first.tolist()):
        near = low + np.flatnonzero(reduced[low:high] <= window)
        if stop is not None:
            if stop.is_used_up:
                return none, False
            stop.charge(cost.COMBINATION * (len(near) * len(costs) + 1))
        taken = (taken[:, None] + options.amounts[near]).reshape(len(costs) * len(near), len(options.room))
        excess = (excess[:, None] + reduced[near]).ravel()
        costs = (costs[:, None] + options.costs[near]).ravel()
        allowed = np.flatnonzero((taken <= options.room).all(axis=1) & (excess <= window))
        kept = _undominated(costs, taken, allowed)
        if not len(kept):
            return none, exact
        most_kept = min(most, max(1, _MOST_COMBINATIONS // max(1, len(near))))
        if len(kept) > most_kept:
            exact = False
            kept = kept[np.linspace(0, len(kept) - 1, most_kept).astype(np.int64)]
        history.append((kept // len(near), near[kept % len(near)]))
        costs = costs[kept]
        taken = taken[kept]
        excess = excess[kept]
    at = 0
    if options.rounding:  # of equal costs the one that takes least of the first limit
        equal = np.flatnonzero(costs <= costs[0] * (1 + options.rounding))
        at = int(equal[taken[equal, 0].argmin()])
    chosen = list[int]()
    for parent, option in reversed(history):
        chosen.append(int(option[at]))
        at = int(parent[at])
    return np.array(chosen[::-1], dtype=np.int64), exact


def _undominated(costs: Ints | Floats, taken: Ints, among: Ints) -> Ints:
    """Return those that no other one undercuts in cost and in every amount, the least cost first."""
    order = among[np.lexsort((*taken[among].T[::-1], costs[among]))]
    if taken.shape[1] == 1:
        falling = np.minimum.accumulate(taken[order, 0])
        return order[np.diff(falling, prepend=2**62) < 0]
    kept = np.zeros(len(order), dtype=np.bool_)
    if taken.shape[1] == 2:
        ranks = np.unique(taken[order, 0], return_inverse=True)[1] + 1
        _mark_undominated_pairs(ranks, taken[order, 1], np.full(len(order) + 2, 2**62), kept)
        return order[kept]
    _mark_undominated(taken[order], np.empty(len(order), dtype=np.int64), kept)
    return order[kept]


@compiled
def _mark_undominated_pairs(ranks: Ints, amounts: Ints, least: Ints, kept: Bools) -> None:
    """Mark the pairs that none before them undercuts in both; ranks: of the first amounts, from 1.

    least: the tree of Fenwick (*Software: Practice and Experience* 24(3), 1994) of the least second amounts.
    """
    for row in range(len(ranks)):
        known = least[0]
        at = ranks[row]
        while at:
            known = min(known, least[at])
            at -= at & -at
        kept[row] = amounts[row] < known
        at = ranks[row] if kept[row] else len(least)
        while at < len(least):
            least[at] = min(least[at], amounts[row])
            at += at & -at


@compiled
def _mark_undominated(rows: Ints, front: Ints, kept: Bools) -> None:
    """Mark the rows that no row before them undercuts in every column; front: room for all row numbers."""
    size = 0
    for row in range(len(rows)):
        place = 0
        while place < size and not _is_at_most(rows, front[place], row):
            place += 1
        if place < size:  # what undercuts one row is likely to undercut the next
            front[0], front[place] = front[place], front[0]
            continue
        kept[row] = True
        left = 0
        for place in range(size):
            if not _is_at_most(rows, row, front[place]):
                front[left] = front[place]
                left += 1
        front[left] = row
        size = left + 1


@compiled_part
def _is_at_most(rows: Ints, first: int, second: int) -> bool:
    """Return True if no column of the first row exceeds that of the second."""
    is_at_most = True
    for column in range(rows.shape[1]):
        is_at_most &= rows[first, column] <= rows[second, column]
    return is_at_most
