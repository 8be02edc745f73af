"""Occupancy: which row blocks share a tile, where hardware keeps them in one.

A tile starts one read after another, and what lies in several tiles is sent between them: so figures of
simulators that place row blocks jump with what shares a tile. Tiles are filled first fit in the order of
layers, as [counting] says (docs/hardware.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.demand import row_block_widths, stored_classifiers
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.network import Network
from rramalloc.search.problem import Problem
from rramalloc.timing.simulate import Replication


class _StoredLayer(NamedTuple):
    """stage: its place, None for what is stored without being timed; width: arrays of a row block; blocks:
    row blocks of a copy.
    """

    stage: int | None
    width: int
    blocks: int


@dataclass(frozen=True, eq=False)
class Occupancy:
    """Describes how full tiles are. room: arrays of a tile; layers: in the order of placing."""

    room: int
    layers: Sequence[_StoredLayer]
    windows: npt.NDArray[np.int64]

    @classmethod
    def of(
        cls, network: Network, hardware: Hardware, options: MappingOptions, problem: Problem
    ) -> Occupancy | None:
        """None where the hardware does not keep row blocks in a tile."""
        widths = row_block_widths(network, hardware)
        if widths is None or hardware.chip is None:
            return None
        graph = problem.graph
        arrays = dict(zip(graph.names, problem.demand.tolist(), strict=True))
        arrays |= stored_classifiers(network, graph.stages, hardware, options)
        places = {name: stage for stage, name in enumerate(graph.names)}
        layers = [
            _StoredLayer(
                places.get(each.name), widths[each.name], max(1, arrays[each.name] // widths[each.name])
            )
            for each in network.stages
            if each.name in arrays
        ]
        return cls(hardware.chip.arrays_per_tile, layers, graph.windows)

    def describe(self, copies: Replication) -> npt.NDArray[np.float64]:
        """Logarithms: row blocks in the fullest tile of every stage, its tiles, and reads that tiles start,
        the most and in the mean.
        """
        fullest, spread = np.zeros(len(copies)), np.zeros(len(copies))
        reads, batches = [], -(-self.windows // copies)
        for held in self._filled(copies):
            count = sum(held.values())
            for stage in held:
                fullest[stage] = max(fullest[stage], count)
                spread[stage] += 1
            reads.append(sum(blocks * int(batches[stage]) for stage, blocks in held.items()))
        described: npt.NDArray[np.float64] = np.log(np.r_[fullest, spread, max(reads), np.mean(reads)])
        return described

    def _filled(self, copies: Replication) -> list[dict[int, int]]:
        """Row blocks of every timed stage in each tile."""
        left: list[int] = []
        held: list[dict[int, int]] = []
        first: dict[int, int] = {}
        for stage, width, blocks in self.layers:
            count = blocks if stage is None else blocks * int(copies[stage])
            tile = first.get(width, 0)
            while count:
                if tile == len(left):
                    left.append(self.room)
                    held.append({})
                placed = min(count, left[tile] // width)
                if placed and stage is not None:
                    held[tile][stage] = held[tile].get(stage, 0) + placed
                left[tile] -= placed * width
                count -= placed
                tile += 1 if count else 0
            first[width] = tile
        return held
