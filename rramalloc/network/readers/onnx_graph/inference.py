"""Shapes of operators without a rule here, from ONNX's own definition of the operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
import onnx.checker
import onnx.shape_inference
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from rramalloc.network.readers.onnx_graph.shapes import MAX_DIM
from rramalloc.network.readers.onnx_graph.step import Step
from rramalloc.network.readers.onnx_graph.tensors import Constant, Dims, Value

_FAILURES = (
    onnx.shape_inference.InferenceError,
    onnx.checker.ValidationError,
    onnx.defs.SchemaError,
    DecodeError,
    RuntimeError,
    ValueError,
    TypeError,
    KeyError,
)


def inferred(step: Step) -> Sequence[Dims | None]:
    """Shape of every output, None where ONNX cannot tell; no weight and no attribute graph is looked at."""
    unknown: Sequence[Dims | None] = [None] * len(step.proto.output)
    if step.proto.domain not in ("", "ai.onnx") or any(attr.HasField("g") for attr in step.proto.attribute):
        return unknown
    if any(value is not None and value.dims is None for value in step.values):
        return unknown
    names = list(step.proto.input)
    pairs = [(name, value) for name, value in zip(names, step.values, strict=False) if value is not None]
    try:
        schema = onnx.defs.get_schema(step.op, step.opset, "")
        found = onnx.shape_inference.infer_node_outputs(
            schema,
            step.proto,
            {name: _type_of(value) for name, value in pairs},
            {name: data for name, value in pairs if (data := _data_of(name, value)) is not None},
            opset_imports=[onnx.helper.make_opsetid("", step.opset)],
        )
    except _FAILURES:
        return unknown
    return [_dims_of(found.get(name)) for name in step.proto.output]


def _type_of(value: Value) -> Any:
    array = value.array if isinstance(value, Constant) else None
    kind = onnx.TensorProto.FLOAT if array is None else onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnx.helper.make_tensor_type_proto(kind, value.dims)


def _data_of(name: str, value: Value) -> Any:
    if isinstance(value, Constant) and value.array is not None:
        return onnx.numpy_helper.from_array(value.array, name)
    return None


def _dims_of(kind: Any) -> Dims | None:
    if kind is None or not kind.tensor_type.HasField("shape"):
        return None
    dims = tuple(int(axis.dim_value) for axis in kind.tensor_type.shape.dim)
    return dims if all(1 <= size <= MAX_DIM for size in dims) else None
