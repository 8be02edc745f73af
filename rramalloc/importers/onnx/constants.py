"""Operators whose inputs are all constant: their values if they matter for shapes, else only their shape.

Small constants that determine shapes are evaluated; anything large or fractional stays unknown.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx.helper

from rramalloc.errors import RramallocError, UnsupportedError
from rramalloc.importers.axes import Dims
from rramalloc.importers.onnx import shapes
from rramalloc.importers.onnx.operators.elementwise import ACTIVATIONS, SAME, SUMS
from rramalloc.importers.onnx.outputs import outputs_of
from rramalloc.importers.onnx.protos import MAX_FOLDED, Room, constant_of, dims_of
from rramalloc.importers.onnx.step import Step
from rramalloc.importers.onnx.tensors import Array, Constant
from rramalloc.network.geometry import MAX_EXTENT

DimsRule = Callable[[Step], Dims]


def evaluate(step: Step, room: Room) -> Sequence[Constant]:
    """Return the outputs of an operator on constants. Raises SpecError, NetworkError."""
    arrays = [value.array for value in step.values if isinstance(value, Constant) and value.array is not None]
    if len(arrays) == len(step.values) and room.left > 0:
        made = _evaluated(step, arrays)
        if made is not None:
            return [Constant(dims=each.shape, array=each if room.take(each) else None) for each in made]
    rule = _DIMS.get(step.op)
    try:
        if rule is not None and all(value is None or value.dims is not None for value in step.values):
            return [Constant(dims=rule(step))]
        if step.op == "Split" and step.need(0).dims is not None:
            dims = step.dims(0)
            axis = step.axis(step.integer("axis", 0), len(dims))
            parts = shapes.split_sizes(step, dims[axis], len(step.proto.output))
            return [Constant(dims=(*dims[:axis], size, *dims[axis + 1 :])) for size in parts]
        return [Constant(dims=dims) for dims in outputs_of(step)]
    except UnsupportedError:  # it matters only if an operator on data asks for this shape
        return [Constant(dims=None)]


def _evaluated(step: Step, arrays: Sequence[Array]) -> Sequence[Array] | None:
    """Return the outputs of an operator whose inputs are known, None if it is not one that shapes are made
    of.

    Raises SpecError if the operator cannot take these values.
    """
    try:
        if step.op == "Constant":
            return _constant(step)
        if (
            step.proto.domain not in ("", "ai.onnx")
            or step.op not in _EVALUATED
            or not _is_small(step, arrays)
        ):
            return None
        from onnx.reference import ReferenceEvaluator

        names = [name for name in step.proto.output if name]
        opsets = [onnx.helper.make_opsetid("", step.opset)]
        own = onnx.helper.make_function(
            "own", "own", list(dict.fromkeys(step.proto.input)), names, [step.proto], opsets
        )
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given = dict(zip(step.proto.input, arrays, strict=True))
            made: Any = ReferenceEvaluator(own).run(names, given, attributes={})
        found = dict(zip(names, map(np.asarray, made), strict=True))
        return [found.get(name, np.zeros(0)) for name in step.proto.output]
    except RramallocError:
        raise
    except Exception as error:  # noqa: BLE001  the evaluator fails in every way on values that do not fit
        raise step.fault("inputs", f"{step.op} cannot be evaluated on these constants: {error}") from None


def _is_small(step: Step, arrays: Sequence[Array]) -> bool:
    """Return True if the outputs have few elements; found out before any memory is taken."""
    if step.op == "Range":
        start, limit, delta = (float(array.reshape(-1)[0]) for array in arrays)
        if delta == 0 or not all(math.isfinite(number) for number in (start, limit, delta)):
            raise step.fault("inputs", "the bounds must be finite, and a step of 0 never ends")
        return (limit - start) / delta <= MAX_FOLDED
    shapes = [_DIMS[step.op](step)] if step.op in _DIMS else outputs_of(step)
    if step.op == "Split":
        shapes = [arrays[0].shape]
    return all(dims is not None and math.prod(dims) <= MAX_FOLDED for dims in shapes)


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


def _slice(step: Step) -> Dims:
    dims = step.dims(0)
    kept = shapes.sliced(step, dims)
    return tuple(len(kept[axis]) if axis in kept else size for axis, size in enumerate(dims))


_DIMS: dict[str, DimsRule] = {
    **dict.fromkeys((*ACTIVATIONS, *SAME, "Relu", "Softmax", "Dropout"), lambda step: step.dims(0)),
    **dict.fromkeys(
        (*SUMS, "Mul", "Div"),
        lambda step: shapes.broadcast(step, [step.dims(index) for index in range(len(step.values))]),
    ),
    "Constant": _stated,
    "ConstantOfShape": _constant_of_shape,
    "Slice": _slice,
}


_EVALUATED = frozenset(
    "Abs Add And Cast Ceil Clip Concat ConstantOfShape CumSum Div Equal Expand Floor Gather Greater "
    "GreaterOrEqual Identity Less LessOrEqual Max Min Mod Mul Neg Not OneHot Or Pow Range ReduceMax "
    "ReduceMin ReduceProd ReduceSum Reshape Round ScatterElements ScatterND Sign Slice Split Sqrt Squeeze "
    "Sub Sum Tile Transpose Unsqueeze Where".split()
)
"""Operators that shapes and indices are made of."""


def _constant(step: Step) -> Sequence[Array] | None:
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
