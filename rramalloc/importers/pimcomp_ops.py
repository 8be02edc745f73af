"""What each PIMCOMP / PIMSYN operation becomes in the network JSON (MODEL.md 2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rramalloc.importers.pimcomp_node import PimcompNode
from rramalloc.network.geometry import Geometry, Pads, Shape, pooled_extent

Fields = dict[str, Any]
Rule = Callable[[PimcompNode, Sequence[PimcompNode]], Fields]

_ELEMENT_PRODUCTS = (0, 1)
"""`eletype` of a product (of two tensors, with a scalar); all other types have the timing of a sum."""


def needs_flatten(node: PimcompNode, providers: Sequence[PimcompNode]) -> bool:
    """Does a fully connected node take a whole grid as its vector?"""
    return node.operation == "OP_FC" and node.shape.pixels == 1 and providers[0].shape.pixels > 1


def unknown(node: PimcompNode, _: Sequence[PimcompNode]) -> Fields:
    """Any operation that is not listed: it waits for all pixels."""
    return {"op": "barrier", "shape": list(node.shape)}


def _input(node: PimcompNode, _: Sequence[PimcompNode]) -> Fields:
    return {"op": "input", "shape": list(node.shape)}


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
        "kernel": node.pair("kernel"),
        "stride": node.pair("stride", 1),
        "pads": node.pads(),
        "dilation": node.pair("dilation", 1),
        "groups": node.number("group", 1),
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
    """One provider: the other operand is a constant weight. Two: all pixels are needed."""
    if len(providers) > 1 or (node.shape.height, node.shape.width) != _grid(providers[0]):
        return unknown(node, providers)
    return {"op": "linear", "out_features": node.shape.channels}


def _pool(node: PimcompNode, providers: Sequence[PimcompNode]) -> Fields:
    source = _only(node, providers).shape
    average = node.number("pool_method", 0, least=0) == 1
    if node.param.get("global") in (1, True):
        return {"op": "global_avgpool" if average else "global_maxpool"}
    fields: Fields = {
        "op": "avgpool" if average else "maxpool",
        "kernel": node.pair("kernel"),
        "stride": node.pair("stride", 1),
        "pads": node.pads(),
        "dilation": node.pair("dilation", 1),
    }
    geometry = Geometry(fields["kernel"], fields["stride"], Pads(*fields["pads"]), fields["dilation"])
    floor, ceil = (_pooled(source, geometry, ceil_mode=mode) for mode in (False, True))
    stated = (node.shape.height, node.shape.width)
    return fields | {"ceil_mode": stated == ceil != floor}


def _pooled(source: Shape, geometry: Geometry, *, ceil_mode: bool) -> tuple[int, int]:
    height, width = (
        pooled_extent(
            extent,
            geometry.span(axis),
            geometry.stride[axis],
            geometry.pads.along(axis),
            ceil_mode=ceil_mode,
        )
        for axis, extent in enumerate((source.height, source.width))
    )
    return height, width


def _elementwise(node: PimcompNode, providers: Sequence[PimcompNode]) -> Fields:
    if len(providers) == 1:
        return {"op": "activation"}
    product = node.number("eletype", 2, least=0) in _ELEMENT_PRODUCTS
    return {"op": "mul" if product else "add"}


def _concat(_node: PimcompNode, _providers: Sequence[PimcompNode]) -> Fields:
    return {"op": "concat"}


def _flatten(node: PimcompNode, providers: Sequence[PimcompNode]) -> Fields:
    _only(node, providers)
    return {"op": "flatten"}


def _reshape(node: PimcompNode, providers: Sequence[PimcompNode]) -> Fields:
    """The grid kept: pixelwise over the channels; one vector: flatten; else all pixels are needed."""
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
    return unknown(node, providers)


def _select(node: PimcompNode, providers: Sequence[PimcompNode]) -> Fields:
    if (node.shape.height, node.shape.width) != _grid(_only(node, providers)):
        return unknown(node, providers)
    return {"op": "select", "channels": node.shape.channels}


def _upsample(node: PimcompNode, providers: Sequence[PimcompNode]) -> Fields:
    height, width = _grid(_only(node, providers))
    if node.shape.height % height or node.shape.width % width:
        return unknown(node, providers)
    return {"op": "upsample", "scale": (node.shape.height // height, node.shape.width // width)}


def _pad(node: PimcompNode, providers: Sequence[PimcompNode]) -> Fields:
    """Rows and columns around the input: a 1 x 1 window over the padded input."""
    _only(node, providers)
    keys = ("pad_2_h", "pad_3_h", "pad_2_w", "pad_3_w")
    return {"op": "maxpool", "kernel": 1, "pads": [node.number(key, 0, least=0) for key in keys]}


def _pixelwise(op: str) -> Rule:
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


_activation = _pixelwise("activation")
OPERATIONS: Mapping[str, Rule] = {
    "OP_INPUT": _input,
    "OP_CONV": _conv,
    "OP_FC": _linear,
    "OP_MATMUL": _matmul,
    "OP_POOL": _pool,
    "OP_ELTWISE": _elementwise,
    "OP_CONCAT": _concat,
    "OP_FLATTEN": _flatten,
    "OP_RESHAPE": _reshape,
    "OP_TRANSPOSE": _reshape,
    "OP_SQUEEZE": _reshape,
    "OP_UNSQUEEZE": _reshape,
    "OP_SHUFFLE": _pixelwise("identity"),
    "OP_SPLIT": _select,
    "OP_SLICE": _select,
    "OP_UPSAMPLE": _upsample,
    "OP_RESIZE": _upsample,
    "OP_PAD": _pad,
    "OP_RELU": _pixelwise("relu"),
    "OP_BN": _pixelwise("batchnorm"),
    "OP_DROPOUT": _pixelwise("dropout"),
    "OP_SOFTMAX": _pixelwise("softmax"),
    "OP_LRN": _activation,
    "OP_SIGMOID": _activation,
    "OP_TANH": _activation,
    "OP_CLIP": _activation,
    "OP_PRELU": _activation,
    "OP_LEAKYRELU": _activation,
    "OP_HARDSWISH": _activation,
    "OP_HARDSIGMOID": _activation,
}
