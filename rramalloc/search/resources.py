"""Resources: what a question limits beside time, and prices that turn them into one number.

A mode takes arrays of its kind, and is as sensitive to its bits as a table says. The arrays of all kinds are
added up by their weights, which is the cost that searches minimise: areas where the hardware gives them,
else equal ones. What else is limited is an axis, a sum of whole numbers: what every array takes of it by
its kind, or the sensitivity in parts of its limit. Prices (Lagrange multipliers) add what an axis takes to
the cost: for prices that are not negative, allocations within the limits satisfy

    sum of cost + price_k * used_k  <=  budget + sum of price_k * limit_k

so a bound of the priced cost is one of all that is allowed; whether an allocation is allowed is decided on
every axis. Source: docs/sources/model.md 16, 17 and 18.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, NewType

import numpy as np

from rramalloc.choices import MAX_ARRAYS
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.mode import PLAIN, Mode, array_of
from rramalloc.ndarrays import Floats, Ints
from rramalloc.network.node import TimedNode
from rramalloc.records import MAX_WORK
from rramalloc.rounding import SAME_SUM
from rramalloc.search import cost
from rramalloc.search.knapsack import LOOKS_PER_OPTION, MOST_SUMS_OF_SEVERAL, Knapsack, cheapest, dual
from rramalloc.search.work import Work
from rramalloc.timing.access import StepTime
from rramalloc.units import Unit, area, number_of

Cost = NewType("Cost", int)
"""What arrays cost in sum: their number, or of several kinds parts of `Resources.unit`, such as nm2."""
_MOST_COST = 2**53  # of several kinds: 9,000 mm2, or as many arrays as no chip has
PARTS = 2**44
"""Parts of the limit in which sensitivities are counted: sums of 2**14 stages stay within 64 bits."""
MOST_PARTS = PARTS + 2**15
"""Parts that a sum may have: 2e-9 above the limit, for the rounding of every stage and of sums."""
_MOST_SUMS = 2**14
"""Sums kept of a stage; where there are more the least sum is bounded by prices, not known."""
_EXCESS = 2.0  # factor of the price for what is above the limit: at the price itself nothing is gained
_LEAST_EXCESS = 0.1  # least price of the excess, in budgets for the limit


class Alternative(NamedTuple):
    """A kind of arrays and bits that a stage may have, and its sensitivity to them in parts of the limit."""

    kind: int = 0
    weight_bits: int = 0
    input_bits: int = 0
    sensitivity: int = 0

    @property
    def mode(self) -> Mode:
        """The mode of one window with these bits on arrays of this kind."""
        return PLAIN._replace(weight_bits=self.weight_bits, input_bits=self.input_bits, kind=self.kind)


@dataclass(frozen=True, eq=False)
class Alternatives:
    """Kinds and bits to choose from: none, one or more alternatives of every one of these stages."""

    each: tuple[tuple[Alternative, ...], ...]
    stages: tuple[TimedNode, ...]
    hardware: Hardware

    @property
    def every(self) -> list[tuple[TimedNode, ...]]:
        """The stages in their first bits, in their second ones and so on, until none has others."""
        return [
            tuple(
                own[min(number, len(own) - 1)].mode.of_stage(stage) if own else stage
                for stage, own in zip(self.stages, self.each, strict=True)
            )
            for number in range(max(1, *map(len, self.each)))
        ]

    @property
    def kinds(self) -> list[int]:
        """Numbers of the kinds of arrays that some stage may have."""
        return sorted({own.kind for some in self.each for own in some})

    def holds_all(self, kind: int) -> bool:
        """Return True if every stage with weights may be on this kind: a digital unit may be too small."""
        return all(any(own.kind == kind for own in some) for some in self.each if some)

    def of_kind(self, kind: int) -> Alternatives:
        """Return the alternatives on arrays of one kind."""
        each = tuple(tuple(own for own in some if own.kind == kind) for some in self.each)
        return replace(self, each=each)

    def of(self, stage: int) -> tuple[Mode, ...]:
        """Return the modes of one window that a stage may have."""
        return tuple(own.mode for own in self.each[stage]) or (PLAIN,)

    def compute_ns(self, stage: int, modes: Sequence[Mode]) -> Floats:
        """Time of a common step that each of these modes takes at least."""
        node = self.stages[stage]
        each = [array_of(self.hardware, node, mode) for mode in modes]
        return np.array([own.compute_ns or 0.0 for own in each])

    def step_time(self, step_time: StepTime | None) -> StepTime | None:
        """Return the time of a step with the shortest that bits allow; it depends on them if they differ."""
        if step_time is None or self.hardware.own_clock:
            return step_time
        each = [
            [self.hardware.of_layer(stage).compute_ns or 0.0 for stage in stages] for stages in self.every
        ]
        least, most = float(np.min(each, axis=0).max()), float(np.max(each))
        return replace(step_time, compute_ns=least, by_bits=most > least)

    def sensitivity(self, modes: Sequence[Mode]) -> int:
        """Return the sum of sensitivities to the bits of modes, in parts of the limit."""
        each = zip(self.each, modes, strict=True)
        return sum(
            own.sensitivity for some, mode in each for own in some if own.mode.in_block(mode.block) == mode
        )


class Axis(NamedTuple):
    """A resource with its own limit, such as the arrays of one kind, of all kinds, or the sensitivity.

    name: in messages; limit: of what all stages take; per_array: what an array of each kind takes;
    per_part: what a part of the sensitivity takes, of an axis of which arrays take nothing.
    """

    name: str
    limit: int
    per_array: tuple[int, ...]
    per_part: int = 0

    def amounts(self, kinds: Ints, arrays: Ints, sensitivity: Ints) -> Ints:
        """Return what modes of these kinds, arrays and sensitivities take of it."""
        return np.array(self.per_array)[kinds] * arrays + self.per_part * sensitivity


@dataclass(frozen=True)
class Resources:
    """Limits of a question beside its budget of cost.

    weights: cost of an array of every kind, whole numbers; axes: what else is limited; unit: of the cost in
    words, of which it has `per_unit`.
    """

    weights: tuple[int, ...] = (1,)
    axes: tuple[Axis, ...] = ()
    unit: Unit = "arrays"
    per_unit: int = 1

    @property
    def most(self) -> Cost:
        """The largest budget that a question may have."""
        return Cost(MAX_ARRAYS if len(self.weights) == 1 else _MOST_COST)

    def beyond(self, budget: Cost) -> str:
        """Return in words what a budget of all that is counted leaves out; empty for a smaller one."""
        is_all = len(self.weights) > 1 and budget >= self.most
        return f"within the {self.words(budget)} that are counted at most" if is_all else ""

    def in_unit(self, cost: float) -> float:
        """Return a cost, or a bound of it, in the unit."""
        return cost if self.per_unit == 1 else cost / self.per_unit

    def words(self, cost: float) -> str:
        """Return a cost in words: "1.728 mm2", "152 arrays"."""
        if self.unit == "um2":
            return area(self.in_unit(cost))
        return number_of(math.ceil(self.in_unit(cost)), "array")

    @property
    def limits_arrays(self) -> bool:
        """Whether some axis limits the arrays of each kind."""
        kinds = range(len(self.weights))
        return all(any(axis.per_array[kind] for axis in self.axes) for kind in kinds)


ONE_KIND = Resources()
Prices = tuple[float, ...]
"""Price of a part of every axis, in cost; of arrays a whole number."""


Option = tuple[int, ...]
"""Cost of a choice of a stage, then what it takes of every axis."""


def cheapest_options(
    options: Sequence[Sequence[Option]], axes: Sequence[Axis], stop: Work | None = None
) -> tuple[list[int], int]:
    """Return the options with the least cost in sum within all limits, one a stage, and a bound of the sum.

    No options and 2**60 if none keep to the limits. stop: is charged, and its clock and token end it without
    options, with a bound.
    """
    if not all(options):
        return [], 2**60
    table = _table(options, axes)
    share = None if stop is None else stop.nested(MAX_WORK)
    chosen, exact = cheapest(table, _MOST_SUMS if len(axes) < 2 else MOST_SUMS_OF_SEVERAL, share)
    if stop is not None and share is not None:
        stop.charge(share.spent_s)
    if not len(chosen):  # of more sums than are kept none may be found, though one exists
        return [], 2**60 if exact else _rounded_up(dual(table)[1])
    least = int(table.costs[chosen].sum())
    places: list[int] = (chosen - table.first[:-1]).tolist()
    return places, least if exact else min(least, _rounded_up(dual(table)[1]))


def _table(options: Sequence[Sequence[Option]], axes: Sequence[Axis]) -> Knapsack:
    """Return the options of all stages as arrays."""
    each = [np.array(own, dtype=np.int64).reshape(-1, 1 + len(axes)) for own in options]
    return Knapsack.of(
        [own[:, 0] for own in each], [own[:, 1:] for own in each], [axis.limit for axis in axes]
    )


def prices_of_limits(
    options: Sequence[Sequence[Option]], axes: Sequence[Axis], stop: Work | None = None
) -> tuple[Prices, int]:
    """Return prices at which the cheapest options about keep to the limits, and the bound that they prove."""
    prices, bound = dual(_table(options, axes))
    if stop is not None:
        stop.charge(cost.OPTION * sum(map(len, options)) * LOOKS_PER_OPTION)
    each = zip(prices.tolist(), axes, strict=True)
    rounded = tuple(float(round(price)) if any(axis.per_array) else price for price, axis in each)
    return rounded, _rounded_up(bound)


def _rounded_up(bound: float) -> int:
    """Return the least whole number that is no less than a bound but for its rounding."""
    return math.ceil(bound * (1 - SAME_SUM))


def whole_price(price: float, amounts: Ints) -> Ints:
    """Return what amounts cost at a price, in whole numbers; in sum no more than the cost of the sum."""
    whole: Ints = np.floor(price * amounts).astype(np.int64)
    return whole


def prices_of_excess(resources: Resources, prices: Prices, budget: int) -> list[float]:
    """Return the cost of a part above the limit of every axis."""
    return [
        max(_EXCESS * price, _LEAST_EXCESS * budget / max(axis.limit, 1))
        for axis, price in zip(resources.axes, prices, strict=True)
    ]


def priced_limit(resources: Resources, prices: Prices, budget: int) -> int:
    """Return the upper bound of the priced cost of feasible allocations."""
    each = zip(prices, resources.axes, strict=True)
    return budget + sum(int(whole_price(price, np.array(axis.limit))) for price, axis in each)
