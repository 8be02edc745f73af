"""The network as MNSIM's list of layers, each with the relative positions of its inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from rramalloc.export.subject import Subject, is_dilated
from rramalloc.network.counts import kernel_of
from rramalloc.network.geometry import Pads, Pair, Shape
from rramalloc.network.node import (
    Conv,
    Elementwise,
    Flatten,
    GlobalPool,
    Input,
    Linear,
    Node,
    Pixelwise,
    Pool,
)

_TOOL = "MNSIM"


class Bits(NamedTuple):
    """polarity: crossbars of a group, 2 for +/-; slices: bits stored of a weight, one group each."""

    inputs: int
    weights: int
    outputs: int
    polarity: int
    slices: int

    @property
    def arrays(self) -> int:
        """Arrays of a processing element."""
        return self.polarity * self.slices


@dataclass(frozen=True, slots=True)
class Layer:
    """fields: of MNSIM's layer; stage: ours, None without weights; pes: processing elements of a copy."""

    fields: dict[str, Any]
    stage: str | None
    pes: int
    copies: int


def layers(subject: Subject, bits: Bits) -> list[Layer]:
    """The layers in network order. Raises UnsupportedError for what MNSIM cannot express."""
    network = subject.network
    standing: dict[str, str | None] = {}  # a node -> the layer whose output it passes on, None: the input
    kept: list[Node] = []
    for node in network.nodes:
        if isinstance(node, Input):
            standing[node.name] = None
        elif isinstance(node, Pixelwise | Flatten):
            standing[node.name] = standing[node.inputs[0]]
        else:
            kept.append(node)
            standing[node.name] = node.name
    place = {node.name: index for index, node in enumerate(kept)}
    sources = {node.name: _sources(subject, node, standing, place) for node in kept}
    readers: dict[str, list[int]] = {node.name: [] for node in kept}
    for node in kept:
        for name in dict.fromkeys(standing[name] for name in node.inputs):
            if name is not None:
                readers[name].append(place[node.name] - place[name])
    _check_ends(subject, kept, readers)
    found = []
    for index, node in enumerate(kept):
        links = {
            "Inputbit": bits.inputs, "outputbit": bits.outputs, "Inputindex": sources[node.name],
            "Outputindex": readers[node.name] or [1], "Layerindex": index,
        }  # fmt: skip
        found.append(_layer(subject, node, bits, links))
    return found


def _sources(
    subject: Subject, node: Node, standing: Mapping[str, str | None], place: Mapping[str, int]
) -> list[int]:
    found = []
    for name in node.inputs:
        source = standing[name]
        if source is None and place[node.name] > 0:
            raise subject.refused(node, _TOOL, "lets only its first layer read the input of the network")
        found.append(-1 if source is None else place[source] - place[node.name])
    return found


def _check_ends(subject: Subject, kept: list[Node], readers: Mapping[str, list[int]]) -> None:
    if not isinstance(kept[0], Conv):
        raise subject.refused(kept[0], _TOOL, "needs a convolution as its first layer")
    for node in kept[:-1]:
        if not readers[node.name]:
            raise subject.refused(node, _TOOL, "looks for the layers behind each one: only the last has none")
    if not subject.is_fully_connected(kept[-1]):
        raise subject.refused(
            kept[-1], _TOOL, "looks for a layer behind the last one unless that is fully connected"
        )


def _layer(subject: Subject, node: Node, bits: Bits, links: dict[str, Any]) -> Layer:
    source, output = subject.network.input_shape(node), subject.network.shapes[node.name]
    match node:
        case Conv():
            return _conv(subject, node, bits, links)
        case Linear() if subject.is_fully_connected(node):
            fields = {"type": "fc", "Infeature": source.channels, "Outfeature": output.channels}
            pes = _pes(subject, source.channels, output.channels, 1)
            return Layer(fields | {"Weightbit": bits.weights} | links, node.name, pes, 1)
        case Linear():
            as_conv = Conv(name=node.name, inputs=node.inputs, out_channels=node.out_features, kernel=(1, 1))
            return _conv(subject, as_conv, bits, links)
        case Pool():
            if is_dilated(node):
                raise subject.refused(node, _TOOL, f"has no dilated pooling, this one has {node.dilation}")
            window = _square(subject, node, node.kernel, node.stride, Pads(*node.pads))
            fields = _grid("pooling", source, output, window)
        case GlobalPool():
            grid = (source.height, source.width)
            fields = _grid("pooling", source, output, _square(subject, node, grid, grid, Pads(0, 0, 0, 0)))
        case Elementwise() if node.op == "add" and len(node.inputs) > 1:
            if {subject.network.shapes[name] for name in node.inputs} != {output}:
                raise subject.refused(node, _TOOL, "repeats nothing in a sum: all inputs must have one shape")
            fields = _grid("element_sum", source, output, {})
        case _:
            raise subject.refused(node, _TOOL, f"has no layer for {node.op!r}")
    pes = 1 if fields["type"] == "pooling" else 0
    return Layer(fields | {"Weightbit": None} | links, None, pes, 1)


def _conv(subject: Subject, node: Conv, bits: Bits, links: dict[str, Any]) -> Layer:
    source, output = subject.network.input_shape(node), subject.network.shapes[node.name]
    if node.groups > 1:
        raise subject.refused(node, _TOOL, f"has no grouped convolution, this one has {node.groups} groups")
    if is_dilated(node):
        raise subject.refused(node, _TOOL, f"has no dilated convolution, this one has {node.dilation}")
    window = _square(subject, node, node.kernel, node.stride, Pads(*node.pads))
    positions, rows = kernel_of(node)[0] ** 2, subject.hardware.crossbar.wordlines
    if positions > rows:
        raise subject.refused(
            node, _TOOL, f"keeps a kernel in one array: {positions} positions, an array has {rows} rows"
        )
    fields = _grid("conv", source, output, window)
    pes = _pes(subject, source.channels, output.channels, positions)
    return Layer(fields | {"Weightbit": bits.weights} | links, node.name, pes, subject.copies[node.name])


def _pes(subject: Subject, inputs: int, outputs: int, positions: int) -> int:
    """Processing elements of one copy; all slices of a weight are in the groups of one."""
    crossbar = subject.hardware.crossbar
    return -(-outputs // crossbar.bitlines) * -(-inputs // (crossbar.wordlines // positions))


def _grid(kind: str, source: Shape, output: Shape, window: dict[str, int]) -> dict[str, Any]:
    return {
        "type": kind, "Inputchannel": source.channels, "Inputsize": [source.height, source.width], **window,
        "Outputchannel": output.channels, "Outputsize": [output.height, output.width],
    }  # fmt: skip


def _square(subject: Subject, node: Node, kernel: Pair, stride: Pair, pads: Pads) -> dict[str, int]:
    """Kernel, stride and padding as single numbers. Raises UnsupportedError."""
    for what, values in (("kernel", kernel), ("stride", stride), ("padding", pads)):
        if len(set(values)) > 1:
            shown = " x ".join(str(value) for value in values)
            raise subject.refused(node, _TOOL, f"has one number for the {what}, this one is {shown}")
    return {"Kernelsize": kernel[0], "Stride": stride[0], "Padding": pads.top}
