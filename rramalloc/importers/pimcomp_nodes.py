"""Network JSON of the PIMCOMP and PIMSYN compilers (docs/sources/peers.md), and the table of its words.

PIMSYN writes a list of nodes, PIMCOMP wraps it as {"node_list": [...]}; a node names its `provider` nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from pydantic import TypeAdapter

from rramalloc.errors import NetworkError, SpecError
from rramalloc.importers.builder import warnings_of
from rramalloc.network.geometry import MAX_EXTENT, Geometry, Pads, Shape
from rramalloc.network.network import MAX_NODES, Network
from rramalloc.network.node import Approximation, Flatten, Node, ShapeError
from rramalloc.records import brief, check, is_whole

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
WINDOW = {
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


Fields = dict[str, Any]


def recognises(document: object) -> bool:
    """Return True for a PIMSYN list or a PIMCOMP object with `node_list`."""
    return isinstance(document, list) or (isinstance(document, dict) and "node_list" in document)


def from_document(document: object, where: str) -> Network:
    """Return a network from a parsed document; every stated `output_dim` is checked against the inferred
    shape.

    Raises SpecError (node and field), NetworkError.
    """
    nodes = _parsed(document, where)
    known = {node.name: node for node in nodes}
    taken = set(known)
    records: list[Node] = []
    approximations: list[Approximation] = []
    for node in nodes:
        providers = [_provider(node, name, known) for name in node.providers]
        rule = _OPERATIONS.get(node.operation, _unknown)
        if rule is _unknown:
            approximations.append(
                Approximation(name=node.name, operator=node.operation[:100], treatment=_TREATMENT)
            )
        fields = {"name": node.name} | rule(node, providers)
        names, shapes = list(node.providers), [provider.shape for provider in providers]
        if node.operation == "OP_FC" and node.shape.pixels == 1 and shapes[0].pixels > 1:
            flat = Flatten(name=_free_name(f"{node.name}_flatten", taken), inputs=tuple(names))
            records.append(flat)
            names, shapes = [flat.name], [Shape(shapes[0].channels * shapes[0].pixels, 1, 1)]
        records.append(_checked(node, fields | ({"inputs": names} if names else {}), shapes))
    return Network.build(
        PurePath(where).stem or "network",
        records,
        source="PIMCOMP / PIMSYN network JSON",
        where=where,
        warnings=warnings_of(approximations),
        approximations=approximations,
    )


def _parsed(document: object, where: str) -> list[PimcompNode]:
    entries = document.get("node_list") if isinstance(document, dict) else document
    if not isinstance(entries, list) or not entries:
        raise SpecError(f"{where}: node_list", "must be a list of at least one node")
    if len(entries) > MAX_NODES:
        raise NetworkError(where, f"has {len(entries)} nodes, the limit is {MAX_NODES}")
    nodes = [PimcompNode.parse(entry, f"{where}: node {index}") for index, entry in enumerate(entries)]
    seen: set[str] = set()
    for node in nodes:
        if node.name in seen:
            raise node.fault("name", "the name is used twice; names must be unique")
        seen.add(node.name)
    return nodes


def _provider(node: PimcompNode, name: str, known: dict[str, PimcompNode]) -> PimcompNode:
    if name not in known:
        raise node.fault("provider", f"no node is named {name[:60]!r}")
    return known[name]


def _free_name(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _checked(node: PimcompNode, fields: dict[str, Any], inputs: list[Shape]) -> Node:
    """Return the record of a node, whose output on the stated inputs is the stated one. Raises SpecError."""
    record = check(_NODE, fields, node.place)
    try:
        shape = record.output_shape(inputs)
    except ShapeError as error:
        raise node.fault(error.field, error.reason) from None
    if shape != node.shape:
        raise node.fault("output_dim", f"must be {_dims(shape)}, got {_dims(node.shape)}")
    return record


def _dims(shape: Shape) -> str:
    return f"[1, {shape.channels}, {shape.height}, {shape.width}]"


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
    def parse(cls, entry: object, place: str) -> PimcompNode:
        """Check the fields that every node has. Raises SpecError."""
        if not isinstance(entry, dict):
            raise SpecError(place, f"must be an object, got {brief(entry)}")
        name = entry.get("name")
        if not isinstance(name, str) or not 1 <= len(name) <= 1000:
            raise SpecError(f"{place}.name", f"must be a text of 1 to 1000 characters, got {brief(name)}")
        place = f"{place} {brief(name)}"
        operation = entry.get("operation")
        if not isinstance(operation, str) or not operation:
            raise SpecError(f"{place}.operation", f"must be a text such as 'OP_CONV', got {brief(operation)}")
        shape = _shape(entry.get("output_dim"), f"{place}.output_dim")
        param = entry.get("param") or {}
        if not isinstance(param, dict):
            raise SpecError(f"{place}.param", f"must be an object, got {brief(param)}")
        return cls(place, name, operation, shape, _providers(entry, operation, place), param)

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

    def window(self) -> Fields:
        """Return the kernel, stride, dilation and pads of `param`."""
        found: dict[str, list[int]] = {field: [] for field in _LEFT_OUT}
        for key, (field, _) in sorted(WINDOW.items(), key=lambda item: item[1]):
            found[field].append(self.number(key, _LEFT_OUT[field], least=int(field != "pads")))
        return {field: tuple(numbers) for field, numbers in found.items()}


def _providers(entry: Mapping[str, Any], operation: str, place: str) -> tuple[str, ...]:
    providers = entry.get("provider") or []
    if not isinstance(providers, list) or not all(isinstance(name, str) for name in providers):
        raise SpecError(f"{place}.provider", f"must be a list of node names, got {brief(providers)}")
    if bool(providers) == (operation == "OP_INPUT"):
        wanted = "must be empty for OP_INPUT" if providers else "must name at least one node"
        raise SpecError(f"{place}.provider", f"{wanted}, got {brief(providers)}")
    return tuple(providers)


def _shape(dims: object, place: str) -> Shape:
    """Return the shape: [1, F]: vector; [1, T, C]: tokens; [1, ..., H, W]: grid, the axes in between count as
    channels."""
    if not isinstance(dims, list) or not 1 <= len(dims) <= _MAX_RANK:
        raise SpecError(place, f"must be a list such as [1, channels, height, width], got {brief(dims)}")
    for index, extent in enumerate(dims):
        if not is_whole(extent, 1, MAX_EXTENT):
            raise SpecError(
                f"{place}[{index}]", f"must be a whole number from 1 to {MAX_EXTENT}, got {brief(extent)}"
            )
    if len(dims) > 1 and dims[0] != 1:
        raise SpecError(f"{place}[0]", f"the batch must be 1, got {dims[0]}")
    match dims:
        case [features] | [_, features]:
            return Shape(features, 1, 1)
        case [_, tokens, channels]:
            return Shape(channels, tokens, 1)
    return Shape(math.prod(dims[1:-2]), dims[-2], dims[-1])


Rule = Callable[[PimcompNode, Sequence[PimcompNode]], Fields]


def _unknown(node: PimcompNode, _: Sequence[PimcompNode]) -> Fields:
    """Return a barrier for any operation that is not listed: it waits for all pixels."""
    return {"op": "barrier", "shape": list(node.shape)}


def _conv(node: PimcompNode, providers: Sequence[PimcompNode]) -> Fields:
    provider = _only(node, providers)
    stated = node.number("input_channel", provider.shape.channels)
    if stated != provider.shape.channels:
        raise node.fault(
            "param.input_channel",
            f"must be {provider.shape.channels} as {provider.name[:60]!r}, got {stated}",
        )
    return {
        "op": "conv",
        "out_channels": node.number("output_channel", node.shape.channels),
        "groups": node.number("group", 1),
        **node.window(),
    }


def _linear(node: PimcompNode, providers: Sequence[PimcompNode]) -> Fields:
    source = _only(node, providers).shape
    flat = node.shape.pixels == 1
    have = source.channels * source.pixels if flat else source.channels
    key = "num_input" if "num_input" in node.param else "input_channel"
    stated = node.number(key, have)
    if stated != have:
        raise node.fault(
            f"param.{key}", f"must be {have}, the values that {providers[0].name[:60]!r} gives, got {stated}"
        )
    key = "num_output" if "num_output" in node.param else "output_channel"
    return {"op": "linear", "out_features": node.number(key, node.shape.channels)}


def _matmul(node: PimcompNode, providers: Sequence[PimcompNode]) -> Fields:
    """Return the fields of a product. With one provider the other operand is a constant weight; with two, all
    pixels are needed."""
    if len(providers) > 1 or (node.shape.height, node.shape.width) != _grid(providers[0]):
        return _unknown(node, providers)
    return {"op": "linear", "out_features": node.shape.channels}


def _pool(node: PimcompNode, providers: Sequence[PimcompNode]) -> Fields:
    source = _only(node, providers).shape
    average = node.number("pool_method", MAXIMUM, least=0) == AVERAGE
    if node.param.get("global") in (1, True):
        return {"op": "global_avgpool" if average else "global_maxpool"}
    fields: Fields = {"op": "avgpool" if average else "maxpool"} | node.window()
    geometry = Geometry(fields["kernel"], fields["stride"], Pads(*fields["pads"]), fields["dilation"])
    floor, ceil = (_pooled(source, geometry, ceil_mode=mode) for mode in (False, True))
    stated = (node.shape.height, node.shape.width)
    return fields | {"ceil_mode": stated == ceil != floor}


def _pooled(source: Shape, geometry: Geometry, *, ceil_mode: bool) -> tuple[int, int]:
    height, width = source.height, source.width
    return geometry.windows(0, height, ceil_mode=ceil_mode), geometry.windows(1, width, ceil_mode=ceil_mode)


def _elementwise(node: PimcompNode, providers: Sequence[PimcompNode]) -> Fields:
    if len(providers) == 1:
        return {"op": "activation"}
    product = node.number("eletype", SUM, least=0) in (PRODUCT, SCALED)
    return {"op": "mul" if product else "add"}


def _reshape(node: PimcompNode, providers: Sequence[PimcompNode]) -> Fields:
    """Return the fields: identity if the shape stays, flatten to one vector, else all pixels are needed."""
    source = _only(node, providers).shape
    values = node.shape.channels * node.shape.pixels
    if values != source.channels * source.pixels:
        raise node.fault(
            "output_dim", f"has {values} values, the input has {source.channels * source.pixels}"
        )
    if node.shape == source:
        return {"op": "identity"}
    if node.shape.pixels == 1:
        return {"op": "flatten"}
    return _unknown(node, providers)


def _select(node: PimcompNode, providers: Sequence[PimcompNode]) -> Fields:
    if (node.shape.height, node.shape.width) != _grid(_only(node, providers)):
        return _unknown(node, providers)
    return {"op": "select", "channels": node.shape.channels}


def _upsample(node: PimcompNode, providers: Sequence[PimcompNode]) -> Fields:
    height, width = _grid(_only(node, providers))
    if node.shape.height % height or node.shape.width % width:
        return _unknown(node, providers)
    return {"op": "upsample", "scale": (node.shape.height // height, node.shape.width // width)}


def _pad(node: PimcompNode, providers: Sequence[PimcompNode]) -> Fields:
    """Return the fields of a border of rows and columns: a 1 x 1 window over the padded input."""
    _only(node, providers)
    keys = ("pad_2_h", "pad_3_h", "pad_2_w", "pad_3_w")
    return {"op": "maxpool", "kernel": 1, "pads": [node.number(key, 0, least=0) for key in keys]}


def _single(op: str) -> Rule:
    """Return the rule of a node with one provider and without fields."""

    def rule(node: PimcompNode, providers: Sequence[PimcompNode]) -> Fields:
        _only(node, providers)
        return {"op": op}

    return rule


def _only(node: PimcompNode, providers: Sequence[PimcompNode]) -> PimcompNode:
    if len(providers) != 1:
        raise node.fault("provider", f"{node.operation} takes one provider, got {len(providers)}")
    return providers[0]


def _grid(node: PimcompNode) -> tuple[int, int]:
    return node.shape.height, node.shape.width


_ACTIVATIONS = "LRN TANH CLIP PRELU LEAKYRELU HARDSWISH HARDSIGMOID"
_OPERATIONS: Mapping[str, Rule] = {
    "OP_INPUT": lambda node, _: {"op": "input", "shape": list(node.shape)},
    "OP_CONV": _conv,
    "OP_FC": _linear,
    "OP_MATMUL": _matmul,
    "OP_POOL": _pool,
    "OP_ELTWISE": _elementwise,
    "OP_CONCAT": lambda *_: {"op": "concat"},
    "OP_FLATTEN": _single("flatten"),
    "OP_RESHAPE": _reshape,
    "OP_TRANSPOSE": _reshape,
    "OP_SQUEEZE": _reshape,
    "OP_UNSQUEEZE": _reshape,
    "OP_SHUFFLE": _single("identity"),
    "OP_SPLIT": _select,
    "OP_SLICE": _select,
    "OP_UPSAMPLE": _upsample,
    "OP_RESIZE": _upsample,
    "OP_PAD": _pad,
    **{name: _single(op) for op, name in PIXELWISE.items() if op != "identity"},
    **{f"OP_{name}": _single("activation") for name in _ACTIVATIONS.split()},
}
