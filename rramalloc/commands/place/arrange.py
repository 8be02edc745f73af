"""Placement of copies in tiles: the constructive placement, and its improvement.

The constructive placement: tiles filled layer after layer, along a curve over the mesh. Two are made; the
improvement begins with each, and without one the better is kept. In one a copy is one piece if it fits a
tile, else pieces that fill whole tiles and one for what is left; a piece goes to the latest tile with room
for it, or opens the next tile. Pieces that would not fit in this order are packed, the largest first, and
where that finds no way they are cut to fill what room there is. In the other copies are cut wherever a tile
is full. Where each row block of a copy must lie in one tile, the row blocks are the pieces, and none is cut.

The row blocks of a copy that is cut are dealt in stripes (`layout`): high ones send few partial sums, low
ones send inputs to few tiles. The cost says how high those of each layer are.

The aim is the latency with transfers, or the interval where the allocation was optimised for it, and then
byte hops. The search goes by byte hops. Each of its later rounds times the best placement so far, which says
what links may carry for a lower latency (`TransferTimes.caps`): loads above that cost as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from rramalloc.allocation.allocation import LayerPlaces
from rramalloc.commands.place.annealing import FIRST_THRESHOLD, Search
from rramalloc.commands.place.layout import Flows, Layout, Pieces
from rramalloc.commands.place.links import distinct
from rramalloc.commands.place.mesh import Mesh, chip_of
from rramalloc.commands.place.placement import MAX_PLACED
from rramalloc.commands.place.transfer import TileRoutes, TransferTimer, TransferTimes
from rramalloc.errors import CapacityError, SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.tables import MAX_LINES, mesh_of
from rramalloc.mapping.blocks import StoredCopies
from rramalloc.mapping.demand import row_block_widths
from rramalloc.mapping.tiles import Site, Tiles
from rramalloc.ndarrays import Ints
from rramalloc.records import check_known
from rramalloc.search import cost
from rramalloc.search.work import Work
from rramalloc.timing.stage_graph import StageGraph

_LOOK_BACK = 64  # open tiles, the latest first, in which a piece looks for room before it opens another


NOTHING_TAKEN: Mapping[Site, int] = MappingProxyType({})
"""No tile holds arrays of other networks."""
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
    # First fit finds a way for whatever `optimize` returns (`Tiles.certain`), best fit often for more.
    packed = _decreasing(pieces, tiles, best=True) or _decreasing(pieces, tiles, best=False)
    if packed is None and cut:
        for each in left:
            filling.cut(*each)
        packed = filling.contents
    return None if packed is None else Filled.of(packed), False


def dense(demand: Ints, copies: Ints, tiles: Tiles) -> Filled:
    """Return stage after stage in full tiles, cut wherever one is full."""
    filling = _Filling(tiles)
    for stage, arrays in enumerate((demand * copies).tolist()):
        filling.cut(stage, arrays, 1)
    return Filled.of(filling.contents)


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
            self._put(self._opened(), stage, arrays, here)
            count -= here
        return self._to_open(stage, arrays, count, len(self.open))

    def cut(self, stage: int, arrays: int, count: int) -> None:
        """Cut pieces to fill what room there is, the latest tile first."""
        for _ in range(self._to_open(stage, arrays, count, len(self.open))):
            rest = arrays
            while rest:
                tile = self.open[-1] if self.open else self._opened()
                part = min(rest, self.room[tile])
                self._put(tile, stage, part, 1)
                rest -= part

    def _opened(self) -> int:
        """Open the next tile."""
        self.contents.append([])
        self.room.append(self.tiles.arrays)
        self.open.append(len(self.contents) - 1)
        return self.open[-1]

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


def _decreasing(pieces: list[EqualPieces], tiles: Tiles, *, best: bool) -> list[list[EqualPieces]] | None:
    """Return a packing of the largest pieces first, in the order of the stages in it; None if it finds none.

    best: each goes to the fullest tile with room for it, else to the first one.
    """
    room, contents = list[int](), list[list[EqualPieces]]()
    for stage, arrays, count in sorted(pieces, key=lambda each: -each[1]):
        for tile in sorted(range(len(room)), key=room.__getitem__) if best else range(len(room)):
            if here := min(count, room[tile] // arrays):
                contents[tile].append((stage, arrays, here))
                room[tile] -= here * arrays
                count -= here
        while count and len(room) < tiles.count:
            here = min(count, tiles.arrays // arrays)
            contents.append([(stage, arrays, here)])
            room.append(tiles.arrays - here * arrays)
            count -= here
        if count:
            return None
    return sorted(contents, key=_middle)


def _middle(content: list[EqualPieces]) -> tuple[float, list[EqualPieces]]:
    """Return the mean stage of the arrays in a tile."""
    total = sum(arrays * count for _, arrays, count in content)
    return sum(stage * arrays * count for stage, arrays, count in content) / total, content


_WORK_PER_PLACE = 0.3  # units that pay, for each piece and tile; more gained below 1 % in byte hops
_WORK_PER_MOVE = 0.02  # the same, for each tile that each piece may go to: fewer where both are few
_MOST_WORK = 300  # units, before they are multiplied for chips and links; more may be asked for
_TRY_PER_MOVE = 0.01  # units of a try, where links take time, for each tile that each piece may go to
_LEAST_TRY = 4  # units of a try; 1 and 2 were 5 % slower on 17 small chips, 16 and 64 no faster
_MOST_TRY = 80  # on three networks of 90 to 1,000 pieces 320 were slower than 80, and 4 half as fast
_DEEPER = 2  # times the rounds and the work of a try where there are several
TRIES_THAT_PAY = 4  # 1 was 5 % slower on 17 small chips, one of the work of 20 was 3 % slower
_RUNS = 4  # of the first half, which end in other minima; 2 were 2 % worse where a tile holds one layer
_ROUNDS = 8  # of the second half of the work; 6 and 12 were as good
_MOST_COUNTED = 2**22  # lines of all stages and meshes; beyond them nothing is improved
_ALL_TILES = 1024  # of a mesh whose free tiles the improvement may use as well
"""Tiles up to which the improvement may use all of them; else a quarter more than the construction does."""
_STEP_DOWN = 0.8  # of the latency that a round aims at where transfers slow the network down
_MARGIN = 0.98  # of what would just keep to the aim
_HOT = 2 * FIRST_THRESHOLD  # of the first half; 4 and 8 were 3 % worse on four cases of sharing = "layer"
_PRICE = 3.0  # of the byte hops: of a load above that limit by a batch; 0.7 left a case slow that 3 did not


@dataclass(frozen=True, eq=False)
class Arrangement:
    """Copies in tiles.

    cost, constructed: bytes x hops; work: units that were spent; times: with the transfers of this placement,
    None where links take no time.
    """

    layout: Layout
    cost: float
    constructed: float
    work: int
    times: TransferTimes | None

    @property
    def slower(self) -> float:
        """What transfers multiply the time by, 1 where they take none beside the rest."""
        return 1.0 if self.times is None else self.times.factor


def arrange(
    graph: StageGraph,
    held: Sequence[StoredCopies],
    hardware: Hardware,
    *,
    work: int | None,
    seed: int,
    stop: Work | None = None,
    timer: TransferTimer | None = None,
    taken: Mapping[Site, int] = NOTHING_TAKEN,
    tries: int = TRIES_THAT_PAY,
) -> Arrangement:
    """Place what the arrays of every stage hold, with little delay and little traffic.

    held: in canonical order; work: units of improvement, None for as many as pay, which the clock and token
    of `stop` end, to which it is charged; timer: of this allocation, None where links take no time; taken:
    arrays of tiles that hold other networks; tries: that pay where links take time.
    Raises SpecError or CapacityError if it cannot be placed.
    """
    flows = Flows.of(graph, hardware)
    widths = row_block_widths(graph.network, hardware, dict(zip(graph.names, graph.blocks, strict=True)))
    improver = _Improver(seed, stop or Work(), timer, is_striped=widths is None)
    starts = list[Layout]()
    left: Ints | None = None
    fillings: Iterable[Filled] = _fillings(graph, held, hardware, widths)
    if taken:
        left = _arrays_left(hardware, taken)
        fillings = [_in_arrays_left(graph, held, left, chip_of(hardware).arrays_per_tile)]
    for filled in fillings:
        if starts and improver.stop.out_of_time:
            break
        *rows, tile = filled.assign_pieces_to_copies([each.together for each in held])
        heights = [MAX_LINES if widths is None else 1] * len(held)
        pieces = Pieces.of(held, flows, (rows[0], rows[1], rows[2]), heights, {})
        layout = _on_best_curve if hardware.kinds is None and left is None else _on_own_tiles
        start = layout(pieces, tile, hardware)
        if left is not None:
            start = replace(start, room=left)
        starts.append(improver.striped(start))
    constructed = min(map(_cost, starts))
    chips = len(np.unique(starts[0].sites[:, :2], axis=0))
    places = len(starts[0].site) + len(starts[0].sites)
    moves = len(starts[0].site) * len(starts[0].sites)
    pays = (chips + 1 if chips > 1 else 1) * min(_MOST_WORK, _WORK_PER_PLACE * places, _WORK_PER_MOVE * moves)
    rounds = _ROUNDS
    if timer is not None:
        rounds *= min(tries, _DEEPER)
        pays = min(tries, _DEEPER) * max(_LEAST_TRY, min(_MOST_TRY, _TRY_PER_MOVE * moves))
    if work is None:
        work = max(1, round(pays if timer is None else tries * pays))
    if len(starts[0].sites) < 2 or not _is_countable(starts[0]):
        work = 0
    tries = 1 if timer is None else max(1, round(work / pays))
    every = (improver.improve(starts, work / tries, rounds, turn) for turn in range(tries))
    found = min(every, key=lambda each: each.key)
    routes = len(held) + len(flows.producer)
    improver.stop.charge(work * cost.PLACED_UNIT + len(improver.known) * routes * cost.PLACED_ROUTE)
    return Arrangement(found.layout, found.cost, constructed, work, found.times)


def as_kept(
    graph: StageGraph,
    held: Sequence[StoredCopies],
    hardware: Hardware,
    timer: TransferTimer | None,
    kept: Sequence[LayerPlaces],
) -> Arrangement:
    """Return the places that a file keeps. Raises SpecError if they do not hold the allocation."""
    improver = _Improver(0, Work(), timer, is_striped=False)
    read = improver.timed(_layout_of(kept, graph, held, Flows.of(graph, hardware), hardware))
    return Arrangement(read.layout, read.cost, read.cost, 0, read.times)


def _is_countable(layout: Layout, *, links: bool = False) -> bool:
    """Return True if there is memory for the lines of all stages and meshes, or for their links."""
    chips, chip = len(np.unique(layout.sites[:, :2], axis=0)), layout.chip
    meshes = mesh_of(chip.tiles), mesh_of(chip.chips)
    most = max(map(math.prod, meshes)) if links else max(map(max, meshes))
    return layout.pieces.stages * (chips + 1) * most <= _MOST_COUNTED


def _cost(layout: Layout) -> float:
    """Return the bytes x hops of a layout."""
    if _is_countable(layout):
        return float(Search.of(layout).costs.sum())
    return TileRoutes.of_layout(layout).byte_hops(Mesh.of(layout.chip).chip_hop)


class _Placed(NamedTuple):
    """A layout, its byte hops, and its times."""

    layout: Layout
    cost: float
    times: TransferTimes | None

    @property
    def key(self) -> tuple[float, float, float]:
        """What is minimised: time, to within rounding, then byte hops, then the load of the busiest link."""
        slower = 0.0 if self.times is None else round(self.times.factor, 9)
        return slower, self.cost, 0.0 if self.times is None else self.times.busiest[0]


@dataclass(frozen=True, eq=False)
class _Improver:
    """Improvement of layouts.

    is_striped: whether copies are cut into stripes; known: layouts that were timed, by a hash of their
    pieces, places and stripes: where pieces are few, most searches end in one that is known.
    """

    seed: int
    stop: Work
    timer: TransferTimer | None
    is_striped: bool
    known: dict[bytes, _Placed] = field(default_factory=dict)

    def improve(self, starts: Sequence[Layout], work: float, rounds: int, number: int) -> _Placed:
        """Return the best layout found from these by the try of a number, the same for equal arguments."""
        seed = self.seed + number * (_RUNS + rounds)
        every = [*starts]
        for run in range(_RUNS if work else 0):  # half of the work from all starts
            if not self.stop.out_of_time:
                search = Search.of(starts[run % len(starts)], seed + run)
                more = search.run(work / 2 / _RUNS, self.stop, share=_HOT)
                every += [more, self.striped(more)]
                if self.is_striped and self.timer is not None and not more.pieces.is_whole.all():
                    whole = more.pieces.in_stripes(np.full(more.pieces.stages, MAX_LINES))
                    every.append(replace(more, pieces=whole))
        in_time = (each for at, each in enumerate(every) if at == 0 or not self.stop.out_of_time)
        found = min(map(self.timed, in_time), key=lambda each: each.key)
        step = _STEP_DOWN
        for turn in range(1, rounds + 1 if work else 0):
            if self.stop.out_of_time:
                break
            search, price = self._search(found, step, seed + turn)
            now = self.timed(search.run(work / 2 / rounds, self.stop, price))
            step = step if now.key < found.key else step**0.5
            found = min(found, now, key=lambda each: each.key)
        return found

    def _search(self, start: _Placed, step: float, seed: int) -> tuple[Search, float]:
        """Return a search from a layout on, and the price of loads.

        step: part of its latency that is aimed at.
        """
        times = start.times
        if (
            self.timer is None
            or times is None
            or not times.slowest
            or not _is_countable(start.layout, links=True)
        ):
            return Search.of(start.layout, seed), 0.0
        part = step if times.graph.unit == "ticks" else max(1.0, step * times.factor) / times.slowest
        caps = times.caps(_MARGIN * part)
        return Search.of(start.layout, seed, batch_ns=self.timer.batch_ns, caps=caps), _PRICE * start.cost

    def timed(self, layout: Layout) -> _Placed:
        """Return a layout with its byte hops and times."""
        pieces = layout.pieces
        stripes = np.where(pieces.is_whole, 0, np.array(pieces.heights)[pieces.stage])
        rows = np.column_stack([pieces.stage, pieces.arrays, pieces.copy, stripes, layout.sites[layout.site]])
        key = sha256(rows.tobytes()).digest()
        if key not in self.known:
            times = None if self.timer is None else self.timer.of_routes(TileRoutes.of_layout(layout))
            self.known[key] = _Placed(layout, _cost(layout), times)
        return self.known[key]

    def striped(self, layout: Layout) -> Layout:
        """Return the layout with stripes as high as cost least, of those that halve again and again."""
        pieces = layout.pieces
        if not self.is_striped or pieces.is_whole.all() or not _is_countable(layout):
            return layout
        rows = np.array([1 + max(block.row_block for block in held[0].blocks) for held in pieces.held])
        rows[np.bincount(pieces.stage[~pieces.is_whole], minlength=len(rows)) == 0] = 1
        heights, costs = [np.array(pieces.heights)], [Search.of(layout).costs]
        for halvings in range(int(rows.max()).bit_length()):
            heights.append(np.maximum(1, rows >> halvings))
            costs.append(Search.of(replace(layout, pieces=pieces.in_stripes(heights[-1]))).costs)
        # of each stage those that are best for itself if all are as high, then of all stages together
        heights.append(np.array(heights)[np.argmin(costs, axis=0), np.arange(len(rows))])
        costs.append(Search.of(replace(layout, pieces=pieces.in_stripes(heights[-1]))).costs)
        least = int(np.argmin(np.sum(costs, axis=1)))
        return replace(layout, pieces=pieces.in_stripes(heights[least]))


def _layout_of(
    kept: Sequence[LayerPlaces],
    graph: StageGraph,
    held: Sequence[StoredCopies],
    flows: Flows,
    hardware: Hardware,
) -> Layout:
    """Return the layout that a file keeps. Raises SpecError unless it places each array of each copy once."""
    names = graph.names
    number, heights = {name: stage for stage, name in enumerate(names)}, [1] * len(names)
    rows = list[tuple[int, ...]]()
    for each in kept:
        check_known("places: layer", each.layer, names)
        heights[number[each.layer]] = each.stripe
        rows += [(number[each.layer], *piece) for piece in each.pieces]
    stage, copy, *site, arrays = np.array(rows, dtype=np.int64).reshape(-1, 7).T.copy()
    remedy = "leave `places` out, so that it is placed anew"
    for i, (name, of_stage) in enumerate(zip(names, held, strict=True)):
        own = np.bincount(copy[stage == i], arrays[stage == i], len(of_stage))
        if len(own) != len(of_stage) or (own != of_stage.together).any():
            need = of_stage.together * len(of_stage)
            words = f"the file places {int(own.sum())} arrays, its copies take {need}"
            raise SpecError(f"places of {name[:60]!r}", f"{words}: {remedy}")
    sites, tile = distinct(np.column_stack(site))
    there = {tuple(site) for site in Mesh.of(chip_of(hardware)).all_sites().tolist()}
    fault = f"a tile does not hold what the file puts there: {remedy}"
    if not there.issuperset(map(tuple, sites.tolist())):
        raise SpecError("places", fault)
    pieces = Pieces.of(held, flows, (stage, arrays, copy), heights, {})
    layout = _on_sites(pieces, tile, sites, hardware)
    of_stage_kind = np.array([mode.kind for mode in graph.modes], dtype=np.int64)
    is_of_kind = (layout.kinds[tile] == of_stage_kind[stage]).all()
    if not is_of_kind or (np.bincount(tile, arrays, len(sites)) > layout.room).any():
        raise SpecError("places", fault)
    return layout


def is_room_for(graph: StageGraph, held: Sequence[StoredCopies], hardware: Hardware) -> bool:
    """Return whether the tiles of a hardware hold all copies."""
    blocks = dict(zip(graph.names, graph.blocks, strict=True))
    try:
        next(_fillings(graph, held, hardware, row_block_widths(graph.network, hardware, blocks)))
    except (CapacityError, SpecError):
        return False
    return True


def _fillings(
    graph: StageGraph, held: Sequence[StoredCopies], hardware: Hardware, widths: dict[str, int] | None
) -> Iterator[Filled]:
    """Yield the fillings. widths: arrays of a row block of every layer where it must lie in one tile."""
    demand = np.array([each.together for each in held], dtype=np.int64)
    copies = np.array([len(each) for each in held], dtype=np.int64)
    chip = chip_of(hardware)
    if hardware.kinds is not None:
        yield _of_kinds(graph, demand, copies, hardware)
        return
    tiles = Tiles(chip.tile_count, chip.arrays_per_tile)
    arrays = [int(d) * int(n) for d, n in zip(demand, copies, strict=True)]
    most = max(graph.network_order, key=lambda stage: arrays[stage])
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
    yield filled
    if hardware.own_tiles is None and widths is None:
        yield dense(demand, copies, tiles)


def _arrays_left(hardware: Hardware, taken: Mapping[Site, int]) -> Ints:
    """Return the arrays that other networks leave in every tile of hardware with one kind."""
    sites = map(tuple, Mesh.of(chip_of(hardware)).all_sites().tolist())
    most = chip_of(hardware).arrays_per_tile
    return np.array([most - taken.get(site, 0) for site in sites], dtype=np.int64)


def _in_arrays_left(graph: StageGraph, held: Sequence[StoredCopies], left: Ints, room: int) -> Filled:
    """Return copies in tiles that other networks share, whole where one has room, else cut.

    left: arrays of every tile, of `room` in all. Raises CapacityError.
    """
    need = sum(len(each) * each.together for each in held)
    if need > left.sum():
        most = max(range(len(held)), key=lambda stage: held[stage].together)
        largest = graph.names[most], len(held[most]), held[most].together
        raise CapacityError(need, len(left), room, largest, taken=room * len(left) - int(left.sum()))
    opened = np.flatnonzero(left)[::-1].tolist()  # of which the last is filled first
    contents: list[list[EqualPieces]] = [[] for _ in left]
    filling = _Filling(Tiles(len(left), int(left.max())), contents, left.tolist(), opened)
    for stage, own in enumerate(held):
        filling.cut(stage, own.together, filling.add(stage, own.together, len(own)))
    return Filled.of(filling.contents)


def _of_kinds(graph: StageGraph, demand: Ints, copies: Ints, hardware: Hardware) -> Filled:
    """Return the filling of the tiles of every kind with its stages; tiles by their number in all sites.

    Raises CapacityError.
    """
    tiles_of_chip = hardware.kind_of_tiles[: chip_of(hardware).tiles_per_chip]
    kinds = np.tile(np.array(tiles_of_chip, dtype=np.int64), chip_of(hardware).chip_count)
    of_stage, parts = np.array([mode.kind for mode in graph.modes]), list[Filled]()
    for kind in np.unique(of_stage).tolist():
        stages, own = np.flatnonzero(of_stage == kind), np.flatnonzero(kinds == kind)
        tiles = Tiles(len(own), hardware.arrays_per_tile[kind])
        arrays = demand[stages] * copies[stages]
        most = int(stages[arrays.argmax()])
        largest = graph.names[most], int(copies[most]), int(demand[most])
        need = int(arrays.sum())
        if need > tiles.count * tiles.arrays or need > MAX_PLACED:
            raise CapacityError(need, tiles.count, tiles.arrays, largest)
        filled, proven = construct(demand[stages], copies[stages], tiles)
        if filled is None:
            raise CapacityError(need, tiles.count, tiles.arrays, largest, proven=proven)
        parts.append(Filled(stages[filled.stage], filled.arrays, own[filled.tile]))
    return Filled(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def _on_sites(pieces: Pieces, tile: Ints, sites: Ints, hardware: Hardware) -> Layout:
    """Return the layout with the pieces in these tiles, of which each has arrays of one kind."""
    chip = chip_of(hardware)
    kinds = np.array(hardware.kind_of_tiles, dtype=np.int64)[
        sites[:, 2] * mesh_of(chip.tiles)[1] + sites[:, 3]
    ]
    room = np.array([*hardware.arrays_per_tile, 0], dtype=np.int64)[kinds]
    return Layout(pieces, tile, sites, chip, kinds, room)


def _on_own_tiles(pieces: Pieces, tile: Ints, hardware: Hardware) -> Layout:
    """Return the layout with the pieces in these of all tiles."""
    return _on_sites(pieces, tile, Mesh.of(chip_of(hardware)).all_sites(), hardware)


def _on_best_curve(pieces: Pieces, tile: Ints, hardware: Hardware) -> Layout:
    """Return the layout on the curve over the mesh along which the pieces cost least; tile: of each, its
    number along it."""
    tiles, mesh = int(tile.max()) + 1, Mesh.of(chip_of(hardware))
    best = min((_on_sites(pieces, tile, curve, hardware) for curve in mesh.curves(tiles)), key=_cost)
    if mesh.count > _ALL_TILES:
        return _on_sites(pieces, tile, best.sites[: tiles + tiles // 4], hardware)
    sites = mesh.all_sites()
    place = {tuple(site): number for number, site in enumerate(sites.tolist())}
    to = np.array([place[tuple(site)] for site in best.sites.tolist()], dtype=np.int64)
    return _on_sites(pieces, to[tile], sites, hardware)
