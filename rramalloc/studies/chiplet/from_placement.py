"""The cost of a placed allocation: a tile is a processing unit, a chip is a chiplet, times are in ns.

Stages of equal depth in the network form a group. A stage computes for batches x step; partial sums of
copies that stand in several tiles travel to the tile of the last row block, one transfer a batch; what
stages hand on travels from the tiles that hold results to all tiles of the reader, one transfer a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from rramalloc.errors import SpecError
from rramalloc.hardware.hardware import Chip
from rramalloc.placement.placement import PlacedArray, Placement
from rramalloc.studies.chiplet.cost import ChipletCost, Terms, total_cost
from rramalloc.studies.chiplet.routing import Hops, Topology, Unit, Units, hops_of_pairs, hops_of_sets
from rramalloc.timing.access import BITS_PER_BYTE, StepTime
from rramalloc.timing.measured_steps import MeasuredSteps
from rramalloc.timing.stage_graph import StageGraph


class _Placed(NamedTuple):
    """Where a stage stands. results: tiles that hold outputs; pairs: partial sums and where they are added.

    sum_columns: of partial sums that leave their tile, in all copies.
    """

    tiles: Units
    results: Units
    pairs: Sequence[tuple[Unit, Unit]]
    sum_columns: int


def placed_cost(
    graph: StageGraph, placement: Placement, measured: MeasuredSteps | None = None
) -> ChipletCost:
    """Cost in ns of a network as it is placed; measured: step times instead of those of the hardware.

    Raises SpecError without [chip], or [timing] where nothing is measured.
    """
    hardware, chip = placement.hardware, placement.hardware.chip
    copies = np.array([placement.replication[name] for name in graph.names], dtype=np.int64)
    step_time = StepTime.of(graph, hardware, measured)
    if chip is None or step_time is None:
        missing = "[chip]" if chip is None else "[timing]"
        raise SpecError(f"hardware {hardware.name[:60]!r}", f"needs {missing} to tell what a placement costs")
    step_ns = step_time.step_ns(copies)
    batches = {
        name: -(-int(windows) // int(d))
        for name, windows, d in zip(graph.names, graph.windows, copies, strict=True)
    }
    rates = _Rates(chip)
    topology = Topology(chip.chips, chip.tiles)
    bits = hardware.precision.output_bits
    columns = hardware.columns_per_weight
    placed = _placed(placement.arrays, topology)
    terms = {}
    for stage, name in enumerate(graph.names):
        found = placed[name]
        share = int(graph.windows[stage]) / int(copies[stage])
        hops = hops_of_pairs(topology, found.pairs)
        size_bytes = found.sum_columns * share * bits / BITS_PER_BYTE / columns
        terms[name] = Terms(
            batches[name] * step_ns, rates.moved(size_bytes, hops), rates.routed(batches[name], hops)
        )
    edges = []
    for flow in placement.flows:
        if flow.producer in placed and flow.consumer in placed:
            hops = hops_of_sets(placed[flow.producer].results, placed[flow.consumer].tiles)
            moved, routed = rates.moved(flow.size_bytes, hops), rates.routed(batches[flow.producer], hops)
            edges.append((flow.producer, flow.consumer, Terms(0.0, moved, routed)))
    levels = _levels(graph)
    groups = [{name: terms[name] for name in level} for level in levels]
    return total_cost(groups, edges, "ns", [*rates.warnings(), *(measured.warnings if measured else ())])


class _Rates:
    """Bandwidths and times per hop of a chip; what is not given costs nothing and is told."""

    def __init__(self, chip: Chip) -> None:
        self._chip, self._missing = chip, dict[str, None]()

    def moved(self, size_bytes: float, hops: Hops) -> float:
        """Time to move bytes over links inside a chip, or else between chips; 0 within one tile."""
        if not hops.moving or not size_bytes:
            return 0.0
        bandwidth = self._value("bandwidth_chip_gb_s" if hops.between else "bandwidth_tile_gb_s")
        return 0.0 if bandwidth is None else size_bytes / bandwidth

    def routed(self, transfers: int, hops: Hops) -> float:
        """Time on the way."""
        inside = self._value("hop_ns_tile") if hops.inside else None
        between = self._value("hop_ns_chip") if hops.between else None
        return hops.cycles(transfers, inside or 0.0, between or 0.0)

    def warnings(self) -> list[str]:
        """What was needed and is not given."""
        return [f"the hardware gives no {field}: that time is left out" for field in self._missing]

    def _value(self, field: str) -> float | None:
        value: float | None = getattr(self._chip, field)
        if value is None:
            self._missing[field] = None
        return value


def _placed(arrays: Iterable[PlacedArray], topology: Topology) -> dict[str, _Placed]:
    """Where every layer stands."""
    by_layer: dict[str, dict[tuple[int, int], list[PlacedArray]]] = {}
    for array in arrays:
        by_layer.setdefault(array.layer, {}).setdefault((array.replica, array.column_block), []).append(array)
    return {layer: _of_layer(columns, topology) for layer, columns in by_layer.items()}


def _of_layer(columns: dict[tuple[int, int], list[PlacedArray]], topology: Topology) -> _Placed:
    tiles, results, pairs = set(), set(), []
    moved = 0
    for blocks in columns.values():
        target = max(blocks, key=lambda block: block.row_block)
        results.add((target.chip, target.tile))
        for block in blocks:
            tiles.add((block.chip, block.tile))
            if (block.chip, block.tile) != (target.chip, target.tile):
                pairs.append(((block.chip, block.tile), (target.chip, target.tile)))
                moved += block.columns
    return _Placed(Units(topology, frozenset(tiles)), Units(topology, frozenset(results)), pairs, moved)


def _levels(graph: StageGraph) -> list[list[str]]:
    """Stages by the most stages on a way to them; in each, in network order."""
    depth = [0] * len(graph.names)
    for edge in graph.edges:
        depth[edge.consumer] = max(depth[edge.consumer], depth[edge.producer] + 1)
    levels: list[list[str]] = [[] for _ in range(max(depth) + 1)]
    for stage in graph.network_order:
        levels[depth[stage]].append(graph.names[stage])
    return levels
