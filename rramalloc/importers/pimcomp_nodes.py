"""Network JSON of the PIMCOMP and PIMSYN compilers (docs/sources/peers.md), and the table of its words.

PIMSYN writes a list of nodes, PIMCOMP wraps it as {"node_list": [...]}; a node names its `provider` nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from pydantic import TypeAdapter

from rramalloc.errors import NetworkError, SpecError
from rramalloc.files import as_utf8
from rramalloc.importers.builder import warnings_of
from rramalloc.network.geometry import MAX_EXTENT, Geometry, Pads, Shape
from rramalloc.network.network import MAX_NODES, Network
from rramalloc.network.node import Approximation, Flatten, Node, ShapeError
from rramalloc.records import brief, check, is_whole

JsonFields = dict[str, Any]
_MAX_RANK = 8  # of a stated `output_dim`
MAXIMUM = 0  # `pool_method`
AVERAGE = 1  # `pool_method`
PRODUCT = 0  # `eletype`
SCALED = 1  # `eletype`
SUM = 2  # `eletype`; all others have the timing of a sum
PIXELWISE = {
    "relu": "OP_RELU",
    "activation": "OP_SIGMOID",
    "batchnorm": "OP_BN",
    "identity": "OP_RESHAPE",
    "dropout": "OP_DROPOUT",
    "softmax": "OP_SOFTMAX",
}
"""Operation that a node of one input and no fields is written as."""
WINDOW_FIELDS = {
    "kernel_h": ("kernel", 0),
    "kernel_w": ("kernel", 1),
    "stride_h": ("stride", 0),
    "stride_w": ("stride", 1),
    "pad_h0": ("pads", 0),
    "pad_h1": ("pads", 2),
    "pad_w0": ("pads", 1),
    "pad_w1": ("pads", 3),
    "dilation_h": ("dilation", 0),
    "dilation_w": ("dilation", 1),
}
"""Field of a convolution or pooling, and place in it, of every key of `param`."""
_LEFT_OUT = {"kernel": None, "stride": 1, "dilation": 1, "pads": 0}
_TREATMENT = "is not known: treated as a barrier"
_NODE: TypeAdapter[Node] = TypeAdapter(Node)


def recognises(document: object) -> bool:
    """Return True for a PIMSYN list or a PIMCOMP object with `node_list`."""
    return isinstance(document, list) or (isinstance(document, dict) and "node_list" in document)


def from_document(document: object, where: str) -> Network:
    """Return a network from a parsed document; every stated `output_dim` is checked against the inferred
    shape.

    Raises SpecError (node and field), NetworkError.
    """
    known = _parsed(document, where)
    taken = set(known)
    records: list[Node] = []
    approximations: list[Approximation] = []
    for node in known.values():
        for name in node.providers:
            if name not in known:
                raise node.fault("provider", f"no node is named {name[:60]!r}")
        rule = _OPERATIONS.get(node.operation)
        if rule is None:
            unknown = Approximation(name=node.name, operator=node.operation[:100], treatment=_TREATMENT)
            approximations.append(unknown)
        elif len(node.providers) > 1 and node.operation not in _OF_SEVERAL:
            raise node.fault("provider", f"{node.operation} takes one provider, got {len(node.providers)}")
        providers = [known[name] for name in node.providers] or [node]
        fields = {"op": rule} if isinstance(rule, str) else (rule or _barrier)(node, providers[0])
        names, shapes = list(node.providers), [provider.shape for provider in providers]
        if node.operation == "OP_FC" and node.shape.pixels == 1 and shapes[0].pixels > 1:
            name = f"{node.name}_flatten"
            while name in taken:
                name += "_"
            taken.add(name)
            records.append(Flatten(name=name, inputs=tuple(names)))
            names, shapes = [name], [Shape(shapes[0].channels * shapes[0].pixels, 1, 1)]
        fields |= {"name": node.name} | ({"inputs": names} if names else {})
        records.append(_checked(node, fields, shapes))
    return Network.build(
        as_utf8(PurePath(where).stem) or "network",
        records,
        source="PIMCOMP / PIMSYN network JSON",
        where=where,
        warnings=warnings_of(approximations),
        approximations=approximations,
    )


def _parsed(document: object, where: str) -> dict[str, PimcompNode]:
    """Return the nodes by name."""
    entries = document.get("node_list") if isinstance(document, dict) else document
    if not isinstance(entries, list) or not entries:
        raise SpecError(f"{where}: node_list", "must be a list of at least one node")
    if len(entries) > MAX_NODES:
        raise NetworkError(where, f"has {len(entries)} nodes, the limit is {MAX_NODES}")
    nodes: dict[str, PimcompNode] = {}
    for index, entry in enumerate(entries):
        node = PimcompNode.parse(entry, f"{where}: node {index}")
        if node.name in nodes:
            raise node.fault("name", "the name is used twice; names must be unique")
        nodes[node.name] = node
    return nodes


def _checked(node: PimcompNode, fields: JsonFields, inputs: list[Shape]) -> Node:
    """Return the record of a node, whose output on the stated inputs is the stated one. Raises SpecError."""
    record = check(_NODE, fields, node.place)
    try:
        shape = record.output_shape(inputs)
    except ShapeError as error:
        raise node.fault(error.field, error.reason) from None
    if shape != node.shape:
        raise node.fault("output_dim", f"must be {[1, *shape.as_tuple()]}, got {[1, *node.shape.as_tuple()]}")
    return record


@dataclass(frozen=True, slots=True)
class PimcompNode:
    """place: file and node for messages; shape: the stated `output_dim`; param: geometry, unchecked."""

    place: str
    name: str
    operation: str
    shape: Shape
    providers: tuple[str, ...]
    param: Mapping[str, Any]

    @classmethod
    def parse(cls, entry: Any, place: str) -> PimcompNode:
        """Check the fields that every node has. Raises SpecError."""
        _need(isinstance(entry, dict), place, "an object", entry)
        name, operation = entry.get("name"), entry.get("operation")
        is_name = isinstance(name, str) and 1 <= len(name) <= 1000
        _need(is_name, f"{place}.name", "a text of 1 to 1000 characters", name)
        place = f"{place} {brief(name)}"
        is_operation = isinstance(operation, str) and operation
        _need(is_operation, f"{place}.operation", "a text such as 'OP_CONV'", operation)
        shape = _shape(entry.get("output_dim"), f"{place}.output_dim")
        param, providers = entry.get("param") or {}, entry.get("provider") or []
        _need(isinstance(param, dict), f"{place}.param", "an object", param)
        are_names = isinstance(providers, list) and all(isinstance(name, str) for name in providers)
        _need(are_names, f"{place}.provider", "a list of node names", providers)
        wanted = "empty for OP_INPUT" if providers else "the names of at least one node"
        _need(bool(providers) != (operation == "OP_INPUT"), f"{place}.provider", wanted, providers)
        return cls(place, name, operation, shape, tuple(providers), param)

    def fault(self, field: str, reason: str) -> SpecError:
        """Return the error to raise for a field of this node."""
        return SpecError(f"{self.place}.{field}", reason)

    def number(self, key: str, default: int | None = None, *, least: int = 1) -> int:
        """Return a whole number of `param`; without a default the field is required. Raises SpecError."""
        value = self.param.get(key, default)
        if not is_whole(value, least, MAX_EXTENT):
            got = brief(value) if key in self.param else "nothing"
            raise self.fault(
                f"param.{key}", f"must be a whole number from {least} to {MAX_EXTENT}, got {got}"
            )
        return value

    def check_input(self, key: str, have: int, source: PimcompNode) -> None:
        """Raise SpecError unless the stated inputs, if any are, are those that the provider gives."""
        stated = self.number(key, have)
        if stated != have:
            raise self.fault(f"param.{key}", f"must be {have} as {source.name[:60]!r} gives, got {stated}")

    def window(self) -> JsonFields:
        """Return the kernel, stride, dilation and pads of `param`."""
        found: dict[str, list[int]] = {field: [] for field in _LEFT_OUT}
        for key, (field, _) in sorted(WINDOW_FIELDS.items(), key=lambda item: item[1]):
            found[field].append(self.number(key, _LEFT_OUT[field], least=int(field != "pads")))
        return {field: tuple(numbers) for field, numbers in found.items()}


def _need(holds: object, place: str, wanted: str, got: object) -> None:
    if not holds:
        raise SpecError(place, f"must be {wanted}, got {brief(got)}")


def _shape(dims: Any, place: str) -> Shape:
    """Return the shape of a vector [1, F], tokens [1, T, C], or a grid [1, ..., H, W] of channels."""
    is_list = isinstance(dims, list) and 1 <= len(dims) <= _MAX_RANK
    _need(is_list, place, "a list such as [1, channels, height, width]", dims)
    for index, extent in enumerate(dims):
        wanted = f"a whole number from 1 to {MAX_EXTENT}"
        _need(is_whole(extent, 1, MAX_EXTENT), f"{place}[{index}]", wanted, extent)
    if len(dims) > 1 and dims[0] != 1:
        raise SpecError(f"{place}[0]", f"the batch must be 1, got {dims[0]}")
    match dims:
        case [features] | [_, features]:
            return Shape(features, 1, 1)
        case [_, tokens, channels]:
            return Shape(channels, tokens, 1)
    return Shape(math.prod(dims[1:-2]), dims[-2], dims[-1])


def _barrier(node: PimcompNode, _: PimcompNode) -> JsonFields:
    return {"op": "barrier", "shape": list(node.shape)}


def _conv(node: PimcompNode, source: PimcompNode) -> JsonFields:
    node.check_input("input_channel", source.shape.channels, source)
    channels = node.number("output_channel", node.shape.channels)
    return {"op": "conv", "out_channels": channels, "groups": node.number("group", 1), **node.window()}


def _linear(node: PimcompNode, source: PimcompNode) -> JsonFields:
    have = source.shape.channels * (source.shape.pixels if node.shape.pixels == 1 else 1)
    node.check_input("num_input" if "num_input" in node.param else "input_channel", have, source)
    key = "num_output" if "num_output" in node.param else "output_channel"
    return {"op": "linear", "out_features": node.number(key, node.shape.channels)}


def _pool(node: PimcompNode, source: PimcompNode) -> JsonFields:
    average = node.number("pool_method", MAXIMUM, least=0) == AVERAGE
    if node.param.get("global") in (1, True):
        return {"op": "global_avgpool" if average else "global_maxpool"}
    fields = node.window()
    geometry = Geometry(fields["kernel"], fields["stride"], Pads(*fields["pads"]), fields["dilation"])
    sides = enumerate((source.shape.height, source.shape.width))
    made = [[geometry.windows(axis, size, ceil_mode=mode) for mode in (False, True)] for axis, size in sides]
    floor, ceil = zip(*made, strict=True)
    return {
        "op": "avgpool" if average else "maxpool",
        "ceil_mode": node.shape.grid == ceil != floor,
        **fields,
    }


def _reshape(node: PimcompNode, source: PimcompNode) -> JsonFields:
    """Return the fields: identity if the shape stays, flatten to one vector, else all pixels are needed."""
    have, values = (shape.channels * shape.pixels for shape in (source.shape, node.shape))
    if values != have:
        raise node.fault("output_dim", f"has {values} values, the input has {have}")
    if node.shape == source.shape:
        return {"op": "identity"}
    return {"op": "flatten"} if node.shape.pixels == 1 else _barrier(node, source)


def _simple(node: PimcompNode, source: PimcompNode) -> JsonFields:
    """Return the fields of an operation that has few of them, a barrier if no node does the same."""
    keeps_grid = node.shape.grid == source.shape.grid
    sides = list(zip(node.shape.grid, source.shape.grid, strict=True))
    match node.operation:
        case "OP_MATMUL" if keeps_grid and len(node.providers) == 1:  # the other operand is constant: weights
            return {"op": "linear", "out_features": node.shape.channels}
        case "OP_ELTWISE" if len(node.providers) == 1:
            return {"op": "activation"}
        case "OP_ELTWISE":
            is_product = node.number("eletype", SUM, least=0) in (PRODUCT, SCALED)
            return {"op": "mul" if is_product else "add"}
        case "OP_SPLIT" | "OP_SLICE" if keeps_grid:
            return {"op": "select", "channels": node.shape.channels}
        case "OP_UPSAMPLE" | "OP_RESIZE" if not any(wanted % have for wanted, have in sides):
            return {"op": "upsample", "scale": tuple(wanted // have for wanted, have in sides)}
        case "OP_PAD":  # a 1 x 1 window over the padded input
            pads = [node.number(key, 0, least=0) for key in ("pad_2_h", "pad_3_h", "pad_2_w", "pad_3_w")]
            return {"op": "maxpool", "kernel": 1, "pads": pads}
    return _barrier(node, source)


_OF_SEVERAL = ("OP_CONCAT", "OP_ELTWISE", "OP_MATMUL")
_ACTIVATIONS = "LRN TANH CLIP PRELU LEAKYRELU HARDSWISH HARDSIGMOID"
_OPERATIONS: Mapping[str, str | Callable[[PimcompNode, PimcompNode], JsonFields]] = {
    "OP_INPUT": lambda node, _: {"op": "input", "shape": list(node.shape)},
    "OP_CONV": _conv,
    "OP_FC": _linear,
    "OP_POOL": _pool,
    "OP_CONCAT": "concat",
    "OP_FLATTEN": "flatten",
    **dict.fromkeys(("OP_RESHAPE", "OP_TRANSPOSE", "OP_SQUEEZE", "OP_UNSQUEEZE"), _reshape),
    "OP_SHUFFLE": "identity",
    **dict.fromkeys(("OP_MATMUL", "OP_ELTWISE", "OP_SPLIT", "OP_SLICE"), _simple),
    **dict.fromkeys(("OP_UPSAMPLE", "OP_RESIZE", "OP_PAD"), _simple),
    **{name: op for op, name in PIXELWISE.items() if op != "identity"},
    **dict.fromkeys((f"OP_{name}" for name in _ACTIVATIONS.split()), "activation"),
}
"""Node, or the fields of the node, that an operation on its first provider is read as."""
