"""The allocation, and the placement if there is one, as one JSON document that explains itself."""

from __future__ import annotations

import operator
from typing import Literal

from pydantic import Field

from rramalloc.allocation.allocation import Foldable, NetworkId, PositiveCount, Product, layer_bits
from rramalloc.choices import Mapping
from rramalloc.commands.export.bundle import Bundle, ExportedFile
from rramalloc.commands.export.subject import Subject
from rramalloc.commands.place.placement import PlacedArray
from rramalloc.files import to_json
from rramalloc.hardware.hardware import Hardware
from rramalloc.network.node import Name
from rramalloc.records import Record, absent


class ExportedLayer(Foldable):
    """One stage with all that a mapper needs of it.

    index: from 0, in network order; input, output: channels, height, width; pads: top, left, bottom, right;
    windows: output pixels; arrays: of all copies; block: windows (height, width) that a copy computes in a
    step, with mapping "sdk" only; weight_bits, input_bits: where layers have bits
    of their own; kind: of its arrays or units, where there are several.
    """

    index: int
    name: Name
    op: Literal["conv", "conv_transpose", "linear", "recurrent"]
    input: tuple[int, int, int]
    output: tuple[int, int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilation: tuple[int, int]
    groups: PositiveCount
    windows: PositiveCount
    arrays_per_copy: PositiveCount
    copies: PositiveCount
    arrays: Product
    weight_bits: int | None = None
    input_bits: int | None = None
    kind: Name | None = Field(None, exclude_if=absent)


class ExportedEdge(Record):
    """Stage `consumer` reads pixels of stage `producer`, through whatever stands between them."""

    producer: Name
    consumer: Name


class ExportDocument(Record):
    """Document that `export --to json` writes; placement: arrays as in the placement file, if any."""

    format: Literal["rramalloc-export/2"] = "rramalloc-export/2"
    network: NetworkId
    hardware: Hardware
    mapping: Mapping
    fc: Literal["host", "crossbar"]
    host: tuple[Name, ...] = Field((), exclude_if=operator.not_)
    layers: tuple[ExportedLayer, ...]
    edges: tuple[ExportedEdge, ...]
    placement: tuple[PlacedArray, ...] | None


def layers(subject: Subject) -> tuple[ExportedLayer, ...]:
    """Return the stages, in network order."""
    network = subject.network
    graph = subject.graph
    rows = []
    of_layers = layer_bits(graph.stages, subject.hardware)
    for index, stage in enumerate(graph.layers[place] for place in graph.network_order):
        copies = subject.copies[stage.name]
        rows.append(
            ExportedLayer.gather(
                stage,
                index=index,
                input=network.input_shape(stage).as_tuple(),
                output=network.shapes[stage.name].as_tuple(),
                windows=network.shapes[stage.name].pixels,
                arrays_per_copy=subject.arrays(stage, 1),
                copies=copies,
                arrays=subject.arrays(stage, copies),
                block=subject.blocks[stage.name] if subject.options.mapping == "sdk" else None,
                kind=subject.kind(stage),
                **of_layers.get(stage.name, {}),
            )
        )
    return tuple(rows)


def export(subject: Subject) -> Bundle:
    """Export one file, export.json."""
    network = subject.network
    graph = subject.graph
    place = {stage: order for order, stage in enumerate(graph.network_order)}
    pairs = [(edge.producer, edge.consumer) for edge in graph.edges]
    pairs.sort(key=lambda pair: (place[pair[1]], place[pair[0]]))
    document = ExportDocument(
        network=NetworkId.of(network),
        hardware=subject.hardware,
        mapping=subject.options.mapping,
        fc=subject.options.fc,
        host=subject.options.host,
        layers=layers(subject),
        edges=tuple(
            ExportedEdge(producer=graph.names[producer], consumer=graph.names[consumer])
            for producer, consumer in pairs
        ),
        placement=None if subject.placement is None else subject.placement.arrays,
    )
    fields = {*subject.placement.left_out} if subject.placement is not None else set[str]()
    text = to_json(document.model_dump(mode="json", exclude={"placement": {"__all__": fields}}))
    return Bundle((ExportedFile(name="export.json", text=text),), (), places=True, blocks=True)
