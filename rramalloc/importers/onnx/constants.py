"""Operators whose inputs are all constant: their values if they matter for shapes, else only their shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rramalloc.errors import UnsupportedError
from rramalloc.importers.axes import Dims
from rramalloc.importers.onnx import shapes
from rramalloc.importers.onnx.folding import fold
from rramalloc.importers.onnx.operators.elementwise import ACTIVATIONS, SAME, SUMS
from rramalloc.importers.onnx.outputs import outputs_of
from rramalloc.importers.onnx.protos import Room, dims_of
from rramalloc.importers.onnx.step import Step
from rramalloc.importers.onnx.tensors import Array, Constant
from rramalloc.network.geometry import MAX_EXTENT

Rule = Callable[[Step], Dims | None]


def evaluate(step: Step, room: Room) -> Sequence[Constant]:
    """Outputs of an operator on constants. Raises SpecError, NetworkError."""
    arrays = [value.array for value in step.values if isinstance(value, Constant) and value.array is not None]
    if len(arrays) == len(step.values) and room.left > 0:
        folded = fold(step, arrays)
        if folded is not None:
            return [_kept(array, room) for array in folded]
    rule = _DIMS.get(step.op)
    if rule is not None and all(value is None or value.dims is not None for value in step.values):
        try:
            return [Constant(dims=rule(step))]
        except UnsupportedError:  # it matters only if an operator on data asks for this shape
            return [Constant(dims=None)]
    try:
        return [Constant(dims=dims) for dims in outputs_of(step)]
    except UnsupportedError:
        return [Constant(dims=None)]


def _kept(array: Array, room: Room) -> Constant:
    return Constant(dims=array.shape, array=array if room.take(array) else None)


def _same(step: Step) -> Dims | None:
    return step.dims(0)


def _broadcast(step: Step) -> Dims | None:
    return shapes.broadcast(step, [step.dims(index) for index in range(len(step.values))])


def _constant(step: Step) -> Dims | None:
    proto = step.tensor_attribute("value")
    if proto is not None:
        return dims_of(proto, step.place)
    for attribute in step.proto.attribute:
        if attribute.name == "sparse_value":
            return dims_of(attribute.sparse_tensor, step.place)
        if attribute.name in ("value_ints", "value_floats"):
            return (len(attribute.ints) + len(attribute.floats),)
    return ()


def _constant_of_shape(step: Step) -> Dims | None:
    dims = step.known_integers(0, "shape") or ()
    if any(not 0 <= size <= MAX_EXTENT for size in dims):
        raise step.fault("shape", f"got {shapes.shown(dims)}, a length is from 0 to {MAX_EXTENT}")
    return dims


def _reshape(step: Step) -> Dims | None:
    return shapes.reshaped(step, step.dims(0), step.known_integers(1, "shape") or (), batch=1)


def _transpose(step: Step) -> Dims | None:
    dims = step.dims(0)
    return tuple(dims[axis] for axis in shapes.permutation(step, len(dims)))


def _squeeze(step: Step) -> Dims | None:
    dims = step.dims(0)
    gone = shapes.squeezed(step, dims)
    return tuple(size for axis, size in enumerate(dims) if axis not in gone)


def _unsqueeze(step: Step) -> Dims | None:
    return shapes.inserted(step.dims(0), shapes.unsqueezed(step, step.dims(0)))


def _concat(step: Step) -> Dims | None:
    parts = [step.dims(index) for index in range(max(len(step.values), 1))]
    return shapes.joined(step, parts, step.axis(step.integer("axis", 1), len(parts[0])))


def _expand(step: Step) -> Dims | None:
    return shapes.broadcast(step, [step.dims(0), step.known_integers(1, "shape") or ()])


def _slice(step: Step) -> Dims | None:
    dims = step.dims(0)
    kept = shapes.sliced(step, dims)
    return tuple(len(kept[axis]) if axis in kept else size for axis, size in enumerate(dims))


def _gather(step: Step) -> Dims | None:
    dims = step.dims(0)
    axis = step.axis(step.integer("axis", 0), len(dims))
    return dims[:axis] + step.dims(1) + dims[axis + 1 :]


_DIMS: dict[str, Rule] = {
    **dict.fromkeys((*ACTIVATIONS, *SAME, "Relu", "Softmax", "Dropout"), _same),
    **dict.fromkeys((*SUMS, "Mul", "Div"), _broadcast),
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Reshape": _reshape,
    "Transpose": _transpose,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Concat": _concat,
    "Expand": _expand,
    "Slice": _slice,
    "Gather": _gather,
}
