"""What is verified: a network, its copies, and the arrays that hold them."""

from __future__ import annotations

import os
from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from typing import Literal, NamedTuple

from rramalloc.errors import SpecError, UnsupportedError
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.demand import demands, folds
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.counts import groups_of
from rramalloc.network.network import Network
from rramalloc.placement.check import check
from rramalloc.placement.emulator.accelerator import held_by
from rramalloc.placement.emulator.folded import NO_FOLDS, Folds
from rramalloc.placement.place import place_network
from rramalloc.placement.placement import MAX_PLACED, PlacedArray, Placement, PlacementLike, as_placement
from rramalloc.results.allocation_input import AllocationInput, AllocationLike, read_allocation
from rramalloc.timing.simulate import replication_by_name
from rramalloc.timing.stage_graph import StageGraph

Placer = Literal["given", "placer", "in order"]


class Task(NamedTuple):
    """What is computed, on what. replication: copies by layer name; folds: of the layers folded first."""

    network: Network
    replication: MappingOf[str, int]
    hardware: Hardware
    options: MappingOptions
    arrays: Sequence[PlacedArray]
    placed: Placer
    where: str
    folds: Folds = NO_FOLDS


def task_of(
    network: Network, allocation: AllocationLike, placement: PlacementLike | None,
    hardware: Hardware | None, mapping: str | None, fc: str | None,
) -> Task:  # fmt: skip
    """The arrays of a placement, which is checked, or arrays placed here if there is none.

    A grouped convolution that is stored dense is refused.
    hardware, mapping, fc: instead of the allocation's, where no placement says them.
    Raises FileError, SpecError, UnknownNameError, MisplacedError, CapacityError, TileError.
    """
    if placement is None:
        source = read_allocation(allocation).made_for(network)
        _refuse_dense(network, hardware or source.hardware)
        return _to_place(network, source.changed(hardware=hardware, mapping=mapping, fc=fc))
    for name, value in (("hardware", hardware), ("mapping", mapping), ("fc", fc)):
        if value is not None:
            raise SpecError(name, "is what the placement says: leave it out, or place anew")
    return _given(network, allocation, placement)


def _given(network: Network, allocation: AllocationLike, placement: PlacementLike) -> Task:
    where = "placement" if isinstance(placement, Placement) else os.fspath(placement)
    found = as_placement(placement)
    source = read_allocation(allocation).made_for(network)
    _refuse_dense(network, found.hardware)
    check(found, network, source.replication, where)
    return Task(
        network, source.replication, found.hardware, found.options.changed(), found.arrays, "given",
        source.where, _folds_in(found),
    )  # fmt: skip


def _refuse_dense(network: Network, hardware: Hardware | None) -> None:
    """Raise UnsupportedError for grouped convolutions that the hardware stores as dense ones."""
    if hardware is None or not hardware.dense_groups:
        return
    for stage in network.stages:
        if groups_of(stage) > 1:
            raise UnsupportedError(
                f"{network.where}: node {stage.name[:60]!r}",
                f"has groups, which hardware {hardware.name[:60]!r} stores as a dense convolution; verify "
                f'computes only groups that are stored apart: use counting.groups = "diagonal"',
            )


def _folds_in(placement: Placement) -> Folds:
    return {layer.name: layer.fold for layer in placement.layers if layer.fold is not None}


def _to_place(network: Network, source: AllocationInput) -> Task:
    """Placed by the placer on a chip, block after block where there is none."""
    replication, hardware, options, where = source.replication, source.hardware, source.options, source.where
    if hardware.chip is not None:
        placed = place_network(network, replication, hardware, options, work=0, seed=0, where=where)
        return Task(
            network, replication, hardware, options, placed.arrays, "placer", where, _folds_in(placed)
        )
    stages = StageGraph.build(network, options.fc).stages
    sizes = folds(network, stages, hardware, options) or ()
    folded = {stage.name: size for stage, size in zip(stages, sizes, strict=False)}
    arrays = in_order(network, replication, hardware, options, where, folded)
    return Task(network, replication, hardware, options, arrays, "in order", where, folded)


def in_order(
    network: Network, replication: MappingOf[str, int], hardware: Hardware, options: MappingOptions,
    where: str, folded: Folds = NO_FOLDS,
) -> list[PlacedArray]:  # fmt: skip
    """Every block of every copy on an array of its own, one after the other in a single tile."""
    graph = StageGraph.build(network, options.fc)
    copies = replication_by_name(graph, replication, where).tolist()
    demand = demands(network, graph.stages, hardware, options)
    needed = sum(d * c for d, c in zip(demand, copies, strict=True))
    if needed > MAX_PLACED:
        raise SpecError(where, f"takes {needed} arrays, the limit of a placement is {MAX_PLACED}")
    arrays: list[PlacedArray] = []
    one_copy = held_by(network, graph.stages, hardware, options.mapping, folded)
    for (name, held), several in zip(one_copy.items(), copies, strict=True):
        for replica in range(several):
            first = len(arrays)
            arrays.extend(
                PlacedArray(
                    chip=(0, 0), tile=(0, 0), index=first + number, layer=name, replica=replica,
                    row_block=block.row_block, column_block=block.column_block, rows=block.rows,
                    columns=block.columns,
                )
                for number, block in enumerate(held.values())
            )  # fmt: skip
    return arrays
