"""Operators that work value by value: activations, arithmetic, comparison."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from rramalloc.importers.onnx.drawing import Drawing, Handler, barrier, expand, pixelwise, relayout
from rramalloc.importers.onnx.shapes import broadcast
from rramalloc.importers.onnx.step import Step
from rramalloc.importers.onnx.tensors import (
    Constant,
    Dims,
    Tensor,
    Value,
    canonical,
    shape_of,
    tensor,
    usual,
)

# fmt: off
ACTIVATIONS = (
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BiasGelu", "BitwiseNot", "Ceil", "Celu",
    "Clip", "Cos", "Cosh", "Elu", "Erf", "Exp", "FastGelu", "Floor", "Gelu", "HardSigmoid", "HardSwish",
    "IsInf", "IsNaN", "LRN", "LeakyRelu", "Log", "Mish", "Neg", "Not", "PRelu", "QLinearLeakyRelu",
    "QLinearSigmoid", "QuickGelu", "Reciprocal", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin",
    "Sinh", "Softplus", "Softsign", "Sqrt", "Swish", "Tan", "Tanh", "ThresholdedRelu",
)
SUMS = (
    "Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal", "Greater", "GreaterOrEqual",
    "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod", "Or", "Pow", "Sub", "Sum", "Where", "Xor",
)
# fmt: on
SAME = ("Identity", "Cast", "CastLike", "QuantizeLinear", "DequantizeLinear")
PRODUCTS = ("Mul", "Div")


def combine(drawing: Drawing, step: Step, op: str, values: Sequence[Value], suffix: str = "") -> Tensor:
    """Value by value with broadcasting; constants only change the shape.

    A data operand that is one pixel is broadcast by the network node; pixels repeated along one axis of
    the grid are an upsampling, channels repeated a selection.
    """
    sizes = [value.dims for value in values if value.dims is not None]
    if len(sizes) < len(values):
        raise step.unsupported(
            "the shape of a constant operand is not known: simplify the model before the import"
        )
    dims = broadcast(step, sizes)
    rank = len(dims)
    data = [value.aligned(rank) for value in values if isinstance(value, Tensor)]
    layout = _layout(dims, data)
    data = [_on(drawing, step, x, layout) for x in data]
    if len(data) == 1:
        x = data[0] if data[0].dims == dims else expand(drawing, step, data[0], dims, layout)
        return pixelwise(drawing, step, x, "activation")
    height, width = shape_of(dims, layout)[1:]
    grids = {x.shape[1:] for x in data} - {(1, 1)}
    fitted = [_fit(drawing, step, x, dims, layout, bool(grids)) for x in data]
    name = drawing.emit(step, op, [x.node for x in fitted], suffix)
    shape = drawing.shapes[name]
    if (shape.height, shape.width) != (height, width) or shape.channels != shape_of(dims, layout).channels:
        inner = broadcast(step, [x.dims for x in fitted])
        return expand(drawing, step, tensor(name, inner, layout), dims, layout)
    return tensor(name, dims, layout)


def _layout(dims: Dims, data: Sequence[Tensor]) -> str:
    """What each axis of the result means: as in the largest operand that says it."""
    ranked = sorted(data, key=lambda x: -x.shape.channels * x.shape.pixels)
    guess = usual(dims)
    roles = []
    for axis in range(len(dims)):
        told = [x.layout[axis] for x in ranked if x.layout[axis] != "1"]
        roles.append(told[0] if told else guess[axis])
    return canonical(dims, "".join(roles))


def _on(drawing: Drawing, step: Step, x: Tensor, layout: str) -> Tensor:
    if all(have in ("1", want) for have, want in zip(x.layout, layout, strict=True)):
        return x
    return relayout(drawing, step, x, layout)


def _fit(drawing: Drawing, step: Step, x: Tensor, dims: Dims, layout: str, gridded: bool) -> Tensor:
    """The operand as the network node can broadcast it: equal grid or one pixel, equal channels or one."""
    target = [
        want
        if (role in "YX" and gridded and x.shape.pixels > 1) or (role == "C" and x.shape.channels > 1)
        else have
        for have, want, role in zip(x.dims, dims, layout, strict=True)
    ]
    wanted = shape_of(target, canonical(target, layout))
    if x.shape.channels not in (1, wanted.channels) or x.shape[1:] != wanted[1:]:
        return expand(drawing, step, x, tuple(target), layout)
    return x


def activation(drawing: Drawing, step: Step) -> Sequence[Value]:
    """Any function of one value (LRN: of one pixel)."""
    return [pixelwise(drawing, step, step.data(), "activation")]


def relu(drawing: Drawing, step: Step) -> Sequence[Value]:
    """Relu."""
    return [pixelwise(drawing, step, step.data(), "relu")]


def identity(drawing: Drawing, step: Step) -> Sequence[Value]:
    """Conversions that keep every value in place; CastLike may take only its type from data."""
    value = step.need(0)
    if isinstance(value, Constant):
        return [value]
    return [pixelwise(drawing, step, step.data(), "identity")]


def dropout(drawing: Drawing, step: Step) -> Sequence[Value]:
    """Dropout; the mask, its second output, follows the data."""
    return [pixelwise(drawing, step, step.data(), "dropout")]


def arithmetic(drawing: Drawing, step: Step, op: str) -> Sequence[Value]:
    """Operators on several operands; `op`: the network node that stands for them."""
    return [combine(drawing, step, op, [value for value in step.values if value is not None])]


def quantised_arithmetic(drawing: Drawing, step: Step, op: str) -> Sequence[Value]:
    """QLinearAdd, QLinearMul: operands are inputs 0 and 3."""
    return [combine(drawing, step, op, [step.need(0), step.need(3)])]


def expanded(drawing: Drawing, step: Step) -> Sequence[Value]:
    """Expand: repetition along axes of length 1."""
    x = step.data()
    target = step.known_integers(1, "shape") or ()
    if any(size < 1 for size in target):
        raise step.fault("shape", "every length must be at least 1")
    if drawing.batch > 1 and len(target) == len(x.dims) and target[0] == drawing.batch and x.dims[0] == 1:
        target = (1, *target[1:])
    return [combine(drawing, step, "add", [x, Constant(dims=target)])]


def dynamic_quantise(drawing: Drawing, step: Step) -> Sequence[Value]:
    """DynamicQuantizeLinear: scale and zero point, a minimum over all pixels, are taken as calibrated."""
    scalar = Constant(dims=())
    y = pixelwise(drawing, step, step.data(), "identity")
    drawing.approximate([y.node], step.label, "is taken as calibrated: its scale is known beforehand")
    return [y, scalar, scalar]


def whole(drawing: Drawing, step: Step) -> Sequence[Value]:
    """Operators of known meaning that need the whole input and keep its shape."""
    x = step.data()
    return [barrier(drawing, step, [x], x.dims, x.layout)]


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(ACTIVATIONS, activation),
    **dict.fromkeys(SAME, identity),
    **dict.fromkeys(SUMS, partial(arithmetic, op="add")),
    **dict.fromkeys(PRODUCTS, partial(arithmetic, op="mul")),
    "Relu": relu,
    "Dropout": dropout,
    "Expand": expanded,
    "DynamicQuantizeLinear": dynamic_quantise,
    "QLinearAdd": partial(quantised_arithmetic, op="add"),
    "QLinearMul": partial(quantised_arithmetic, op="mul"),
    "CumSum": whole,
}
