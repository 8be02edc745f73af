"""The second budget: bits that stages choose from, and the sum of their sensitivities under a limit.

Sensitivities are counted in whole parts of the limit. A price turns them into arrays, as the Lagrange
multiplier of the limit does (docs/sources/model.md 16).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.modes import Variant, precise
from rramalloc.network.node import TimedNode
from rramalloc.timing.access import StepTime

PARTS = 2**44
"""Parts of the limit in which sensitivities are counted: sums of 2**14 stages stay within 64 bits."""
MOST_PARTS = PARTS + 2**15
"""Parts that a sum may have: 2e-9 above the limit, for the rounding of every stage and of sums."""
_MOST_STATES = 2**14
"""Sums kept of a stage; where there are more the least sum is bounded by prices, not known."""
_HALVINGS = 60  # bisection of the price: more than the 53 bits of a double
_DEAREST = 2.0**60  # arrays for the limit: no stage takes so many
_EXCESS = 2.0  # factor of the price for what is above the limit: at the price itself nothing is gained
_LEAST_EXCESS = 0.1  # least price of the excess, in budgets for the limit

Ints = npt.NDArray[np.int64]


class Precision(NamedTuple):
    """Bits that a stage may have, and its sensitivity to them in parts of the limit."""

    weight_bits: int
    input_bits: int
    sensitivity: int


@dataclass(frozen=True, eq=False)
class BitModes:
    """Bits to choose from: none, one or more precisions of every one of these stages."""

    precisions: tuple[tuple[Precision, ...], ...]
    stages: tuple[TimedNode, ...]
    hardware: Hardware

    @property
    def every(self) -> list[tuple[TimedNode, ...]]:
        """The stages in their first bits, in their second ones and so on, until none has others."""
        return [
            tuple(
                precise(stage, (1, 1, *own[min(number, len(own) - 1)][:2])) if own else stage
                for stage, own in zip(self.stages, self.precisions, strict=True)
            )
            for number in range(max(1, *map(len, self.precisions)))
        ]

    def of(self, stage: int) -> tuple[Variant, ...]:
        """Return the bits that end the variants of a stage: nothing where none are chosen."""
        return tuple(own[:2] for own in self.precisions[stage]) or ((),)

    def compute_ns(self, stage: int, variants: Sequence[Variant]) -> npt.NDArray[np.float64]:
        """Time of a common step that each of these variants takes at least."""
        node, hardware = self.stages[stage], self.hardware
        return np.array([hardware.of_layer(precise(node, own)).compute_ns or 0.0 for own in variants])

    def step_time(self, step_time: StepTime | None) -> StepTime | None:
        """Return the time of a step with the shortest that bits allow; it depends on them if they differ."""
        if step_time is None or self.hardware.own_clock:
            return step_time
        each = [
            [self.hardware.of_layer(stage).compute_ns or 0.0 for stage in stages] for stages in self.every
        ]
        least, most = float(np.min(each, axis=0).max()), float(np.max(each))
        return replace(step_time, compute_ns=least, by_bits=most > least)

    def fits(self, blocks: Sequence[Variant]) -> bool:
        """Return whether the sum of sensitivities keeps to the limit."""
        each = zip(self.precisions, blocks, strict=True)
        return (
            sum(own.sensitivity for some, block in each for own in some if own[:2] == block[2:]) <= MOST_PARTS
        )


class Option(NamedTuple):
    """Fewest arrays of a stage with a sensitivity."""

    arrays: int
    sensitivity: int


def cheapest_options(options: Sequence[Sequence[Option]]) -> tuple[list[int], int]:
    """Return the options with the fewest arrays in sum within the limit, one a stage, and a bound of the sum.

    No options and 2**60 if none keep to the limit. All sums are kept that no other one undercuts in arrays
    and sensitivity (Nemhauser and Ullmann, Management Science 15, 1969).
    """
    least = [min((own.sensitivity for own in some), default=2**60) for some in options]
    spare, exact, history = MOST_PARTS - sum(least), True, list[tuple[Ints, Ints]]()
    arrays, parts = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    if spare < 0:
        return [], 2**60
    for some, fewest in zip(options, least, strict=True):
        own = np.array(some, dtype=np.int64)
        arrays, parts = (arrays[:, None] + own[:, 0]).ravel(), (parts[:, None] + own[:, 1] - fewest).ravel()
        fitting = np.flatnonzero(parts <= spare)
        order = fitting[np.lexsort((parts[fitting], arrays[fitting]))]
        falling = np.minimum.accumulate(parts[order])
        kept = order[np.concatenate(([True], falling[1:] < falling[:-1]))]
        if len(kept) > _MOST_STATES:
            exact, kept = False, kept[np.linspace(0, len(kept) - 1, _MOST_STATES).astype(np.int64)]
        history.append((kept // len(own), kept % len(own)))
        arrays, parts = arrays[kept], parts[kept]
    chosen, at = list[int](), 0
    for parent, option in reversed(history):
        chosen.append(int(option[at]))
        at = int(parent[at])
    return chosen[::-1], int(arrays[0]) if exact else min(int(arrays[0]), price_of_limit(options)[1])


def price_of_limit(options: Sequence[Sequence[Option]]) -> tuple[float, int]:
    """Return the price at which the cheapest options just keep to the limit, and the bound that it proves."""
    first = np.cumsum([0, *map(len, options)])
    arrays, parts = np.array([own for some in options for own in some], dtype=np.float64).T
    parts /= MOST_PARTS

    def cheapest(price: float) -> tuple[float, float]:
        cost = arrays + price * parts
        least = np.minimum.reduceat(cost, first[:-1])
        best = np.where(cost <= np.repeat(least, np.diff(first)), parts, np.inf)
        return float(least.sum()) - price, float(np.minimum.reduceat(best, first[:-1]).sum())

    low, high = 0.0, 1.0
    while cheapest(high)[1] > 1.0 and high < _DEAREST:
        low, high = high, 2.0 * high
    for _ in range(_HALVINGS if cheapest(low)[1] > 1.0 else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if cheapest(middle)[1] > 1.0 else (low, middle)
    price = high if cheapest(low)[1] > 1.0 else low
    return price, int(np.ceil(cheapest(price)[0] * (1 - 1e-9)))


def tolls(price: float, sensitivity: Ints) -> Ints:
    """Return sensitivities in whole arrays; within the limit they add up to no more than the limit itself."""
    whole: Ints = np.floor(price / MOST_PARTS * sensitivity).astype(np.int64)
    return whole


def price_of_excess(price: float, budget: int) -> float:
    """Return the arrays for a part above the limit."""
    return max(_EXCESS * price, _LEAST_EXCESS * budget) / PARTS
