"""Compiled parts of the program over places: batches of pixels, prices of candidates, and longest paths.

A candidate is a mode of a stage with low ... high copies, a place a pixel of the stage at which paths may
enter or leave it. Every coefficient is the least over all members of a candidate, so a row that is made of
them holds for each of its copies.

Source: docs/sources/bound.md.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rramalloc.compiled import compiled, compiled_part
from rramalloc.timing.kernel import block_row, last_row

_NEVER = -1e18
_SINKHORN_ROUNDS = 30


class Candidates(NamedTuple):
    """Modes with low ... high copies, of one stage or of several; int64, period float64.

    tall, wide, top, left, image, columns, total: as in ModeTable; period: length of a batch of `low` copies.
    """

    tall: Any
    wide: Any
    top: Any
    left: Any
    image: Any
    columns: Any
    total: Any
    low: Any
    high: Any
    period: Any

    def take(self, rows: Any) -> Candidates:
        """Return some of the candidates."""
        return Candidates(*(column[rows] for column in self))


class LongestPaths(NamedTuple):
    """Longest paths to every pixel of all stages, written by `longest_paths`.

    time[q]: when pixel q is available; entered[q]: pixel at which the path enters its stage; edge[q]: by
    which a path that enters at q comes, -1 if it begins there.
    """

    time: Any
    entered: Any
    edge: Any


@compiled_part
def block_of(candidates: Any, m: int, y: int, x: int) -> int:
    """Return the number of the block of a candidate that holds a pixel."""
    if candidates.tall[m] == 1 and candidates.wide[m] == 1:  # without the divisions
        return y * candidates.columns[m] + x
    row = block_row(y, 1.0 / candidates.tall[m], candidates.top[m] + 0.5, candidates.image[m])
    return row * candidates.columns[m] + (x + candidates.left[m]) // candidates.wide[m]


@compiled
def batches_of_pixel(candidates: Any, y: int, x: int, earliest: Any, latest: Any) -> None:
    """Write the number of the batch that holds a pixel with the most and with the fewest copies; int32."""
    for m in range(len(candidates.low)):
        block = block_of(candidates, m, y, x)
        earliest[m], latest[m] = block // candidates.high[m], block // candidates.low[m]


@compiled
def price_legs(
    period: Any, earliest: Any, latest: Any, enter: Any, leave: Any, flow: Any, batches: float, priced: Any
) -> None:
    """Write what every candidate takes on legs from `enter` to `leave`, each with its flow.

    batches: that all candidates take besides.
    """
    priced[:] = batches
    for leg in range(len(flow)):
        first, last, own = latest[enter[leg]], earliest[leave[leg]], flow[leg]
        for m in range(len(period)):
            if last[m] > first[m]:
                priced[m] += own * (last[m] - first[m])
    for m in range(len(period)):
        priced[m] *= period[m]


@compiled_part
def _enter(edges: Any, begin: Any, unit: float, time: Any, i: int, y: int, x: int) -> tuple[float, int]:
    """Return when the pixels that a pixel needs are available, and the edge that decides, -1 for none."""
    latest, edge = _NEVER, -1
    for e in range(edges.pointer[i], edges.pointer[i + 1]):
        row, column, p = edges.table[edges.row[e] + y], edges.table[edges.column[e] + x], edges.producer[e]
        if row >= 0 and column >= 0:
            available = time[begin[p] + row * edges.width[p] + column] + edges.lag[e] / unit
            if available > latest:
                latest, edge = available, e
    return latest, edge


@compiled_part
def _batches(mixture: Any, weight: Any, first: int, last: int, y: int, x: int) -> float:
    """Return the mean time of the batches before that of a pixel."""
    time = 0.0
    for s in range(first, last):
        time += weight[s] * mixture.period[s] * (block_of(mixture, s, y, x) // mixture.low[s])
    return time


@compiled
def longest_paths(
    edges: Any, begin: Any, is_raster: Any, unit: float, first: Any, mixture: Any, weight: Any, paths: Any
) -> None:
    """Fill `paths` for mixtures of candidates: first[i] ... first[i + 1] - 1 of stage i, with their weights.

    unit: of times, in ticks. Pixels of stage i have the numbers begin[i] ... begin[i + 1] - 1. is_raster[i]:
    later in raster order is never computed earlier; in other stages only what is neither above nor left.
    """
    time, entered, edge = paths
    for i in range(len(edges.height)):
        width, at = edges.width[i], begin[i]
        period = 0.0
        for s in range(first[i], first[i + 1]):
            period += weight[s] * mixture.period[s]
        # First the latest entrance minus the batches before it, as a running maximum; the batches of the exit
        # are added then, since those of a mixture add up along a walk.
        for y in range(edges.height[i]):
            for x in range(width):
                q = at + y * width + x
                available, edge[q] = _enter(edges, begin, unit, time, i, y, x)
                if q == at:
                    available = max(available, 0.0)
                best, where = available - _batches(mixture, weight, first[i], first[i + 1], y, x), q
                if (x > 0 or (is_raster[i] and y > 0)) and time[q - 1] >= best:
                    best, where = time[q - 1], entered[q - 1]
                if y > 0 and not is_raster[i] and time[q - width] >= best:
                    best, where = time[q - width], entered[q - width]
                time[q], entered[q] = best, where
        for y in range(edges.height[i]):
            for x in range(width):
                walked = _batches(mixture, weight, first[i], first[i + 1], y, x)
                time[at + y * width + x] += walked + period


@compiled_part
def _last_block(candidates: Any, m: int, y: int, x: int) -> int:
    """Return the least number of the last block of the batch that holds a pixel."""
    low, block = candidates.low[m], block_of(candidates, m, y, x)
    last = (block // low + 1) * low - 1 if low == candidates.high[m] else max(block, low - 1)
    return min(last, candidates.total[m] - 1)


@compiled
def pair_waits(
    edges: Any, edge: int, own: Any, pixel: tuple[int, int], others: Any, needed: tuple[int, int], waits: Any
) -> None:
    """Write the least time between two batches of a producer, waits[m, k], for every pair of candidates.

    The first holds the pixel `needed`; the second is the last that the batch with `pixel` of the consumer
    waits for. own, m: of the consumer; others, k: of the producer.
    """
    rows, columns = edges.row[edge], edges.column[edge]
    i = np.searchsorted(edges.pointer, edge, side="right") - 1
    right = edges.width[i] - 1
    for m in range(len(own.low)):
        last = _last_block(own, m, pixel[0], pixel[1])
        r, c = last // own.columns[m], last % own.columns[m]
        # Two look-ups (docs/sources/model.md 10): the last block, and the end of the row of blocks above it.
        tall, top, image = own.tall[m], own.top[m], own.image[m]
        row = edges.table[rows + last_row(r, tall, top, image)]
        column = edges.table[columns + min((c + 1) * own.wide[m] - own.left[m] - 1, right)]
        above = edges.table[rows + last_row(r - 1, tall, top, image)] if r > 0 else -1
        end = edges.table[columns + right]
        for k in range(len(others.low)):
            batch = block_of(others, k, row, column) // others.high[k] if row >= 0 and column >= 0 else -1
            if above >= 0 and end >= 0:
                batch = max(batch, block_of(others, k, above, end) // others.high[k])
            since = block_of(others, k, needed[0], needed[1]) // others.low[k]
            waits[m, k] = others.period[k] * max(batch - since, 0)


@compiled_part
def _soft_least(waits: Any, potential: Any, weight: Any, sharpness: float) -> float:
    """Return the smoothed least of what waits leave above potentials, of candidates with a weight."""
    least = np.inf
    for m in range(len(weight)):
        least = min(least, waits[m] - potential[m])
    total = 0.0
    for m in range(len(weight)):
        total += weight[m] * math.exp(-sharpness * (waits[m] - potential[m] - least))
    return least - math.log(total) / sharpness


@compiled
def potentials(
    waits: Any, own_weight: Any, other_weight: Any, sharpness: float, own: Any, others: Any
) -> None:
    """Write own[m] + others[k] <= waits[m, k] for all pairs, of about the largest weighted sum.

    The weights are those of the candidates in use, which come first; their potentials are those of a
    smoothed transport problem (Sinkhorn), made valid and as large as the pairs allow.
    """
    used, fed = len(own_weight), len(other_weight)
    own[:], others[:] = 0.0, 0.0
    for _ in range(_SINKHORN_ROUNDS):
        for k in range(fed):
            others[k] = _soft_least(waits[:, k], own, own_weight, sharpness)
        for m in range(used):
            own[m] = _soft_least(waits[m], others, other_weight, sharpness)
    # Whatever they were, each is now taken as large as all pairs allow.
    for k in range(len(others)):
        others[k] = np.inf
        for m in range(used):
            others[k] = min(others[k], waits[m, k] - own[m])
    for m in range(len(own)):
        own[m] = np.inf
        for k in range(len(others)):
            own[m] = min(own[m], waits[m, k] - others[k])
