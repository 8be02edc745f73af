"""Each node as an operation of PIMCOMP / PIMSYN with its parameters, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rramalloc.export.subject import Subject, is_dilated
from rramalloc.network.geometry import Geometry, Pads, Shape, pooled_extent
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
_PIXELWISE: Mapping[str, str] = {
    "relu": "OP_RELU",
    "activation": "OP_SIGMOID",
    "batchnorm": "OP_BN",
    "identity": "OP_RESHAPE",
    "dropout": "OP_DROPOUT",
    "softmax": "OP_SOFTMAX",
}
_MAXIMUM, _AVERAGE = 0, 1
_PRODUCT, _SUM = 0, 2


def operation(subject: Subject, node: Node, tool: str) -> tuple[str, Fields]:
    """Operation and `param` of a node. Raises UnsupportedError."""
    match node:
        case Input():
            return "OP_INPUT", {}
        case Conv():
            return "OP_CONV", _conv(subject, node, tool)
        case Linear():
            return _linear(subject, node, tool)
        case Pool():
            return "OP_POOL", _pool(subject, node, tool)
        case GlobalPool():
            return "OP_POOL", _global_pool(subject.network.input_shape(node), node)
        case Flatten():
            return "OP_FLATTEN", {}
        case Concat() | Elementwise():
            return _merged(subject, node, tool)
        case Pixelwise() if node.op in _PIXELWISE:
            return _PIXELWISE[node.op], {}
    raise subject.refused(node, tool, f"has no operation for {node.op!r}")


def _conv(subject: Subject, node: Conv, tool: str) -> Fields:
    if tool == "PIMCOMP" and is_dilated(node):
        raise subject.refused(
            node, tool, f"works out the output size without dilation, this convolution has {node.dilation}"
        )
    return _window(node.geometry) | {
        "dilation_h": node.dilation[0], "dilation_w": node.dilation[1], "group": node.groups,
        "input_channel": subject.network.input_shape(node).channels, "output_channel": node.out_channels,
        "with_bias": 1,
    }  # fmt: skip


def _linear(subject: Subject, node: Linear, tool: str) -> tuple[str, Fields]:
    source = subject.network.input_shape(node)
    if not subject.is_fully_connected(node):
        as_conv = Conv(name=node.name, inputs=node.inputs, out_channels=node.out_features, kernel=(1, 1))
        return "OP_CONV", _conv(subject, as_conv, tool)
    names = ("num_input", "num_output") if tool == "PIMCOMP" else ("input_channel", "output_channel")
    return "OP_FC", {names[0]: source.channels, names[1]: node.out_features, "with_bias": 1}


def _pool(subject: Subject, node: Pool, tool: str) -> Fields:
    if is_dilated(node):
        raise subject.refused(node, tool, f"has no dilated pooling, this one has {node.dilation}")
    source, output = subject.network.input_shape(node), subject.network.shapes[node.name]
    pads = _explicit_pads(node.geometry, source, output)
    method = _AVERAGE if node.op == "avgpool" else _MAXIMUM
    return _window(node.geometry._replace(pads=pads)) | {"pool_method": method, "global": 0}


def _global_pool(source: Shape, node: GlobalPool) -> Fields:
    geometry = Geometry((source.height, source.width), (1, 1), Pads(0, 0, 0, 0), (1, 1))
    method = _AVERAGE if node.op == "global_avgpool" else _MAXIMUM
    return _window(geometry) | {"pool_method": method, "global": 1}


def _merged(subject: Subject, node: Concat | Elementwise, tool: str) -> tuple[str, Fields]:
    shapes = [subject.network.shapes[name] for name in node.inputs]
    if len({(shape.height, shape.width) for shape in shapes}) > 1:
        raise subject.refused(node, tool, "repeats no pixels: all inputs must have the same grid")
    if isinstance(node, Concat):
        return "OP_CONCAT", {}
    if len({shape.channels for shape in shapes}) > 1:
        raise subject.refused(node, tool, "repeats no channels: all inputs must have as many")
    if len(shapes) < 2:
        raise subject.refused(node, tool, "needs two inputs for an element-wise operation")
    return "OP_ELTWISE", {"eletype": _SUM if node.op == "add" else _PRODUCT}


def _explicit_pads(geometry: Geometry, source: Shape, output: Shape) -> Pads:
    """Pads with which rounding down gives the stated output: the tools have no `ceil_mode`."""
    after = []
    for axis, (extent, wanted) in enumerate(((source.height, output.height), (source.width, output.width))):
        before, behind = geometry.pads.along(axis)
        span, stride = geometry.span(axis), geometry.stride[axis]
        if pooled_extent(extent, span, stride, (before, behind), ceil_mode=False) != wanted:
            behind = max(0, (wanted - 1) * stride + span - extent - before)
        after.append(behind)
    return geometry.pads._replace(bottom=after[0], right=after[1])


def _window(geometry: Geometry) -> Fields:
    return {
        "kernel_h": geometry.kernel[0], "kernel_w": geometry.kernel[1],
        "stride_h": geometry.stride[0], "stride_w": geometry.stride[1],
        "pad_h0": geometry.pads.top, "pad_h1": geometry.pads.bottom,
        "pad_w0": geometry.pads.left, "pad_w1": geometry.pads.right,
    }  # fmt: skip
