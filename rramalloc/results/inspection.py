"""What `inspect` tells of a network before anything is optimised: stages, demand, smallest budget."""

from __future__ import annotations

from typing import Literal

from rramalloc.choices import Mapping
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.demand import WeightMatrix, demands, folds, least_arrays
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.counts import groups_of, kernel_of, macs, weights
from rramalloc.network.coverage import Coverage
from rramalloc.network.network import Network
from rramalloc.network.node import Linear, Name
from rramalloc.result import ResultRecord
from rramalloc.results.allocation import Count, Foldable, NetworkId, Product
from rramalloc.timing.stage_graph import StageGraph
from rramalloc.units import counted, one_line


class InspectedLayer(Foldable):
    """One stage. demand: arrays of one copy; utilisation: share of their cells that hold weights.

    input, output: channels, height, width; weights: without bias; macs: for one input.
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


class Inspection(ResultRecord):
    """Stages of a network on a hardware. minimum: arrays with every layer stored once, the least budget.

    saturation: arrays with every layer at as many copies as it has windows; more are of no use.
    host: weight layers left to the host, untimed; coverage: how much of the network the stages are;
    warnings: what the importer assumed or ignored.
    """

    rows_in = "layers"
    columns = (
        "name",
        "op",
        "input",
        "output",
        "kernel",
        "stride",
        "groups",
        "windows",
        "demand",
        "utilisation",
        "fold",
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


def inspect_network(network: Network, hardware: Hardware, options: MappingOptions) -> Inspection:
    """Stages in network order with their demand. Raises SpecError, UnsupportedError."""
    graph = StageGraph.build(network, options.fc)
    cells = hardware.crossbar.wordlines * hardware.crossbar.bitlines
    arrays = demands(network, graph.stages, hardware, options)
    demand = dict(zip(graph.names, arrays, strict=True))
    sizes = folds(network, graph.stages, hardware, options)
    layers = tuple(
        InspectedLayer(
            name=stage.name,
            op=stage.op,
            input=network.input_shape(stage).as_tuple(),
            output=network.shapes[stage.name].as_tuple(),
            kernel=kernel_of(stage),
            stride=(1, 1) if isinstance(stage, Linear) else stage.stride,
            groups=groups_of(stage),
            windows=network.shapes[stage.name].pixels,
            demand=demand[stage.name],
            utilisation=WeightMatrix.of(network, stage, hardware).cells / (demand[stage.name] * cells),
            weights=weights(network, stage),
            macs=macs(network, stage),
            fold=None if sizes is None else sizes[index],
        )
        for index, stage in ((index, graph.stages[index]) for index in graph.network_order)
    )
    coverage = Coverage.of(network, graph.names)
    return Inspection(
        network=NetworkId.of(network),
        source=network.source,
        hardware=hardware,
        mapping=options.mapping,
        fold=options.fold,
        minimum=least_arrays(network, graph.stages, hardware, options),
        saturation=sum(layer.windows * layer.demand for layer in layers),
        layers=layers,
        host=coverage.host,
        coverage=coverage,
        warnings=network.warnings,
    )
