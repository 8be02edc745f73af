"""`describe_network`: the description of a network on the tiles of a chip, with the ways to split its stages.

A unit is a tile, a chiplet a chip, times are in ns. A stage is split over P tiles, P a power of two, in one
of three ways: by output channels (each tile has some of the columns), by windows (each has all weights and
computes some rows of the output) or by input channels (each has some wordlines, partial sums are added up in
the last tile). A tile holds as many copies of its share as fit in its arrays.
Source: docs/sources/companions.md 2, compute cost of a crossbar tile; the bytes are choices made here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from rramalloc.choices import FullyConnected, Mapping
from rramalloc.commands.chiplet.description import DESCRIPTION, MAX_UNITS, Description
from rramalloc.errors import SpecError
from rramalloc.hardware.hardware import Chip, Hardware
from rramalloc.mapping.demand import WeightMatrix, demand
from rramalloc.network.network import Network
from rramalloc.network.node import Conv, ConvTranspose, Stage
from rramalloc.placement.flows import Flows
from rramalloc.records import parse
from rramalloc.timing.access import BITS_PER_BYTE
from rramalloc.timing.stage_graph import StageGraph


class Split(NamedTuple):
    """A way to split a stage. inside_bytes: moved between its tiles; read: bytes read for one of input."""

    name: str
    tiles: int
    compute_ns: float
    inside_bytes: float
    read: float
    reduced: bool


class Described(NamedTuple):
    """A description and what was left out or assumed in it."""

    description: Description
    warnings: tuple[str, ...]


def describe_network(network: Network, hardware: Hardware, mapping: Mapping, fc: FullyConnected) -> Described:
    """The description of a network on a chip, each stage in a group of its own and nowhere yet.

    Raises SpecError without [chip] or [timing], and for a stage that the whole chip cannot hold.
    """
    chip = hardware.chip
    if chip is None or hardware.compute_ns is None:
        missing = "[chip]" if chip is None else "[timing]"
        raise SpecError(
            f"hardware {hardware.name[:60]!r}", f"needs {missing} to describe a network on its tiles"
        )
    if mapping == "sdk":
        reason = "'sdk' has blocks of windows, which a description does not split: use 'im2col'"
        raise SpecError("mapping", reason)
    if chip.tile_count > MAX_UNITS:
        raise SpecError("chip", f"has {chip.tile_count} tiles, the limit is {MAX_UNITS}")
    graph = StageGraph.build(network, fc)
    splits = [
        tuple(_splits(network, stage, hardware, mapping, chip, int(windows)))
        for stage, windows in zip(graph.layers, graph.windows, strict=True)
    ]
    warnings = list(_left_out(chip))
    moved = chip.bandwidth_tile_gb_s is not None
    operators = {}
    for stage in graph.network_order:
        node, ways = graph.stages[stage], splits[stage]
        operators[node.name] = {
            "compute": [way.compute_ns for way in ways],
            "units": [way.tiles for way in ways],
            "reduce_to": ["last" if way.reduced else "none" for way in ways],
            "transfers": [network.shapes[node.name].height if way.reduced else 0 for way in ways],
            "strategies": [way.name for way in ways],
        } | ({"bytes": [way.inside_bytes for way in ways]} if moved else {})
    flows = Flows.of(graph, hardware)
    edges = []
    for producer, consumer, size_bytes in zip(
        flows.producer.tolist(), flows.consumer.tolist(), flows.size_bytes.tolist(), strict=True
    ):
        source, to = graph.names[producer], graph.names[consumer]
        row = [size_bytes * way.read for way in splits[consumer]]
        table = {"bytes": [row] * len(splits[producer])} if moved else {}
        edges.append({"from": source, "to": to, "transfers": network.shapes[source].height} | table)
    between = chip.bandwidth_chip_gb_s or chip.bandwidth_tile_gb_s
    document = {
        "name": network.name,
        "unit": "ns",
        "chip": {
            "chiplets": list(chip.chips),
            "units": list(chip.tiles),
            "bandwidth_inside": chip.bandwidth_tile_gb_s,
            "bandwidth_between": between,
            "hop_cycles_inside": chip.hop_ns_tile or 0.0,
            "hop_cycles_between": chip.hop_ns_chip or 0.0,
        },
        "groups": [[graph.names[stage]] for stage in graph.network_order],
        "operators": operators,
        "edges": edges,
    }
    warnings.append(
        "weights are taken to be in the arrays of a tile when their group runs; writing them is not counted"
    )
    where = f"{network.where} on hardware {hardware.name[:60]!r}"
    return Described(parse(DESCRIPTION, document, where), tuple(warnings))


def _left_out(chip: Chip) -> Iterator[str]:
    fields = ["hop_ns_tile", "bandwidth_tile_gb_s"]
    if chip.chips != (1, 1):
        fields += ["hop_ns_chip", "bandwidth_chip_gb_s"]
    for field in fields:
        if getattr(chip, field) is None:
            if field == "bandwidth_chip_gb_s" and chip.bandwidth_tile_gb_s is not None:
                yield f"the hardware gives no {field}: that of tiles is taken"
            else:
                yield f"the hardware gives no {field}: that time is left out"


def _splits(
    network: Network, stage: Stage, hardware: Hardware, mapping: Mapping, chip: Chip, windows: int
) -> Iterator[Split]:
    """All ways whose share fits in a tile. Raises SpecError if none does."""
    whole = WeightMatrix.of(network, stage, hardware)
    where = f"{network.where}: node {stage.name[:60]!r}"
    output = network.shapes[stage.name]
    step_ns = hardware.of_layer(stage).compute_ns or 0.0
    output_bytes = output.channels * output.pixels * hardware.precision.output_bits / BITS_PER_BYTE
    fitting = False
    tiles = 1
    while tiles <= chip.tile_count:
        for name, share, part, read in _shares(network, stage, whole, windows, tiles):
            arrays = demand(share, hardware.crossbar, mapping, where)
            copies = min(chip.arrays_per_tile // arrays, part)
            if copies:
                fitting = True
                reduced = name == "inputs"
                yield Split(
                    name=f"{name} / {tiles}" if tiles > 1 else "whole",
                    tiles=tiles,
                    compute_ns=-(-part // copies) * step_ns,
                    inside_bytes=(tiles - 1) * output_bytes if reduced else 0.0,
                    read=read,
                    reduced=reduced,
                )
        tiles *= 2
    if not fitting:
        need = demand(whole, hardware.crossbar, mapping, where)
        raise SpecError(
            where,
            f"needs {need} arrays, no split over up to {chip.tile_count} tiles of {chip.arrays_per_tile} "
            f"arrays holds it: use a larger chip or larger arrays",
        )


def _shares(
    network: Network, stage: Stage, whole: WeightMatrix, windows: int, tiles: int
) -> Iterator[tuple[str, WeightMatrix, int, float]]:
    """Name, weights and windows of the largest share of each way, and bytes read for one of input."""
    if tiles == 1:
        yield "whole", whole, windows, 1.0
        return
    per_weight = whole.columns // whole.outputs
    if whole.groups >= tiles:
        yield "groups", replace(whole, groups=-(-whole.groups // tiles)), windows, 1.0
    elif whole.groups == 1 and whole.outputs >= tiles:
        outputs = -(-whole.outputs // tiles)
        yield "outputs", replace(whole, outputs=outputs, columns=outputs * per_weight), windows, float(tiles)
    shape, source = network.shapes[stage.name], network.input_shape(stage)
    if shape.height >= tiles:
        rows = -(-shape.height // tiles)
        span = min(source.height, _rows_read(stage, rows))
        yield "windows", whole, rows * shape.width, max(1.0, tiles * span / source.height)
    if whole.groups == 1 and whole.inputs >= tiles:
        yield "inputs", replace(whole, inputs=-(-whole.inputs // tiles)), windows, 1.0


def _rows_read(stage: Stage, rows: int) -> int:
    """Input rows that so many output rows need, padding included."""
    match stage:
        case Conv():
            return (rows - 1) * stage.stride[0] + (stage.kernel[0] - 1) * stage.dilation[0] + 1
        case ConvTranspose():
            return -(-rows // stage.stride[0]) + stage.block_reach[0] - 1
        case _:
            return rows
