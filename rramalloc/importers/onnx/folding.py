"""Evaluates small constants that determine shapes; anything large or fractional stays unknown."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rramalloc.errors import SpecError
from rramalloc.importers.onnx import shapes
from rramalloc.importers.onnx.protos import MAX_FOLDED, constant_of, dtype_of
from rramalloc.importers.onnx.step import Step
from rramalloc.importers.onnx.tensors import Array

Fold = Callable[[Step, Sequence[Array]], Sequence[Array] | None]


def fold(step: Step, arrays: Sequence[Array]) -> Sequence[Array] | None:
    """Outputs of an operator whose inputs are known, None if it is not one that shapes are made of.

    Raises SpecError if the operator cannot take these values.
    """
    rule = _RULES.get(step.op)
    if rule is None:
        return None
    try:
        with np.errstate(all="ignore"):
            return rule(step, arrays)
    except SpecError:
        raise
    except (ValueError, TypeError, IndexError, ArithmeticError) as error:
        raise step.fault("inputs", f"{step.op} cannot be evaluated on these constants: {error}") from None


def _small(*parts: Sequence[int]) -> bool:
    return math.prod(math.prod(part) for part in parts) <= MAX_FOLDED


def _elementwise(function: Callable[..., Any]) -> Fold:
    def rule(step: Step, arrays: Sequence[Array]) -> Sequence[Array] | None:
        if not _small(shapes.broadcast(step, [array.shape for array in arrays])):
            return None
        result = arrays[0]
        for array in arrays[1:]:
            result = np.asarray(function(result, array))
        return [result]

    return rule


def _unary(function: Callable[..., Any]) -> Fold:
    return lambda step, arrays: [np.asarray(function(arrays[0]))]


def _divide(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.asarray(a / b)  # type: ignore[operator]
    if not np.all(b):
        raise ZeroDivisionError("division by zero")
    return np.asarray(np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))).astype(a.dtype)


def _power(a: Array, b: Array) -> Array:
    return np.asarray(np.power(a.astype(np.float64), b.astype(np.float64))).astype(a.dtype)


def _where(step: Step, arrays: Sequence[Array]) -> Sequence[Array] | None:
    if not _small(shapes.broadcast(step, [array.shape for array in arrays])):
        return None
    return [np.where(arrays[0].astype(bool), arrays[1], arrays[2])]


def _constant(step: Step, _: Sequence[Array]) -> Sequence[Array] | None:
    proto = step.tensor_attribute("value")
    if proto is not None:
        array = constant_of(proto, step.place).array
        return None if array is None else [array]
    for name, dtype in (("value_int", np.int64), ("value_float", np.float32)):
        for attribute in step.proto.attribute:
            if attribute.name == name:
                return [np.array(attribute.i if dtype is np.int64 else attribute.f, dtype=dtype)]
    whole, real = step.integers("value_ints"), step.numbers("value_floats")
    if whole is not None:
        return [np.array(whole, dtype=np.int64)] if len(whole) <= MAX_FOLDED else None
    return None if real is None or len(real) > MAX_FOLDED else [np.array(real, dtype=np.float32)]


def _constant_of_shape(step: Step, arrays: Sequence[Array]) -> Sequence[Array] | None:
    dims = [int(size) for size in arrays[0].reshape(-1)]
    proto = step.tensor_attribute("value")
    fill = np.zeros(1, dtype=np.float32) if proto is None else constant_of(proto, step.place).array
    if fill is None or any(size < 0 for size in dims) or not _small(dims):
        return None
    if fill.size != 1:
        raise ValueError(f"the value must be one number, got {fill.size}")
    return [np.full(dims, fill.reshape(-1)[0])]


def _cast(step: Step, arrays: Sequence[Array]) -> Sequence[Array] | None:
    dtype = dtype_of(step.integer("to", 0))
    return None if dtype is None else [arrays[0].astype(dtype)]


def _range(_: Step, arrays: Sequence[Array]) -> Sequence[Array] | None:
    start, limit, delta = (array.reshape(-1)[0].item() for array in arrays)
    if delta == 0:
        raise ValueError("a step of 0 never ends")
    if not all(math.isfinite(number) for number in (start, limit, delta)):
        raise ValueError("the bounds must be finite")
    count = max(math.ceil((limit - start) / delta), 0)
    if count > MAX_FOLDED:
        return None
    return [(start + delta * np.arange(count)).astype(arrays[0].dtype)]


def _gather(step: Step, arrays: Sequence[Array]) -> Sequence[Array] | None:
    array, indices = arrays
    axis = step.axis(step.integer("axis", 0), array.ndim)
    if not _small(array.shape[:axis], indices.shape, array.shape[axis + 1 :]):
        return None
    return [np.asarray(np.take(array, indices.astype(np.int64), axis=axis))]


def _slice(step: Step, arrays: Sequence[Array]) -> Sequence[Array] | None:
    result = arrays[0]
    for axis, kept in shapes.sliced(step, result.shape).items():
        result = np.take(result, np.array(kept, dtype=np.int64), axis=axis)
    return [result]


def _concat(step: Step, arrays: Sequence[Array]) -> Sequence[Array] | None:
    axis = step.axis(step.integer("axis", 0), arrays[0].ndim)
    return [np.concatenate(arrays, axis=axis)] if sum(a.size for a in arrays) <= MAX_FOLDED else None


def _split(step: Step, arrays: Sequence[Array]) -> Sequence[Array] | None:
    axis = step.axis(step.integer("axis", 0), arrays[0].ndim)
    sizes = shapes.split_sizes(step, arrays[0].shape[axis], len(step.proto.output))
    return np.split(arrays[0], list(np.cumsum(sizes)[:-1]), axis=axis)


def _reshape(step: Step, arrays: Sequence[Array]) -> Sequence[Array] | None:
    target = tuple(int(size) for size in arrays[1].reshape(-1))
    return [arrays[0].reshape(shapes.reshaped(step, arrays[0].shape, target, batch=1))]


def _expand(step: Step, arrays: Sequence[Array]) -> Sequence[Array] | None:
    target = tuple(int(size) for size in arrays[1].reshape(-1))
    dims = shapes.broadcast(step, [arrays[0].shape, target])
    return [np.array(np.broadcast_to(arrays[0], dims))] if _small(dims) else None


def _tile(_: Step, arrays: Sequence[Array]) -> Sequence[Array] | None:
    repeats = [int(count) for count in arrays[1].reshape(-1)]
    if any(count < 0 for count in repeats) or not _small(arrays[0].shape, repeats):
        return None
    return [np.tile(arrays[0], repeats)]


def _reduce(function: Callable[..., Any], since: int) -> Fold:
    def rule(step: Step, arrays: Sequence[Array]) -> Sequence[Array] | None:
        axes = step.axes_of(arrays[0].ndim, 1, since) or tuple(range(arrays[0].ndim))
        keep = bool(step.integer("keepdims", 1))
        return [np.asarray(function(arrays[0], axis=axes, keepdims=keep)).astype(arrays[0].dtype)]

    return rule


def _squeeze(step: Step, arrays: Sequence[Array]) -> Sequence[Array] | None:
    return [np.squeeze(arrays[0], axis=shapes.squeezed(step, arrays[0].shape))]


def _unsqueeze(step: Step, arrays: Sequence[Array]) -> Sequence[Array] | None:
    return [arrays[0].reshape(shapes.inserted(arrays[0].shape, shapes.unsqueezed(step, arrays[0].shape)))]


def _transpose(step: Step, arrays: Sequence[Array]) -> Sequence[Array] | None:
    return [np.transpose(arrays[0], shapes.permutation(step, arrays[0].ndim))]


_RULES: dict[str, Fold] = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Identity": _unary(lambda a: a),
    "Cast": _cast,
    "Range": _range,
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _concat,
    "Split": _split,
    "Reshape": _reshape,
    "Expand": _expand,
    "Tile": _tile,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
    "Where": _where,
    "Add": _elementwise(np.add),
    "Sub": _elementwise(np.subtract),
    "Mul": _elementwise(np.multiply),
    "Div": _elementwise(_divide),
    "Pow": _elementwise(_power),
    "Mod": _elementwise(np.mod),
    "Max": _elementwise(np.maximum),
    "Min": _elementwise(np.minimum),
    "Sum": _elementwise(np.add),
    "Equal": _elementwise(np.equal),
    "Less": _elementwise(np.less),
    "LessOrEqual": _elementwise(np.less_equal),
    "Greater": _elementwise(np.greater),
    "GreaterOrEqual": _elementwise(np.greater_equal),
    "And": _elementwise(np.logical_and),
    "Or": _elementwise(np.logical_or),
    "Not": _unary(np.logical_not),
    "Neg": _unary(np.negative),
    "Abs": _unary(np.abs),
    "Sign": _unary(np.sign),
    "Sqrt": _unary(np.sqrt),
    "Floor": _unary(np.floor),
    "Ceil": _unary(np.ceil),
    "Round": _unary(np.round),
    "ReduceProd": _reduce(np.prod, since=18),
    "ReduceSum": _reduce(np.sum, since=13),
    "ReduceMax": _reduce(np.max, since=18),
    "ReduceMin": _reduce(np.min, since=18),
}
