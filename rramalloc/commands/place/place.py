"""`place`: the one call from an allocation to a checked placement.

From copies in tiles to physical arrays and the blocks they hold.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Unpack

import numpy as np

from rramalloc.allocation.allocation import NetworkId
from rramalloc.allocation.allocation_input import AllocationInput, AllocationLike, read_case
from rramalloc.allocation.case import Case, hardware_warnings
from rramalloc.allocation.case_arguments import AllocationArguments
from rramalloc.allocation.goes_with import check_command
from rramalloc.allocation.optimize import kind_of, utilisation
from rramalloc.allocation.remedies import chip_words, more_chips
from rramalloc.commands.place.arrange import NOTHING_TAKEN, Arrangement, arrange, as_kept, is_room_for
from rramalloc.commands.place.check import check_placement
from rramalloc.commands.place.layout import Layout
from rramalloc.commands.place.mesh import Mesh, chip_of
from rramalloc.commands.place.placement import (
    Flow,
    Link,
    PlacedArray,
    PlacedLayer,
    Placement,
    PlacementOptions,
    TileUse,
    Traffic,
)
from rramalloc.commands.place.together import BY_TILE, together
from rramalloc.commands.place.transfer import (
    Delay,
    TileRoutes,
    TransferTimer,
    TransferTimes,
    check_transfer,
    delays,
    times_transfer,
)
from rramalloc.errors import CapacityError, RramallocError, SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import as_hardware
from rramalloc.hardware.tables import mesh_of
from rramalloc.importers import NetworkLike
from rramalloc.mapping.blocks import Block, StoredCopies, stored, unit_of
from rramalloc.mapping.demand import WeightMatrix, folded_weights, folds
from rramalloc.mapping.fold import UNFOLDED
from rramalloc.mapping.mode import array_of
from rramalloc.mapping.options import MappingOptions
from rramalloc.mapping.tiles import Site
from rramalloc.ndarrays import Ints
from rramalloc.network.geometry import Pair
from rramalloc.network.network import Network
from rramalloc.reading import network_of_sizing, sizing_in
from rramalloc.records import check_range
from rramalloc.rounding import SAME_SUM
from rramalloc.status import Status
from rramalloc.timing.latency_table import LatencyTableLike
from rramalloc.timing.simulate import copies_by_name
from rramalloc.timing.stage_graph import StageGraph
from rramalloc.units import counted, duration, share
from rramalloc.version import __version__


def assembled(layout: Layout, names: Sequence[str]) -> tuple[PlacedArray, ...]:
    """Return one record per array in use, by chip, tile and index; names: of the stages.

    The arrays of a tile are filled stage after stage, set after set, block after block.
    """
    found, used = list[PlacedArray](), Counter[Site]()
    for stage, replica, site, blocks in layout.contents():
        blocks.sort(key=lambda block: (block.row_block, block.column_block, block.plane))
        row, column, *tile = site
        for index, block in enumerate(blocks, used[site]):
            found.append(placed_array((row, column), (tile[0], tile[1]), index, names[stage], replica, block))
        used[site] += len(blocks)
    return tuple(sorted(found, key=BY_TILE))


def placed_array(chip: Pair, tile: Pair, index: int, layer: str, replica: int, block: Block) -> PlacedArray:
    """Return the record of an array that holds a block of weights; replica: the first copy in it."""
    where = {"chip": chip, "tile": tile, "index": index, "layer": layer, "replica": replica}
    return PlacedArray.gather(block, **where)


@dataclass(frozen=True, slots=True, eq=False)
class StoredNetwork:
    """The stages of a network in the blocks of an allocation, and what their arrays hold; canonical order.

    sizes: of folds if any; held: the copies of every stage as blocks of weights.
    """

    graph: StageGraph
    copies: Ints
    sizes: list[Pair] | None
    held: list[StoredCopies]
    options: MappingOptions

    @classmethod
    def of(
        cls, network: Network, source: AllocationInput, folded: MappingOf[str, Pair] | None = None
    ) -> StoredNetwork:
        """Return it as an allocation says.

        folded: sizes of folds by layer name, the others are left as they are; None: as the options say.
        Raises SpecError for a name, copies or a block that the network or the mapping cannot have.
        """
        hardware, options = source.hardware, source.options
        plain = StageGraph.build(network, options)
        graph = plain.in_modes(source.modes(plain, hardware.kinds))
        if graph.blocks != plain.blocks and options.mapping != "sdk":
            raise SpecError(
                source.where,
                f"block: copies of more than their smallest block of windows lie on arrays with mapping "
                f"'sdk', the mapping is {options.mapping!r}: place them with 'sdk', or leave the blocks out",
            )
        copies = copies_by_name(graph, source.copies, source.where)
        sizes = None if folded is None else [folded.get(name, UNFOLDED) for name in graph.names]
        return cls.of_copies(graph, copies, hardware, options, sizes)

    @classmethod
    def of_copies(
        cls,
        graph: StageGraph,
        copies: Ints,
        hardware: Hardware,
        options: MappingOptions,
        sizes: list[Pair] | None = None,
    ) -> StoredNetwork:
        """Return it with these copies. sizes: of folds, as the options say if None."""
        network, held = graph.network, list[StoredCopies]()
        kinds = [array_of(hardware, *each) for each in zip(graph.stages, graph.modes, strict=True)]
        if sizes is None and options.fold:
            each = zip(graph.layers, kinds, strict=True)
            sizes = [size for stage, own in each for size in folds(network, [stage], own, options) or ()]
        every = sizes or [UNFOLDED] * len(graph.layers)
        rows = zip(graph.layers, graph.grids, every, copies.tolist(), kinds, strict=True)
        for stage, grid, size, count, own in rows:
            engine, layout, folded = own, options.mapping, size
            if own.processor is not None:  # a copy takes a unit, whatever its weights
                engine, layout, folded = unit_of(network, stage, own), "im2col", UNFOLDED
            weights = WeightMatrix.of(network, stage, engine, grid.block)
            if folded != UNFOLDED:
                weights = folded_weights(network, stage, engine, folded)
            where = f"{network.where}: node {stage.name[:60]!r}"
            held.append(stored(weights, engine.crossbar, layout, count, where))
        return cls(graph, copies, sizes, held, options)


MAX_PLACEMENT_WORK = 10**6


def place(
    network: NetworkLike,
    allocation: AllocationLike | None = None,
    *,
    latency_table: LatencyTableLike | None = None,
    seed: int = 0,
    work: int | None = None,
    **given: Unpack[AllocationArguments],
) -> Placement:
    """Place an allocation: every block of every copy on an array of a tile of a chip, with little traffic.

    Hardware, mapping and fc are those of the allocation unless given.

    Parameters
    ----------
    network
        A Network, a file, or the name of a shipped network. Or the JSON that `size` wrote: all that its chip
        stores is placed.
    allocation
        An Allocation, its file, or how layers run by name: copies, {"conv1": 4}; None for those of `size`.
    latency_table
        Measured step times, to tell how busy links are: a LatencyTable, a file, or a dict of its form; those
        of the allocation unless given.
    seed
        Of what the search draws.
    work
        Units of improvement, about 0.01 s each, which are spent; 0 for the constructive placement alone, None
        for as many as pay for its size, or for the places that the allocation keeps.

    Returns
    -------
    Placement
        Every array in use, the traffic between tiles, and the times with and without transfers.

    Raises
    ------
    CapacityError
        The chips do not hold the allocation.
    RramallocError
        FileError, SpecError, UnknownNameError.
    """
    check_range("seed", seed, 0, 2**53)
    if work is not None:
        check_range("work", work, 0, MAX_PLACEMENT_WORK)
    if allocation is None:
        sizing = sizing_in(network)
        if sizing is None:
            raise SpecError(
                "allocation", "is missing: give one, or the JSON of `size` in place of the network"
            )
        return _place_sized(sizing, given, latency_table, work=work, seed=seed)
    case, what = read_case(network, allocation, given, latency_table=latency_table)
    what.made_for(case.network)
    check_command("place", "place", case)
    if latency_table is not None:  # which tells how busy links are, and nothing else of a placement
        check_transfer(what.hardware)
    return place_network(case.network, what, work=work, seed=seed)


def _place_sized(
    sizing: Any,
    given: AllocationArguments,
    latency_table: LatencyTableLike | None,
    *,
    work: int | None,
    seed: int,
) -> Placement:
    """Place what a result of `size` stores, each network in the arrays that those before it leave.

    Raises SpecError for networks that are not stored together, or cannot share tiles; as `place_network`.
    """
    given_hardware = given.get("hardware") or sizing.chip.hardware
    hardware = as_hardware(given_hardware, set_values=given.get("set_values"))
    several = len(sizing.networks) > 1
    if several and sizing.stored == "one":
        words = "its networks run in turn, each alone on the chip: optimize and place them one by one"
        raise SpecError("networks", f'{words}, or size with stored "all"')
    if several and (hardware.kinds or hardware.own_tiles is not None or hardware.fills_first_fit):
        words = "has tiles of one kind, of one layer or filled first fit, which several networks cannot share"
        raise SpecError(f"hardware {hardware.name[:60]!r}", f"{words}: place them one by one")
    parts = list[Placement]()
    taken = Counter[Site]()
    for each in sizing.networks:
        case, what = read_case(network_of_sizing(each), each.allocation, given, latency_table=latency_table)
        check_command("place", "place", case)
        part = place_network(case.network, what, work=work, seed=seed, taken=taken)
        moved = [(array, array.index + taken[*array.chip, *array.tile]) for array in part.arrays]
        arrays = tuple(array.model_copy(update={"index": index}) for array, index in moved)
        parts.append(part.model_copy(update={"arrays": arrays}))
        taken.update((*array.chip, *array.tile) for array in arrays)
    every = sorted((array for part in parts for array in part.arrays), key=BY_TILE)
    return together(parts, tiles_in_use(every, hardware)) if several else parts[0]


def place_network(
    network: Network,
    source: AllocationInput,
    *,
    work: int | None,
    seed: int,
    taken: MappingOf[Site, int] = NOTHING_TAKEN,
) -> Placement:
    """Place every block of every copy on an array of the allocation's hardware: as fast with transfers as
    can be found, then with little traffic; checked. taken: arrays of tiles that hold other networks.

    Raises SpecError, CapacityError; MisplacedError if the placement does not survive the check.
    """
    said, was_placed = source.left_out, bool(source.transfer_ns)
    places = source.places if work is None else ()
    source = source.without_transfer()  # which is that of its own places
    hardware, measured = source.hardware, source.measured
    chip_of(hardware)
    stored = StoredNetwork.of(network, source)
    names, timer = stored.graph.names, timer_of(network, source)
    try:
        if places:
            found = as_kept(stored.graph, stored.held, hardware, timer, places)
        else:
            found = arrange(
                stored.graph, stored.held, hardware, work=work, seed=seed, timer=timer, taken=taken
            )
    except CapacityError as error:
        error.remedies = _REMEDIES_TOGETHER if taken else _remedies(stored, source, error.need)
        raise
    arrays = assembled(found.layout, names)
    routes, known = TileRoutes.of_layout(found.layout), list[Delay]()
    if found.times is not None:
        routes, known = found.times.routes, [*found.times.delays]
    elif times_transfer(hardware):
        known = delays(routes, hardware)
    chip_hop, layers = Mesh.of(chip_of(hardware)).chip_hop, _layers(stored, source, arrays)
    times, interval_ns = dict[str, Any](), None
    if timer is not None and found.times is not None:
        alone_ns, interval_ns = timer.alone
        times = {"latency_ns_alone": alone_ns, "latency_ns": found.times.latency_ns}
        times |= {"interval_ns_alone": interval_ns, "interval_ns": found.times.interval_ns}
        times |= {"proof": _PROVEN if found.times.factor <= 1 + SAME_SUM else _WITHOUT}
        times["status"] = Status.OPTIMAL if times["proof"] is _PROVEN else Status.BOUNDED
    case = Case(network, hardware, source.options, measured).with_stages(stored.graph)
    placement = Placement(
        rramalloc_version=__version__,
        network=NetworkId.of(network),
        hardware=hardware,
        options=PlacementOptions(**dict(source.options), seed=seed, work=found.work, latency_table=measured),
        traffic=Traffic(cost=routes.byte_hops(chip_hop), constructed=found.constructed, chip_hop=chip_hop),
        **times,
        layers=layers,
        flows=_flows(names, routes, chip_hop, known, timed=timer is not None),
        links=tuple(_links(routes, hardware, interval_ns)),
        tiles=tiles_in_use(arrays, hardware),
        arrays=arrays,
        not_counted=case.not_counted(links=timer is not None),
        warnings=(
            *network.warnings,
            *said,
            *hardware_warnings(hardware, len(arrays)),
            *(() if measured is None else measured.warnings),
            *source.differences(layers),
            *_slowed(stored, timer, found, seed, was_placed=was_placed),
        ),
    )
    check_placement(placement, network, source.copies, blocks=source.blocks, kinds=source.kinds)
    return placement


_WORK_OF_TRIAL = 20  # units, for a placement of fewer copies
_NEARLY = 1.1  # times what the widest links tried leave of the delay: with own clocks hops always take time
_REMEDIES_TOGETHER = "size again on this hardware", "optimize and place the networks one by one"
_NAMED = 3  # layers with fewer copies that a warning names
_PROVEN = "no placement of these copies is faster: transfers take no time beside the rest"
_WITHOUT = "the time without transfers, which no placement goes below"


def timer_of(network: Network, source: AllocationInput) -> TransferTimer | None:
    """Return what times an allocation with transfers; None where the hardware does not give what it takes."""
    if not times_transfer(source.hardware):
        return None
    if source.hardware.own_clock and source.measured is None and source.hardware.compute_ns is None:
        return None
    graph = source.in_blocks(source.graph(network))
    step_time, of_interval = source.step_time(graph), source.objective == "interval"
    if step_time is None:
        return None
    copies = copies_by_name(graph, source.copies, source.where)
    return TransferTimer(graph, copies, step_time, source.hardware, of_interval)


def _links(routes: TileRoutes, hardware: Hardware, interval_ns: float | None) -> Iterator[Link]:
    """Yield the links in use, the most bytes first. interval_ns: without transfers, None if unknown."""
    chip = chip_of(hardware)
    for load, at, start, end in routes.loads(routes.input_bytes).listed():
        gb_s = chip.bandwidth_chip_gb_s if at is None else chip.bandwidth_tile_gb_s
        busy = None if interval_ns is None or gb_s is None else load / gb_s / interval_ns
        yield Link(chip=at, start=start, end=end, size_bytes=load, busy=busy)


def _slowed(
    stored: StoredNetwork, timer: TransferTimer | None, found: Arrangement, seed: int, *, was_placed: bool
) -> Iterator[str]:
    """Yield how much transfers slow a placement down, at which link, and what was tried and helps.

    was_placed: whether the copies were already looked for with links.
    """
    times = found.times
    if timer is None or times is None or times.factor <= 1 + SAME_SUM:
        return
    load, key, start, end = times.busiest
    where = "between chips" if key is None else f"of chip {key[0]},{key[1]}"
    remedies = [*_wider_links(timer, times), *_fewer_copies(stored, timer, times, seed)]
    if stored.sizes is None and stored.options.mapping != "sdk" and not timer.of_interval and not was_placed:
        remedies.append("optimize --placed, which looks for copies that suit links (not tried here)")
    yield (
        f"transfers make the network {times.factor:.3g} times as slow ({duration(times.latency_ns)}): link "
        f"{start[0]},{start[1]} to {end[0]},{end[1]} {where} takes {share(load)} of the time of a batch, "
        f"{'it cannot keep up' if load > 1 else 'its layers wait for it'}; what helps: {'; '.join(remedies)}"
    )


def _wider_links(timer: TransferTimer, times: TransferTimes) -> Iterator[str]:
    """Yield the least bandwidth tried that hides all transfers of a placement, or nearly all that it can."""
    field = "bandwidth_chip_gb_s" if times.busiest[1] is None else "bandwidth_tile_gb_s"
    now_gb_s, tried = getattr(chip_of(timer.hardware), field), dict[float, TransferTimes]()
    if now_gb_s is None:  # hops alone take time
        return
    for part in (1.0, 1.25, 1.6, 2.0, 4.0):
        enough = float(f"{now_gb_s * max(1.0, times.slowest) * part:.2g}")
        if enough > now_gb_s:
            hardware = timer.hardware.with_values({f"chip.{field}": enough})
            tried[enough] = replace(timer, hardware=hardware).of_routes(times.routes)
    most = 1 + SAME_SUM + _NEARLY * (tried[max(tried)].factor - 1)
    gb_s, best = next((gb_s, each) for gb_s, each in tried.items() if each.factor <= most)
    if best.factor < times.factor:
        yield f"{field} = {gb_s:g} in [chip] (now {now_gb_s:g}): {duration(best.latency_ns)}"


def _fewer_copies(
    stored: StoredNetwork, timer: TransferTimer, times: TransferTimes, seed: int
) -> Iterator[str]:
    """Yield fewer copies of the layers whose transfers take longer than a batch, if they are faster.

    They are placed for that.
    """
    parts = np.maximum(1.0, times.parts[timer.graph.weighted])
    copies = np.maximum(1, stored.copies // parts).astype(np.int64)
    changed = np.flatnonzero(copies < stored.copies).tolist()
    if not changed or stored.sizes is not None:
        return
    every, graph, hardware = timer.copies.copy(), stored.graph, timer.hardware
    every[timer.graph.weighted] = copies
    held = StoredNetwork.of_copies(graph, copies, hardware, stored.options).held
    fewer = replace(timer, copies=every)
    quicker = arrange(graph, held, hardware, work=_WORK_OF_TRIAL, seed=seed, timer=fewer).times
    if quicker is not None and quicker.latency_ns < times.latency_ns:
        named = [f"{copies[at]} of {graph.names[at]} (now {stored.copies[at]})" for at in changed]
        more = f" and of {counted(len(named) - _NAMED, 'more layer')}" if len(named) > _NAMED else ""
        yield f"fewer copies, {', '.join(named[:_NAMED])}{more}: {duration(quicker.latency_ns)}"


def _remedies(stored: StoredNetwork, source: AllocationInput, need: int) -> list[str]:
    """Return in words what places an allocation, or one of its network, that the chips have no room for.

    need: its arrays.
    """
    hardware = source.hardware
    graph = stored.graph
    remedies = list[str]()

    def is_placed_on(machine: Hardware) -> bool:
        return is_room_for(graph, stored.held, machine)

    with contextlib.suppress(RramallocError):
        case = Case(graph.network, hardware, source.options, source.measured)
        case.problem(chip_of(hardware).arrays, advise=False)
        remedies.append("allocate with this --hardware, which keeps to its chips")
    if (machine := more_chips(hardware, need, is_placed_on)) is not None:
        remedies.append(f"place it on a --hardware of {chip_words(machine)}")
    for table, field, value in (("chip", "sharing", "free"), ("counting", "row_blocks", "anywhere")):
        own = getattr(getattr(hardware, table), field, None)
        if own not in (None, value) and is_placed_on(hardware.with_values({f"{table}.{field}": value})):
            remedies.append(f'place it on a --hardware of [{table}] {field} = "{value}"')
    return remedies


def _layers(
    stored: StoredNetwork, source: AllocationInput, arrays: tuple[PlacedArray, ...]
) -> tuple[PlacedLayer, ...]:
    graph, in_modes = stored.graph, source.options.mapping == "sdk"
    tiles = Counter(layer for layer, *_ in {(array.layer, array.chip, array.tile) for array in arrays})
    of_copies = {
        (array.layer, replica, array.chip, array.tile)
        for array in arrays
        for replica in range(array.replica, array.replica + array.copies)
    }
    tiles_of_copy = Counter((layer, replica) for layer, replica, *_ in of_copies)
    straddling = Counter(layer for (layer, _), count in tiles_of_copy.items() if count > 1)
    layers = []
    for stage in graph.network_order:
        name, held = graph.names[stage], stored.held[stage]
        share = None
        if in_modes:
            mode = graph.network, graph.stages[stage], graph.blocks[stage]
            own = array_of(source.hardware, graph.stages[stage], graph.modes[stage])
            share = utilisation(*mode, held.copies, len(held) * held.together, own)
        layers.append(
            PlacedLayer(
                name=name,
                arrays_per_copy=held.demand,
                copies=held.copies,
                tiles=tiles[name],
                straddling=straddling[name],
                fold=None if stored.sizes is None else stored.sizes[stage],
                block=graph.blocks[stage] if in_modes else None,
                utilisation=share,
                kind=kind_of(source.hardware, graph.modes[stage]),
            )
        )
    return tuple(layers)


def _flows(
    names: Sequence[str], routes: TileRoutes, chip_hop: float, delays: Sequence[Delay], *, timed: bool
) -> tuple[Flow, ...]:
    """Return the flows of routes with bytes to carry, by producer and consumer.

    delays: of all routes, or none; timed: whether it is known how busy links are.
    """
    flows = []
    endpoints = zip(routes.sender.tolist(), routes.receiver.tolist(), strict=True)
    for (p, c), route, sent, delay in zip_longest(endpoints, routes, routes.input_bytes.tolist(), delays):
        if p != c or sent:
            mean, named = route.mean_hops(chip_hop), {"producer": names[p], "consumer": names[c]}
            own = {} if delay is None else {"transfer_ns": delay.ns} | ({"busy": delay.busy} if timed else {})
            flows.append(((p, c), Flow(**named, size_bytes=sent, hops=mean, byte_hops=sent * mean, **own)))
    return tuple(flow for _, flow in sorted(flows, key=lambda each: each[0]))


def tiles_in_use(arrays: Sequence[PlacedArray], hardware: Hardware) -> tuple[TileUse, ...]:
    """Return the tiles in use, by chip and tile; `arrays` is in that order."""
    used, cells = Counter[tuple[Pair, Pair]](), Counter[Any]()
    for array in arrays:
        used[array.chip, array.tile] += 1
        cells[array.chip, array.tile] += array.rows * array.columns
    wide, kinds = mesh_of(chip_of(hardware).tiles)[1], hardware.kind_of_tiles
    found = list[TileUse]()
    for (chip, tile), count in used.items():
        kind = kinds[tile[0] * wide + tile[1]]
        own, room = hardware.each_kind[kind], hardware.arrays_per_tile[kind]
        most = room * own.crossbar.wordlines * own.crossbar.bitlines
        filled = count / room if own.processor is not None else cells[chip, tile] / most
        found.append(TileUse(chip=chip, tile=tile, arrays=count, utilisation=count / room, cells=filled))
    return tuple(found)
