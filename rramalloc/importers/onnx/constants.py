"""Operators whose inputs are all constant: their values if they matter for shapes, else only their shape.

Small constants that determine shapes are evaluated; anything large or fractional stays unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from rramalloc.errors import SpecError, UnsupportedError
from rramalloc.importers.axes import Dims
from rramalloc.importers.onnx import shapes
from rramalloc.importers.onnx.operators.elementwise import ACTIVATIONS, SAME, SUMS
from rramalloc.importers.onnx.outputs import outputs_of
from rramalloc.importers.onnx.protos import MAX_FOLDED, Room, constant_of, dims_of, dtype_of
from rramalloc.importers.onnx.step import Step
from rramalloc.importers.onnx.tensors import Array, Constant
from rramalloc.network.geometry import MAX_EXTENT

DimsRule = Callable[[Step], Dims]
Values = Callable[[Step, Sequence[Array], Dims], Array | None]
"""Values of an output of this shape from those of the inputs; None if they cannot be had."""
Outputs = Callable[[Step, Sequence[Array]], Sequence[Array] | None]


def evaluate(step: Step, room: Room) -> Sequence[Constant]:
    """Outputs of an operator on constants. Raises SpecError, NetworkError."""
    arrays = [value.array for value in step.values if isinstance(value, Constant) and value.array is not None]
    if len(arrays) == len(step.values) and room.left > 0:
        made = _evaluated(step, arrays)
        if made is not None:
            return [Constant(dims=each.shape, array=each if room.take(each) else None) for each in made]
    rule = _DIMS.get(step.op)
    try:
        if rule is not None and all(value is None or value.dims is not None for value in step.values):
            return [Constant(dims=rule(step))]
        return [Constant(dims=dims) for dims in outputs_of(step)]
    except UnsupportedError:  # it matters only if an operator on data asks for this shape
        return [Constant(dims=None)]


def _evaluated(step: Step, arrays: Sequence[Array]) -> Sequence[Array] | None:
    """Outputs of an operator whose inputs are known, None if it is not one that shapes are made of.

    Raises SpecError if the operator cannot take these values.
    """
    outputs, values = _OUTPUTS.get(step.op), _VALUES.get(step.op)
    try:
        with np.errstate(all="ignore"):
            if outputs is not None:
                return outputs(step, arrays)
            if values is None or math.prod(dims := _DIMS[step.op](step)) > MAX_FOLDED:
                return None
            result = values(step, arrays, dims)
            return None if result is None else [np.asarray(result)]
    except SpecError:
        raise
    except (ValueError, TypeError, IndexError, ArithmeticError) as error:
        raise step.fault("inputs", f"{step.op} cannot be evaluated on these constants: {error}") from None


def _stated(step: Step) -> Dims:
    proto = step.tensor_attribute("value")
    if proto is not None:
        return dims_of(proto, step.place)
    for attribute in step.proto.attribute:
        if attribute.name == "sparse_value":
            return dims_of(attribute.sparse_tensor, step.place)
        if attribute.name in ("value_ints", "value_floats"):
            return (len(attribute.ints) + len(attribute.floats),)
    return ()


def _constant_of_shape(step: Step) -> Dims:
    dims = step.known_integers(0, "shape") or ()
    if any(not 0 <= size <= MAX_EXTENT for size in dims):
        raise step.fault("shape", f"got {shapes.shown(dims)}, a length is from 0 to {MAX_EXTENT}")
    return dims


def _transpose(step: Step) -> Dims:
    dims = step.dims(0)
    return tuple(dims[axis] for axis in shapes.permutation(step, len(dims)))


def _squeeze(step: Step) -> Dims:
    dims = step.dims(0)
    gone = shapes.squeezed(step, dims)
    return tuple(size for axis, size in enumerate(dims) if axis not in gone)


def _concat(step: Step) -> Dims:
    parts = [step.dims(index) for index in range(max(len(step.values), 1))]
    return shapes.joined(step, parts, step.axis(step.integer("axis", 1), len(parts[0])))


def _slice(step: Step) -> Dims:
    dims = step.dims(0)
    kept = shapes.sliced(step, dims)
    return tuple(len(kept[axis]) if axis in kept else size for axis, size in enumerate(dims))


def _gather(step: Step) -> Dims:
    dims = step.dims(0)
    axis = step.axis(step.integer("axis", 0), len(dims))
    return dims[:axis] + step.dims(1) + dims[axis + 1 :]


_DIMS: dict[str, DimsRule] = {
    **dict.fromkeys((*ACTIVATIONS, *SAME, "Relu", "Softmax", "Dropout"), lambda step: step.dims(0)),
    **dict.fromkeys(
        (*SUMS, "Mul", "Div"),
        lambda step: shapes.broadcast(step, [step.dims(index) for index in range(len(step.values))]),
    ),
    "Constant": _stated,
    "ConstantOfShape": _constant_of_shape,
    "Reshape": lambda step: shapes.reshaped(
        step, step.dims(0), step.known_integers(1, "shape") or (), batch=1
    ),
    "Transpose": _transpose,
    "Squeeze": _squeeze,
    "Unsqueeze": lambda step: shapes.inserted(step.dims(0), shapes.unsqueezed(step, step.dims(0))),
    "Concat": _concat,
    "Expand": lambda step: shapes.broadcast(step, [step.dims(0), step.known_integers(1, "shape") or ()]),
    "Slice": _slice,
    "Gather": _gather,
}


def _folded(function: Callable[..., Any]) -> Values:
    """All operands, one after the other."""
    return lambda step, arrays, dims: reduce(lambda a, b: np.asarray(function(a, b)), arrays)


def _alone(function: Callable[..., Any]) -> Values:
    return lambda step, arrays, dims: function(arrays[0])


def _divide(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.asarray(a / b)  # type: ignore[operator]
    if not np.all(b):
        raise ZeroDivisionError("division by zero")
    return np.asarray(np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))).astype(a.dtype)


def _cast(step: Step, arrays: Sequence[Array], _: Dims) -> Array | None:
    dtype = dtype_of(step.integer("to", 0))
    return None if dtype is None else arrays[0].astype(dtype)


def _filled(step: Step, _: Sequence[Array], dims: Dims) -> Array | None:
    proto = step.tensor_attribute("value")
    fill = np.zeros(1, dtype=np.float32) if proto is None else constant_of(proto, step.place).array
    if fill is None:
        return None
    if fill.size != 1:
        raise ValueError(f"the value must be one number, got {fill.size}")
    return np.full(dims, fill.reshape(-1)[0])


def _sliced(step: Step, arrays: Sequence[Array], _: Dims) -> Array | None:
    result = arrays[0]
    for axis, kept in shapes.sliced(step, result.shape).items():
        result = np.take(result, np.array(kept, dtype=np.int64), axis=axis)
    return result


def _gathered(step: Step, arrays: Sequence[Array], _: Dims) -> Array | None:
    array, indices = arrays
    axis = step.axis(step.integer("axis", 0), array.ndim)
    return np.asarray(np.take(array, indices.astype(np.int64), axis=axis))


_VALUES: dict[str, Values] = {
    "ConstantOfShape": _filled,
    "Identity": _alone(lambda a: a),
    "Cast": _cast,
    "Gather": _gathered,
    "Slice": _sliced,
    "Concat": lambda step, arrays, dims: np.concatenate(
        arrays, step.axis(step.integer("axis", 1), len(dims))
    ),
    **dict.fromkeys(("Reshape", "Squeeze", "Unsqueeze"), lambda step, arrays, dims: arrays[0].reshape(dims)),
    "Expand": lambda step, arrays, dims: np.array(np.broadcast_to(arrays[0], dims)),
    "Transpose": lambda step, arrays, dims: arrays[0].transpose(shapes.permutation(step, len(dims))),
    "Where": lambda step, arrays, dims: np.where(arrays[0].astype(bool), arrays[1], arrays[2]),
    "Add": _folded(np.add),
    "Sub": _folded(np.subtract),
    "Mul": _folded(np.multiply),
    "Div": _folded(_divide),
    "Pow": _folded(lambda a, b: np.power(a.astype(np.float64), b.astype(np.float64)).astype(a.dtype)),
    "Mod": _folded(np.mod),
    "Max": _folded(np.maximum),
    "Min": _folded(np.minimum),
    "Sum": _folded(np.add),
    "Equal": _folded(np.equal),
    "Less": _folded(np.less),
    "LessOrEqual": _folded(np.less_equal),
    "Greater": _folded(np.greater),
    "GreaterOrEqual": _folded(np.greater_equal),
    "And": _folded(np.logical_and),
    "Or": _folded(np.logical_or),
    "Not": _alone(np.logical_not),
    "Neg": _alone(np.negative),
    "Abs": _alone(np.abs),
    "Sign": _alone(np.sign),
    "Sqrt": _alone(np.sqrt),
    "Floor": _alone(np.floor),
    "Ceil": _alone(np.ceil),
    "Round": _alone(np.round),
}
"""Values of an output whose shape `_DIMS` gives."""


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


def _split(step: Step, arrays: Sequence[Array]) -> Sequence[Array] | None:
    axis = step.axis(step.integer("axis", 0), arrays[0].ndim)
    sizes = shapes.split_sizes(step, arrays[0].shape[axis], len(step.proto.output))
    return np.split(arrays[0], list(np.cumsum(sizes)[:-1]), axis=axis)


def _tile(_: Step, arrays: Sequence[Array]) -> Sequence[Array] | None:
    repeats = [int(count) for count in arrays[1].reshape(-1)]
    if any(count < 0 for count in repeats) or arrays[0].size * math.prod(repeats) > MAX_FOLDED:
        return None
    return [np.tile(arrays[0], repeats)]


def _reduced(function: Callable[..., Any], since: int) -> Outputs:
    def rule(step: Step, arrays: Sequence[Array]) -> Sequence[Array] | None:
        axes = step.axes_of(arrays[0].ndim, 1, since) or tuple(range(arrays[0].ndim))
        keep = bool(step.integer("keepdims", 1))
        return [np.asarray(function(arrays[0], axis=axes, keepdims=keep)).astype(arrays[0].dtype)]

    return rule


_OUTPUTS: dict[str, Outputs] = {
    "Constant": _constant,
    "Range": _range,
    "Split": _split,
    "Tile": _tile,
    "ReduceProd": _reduced(np.prod, since=18),
    "ReduceSum": _reduced(np.sum, since=13),
    "ReduceMax": _reduced(np.max, since=18),
    "ReduceMin": _reduced(np.min, since=18),
}
"""Values of all outputs, which have no shape of their own where the inputs are not known."""
