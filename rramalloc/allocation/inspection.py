"""`inspect`: stages, arrays per copy and smallest budget of a network before it is optimised."""

from __future__ import annotations

from typing import Literal

import numpy as np

from rramalloc.allocation.allocation import (
    BlockSize,
    Foldable,
    NetworkResult,
    PositiveCount,
    Product,
    layer_bits,
)
from rramalloc.allocation.case import Case
from rramalloc.allocation.optimize import utilisation
from rramalloc.choices import Mapping
from rramalloc.mapping.demand import demands, folds, storage_of
from rramalloc.mapping.mode import PLAIN, Mode
from rramalloc.mapping.modes import smallest_block
from rramalloc.network.counts import macs, weights
from rramalloc.network.coverage import Coverage
from rramalloc.network.node import Name, Stage
from rramalloc.records import Record
from rramalloc.search.menu import StageModes, stage_modes
from rramalloc.units import counted, one_line

_MULTIPLES = (1, 2, 4, 8, 16)
"""Multiples of the demand of a stage, for which its fastest modes are shown."""


class InspectedMode(Record):
    """A way to run a stage that takes the fewest arrays for its batches (docs/sources/model.md 10).

    block: windows (height, width) that a copy computes in a step; copies: of the block; batches: steps for
    one input; utilisation: share of the cells of its arrays that hold weights.
    """

    block: BlockSize
    copies: PositiveCount
    arrays: Product
    batches: PositiveCount
    utilisation: float


class InspectedLayer(Foldable):
    """One stage. utilisation: share of the cells of a copy's arrays that hold weights.

    input, output: channels, height, width; weights: without bias; macs: for one input; modes: the fastest
    with at most 1, 2, 4, 8 and 16 times the demand; None, and left out of files, unless mapping is "sdk";
    weight_bits, input_bits: None, and left out, unless a layer has bits of its own.
    """

    name: Name
    op: str
    input: tuple[int, int, int]
    output: tuple[int, int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    groups: int
    windows: PositiveCount
    arrays_per_copy: PositiveCount
    utilisation: float
    weights: PositiveCount
    macs: Product
    modes: tuple[InspectedMode, ...] | None = None
    weight_bits: int | None = None
    input_bits: int | None = None


class Inspection(NetworkResult):
    """Stages of a network on a hardware. minimum: arrays with every layer stored once, the least budget.

    saturation: fewest arrays with which every layer takes one batch; more are of no use.
    host: weight layers left to the host, untimed; coverage: how much of the network the stages are;
    warnings: what the importer assumed or ignored.
    """

    rows_in = "layers"
    unlisted = frozenset({"modes"})

    format: Literal["rramalloc-inspection/2"] = "rramalloc-inspection/2"
    source: str
    mapping: Mapping
    fold: bool = False
    minimum: PositiveCount
    saturation: Product
    layers: tuple[InspectedLayer, ...]
    host: tuple[str, ...]
    coverage: Coverage

    def _headline(self) -> tuple[str, str]:
        least = f"at least {counted(self.minimum, 'array')} of {one_line(self.hardware.name, 60)}"
        return self.network.name, f"{counted(len(self.layers), 'stage')}, {least}"


def inspect_network(case: Case) -> Inspection:
    """Return the stages in network order with their demand. Raises SpecError, UnsupportedError."""
    network = case.network
    hardware = case.hardware
    options = case.mapping
    graph = case.stages
    demand = demands(network, graph.stages, hardware, options)
    sizes = folds(network, graph.stages, hardware, options)
    bits = layer_bits(graph.stages, hardware)
    every = storage_of(network, graph.stages, hardware, options)
    best = list[StageModes]()
    if every.chooses_blocks:
        for stage, grid in enumerate(graph.grids):
            of_copy = every.count(stage, Mode(*grid.block)).arrays(1)
            listed = stage_modes(every, stage, of_copy * grid.total)  # up to a single batch
            best.append(listed.take(listed.fewest()))
    saturation = sum(int(modes.arrays[-1]) for modes in best)
    if not best:
        pixels = [network.shapes[name].pixels for name in graph.names]
        saturation = int(every.costs(graph.modes, np.array(pixels, dtype=object)).sum())
    layers = tuple(
        InspectedLayer.gather(
            stage,
            input=network.input_shape(stage).as_tuple(),
            output=network.shapes[stage.name].as_tuple(),
            windows=network.shapes[stage.name].pixels,
            arrays_per_copy=demand[index],
            utilisation=utilisation(
                network, stage, smallest_block(stage), 1, demand[index], case.array_of(stage, PLAIN)
            ),
            weights=weights(network, stage),
            macs=macs(network, stage),
            fold=None if sizes is None else sizes[index],
            modes=_shown(case, stage, demand[index], best[index]) if best else None,
            **bits.get(stage.name, {}),
        )
        for index, stage in ((index, graph.layers[index]) for index in graph.network_order)
    )
    return Inspection(
        **case.about(),
        source=network.source,
        mapping=options.mapping,
        fold=options.fold,
        minimum=case.minimum,
        saturation=saturation,
        layers=layers,
        host=case.coverage.host,
        warnings=(*network.warnings, *options.host_notes(network)),
    )


def _shown(case: Case, stage: Stage, demand: int, best: StageModes) -> tuple[InspectedMode, ...]:
    """Return the fastest modes of a stage with at most some multiples of its demand."""
    places = np.searchsorted(best.arrays, demand * np.array(_MULTIPLES), side="right") - 1
    columns = best.take(np.unique(places))
    fields = (columns.each.tall, columns.each.wide, columns.low, columns.arrays, columns.batches)
    rows = zip(*(column.tolist() for column in fields), strict=True)
    own = case.array_of(stage, PLAIN)
    return tuple(
        InspectedMode(
            block=(tall, wide),
            copies=copies,
            arrays=arrays,
            batches=batches,
            utilisation=utilisation(case.network, stage, (tall, wide), copies, arrays, own),
        )
        for tall, wide, copies, arrays, batches in rows
    )
