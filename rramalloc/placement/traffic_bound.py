"""A lower bound of the traffic cost of any placement: what must leave its tile, and how far at least.

Let stages p and c have N_p and N_c arrays, a tile T. If a tile holds x of p and y of c, x + y <= T, so for
any s in [0, 1] x * y <= T * (s^2 * x + (1 - s)^2 * y); with s = N_c / (N_p + N_c), summed over the tiles, the
pairs within a tile are at most the share T / (N_p + N_c) of all pairs. The tiles nearer than h hops to an
array hold at most K_h * T - 1 arrays beside it, K_h the most tiles that are nearer than h to any tile, so the
pairs less than h apart are at most the share (K_h * T - 1) / max(N_p, N_c). The mean of hops is the integral
over h of the share that is h or more apart. Thus edges are bounded one by one.

The tiles near an array of a stage must hold the arrays of all its neighbours: those with most bytes a pair
lie nearest. The sum of this over all arrays counts every edge from both ends: half of it is a second bound.

A row block of the reader is sent to over at least the hops to its farthest array, so over no fewer than the
mean of those to all of its arrays, which are as many for every row block: bounds of pairs of arrays hold.

Results leave from one array a column block, the others send it partial sums. Let x be one of the m arrays of
a column block whose results leave from g, y an array of the reader: d(x, y) <= d(x, g) + d(g, y). A tile
apart from g holds k = min(T, m - 1) of the m arrays at most, so the mean of d(x, y) over them is at most
d(g, y) + k / m * (sum over the tiles of d(tile, g)). Flows of together m / k times the bytes of a partial sum
thus cost, with the partial sums, at least what both bounds say of all N_p arrays. Other bytes are bounded
with the arrays that give in place of N_p.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.placement.flows import Flows
from rramalloc.placement.mesh import Ints, Mesh

Floats = npt.NDArray[np.float64]
_CAUTION = 1 - 1e-12
_MOST_LEVELS, _MOST_STEPS = 2048, 64
"""Hops up to which a bound counts, in meshes of any extent, and levels beyond each hop between chips."""


class Masses(NamedTuple):
    """Arrays of every stage that give results, and all, that take inputs; sum_bytes: float64, of the partial
    sums of each if every column block sent one, infinite where copies lie in one tile each.
    """

    given: Ints
    taken: Ints
    sum_bytes: Floats


def lower_bound(flows: Flows, masses: Masses, mesh: Mesh, arrays_per_tile: int) -> float:
    """Bytes x hops that no placement of these arrays undercuts.

    It holds for any assignment of arrays to tiles, also of those that let copies straddle.
    """
    given, taken, sum_bytes = masses
    nearest, p, c = _Nearest(mesh), flows.producer, flows.consumer
    of_all, of_given = (
        nearest.mean_hops_of(arrays[p], taken[c], arrays_per_tile) for arrays in (taken, given)
    )
    rows = taken / given
    left = sum_bytes * rows / np.clip(rows - 1, 1, arrays_per_tile)
    shared = np.zeros(len(p))
    for edge in np.argsort(of_given - of_all, kind="stable").tolist():
        shared[edge] = min(left[p[edge]], flows.size_bytes[edge])
        left[p[edge]] -= shared[edge]
    total, arrays = 0.0, np.concatenate([taken, given])
    for sender, size_bytes, hops in (
        (p, shared, of_all),
        (p + len(taken), flows.size_bytes - shared, of_given),
    ):
        one_by_one = math.fsum((size_bytes * hops).tolist())
        from_both_ends = nearest.all_neighbours(sender, c, size_bytes, arrays, arrays_per_tile)
        total += max(one_by_one, from_both_ends / 2)
    return total * _CAUTION


@dataclass(frozen=True, eq=False)
class _Nearest:
    mesh: Mesh

    @cached_property
    def levels(self) -> list[tuple[float, int]]:
        """(hops, most tiles nearer than them to any tile), both rising from the nearest neighbours on."""
        rows, columns, chip_rows, chip_columns = (
            min(extent, 2 * _MOST_LEVELS + 1) for extent in (*self.mesh.tiles, *self.mesh.chips)
        )
        own = np.cumsum(np.convolve(_from_middle(rows), _from_middle(columns)))
        corner = np.cumsum(np.convolve(np.ones(rows, dtype=np.int64), np.ones(columns, dtype=np.int64)))
        chips = np.convolve(_from_middle(chip_rows), _from_middle(chip_columns))[1:]
        far = [(number + 1) * self.mesh.chip_hop for number in range(len(chips))]
        reach = {float(hops) for hops in range(1, min(len(own), _MOST_LEVELS))}
        reach |= {at + step for at in far[:_MOST_STEPS] for step in range(min(len(corner), _MOST_STEPS))}
        farthest = min(_MOST_LEVELS, far[_MOST_LEVELS] if len(far) > _MOST_LEVELS else math.inf)
        levels = []
        for hops in sorted(hops for hops in reach if hops <= farthest):
            tiles = int(own[min(math.ceil(hops) - 1, len(own) - 1)])
            for number, at in enumerate(far):
                if at >= hops:
                    break
                tiles += int(chips[number]) * int(corner[min(math.ceil(hops - at) - 1, len(corner) - 1)])
            levels.append((hops, tiles))
        return levels

    def mean_hops_of(self, ones: Ints, others: Ints, arrays_per_tile: int) -> Floats:
        """`mean_hops` of each of many pairs of stages."""
        pairs = list(zip(ones.tolist(), others.tolist(), strict=True))
        known = {pair: self.mean_hops(*pair, arrays_per_tile) for pair in dict.fromkeys(pairs)}
        return np.array([known[pair] for pair in pairs], dtype=np.float64)

    def mean_hops(self, one: int, other: int, arrays_per_tile: int) -> float:
        """Least mean of hops between `one` arrays of a stage and `other` of another."""
        terms, before = [], 0.0
        for hops, tiles in self.levels:
            near = (tiles * arrays_per_tile - 1) / max(one, other)
            if before == 0.0:
                near = min(near, arrays_per_tile / (one + other))
            if near >= 1.0:
                break
            terms.append((hops - before) * (1.0 - near))
            before = hops
        return math.fsum(terms)

    def all_neighbours(
        self, p: Ints, c: Ints, size_bytes: Floats, arrays: Ints, arrays_per_tile: int
    ) -> float:
        """Least sum, over all arrays of all stages, of bytes x hops between one and its neighbours.

        p, c: stages of each edge, which carries `size_bytes`.
        """
        ends, others = np.concatenate([p, c]), np.concatenate([c, p])
        sent = np.concatenate([size_bytes, size_bytes])
        terms = []
        for stage in np.unique(ends).tolist():
            near = np.flatnonzero(ends == stage)
            counts, share = arrays[others[near]], sent[near] / arrays[others[near]]
            order = np.argsort(-share, kind="stable")
            held = np.cumsum(counts[order])
            before = 0.0
            for hops, tiles in self.levels:
                room = tiles * arrays_per_tile - 1
                if room >= held[-1]:
                    break
                beyond = np.minimum(counts[order], np.maximum(held - room, 0))
                terms.append((hops - before) * math.fsum((beyond * share[order]).tolist()))
                before = hops
        return math.fsum(terms)


def _from_middle(extent: int) -> Ints:
    """Lines at distance 0, 1, ... from the middle one of `extent`, the one with most lines near."""
    distance = np.abs(np.arange(extent, dtype=np.int64) - extent // 2)
    return np.bincount(distance).astype(np.int64)
