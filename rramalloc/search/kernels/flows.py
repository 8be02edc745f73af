"""Compiled parts of the bound by flows: a flow of path shares, what it prices, and the shares that answer it.

Places of all stages have numbers in a row, those of stage i from first[i], each neither below nor left of the
next; so have candidates, from begin[i].

Source: docs/sources/bound.md.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from rramalloc.compiled import compiled, compiled_part
from rramalloc.search.kernels.places import block_of

_NEVER = -1e300
_NEGLIGIBLE = 1e-12  # share of a candidate that counts as none
_FARTHEST = 40.0  # differences of exponents beyond which a share is nothing
_NEWTON_STEPS = 20
_NEAR_LIMIT = 1e-3  # of the limit, within which shares take what is allowed: they only guide the flow


class FlowPlaces(NamedTuple):
    """Places of all stages, and hops from places of producers: pointer[q] ... pointer[q + 1] - 1 of place q.

    first: places of each stage; row, column: of the pixel; needed: place of a producer; lag: of the hop.
    """

    first: Any
    row: Any
    column: Any
    pointer: Any
    needed: Any
    lag: Any


class Flow(NamedTuple):
    """A flow of 1 along all paths, float64: what enters and what leaves the stage of each place there."""

    entering: Any
    leaving: Any


class Lengths(NamedTuple):
    """Path lengths under shares: batches before each place times period, and the period of each stage."""

    before: Any
    period: Any


@compiled
def lengths_of(places: Any, candidates: Any, begin: Any, share: Any, lengths: Any) -> None:
    """Add the lengths that the shares of all candidates give."""
    for i in range(len(begin) - 1):
        for m in range(begin[i], begin[i + 1]):
            if share[m] <= _NEGLIGIBLE:
                continue
            weight = share[m] * candidates.period[m]
            lengths.period[i] += weight
            middle = (candidates.low[m] + candidates.high[m]) // 2
            for q in range(places.first[i], places.first[i + 1]):
                block = block_of(candidates, m, places.row[q], places.column[q])
                lengths.before[q] += weight * (block // middle)


@compiled_part
def _log_sum(places: Any, q: int, is_first: bool, scale: float, period: float, time: Any) -> float:
    """Return the logarithm of the sum of exponentials of all times at which a path may enter at a place."""
    most = period if is_first else _NEVER
    for h in range(places.pointer[q], places.pointer[q + 1]):
        most = max(most, time[places.needed[h]] + scale * places.lag[h] + period)
    if most == _NEVER:
        return _NEVER
    total = math.exp(period - most) if is_first else 0.0
    for h in range(places.pointer[q], places.pointer[q + 1]):
        total += math.exp(time[places.needed[h]] + scale * places.lag[h] + period - most)
    return most + math.log(total)


@compiled
def flow_of(places: Any, lengths: Any, scale: float, time: Any, enter: Any, flow: Any) -> float:
    """Share a flow of 1 among all paths by the exponentials of their lengths; return what lags take of it.

    lengths: that add up to those whose exponentials count; scale: of lags. time, enter: scratch.
    """
    first, entering, leaving = places.first, flow.entering, flow.leaving
    stages, last = len(first) - 1, _NEVER
    for i in range(stages):
        for q in range(first[i], first[i + 1]):
            before = lengths.before[q]
            enter[q] = _log_sum(places, q, q == first[i], scale, lengths.period[i], time) - before
            time[q] = enter[q]
            if q > first[i]:
                walked = time[q - 1] - lengths.before[q - 1]
                most = max(walked, enter[q])
                time[q] = most + math.log(math.exp(walked - most) + math.exp(enter[q] - most))
            time[q] += before
        last = max(last, time[first[i + 1] - 1])
    entering[:], leaving[:] = 0.0, 0.0
    total, lags = 0.0, 0.0
    for i in range(stages):
        leaving[first[i + 1] - 1] = math.exp(time[first[i + 1] - 1] - last)
        total += leaving[first[i + 1] - 1]
    for i in range(stages):
        leaving[first[i + 1] - 1] /= total
    # Backwards: what leaves at a place or is walked on from it either enters there or comes along the walk.
    # Shares of hops are divided by their sum, so nothing is lost however long paths are.
    for i in range(stages - 1, -1, -1):
        walked = 0.0
        for q in range(first[i + 1] - 1, first[i] - 1, -1):
            entered = walked + leaving[q]
            if q > first[i]:
                entered *= min(1.0, math.exp(enter[q] + lengths.before[q] - time[q]))
            walked = walked + leaving[q] - entered
            entering[q] = entered
            if entered == 0.0:
                continue
            most, period = enter[q] + lengths.before[q], lengths.period[i]
            total = math.exp(period - most) if q == first[i] else 0.0
            for h in range(places.pointer[q], places.pointer[q + 1]):
                total += math.exp(time[places.needed[h]] + scale * places.lag[h] + period - most)
            for h in range(places.pointer[q], places.pointer[q + 1]):
                own = math.exp(time[places.needed[h]] + scale * places.lag[h] + period - most)
                own *= entered / total
                leaving[places.needed[h]] += own
                lags += own * places.lag[h]
    return lags


@compiled
def price_flow(places: Any, candidates: Any, begin: Any, flow: Any, priced: Any) -> None:
    """Write what a flow takes at least with each candidate: of a range of copies, with any of them."""
    for i in range(len(begin) - 1):
        entered = 0.0
        for q in range(places.first[i], places.first[i + 1]):
            entered += flow.entering[q]
        for m in range(begin[i], begin[i + 1]):
            low, high, walked = candidates.low[m], candidates.high[m], 0.0
            for q in range(places.first[i], places.first[i + 1]):
                leaving, entering = flow.leaving[q], flow.entering[q]
                if leaving == 0.0 and entering == 0.0:
                    continue
                block = block_of(candidates, m, places.row[q], places.column[q])
                if low == high:
                    walked += (leaving - entering) * (block // low)
                else:
                    walked += leaving * (block // high) - entering * (block // low)
            # No walk goes backwards.
            priced[m] = candidates.period[m] * (entered + max(walked, 0.0))


@compiled_part
def _share(begin: Any, priced: Any, taken: Any, price: float, share: Any) -> tuple[float, float]:
    """Write shares by the exponentials of negative prices; return what they take, and its fall with price."""
    total, falls = 0.0, 0.0
    for i in range(len(begin) - 1):
        least = math.inf
        for m in range(begin[i], begin[i + 1]):
            least = min(least, priced[m] + price * taken[m])
        weights, first, second = 0.0, 0.0, 0.0
        for m in range(begin[i], begin[i + 1]):
            above = priced[m] + price * taken[m] - least
            share[m] = math.exp(-above) if above < _FARTHEST else 0.0
            weights += share[m]
            first += share[m] * taken[m]
            second += share[m] * taken[m] * taken[m]
        for m in range(begin[i], begin[i + 1]):
            share[m] /= weights
        total += first / weights
        falls += second / weights - (first / weights) ** 2
    return total, falls


@compiled
def shares_of(begin: Any, priced: Any, taken: Any, limit: float, price: float, share: Any) -> float:
    """Write shares that answer prices and about keep the limit; return its price, sought from `price` on."""
    low, high = 0.0, math.inf
    for _ in range(_NEWTON_STEPS):
        total, falls = _share(begin, priced, taken, price, share)
        if abs(total - limit) <= _NEAR_LIMIT * limit or (price == 0.0 and total <= limit):
            break
        if total > limit:
            low = price
        else:
            high = price
        step = price + (total - limit) / falls if falls > 0.0 else math.inf
        if not low < step < high:
            step = (low + high) / 2 if high < math.inf else 2 * price + 1e-3
        price = step
    return price


@compiled
def least_price(begin: Any, priced: Any, taken: Any, price: float) -> tuple[float, float]:
    """Return the sum of the least prices of all stages, and what these candidates take of the limit."""
    value, total = 0.0, 0.0
    for i in range(len(begin) - 1):
        least, of_least = math.inf, 0.0
        for m in range(begin[i], begin[i + 1]):
            own = priced[m] + price * taken[m]
            if own < least:
                least, of_least = own, taken[m]
        value += least
        total += of_least
    return value, total
