"""Operators that work value by value: activations, arithmetic, comparison."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from rramalloc.importers.axes import INNER, Dims, Layout, canonical, shape_of
from rramalloc.importers.onnx.shapes import broadcast
from rramalloc.importers.onnx.step import Handler, Step
from rramalloc.importers.onnx.tensors import Constant, Tensor, Value, tensor, usual

# fmt: off
ACTIVATIONS = (
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BiasGelu", "BitwiseNot", "Ceil", "Celu",
    "Clip", "Cos", "Cosh", "Elu", "Erf", "Erfc", "Exp", "FastGelu", "Floor", "Gelu", "HardSigmoid",
    "HardSwish", "IsInf", "IsNaN", "LRN", "LeakyRelu", "Log", "Mish", "MultiThreshold", "Neg", "Not", "PRelu",
    "QLinearLeakyRelu",
    "QLinearSigmoid", "QuickGelu", "Reciprocal", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin",
    "Sinh", "Softplus", "Softsign", "Sqrt", "Swish", "Tan", "Tanh", "ThresholdedRelu",
)
SUMS = (
    "Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal", "Greater", "GreaterOrEqual",
    "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod", "Or", "Pow", "Sub", "Sum", "Where", "Xor",
    "BiasAdd", "BiasDropout",
)
# fmt: on
SAME = tuple(
    "Identity Cast CastLike QuantizeLinear DequantizeLinear "  # of ONNX
    "Quant IntQuant FloatQuant BipolarQuant Trunc".split()  # of QONNX
)
PRODUCTS = ("Mul", "Div")


def combine(step: Step, op: str, values: Sequence[Value], suffix: str = "") -> Tensor:
    """Combine operands value by value with broadcasting; constants only change the shape.

    A data operand that is one pixel is broadcast by the network node; pixels repeated along one axis of
    the grid are an upsampling, channels repeated a selection.
    """
    sizes, operands = step.operands(values)
    dims = broadcast(step, sizes)
    if not operands:
        raise step.unsupported("none of its operands is data")
    data = [x.aligned(len(dims)) for x in operands]
    layout = _layout(dims, data)
    if len(data) == 1:
        x = step.expand(data[0], dims, layout)
        return step.pixelwise(x, "activation")
    fitted = [_fit(step, x, dims, layout) for x in data]
    name = step.emit(op, [x.node for x in fitted], suffix)
    want = shape_of(dims, layout)
    if step.drawing.shapes[name] != want:
        inner = broadcast(step, [x.dims for x in fitted])
        return step.expand(tensor(name, inner, layout), dims, layout)
    return tensor(name, dims, layout)


def _layout(dims: Dims, data: Sequence[Tensor]) -> Layout:
    """Return the role of each axis of the result: as in the largest operand that is as long there."""
    ranked = sorted(data, key=lambda x: -x.shape.pixels * x.shape.channels)
    lead = ranked[0]
    guess = usual(dims)
    roles = []
    for axis, size in enumerate(dims):
        long = [x.layout[axis] for x in ranked if x.dims[axis] == size > 1]
        inner = tuple(atom._replace(level=(INNER + axis, *atom.level)) for atom in (long or [guess[axis]])[0])
        roles.append(lead.layout[axis] if lead.dims[axis] == size else inner)
    return canonical(dims, roles)


def _fit(step: Step, x: Tensor, dims: Dims, layout: Layout) -> Tensor:
    """Return the operand as the network node can broadcast it: equal grid or one pixel, equal channels or
    one."""
    if x.shape.pixels == 1 and not any(x.dims[axis] > 1 for axis, role in enumerate(layout) if role):
        channels = shape_of(dims, layout).channels
        if x.shape.channels in (1, channels):
            return x
        target = tuple(have if role else want for have, want, role in zip(x.dims, dims, layout, strict=True))
        return step.expand(x, target, ((),) * len(dims))
    has_channels = any(have > 1 and not role for have, role in zip(x.dims, layout, strict=True))
    target = tuple(
        want if role or has_channels else have for have, want, role in zip(x.dims, dims, layout, strict=True)
    )
    return step.expand(x, target, layout)


def one_value(step: Step, op: str) -> Sequence[Value]:
    """Apply a function of one value (LRN: of one pixel); the mask of Dropout, its second output,
    follows it."""
    return [step.pixelwise(step.data(), op)]


def identity(step: Step) -> Sequence[Value]:
    """Translate conversions that keep every value in place; CastLike may take only its type from data."""
    value = step.need(0)
    if isinstance(value, Constant):
        return [value]
    return [step.pixelwise(step.data(), "identity")]


def arithmetic(step: Step, op: str, operands: Sequence[int] | None = None) -> Sequence[Value]:
    """Translate operators on several operands, all inputs unless said; op: the network node that stands for
    them."""
    values = step.values if operands is None else [step.need(index) for index in operands]
    return [combine(step, op, [value for value in values if value is not None])]


def expanded(step: Step) -> Sequence[Value]:
    """Translate Expand: repetition along axes of length 1."""
    x = step.data()
    target = step.known_integers(1, "shape") or ()
    if any(size < 1 for size in target):
        raise step.fault("shape", "every length must be at least 1")
    if (
        step.drawing.batch > 1
        and len(target) == len(x.dims)
        and target[0] == step.drawing.batch
        and x.dims[0] == 1
    ):
        target = (1, *target[1:])
    return [combine(step, "add", [x, Constant(dims=target)])]


def dynamic_quantise(step: Step) -> Sequence[Value]:
    """Translate DynamicQuantizeLinear: scale and zero point, a minimum over all pixels, are taken as
    calibrated."""
    scalar = Constant(dims=())
    y = step.pixelwise(step.data(), "identity")
    step.drawing.approximate([y.node], step.label, "is taken as calibrated: its scale is known beforehand")
    return [y, scalar, scalar]


def cumulative(step: Step) -> Sequence[Value]:
    """Translate CumSum: along channels pixelwise."""
    x, given = step.data(), step.known_integers(1, "axis")
    if given and not x.layout[step.axis(given[0], len(x.dims))]:
        return one_value(step, "activation")
    return whole(step)


def whole(step: Step) -> Sequence[Value]:
    """Translate operators of known meaning that need the whole input and keep its shape."""
    x = step.data()
    if x.shape.pixels == 1:
        return [step.pixelwise(x, "layernorm")]
    return [step.barrier([x], x.dims, x.layout)]


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(ACTIVATIONS, partial(one_value, op="activation")),
    **dict.fromkeys(SAME, identity),
    **dict.fromkeys(SUMS, partial(arithmetic, op="add")),
    **dict.fromkeys(PRODUCTS, partial(arithmetic, op="mul")),
    "Relu": partial(one_value, op="relu"),
    "Dropout": partial(one_value, op="dropout"),
    "Expand": expanded,
    "DynamicQuantizeLinear": dynamic_quantise,
    "QLinearAdd": partial(arithmetic, op="add", operands=(0, 3)),
    "QLinearMul": partial(arithmetic, op="mul", operands=(0, 3)),
    "QLinearWhere": partial(arithmetic, op="add", operands=(0, 1, 4)),
    "CumSum": cumulative,
}
