"""Operators of one pixel, or of the same pixel of several tensors; normalisations and reductions, which are
pixelwise over channels, and over the grid a barrier or a pooling.

Source: docs/sources/model.md 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from rramalloc.importers.axes import (
    IMAGES,
    INNER,
    AxisRoles,
    Dims,
    canonical,
    images_of,
    is_of_images,
    move,
    shape_of,
)
from rramalloc.importers.onnx.shapes import ACTIVATIONS, PRODUCTS, SAME, SUMS, broadcast
from rramalloc.importers.onnx.step import Handler, OnnxOperator
from rramalloc.importers.onnx.tensors import Constant, Tensor, Value, default_nchw_layout, dropped, tensor


def combine(step: OnnxOperator, op: str, values: Sequence[Value], suffix: str = "") -> Tensor:
    """Combine operands value by value with broadcasting; constants only change the shape.

    A data operand that is one pixel is broadcast by the network node; pixels repeated along one axis of
    the grid are an upsampling, channels repeated a selection.
    """
    sizes, operands = step.operands(values)
    dims = broadcast(step, sizes)
    data = [x.aligned(len(dims)) for x in operands]
    layout = _layout(dims, data)
    if len(data) == 1:
        return step.pixelwise(step.expand(data[0], dims, layout), "activation")
    fitted = [_fit(step, x, dims, layout) for x in data]
    name = step.emit(op, [x.node for x in fitted], suffix)
    if step.builder.shapes[name] != shape_of(dims, layout):
        inner = broadcast(step, [x.dims for x in fitted])
        return step.expand(tensor(name, inner, layout), dims, layout)
    return tensor(name, dims, layout)


def _layout(dims: Dims, data: Sequence[Tensor]) -> AxisRoles:
    """Return the role of each axis of the result: as in the largest operand that is as long there."""
    ranked = sorted(data, key=lambda x: -x.shape.pixels * x.shape.channels)
    lead, guess, roles = ranked[0], default_nchw_layout(dims), []
    for axis, size in enumerate(dims):
        long = [x.layout[axis] for x in ranked if x.dims[axis] == size > 1]
        inner = tuple(atom._replace(level=(INNER + axis, *atom.level)) for atom in (long or [guess[axis]])[0])
        roles.append(lead.layout[axis] if lead.dims[axis] == size else inner)
    return canonical(dims, roles)


def _fit(step: OnnxOperator, x: Tensor, dims: Dims, layout: AxisRoles) -> Tensor:
    """Return the operand as the node can broadcast it: equal grid or one pixel, all images or one, all
    channels or one."""
    axes = list(zip(x.dims, dims, layout, strict=True))
    # One image is shared by all; else the operand has as many as the result.
    is_shared = not any(have > 1 and atom.grid == IMAGES for have, _, role in axes for atom in role)
    if x.shape.grid == (1, 1) and not any(
        have > 1 for have, _, role in axes if role and not is_of_images(role)
    ):
        wide = tuple(want if is_of_images(role) and not is_shared else have for have, want, role in axes)
        x = step.expand(x, wide, [role if is_of_images(role) else () for role in layout], "images")
        if x.shape.channels in (1, shape_of(dims, layout).channels):
            return x
        return step.expand(
            x,
            tuple(have if role else want for have, (_, want, role) in zip(wide, axes, strict=True)),
            x.layout,
        )
    has_channels = any(have > 1 and not role for have, _, role in axes)
    wide = tuple(
        want if (role or has_channels) and not (is_shared and is_of_images(role)) else have
        for have, want, role in axes
    )
    return step.expand(x, wide, layout)


def one_value(step: OnnxOperator, op: str) -> Sequence[Value]:
    """Apply a function of one value (LRN: of one pixel); the mask of Dropout, its second output, follows."""
    return [step.pixelwise(step.data(), op)]


def identity(step: OnnxOperator) -> Sequence[Value]:
    """Translate conversions that keep every value in place; CastLike may take only its type from data, and
    constants may be quantised by a computed scale."""
    value = step.need(0)
    if isinstance(value, Tensor):
        return one_value(step, "identity")
    if step.op == "CastLike" and isinstance(step.value(1), Tensor):
        return [replace(value, array=None)]  # values of another type, which data decides
    scales = [x for x in step.values[1:] if isinstance(x, Tensor)]
    dims = step.size(value)
    return [step.barrier(scales, dims, default_nchw_layout(dims))] if scales else [value]


def arithmetic(step: OnnxOperator, op: str, operands: Sequence[int] | None = None) -> Sequence[Value]:
    """Translate operators on several operands, all inputs unless said; op: their network node."""
    values = step.values if operands is None else [step.need(index) for index in operands]
    return [combine(step, op, [value for value in values if value is not None])]


def expanded(step: OnnxOperator) -> Sequence[Value]:
    """Translate Expand: repetition along axes of length 1."""
    x, target, batch = step.data(), step.known_integers(1, "shape") or (), step.builder.batch
    if any(size < 1 for size in target):
        raise step.fault("shape", "every length must be at least 1")
    if batch > 1 and len(target) == len(x.dims) and (target[0], x.dims[0]) == (batch, 1):
        target = (1, *target[1:])
    return [combine(step, "add", [x, Constant(dims=target)])]


def dynamic_quantise(step: OnnxOperator) -> Sequence[Value]:
    """Translate DynamicQuantizeLinear: its scale, a minimum over all pixels, is taken as calibrated."""
    scalar, y = Constant(dims=()), step.pixelwise(step.data(), "identity")
    step.builder.approximate([y.node], step.label, "is taken as calibrated: its scale is known beforehand")
    return [y, scalar, scalar]


def over(step: OnnxOperator, x: Tensor, axes: Sequence[int], op: str) -> Tensor:
    """Return a pixelwise node if the axes hold channels only, else a barrier."""
    if any(x.layout[axis] for axis in axes):
        alone = not any(atom.grid == IMAGES for axis in axes for atom in x.layout[axis])
        return step.barrier([x], x.dims, x.layout, keeps_images=alone)
    return step.pixelwise(x, op)


def cumulative(step: OnnxOperator) -> Sequence[Value]:
    """Translate CumSum: along channels pixelwise."""
    x, given = step.data(), step.known_integers(1, "axis")
    if given and not x.layout[step.axis(given[0], len(x.dims))]:
        return one_value(step, "activation")
    return waiting(step)


def waiting(step: OnnxOperator) -> Sequence[Value]:
    """Translate operators of known meaning that need all of each element of a batch and keep its shape."""
    x = step.data()
    return [over(step, x, range(1 if is_of_images(x.layout[0]) else 0, len(x.dims)), "layernorm")]


def batch_norm(step: OnnxOperator) -> Sequence[Value]:
    """Translate BatchNormalization as in inference: a factor and offset for each channel."""
    y = step.pixelwise(step.data(), "batchnorm")
    is_training = bool(step.integer("training_mode", 0))
    if step.opset < 14:  # then its further outputs say so, and before opset 7 an attribute
        is_training = any(step.proto.output[1:]) if step.opset >= 7 else not step.integer("is_test", 0)
    if is_training:
        treatment = "is in training mode: read as in inference, with the mean and variance of its inputs"
        step.builder.approximate([y.node], step.label, treatment)
    return [y, Constant(dims=None)]


def _axes_from(step: OnnxOperator, x: Tensor, default: int) -> range:
    """Return the axes from the attribute `axis` on."""
    axis, rank = step.integer("axis", default), len(x.dims)
    return range(rank if axis == rank else step.axis(axis, rank), rank)


def layer_norm(step: OnnxOperator) -> Sequence[Value]:
    """Translate LayerNormalization and its kin: over the axes from `axis` on; mean and deviation follow."""
    x = step.data()
    axes = _axes_from(step, x, -1)
    y = over(step, x, axes, "layernorm")
    if not any(step.proto.output[1:]):
        return [y]
    small = (*x.dims[: axes.start], *[1] * len(axes))
    if any(x.layout[axis] for axis in axes):
        return [y, step.barrier([x], small, x.layout, "mean")]
    return [y, step.select(x, small, x.layout, "mean")]


def added_norm(step: OnnxOperator, op: str) -> Sequence[Value]:
    """Translate SkipLayerNormalization and BiasSoftmax, over the last axes of a sum, their output 3."""
    total = combine(step, "add", [step.need(0), step.need(1)], "sum")
    axes = _axes_from(step, total, 1 if op == "softmax" else -1)
    unused = Constant(dims=None)  # mean and deviation, of training
    return [over(step, total, axes, op), unused, unused, total]


def one_axis_norm(step: OnnxOperator) -> Sequence[Value]:
    """Translate LpNormalization."""
    x = step.data()
    return [over(step, x, _axes_from(step, x, -1)[:1], "layernorm")]


def mean_variance(step: OnnxOperator) -> Sequence[Value]:
    """Translate MeanVarianceNormalization: batch and grid by default."""
    x = step.data()
    axes = step.integers("axes") or tuple(axis for axis in (0, 2, 3) if axis < len(x.dims))
    return [over(step, x, step.axes(axes, len(x.dims)), "layernorm")]


def softmax(step: OnnxOperator) -> Sequence[Value]:
    """Translate Softmax, LogSoftmax, Hardmax: one axis; before opset 13 all axes from `axis` on."""
    x, is_new = step.data(), step.integer("opset", step.opset) >= 13  # QLinearSoftmax says which one it means
    axes = _axes_from(step, x, -1 if is_new else 1)
    return [over(step, x, axes[:1] if is_new else axes, "softmax")]


def reduced(step: OnnxOperator, x: Tensor, axes: Sequence[int], keepdims: bool, op: str) -> Tensor:
    """Return one value for all along the axes; `op`: the network's global pooling that stands for it."""
    images = {axis for axis in axes if is_of_images(x.layout[axis])}
    if images:
        rest = [axis for axis in axes if x.dims[axis] > 1 and axis not in images]
        y = _reduced_images(step, x, sorted(images), is_all=not rest)
        y = reduced(step, y, rest, True, op) if rest else y
        return y if keepdims else dropped(y, axes)
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(x.dims))
    if any(atom.grid == IMAGES for axis in axes for atom in x.layout[axis]):  # and of the grid, in one axis
        roles = [() if axis in axes else role for axis, role in enumerate(x.layout)]
        y = step.barrier([x], kept, roles, because="reduces images and a part of their grid")
        return y if keepdims else dropped(y, axes)
    channels = any(x.dims[axis] > 1 and not x.layout[axis] for axis in axes)
    inside = x.grid_axes & set(axes)
    if inside:
        layout = tuple(() if axis in inside else role for axis, role in enumerate(x.layout))
        sizes = tuple(1 if axis in inside else size for axis, size in enumerate(x.dims))
        is_whole = inside == {axis for axis in x.grid_axes if not is_of_images(x.layout[axis])}
        blocks = None if is_whole else move(x.dims, x.layout, x.dims, layout)
        if is_whole:
            y = tensor(step.emit(op, [x.node], "pool" if channels else ""), sizes, layout)
        elif blocks is not None:
            local = op.removeprefix("global_")
            y = tensor(step.emit(local, [x.node], kernel=blocks.pool, stride=blocks.pool), sizes, layout)
        if not is_whole and blocks is None:
            y = step.barrier([x], kept, layout, because="reduces a part of the grid")
        elif channels:
            y = step.select(y, kept, layout, "" if is_whole else "channels")
    elif channels:
        y = step.select(x, kept, x.layout)
    elif not x.grid_axes and (step.op.startswith("Global") or {2, 3} <= set(axes)):
        y = tensor(step.emit(op, [x.node]), kept, x.layout)
    else:
        y = step.pixelwise(x, "identity")
    return y if keepdims else dropped(y, axes)


def _reduced_images(step: OnnxOperator, x: Tensor, axes: Sequence[int], *, is_all: bool) -> Tensor:
    """Return a value of every pixel for all images along the axes, or for groups of neighbours among them.

    is_all: whether nothing else is reduced.
    """
    dims = tuple(1 if axis in axes else size for axis, size in enumerate(x.dims))
    layout = canonical(dims, [() if axis in axes else role for axis, role in enumerate(x.layout)])
    atoms = sorted(
        (a.level, axis in axes) for axis, role in enumerate(x.layout) for a in role if a.grid == IMAGES
    )
    groups = [is_gone for _, is_gone in atoms]
    if groups != sorted(groups):
        return step.barrier([x], dims, layout, "frames", because="reduces images that are no neighbours")
    node = step.emit("reduce", [x.node], "" if is_all else "frames", images=images_of(layout))
    return tensor(node, dims, layout)


def reduction(step: OnnxOperator, op: str) -> Sequence[Value]:
    """Translate ReduceMean and its kin, and global pooling over every axis behind the channels."""
    x = step.data()
    rank, axes = len(x.dims), None
    if "Global" in step.op:
        if rank < 3:
            raise step.mismatch("X", f"global pooling needs data with a grid, got rank {rank}")
        return [reduced(step, x, range(2, rank), True, op)]
    axes = step.axes_of(rank)
    if not axes and step.integer("noop_with_empty_axes", 0):
        return [step.pixelwise(x, "identity")]
    return [reduced(step, x, axes or range(rank), bool(step.integer("keepdims", 1)), op)]


_ONE_VALUE = {"relu": ("Relu",), "dropout": ("Dropout",), "activation": ACTIVATIONS}
_REDUCTIONS = {
    "global_avgpool": "ReduceMean ReduceSum ReduceSumSquare ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp "
    "ReduceProd GlobalAveragePool QLinearGlobalAveragePool GlobalLpPool",
    "global_maxpool": "ReduceMax ReduceMin GlobalMaxPool",
}
_ADDED_NORMS = {
    "layernorm": "SkipLayerNormalization SkipSimplifiedLayerNormalization",
    "softmax": "BiasSoftmax",
}
_QLINEAR = {"QLinearAdd": ("add", (0, 3)), "QLinearMul": ("mul", (0, 3)), "QLinearWhere": ("add", (0, 1, 4))}
"""The network node of operators that also take scales and zero points, and the places of their operands."""
_FAMILIES: dict[Handler, str] = {
    identity: " ".join(SAME),
    waiting: "InstanceNormalization GroupNormalization GroupNorm",
    layer_norm: "LayerNormalization RMSNormalization SimplifiedLayerNormalization",
    softmax: "Softmax QLinearSoftmax LogSoftmax Hardmax",
    one_axis_norm: "LpNormalization",
    mean_variance: "MeanVarianceNormalization",
    batch_norm: "BatchNormalization",
    expanded: "Expand",
    cumulative: "CumSum CumProd",
    dynamic_quantise: "DynamicQuantizeLinear",
}
HANDLERS: dict[str, Handler] = {
    **{name: rule for rule, names in _FAMILIES.items() for name in names.split()},
    **{name: partial(one_value, op=op) for op, names in _ONE_VALUE.items() for name in names},
    **{name: partial(reduction, op=op) for op, names in _REDUCTIONS.items() for name in names.split()},
    **{name: partial(added_norm, op=op) for op, names in _ADDED_NORMS.items() for name in names.split()},
    **{name: partial(arithmetic, op=op, operands=places) for name, (op, places) in _QLINEAR.items()},
    **dict.fromkeys(SUMS, partial(arithmetic, op="add")),
    **dict.fromkeys(PRODUCTS, partial(arithmetic, op="mul")),
}
