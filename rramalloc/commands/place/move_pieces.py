"""Improvement of a placement by local search: threshold accepting over moves of pieces and of tiles.

The moves are compiled: pieces and contents of tiles that change places, counted in whole numbers.

A stage is an end of edges, or two: one of all arrays, which take, one of those that give. One is enough where
each piece sends in proportion to its arrays. potential[s, t] is the sum over the mass of end s of its
distance to tile t. End s of mass z that goes from a to b changes the cost by z * (pull(s, b) - pull(s, a)),
pull(s, t) the sum over its neighbours c of weight * potential[c, t]; where masses m_s go at once, each pair
of neighbours s, c among them adds -2 * weight * m_s * m_c * distance(a, b). Partial sums are counted net by
net (`layout.Sums`). Pieces of a tile are a linked list. What column blocks in several tiles read is counted
as if it were shared out among them: a layout is kept only if its cost is less (`Layout.cost`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from rramalloc.commands.place.layout import Flows, Layout, Pieces
from rramalloc.commands.place.mesh import Mesh
from rramalloc.compiled import compiled, compiled_inline
from rramalloc.hardware.tables import Chip
from rramalloc.ndarrays import Ints
from rramalloc.search.work import Work

_RANDOM_FACTOR = 48271  # of Lehmer's generator: Park, Miller and Stockmeyer, CACM 36(7), 1993
_RANDOM_PRIME = 2**31 - 1  # of the same generator; products fit 64 bits
_SAMPLES = 512  # rising changes of the cost whose mean sets the first threshold
PROPOSALS_PER_WORK = 100_000  # random changes in a unit of work
_RUNS = 2  # runs of the search, each from the best layout so far
_MOST_TILES = 4096  # of a layout that is improved; a larger one stays as it is
_MOST_POTENTIALS = 2**24
_PROPOSALS_PER_PLACE = 12_000  # proposals per piece and tile after which more do not pay
_WEIGHT_SUM = 2.0**58


class PieceLists(NamedTuple):
    """Arrays and tile of every piece, and the pieces before and after it in its tile, -1 for none.

    end, mass: shape (pieces, 2), ends of edges that it is part of (-1 for none) and its mass in them;
    alike: pieces of equal numbers can change places without effect.
    """

    size: Ints
    site: Ints
    before: Ints
    after: Ints
    end: Ints
    mass: Ints
    alike: Ints


class TileLists(NamedTuple):
    """Free arrays and first piece of every tile, -1 for none; of_one: whether it holds one stage only."""

    room: Ints
    head: Ints
    of_one: bool


class Pull(NamedTuple):
    """The neighbours of end s and their weights, at pointer[s] ... pointer[s + 1]; potential as above."""

    pointer: Ints
    other: Ints
    weight: Ints
    potential: Ints


class Nets(NamedTuple):
    """Partial sums as `layout.Sums`, and where each piece is part of some.

    Net e goes from source[first[e]] ... source[first[e + 1]] to target[e], of this weight from each tile;
    apart[e]: no two sources fit in a tile; piece i is in net[pointer[i]] ... net[pointer[i + 1]].
    """

    weight: Ints
    target: Ints
    first: Ints
    source: Ints
    apart: Any
    pointer: Ints
    net: Ints


class EndMasses(NamedTuple):
    """Scratch of one proposal: mass and mark of every end (zero between proposals), ends touched."""

    net: Ints
    touched: Ints


@compiled_inline
def _next(state: Any, count: int) -> int:
    """Return a number in 0 ... count - 1 (Lehmer's generator, the same on every machine)."""
    state[0] = state[0] * _RANDOM_FACTOR % _RANDOM_PRIME
    return int(state[0] % count)


@compiled_inline
def _carry(i: int, sign: int, pieces: PieceLists, moved: EndMasses, n: int) -> int:
    """Add the masses of piece i to `moved`; the number of ends touched so far."""
    for k in range(2):
        s = pieces.end[i, k]
        if s >= 0:
            if moved.net[s, 1] == 0:
                moved.net[s, 1] = 1
                moved.touched[n] = s
                n += 1
            moved.net[s, 0] += sign * pieces.mass[i, k]
    return n


@compiled
def _gather(a: int, sign: int, pieces: PieceLists, tiles: TileLists, moved: EndMasses, n: int) -> int:
    """Add the masses of the pieces in tile a to `moved`; the number of ends touched so far."""
    i = tiles.head[a]
    while i >= 0:
        n = _carry(i, sign, pieces, moved, n)
        i = pieces.after[i]
    return n


@compiled_inline
def _is_free(tile: int, e: int, but: int, end: int, nets: Nets, site: Any) -> bool:
    """Return True if none of the sources of net e before `end` lies in a tile, piece `but` left out."""
    if not nets.apart[e]:
        for k in range(nets.first[e], end):
            if nets.source[k] != but and site[nets.source[k]] == tile:
                return False
    return True


@compiled
def _resite(i: int, b: int, nets: Nets, site: Any, distance: Any) -> int:
    """Put piece i into tile b; the change of the cost of partial sums."""
    change, a = 0, site[i]
    for at in range(nets.pointer[i], nets.pointer[i + 1]):
        e = nets.net[at]
        if nets.target[e] == i:
            for k in range(nets.first[e], nets.first[e + 1]):
                s = site[nets.source[k]]
                if _is_free(s, e, -1, k, nets, site):
                    change += nets.weight[e] * (distance[s, b] - distance[s, a])
        else:
            t, end = site[nets.target[e]], nets.first[e + 1]
            if _is_free(b, e, i, end, nets, site):
                change += nets.weight[e] * distance[b, t]
            if _is_free(a, e, i, end, nets, site):
                change -= nets.weight[e] * distance[a, t]
    site[i] = b
    return int(change)


@compiled
def _resite_all(a: int, b: int, pieces: PieceLists, tiles: TileLists, nets: Nets, distance: Any) -> int:
    """Put the pieces in the list of tile a into tile b; the change of the cost of partial sums."""
    change, i = 0, tiles.head[a]
    while i >= 0:
        change += _resite(i, b, nets, pieces.site, distance)
        i = pieces.after[i]
    return change


@compiled
def _change(a: int, b: int, moved: EndMasses, n: int, pull: Pull, distance: Any) -> int:
    """Change of the cost if the masses of the n touched stages go from a to b."""
    change, together = 0, 0
    for k in range(n):
        s = moved.touched[k]
        mass = moved.net[s, 0]
        if mass == 0:
            continue
        for e in range(pull.pointer[s], pull.pointer[s + 1]):
            other, weight = pull.other[e], pull.weight[e] * mass
            change += weight * (pull.potential[other, b] - pull.potential[other, a])
            together += weight * moved.net[other, 0]
    return int(change - together * distance[a, b])


@compiled
def _shift(a: int, b: int, moved: EndMasses, n: int, pull: Pull, distance: Any) -> None:
    """Move the masses: potentials follow."""
    for k in range(n):
        s = moved.touched[k]
        mass = moved.net[s, 0]
        if mass != 0:
            for t in range(len(distance)):
                pull.potential[s, t] += mass * (distance[b, t] - distance[a, t])


@compiled
def _fill(pieces: PieceLists, distance: Any, potential: Any) -> None:
    """Add what all pieces contribute to the potentials of their ends."""
    for i in range(len(pieces.site)):
        for k in range(2):
            s, mass = pieces.end[i, k], pieces.mass[i, k]
            if s >= 0:
                for t in range(len(distance)):
                    potential[s, t] += mass * distance[pieces.site[i], t]


@compiled
def _clear(moved: EndMasses, n: int) -> None:
    for k in range(n):
        moved.net[moved.touched[k], 0] = 0
        moved.net[moved.touched[k], 1] = 0


@compiled
def _relink(i: int, a: int, b: int, pieces: PieceLists, tiles: TileLists) -> None:
    """Move piece i from the list of tile a to the head of that of b."""
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
def _put_back(tile: int, pieces: PieceLists, tiles: TileLists) -> None:
    """Set the tile of each piece in the list of a tile."""
    i = tiles.head[tile]
    while i >= 0:
        pieces.site[i] = tile
        i = pieces.after[i]


@compiled
def _exchange(a: int, b: int, pieces: PieceLists, tiles: TileLists) -> None:
    """Exchange the contents of two tiles."""
    head, room = tiles.head, tiles.room
    head[a], head[b] = head[b], head[a]
    room[a], room[b] = room[b], room[a]
    _put_back(a, pieces, tiles)
    _put_back(b, pieces, tiles)


@compiled
def _accept_moves(
    pieces: PieceLists, tiles: TileLists, pull: Pull, nets: Nets, distance: Any, moved: EndMasses, state: Any,
    proposals: int,
) -> int:  # fmt: skip
    """Try random moves, exchanges of pieces and of tiles by threshold accepting; return the change of the
    cost in all.

    Any change up to a threshold is taken, which falls from a share of the usual change to 0 after two
    thirds of the `proposals`.
    """
    alike, size, site, room = pieces.alike, pieces.size, pieces.site, tiles.room
    sums = len(nets.target) > 0
    total, rising, samples = 0, 0, 0
    for number in range(proposals):
        kind = _next(state, 4)
        i = _next(state, len(size))
        a, j = site[i], -1
        if kind == 0:
            b = _next(state, len(room))
        elif kind == 1:
            b = _next(state, len(room))
            if room[b] < size[i]:
                continue
            if tiles.of_one and (tiles.head[b] < 0 or pieces.end[tiles.head[b], 0] != pieces.end[i, 0]):
                continue
        else:
            j = _next(state, len(size))
            b = site[j]
            if alike[i] == alike[j] or (tiles.of_one and pieces.end[i, 0] != pieces.end[j, 0]):
                continue
            if room[a] + size[i] < size[j] or room[b] + size[j] < size[i]:
                continue
        if a == b:
            continue
        if kind == 0:
            n = _gather(a, 1, pieces, tiles, moved, 0)
            n = _gather(b, -1, pieces, tiles, moved, n)
        else:
            n = _carry(i, 1, pieces, moved, 0)
            if j >= 0:
                n = _carry(j, -1, pieces, moved, n)
        change = _change(a, b, moved, n, pull, distance)
        if sums and kind == 0:
            change += _resite_all(a, b, pieces, tiles, nets, distance)
            change += _resite_all(b, a, pieces, tiles, nets, distance)
        elif sums:
            change += _resite(i, b, nets, site, distance)
            if j >= 0:
                change += _resite(j, a, nets, site, distance)
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
        elif sums and kind == 0:
            _put_back(a, pieces, tiles)
            _put_back(b, pieces, tiles)
        else:
            site[i] = a
            if j >= 0:
                site[j] = b
        _clear(moved, n)
    return total


def improve(layout: Layout, flows: Flows, mesh: Mesh, chip: Chip, work: int, seed: int, stop: Work) -> Layout:
    """Return a layout of no higher cost, the same for equal arguments; `layout` itself if it is too large.

    work: units of PROPOSALS_PER_WORK random changes; stop: its clock and token end the runs. All tiles that
    `layout.sites` lists can be used.
    """
    tiles, pieces = len(layout.sites), layout.pieces
    too_large = tiles > _MOST_TILES or tiles * pieces.stages > _MOST_POTENTIALS
    if too_large or tiles < 2 or not (len(flows.producer) or len(pieces.sums.target)) or work < 1:
        return layout
    if stop.out_of_time:
        return layout
    kernel = Kernel.of(layout, flows, mesh, chip)
    proposals = min(work * PROPOSALS_PER_WORK, _PROPOSALS_PER_PLACE * (len(layout.site) + tiles))
    state = np.array([seed % (_RANDOM_PRIME - 1) + 1], dtype=np.int64)
    best, cost = layout, layout.cost(flows, mesh)
    for _ in range(_RUNS):
        candidate, _ = kernel.run(best, state, -(-proposals // _RUNS))
        if (lower := candidate.cost(flows, mesh)) < cost:
            best, cost = candidate, lower
        if stop.out_of_time:
            break
    return best


class _Endpoints(NamedTuple):
    """The ends of edges, and neighbours of each with the weight of a pair in whole numbers, as in `Pull`.

    of_piece, mass: shape (pieces, 2), those that a piece is part of (-1 for none), and its mass in them.
    """

    number: int
    of_piece: Ints
    mass: Ints
    neighbours: tuple[Ints, Ints, Ints]

    @classmethod
    def of(cls, flows: Flows, pieces: Pieces, scale: float) -> _Endpoints:
        """Return the ends. scale: of bytes in weights."""
        stage, arrays, sends = pieces.stage, pieces.arrays, pieces.sends
        uneven = sends * pieces.taken[stage] != arrays * pieces.column_blocks[stage]
        apart = np.bincount(stage[uneven], minlength=pieces.stages) > 0
        sending = np.where(apart, pieces.stages + np.cumsum(apart) - 1, np.arange(pieces.stages))
        sending_mass = np.where(apart, pieces.column_blocks, pieces.taken)
        second = np.where(apart[stage] & (sends > 0), sending[stage], -1)
        p, c = sending[flows.producer], flows.consumer
        each = flows.size_bytes / (sending_mass[flows.producer] * pieces.taken[c])
        weight = np.rint(each * scale).astype(np.int64)
        endpoints, others, weights = (np.concatenate(pair) for pair in ((p, c), (c, p), (weight, weight)))
        order, count = np.argsort(endpoints, kind="stable"), pieces.stages + int(apart.sum())
        of_piece, mass = np.stack([stage, second], axis=1), np.stack([arrays, sends], axis=1)
        return cls(count, of_piece, mass, (_pointers(endpoints, count), others[order], weights[order]))


def _nets(pieces: Pieces, arrays_per_tile: int, scale: float) -> Nets:
    """Return the nets. scale: of bytes in weights."""
    sums, net = pieces.sums, pieces.sums.net
    several, first = np.diff(sums.pointer) > 1, sums.pointer[:-1]
    sizes = pieces.arrays[sums.source]
    sizes = sizes[np.lexsort((sizes, net))]
    apart = np.ones(len(first), dtype=bool)
    apart[several] = sizes[first[several]] + sizes[first[several] + 1] > arrays_per_tile
    members, nets = np.concatenate([sums.source, sums.target]), np.concatenate([net, np.arange(len(first))])
    pointer = _pointers(members, len(pieces.stage))
    nets = nets[np.lexsort((nets, members))]
    weight = np.rint(sums.size_bytes * scale).astype(np.int64)
    return Nets(weight, sums.target, sums.pointer, sums.source, apart, pointer, nets)


def _pointers(keys: Ints, count: int) -> Ints:
    """Return the place where the entries of every key begin once they are sorted by it."""
    return np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=count))]).astype(np.int64)


class Kernel(NamedTuple):
    """Pieces and tiles as the compiled search reads them, wherever the pieces are.

    hops: int64, between all tiles, in parts of a hop; unit: of the cost that it counts, in byte hops.
    """

    endpoints: _Endpoints
    nets: Nets
    hops: Ints
    chip: Chip
    unit: float

    @classmethod
    def of(cls, layout: Layout, flows: Flows, mesh: Mesh, chip: Chip) -> Kernel:
        """Return the kernel for any layout of the same pieces on the same tiles."""
        # parts of a hop, so that the weight of a hop between chips is kept
        parts = 1 if mesh.chip_hop == int(mesh.chip_hop) else 16
        hops = np.rint(mesh.hops(layout.sites[:, None], layout.sites[None]) * parts).astype(np.int64)
        pieces, sums = layout.pieces, layout.pieces.sums
        most_bytes = flows.size_bytes.sum() + (sums.size_bytes * np.diff(sums.pointer)).sum()
        scale = _WEIGHT_SUM / max(1.0, float(most_bytes)) / max(1, int(hops.max()))
        nets = _nets(pieces, chip.arrays_per_tile, scale)
        return cls(_Endpoints.of(flows, pieces, scale), nets, hops, chip, 1 / (scale * parts))

    def run(self, layout: Layout, state: Ints, proposals: int) -> tuple[Layout, float]:
        """Return the layout after `proposals` proposals, and the change of its cost as they count it."""
        endpoints, count, arrays = self.endpoints, len(layout.sites), layout.pieces.arrays
        room = self.chip.arrays_per_tile - np.bincount(layout.site, arrays, count).astype(np.int64)
        site = layout.site.copy()
        head, before, after = _lists(site, count)
        moved = EndMasses(
            np.zeros((endpoints.number, 2), dtype=np.int64), np.zeros(endpoints.number, dtype=np.int64)
        )
        pieces = PieceLists(
            arrays, site, before, after, endpoints.of_piece, endpoints.mass, layout.pieces.alike
        )
        tiles = TileLists(room, head, self.chip.sharing == "layer")
        pull = Pull(*endpoints.neighbours, np.zeros((endpoints.number, count), dtype=np.int64))
        _fill(pieces, self.hops, pull.potential)
        change = _accept_moves(pieces, tiles, pull, self.nets, self.hops, moved, state, proposals)
        return replace(layout, site=site), change * self.unit


def _lists(site: Ints, tiles: int) -> tuple[Ints, Ints, Ints]:
    """Return the pieces of every tile as a linked list: first, and the ones before and after each; -1 for
    none."""
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
