"""Improvement of a placement: threshold accepting over moves of pieces and of tiles, by byte hops and loads.

Source of the loop: Dueck and Scheuer, "Threshold accepting", J. Comput. Phys. 90, 161-175 (1990). Departures:
(1) the first threshold is a part of the mean rise of the first proposals, and it falls to 0 at two thirds of
the work; (2) half of the proposals look for room where a neighbour of the stage lies; (3) exchanges of whole
tiles take a part of the work, not of the proposals; (4) work is counted in what a proposal reads and writes.

A way along a row and then along columns is as long as the lines that it crosses, so the cost is a sum over
lines. With several chips a tile has a place on every mesh: on that of its own chip, on that of any other
chip at tile (0, 0), by which all enters and leaves, and on the mesh of chips (`Mesh`). What stage p sends to
a unit of stage c takes, with the hops of all senders to a line (`Lines.hops`),

    weight of (p, c) * copies of the unit * (EAST to its last column + WEST to its first column
        + sum over its columns of (SOUTH to the last row in it + NORTH to the first row in it))

and one sender takes `Lines.read` of its column and row to all units of c. A piece that moves changes these
sums of its own stage alone. What an edge loads a link with is the senders before it times the units beyond it
(`LinkLoads`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from rramalloc.commands.place.layout import Layout, Pieces
from rramalloc.commands.place.links import (
    EAST,
    NO_CAPS,
    NORTH,
    SOUTH,
    WEST,
    LinkCaps,
    add_leg,
    on_meshes,
)
from rramalloc.commands.place.mesh import Mesh
from rramalloc.compiled import compiled, compiled_inline
from rramalloc.hardware.tables import Chip
from rramalloc.ndarrays import Floats, Ints
from rramalloc.search.work import Work

_RANDOM_FACTOR = 48271  # of Lehmer's generator: Park, Miller and Stockmeyer, CACM 36(7), 1993
_RANDOM_PRIME = 2**31 - 1  # of the same generator; products fit 64 bits
_BETWEEN_LOOKS = 25_000_000  # operations between looks at the clock and at Ctrl-C, about half a second
OPERATIONS = 500_000  # of the search in a unit of work, about 0.01 s
FIRST_THRESHOLD = 1 / 16  # of the mean rise of a proposal
_TILES = 2.5  # of the work is one part for exchanges of whole tiles
_TIMED_TILES = 4.0  # where their links are counted as well
_ONE_LAYER = 1.5  # with or without links, where a tile holds one layer and pieces have few tiles to go to
_SAMPLES = 512  # rising changes of the cost whose mean sets the first threshold


class TileCoordinates(NamedTuple):
    """row, column: (meshes, tiles), where tiles lie on each mesh, of so many rows and columns at most; hop:
    (meshes,), what a hop there costs.
    """

    row: Ints
    column: Ints
    hop: Floats
    high: int
    wide: int


class PieceLists(NamedTuple):
    """Arrays, stage, column blocks that send, and tile of every piece, and its neighbours in it, -1 for none.

    alike: pieces of equal numbers can change places without effect; sorted: by stage, those of stage s at
    of_stage[s] ... of_stage[s + 1]; first, unit: its units are unit[first[i]] ... unit[first[i + 1]].
    """

    size: Ints
    stage: Ints
    sends: Floats
    site: Ints
    before: Ints
    after: Ints
    alike: Ints
    sorted: Ints
    of_stage: Ints
    first: Ints
    unit: Ints


class TileLists(NamedTuple):
    """Free arrays and first piece of every tile, -1 for none; of_one: whether it holds one stage only.

    kind: of its arrays; arrays: that it has for this network.
    """

    room: Ints
    head: Ints
    of_one: bool
    kind: Ints
    arrays: Ints


class ReadUnits(NamedTuple):
    """Who reads the same inputs: pieces piece[first[u]] ... piece[first[u + 1]], so many copies alike.

    of_stage: where the units of every stage begin.
    """

    of_stage: Ints
    first: Ints
    piece: Ints
    copies: Floats


class StageEdges(NamedTuple):
    """stage[first[s]] ... stage[first[s + 1]]: those that s sends to, or that it reads.

    weight: bytes of an input for a pair of a sender and a unit; busy: part of a batch in which a link of one
    byte a ns carries what a pair sends in it.
    """

    first: Ints
    stage: Ints
    weight: Floats
    busy: Floats


class Nets(NamedTuple):
    """Partial sums as `layout.Sums`, and where each piece is part of some.

    Net e goes from source[first[e]] ... source[first[e + 1]] to target[e], of this weight from each tile;
    apart[e]: no two sources fit in a tile; piece i is in net[pointer[i]] ... net[pointer[i + 1]].
    """

    weight: Floats
    busy: Floats
    target: Ints
    first: Ints
    source: Ints
    apart: Any
    pointer: Ints
    net: Ints


ACROSS, ALONG = 0, 1  # of `Lines.read`


class Lines(NamedTuple):
    """Hops of every stage on every mesh to or from each line, as the head of this file says.

    hops: (stages, meshes, 4, lines), of what is sent; read: (stages, meshes, 2, lines), to what reads.
    first_row, last_row, columns: scratch of a unit, outermost rows (-1 for none) and numbers of its columns.
    """

    hops: Floats
    read: Floats
    first_row: Ints
    last_row: Ints
    columns: Ints


class LinkLoads(NamedTuple):
    """load: (meshes, 4, rows, columns), by direction (`links`), as a part of the time of a batch.

    before, beyond: (stages, meshes, 4, rows, columns), of each stage, senders whose way passes the link if it
    leads so far, and units with tiles beyond it. busy: (meshes,), time of a byte; cap: what each link may be
    loaded; over: (1,), what all links have above that; timed: whether loads are counted.
    """

    load: Floats
    before: Floats
    beyond: Floats
    busy: Floats
    cap: Floats
    over: Floats
    timed: bool


class PlacementState(NamedTuple):
    """All that a search reads and writes.

    generator: its state; work: that was done; tile_work: that of exchanges of tiles; rises: number of
    rises of byte hops that were counted; rise: their sum. Each is an array of one number, which the search
    changes.
    """

    places: TileCoordinates
    pieces: PieceLists
    tiles: TileLists
    units: ReadUnits
    readers: StageEdges
    senders: StageEdges
    nets: Nets
    lines: Lines
    links: LinkLoads
    generator: Ints
    work: Ints
    tile_work: Ints
    rises: Ints
    rise: Floats


@compiled_inline
def _next(generator: Any, count: int) -> int:
    """Return a number in 0 ... count - 1 (Lehmer's generator, the same on every machine)."""
    generator[0] = generator[0] * _RANDOM_FACTOR % _RANDOM_PRIME
    return int(generator[0] % count)


@compiled_inline
def _over(high: int, low: int) -> int:
    """Return how far a line lies beyond another, 0 if it does not."""
    return high - low if high > low else 0


@compiled_inline
def _same(p: TileCoordinates, m: int, a: int, b: int) -> bool:
    """Return True if two tiles, none of them -1, lie in one place of a mesh."""
    return bool(a >= 0 and p.row[m, a] == p.row[m, b] and p.column[m, a] == p.column[m, b])


@compiled_inline
def _hops(p: TileCoordinates, a: int, b: int) -> float:
    """Return what the hops between two tiles cost."""
    total = 0.0
    for m in range(len(p.hop)):
        total += p.hop[m] * (abs(p.row[m, a] - p.row[m, b]) + abs(p.column[m, a] - p.column[m, b]))
    return total


@compiled_inline
def _span(u: int, m: int, q: PlacementState) -> Any:
    """Write the outermost rows in every column of a unit; return how many columns, the first and the last."""
    lines, n, first, last = q.lines, 0, q.places.wide, -1
    for at in range(q.units.first[u], q.units.first[u + 1]):
        tile = q.pieces.site[q.units.piece[at]]
        x, y = q.places.column[m, tile], q.places.row[m, tile]
        if lines.last_row[x] < 0:
            lines.columns[n] = x
            n += 1
            lines.first_row[x], lines.last_row[x] = y, y
        else:
            lines.first_row[x] = min(lines.first_row[x], y)
            lines.last_row[x] = max(lines.last_row[x], y)
        first, last = min(first, x), max(last, x)
    return n, first, last


@compiled_inline
def _forget(n: int, q: PlacementState) -> None:
    """Clear the scratch of a unit of n columns."""
    for k in range(n):
        q.lines.last_row[q.lines.columns[k]] = -1


@compiled_inline
def _read_cost(u: int, c: int, a: int, b: int, q: PlacementState) -> float:
    """Return what a unit of stage c takes on the meshes where tiles a and b lie apart."""
    total, lines = 0.0, q.lines
    for m in range(len(q.places.hop)):
        if _same(q.places, m, a, b):
            continue
        n, first, last = _span(u, m, q)
        for e in range(q.senders.first[c], q.senders.first[c + 1]):
            p = q.senders.stage[e]
            part = lines.hops[p, m, EAST, last] + lines.hops[p, m, WEST, first]
            for k in range(n):
                x = lines.columns[k]
                part += (
                    lines.hops[p, m, SOUTH, lines.last_row[x]] + lines.hops[p, m, NORTH, lines.first_row[x]]
                )
            total += q.senders.weight[e] * part * q.places.hop[m]
        _forget(n, q)
    return float(total * q.units.copies[u])


@compiled_inline
def _is_free(tile: int, e: int, but: int, end: int, nets: Nets, site: Any) -> bool:
    """Return True if none of the sources of net e before `end` lies in a tile, piece `but` left out."""
    if not nets.apart[e]:
        for k in range(nets.first[e], end):
            if nets.source[k] != but and site[nets.source[k]] == tile:
                return False
    return True


@compiled
def _send_sum(e: int, a: int, b: int, sign: int, loaded: bool, q: PlacementState) -> float:
    """Return what a partial sum of net e costs from tile a to tile b, times the sign.

    loaded: load the links of its way, too.
    """
    places = q.places
    if loaded:
        for m in range(len(places.hop)):
            amount = sign * q.nets.busy[e] * q.links.busy[m]
            start = places.row[m, a], places.column[m, a]
            end = places.row[m, b], places.column[m, b]
            add_leg(start, end, amount, q.links.load[m])
    return float(sign * q.nets.weight[e] * _hops(places, a, b))


@compiled
def _move_sums(i: int, a: int, b: int, loaded: bool, q: PlacementState) -> float:
    """Return the change of the cost of partial sums if piece i goes from tile a to tile b.

    loaded: change the loads of links, too.
    """
    nets, site, change = q.nets, q.pieces.site, 0.0
    for at in range(nets.pointer[i], nets.pointer[i + 1]):
        e = nets.net[at]
        if nets.target[e] == i:
            for k in range(nets.first[e], nets.first[e + 1]):
                s = site[nets.source[k]]
                if _is_free(s, e, -1, k, nets, site):
                    change += _send_sum(e, s, b, 1, loaded, q) + _send_sum(e, s, a, -1, loaded, q)
        else:
            t, end = site[nets.target[e]], nets.first[e + 1]
            if _is_free(b, e, i, end, nets, site):
                change += _send_sum(e, b, t, 1, loaded, q)
            if _is_free(a, e, i, end, nets, site):
                change += _send_sum(e, a, t, -1, loaded, q)
    return float(change)


@compiled
def _move(i: int, b: int, q: PlacementState) -> float:
    """Put piece i into tile b; return the change of the byte hops. Lines and links follow by `_shift`."""
    pieces, places, lines, change = q.pieces, q.places, q.lines, 0.0
    a, s, meshes = pieces.site[i], pieces.stage[i], len(q.places.hop)
    if pieces.sends[i] > 0:
        for m in range(meshes):
            xa, xb, ya, yb = places.column[m, a], places.column[m, b], places.row[m, a], places.row[m, b]
            for e in range(q.readers.first[s], q.readers.first[s + 1]):
                c = q.readers.stage[e]
                apart = lines.read[c, m, ACROSS, xb] - lines.read[c, m, ACROSS, xa]
                apart += lines.read[c, m, ALONG, yb] - lines.read[c, m, ALONG, ya]
                change += q.readers.weight[e] * places.hop[m] * apart
        change *= pieces.sends[i]
    if q.nets.pointer[i] < q.nets.pointer[i + 1]:
        change += _move_sums(i, a, b, False, q)
    for sign in (-1, 1):
        for at in range(pieces.first[i], pieces.first[i + 1]):
            change += sign * _read_cost(pieces.unit[at], s, a, b, q)
        pieces.site[i] = b
    units = pieces.first[i + 1] - pieces.first[i]
    edges = (
        units * (q.senders.first[s + 1] - q.senders.first[s]) + q.readers.first[s + 1] - q.readers.first[s]
    )
    q.work[0] += 10 + meshes * edges
    return float(change)


@compiled
def _count_unit(u: int, c: int, a: int, b: int, sign: int, q: PlacementState) -> None:
    """Count a unit of stage c, or take it away, on the meshes where tiles a and b lie apart."""
    lines, links = q.lines, q.links
    for m in range(len(q.places.hop)):
        if _same(q.places, m, a, b):
            continue
        n, first, last = _span(u, m, q)
        amount, high, wide = sign * q.units.copies[u], q.places.high, q.places.wide
        for x in range(wide):
            lines.read[c, m, ACROSS, x] += amount * (_over(last, x) + _over(x, first))
        for k in range(n):
            x = lines.columns[k]
            for y in range(high):
                lines.read[c, m, ALONG, y] += amount * (
                    _over(lines.last_row[x], y) + _over(y, lines.first_row[x])
                )
        if links.timed:
            for y in range(high):
                for x in range(last):
                    links.beyond[c, m, EAST, y, x] += amount
                for x in range(first + 1, wide):
                    links.beyond[c, m, WEST, y, x] += amount
            for k in range(n):
                x = lines.columns[k]
                for y in range(lines.last_row[x]):
                    links.beyond[c, m, SOUTH, y, x] += amount
                for y in range(lines.first_row[x] + 1, high):
                    links.beyond[c, m, NORTH, y, x] += amount
        _forget(n, q)


@compiled
def _count_sender(i: int, tile: int, sign: int, q: PlacementState) -> None:
    """Add a piece in a tile to the hops of its stage, or take it away."""
    lines, links, s, amount = q.lines, q.links, q.pieces.stage[i], sign * q.pieces.sends[i]
    high, wide = q.places.high, q.places.wide
    if amount == 0:
        return
    for m in range(len(q.places.hop)):
        column, row = q.places.column[m, tile], q.places.row[m, tile]
        for x in range(wide):
            lines.hops[s, m, EAST, x] += amount * _over(x, column)
            lines.hops[s, m, WEST, x] += amount * _over(column, x)
        for y in range(high):
            lines.hops[s, m, SOUTH, y] += amount * _over(y, row)
            lines.hops[s, m, NORTH, y] += amount * _over(row, y)
        if links.timed:
            for x in range(wide):
                links.before[s, m, EAST if x >= column else WEST, row, x] += amount
                for y in range(high):
                    links.before[s, m, SOUTH if y >= row else NORTH, y, x] += amount
            links.before[s, m, WEST, row, column] += amount
            for x in range(wide):
                links.before[s, m, NORTH, row, x] += amount


@compiled
def _load_edges(s: int, sends: bool, sign: int, q: PlacementState) -> None:
    """Load all links for what stage s reads, and, if it sends, for what others read of it."""
    links = q.links
    for e in range(q.senders.first[s], q.senders.first[s + 1]):
        _load_edge(q.senders.stage[e], s, sign * q.senders.busy[e], links)
    if sends:
        for e in range(q.readers.first[s], q.readers.first[s + 1]):
            _load_edge(s, q.readers.stage[e], sign * q.readers.busy[e], links)


@compiled
def _load_edge(p: int, c: int, share: float, links: LinkLoads) -> None:
    """Load all links for what stage p sends to stage c."""
    meshes, directions, high, wide = links.load.shape
    for m in range(meshes):
        amount = share * links.busy[m]
        for d in range(directions):
            for y in range(high):
                for x in range(wide):
                    links.load[m, d, y, x] += (
                        amount * links.before[p, m, d, y, x] * links.beyond[c, m, d, y, x]
                    )


@compiled
def _count_over(links: LinkLoads) -> None:
    """Count what all links have above the cap."""
    total = 0.0
    meshes, directions, high, wide = links.load.shape
    for m in range(meshes):
        for d in range(directions):
            for y in range(high):
                for x in range(wide):
                    total += max(links.load[m, d, y, x] - links.cap[m, d, y, x], 0.0)
    links.over[0] = total


@compiled
def _shift(i: int, a: int, q: PlacementState) -> None:
    """Let lines and links follow a piece that came from tile a."""
    pieces, s, b, sends = q.pieces, q.pieces.stage[i], q.pieces.site[i], q.pieces.sends[i] > 0
    units = pieces.first[i + 1] - pieces.first[i]
    if q.links.timed:
        _load_edges(s, sends, -1, q)
        _move_sums(i, a, b, True, q)
    for sign in (-1, 1):
        tile = a if sign < 0 else b
        pieces.site[i] = tile
        _count_sender(i, tile, sign, q)
        for at in range(pieces.first[i], pieces.first[i + 1]):
            _count_unit(pieces.unit[at], s, a, b, sign, q)
    if q.links.timed:
        _load_edges(s, sends, 1, q)
        _count_over(q.links)
        edges = q.senders.first[s + 1] - q.senders.first[s] + q.readers.first[s + 1] - q.readers.first[s]
        q.work[0] += q.links.load.size * (edges + 1) // 4
    q.work[0] += len(q.places.hop) * (1 + units) * (q.places.wide + q.places.high)


@compiled
def _link(i: int, b: int, pieces: PieceLists, tiles: TileLists) -> None:
    """Put piece i at the head of the list of tile b."""
    pieces.before[i] = -1
    pieces.after[i] = tiles.head[b]
    if tiles.head[b] >= 0:
        pieces.before[tiles.head[b]] = i
    tiles.head[b] = i
    tiles.room[b] -= pieces.size[i]


@compiled
def _relink(i: int, a: int, b: int, pieces: PieceLists, tiles: TileLists) -> None:
    """Move piece i from the list of tile a to that of b."""
    before, after = pieces.before[i], pieces.after[i]
    if before >= 0:
        pieces.after[before] = after
    else:
        tiles.head[a] = after
    if after >= 0:
        pieces.before[after] = before
    tiles.room[a] += pieces.size[i]
    _link(i, b, pieces, tiles)


@compiled
def _count_all(costs: Floats, q: PlacementState) -> None:
    """List the pieces of all tiles, and count their lines and links, where nothing is counted yet.

    costs: to add bytes x hops of every stage to, of what it reads and of its partial sums.
    """
    site, nets, timed = q.pieces.site, q.nets, q.links.timed
    for i in range(len(site)):
        _link(i, site[i], q.pieces, q.tiles)
        _count_sender(i, site[i], 1, q)
    for c in range(len(costs)):
        for u in range(q.units.of_stage[c], q.units.of_stage[c + 1]):
            _count_unit(u, c, -1, -1, 1, q)
            costs[c] += _read_cost(u, c, -1, -1, q)
        if timed:
            _load_edges(c, False, 1, q)
    for e in range(len(nets.target)):
        for k in range(nets.first[e], nets.first[e + 1]):
            tile = site[nets.source[k]]
            if _is_free(tile, e, -1, k, nets, site):
                i = nets.target[e]
                costs[q.pieces.stage[i]] += _send_sum(e, tile, site[i], 1, timed, q)
    if timed:
        _count_over(q.links)


@compiled_inline
def _send_all(head: int, b: int, q: PlacementState) -> float:
    """Put all pieces of a list into tile b; return the change of the byte hops."""
    change, i = 0.0, head
    while i >= 0:
        a = q.pieces.site[i]
        change += _move(i, b, q)
        _shift(i, a, q)
        i = q.pieces.after[i]
    return change


@compiled_inline
def _are_neighbours(s: int, t: int, q: PlacementState) -> bool:
    """Return True if one of two stages sends to the other."""
    found = False
    for e in range(q.readers.first[s], q.readers.first[s + 1]):
        found |= q.readers.stage[e] == t
    for e in range(q.senders.first[s], q.senders.first[s + 1]):
        found |= q.senders.stage[e] == t
    return found


@compiled_inline
def _beside(i: int, q: PlacementState) -> int:
    """Return the tile of a random piece of a random neighbour of a stage, or of any piece if it has none."""
    s, pieces = q.pieces.stage[i], q.pieces
    sends = q.readers.first[s + 1] - q.readers.first[s]
    degree = sends + q.senders.first[s + 1] - q.senders.first[s]
    if degree == 0:
        return int(pieces.site[_next(q.generator, len(pieces.site))])
    e = _next(q.generator, degree)
    other = (
        q.readers.stage[q.readers.first[s] + e]
        if e < sends
        else q.senders.stage[q.senders.first[s] + e - sends]
    )
    low = pieces.of_stage[other]
    return int(pieces.site[pieces.sorted[low + _next(q.generator, pieces.of_stage[other + 1] - low)]])


@compiled_inline
def _near(a: int, tries: int, q: PlacementState) -> int:
    """Return the nearest to a tile of so many random ones."""
    best = _next(q.generator, len(q.tiles.room))
    for _ in range(1, tries):
        other = _next(q.generator, len(q.tiles.room))
        if best == a or (other != a and _hops(q.places, a, other) < _hops(q.places, a, best)):
            best = other
    return int(best)


@compiled_inline
def _partner(b: int, q: PlacementState) -> int:
    """Return one of the first pieces of a tile, -1 if it is empty."""
    j, steps = q.tiles.head[b], _next(q.generator, 8)
    while steps > 0 and j >= 0 and q.pieces.after[j] >= 0:
        j = q.pieces.after[j]
        steps -= 1
    return int(j)


@compiled_inline
def _may_move(i: int, j: int, b: int, q: PlacementState) -> bool:
    """Return True if piece i may go to tile b, and piece j, if it is not -1, from there to the tile of i."""
    pieces, tiles, a = q.pieces, q.tiles, q.pieces.site[i]
    other = tiles.head[b] if j < 0 else j
    if tiles.of_one and (other < 0 or pieces.stage[other] != pieces.stage[i]):
        return False
    if j < 0:
        return bool(tiles.room[b] >= pieces.size[i])
    if pieces.alike[i] == pieces.alike[j]:
        return False
    here, there = tiles.room[a] + pieces.size[i], tiles.room[b] + pieces.size[j]
    return bool(here >= pieces.size[j] and there >= pieces.size[i])


@compiled
def anneal(q: PlacementState, until: int, work: int, price: float, share: float) -> float:
    """Try random moves and exchanges of pieces and of tiles; return the change of the byte hops.

    until: work after which it ends, of all that is to be done; it goes on where it ended. price: of a load
    above the cap, in byte hops; share: of the mean rise that the first threshold is.
    """
    pieces, tiles, site, over = q.pieces, q.tiles, q.pieces.site, q.links.over
    total = threshold = 0.0
    part = _TIMED_TILES if q.links.timed else _TILES
    if tiles.of_one:
        part = _ONE_LAYER
    while q.work[0] < until:
        done, before = q.work[0], over[0]
        q.work[0] += 8
        if q.rises[0] >= _SAMPLES:
            threshold = max(0.0, q.rise[0] / q.rises[0] * share * (1.0 - 1.5 * done / work))
        i = _next(q.generator, len(site))
        a, j, ahead = site[i], -1, False
        whole = part * q.tile_work[0] < done
        at_random = whole or _next(q.generator, 2) == 0
        b = _near(a, 1 + 8 * done // work, q) if at_random else _beside(i, q)
        if a == b or tiles.kind[a] != tiles.kind[b]:
            continue
        # tiles of which other networks hold unequal parts exchange pieces alone
        whole = whole and tiles.arrays[a] == tiles.arrays[b]
        if whole:
            hops = _send_all(tiles.head[a], b, q) + _send_all(tiles.head[b], a, q)
        else:
            if tiles.room[b] < pieces.size[i] or _next(q.generator, 2) == 0:
                j = _partner(b, q)
            if not _may_move(i, j, b, q):
                continue
            hops = _move(i, b, q)
            if j >= 0:
                ahead = _are_neighbours(pieces.stage[i], pieces.stage[j], q)
                if ahead:  # what j costs depends on where i is
                    _shift(i, a, q)
                hops += _move(j, a, q)
        if hops > 0 and q.rises[0] < _SAMPLES:
            q.rise[0] += hops
            q.rises[0] += 1
        # lines and links follow only where less load, at most all that is too high, may pay for the hops
        is_close = hops - price * before <= threshold
        if is_close and not whole:
            if j >= 0:
                site[j] = b
            if not ahead:
                _shift(i, a, q)
                ahead = True
            if j >= 0:
                site[j] = a
                _shift(j, b, q)
        if is_close and hops + price * (over[0] - before) <= threshold:
            total += hops
            if whole:
                tiles.head[a], tiles.head[b] = tiles.head[b], tiles.head[a]
                tiles.room[a], tiles.room[b] = tiles.room[b], tiles.room[a]
            else:
                _relink(i, a, b, pieces, tiles)
                if j >= 0:
                    _relink(j, b, a, pieces, tiles)
        elif whole:
            _send_all(tiles.head[b], b, q)
            _send_all(tiles.head[a], a, q)
        else:
            if j >= 0:
                site[j] = b
                if is_close:
                    _shift(j, a, q)
            site[i] = a
            if ahead:
                _shift(i, b, q)
        if whole:
            q.tile_work[0] += q.work[0] - done
    return total


class Search(NamedTuple):
    """A layout under improvement.

    problem: what the compiled search reads and writes; costs: bytes x hops of every stage, as it began.
    """

    layout: Layout
    problem: PlacementState
    costs: Floats

    @classmethod
    def of(
        cls, layout: Layout, seed: int = 0, *, batch_ns: Floats | None = None, caps: LinkCaps = NO_CAPS
    ) -> Search:
        """Return the search from a layout on.

        batch_ns: time in which links must carry a batch of every stage, None where links take no time; caps:
        parts of it that links may be loaded.
        """
        pieces, tiles, chip = layout.pieces, len(layout.sites), layout.chip
        flows = pieces.flows
        order = np.argsort(pieces.stage, kind="stable")
        places = _places(layout.sites, Mesh.of(chip))
        size, site, stages = pieces.arrays, layout.site.copy(), pieces.stages
        head, (before, after) = np.full(tiles, -1), np.full((2, len(site)), -1)
        room = layout.room.copy()
        stage, unit, piece, copies = pieces.units.T
        alike = np.where(pieces.is_whole, pieces.stage, np.arange(stages, stages + len(site)))
        begins = np.flatnonzero(np.diff(unit, prepend=-1))
        of_piece = np.argsort(piece, kind="stable")
        lists = PieceLists(
            size, pieces.stage, pieces.sends.astype(np.float64), site, before, after, alike, order,
            _pointers(pieces.stage, stages), _pointers(piece, len(site)), unit[of_piece],
        )  # fmt: skip
        units = ReadUnits(
            _pointers(stage[begins], stages),
            np.append(begins, len(unit)),
            piece,
            copies[begins].astype(float),
        )
        p, c, sums = flows.producer, flows.consumer, pieces.sums
        receiving = np.bincount(stage[begins], copies[begins], stages)
        pairs = np.bincount(pieces.stage, pieces.sends, stages)[p] * receiving[c]
        copied = np.array([held.copies for held in pieces.held], dtype=np.float64)
        batch = np.ones(stages) if batch_ns is None else batch_ns
        busy = flows.pixel_bytes * flows.block_pixels * copied[p] / pairs / batch[p]
        summed = pieces.stage[sums.target]
        nets = _nets(pieces, chip, sums.size_bytes * copied[summed] / flows.blocks[summed] / batch[summed])
        extent = places.high, places.wide
        links = _links(
            len(places.hop), stages if batch_ns is not None else 0, *extent, chip, caps, layout.sites
        )
        problem = PlacementState(
            places,
            lists,
            TileLists(room, head, chip.sharing == "layer", layout.kinds, layout.room),
            units,
            _neighbours(p, c, flows.size_bytes / pairs, busy, stages),
            _neighbours(c, p, flows.size_bytes / pairs, busy, stages),
            nets,
            _lines(len(places.hop), stages, *extent),
            links,
            np.array([seed % (_RANDOM_PRIME - 1) + 1], dtype=np.int64),
            np.zeros(1, dtype=np.int64),
            np.zeros(1, dtype=np.int64),
            np.zeros(1, dtype=np.int64),
            np.zeros(1),
        )
        costs = np.zeros(stages)
        _count_all(costs, problem)
        return cls(layout, problem, costs)

    def run(self, work: float, stop: Work, price: float = 0.0, share: float = FIRST_THRESHOLD) -> Layout:
        """Return the layout after so many units of work, or when the time ends."""
        operations = round(work * OPERATIONS)
        for until in range(_BETWEEN_LOOKS, operations + _BETWEEN_LOOKS, _BETWEEN_LOOKS):
            if not stop.out_of_time:
                anneal(self.problem, min(until, operations), operations, price, share)
        return replace(self.layout, site=self.problem.pieces.site.copy())


def _places(sites: Ints, mesh: Mesh) -> TileCoordinates:
    """Return where tiles lie on the mesh of each chip in use, and on that of several chips."""
    keys, every, _ = zip(*on_meshes(sites), strict=True)
    places = np.array(every)
    hop = np.array([mesh.chip_hop if key is None else 1.0 for key in keys])
    high, wide = (places.max(axis=(0, 1)) + 1).tolist()
    return TileCoordinates(places[:, :, 0].copy(), places[:, :, 1].copy(), hop, high, wide)


def _neighbours(one: Ints, other: Ints, weight: Floats, busy: Floats, stages: int) -> StageEdges:
    order = np.argsort(one, kind="stable")
    return StageEdges(_pointers(one, stages), other[order], weight[order], busy[order])


def _nets(pieces: Pieces, chip: Chip, busy: Floats) -> Nets:
    """Return the nets. busy: time on a link in a batch of the stage."""
    sums = pieces.sums
    number, first = np.arange(len(sums.target)), sums.pointer[:-1]
    net = np.repeat(number, np.diff(sums.pointer))
    sizes = pieces.arrays[sums.source]
    sizes = np.append(sizes[np.lexsort((sizes, net))], [chip.arrays_per_tile] * 2)
    several = np.diff(sums.pointer) > 1
    apart = ~several | (sizes[first] + sizes[first + 1] > chip.arrays_per_tile)
    members = np.concatenate([sums.source, sums.target])
    nets = np.concatenate([net, number])
    pointer = _pointers(members, len(pieces.stage))
    nets = nets[np.lexsort((nets, members))]
    return Nets(sums.size_bytes, busy, sums.target, sums.pointer, sums.source, apart, pointer, nets)


def _lines(meshes: int, stages: int, high: int, wide: int) -> Lines:
    lines = max(high, wide)
    first_row, last_row, columns = np.full((3, wide), -1, dtype=np.int64)
    sent, read = np.zeros((stages, meshes, 4, lines)), np.zeros((stages, meshes, 2, lines))
    return Lines(sent, read, first_row, last_row, columns)


def _links(
    meshes: int, stages: int, high: int, wide: int, chip: Chip, caps: LinkCaps, sites: Ints
) -> LinkLoads:
    """Return links without loads. stages: 0 where links take no time."""
    busy = np.full(meshes, 1.0 / (chip.bandwidth_tile_gb_s or np.inf))
    if meshes > 1:
        busy[-1] = 1.0 / (chip.bandwidth_chip_gb_s or np.inf)
    links = meshes, 4, high, wide
    before, beyond = np.zeros((2, stages, *links))
    cap = np.full(links, caps.other)
    keys = [key for key, *_ in on_meshes(sites)]
    for key, own in caps.of_key.items():
        here = cap[keys.index(key), :, : own.shape[1], : own.shape[2]]
        np.divide(1.0, own, out=here, where=own > 0)
    return LinkLoads(np.zeros(links), before, beyond, busy, cap, np.zeros(1), stages > 0)


def _pointers(keys: Ints, count: int) -> Ints:
    """Return the place where the entries of every key begin once they are sorted by it."""
    return np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=count))]).astype(np.int64)
