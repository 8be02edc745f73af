"""From copies to tiles: the constructive placement, its improvement, and what bounds both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rramalloc.errors import CapacityError, SpecError, TileError
from rramalloc.hardware.hardware import Chip, Hardware
from rramalloc.mapping.tiles import Tiles
from rramalloc.placement import exact
from rramalloc.placement.bound import lower_bound
from rramalloc.placement.construct import Filled, Misfit, construct
from rramalloc.placement.flows import Flows
from rramalloc.placement.improve import Layout, improve
from rramalloc.placement.mesh import Ints, Mesh
from rramalloc.placement.placement import MAX_PLACED
from rramalloc.timing.stage_graph import StageGraph

DEFAULT_WORK = 40
_ALL_TILES = 1024
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
    """The chips of a hardware. Raises SpecError if it describes none."""
    if hardware.chip is None:
        raise SpecError(
            f"hardware {hardware.name[:60]!r}",
            "has no [chip]: to place arrays, give arrays_per_tile, straddle, tiles and chips there, or use "
            "a preset that has them (`rramalloc presets`)",
        )
    return hardware.chip


def arrange(
    graph: StageGraph, demand: Ints, replication: Ints, hardware: Hardware, *, work: int, seed: int
) -> Arrangement:
    """Place `replication` copies of every stage with little traffic.

    demand, replication: int64, in canonical order; work: units of improvement.
    Raises SpecError, TileError or CapacityError if they cannot be placed.
    """
    chip = chip_of(hardware)
    mesh, flows = Mesh.of(chip), Flows.of(graph, hardware.precision.output_bits)
    filled = _filled(graph, demand, replication, chip)
    first = _on_best_curve(filled, len(graph.stages), flows, mesh)
    constructed = first.spread.cost(flows, mesh)
    bound = lower_bound(flows, first.spread.total, mesh, chip.arrays_per_tile)
    proof = "edge by edge: arrays of a tile, tiles within each number of hops"
    best = improve(first, flows, mesh, chip.arrays_per_tile, work, seed)
    optimum = exact.solve(best, flows, mesh, chip.arrays_per_tile, work) if work else None
    cost = best.spread.cost(flows, mesh)
    if optimum is not None:
        best, cost = min(
            ((best, cost), (optimum.layout, optimum.layout.spread.cost(flows, mesh))), key=lambda it: it[1]
        )
        every_way = not chip.straddle or int(demand.max()) == 1
        if every_way and len(best.sites) == mesh.count and optimum.bound > bound:
            bound, proof = min(cost, optimum.bound), "quadratic assignment of all copies, by HiGHS"
    return Arrangement(best, flows, mesh, cost, min(bound, cost), constructed, proof)


def _filled(graph: StageGraph, demand: Ints, replication: Ints, chip: Chip) -> Filled:
    tiles = Tiles(chip.tile_count, chip.arrays_per_tile)
    arrays = [int(d) * int(n) for d, n in zip(demand, replication, strict=True)]
    order = graph.network_order
    most = max(order, key=lambda stage: arrays[stage])
    largest = graph.names[most], int(replication[most]), int(demand[most])
    if sum(arrays) > tiles.count * tiles.arrays:
        raise CapacityError(sum(arrays), tiles.count, tiles.arrays, largest)
    if sum(arrays) > MAX_PLACED:
        reason = f"the allocation has {sum(arrays)} arrays, the limit of one placement is {MAX_PLACED}"
        raise SpecError("placement", reason)
    if not chip.straddle and (demand > tiles.arrays).any():
        large = [(graph.names[s], int(demand[s])) for s in order if demand[s] > tiles.arrays]
        raise TileError(tiles.arrays, large)
    filled = construct(demand, replication, tiles, straddle=chip.straddle)
    if isinstance(filled, Misfit):
        raise CapacityError(sum(arrays), tiles.count, tiles.arrays, largest, proven=filled.proven)
    return filled


def _on_best_curve(filled: Filled, stages: int, flows: Flows, mesh: Mesh) -> Layout:
    """The curve over the mesh along which the filled tiles cost least."""
    layouts = [
        Layout(stages, filled.stage, filled.arrays, filled.tile, curve) for curve in mesh.curves(filled.tiles)
    ]
    best = min(layouts, key=lambda layout: layout.spread.cost(flows, mesh))
    if mesh.count <= _ALL_TILES:
        sites = mesh.all_sites()
        place = {tuple(site): number for number, site in enumerate(sites.tolist())}
        to = np.array([place[tuple(site)] for site in best.sites.tolist()], dtype=np.int64)
    else:
        sites = best.sites[: filled.tiles + filled.tiles // 4]
        to = np.arange(len(sites))
    return Layout(stages, filled.stage, filled.arrays, to[filled.tile], sites)
