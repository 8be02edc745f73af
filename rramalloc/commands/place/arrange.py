"""Placement of copies in tiles: the constructive placement, its improvement, and the bound of both.

The constructive placement: tiles filled layer after layer, along a curve over the mesh.

A copy is one piece if it fits a tile, else pieces that fill whole tiles and one for what is left. A piece
goes to the latest tile with room for it, or opens the next tile. Pieces that would not fit in this order get
a packing, and where there is none they are cut to fill what room there is. Where each row block of a copy
must lie in one tile, the row blocks are the pieces, and none is cut.

The bound: what must leave its tile, and how far at least.

Let stages p and c have N_p and N_c arrays, a tile T. If a tile holds x of p and y of c, x + y <= T.
So for any s in [0, 1] x * y <= T * (s^2 * x + (1 - s)^2 * y). With s = N_c / (N_p + N_c), summed over the
tiles, the pairs within a tile are at most the share T / (N_p + N_c) of all pairs. Let K_h be the most tiles
that are nearer than h hops to any tile. These tiles hold at most K_h * T - 1 arrays beside an array, so the
pairs less than h apart are at most the share (K_h * T - 1) / max(N_p, N_c). The mean of hops is the integral
over h of the share that is h or more apart. Thus edges are bounded one by one.

Data reach a row block of the reader over at least the hops to its farthest array. These are no fewer than the
mean of hops to all of its arrays, which are as many for every row block: bounds of pairs of arrays hold.

Results leave from one array a column block, the others send it partial sums. Let x be one of the m arrays of
a column block whose results leave from g, y an array of the reader: d(x, y) <= d(x, g) + d(g, y). A tile
apart from g holds k = min(T, m - 1) of the m arrays at most. So the mean of d(x, y) over them is at most
d(g, y) + k / m * (sum over the tiles of d(tile, g)). Flows of together m / k times the bytes of a partial sum
thus cost, with the partial sums, at least what both bounds say of all N_p arrays. Other bytes are bounded
with the arrays that give in place of N_p.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from rramalloc.commands.place.layout import Flows, Layout, Pieces
from rramalloc.commands.place.mesh import Mesh
from rramalloc.commands.place.move_pieces import improve
from rramalloc.commands.place.packing import pack
from rramalloc.commands.place.placement import MAX_PLACED
from rramalloc.errors import CapacityError, SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.tables import Chip
from rramalloc.mapping.blocks import StoredCopies
from rramalloc.mapping.demand import row_block_widths
from rramalloc.mapping.tiles import Tiles
from rramalloc.ndarrays import Floats, Ints
from rramalloc.search.work import Work
from rramalloc.timing.stage_graph import StageGraph

_LOOK_BACK = 64  # open tiles, the latest first, in which a piece looks for room before it opens another


TileRun = tuple[int, int]  # (tile, arrays of one set in it)
EqualPieces = tuple[int, int, int]  # (stage, arrays of each, how many)


class Filled(NamedTuple):
    """Pieces in tiles, one row per piece: stage, arrays, and the number of its tile along the curve."""

    stage: Ints
    arrays: Ints
    tile: Ints

    @classmethod
    def of(cls, tiles: Iterable[Iterable[EqualPieces]]) -> Filled:
        """Return the filling from the content of each tile, in order."""
        rows = [(*pieces[:2], number, pieces[2]) for number, held in enumerate(tiles) for pieces in held]
        table = np.array(rows, dtype=np.int64).reshape(-1, 4)
        return cls(*table[:, :3].repeat(table[:, 3], axis=0).T.copy())

    def assign_pieces_to_copies(self, together: Sequence[int]) -> tuple[Ints, Ints, Ints, Ints]:
        """Return the stage, arrays, set and tile of the pieces of every set of `together` arrays of
        a stage."""
        runs: list[list[TileRun]] = [[] for _ in together]
        for row in np.lexsort((-self.arrays, self.tile, self.stage)).tolist():
            runs[int(self.stage[row])].append((int(self.tile[row]), int(self.arrays[row])))
        rows = [
            (stage, arrays, number, tile)
            for stage, demand in enumerate(together)
            for number, held in enumerate(_sets(runs[stage], demand))
            for tile, arrays in held
        ]
        stage, arrays, number, tile = np.array(rows, dtype=np.int64).T.copy()
        return stage, arrays, number, tile


def _sets(runs: list[TileRun], demand: int) -> list[list[TileRun]]:
    """Return the runs of each set of `demand` arrays: whole where all can be, else dealt in order."""
    most = max(arrays for _, arrays in runs)
    whole, rest = ([run for run in runs if (run[1] == most) is full] for full in (True, False))
    count = sum(arrays for _, arrays in runs) // demand
    each, left = divmod(demand, most)
    alike = len(rest) == (count if left else 0) and all(arrays == left for _, arrays in rest)
    if len(whole) == count * each and alike:
        return [[*whole[k * each : (k + 1) * each], *rest[k : k + 1]] for k in range(count)]
    sets, short = [[run] for run in runs if run[1] == demand], 0
    for tile, arrays in runs:
        left = 0 if arrays == demand else arrays
        while left:
            if not short:
                sets.append([])
                short = demand
            here = min(left, short)
            sets[-1].append((tile, here))
            left, short = left - here, short - here
    return sets


def construct(demand: Ints, copies: Ints, tiles: Tiles, *, cut: bool = True) -> tuple[Filled | None, bool]:
    """Place the sets of arrays of every stage in tiles, along a curve.

    demand, copies: int64, in canonical order, arrays of a set and number of sets; tiles: of all chips;
    cut: a set may lie in several tiles, which copies may and row blocks under "first_fit" may not.
    Returns None if no way is found, and whether it is proven that none exists.
    """
    too_many = int((demand * copies).sum()) > tiles.count * tiles.arrays
    if too_many or (not cut and (demand > tiles.arrays).any()):
        return None, True
    pieces: list[EqualPieces] = []  # of a stage those that do not fill a tile first
    for stage, (arrays, count) in enumerate(zip(demand.tolist(), copies.tolist(), strict=True)):
        whole, rest = divmod(arrays, tiles.arrays)
        pieces += [(stage, rest, count)] if rest else []
        pieces += [(stage, tiles.arrays, whole * count)] if whole else []
    filling = _Filling(Tiles(min(tiles.count, MAX_PLACED), tiles.arrays))
    left = [(stage, arrays, filling.add(stage, arrays, count)) for stage, arrays, count in pieces]
    if not any(count for *_, count in left):
        return Filled.of(filling.contents), False
    packed, proven = _packed(pieces, tiles)
    if packed is None and cut:
        for each in left:
            filling.cut(*each)
        packed = filling.contents
    return None if packed is None else Filled.of(packed), proven


def _in_own_tiles(demand: Ints, copies: Ints, tiles: Tiles) -> Filled | None:
    """Construct with every stage in the fewest tiles that hold it; None: proven infeasible."""
    first, parts = 0, list[Filled]()
    for stage, (arrays, count) in enumerate(zip(demand.tolist(), copies.tolist(), strict=True)):
        needed = -(-arrays * count // tiles.arrays)
        filled, _ = construct(demand[[stage]], copies[[stage]], Tiles(needed, tiles.arrays))
        if filled is None or first + needed > tiles.count:
            return None
        parts.append(Filled(filled.stage + stage, filled.arrays, filled.tile + first))
        first += needed
    return Filled(*(np.concatenate(each) for each in zip(*parts, strict=True)))


@dataclass(eq=False)
class _Filling:
    """Tiles that are filled one after the other. open: those with room left."""

    tiles: Tiles
    contents: list[list[EqualPieces]] = field(default_factory=list)
    room: list[int] = field(default_factory=list)
    open: list[int] = field(default_factory=list)

    def add(self, stage: int, arrays: int, count: int) -> int:
        """Place pieces one after the other; return how many found no room."""
        count = self._to_open(stage, arrays, count, _LOOK_BACK)
        while count and len(self.contents) < self.tiles.count:
            here = min(count, self.tiles.arrays // arrays)
            self.contents.append([])
            self.room.append(self.tiles.arrays)
            self.open.append(len(self.contents) - 1)
            self._put(self.open[-1], stage, arrays, here)
            count -= here
        return self._to_open(stage, arrays, count, len(self.open))

    def cut(self, stage: int, arrays: int, count: int) -> None:
        """Cut pieces to fill what room there is, the latest tile first."""
        for _ in range(self._to_open(stage, arrays, count, len(self.open))):
            rest = arrays
            while rest:
                tile = self.open[-1]
                part = min(rest, self.room[tile])
                self._put(tile, stage, part, 1)
                rest -= part

    def _to_open(self, stage: int, arrays: int, count: int, most: int) -> int:
        """Fill room in the latest `most` open tiles; pieces that remain."""
        for tile in self.open[: -most - 1 : -1] if count else ():
            here = min(count, self.room[tile] // arrays)
            if here:
                self._put(tile, stage, arrays, here)
                count -= here
        return count

    def _put(self, tile: int, stage: int, arrays: int, count: int) -> None:
        self.contents[tile].append((stage, arrays, count))
        self.room[tile] -= arrays * count
        if not self.room[tile]:
            self.open.remove(tile)


def _packed(pieces: list[EqualPieces], tiles: Tiles) -> tuple[list[list[EqualPieces]] | None, bool]:
    """Return a packing in the order of the stages in it, None if there is none; whether that is proven."""
    whole = [(stage, arrays) for stage, arrays, n in pieces if arrays == tiles.arrays for _ in range(n)]
    smaller = [each for each in pieces if each[1] < tiles.arrays]
    spare = Tiles(tiles.count - len(whole), tiles.arrays)
    if spare.count < 1 or not smaller:
        return None, True
    _, arrays, counts = np.array(smaller, dtype=np.int64).T
    packing = pack(spare, arrays, counts)
    if packing.fit != "fits":
        return None, packing.fit == "does not fit"
    contents = [[(*each, 1)] for each in whole]
    for filling in packing.fillings:
        contents += [[(*smaller[at][:2], count) for at, count in filling.copies]] * filling.tiles
    return sorted(contents, key=_middle), True


def _middle(content: list[EqualPieces]) -> tuple[float, list[EqualPieces]]:
    """Return the mean stage of the arrays in a tile."""
    total = sum(arrays * count for _, arrays, count in content)
    return sum(stage * arrays * count for stage, arrays, count in content) / total, content


PLACEMENT_WORK = 40  # units of PROPOSALS_PER_WORK random changes
_ALL_TILES = 1024  # of a mesh whose free tiles the improvement may use as well
"""Tiles up to which the improvement may use all of them; else a quarter more than the construction does."""


@dataclass(frozen=True, eq=False)
class Arrangement:
    """Copies in tiles. cost, lower_bound, constructed: bytes x hops; proof: what shows the bound."""

    layout: Layout
    flows: Flows
    mesh: Mesh
    cost: float
    lower_bound: float
    constructed: float
    proof: str


def chip_of(hardware: Hardware) -> Chip:
    """Return the chips of a hardware. Raises SpecError if it describes none."""
    if hardware.chip is None:
        raise SpecError(
            f"hardware {hardware.name[:60]!r}",
            "has no [chip]: to place arrays, give arrays_per_tile, tiles and chips there, or use a preset "
            "that has them (`rramalloc presets`)",
        )
    return hardware.chip


def arrange(
    graph: StageGraph,
    held: Sequence[StoredCopies],
    hardware: Hardware,
    *,
    work: int,
    seed: int,
    stop: Work | None = None,
) -> Arrangement:
    """Place what the arrays of every stage hold, with little traffic.

    held: in canonical order; work: units of improvement, which the clock and token of `stop` end.
    Raises SpecError or CapacityError if it cannot be placed.
    """
    chip = chip_of(hardware)
    mesh, flows = Mesh.of(chip), Flows.of(graph, hardware)
    demand = np.array([each.together for each in held], dtype=np.int64)
    blocks = dict(zip(graph.names, graph.blocks, strict=True))
    widths = row_block_widths(graph.network, hardware, blocks)
    sets = np.array([len(each) for each in held], dtype=np.int64)
    filled = _filled(graph, demand, sets, hardware, widths)
    stage, arrays, number, tile = filled.assign_pieces_to_copies(demand.tolist())
    pieces = Pieces.of(held, flows, stage, arrays, number, by_rows=widths is not None)
    first = _on_best_curve(pieces, tile, flows, mesh)
    constructed = first.cost(flows, mesh)
    masses = Masses(pieces.column_blocks, pieces.taken, pieces.sum_bytes)
    bound = placement_lower_bound(flows, masses, mesh, chip.arrays_per_tile)
    proof = "edge by edge: arrays of a tile, tiles within each number of hops"
    best = improve(first, flows, mesh, chip, work, seed, stop or Work())
    cost = best.cost(flows, mesh)
    return Arrangement(best, flows, mesh, cost, min(bound, cost), constructed, proof)


def is_room_for(graph: StageGraph, held: Sequence[StoredCopies], hardware: Hardware) -> bool:
    """Return whether the tiles of a hardware hold all copies."""
    demand = np.array([each.together for each in held], dtype=np.int64)
    sets = np.array([len(each) for each in held], dtype=np.int64)
    blocks = dict(zip(graph.names, graph.blocks, strict=True))
    try:
        _filled(graph, demand, sets, hardware, row_block_widths(graph.network, hardware, blocks))
    except (CapacityError, SpecError):
        return False
    return True


def _filled(
    graph: StageGraph, demand: Ints, copies: Ints, hardware: Hardware, widths: dict[str, int] | None
) -> Filled:
    """Return the filling. widths: arrays of a row block of every layer where it must lie in one tile."""
    chip = chip_of(hardware)
    tiles = Tiles(chip.tile_count, chip.arrays_per_tile)
    arrays = [int(d) * int(n) for d, n in zip(demand, copies, strict=True)]
    order = graph.network_order
    most = max(order, key=lambda stage: arrays[stage])
    largest = graph.names[most], int(copies[most]), int(demand[most])
    if sum(arrays) > tiles.count * tiles.arrays:
        raise CapacityError(sum(arrays), tiles.count, tiles.arrays, largest)
    if sum(arrays) > MAX_PLACED:
        reason = (
            f"the allocation has {sum(arrays)} arrays, the limit of one placement is {MAX_PLACED}: allocate "
            f"with --arrays {MAX_PLACED}, or parts of the network one by one"
        )
        raise SpecError("placement", reason)
    if hardware.own_tiles is not None:
        filled, proven = _in_own_tiles(demand, copies, tiles), True
    elif widths is None:
        filled, proven = construct(demand, copies, tiles)
    else:
        width = np.array([widths[name] for name in graph.names], dtype=np.int64)
        filled, proven = construct(width, copies * demand // width, tiles, cut=False)
    if filled is None:
        found = {"proven": proven, "own_tiles": hardware.own_tiles is not None}
        raise CapacityError(sum(arrays), tiles.count, tiles.arrays, largest, **found)
    return filled


def _on_best_curve(pieces: Pieces, tile: Ints, flows: Flows, mesh: Mesh) -> Layout:
    """Return the layout on the curve over the mesh along which the pieces cost least; tile: of each, its
    number along it."""
    tiles = int(tile.max()) + 1
    layouts = [Layout(pieces, tile, curve) for curve in mesh.curves(tiles)]
    best = min(layouts, key=lambda layout: layout.cost(flows, mesh))
    if mesh.count <= _ALL_TILES:
        sites = mesh.all_sites()
        place = {tuple(site): number for number, site in enumerate(sites.tolist())}
        to = np.array([place[tuple(site)] for site in best.sites.tolist()], dtype=np.int64)
    else:
        sites = best.sites[: tiles + tiles // 4]
        to = np.arange(len(sites))
    return Layout(pieces, to[tile], sites)


_CAUTION = 1 - 1e-12  # factor of a bound for the rounding of the sums that it is made of
_MOST_LEVELS = 2048  # hops up to which a bound counts, in meshes of any extent
_MOST_STEPS = 64  # levels of a bound beyond each hop between chips


class Masses(NamedTuple):
    """Senders and receivers of every stage: its column blocks, and all its arrays.

    sum_bytes: float64, of the partial sums of each stage if every column block sent one.
    """

    column_blocks: Ints
    taken: Ints
    sum_bytes: Floats


def placement_lower_bound(flows: Flows, masses: Masses, mesh: Mesh, arrays_per_tile: int) -> float:
    """Return the bytes x hops that no placement of these arrays undercuts, whichever tiles they lie in."""
    column_blocks, taken, sum_bytes = masses
    levels, p, c = _tiles_within(mesh), flows.producer, flows.consumer
    least = cache(partial(_mean_hops, levels, arrays_per_tile))  # edges of equal stages are many
    of_all, of_blocks = (
        np.array([least(*pair) for pair in zip(arrays[p].tolist(), taken[c].tolist(), strict=True)])
        for arrays in (taken, column_blocks)
    )
    rows = taken / column_blocks
    left = sum_bytes * rows / np.clip(rows - 1, 1, arrays_per_tile)
    shared = np.zeros(len(p))
    for edge in np.argsort(of_blocks - of_all, kind="stable").tolist():
        shared[edge] = min(left[p[edge]], flows.size_bytes[edge])
        left[p[edge]] -= shared[edge]
    of_shared, of_others = shared * of_all, (flows.size_bytes - shared) * of_blocks
    return (math.fsum(of_shared.tolist()) + math.fsum(of_others.tolist())) * _CAUTION


def _tiles_within(mesh: Mesh) -> list[tuple[float, int]]:
    """Return (hops, most tiles nearer than them to any tile), both rising from the nearest neighbours on."""
    rows, columns, chip_rows, chip_columns = (
        min(extent, 2 * _MOST_LEVELS + 1) for extent in (*mesh.tiles, *mesh.chips)
    )
    own = np.cumsum(np.convolve(_from_middle(rows), _from_middle(columns)))
    corner = np.cumsum(np.convolve(np.ones(rows, dtype=np.int64), np.ones(columns, dtype=np.int64)))
    chips = np.convolve(_from_middle(chip_rows), _from_middle(chip_columns))[1:]
    far = [(number + 1) * mesh.chip_hop for number in range(len(chips))]
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


def _mean_hops(levels: list[tuple[float, int]], arrays_per_tile: int, one: int, other: int) -> float:
    """Return the least mean of hops between `one` arrays of a stage and `other` of another."""
    terms, before = [], 0.0
    for hops, tiles in levels:
        near = (tiles * arrays_per_tile - 1) / max(one, other)
        if before == 0.0:
            near = min(near, arrays_per_tile / (one + other))
        if near >= 1.0:
            break
        terms.append((hops - before) * (1.0 - near))
        before = hops
    return math.fsum(terms)


def _from_middle(extent: int) -> Ints:
    """Return the lines at distance 0, 1, ... from the middle one of `extent`, the one with most
    lines near."""
    distance = np.abs(np.arange(extent, dtype=np.int64) - extent // 2)
    return np.bincount(distance).astype(np.int64)
