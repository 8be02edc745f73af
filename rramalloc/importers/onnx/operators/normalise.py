"""Normalisation and softmax: pixelwise over channels, barriers over the grid.

Source: docs/sources/model.md 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rramalloc.importers.axes import Dims
from rramalloc.importers.onnx.operators.channels import look_up
from rramalloc.importers.onnx.operators.elementwise import combine, whole
from rramalloc.importers.onnx.step import Handler, Step
from rramalloc.importers.onnx.tensors import Constant, Tensor, Value


def over(step: Step, x: Tensor, axes: Dims, op: str) -> Tensor:
    """Return a pixelwise node if the axes hold channels only, else a barrier."""
    if any(x.layout[axis] for axis in axes):
        return step.barrier([x], x.dims, x.layout)
    return step.pixelwise(x, op)


def batch_norm(step: Step) -> Sequence[Value]:
    """Translate BatchNormalization as at inference: one factor and offset for each channel, no running
    statistics."""
    return [step.pixelwise(step.data(), "batchnorm"), Constant(dims=None)]


def layer_norm(step: Step) -> Sequence[Value]:
    """Translate LayerNormalization and its kin: over the axes from `axis` on; mean and deviation follow."""
    x = step.data()
    axis = step.axis(step.integer("axis", -1), len(x.dims))
    y = over(step, x, tuple(range(axis, len(x.dims))), "layernorm")
    if not any(step.proto.output[1:]):
        return [y]
    small = (*x.dims[:axis], *[1] * (len(x.dims) - axis))
    if any(x.layout[axis:]):
        return [y, step.barrier([x], small, x.layout, "mean")]
    return [y, step.select(x, small, x.layout, "mean")]


def skip_layer_norm(step: Step) -> Sequence[Value]:
    """Translate SkipLayerNormalization and its kin: a sum, which is the last output, normalised over its last
    axis."""
    total = combine(step, "add", [step.need(0), step.need(1)], "sum")
    unused = Constant(dims=None)  # mean and deviation, of training
    return [over(step, total, (len(total.dims) - 1,), "layernorm"), unused, unused, total]


def embedded(step: Step) -> Sequence[Value]:
    """Translate EmbedLayerNormalization: rows of tables for tokens, places and segments, added and
    normalised."""
    data = [(step.value(at), step.value(table)) for at, table in ((0, 2), (8, 3), (1, 4))]
    rows = [
        look_up(replace(step, values=(table, index)))
        for index, table in data
        if isinstance(index, Tensor) and isinstance(table, Constant)
    ]
    if not rows:
        raise step.unsupported("none of its tokens, places and segments is data")
    total = combine(step, "add", rows, "sum") if len(rows) > 1 else rows[0]
    mask = step.value(7)
    length: Value = Constant(dims=total.dims[:1])
    if isinstance(mask, Tensor) and any(step.proto.output[1:2]):
        length = step.barrier([mask], mask.dims[:1], mask.layout[:1], "mask")
    return [over(step, total, (len(total.dims) - 1,), "layernorm"), length, total]


def one_axis_norm(step: Step) -> Sequence[Value]:
    """Translate LpNormalization."""
    x = step.data()
    return [over(step, x, (step.axis(step.integer("axis", -1), len(x.dims)),), "layernorm")]


def mean_variance(step: Step) -> Sequence[Value]:
    """Translate MeanVarianceNormalization: batch and grid by default."""
    x = step.data()
    axes = step.integers("axes") or tuple(axis for axis in (0, 2, 3) if axis < len(x.dims))
    return [over(step, x, step.axes(axes, len(x.dims)), "layernorm")]


def softmax(step: Step) -> Sequence[Value]:
    """Translate Softmax, LogSoftmax, Hardmax: one axis; before opset 13 all axes from `axis`
    (default 1) on."""
    x = step.data()
    rank = len(x.dims)
    if step.integer("opset", step.opset) >= 13:  # QLinearSoftmax says which one it means
        axes: Dims = (step.axis(step.integer("axis", -1), rank),)
    else:
        axis = step.integer("axis", 1)
        axes = tuple(range(rank if axis == rank else step.axis(axis, rank), rank))
    return [over(step, x, axes, "softmax")]


def bias_softmax(step: Step) -> Sequence[Value]:
    """Translate BiasSoftmax: a mask is added before the softmax over all axes from `axis` on."""
    total = combine(step, "add", [step.need(0), step.need(1)], "sum")
    axis = step.axis(step.integer("axis", 1), len(total.dims))
    return [over(step, total, tuple(range(axis, len(total.dims))), "softmax")]


HANDLERS: dict[str, Handler] = {
    "BiasSoftmax": bias_softmax,
    "BatchNormalization": batch_norm,
    "InstanceNormalization": whole,
    "GroupNormalization": whole,
    "GroupNorm": whole,
    "LayerNormalization": layer_norm,
    "RMSNormalization": layer_norm,
    "SimplifiedLayerNormalization": layer_norm,
    "SkipLayerNormalization": skip_layer_norm,
    "SkipSimplifiedLayerNormalization": skip_layer_norm,
    "EmbedLayerNormalization": embedded,
    "LpNormalization": one_axis_norm,
    "MeanVarianceNormalization": mean_variance,
    "Softmax": softmax,
    "QLinearSoftmax": softmax,
    "LogSoftmax": softmax,
    "Hardmax": softmax,
}
