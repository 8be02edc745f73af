"""Output shapes of operators that the network model does not know, by ONNX's own shape inference."""

from __future__ import annotations

import onnx
import onnx.checker
import onnx.defs
import onnx.helper
import onnx.numpy_helper
import onnx.shape_inference

from rramalloc.importers.axes import Dims
from rramalloc.importers.onnx.step import Step
from rramalloc.importers.onnx.tensors import Constant
from rramalloc.network.geometry import MAX_EXTENT

_KNOWN = frozenset(
    "AffineGrid ArgMax ArgMin AveragePool BatchNormalization Bernoulli BitCast BlackmanWindow "
    "CausalConvWithState CenterCropPad Clip Col2Im Concat Conv ConvInteger ConvTranspose CumProd CumSum "
    "DFT DeformConv DepthToSpace Det Einsum Expand EyeLike GRU Gather GatherElements Gemm "
    "GlobalAveragePool GlobalMaxPool GridSample HammingWindow HannWindow InstanceNormalization LSTM "
    "LayerNormalization LinearAttention LogSoftmax MatMul MaxPool MaxUnpool MelWeightMatrix OneHot PRelu "
    "Pad RNN RandomNormalLike RandomUniformLike Range ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp "
    "ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Reshape Resize ReverseSequence "
    "RoiAlign RotaryEmbedding STFT Scatter ScatterElements ScatterND SpaceToDepth Squeeze TensorScatter "
    "Tile TopK Transpose Trilu Unsqueeze Upsample".split()
)
"""Operators whose inference has been tried on malformed nodes: that of GatherND and Split can crash."""
_LARGEST = 2**24
"""Largest whole number of an attribute that is handed on: no sensible one is beyond it."""
_FAILURES = (
    onnx.checker.ValidationError,
    onnx.defs.SchemaError,
    RuntimeError,
    ValueError,
    TypeError,
    LookupError,
)


def outputs_of(step: Step) -> list[Dims | None]:
    """Return the shape of every output, None where it is not known. Raises SpecError for wrong attributes."""
    count = len(step.proto.output)
    if not has_rule(step) or any(value is not None and value.dims is None for value in step.values):
        return [None] * count
    if step.op == "GatherND":
        return [_gather_nd(step), *[None] * count][:count]
    return _inferred(step)


def has_rule(step: Step) -> bool:
    """Return True if the operator is a standard one whose output shapes are known."""
    return step.proto.domain in ("", "ai.onnx") and (step.op in _KNOWN or step.op == "GatherND")


def _gather_nd(step: Step) -> Dims:
    data, indices = step.dims(0), step.dims(1)
    shared = step.integer("batch_dims", 0)
    if not indices or not 0 <= shared < len(data) or not 1 <= indices[-1] <= len(data) - shared:
        raise step.fault("batch_dims", "data, indices and batch_dims do not fit")
    return indices[:-1] + data[shared + indices[-1] :]


def _inferred(step: Step) -> list[Dims | None]:
    """Return the shapes that ONNX infers. Raises SpecError if it finds a fault."""
    for attribute in step.proto.attribute:
        if any(abs(number) > _LARGEST for number in (attribute.i, *attribute.ints)):
            raise step.fault(attribute.name, f"must be from {-_LARGEST} to {_LARGEST}")
    types, known = dict[str, onnx.TypeProto](), dict[str, onnx.TensorProto]()
    schema = onnx.defs.get_schema(step.op, step.opset, "") if onnx.defs.has(step.op, step.opset, "") else None
    if schema is None:
        return [None] * len(step.proto.output)
    for index, (name, value) in enumerate(zip(step.proto.input, step.values, strict=True)):
        array = value.array if isinstance(value, Constant) else None
        formal = schema.inputs[min(index, len(schema.inputs) - 1)]
        kind = onnx.TensorProto.FLOAT if "tensor(float)" in formal.types else onnx.TensorProto.INT64
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
    return [_dims_of(made.get(name)) for name in step.proto.output]


def _dims_of(kind: onnx.TypeProto | None) -> Dims | None:
    if kind is None or not kind.tensor_type.HasField("shape"):
        return None
    axes = kind.tensor_type.shape.dim
    dims = tuple(int(axis.dim_value) if axis.HasField("dim_value") else -1 for axis in axes)
    return dims if all(0 <= size <= MAX_EXTENT for size in dims) else None
