"""A network as the node list of the compilers PIMCOMP and PIMSYN, which `importers.pimcomp_nodes` reads.

Both tools' own files fuse batch normalisation and the activation into the weight layer before it, and so
does this writer: PIMCOMP does not return from a weight layer that a separate activation follows.
Source: docs/sources/peers.md; the frontends and shipped models of both tools.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from dataclasses import dataclass
from typing import Any

from rramalloc.commands.export.bundle import Remark
from rramalloc.commands.export.subject import Subject, is_dilated
from rramalloc.importers.pimcomp_nodes import AVERAGE, MAXIMUM, PIXELWISE, PRODUCT, SUM, WINDOW
from rramalloc.network.geometry import Geometry, Pads, Shape
from rramalloc.network.node import (
    Concat,
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

Fields = dict[str, Any]
_RELU = 0  # the tool's act_type
_SIGMOID = 2  # the tool's act_type
_NO_ACTIVATION = -1  # the tool's act_type
_CLIP_LIMIT = 10_000_000  # the tool's value for a layer without Clip
_ACTIVATIONS = ("OP_RELU", "OP_SIGMOID")
"""PIMCOMP does not return from a weight layer that one of these reads, if anything reads the activation."""


@dataclass(slots=True)
class _Fused:
    """Operations of a weight layer on its outputs before it passes them on."""

    batchnorm: int = 0
    activation: int = _NO_ACTIVATION


@dataclass(frozen=True, slots=True)
class NodeList:
    """entries: nodes as JSON, in network order; index: of each stage's entry; remarks: what is lost."""

    entries: list[dict[str, Any]]
    index: MappingOf[str, int]
    remarks: tuple[Remark, ...]

    @property
    def by_name(self) -> dict[str, dict[str, Any]]:
        """The entries by the name of their node."""
        return {entry["name"]: entry for entry in self.entries}


def node_list(subject: Subject) -> NodeList:
    """Return the nodes of the network for the subject's tool. Raises UnsupportedError for what it cannot
    express."""
    return _Writer(subject).write()


class _Writer:
    """`alias`: what stands for a fused node; `vectors`: nodes whose output is [1, features]."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.network = subject.network
        self.alias: dict[str, str] = {}
        self.fused: dict[str, _Fused] = {}
        self.vectors: set[str] = set()
        self.unnamed = 0
        self.skipped: list[str] = []

    def write(self) -> NodeList:
        nodes = {node.name: node for node in self.network.nodes}
        for node in self.network.nodes:
            if isinstance(node, Conv | Linear):
                self._fuse(node, nodes)
        kept = [node for node in self.network.nodes if node.name not in self.alias]
        consumers: dict[str, list[str]] = {node.name: [] for node in kept}
        for node in kept:
            for name in self._providers(node):
                consumers[name].append(node.name)
        entries, written = [], dict[str, dict[str, Any]]()
        for index, node in enumerate(kept):
            entry = self._entry(node, index, consumers[node.name], written)
            entries.append(entry)
            written[node.name] = entry
        if self.subject.tool == "PIMCOMP":
            for entry in entries:
                entry["new_node_index"] = entry["index"]
                for side in ("provider", "consumer"):
                    entry[f"{side}_index"] = [written[name]["index"] for name in entry[side]]
        index_of = {entry["name"]: entry["index"] for entry in entries if entry["operation"] == "OP_CONV"}
        return NodeList(entries, index_of, self._remarks(kept))

    def _fuse(self, stage: Node, nodes: MappingOf[str, Node]) -> None:
        fused, last = _Fused(), stage.name
        while len(readers := self.network.consumers[last]) == 1:
            follower = nodes[readers[0]]
            if not isinstance(follower, Pixelwise) or fused.activation != _NO_ACTIVATION:
                break
            if follower.op == "batchnorm" and not fused.batchnorm:
                fused.batchnorm = 1
            elif follower.op in ("relu", "activation"):
                fused.activation = _RELU if follower.op == "relu" else _SIGMOID
                self.unnamed += follower.op == "activation"
            else:
                break
            self.alias[follower.name], last = stage.name, follower.name
        self.fused[stage.name] = fused

    def _providers(self, node: Node) -> list[str]:
        return [self.alias.get(name, name) for name in node.inputs]

    def _entry(
        self, node: Node, index: int, consumers: list[str], written: MappingOf[str, dict[str, Any]]
    ) -> dict[str, Any]:
        providers = self._providers(node)
        self._check_ranks(node, providers)
        if self._is_vector(node, providers):
            self.vectors.add(node.name)
        name, param = _operation(self.subject, node)
        if self.subject.tool == "PIMCOMP" and name in _ACTIVATIONS and providers[0] in self.fused:
            self.skipped.append(node.name)
            name = "OP_LRN"
        self.unnamed += name == "OP_SIGMOID"
        dims = self._dims(node)
        entry: dict[str, Any] = {
            "bitwidth": self.subject.hardware.precision.input_bits,
            "index": index, "name": node.name, "operation": name,
            "output_dim": dims, "output_dim_num": len(dims),
            "provider": providers, "provider_num": len(providers),
            "consumer": consumers, "consumer_num": len(consumers),
        }  # fmt: skip
        if providers:
            source = written[providers[0]]["output_dim"]
            entry |= {"input_dim": source, "input_dim_num": len(source)}
        if param:
            entry["param"] = param
        if node.name in self.fused:
            entry |= self._fused_fields(node.name)
        return entry

    def _fused_fields(self, name: str) -> Fields:
        fused = self.fused[name]
        return {
            "with_bn": fused.batchnorm, "with_act": int(fused.activation != _NO_ACTIVATION),
            "act_type": fused.activation, "with_clip": 0, "clip_min": -_CLIP_LIMIT, "clip_max": _CLIP_LIMIT,
        }  # fmt: skip

    def _is_vector(self, node: Node, providers: list[str]) -> bool:
        if isinstance(node, Flatten) or self.subject.is_fully_connected(node):
            return True
        follows = isinstance(node, Pixelwise | Concat | Elementwise)
        return follows and all(name in self.vectors for name in providers)

    def _check_ranks(self, node: Node, providers: list[str]) -> None:
        """Check that a vector has no grid: the tools find rows and columns by position."""
        if isinstance(node, Conv | Pool | GlobalPool) and providers[0] in self.vectors:
            raise self.subject.refused(
                f"needs a grid of pixels here, {providers[0][:60]!r} gives a vector", node
            )

    def _dims(self, node: Node) -> list[int]:
        channels, height, width = self.network.shapes[node.name]
        return [1, channels] if node.name in self.vectors else [1, channels, height, width]

    def _remarks(self, kept: list[Node]) -> tuple[Remark, ...]:
        remarks = []
        if self.unnamed:
            text = f"the kind of {self.unnamed} activations is not given: written as sigmoid"
            remarks.append(Remark(layer=None, kind="changed", text=text))
        for name in self.skipped:
            text = (
                "an activation next to or behind another reader of a weight layer: written as OP_LRN, untimed"
            )
            remarks.append(Remark(layer=name, kind="changed", text=text))
        for node in kept:
            if isinstance(node, Linear) and not self.subject.is_fully_connected(node):
                text = "a linear layer on a grid: written as a 1 x 1 convolution"
            elif isinstance(node, Pixelwise) and node.op == "identity":
                text = "an identity, such as a channel shuffle: written as a reshape that keeps the shape"
            else:
                continue
            remarks.append(Remark(layer=node.name, kind="changed", text=text))
        return tuple(remarks)


def _operation(subject: Subject, node: Node) -> tuple[str, Fields]:
    """Return the operation and `param` of a node. Raises UnsupportedError."""
    match node:
        case Input():
            return "OP_INPUT", {}
        case Conv():
            return "OP_CONV", _conv(subject, node)
        case Linear():
            return _linear(subject, node)
        case Pool():
            return "OP_POOL", _pool(subject, node)
        case GlobalPool():
            return "OP_POOL", _global_pool(subject.network.input_shape(node), node)
        case Flatten():
            return "OP_FLATTEN", {}
        case Concat() | Elementwise():
            return _merged(subject, node)
        case Pixelwise() if node.op in PIXELWISE:
            return PIXELWISE[node.op], {}
    raise subject.refused(f"has no operation for {node.op!r}", node)


def _conv(subject: Subject, node: Conv) -> Fields:
    if subject.tool == "PIMCOMP" and is_dilated(node):
        raise subject.refused(
            f"works out the output size without dilation, this convolution has {node.dilation}", node
        )
    return _window(node.geometry, "kernel", "stride", "pads", "dilation") | {
        "group": node.groups,
        "input_channel": subject.network.input_shape(node).channels,
        "output_channel": node.out_channels,
        "with_bias": 1,
    }


def _linear(subject: Subject, node: Linear) -> tuple[str, Fields]:
    source = subject.network.input_shape(node)
    if not subject.is_fully_connected(node):
        as_conv = Conv(name=node.name, inputs=node.inputs, out_channels=node.out_features, kernel=(1, 1))
        return "OP_CONV", _conv(subject, as_conv)
    names = ("num_input", "num_output") if subject.tool == "PIMCOMP" else ("input_channel", "output_channel")
    return "OP_FC", {names[0]: source.channels, names[1]: node.out_features, "with_bias": 1}


def _pool(subject: Subject, node: Pool) -> Fields:
    if is_dilated(node):
        raise subject.refused(f"has no dilated pooling, this one has {node.dilation}", node)
    source, output = subject.network.input_shape(node), subject.network.shapes[node.name]
    pads = _explicit_pads(node.geometry, source, output)
    method = AVERAGE if node.op == "avgpool" else MAXIMUM
    return _window(node.geometry._replace(pads=pads)) | {"pool_method": method, "global": 0}


def _global_pool(source: Shape, node: GlobalPool) -> Fields:
    geometry = Geometry((source.height, source.width), (1, 1), Pads(0, 0, 0, 0), (1, 1))
    method = AVERAGE if node.op == "global_avgpool" else MAXIMUM
    return _window(geometry) | {"pool_method": method, "global": 1}


def _merged(subject: Subject, node: Concat | Elementwise) -> tuple[str, Fields]:
    shapes = [subject.network.shapes[name] for name in node.inputs]
    if len({(shape.height, shape.width) for shape in shapes}) > 1:
        raise subject.refused("repeats no pixels: all inputs must have the same grid", node)
    if isinstance(node, Concat):
        return "OP_CONCAT", {}
    if len({shape.channels for shape in shapes}) > 1:
        raise subject.refused("repeats no channels: all inputs must have as many", node)
    if len(shapes) < 2:
        raise subject.refused("needs two inputs for an element-wise operation", node)
    return "OP_ELTWISE", {"eletype": SUM if node.op == "add" else PRODUCT}


def _explicit_pads(geometry: Geometry, source: Shape, output: Shape) -> Pads:
    """Return the pads with which rounding down gives the stated output: the tools have no `ceil_mode`."""
    after = []
    for axis, (extent, wanted) in enumerate(((source.height, output.height), (source.width, output.width))):
        before, behind = geometry.pads.along(axis)
        if geometry.windows(axis, extent) != wanted:
            behind = max(0, (wanted - 1) * geometry.stride[axis] + geometry.span(axis) - extent - before)
        after.append(behind)
    return geometry.pads._replace(bottom=after[0], right=after[1])


def _window(geometry: Geometry, *fields: str) -> Fields:
    """Return the keys of `param` for these fields, by default those of a pooling."""
    kept = fields or ("kernel", "stride", "pads")
    return {key: getattr(geometry, field)[place] for key, (field, place) in WINDOW.items() if field in kept}
