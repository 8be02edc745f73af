"""`place`: the one call from an allocation to a checked placement.

From copies in tiles to physical arrays and the blocks they hold.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Unpack

import numpy as np

from rramalloc.allocation.allocation import NetworkId
from rramalloc.allocation.allocation_input import AllocationInput, AllocationLike, read_allocation
from rramalloc.allocation.case import Case, hardware_warnings
from rramalloc.allocation.case_arguments import AllocationArguments
from rramalloc.allocation.optimize import utilisation
from rramalloc.allocation.remedies import chip_words, more_chips
from rramalloc.commands.place.arrange import PLACEMENT_WORK, arrange, chip_of, is_room_for
from rramalloc.commands.place.check import check_placement
from rramalloc.commands.place.layout import Layout
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
from rramalloc.commands.place.transfer import TileRoutes, check_transfer, delays, missing_of_transfer
from rramalloc.errors import CapacityError, RramallocError, SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.importers import NetworkLike, network_of
from rramalloc.mapping.blocks import Block, StoredCopies, stored
from rramalloc.mapping.demand import WeightMatrix, folded_weights, folds
from rramalloc.mapping.fold import UNFOLDED
from rramalloc.mapping.options import MappingOptions
from rramalloc.ndarrays import Ints
from rramalloc.network.geometry import Pair
from rramalloc.network.network import Network
from rramalloc.records import check_range
from rramalloc.timing.access import StepTime
from rramalloc.timing.clocks import timed_graph
from rramalloc.timing.latency_table import LatencyTableLike
from rramalloc.timing.measured_steps import measured_steps
from rramalloc.timing.simulate import blocks_by_name, copies_by_name
from rramalloc.timing.stage_graph import StageGraph
from rramalloc.version import __version__


def assembled(layout: Layout, names: Sequence[str]) -> tuple[PlacedArray, ...]:
    """Return one record per array in use, by chip, tile and index; names: of the stages.

    Sets of arrays that lie together are numbered in the order of their tiles, and the arrays of a tile are
    filled stage after stage, set after set, block after block.
    """
    pieces, rank = layout.pieces, np.empty(len(layout.sites), dtype=np.int64)
    rank[np.lexsort(layout.sites.T[::-1])] = np.arange(len(layout.sites))
    sets: list[dict[int, list[int]]] = [{} for _ in names]
    for piece in np.lexsort((rank[layout.site], pieces.stage)).tolist():
        sets[int(pieces.stage[piece])].setdefault(int(pieces.copy[piece]), []).append(piece)
    found, used = [], [0] * len(layout.sites)
    for stage, of_stage in enumerate(sets):
        for number, own in enumerate(of_stage.values()):
            replica, blocks = pieces.held[stage][number].replica, iter(pieces.blocks(stage, number))
            for piece in sorted(own):
                site = int(layout.site[piece])
                row, column, *tile = layout.sites[site].tolist()
                held = list(islice(blocks, int(pieces.arrays[piece])))
                held.sort(key=lambda block: (block.row_block, block.column_block, block.plane))
                for index, block in enumerate(held, used[site]):
                    found.append(
                        array_of((row, column), (tile[0], tile[1]), index, names[stage], replica, block)
                    )
                used[site] += len(held)
    return tuple(sorted(found, key=lambda array: (array.chip, array.tile, array.index)))


def array_of(chip: Pair, tile: Pair, index: int, layer: str, replica: int, block: Block) -> PlacedArray:
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
        graph = plain.in_blocks(blocks_by_name(plain, source.blocks, source.where))
        if graph is not plain and options.mapping != "sdk":
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
        sizes = folds(network, graph.layers, hardware, options) if sizes is None else sizes
        every = sizes or [UNFOLDED] * len(graph.layers)
        for stage, grid, size, count in zip(graph.layers, graph.grids, every, copies.tolist(), strict=True):
            weights = WeightMatrix.of(network, stage, hardware, grid.block)
            if size != UNFOLDED:
                weights = folded_weights(network, stage, hardware, size)
            where = f"{network.where}: node {stage.name[:60]!r}"
            held.append(stored(weights, hardware.crossbar, options.mapping, count, where))
        return cls(graph, copies, sizes, held)


MAX_PLACEMENT_WORK = 10**6


def place(
    network: NetworkLike,
    allocation: AllocationLike,
    *,
    latency_table: LatencyTableLike | None = None,
    seed: int = 0,
    work: int = PLACEMENT_WORK,
    **given: Unpack[AllocationArguments],
) -> Placement:
    """Return which layer, copy, row block and column block every array of every chip holds.

    Hardware, mapping and fc are those of the allocation unless given.

    Parameters
    ----------
    network
        A Network, a file, or the name of a shipped network.
    allocation
        An Allocation, its file, or how layers run by name: copies, {"conv1": 4}.
    latency_table
        Measured step times, to tell how busy links are: a LatencyTable, a file, or a dict of its form; those
        of the allocation unless given.
    seed
        Of what the search draws.
    work
        Units of improvement, about 0.01 s each; 0 for the constructive placement alone.

    Returns
    -------
    Placement
        Every array in use, the traffic between tiles, and a lower bound of it.

    Raises
    ------
    CapacityError
        The chips do not hold the allocation.
    RramallocError
        FileError, SpecError, UnknownNameError.
    """
    check_range("seed", seed, 0, 2**53)
    check_range("work", work, 0, MAX_PLACEMENT_WORK)
    source = network_of(network, given)
    what = read_allocation(allocation).made_for(source).with_arguments(source, given)
    what.of_one_kind("place")
    if latency_table is not None:  # which tells how busy links are, and nothing else of a placement
        check_transfer(what.hardware)
    measured = measured_steps(latency_table, source, what.options, what.hardware, what.measured)
    return place_network(source, replace(what, measured=measured), work=work, seed=seed)


def place_network(network: Network, source: AllocationInput, *, work: int, seed: int) -> Placement:
    """Place every block of every copy on an array of the allocation's hardware, with little traffic; checked.

    Raises SpecError, CapacityError; MisplacedError if the placement does not survive the check.
    """
    hardware, measured = source.hardware, source.measured
    chip_of(hardware)
    stored = StoredNetwork.of(network, source)
    names = stored.graph.names
    try:
        found = arrange(stored.graph, stored.held, hardware, work=work, seed=seed)
    except CapacityError as error:
        error.remedies = _remedies(stored, source, error.need)
        raise
    arrays = assembled(found.layout, names)
    routes = TileRoutes.of(arrays, names, found.flows, stored.copies)
    gap = (found.cost - found.lower_bound) / found.cost if found.cost else 0.0
    layers = _layers(stored, source, arrays)
    placement = Placement(
        rramalloc_version=__version__,
        network=NetworkId.of(network),
        hardware=hardware,
        options=PlacementOptions(**dict(source.options), seed=seed, work=work, latency_table=measured),
        traffic=Traffic.gather(found, found.mesh, gap=gap),
        layers=layers,
        flows=_flows(names, routes, found.mesh.chip_hop, _delays(routes, stored.graph, source)),
        links=tuple(
            Link(chip=chip, start=start, end=end, size_bytes=load)
            for load, chip, start, end in routes.loads(routes.input_bytes).listed()
        ),
        tiles=_tiles(arrays, hardware),
        arrays=arrays,
        warnings=(
            *network.warnings,
            *hardware_warnings(hardware, len(arrays)),
            *(() if measured is None else measured.warnings),
            *source.differences(layers),
        ),
    )
    check_placement(placement, network, source.copies, blocks=source.blocks)
    return placement


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
            share = utilisation(*mode, held.copies, len(held) * held.together, source.hardware)
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
            )
        )
    return tuple(layers)


def _delays(routes: TileRoutes, graph: StageGraph, source: AllocationInput) -> list[dict[str, float]]:
    """Return transfer_ns and busy of every route, as far as the hardware gives what they need."""
    hardware, measured = source.hardware, source.measured
    if missing_of_transfer(hardware):
        return [{} for _ in routes]
    step_time, batch_ns = StepTime.of(graph, hardware, measured), None
    if step_time is not None:
        timed = timed_graph(graph.network, hardware, source.options, measured).on_arrays
        ticks = timed.in_blocks(graph.blocks).batch_ticks(routes.copies)
        batch_ns = ticks.astype(np.float64) * float(step_time.step_ns(routes.copies))
    found, busy = delays(routes, hardware, batch_ns), batch_ns is not None
    return [{"transfer_ns": each.ns} | ({"busy": each.busy} if busy else {}) for each in found]


def _flows(
    names: Sequence[str], routes: TileRoutes, chip_hop: float, delays: Sequence[dict[str, float]]
) -> tuple[Flow, ...]:
    """Return the flows of routes with bytes to carry, by producer and consumer."""
    endpoints = zip(routes.sender.tolist(), routes.receiver.tolist(), strict=True)
    listed = sorted(
        zip(endpoints, routes, routes.input_bytes.tolist(), delays, strict=True), key=lambda each: each[0]
    )
    flows = []
    for (p, c), route, sent, own in listed:
        if p != c or sent:
            mean, named = route.mean_hops(chip_hop), {"producer": names[p], "consumer": names[c]}
            flows.append(Flow(**named, size_bytes=sent, hops=mean, byte_hops=sent * mean, **own))
    return tuple(flows)


def _tiles(arrays: tuple[PlacedArray, ...], hardware: Hardware) -> tuple[TileUse, ...]:
    """Return the tiles in use, by chip and tile; `arrays` is in that order."""
    room, used, cells = chip_of(hardware).arrays_per_tile, Counter[tuple[Pair, Pair]](), Counter[Any]()
    for array in arrays:
        used[array.chip, array.tile] += 1
        cells[array.chip, array.tile] += array.rows * array.columns
    most = hardware.crossbar.wordlines * hardware.crossbar.bitlines * room
    return tuple(
        TileUse(chip=at[0], tile=at[1], arrays=count, utilisation=count / room, cells=cells[at] / most)
        for at, count in used.items()
    )
