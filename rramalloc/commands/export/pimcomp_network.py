"""A network as the node list of the compilers PIMCOMP and PIMSYN, which `importers.pimcomp_nodes` reads.

Both tools' own files fuse batch normalisation and the activation into the weight layer before it, and so
does this writer: PIMCOMP does not return from a weight layer that a separate activation follows.
Source: docs/sources/peers.md; the frontends and shipped models of both tools.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from dataclasses import dataclass

from rramalloc.commands.export.bundle import Remark, remark
from rramalloc.commands.export.subject import Subject, is_dilated
from rramalloc.importers.pimcomp_nodes import (
    AVERAGE,
    MAXIMUM,
    PIXELWISE,
    PRODUCT,
    SUM,
    WINDOW_FIELDS,
    JsonFields,
)
from rramalloc.network.geometry import Geometry, Pads, Shape
from rramalloc.network.network import Network
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

_RELU = 0  # the tool's act_type
_SIGMOID = 2  # the tool's act_type
_NO_ACTIVATION = -1  # the tool's act_type
_CLIP_LIMIT = 10_000_000  # the tool's value for a layer without Clip
_ACTIVATIONS = ("OP_RELU", "OP_SIGMOID")
"""PIMCOMP does not return from a weight layer that one of these reads, if anything reads the activation."""


@dataclass(frozen=True, slots=True)
class NodeList:
    """Nodes as JSON by name, in network order; remarks: on operations that the tools do not have."""

    by_name: MappingOf[str, JsonFields]
    remarks: tuple[Remark, ...]

    @property
    def entries(self) -> list[JsonFields]:
        """The entries in network order."""
        return list(self.by_name.values())

    @property
    def index(self) -> dict[str, int]:
        """Index of the entry of each convolution by name."""
        return {name: node["index"] for name, node in self.by_name.items() if node["operation"] == "OP_CONV"}


def node_list(subject: Subject) -> NodeList:
    """Return the nodes of the network for the subject's tool. Raises UnsupportedError."""
    network = subject.network
    is_pimcomp = subject.tool == "PIMCOMP"
    alias, fused, unnamed = _fused(network)
    vectors = set[str]()
    entries = dict[str, JsonFields]()
    skipped = list[Remark]()
    changed = list[Remark]()
    for node in network.nodes:
        if node.name in alias:
            continue
        providers = [alias.get(name, name) for name in node.inputs]
        if isinstance(node, Conv | Pool | GlobalPool) and providers[0] in vectors:
            raise subject.refused(f"needs a grid of pixels here, {providers[0][:60]!r} gives a vector", node)
        follows = isinstance(node, Pixelwise | Concat | Elementwise) and vectors.issuperset(providers)
        if follows or isinstance(node, Flatten) or subject.network.is_classifier(node):
            vectors.add(node.name)
        operation, param = _operation(subject, node)
        if is_pimcomp and operation in _ACTIVATIONS and providers[0] in fused:
            operation = "OP_LRN"
            text = (
                "an activation next to or behind another reader of a weight layer: written as OP_LRN, untimed"
            )
            skipped.append(remark("changed", text, node.name))
        unnamed += operation == "OP_SIGMOID"
        dims = [1, *network.shapes[node.name].as_tuple()][: 2 if node.name in vectors else 4]
        entry: JsonFields = {
            "bitwidth": subject.hardware.precision.input_bits,
            "index": len(entries),
            "name": node.name,
            "operation": operation,
            "output_dim": dims,
            "output_dim_num": len(dims),
            "provider": providers,
            "provider_num": len(providers),
            "consumer": [],
            "consumer_num": 0,
        }
        if providers:
            source = entries[providers[0]]["output_dim"]
            entry |= {"input_dim": source, "input_dim_num": len(source)}
        entries[node.name] = entry | ({"param": param} if param else {}) | fused.get(node.name, {})
        if isinstance(node, Linear) and not subject.network.is_classifier(node):
            text = "a linear layer on a grid: written as a 1 x 1 convolution"
            changed.append(remark("changed", text, node.name))
        elif node.op == "identity":
            text = "an identity, such as a channel shuffle: written as a reshape that keeps the shape"
            changed.append(remark("changed", text, node.name))
    for name, entry in entries.items():
        for provider in entry["provider"]:
            entries[provider]["consumer"].append(name)
            entries[provider]["consumer_num"] += 1
    for entry in entries.values() if is_pimcomp else ():
        entry["new_node_index"] = entry["index"]
        for side in ("provider", "consumer"):
            entry[f"{side}_index"] = [entries[name]["index"] for name in entry[side]]
    text = f"the kind of {unnamed} activations is not given: written as sigmoid"
    general = [remark("changed", text)] if unnamed else []
    return NodeList(entries, (*general, *skipped, *changed))


def _fused(network: Network) -> tuple[dict[str, str], dict[str, JsonFields], int]:
    """Return the fusion of operations into weight layers: (layer by operation, fields by layer, unknown).

    fields: of the activation that a layer applies to its outputs; unknown: number of activations that the
    tools do not have."""
    nodes = {node.name: node for node in network.nodes}
    alias = dict[str, str]()
    fused = dict[str, JsonFields]()
    unnamed = 0
    for stage in network.nodes:
        if not isinstance(stage, Conv | Linear):
            continue
        batchnorm = 0
        activation = _NO_ACTIVATION
        last = stage.name
        while len(readers := network.consumers[last]) == 1 and activation == _NO_ACTIVATION:
            follower = nodes[readers[0]]
            if follower.op == "batchnorm" and not batchnorm:
                batchnorm = 1
            elif follower.op in ("relu", "activation"):
                activation = _RELU if follower.op == "relu" else _SIGMOID
                unnamed += follower.op == "activation"
            else:
                break
            alias[follower.name], last = stage.name, follower.name
        fused[stage.name] = {
            "with_bn": batchnorm,
            "with_act": int(activation != _NO_ACTIVATION),
            "act_type": activation,
            "with_clip": 0,
            "clip_min": -_CLIP_LIMIT,
            "clip_max": _CLIP_LIMIT,
        }
    return alias, fused, unnamed


def _operation(subject: Subject, node: Node) -> tuple[str, JsonFields]:
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
            source = subject.network.input_shape(node)
            geometry = Geometry((source.height, source.width), (1, 1), Pads(0, 0, 0, 0), (1, 1))
            method = AVERAGE if node.op == "global_avgpool" else MAXIMUM
            return "OP_POOL", _window(geometry) | {"pool_method": method, "global": 1}
        case Flatten():
            return "OP_FLATTEN", {}
        case Concat() | Elementwise():
            return _merged(subject, node)
        case Pixelwise() if node.op in PIXELWISE:
            return PIXELWISE[node.op], {}
    raise subject.refused(f"has no operation for {node.op!r}", node)


def _conv(subject: Subject, node: Conv) -> JsonFields:
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


def _linear(subject: Subject, node: Linear) -> tuple[str, JsonFields]:
    source = subject.network.input_shape(node)
    if not subject.network.is_classifier(node):
        as_conv = Conv(name=node.name, inputs=node.inputs, out_channels=node.out_features, kernel=(1, 1))
        return "OP_CONV", _conv(subject, as_conv)
    names = ("num_input", "num_output") if subject.tool == "PIMCOMP" else ("input_channel", "output_channel")
    return "OP_FC", {names[0]: source.channels, names[1]: node.out_features, "with_bias": 1}


def _pool(subject: Subject, node: Pool) -> JsonFields:
    if is_dilated(node):
        raise subject.refused(f"has no dilated pooling, this one has {node.dilation}", node)
    source = subject.network.input_shape(node)
    output = subject.network.shapes[node.name]
    pads = _explicit_pads(node.geometry, source, output)
    method = AVERAGE if node.op == "avgpool" else MAXIMUM
    return _window(node.geometry._replace(pads=pads)) | {"pool_method": method, "global": 0}


def _merged(subject: Subject, node: Concat | Elementwise) -> tuple[str, JsonFields]:
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


def _window(geometry: Geometry, *fields: str) -> JsonFields:
    """Return the keys of `param` for these fields, by default those of a pooling."""
    kept = fields or ("kernel", "stride", "pads")
    return {
        key: getattr(geometry, field)[place] for key, (field, place) in WINDOW_FIELDS.items() if field in kept
    }
