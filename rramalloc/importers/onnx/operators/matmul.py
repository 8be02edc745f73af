"""Matrix products: with constant weights a stage, of two data tensors a digital node."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rramalloc.importers.axes import INNER, Atom, Dims, Layout, canonical, shape_of
from rramalloc.importers.onnx.drawing import Drawing, Handler, barrier, channelled, expand, relayout, select
from rramalloc.importers.onnx.operators.elementwise import combine
from rramalloc.importers.onnx.shapes import MAX_DIM, broadcast, shown
from rramalloc.importers.onnx.step import Step
from rramalloc.importers.onnx.tensors import Constant, Tensor, Value, gridded, tensor
from rramalloc.records import brief


def linear(drawing: Drawing, step: Step, x: Tensor, axis: int, features: int, weights: Constant) -> Tensor:
    """Constant weights applied along one axis; every other axis is the grid."""
    bits = x.bits
    pixels = [k for k, size in enumerate(x.dims) if size > 1 and k != axis]
    want = gridded(x.dims, [axis])
    if any(x.layout[k] for k in pixels):
        inner = {k: (Atom(x.dims[k], 1, (INNER + k,)),) for k in pixels if not x.layout[k]}
        want = canonical(x.dims, [() if k == axis else inner.get(k, role) for k, role in enumerate(x.layout)])
    x = relayout(drawing, step, x, want)
    dims = (*x.dims[:axis], features, *x.dims[axis + 1 :])
    layout = tuple(() if k == axis else role for k, role in enumerate(x.layout))
    kept: dict[str, Any] = {"weights": weights.origin, "weight_bits": weights.bits, "input_bits": bits}
    return tensor(drawing.emit(step, "linear", [x.node], out_features=features, **kept), dims, layout)


def _product(drawing: Drawing, step: Step, a: Value, b: Value, first: int = 0, second: int = 1) -> Tensor:
    """MatMul of operands with at least one that is data. Raises NetworkError if inner lengths differ."""
    left, right = step.dims(first), step.dims(second)
    if not left or not right:
        raise step.mismatch("inputs", "a scalar cannot be multiplied as a matrix")
    inner = left[-1], right[-2] if len(right) > 1 else right[0]
    if inner[0] != inner[1]:
        raise step.mismatch(
            "inputs", f"{shown(left)} times {shown(right)}: inner lengths {inner[0]} and {inner[1]} differ"
        )
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return _dynamic(drawing, step, a, b)
    if isinstance(a, Tensor) and isinstance(b, Constant):
        return _by_weight(drawing, step, a, right, b, after=True)
    if isinstance(a, Constant) and isinstance(b, Tensor):
        return _by_weight(drawing, step, b, left, a, after=False)
    raise step.unsupported("none of its operands is data")


def _by_weight(
    drawing: Drawing, step: Step, x: Tensor, weight: Dims, constant: Constant, *, after: bool
) -> Tensor:
    """x @ weight if after, else weight @ x."""
    rank = len(x.dims)
    groups = math.prod(weight[:-2])
    features = (weight[-1] if after else weight[-2]) if len(weight) > 1 else 1
    axis = rank - 1 if after or rank == 1 else rank - 2
    if groups > 1:
        return _grouped(drawing, step, x, weight, constant, features, axis)
    lead = len(weight) - rank
    if lead > 0:
        x, axis = x.aligned(len(weight)), axis + lead
    y = linear(drawing, step, x, axis, features, constant)
    if len(weight) == 1:
        return tensor(y.node, y.dims[:axis] + y.dims[axis + 1 :], y.layout[:axis] + y.layout[axis + 1 :])
    return y


def _grouped(
    drawing: Drawing, step: Step, x: Tensor, weight: Dims, constant: Constant, features: int, axis: int
) -> Tensor:
    """A stack of weight matrices, one for each group of channels."""
    lead = weight[:-2]
    heads = x.dims[:-2][-len(lead) :]
    fits = heads == lead and all(not x.layout[k] for k in range(len(x.dims) - 2 - len(lead), len(x.dims) - 2))
    if not fits or x.layout[axis]:
        raise step.unsupported(
            f"a stack of {math.prod(lead)} weight matrices ({shown(weight)}) on data of {shown(x.dims)} "
            f"is no grouped layer"
        )
    groups = math.prod(lead)
    kept: dict[str, Any] = {"weights": constant.origin, "weight_bits": constant.bits, "input_bits": x.bits}
    name = drawing.emit(
        step, "conv", [x.node], out_channels=groups * features, kernel=(1, 1), groups=groups, **kept
    )
    dims = (*x.dims[:axis], features, *x.dims[axis + 1 :])
    return tensor(name, dims, [() if k == axis else role for k, role in enumerate(x.layout)])


def _dynamic(drawing: Drawing, step: Step, a: Tensor, b: Tensor) -> Tensor:
    """Product of two data tensors: an output pixel needs its pixel of one operand and all of the other.

    Source: docs/sources/model.md 2 (dynamic matmul's second operand: all pixels).
    """
    rank = max(len(a.dims), len(b.dims), 2)
    if min(len(a.dims), len(b.dims)) < 2:
        dims = _vector_product(a.dims, b.dims)
        return barrier(drawing, step, [a, b], dims, gridded(dims, [len(dims) - 1] if dims else []))
    a, b = a.aligned(rank), b.aligned(rank)
    lead = broadcast(step, [a.dims[:-2], b.dims[:-2]])
    dims = (*lead, a.dims[-2], b.dims[-1])
    if not a.layout[-1] and a.dims[:-2] == lead:
        streamed, other, layout = a, b, (*a.layout[:-1], ())
    elif not b.layout[-2] and b.dims[:-2] == lead:
        streamed, other, layout = b, a, (*b.layout[:-2], (), b.layout[-1])
    else:
        return barrier(drawing, step, [a, b], dims, gridded(dims, [*range(rank - 2), rank - 1]))
    channels = shape_of(dims, canonical(dims, layout)).channels
    operand = _operand(drawing, step, other, dims, layout)
    if streamed.shape.channels != channels:
        streamed = select(drawing, step, streamed, dims, layout, "match")
    return tensor(drawing.emit(step, "mul", [streamed.node, operand.node]), dims, layout)


def _operand(drawing: Drawing, step: Step, x: Tensor, dims: Dims, layout: Layout) -> Tensor:
    """The operand that is needed whole, as each pixel of the result needs it: one pixel, or one a block."""
    shared = {k for k in range(len(dims) - 2) if x.dims[k] == dims[k] and layout[k] and x.layout[k]}
    if not shared:
        pooled = x.node
        if x.shape.pixels > 1:
            pooled = drawing.emit(step, "global_maxpool", [pooled], "operand")
        channels = shape_of(dims, canonical(dims, layout)).channels
        return select(
            drawing, step, tensor(pooled, (1, x.shape.channels), ((), ())), (1, channels), ((), ()), "operand"
        )
    x = channelled(drawing, step, x, set(range(len(dims))) - shared, "operand")
    block = tensor(x.node, [size if k in shared else 1 for k, size in enumerate(dims)], x.layout)
    return expand(drawing, step, block, dims, layout, "operand")


def _vector_product(a: Dims, b: Dims) -> Dims:
    if len(a) == 1:
        return (*b[:-2], *b[-1:]) if len(b) > 1 else ()
    return a[:-1]


def matmul(drawing: Drawing, step: Step) -> Sequence[Value]:
    """MatMul, MatMulInteger: operands are inputs 0 and 1."""
    return [_product(drawing, step, step.need(0), step.need(1))]


def quantised_matmul(drawing: Drawing, step: Step) -> Sequence[Value]:
    """QLinearMatMul: operands are inputs 0 and 3."""
    return [_product(drawing, step, step.need(0), step.need(3), 0, 3)]


def gemm(drawing: Drawing, step: Step, second: int = 1, bias_at: int = 2) -> Sequence[Value]:
    """Gemm: the bias costs nothing unless it is data. Raises NetworkError if shapes do not match."""
    a = _flip(step, 0, bool(step.integer("transA", 0)))
    b = _flip(step, second, bool(step.integer("transB", 0)))
    left, right = a.dims or (), b.dims or ()
    if left[1] != right[0]:
        raise step.mismatch(
            "inputs", f"{shown(left)} times {shown(right)}: inner lengths {left[1]} and {right[0]} differ"
        )
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        y = _dynamic(drawing, step, a, b)
    elif isinstance(a, Tensor) and isinstance(b, Constant):
        y = _by_weight(drawing, step, a, right, b, after=True)
    elif isinstance(a, Constant) and isinstance(b, Tensor):
        y = _by_weight(drawing, step, b, left, a, after=False)
    else:
        raise step.unsupported("both operands are constant and only the bias is data")
    bias = step.value(bias_at)
    return [combine(drawing, step, "add", [y, bias], "bias") if isinstance(bias, Tensor) else y]


def _flip(step: Step, index: int, flip: bool) -> Value:
    value, dims = step.need(index), step.dims(index)
    if len(dims) != 2:
        raise step.mismatch("inputs", f"Gemm multiplies matrices, input {index} is {shown(dims)}")
    if not flip:
        return value
    if isinstance(value, Constant):
        return Constant(dims=dims[::-1], origin=value.origin, bits=value.bits)
    return replace(tensor(value.node, dims[::-1], value.layout[::-1]), bits=value.bits)


def few_bits(drawing: Drawing, step: Step) -> Sequence[Value]:
    """MatMulNBits: N columns of K weights, packed; attributes say how many of how many bits."""
    features, inner, bits = step.integer("N", 0), step.integer("K", 0), step.integer("bits", 4)
    x = step.data()
    if not x.dims or x.dims[-1] != inner or not 1 <= features <= MAX_DIM or not 1 <= bits <= 16:
        raise step.mismatch(
            "K",
            f"{brief(inner)} x {brief(features)} weights of {brief(bits)} bits on data of {shown(x.dims)}",
        )
    packed = step.need(1)
    origin = packed.origin if isinstance(packed, Constant) else ""
    weights = Constant(dims=(inner, features), origin=origin, bits=bits)
    return [linear(drawing, step, x, len(x.dims) - 1, features, weights)]


HANDLERS: dict[str, Handler] = {
    "MatMul": matmul,
    "MatMulInteger": matmul,
    "MatMulIntegerToFloat": matmul,
    "DynamicQuantizeMatMul": matmul,
    "MatMulNBits": few_bits,
    "QLinearMatMul": quantised_matmul,
    "Gemm": gemm,
    "QGemm": partial(gemm, second=3, bias_at=6),
}
