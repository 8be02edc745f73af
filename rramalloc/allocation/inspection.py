"""`inspect`: stages, demand and smallest budget of a network before it is optimised."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from rramalloc.allocation.allocation import Block, Count, Foldable, NetworkId, Product, layer_bits
from rramalloc.allocation.case import Case
from rramalloc.choices import Mapping
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.demand import ModeArrays, WeightMatrix, demands, folds, modes_of_stages
from rramalloc.network.counts import macs, weights
from rramalloc.network.coverage import Coverage
from rramalloc.network.network import Network
from rramalloc.network.node import Name
from rramalloc.records import Record
from rramalloc.result import ResultRecord
from rramalloc.search.menu import stage_modes
from rramalloc.timing.stage_graph import StageGraph
from rramalloc.units import counted, one_line

_MULTIPLES = (1, 2, 4, 8, 16)
"""Multiples of the demand of a stage, for which its fastest modes are shown."""


class InspectedMode(Record):
    """A way to run a stage that takes the fewest arrays for its batches (docs/sources/model.md 10).

    block: windows (height, width) that a copy computes in a step; copies: of the block; batches: steps for
    one input; utilisation: share of the cells of its arrays that hold weights.
    """

    block: Block
    copies: Count
    arrays: Product
    batches: Count
    utilisation: float


class InspectedLayer(Foldable):
    """One stage. demand: arrays of one copy; utilisation: share of their cells that hold weights.

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
    windows: Count
    demand: Count
    utilisation: float
    weights: Count
    macs: Product
    modes: tuple[InspectedMode, ...] | None = None
    weight_bits: int | None = None
    input_bits: int | None = None


class Inspection(ResultRecord):
    """Stages of a network on a hardware. minimum: arrays with every layer stored once, the least budget.

    saturation: fewest arrays with which every layer takes one batch; more are of no use.
    host: weight layers left to the host, untimed; coverage: how much of the network the stages are;
    warnings: what the importer assumed or ignored.
    """

    rows_in = "layers"
    unlisted = frozenset({"modes"})
    columns = (
        "name, op, input, output, kernel, stride, groups, windows, demand, utilisation, fold, weight_bits, "
        "input_bits"
    )

    format: Literal["rramalloc-inspection/1"] = "rramalloc-inspection/1"
    network: NetworkId
    source: str
    hardware: Hardware
    mapping: Mapping
    fold: bool = False
    minimum: Count
    saturation: Product
    layers: tuple[InspectedLayer, ...]
    host: tuple[str, ...]
    coverage: Coverage
    warnings: tuple[str, ...]

    def _headline(self) -> tuple[str, str]:
        least = f"at least {counted(self.minimum, 'array')} of {one_line(self.hardware.name, 60)}"
        return self.network.name, f"{counted(len(self.layers), 'stage')}, {least}"


def inspect_network(case: Case) -> Inspection:
    """Stages in network order with their demand. Raises SpecError, UnsupportedError."""
    network, hardware, options, graph = case.network, case.hardware, case.mapping, case.stages
    cells = hardware.crossbar.wordlines * hardware.crossbar.bitlines
    arrays = demands(network, graph.stages, hardware, options)
    demand = dict(zip(graph.names, arrays, strict=True))
    sizes = folds(network, graph.stages, hardware, options)
    bits = layer_bits(graph.stages, hardware)
    modes = _modes(network, graph, hardware) if options.mapping == "sdk" else None
    every = modes_of_stages(network, graph.stages, hardware, options)
    pixels = np.array([network.shapes[name].pixels for name in graph.names], dtype=object)
    layers = tuple(
        InspectedLayer.gather(
            stage,
            input=network.input_shape(stage).as_tuple(),
            output=network.shapes[stage.name].as_tuple(),
            windows=network.shapes[stage.name].pixels,
            demand=demand[stage.name],
            utilisation=WeightMatrix.of(network, stage, hardware).cells / (demand[stage.name] * cells),
            weights=weights(network, stage),
            macs=macs(network, stage),
            fold=None if sizes is None else sizes[index],
            modes=None if modes is None else modes[index].shown,
            **bits.get(stage.name, {}),
        )
        for index, stage in ((index, graph.layers[index]) for index in graph.network_order)
    )
    timed = (*graph.names, *(node.name for node in network.nodes if node.op in hardware.rated))
    coverage = Coverage.of(network, timed)
    return Inspection(
        network=NetworkId.of(network),
        source=network.source,
        hardware=hardware,
        mapping=options.mapping,
        fold=options.fold,
        minimum=case.minimum,
        saturation=int(every.each(graph.blocks, pixels).sum())
        if modes is None
        else sum(stage.saturation for stage in modes),
        layers=layers,
        host=coverage.host,
        coverage=coverage,
        warnings=network.warnings,
    )


class _StageModes(NamedTuple):
    """The modes of a stage that are shown, and the fewest arrays with which it takes one batch."""

    shown: tuple[InspectedMode, ...]
    saturation: int


def _modes(network: Network, graph: StageGraph, hardware: Hardware) -> list[_StageModes]:
    """Return the best modes of every stage, canonical order."""
    every = ModeArrays(network, graph.stages, hardware)
    cells = hardware.crossbar.wordlines * hardware.crossbar.bitlines
    result = []
    for index, (stage, grid) in enumerate(zip(graph.layers, graph.grids, strict=True)):
        demand = every.count(index, grid.block).arrays(1)
        listed = stage_modes(every, index, demand * grid.total)
        best = listed.modes.take(listed.fewest())
        smallest = WeightMatrix.of(network, stage, hardware).cells / (grid.block[0] * grid.block[1])
        places = np.searchsorted(best.arrays, demand * np.array(_MULTIPLES), side="right") - 1
        shown = [
            InspectedMode(
                block=(int(best.tall[place]), int(best.wide[place])),
                copies=int(best.low[place]),
                arrays=int(best.arrays[place]),
                batches=int(best.batches[place]),
                utilisation=float(
                    best.low[place]
                    * best.tall[place]
                    * best.wide[place]
                    * smallest
                    / (best.arrays[place] * cells)
                ),
            )
            for place in dict.fromkeys(places.tolist())
        ]
        result.append(_StageModes(tuple(shown), int(best.arrays[-1])))
    return result
