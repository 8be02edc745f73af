"""Improvement of a placement by local search: threshold accepting over moves of pieces and of tiles."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rramalloc.placement.flows import Flows, Spread
from rramalloc.placement.mesh import Ints, Mesh

PROPOSALS_PER_WORK = 100_000
_RUNS = 2
"""Runs of the search, each from the best layout so far."""
_MOST_TILES = 4096
_MOST_POTENTIALS = 2**24
_PROPOSALS_PER_PLACE = 12_000
"""Proposals per piece and tile after which more do not pay."""
_WEIGHT_SUM = 2.0**58
_RANDOM_PRIME = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Layout:
    """Pieces in tiles of the mesh. stage, arrays, site: int64, one row per piece; sites: int64 (k, 4).

    A piece is all arrays of a copy, or a part of a copy that does not fit a tile.
    """

    stages: int
    stage: Ints
    arrays: Ints
    site: Ints
    sites: Ints

    @property
    def spread(self) -> Spread:
        """Where the arrays of the stages are."""
        return Spread(self.stages, self.sites, self.stage, self.site, self.arrays)


def improve(layout: Layout, flows: Flows, mesh: Mesh, arrays_per_tile: int, work: int, seed: int) -> Layout:
    """A layout of no higher cost, the same for equal arguments; `layout` itself if it is too large.

    work: units of PROPOSALS_PER_WORK random changes. All tiles that `layout.sites` lists can be used.
    """
    tiles = len(layout.sites)
    too_large = tiles > _MOST_TILES or tiles * layout.stages > _MOST_POTENTIALS
    if too_large or tiles < 2 or not len(flows.producer) or work < 1:
        return layout
    hops = np.rint(mesh.distances(layout.sites) * _fraction(mesh)).astype(np.int64)
    neighbours = _neighbours(flows, layout.spread.total, int(hops.max()))
    proposals = min(work * PROPOSALS_PER_WORK, _PROPOSALS_PER_PLACE * (len(layout.site) + tiles))
    state = np.array([seed % (_RANDOM_PRIME - 1) + 1], dtype=np.int64)
    best, cost = layout, layout.spread.cost(flows, mesh)
    for _ in range(_RUNS):
        found = _run(best, hops, neighbours, arrays_per_tile, state, -(-proposals // _RUNS))
        if found.spread.cost(flows, mesh) < cost:
            best, cost = found, found.spread.cost(flows, mesh)
    return best


def _run(
    layout: Layout, hops: Ints, neighbours: tuple[Ints, Ints, Ints], arrays_per_tile: int, state: Ints,
    proposals: int,
) -> Layout:  # fmt: skip
    from rramalloc.placement.improve_kernel import improve as propose

    tiles = len(layout.sites)
    room = arrays_per_tile - np.bincount(layout.site, layout.arrays, tiles).astype(np.int64)
    held = np.zeros((layout.stages, tiles), dtype=np.int64)
    np.add.at(held, (layout.stage, layout.site), layout.arrays)
    site = layout.site.copy()
    net, touched = np.zeros((layout.stages, 2), dtype=np.int64), np.zeros(layout.stages, dtype=np.int64)
    propose(
        layout.stage, layout.arrays, site, room, *neighbours, held @ hops, hops, *_lists(site, tiles), net,
        touched, state, proposals,
    )  # fmt: skip
    return replace(layout, site=site)


def _fraction(mesh: Mesh) -> int:
    """Parts of a hop in which the kernel counts, so that the weight of a hop between chips is kept."""
    return 1 if mesh.chip_hop == int(mesh.chip_hop) else 16


def _neighbours(flows: Flows, arrays: Ints, farthest: int) -> tuple[Ints, Ints, Ints]:
    """Neighbours of every stage, and the weight of an array pair in whole numbers that cannot overflow."""
    p, c = flows.producer, flows.consumer
    each = flows.size_bytes / (arrays[p] * arrays[c])
    scale = _WEIGHT_SUM / max(1.0, float(flows.size_bytes.sum())) / max(1, farthest)
    weight = np.rint(each * scale).astype(np.int64)
    ends, others, weights = np.concatenate([p, c]), np.concatenate([c, p]), np.concatenate([weight, weight])
    order = np.argsort(ends, kind="stable")
    pointer = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=flows.stages))]).astype(np.int64)
    return pointer, others[order], weights[order]


def _lists(site: Ints, tiles: int) -> tuple[Ints, Ints, Ints]:
    """The pieces of every tile as a linked list: first, and the ones before and after each; -1 for none."""
    head = np.full(tiles, -1, dtype=np.int64)
    before, after = np.full((2, len(site)), -1, dtype=np.int64)
    order = np.argsort(site, kind="stable")
    last, first = order[:-1], order[1:]
    same = site[last] == site[first]
    after[last[same]], before[first[same]] = first[same], last[same]
    starts = np.ones(len(site), dtype=bool)
    starts[first[same]] = False
    head[site[starts]] = np.flatnonzero(starts)
    return head, before, after
