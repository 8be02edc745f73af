"""Improvement of a placement by local search: threshold accepting over moves of pieces and of tiles.

The moves are compiled: pieces and contents of tiles that change places, counted in whole numbers.

potential[s, t] is the sum over the arrays of stage s of their distance to tile t. Stage s of mass z that
goes from a to b changes the cost by z * (pull(s, b) - pull(s, a)), pull(s, t) the sum over its neighbours c
of weight * potential[c, t]; where masses m_s go at once, each pair of neighbours s, c among them adds
-2 * weight * m_s * m_c * distance(a, b). PieceLists of a tile are a linked list.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from rramalloc.compiled import compiled, compiled_inline
from rramalloc.placement.flows import Flows, Spread
from rramalloc.placement.mesh import Ints, Mesh

_RANDOM_FACTOR, _RANDOM_PRIME = 48271, 2**31 - 1
_SAMPLES = 512
"""Rising changes of the cost whose mean sets the first threshold."""
PROPOSALS_PER_WORK = 100_000
_RUNS = 2
"""Runs of the search, each from the best layout so far."""
_MOST_TILES = 4096
_MOST_POTENTIALS = 2**24
_PROPOSALS_PER_PLACE = 12_000
"""Proposals per piece and tile after which more do not pay."""
_WEIGHT_SUM = 2.0**58


class PieceLists(NamedTuple):
    """Stage, arrays and tile of every piece, and the pieces before and after it in its tile, -1 for none."""

    stage: Ints
    size: Ints
    site: Ints
    before: Ints
    after: Ints


class TileLists(NamedTuple):
    """Free arrays of every tile, and its first piece, -1 for none."""

    room: Ints
    head: Ints


class Pull(NamedTuple):
    """The neighbours of stage s and their weights, at pointer[s] ... pointer[s + 1]; potential as above."""

    pointer: Ints
    other: Ints
    weight: Ints
    potential: Ints


class Moved(NamedTuple):
    """Scratch of one proposal: mass and mark of every stage (zero between proposals), stages touched."""

    net: Ints
    touched: Ints


@compiled_inline
def _next(state: Any, count: int) -> int:
    """A number in 0 ... count - 1 (Lehmer's generator, the same on every machine)."""
    state[0] = state[0] * _RANDOM_FACTOR % _RANDOM_PRIME
    return int(state[0] % count)


@compiled
def _pulled(s: int, a: int, b: int, pull: Pull) -> int:
    """Change of the cost per array of stage s that goes from tile a to tile b, all else staying."""
    change = 0
    for e in range(pull.pointer[s], pull.pointer[s + 1]):
        other = pull.other[e]
        change += pull.weight[e] * (pull.potential[other, b] - pull.potential[other, a])
    return change


@compiled
def _gather(a: int, sign: int, pieces: PieceLists, tiles: TileLists, moved: Moved, n: int) -> int:
    """Add the masses of the pieces in tile a to `moved`; the number of stages touched so far."""
    i = tiles.head[a]
    while i >= 0:
        s = pieces.stage[i]
        if moved.net[s, 1] == 0:
            moved.net[s, 1] = 1
            moved.touched[n] = s
            n += 1
        moved.net[s, 0] += sign * pieces.size[i]
        i = pieces.after[i]
    return n


@compiled
def _pair(i: int, j: int, pieces: PieceLists, moved: Moved) -> int:
    """The mass of piece i, less that of piece j unless j < 0; the number of stages touched."""
    one = pieces.stage[i]
    moved.touched[0] = one
    moved.net[one, 0] += pieces.size[i]
    if j < 0:
        return 1
    moved.net[pieces.stage[j], 0] -= pieces.size[j]
    moved.touched[1] = pieces.stage[j]
    return 1 if pieces.stage[j] == one else 2


@compiled
def _change(a: int, b: int, moved: Moved, n: int, pull: Pull, distance: Any) -> int:
    """Change of the cost if the masses of the n touched stages go from a to b."""
    change, together = 0, 0
    for k in range(n):
        s = moved.touched[k]
        mass = moved.net[s, 0]
        if mass == 0:
            continue
        change += mass * _pulled(s, a, b, pull)
        for e in range(pull.pointer[s], pull.pointer[s + 1]):
            together += pull.weight[e] * mass * moved.net[pull.other[e], 0]
    return int(change - together * distance[a, b])


@compiled
def _shift(a: int, b: int, moved: Moved, n: int, pull: Pull, distance: Any) -> None:
    """Move the masses: potentials follow."""
    for k in range(n):
        s = moved.touched[k]
        mass = moved.net[s, 0]
        if mass != 0:
            for t in range(len(distance)):
                pull.potential[s, t] += mass * (distance[b, t] - distance[a, t])


@compiled
def _clear(moved: Moved, n: int) -> None:
    for k in range(n):
        moved.net[moved.touched[k], 0] = 0
        moved.net[moved.touched[k], 1] = 0


@compiled
def _relink(i: int, a: int, b: int, pieces: PieceLists, tiles: TileLists) -> None:
    """Piece i leaves the list of tile a and heads that of b."""
    before, after, head = pieces.before, pieces.after, tiles.head
    tiles.room[a] += pieces.size[i]
    tiles.room[b] -= pieces.size[i]
    if before[i] >= 0:
        after[before[i]] = after[i]
    else:
        head[a] = after[i]
    if after[i] >= 0:
        before[after[i]] = before[i]
    before[i], after[i], pieces.site[i] = -1, head[b], b
    if head[b] >= 0:
        before[head[b]] = i
    head[b] = i


@compiled
def _exchange(a: int, b: int, pieces: PieceLists, tiles: TileLists) -> None:
    """The contents of two tiles change places."""
    head, room = tiles.head, tiles.room
    head[a], head[b] = head[b], head[a]
    room[a], room[b] = room[b], room[a]
    for tile in (a, b):
        i = head[tile]
        while i >= 0:
            pieces.site[i] = tile
            i = pieces.after[i]


@compiled
def _accept_moves(
    pieces: PieceLists, tiles: TileLists, pull: Pull, distance: Any, moved: Moved, state: Any, proposals: int
) -> int:
    """Threshold accepting: random moves, exchanges of pieces and of tiles; the change of the cost in all.

    Any change up to a threshold is taken, which falls from a share of the usual change to 0 after two
    thirds of the `proposals`.
    """
    stage, size, site, room = pieces.stage, pieces.size, pieces.site, tiles.room
    total, rising, samples = 0, 0, 0
    for number in range(proposals):
        kind = _next(state, 4)
        i = _next(state, len(stage))
        a, j = site[i], -1
        if kind == 0:
            b = _next(state, len(room))
        elif kind == 1:
            b = _next(state, len(room))
            if room[b] < size[i]:
                continue
        else:
            j = _next(state, len(stage))
            b = site[j]
            if stage[i] == stage[j] and size[i] == size[j]:
                continue
            if room[a] + size[i] < size[j] or room[b] + size[j] < size[i]:
                continue
        if a == b:
            continue
        if kind == 0:
            n = _gather(a, 1, pieces, tiles, moved, 0)
            n = _gather(b, -1, pieces, tiles, moved, n)
        else:
            n = _pair(i, j, pieces, moved)
        change = _change(a, b, moved, n, pull, distance)
        threshold = 0
        if samples < _SAMPLES:
            if change > 0:
                rising, samples = rising + change // _SAMPLES, samples + 1
        elif 3 * number < 2 * proposals:
            threshold = int(rising // 16 * (1.0 - 1.5 * number / proposals))
        if change < 0 or (change <= threshold and samples >= _SAMPLES):
            total += change
            _shift(a, b, moved, n, pull, distance)
            if kind == 0:
                _exchange(a, b, pieces, tiles)
            else:
                _relink(i, a, b, pieces, tiles)
                if j >= 0:
                    _relink(j, b, a, pieces, tiles)
        _clear(moved, n)
    return total


@dataclass(frozen=True, eq=False)
class Layout:
    """PieceLists in tiles of the mesh. stage, arrays, site: int64, one row per piece; sites: int64 (k, 4).

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
        candidate = _run(best, hops, neighbours, arrays_per_tile, state, -(-proposals // _RUNS))
        if candidate.spread.cost(flows, mesh) < cost:
            best, cost = candidate, candidate.spread.cost(flows, mesh)
    return best


def _run(
    layout: Layout, hops: Ints, neighbours: tuple[Ints, Ints, Ints], arrays_per_tile: int, state: Ints,
    proposals: int,
) -> Layout:  # fmt: skip
    count = len(layout.sites)
    room = arrays_per_tile - np.bincount(layout.site, layout.arrays, count).astype(np.int64)
    held = np.zeros((layout.stages, count), dtype=np.int64)
    np.add.at(held, (layout.stage, layout.site), layout.arrays)
    site = layout.site.copy()
    head, before, after = _lists(site, count)
    moved = Moved(np.zeros((layout.stages, 2), dtype=np.int64), np.zeros(layout.stages, dtype=np.int64))
    pieces = PieceLists(layout.stage, layout.arrays, site, before, after)
    pull = Pull(*neighbours, held @ hops)
    _accept_moves(pieces, TileLists(room, head), pull, hops, moved, state, proposals)
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
