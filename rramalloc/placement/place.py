"""`place`: the one call from an allocation to a checked placement.

From copies in tiles to physical arrays and the blocks they hold.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rramalloc.choices import FullyConnected, Mapping
from rramalloc.errors import SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import HardwareLike, as_hardware
from rramalloc.importers import InputShapes, NetworkLike, as_network
from rramalloc.mapping.demand import WeightMatrix, folded_weights, folds
from rramalloc.mapping.fold import UNFOLDED
from rramalloc.mapping.modes import NO_BLOCKS, BlocksByName
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.geometry import Pair
from rramalloc.network.network import Network
from rramalloc.placement.arrange import DEFAULT_WORK, Arrangement, arrange, chip_of
from rramalloc.placement.blocks import Block, StoredCopies, stored
from rramalloc.placement.check import check
from rramalloc.placement.layout import Layout
from rramalloc.placement.mesh import Ints
from rramalloc.placement.placement import (
    Flow,
    Link,
    PlacedArray,
    PlacedLayer,
    Placement,
    PlacementOptions,
    TileUse,
    Traffic,
)
from rramalloc.placement.transfer import EdgeTransfers, Ways, check_transfer, missing_of_transfer
from rramalloc.records import check_range
from rramalloc.results.allocation import NetworkId
from rramalloc.results.allocation_input import AllocationLike, read_allocation
from rramalloc.results.optimize import hardware_warnings, utilisation
from rramalloc.timing.access import StepTime
from rramalloc.timing.clocks import timed_graph
from rramalloc.timing.measured_steps import LatencyTableLike, MeasuredSteps, measured_steps
from rramalloc.timing.simulate import blocks_by_name, replication_by_name
from rramalloc.timing.stage_graph import StageGraph
from rramalloc.version import __version__


def assembled(layout: Layout, names: Sequence[str]) -> tuple[PlacedArray, ...]:
    """One record per array in use, by chip, tile and index; names: of the stages.

    Sets of arrays that lie together are numbered in the order of their tiles, and the arrays of a tile are
    filled stage after stage, set after set, block after block.
    """
    pieces, rank = layout.pieces, np.empty(len(layout.sites), dtype=np.int64)
    rank[np.lexsort(layout.sites.T[::-1])] = np.arange(len(layout.sites))
    members: list[dict[int, list[int]]] = [{} for _ in names]
    for piece in np.lexsort((rank[layout.site], pieces.stage)).tolist():
        members[int(pieces.stage[piece])].setdefault(int(pieces.copy[piece]), []).append(piece)
    found, used = [], [0] * len(layout.sites)
    for stage, sets in enumerate(members):
        for number, own in enumerate(sets.values()):
            held, at = pieces.held[stage][number], 0
            blocks = pieces.blocks(stage, number)
            for piece in sorted(own):
                site = int(layout.site[piece])
                row, column, *tile = layout.sites[site].tolist()
                own_blocks = blocks[at : at + int(pieces.arrays[piece])]
                for block in sorted(own_blocks, key=lambda block: (block.row_block, block.column_block)):
                    where = (row, column), (tile[0], tile[1]), used[site]
                    found.append(array_of(*where, names[stage], held.replica, block))
                    used[site] += 1
                at += int(pieces.arrays[piece])
    return tuple(sorted(found, key=lambda array: (array.chip, array.tile, array.index)))


def array_of(chip: Pair, tile: Pair, index: int, layer: str, replica: int, block: Block) -> PlacedArray:
    """The record of an array that holds a block of weights; replica: the first copy in it."""
    return PlacedArray(
        chip=chip, tile=tile, index=index, layer=layer, replica=replica, copies=block.copies,
        row_block=block.row_block, column_block=block.column_block, rows=block.rows, columns=block.columns,
    )  # fmt: skip


def graph_in_blocks(
    network: Network, options: MappingOptions, blocks: BlocksByName, where: str
) -> StageGraph:
    """The stages of a network in blocks of windows, given by layer name; others have their smallest block.

    Raises SpecError for a block that its layer or the mapping cannot have; where: their file.
    """
    plain = StageGraph.build(network, options.fc)
    graph = plain.in_blocks(blocks_by_name(plain, blocks, where))
    if graph is not plain and options.mapping != "sdk":
        raise SpecError(
            where,
            f"block: copies of more than their smallest block of windows lie on arrays with mapping 'sdk', "
            f"the mapping is {options.mapping!r}: place them with 'sdk', or leave the blocks out",
        )
    return graph


def stored_weights(graph: StageGraph, hardware: Hardware, sizes: Sequence[Pair] | None) -> list[WeightMatrix]:
    """Weights of every stage in its blocks, in canonical order; sizes: of folds if any."""
    return [
        WeightMatrix.of(graph.network, stage, hardware, grid.block)
        if size == UNFOLDED
        else folded_weights(graph.network, stage, hardware, size)
        for stage, grid, size in zip(
            graph.layers, graph.grids, sizes or [UNFOLDED] * len(graph.layers), strict=True
        )
    ]


def stored_copies(
    graph: StageGraph, weights: Sequence[WeightMatrix], copies: Ints, hardware: Hardware, mapping: Mapping
) -> list[StoredCopies]:
    """What the arrays of every stage hold; copies: int64, in canonical order."""
    where = f"{graph.network.where}: node"
    return [
        stored(matrix, hardware.crossbar, mapping, int(count), f"{where} {name[:60]!r}")
        for name, matrix, count in zip(graph.names, weights, copies, strict=True)
    ]


MAX_WORK = 10**6


def place(
    network: NetworkLike,
    allocation: AllocationLike,
    *,
    hardware: HardwareLike | None = None,
    mapping: Mapping | None = None,
    fc: FullyConnected | None = None,
    latency_table: LatencyTableLike | None = None,
    seed: int = 0,
    work: int = DEFAULT_WORK,
    input_shapes: InputShapes | None = None,
    allow_partial: bool = False,
) -> Placement:
    """Every array of every chip: which layer, replica, row block and column block it holds.

    allocation: an Allocation, its file, or copies by layer name; hardware, mapping and fc are its own unless
    given; latency_table: measured step times, or their file, to tell how busy links are, those of the
    allocation unless given; work: units of improvement (about 0.01 s each), 0 for the constructive placement
    alone; allow_partial: take operators whose weights cannot be modelled as barriers.
    Raises RramallocError: CapacityError, TileError, FileError, SpecError, UnknownNameError.
    """
    check_range("seed", seed, 0, 2**53)
    check_range("work", work, 0, MAX_WORK)
    source = as_network(network, input_shapes, allow_partial=allow_partial)
    chosen = None if hardware is None else as_hardware(hardware)
    what = read_allocation(allocation).made_for(source).changed(hardware=chosen, mapping=mapping, fc=fc)
    if latency_table is not None:  # which tells how busy links are, and nothing else of a placement
        check_transfer(what.hardware)
    return place_network(
        source, what.replication, what.hardware, what.options, work=work, seed=seed, where=what.where,
        blocks=what.blocks,
        measured=measured_steps(latency_table, source, what.options.fc, what.hardware, what.measured),
    )  # fmt: skip


def place_network(
    network: Network, replication: MappingOf[str, int], hardware: Hardware, options: MappingOptions, *,
    work: int, seed: int, where: str, blocks: BlocksByName = NO_BLOCKS, measured: MeasuredSteps | None = None,
) -> Placement:  # fmt: skip
    """Every block of every copy on an array, with little traffic; checked.

    replication: copies by layer name, layers left out have one; where: their file, as messages call it;
    blocks: windows that a copy computes in a step, by layer name, layers left out have their smallest block;
    measured: step times instead of those of the hardware.
    Raises SpecError, TileError, CapacityError; MisplacedError if the placement does not survive the check.
    """
    chip_of(hardware)
    graph = graph_in_blocks(network, options, blocks, where)
    copies = replication_by_name(graph, replication, where)
    sizes = folds(network, graph.stages, hardware, options)
    held = stored_copies(graph, stored_weights(graph, hardware, sizes), copies, hardware, options.mapping)
    found = arrange(graph, held, hardware, work=work, seed=seed)
    arrays = assembled(found.layout, graph.names)
    ways = Ways.of(arrays, graph.names, found.flows, copies)
    placement = Placement(
        rramalloc_version=__version__,
        network=NetworkId.of(network),
        hardware=hardware,
        options=PlacementOptions(**dict(options), seed=seed, work=work, latency_table=measured),
        traffic=_traffic(found),
        layers=_layers(graph, held, sizes, hardware, options.mapping, arrays),
        flows=_flows(found, graph, ways, _delays(ways, graph, hardware, options, measured)),
        links=_links(ways),
        tiles=_tiles(arrays, hardware),
        arrays=arrays,
        warnings=(
            *network.warnings,
            *hardware_warnings(hardware, len(arrays)),
            *(() if measured is None else measured.warnings),
        ),
    )
    check(placement, network, replication, blocks=blocks)
    return placement


def _traffic(found: Arrangement) -> Traffic:
    gap = (found.cost - found.lower_bound) / found.cost if found.cost else 0.0
    return Traffic(
        cost=found.cost, lower_bound=found.lower_bound, gap=gap, proof=found.proof,
        constructed=found.constructed, chip_hop=found.mesh.chip_hop,
    )  # fmt: skip


def _layers(
    graph: StageGraph,
    held: Sequence[StoredCopies],
    sizes: list[Pair] | None,
    hardware: Hardware,
    mapping: Mapping,
    arrays: tuple[PlacedArray, ...],
) -> tuple[PlacedLayer, ...]:
    tiles: dict[str, set[tuple[int, ...]]] = {name: set() for name in graph.names}
    first: dict[tuple[str, int], tuple[int, ...]] = {}
    straddling: dict[str, set[int]] = {name: set() for name in graph.names}
    for array in arrays:
        tile = (*array.chip, *array.tile)
        tiles[array.layer].add(tile)
        for replica in range(array.replica, array.replica + array.copies):
            if first.setdefault((array.layer, replica), tile) != tile:
                straddling[array.layer].add(replica)
    return tuple(
        PlacedLayer(
            name=graph.names[stage], demand=held[stage].demand, replication=held[stage].copies,
            tiles=len(tiles[graph.names[stage]]), straddling=len(straddling[graph.names[stage]]),
            fold=None if sizes is None else sizes[stage],
            **_mode(graph, stage, held[stage], hardware) if mapping == "sdk" else {},
        )
        for stage in graph.network_order
    )  # fmt: skip


def _mode(graph: StageGraph, stage: int, held: StoredCopies, hardware: Hardware) -> dict[str, Any]:
    arrays = len(held) * held.together
    share = utilisation(graph, stage, held.copies, arrays, hardware)
    return {"block": graph.blocks[stage], "utilisation": share}


def _delays(
    ways: Ways, graph: StageGraph, hardware: Hardware, options: MappingOptions,
    measured: MeasuredSteps | None,
) -> list[dict[str, float]]:  # fmt: skip
    """transfer_ns and busy of every way, as far as the hardware gives what they need."""
    if missing_of_transfer(hardware):
        return [{} for _ in ways]
    batch_ns: npt.NDArray[np.float64] | None = None
    if hardware.compute_ns is not None or measured is not None:
        ticks = None
        if hardware.own_clock:
            timed = timed_graph(graph.network, hardware, options, measured).on_arrays
            ticks = timed.in_blocks(graph.blocks).batch_ticks(ways.copies)
        step_time = StepTime.of(graph, hardware, measured)
        if step_time is not None:
            length = np.ones(len(ways.copies)) if ticks is None else ticks.astype(np.float64)
            batch_ns = length * float(step_time.step_ns(ways.copies))
    transfers = EdgeTransfers.of(ways, hardware, batch_ns)
    busy = batch_ns is not None
    return [{"transfer_ns": each.ns} | ({"busy": each.busy} if busy else {}) for each in transfers.all]


def _flows(
    found: Arrangement, graph: StageGraph, ways: Ways, delays: Sequence[dict[str, float]]
) -> tuple[Flow, ...]:
    """Those of the ways that carry something, by producer and consumer."""
    of_sums = [way.mean_hops(found.mesh.chip_hop) for way in ways.sums]
    hops = (*of_sums, *found.layout.mean_hops(found.flows, found.mesh).tolist())
    ends = zip(ways.sender.tolist(), ways.receiver.tolist(), strict=True)
    listed = sorted(zip(ends, ways.input_bytes.tolist(), hops, delays, strict=True), key=lambda each: each[0])
    return tuple(
        Flow(
            producer=graph.names[p], consumer=graph.names[c], size_bytes=sent, hops=mean,
            byte_hops=sent * mean, **own,
        )
        for (p, c), sent, mean, own in listed
        if p != c or sent
    )  # fmt: skip


def _links(ways: Ways) -> tuple[Link, ...]:
    loads = ways.loads(ways.input_bytes)
    return tuple(
        Link(chip=chip, start=start, end=end, size_bytes=load) for load, chip, start, end in loads.listed()
    )


def _tiles(arrays: tuple[PlacedArray, ...], hardware: Hardware) -> tuple[TileUse, ...]:
    """Tiles in use, by chip and tile; `arrays` is in that order."""
    size, chip = hardware.crossbar.wordlines * hardware.crossbar.bitlines, chip_of(hardware)
    used: dict[tuple[tuple[int, int], tuple[int, int]], list[int]] = {}
    for array in arrays:
        count = used.setdefault((array.chip, array.tile), [0, 0])
        count[0] += 1
        count[1] += array.rows * array.columns
    return tuple(
        TileUse(
            chip=at, tile=tile, arrays=count, utilisation=count / chip.arrays_per_tile,
            cells=cells / (size * chip.arrays_per_tile),
        )
        for (at, tile), (count, cells) in used.items()
    )  # fmt: skip
