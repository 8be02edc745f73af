"""Shapes and small values: by ONNX's own inference and reference evaluator, and rules that data share."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnx.defs
import onnx.helper
import onnx.numpy_helper
import onnx.shape_inference

from rramalloc.errors import UnsupportedError
from rramalloc.importers.axes import Dims
from rramalloc.importers.onnx.step import OnnxOperator
from rramalloc.importers.onnx.tensors import MAX_FOLDED, Array, Constant, arranged, constant_of, dims_of
from rramalloc.network.geometry import MAX_EXTENT
from rramalloc.records import brief

ACTIVATIONS = tuple(
    "Abs Acos Acosh Asin Asinh Atan Atanh BiasGelu BitwiseNot Ceil Celu Clip Cos Cosh Elu Erf Erfc Exp "
    "FastGelu Floor Gelu HardSigmoid HardSwish IsInf IsNaN LRN LeakyRelu Log Mish MultiThreshold Neg Not "
    "PRelu QLinearLeakyRelu QLinearSigmoid QuickGelu Reciprocal Round Selu Shrink Sigmoid Sign Sin Sinh "
    "Softplus Softsign Sqrt Swish Tan Tanh ThresholdedRelu".split()
)
SUMS = tuple(
    "Add And BiasAdd BiasDropout BitShift BitwiseAnd BitwiseOr BitwiseXor Equal Greater GreaterOrEqual Less "
    "LessOrEqual Max Mean Min Mod Or Pow Sub Sum Where Xor".split()
)
"""Operators that combine all inputs value by value, and take as long as a sum."""
PRODUCTS = ("Mul", "Div", "SwiGLU")
SAME = tuple(
    "Identity Cast CastLike QuantizeLinear DequantizeLinear "  # of ONNX
    "Quant IntQuant FloatQuant BipolarQuant Trunc".split()  # of QONNX
)
"""Operators whose result is their first input, perhaps with other bits."""
_FROM_AXIS = frozenset("Add And Div Equal Greater Less Mul Or Pow Sub Xor".split())
_AS_FIRST = frozenset((*ACTIVATIONS, *SAME, "Relu", "Softmax", "Dropout", "MoE", "QMoE"))
_EVALUATED = frozenset(
    "Abs Add And Cast Ceil Clip Concat ConstantOfShape CumSum Div Equal Expand Floor Gather Greater "
    "GreaterOrEqual Identity Less LessOrEqual Max Min Mod Mul Neg Not OneHot Or Pow Range ReduceMax "
    "ReduceMin ReduceProd ReduceSum Reshape Round ScatterElements ScatterND Sign Slice Split Sqrt Squeeze "
    "Sub Sum Tile Transpose Unsqueeze Where".split()
)
"""Operators that shapes and indices are made of."""
_T = onnx.TensorProto
_TYPES = {"tensor(float)": _T.FLOAT, "tensor(int64)": _T.INT64, "tensor(bool)": _T.BOOL}
"""Element types that an operator may take, the first that it does is given to the inference."""
_LARGEST = 2**24
"""Largest whole number of an attribute that is handed on: no sensible one is beyond it."""
_MOST_AXES = 64  # as in numpy: Gather of itself doubles them
_FAILURES = (
    onnx.checker.ValidationError,
    onnx.defs.SchemaError,
    RuntimeError,
    ValueError,
    TypeError,
    LookupError,
)


def evaluate_constants(step: OnnxOperator) -> Sequence[Constant]:
    """Return the outputs of an operator on constants, with values if they are few and may decide shapes.

    Raises SpecError, NetworkError.
    """
    if step.op == "Constant":
        return [_kept(step, _stated(step))]
    arrays = [value.array for value in step.values if isinstance(value, Constant) and value.array is not None]
    try:
        sizes = _range_of(step, arrays) if step.op == "Range" else outputs_of(step)
    except UnsupportedError:  # it matters only if an operator on data asks for this shape
        return [Constant(dims=None)]
    known = step.is_standard and step.op in _EVALUATED and len(arrays) == len(step.values)
    if known and step.builder.room > 0 and all(d is not None and math.prod(d) <= MAX_FOLDED for d in sizes):
        return [_kept(step, Constant(dims=made.shape, array=made)) for made in _evaluated(step, arrays)]
    return [Constant(dims=dims) for dims in sizes]


def _kept(step: OnnxOperator, made: Constant) -> Constant:
    """Return the constant, without its values if all constants together would exceed MAX_FOLDED_TOTAL."""
    is_kept = made.array is not None and step.builder.keeps_constant(made.array)
    return replace(made, array=made.array if is_kept else None)


def _stated(step: OnnxOperator) -> Constant:
    """Return the tensor of an operator Constant."""
    for given in step.proto.attribute:
        if given.name == "value":
            return constant_of(step.attribute("value", onnx.AttributeProto.TENSOR), step.place)
        if given.name == "sparse_value":
            return Constant(dims=dims_of(given.sparse_tensor, step.place))
        if given.name in ("value_int", "value_ints", "value_float", "value_floats"):
            scalar = given.i if given.name == "value_int" else given.f
            listed = [*given.ints, *given.floats] if given.name.endswith("s") else scalar
            values = np.array(listed, np.int64 if "int" in given.name else np.float32)
            return Constant(dims=values.shape, array=values)
    return Constant(dims=())


def _range_of(step: OnnxOperator, arrays: Sequence[Array]) -> list[Dims | None]:
    """Return the length of Range. Raises SpecError for bounds that are not finite, and steps of 0."""
    numbers = [float(number) for array in arrays for number in array.reshape(-1)[:1]]
    if not all(map(math.isfinite, numbers)) or (len(numbers) == 3 and not numbers[2]):
        raise step.fault("inputs", "the bounds must be finite, and a step of 0 never ends")
    if len(numbers) < 3:
        return [None]
    return [(max(math.ceil((numbers[1] - numbers[0]) / numbers[2]), 0),)]


def _evaluated(step: OnnxOperator, arrays: Sequence[Array]) -> list[Array]:
    """Return the outputs by ONNX's evaluator. Raises SpecError if the operator cannot take these values."""
    from onnx.reference import ReferenceEvaluator

    names = [name for name in step.proto.output if name]
    opsets = [onnx.helper.make_opsetid("", step.opset)]
    inputs = list(dict.fromkeys(step.proto.input))
    function = onnx.helper.make_function("own", "own", inputs, names, [step.proto], opsets)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given = dict(zip(step.proto.input, arrays, strict=True))
            made: Any = ReferenceEvaluator(function).run(names, given, attributes={})
        found = dict(zip(names, map(np.asarray, made), strict=True))
    except Exception as error:  # noqa: BLE001  the evaluator fails in every way on values that do not fit
        raise step.fault("inputs", f"{step.op} cannot be evaluated on these constants: {error}") from None
    return [found.get(name, np.zeros(0)) for name in step.proto.output]


def outputs_of(step: OnnxOperator) -> list[Dims | None]:
    """Return the shape of every output, None where it is not known.

    Raises SpecError, NetworkError, UnsupportedError for inputs that no shape fits.
    """
    count = len(step.proto.output)
    shapes = [value.dims for value in step.values if value is not None]
    if any(dims is None or len(dims) > _MOST_AXES for dims in shapes):
        return [None] * count
    if step.op in _AS_FIRST:
        return [step.dims(0)] * count
    if step.op in SUMS or step.op in PRODUCTS:
        return [broadcast(step, [step.size(value) for value in step.values if value is not None])] * count
    if not step.is_standard:
        return [None] * count
    if step.op == "Split":  # its own inference, and that of GatherND, may end the process
        axis, sizes = split_lengths(step, step.dims(0))
        return [(*step.dims(0)[:axis], size, *step.dims(0)[axis + 1 :]) for size in sizes]
    if step.op == "Slice":
        dims = step.dims(0)
        kept = sliced(step, dims)
        return [tuple(len(kept.get(axis, range(size))) for axis, size in enumerate(dims))]
    if step.op == "GatherND":
        data, indices, shared = step.dims(0), step.dims(1), step.integer("batch_dims", 0)
        if not indices or not 0 <= shared < len(data) or not 1 <= indices[-1] <= len(data) - shared:
            raise step.fault("batch_dims", "data, indices and batch_dims do not fit")
        return [indices[:-1] + data[shared + indices[-1] :], *[None] * count][:count]
    return _inferred(step)


def _inferred(step: OnnxOperator) -> list[Dims | None]:
    """Return the shapes that ONNX infers. Raises SpecError if it finds a fault."""
    for attribute in step.proto.attribute:
        if any(abs(number) > _LARGEST for number in (attribute.i, *attribute.ints)):
            raise step.fault(attribute.name, f"must be from {-_LARGEST} to {_LARGEST}")
    if not onnx.defs.has(step.op, step.opset, ""):
        return [None] * len(step.proto.output)
    schema = onnx.defs.get_schema(step.op, step.opset, "")
    if len(step.values) > schema.max_input:
        raise step.fault("inputs", f"it takes {schema.max_input} at most, got {len(step.values)}")
    types, known = dict[str, onnx.TypeProto](), dict[str, onnx.TensorProto]()
    for index, (name, value) in enumerate(zip(step.proto.input, step.values, strict=True)):
        array = value.array if isinstance(value, Constant) else None
        formal = schema.inputs[min(index, len(schema.inputs) - 1)]
        kind = next((kind for text, kind in _TYPES.items() if text in formal.types), _T.INT64)
        if value is not None:
            types[name] = onnx.helper.make_tensor_type_proto(kind, value.dims)
        if array is not None:
            known[name] = onnx.numpy_helper.from_array(array, name)
    try:
        made = onnx.shape_inference.infer_node_outputs(
            schema, step.proto, types, known, opset_imports=[onnx.helper.make_opsetid("", step.opset)]
        )
    except onnx.shape_inference.InferenceError as error:
        raise step.fault("inputs", f"no shape fits them: {str(error)[:200]}") from None
    except _FAILURES:
        return [None] * len(step.proto.output)
    results = list[Dims | None]()
    for name in step.proto.output:
        inferred = made[name].tensor_type if name in made else None
        axes = inferred.shape.dim if inferred is not None and inferred.HasField("shape") else None
        dims = tuple(int(axis.dim_value) if axis.HasField("dim_value") else -1 for axis in axes or ())
        results.append(None if axes is None or any(not 0 <= size <= MAX_EXTENT for size in dims) else dims)
    return results


def shown(dims: Sequence[int]) -> str:
    """Return the dims as a message shows them."""
    return brief(" x ".join(map(str, dims[:10])) or "scalar")[1:-1]


def broadcast(step: OnnxOperator, shapes: Sequence[Dims]) -> Dims:
    """Return the common shape of operands. Raises NetworkError if they cannot be broadcast."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        names = " and ".join(shown(dims) for dims in shapes[:4])
        raise step.mismatch("inputs", f"shapes {names} cannot be broadcast") from None


def broadcast_from_axis(step: OnnxOperator) -> OnnxOperator:
    """Return the operator with its second operand as numpy broadcasts it: before opset 7 an attribute `axis`
    said at which axis of the first one it begins. Raises SpecError, NetworkError if it does not fit.

    Source: ONNX operators Add-6, Mul-6 and their kin.
    """
    if step.opset >= 7 or step.op not in _FROM_AXIS or len(step.values) != 2:
        return step
    kept = [
        attribute
        for attribute in step.proto.attribute
        if attribute.name not in ("axis", "broadcast", "consumed_inputs")
    ]
    if len(kept) == len(step.proto.attribute):
        return step
    second, proto = step.need(1), onnx.NodeProto()
    axis = step.attribute("axis", onnx.AttributeProto.INT)
    if step.integer("broadcast", 0) and axis is not None:
        first, others = step.dims(0), step.dims(1)
        begin = step.axis(axis, len(first))
        behind = len(first) - begin - len(others)
        if behind < 0:
            raise step.mismatch("axis", f"{shown(others)} does not fit {shown(first)} from axis {begin} on")
        array = second.array if isinstance(second, Constant) else None
        second = arranged(second, [*range(len(others)), *[None] * behind])
        if isinstance(second, Constant) and array is not None:
            second = replace(second, array=array.reshape(second.dims or ()))
    proto.CopyFrom(step.proto)
    del proto.attribute[:]
    proto.attribute.extend(kept)
    return replace(step, proto=proto, values=(step.values[0], second))


def reshape_target(step: OnnxOperator, dims: Dims, target: Dims) -> Dims:
    """Return the shape after Reshape, whose target may hold the batch that the file fixes.

    Raises NetworkError if the number of elements differs.
    """
    wanted, batch = list(target), step.builder.batch
    if not step.integer("allowzero", 0):
        wanted[: len(dims)] = [have if size == 0 else size for have, size in zip(dims, wanted, strict=False)]
    tried = [wanted]
    place = step.builder.batch_places.get(step.proto.output[0], 0)
    if place < len(wanted) and batch > 1 and wanted[place] % batch == 0:
        tried.insert(0, [*wanted[:place], wanted[place] // batch or wanted[place], *wanted[place + 1 :]])
    for candidate in tried if min(wanted, default=1) >= -1 else ():
        try:  # a view of one element: nothing is copied
            return np.broadcast_to(np.False_, dims).reshape(candidate).shape
        except (ValueError, OverflowError):
            continue
    raise step.mismatch("shape", f"{shown(dims)} cannot be reshaped to {shown(target)}")


def permutation(step: OnnxOperator, rank: int) -> Dims:
    """Return the `perm` of a Transpose, reversed axes by default. Raises SpecError."""
    perm = step.integers("perm")
    if perm is None:
        return tuple(range(rank))[::-1]
    if sorted(perm) != list(range(rank)):
        raise step.fault("perm", f"got {brief(str(perm))}, must order the {rank} axes of the input")
    return perm


def sliced(step: OnnxOperator, dims: Dims) -> dict[int, range]:
    """Return the range that Slice keeps of every axis that it names. Raises SpecError, UnsupportedError."""
    fields = ("starts", "ends", "axes", "steps")
    given = [
        step.integers(field) if step.opset < 10 else step.known_integers(at, field)
        for at, field in enumerate(fields, 1)
    ]
    starts, ends, axes, steps = given
    if starts is None or ends is None:
        raise step.fault("starts", "Slice needs starts and ends")
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (1,) * len(starts) if steps is None or step.opset < 10 else steps
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise step.fault("starts", "starts, ends, axes and steps must be equally long, and no step 0")
    places = [step.axis(axis, len(dims), "axes") for axis in axes]
    pieces = zip(places, map(slice, starts, ends, steps), strict=True)
    return {place: range(*piece.indices(dims[place])) for place, piece in pieces}


def split_lengths(step: OnnxOperator, dims: Dims) -> tuple[int, Dims]:
    """Return the axis of Split and the lengths of the parts. Raises SpecError, NetworkError."""
    axis, outputs = step.axis(step.integer("axis", 0), len(dims)), len(step.proto.output)
    sizes = step.integers("split")
    if sizes is None and step.opset >= 13:
        sizes = step.known_integers(1, "split")
    if sizes is None:
        part = -(-dims[axis] // outputs)
        sizes = (*[part] * (outputs - 1), dims[axis] - part * (outputs - 1))
    if len(sizes) != outputs or sum(sizes) != dims[axis] or min(sizes) < 0:
        parts = brief(str(sizes))
        raise step.mismatch(
            "split", f"parts {parts} do not make an axis of {dims[axis]} in {outputs} outputs"
        )
    return axis, sizes


def joined(step: OnnxOperator, shapes: Sequence[Dims], axis: int) -> Dims:
    """Return the shape after Concat. Raises NetworkError if the other axes differ."""
    first = shapes[0]
    for dims in shapes:
        if (*dims[:axis], *dims[axis + 1 :]) != (*first[:axis], *first[axis + 1 :]):
            raise step.mismatch("inputs", f"{shown(first)} and {shown(dims)} differ outside axis {axis}")
    return (*first[:axis], sum(dims[axis] for dims in shapes), *first[axis + 1 :])
