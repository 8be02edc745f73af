"""The least cost within several limits, and its bound by prices (docs/sources/model.md 17)."""

from __future__ import annotations

import itertools
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rramalloc.search.cost import COMBINATION
from rramalloc.search.resources import (
    MOST_PARTS,
    Axis,
    Option,
    Resources,
    cheapest_options,
    priced_limit,
    prices_of_limits,
    whole_price,
)
from rramalloc.search.work import Work

randoms = st.integers(0, 2**32).map(Random)


def drawn(random: Random) -> tuple[list[list[Option]], tuple[Axis, ...]]:
    """Some stages with options of arrays of two kinds, and limits of some axes."""
    options = list[list[Option]]()
    axes = tuple(
        random.sample(
            [
                Axis("arrays of the first kind", random.randint(2, 12), (1, 0)),
                Axis("arrays of the second kind", random.randint(2, 12), (0, 1)),
                Axis("arrays of all kinds", random.randint(4, 16), (1, 1)),
                Axis("another resource", random.randint(4, 32), (3, 2)),
                Axis("sensitivity", MOST_PARTS, (0, 0), per_part=1),
            ],
            random.randint(0, 5),
        )
    )
    for _ in range(random.randint(1, 4)):
        some = list[Option]()
        for _ in range(random.randint(1, 4)):
            kind, arrays = random.randint(0, 1), random.randint(1, 6)
            parts = random.randint(0, MOST_PARTS // 2)
            amounts = [axis.amounts(np.array([kind]), np.array([arrays]), np.array([parts])) for axis in axes]
            some.append((arrays * (5, 9)[kind], *(int(own[0]) for own in amounts)))
        options.append(some)
    return options, axes


@given(random=randoms)
def test_least_cost_within_all_limits(random: Random) -> None:
    """Against all choices: the least sum, or none where no choice keeps to the limits."""
    options, axes = drawn(random)
    limits = [axis.limit for axis in axes]
    sums = [tuple(map(sum, zip(*some, strict=True))) for some in itertools.product(*options)]
    fitting = [cost for cost, *used in sums if all(a <= b for a, b in zip(used, limits, strict=True))]
    chosen, bound = cheapest_options(options, axes)
    assert bound == min(fitting, default=2**60)
    if fitting:
        taken = [own[at] for own, at in zip(options, chosen, strict=True)]
        cost, *used = map(sum, zip(*taken, strict=True))
        assert cost == bound
        assert all(a <= b for a, b in zip(used, limits, strict=True))


@given(random=randoms)
def test_prices_bound_the_least_cost(random: Random) -> None:
    """No choice within the limits costs less than the bound, nor more than the priced limit, priced."""
    options, axes = drawn(random)
    if not axes:
        return
    prices, bound = prices_of_limits(options, axes)
    assert all(price >= 0 for price in prices)
    most = max(max(own[0] for own in some) for some in options) * len(options)
    limit = priced_limit(Resources((5, 9), axes), prices, most)
    for some in itertools.product(*options):
        cost, *used = map(sum, zip(*some, strict=True))
        if all(amount <= axis.limit for amount, axis in zip(used, axes, strict=True)):
            assert bound <= cost
            paid = sum(
                own[0] + sum(int(whole_price(p, np.array(a))) for p, a in zip(prices, own[1:], strict=True))
                for own in some
            )
            assert paid <= limit


def test_what_ends_a_search_ends_the_least_sum() -> None:
    """Charged by the options looked at; an interrupt leaves a bound, no answer and no false refusal."""
    axes = tuple(Axis(str(kind), 100, tuple(int(own == kind) for own in range(3))) for kind in range(3))
    options = [
        [(1 + (stage * kind) % 7, *np.eye(3, dtype=int)[kind]) for kind in range(3)] for stage in range(150)
    ]
    stop = Work()
    chosen, cost = cheapest_options(options, axes, stop)
    assert len(chosen) == 150
    assert stop.spent_s >= 150 * 3 * COMBINATION
    stop.interrupted = True
    none, bound = cheapest_options(options, axes, stop)
    assert (none, bound <= cost) == ([], True)
