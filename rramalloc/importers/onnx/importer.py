"""From an ONNX model to a network: visits the operators in order and keeps what the outputs need."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from rramalloc.choices import NodeNames
from rramalloc.errors import FileError, SpecError
from rramalloc.importers.axes import Dims, Layout, shape_of
from rramalloc.importers.builder import needed
from rramalloc.importers.onnx import protos
from rramalloc.importers.onnx.constants import evaluate
from rramalloc.importers.onnx.drawing import Drawing, barrier
from rramalloc.importers.onnx.functions import inlined
from rramalloc.importers.onnx.graph import Graph, decode, graph_of
from rramalloc.importers.onnx.inputs import Inputs, inputs_of, layouts_of
from rramalloc.importers.onnx.operators import HANDLERS
from rramalloc.importers.onnx.outputs import has_rule, outputs_of
from rramalloc.importers.onnx.shapes import MAX_DIM
from rramalloc.importers.onnx.step import Step
from rramalloc.importers.onnx.tensors import Constant, Tensor, Value, tensor, usual
from rramalloc.network.network import Network
from rramalloc.records import brief

OLDEST_OPSET = 7
_DOMAINS = ("", "ai.onnx", "com.microsoft")
_MAX_TRIALS = 8
_REORDERINGS = (
    "Identity", "Cast", "Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "QuantizeLinear",
    "DequantizeLinear",
)  # fmt: skip
_KEEPS_BITS = (
    *_REORDERINGS, "Clip", "Concat", "DepthToSpace", "Expand", "Gather", "MaxPool", "Pad", "Relu", "Slice",
    "SpaceToDepth", "Split",
)  # fmt: skip
"""Operators whose results are values of their first input, or 0."""
_RECURRENT = ("LSTM", "GRU", "RNN")


def read(
    path: Path,
    input_shapes: Mapping[str, Sequence[int]],
    *,
    allow_partial: bool = False,
    names: NodeNames = "module",
) -> Network:
    """The network in an ONNX file; `input_shapes`: with batch, for every input with open axes.

    allow_partial: take operators whose weights cannot be modelled as barriers; names: of nodes, after
    PyTorch's modules where the file tells them, or of the file's own nodes.
    Raises FileError, SpecError, NetworkError, UnsupportedError.
    """
    return from_model(decode(path), os.fspath(path), input_shapes, allow_partial=allow_partial, names=names)


def from_model(
    model: Any,
    where: str,
    input_shapes: Mapping[str, Sequence[int]],
    *,
    allow_partial: bool = False,
    names: NodeNames = "module",
) -> Network:
    """The network of an onnx.ModelProto; `where`: its file, as messages name it.

    Raises SpecError, NetworkError, UnsupportedError; FileError if a text in it is not UTF-8.
    """
    try:
        return _from_model(model, where, input_shapes, allow_partial=allow_partial, names=names)
    except UnicodeDecodeError:
        raise FileError(where, "is damaged: a name in the model is not UTF-8 text") from None


def _from_model(
    model: Any,
    where: str,
    input_shapes: Mapping[str, Sequence[int]],
    *,
    allow_partial: bool,
    names: NodeNames,
) -> Network:
    graph = graph_of(inlined(model, where), where, names)
    inputs = inputs_of(graph, input_shapes)
    drawing, ends = _best(graph, inputs)
    made_by = (model.producer_name, model.producer_version)
    producer = " ".join(part for part in made_by if part and isinstance(part, str))
    name = Path(where).name
    return drawing.network(
        Path(name).stem or name,
        f"ONNX file {name}, opset {graph.opset}, producer {producer[:100] or 'unknown'}",
        allow_partial=allow_partial,
        warnings=_general(graph, inputs),
        ends=ends,
    )


def _general(graph: Graph, inputs: Inputs) -> list[str]:
    warnings = []
    if graph.opset < OLDEST_OPSET:
        warnings.append(f"opset {graph.opset} is older than {OLDEST_OPSET}: broadcasting may be read wrongly")
    warnings.extend(
        f"input {brief(name)} has a batch of {inputs.batch}: taken as 1, one input at a time"
        for name in inputs.batched
    )
    return warnings


def _best(graph: Graph, inputs: Inputs) -> tuple[Drawing, list[str]]:
    """The likely meaning of the inputs' axes, which ONNX does not state, that takes the fewest barriers.

    With the nodes of the outputs.
    """
    layouts = {name: layouts_of(dims)[0] for name, dims in inputs.data.items()}
    best = _import(graph, inputs, layouts)
    for name, dims in list(inputs.data.items())[:_MAX_TRIALS]:
        for layout in layouts_of(dims)[1:]:
            if not _barriers(best):
                return best
            try:
                trial = _import(graph, inputs, {**layouts, name: layout})
            except SpecError:
                continue
            if _barriers(trial) < _barriers(best):
                best, layouts[name] = trial, layout
    return best


def _barriers(trial: tuple[Drawing, list[str]]) -> int:
    drawing, ends = trial
    return drawing.moves + sum(node.op == "barrier" for node in needed(drawing.nodes, ends))


def _import(graph: Graph, inputs: Inputs, layouts: Mapping[str, Layout]) -> tuple[Drawing, list[str]]:
    drawing = Drawing(graph.where, inputs.batch, graph.uses, graph.names)
    constants = {
        proto.name: protos.constant_of(proto, f"{graph.where}: initializer {brief(proto.name)}")
        for proto in graph.proto.initializer
        if proto.name in graph.uses
    }
    for sparse in graph.proto.sparse_initializer:
        constants[sparse.values.name] = Constant(dims=protos.dims_of(sparse, graph.where))
    constants.update({name: Constant(dims=dims) for name, dims in inputs.weights.items()})
    values: dict[str, Value] = {name: replace(value, origin=name) for name, value in constants.items()}
    for name, dims in inputs.data.items():
        node = drawing.unique(name)
        drawing.add(node, "input", (), graph.where, shape=tuple(shape_of(dims, layouts[name])))
        values[name] = tensor(node, dims, layouts[name])
    declared = _declared(graph, inputs)
    for index, proto in enumerate(graph.nodes):
        step = Step(
            proto=proto,
            name=graph.names[index],
            place=graph.place(index),
            opset=graph.opset,
            values=tuple(values[name] if name else None for name in proto.input),
        )
        _store(values, step, _visit(drawing, step, declared))
    ends = [value.node for name in graph.outputs if isinstance(value := values[name], Tensor)]
    if not ends:
        raise SpecError(graph.where, "graph.output: no output of the model depends on an input")
    return drawing, ends


def _store(values: dict[str, Value], step: Step, results: Sequence[Value]) -> None:
    """Outputs by name with their bits; a constant that only reorders another one keeps its origin."""
    first = step.values[0] if step.values else None
    kept = first.origin if isinstance(first, Constant) and step.op in _REORDERINGS else ""
    bits = _bits(step)
    for index, name in enumerate(step.proto.output):
        if name:
            value = results[min(index, len(results) - 1)]
            value = value if value.bits == bits else replace(value, bits=bits)
            values[name] = replace(value, origin=kept or name) if isinstance(value, Constant) else value


def _bits(step: Step) -> int | None:
    """Bits of the whole numbers that the results are or were made of, None if they are not quantised."""
    first = step.values[0] if step.values else None
    if step.op == "Constant":
        proto = step.tensor_attribute("value")
        return None if proto is None else protos.bits_of(proto.data_type)
    if step.op == "QuantizeLinear":
        zero = step.value(2)
        kind = step.integer("output_dtype", onnx.TensorProto.UINT8)
        return zero.bits if zero is not None else protos.bits_of(kind)
    if step.op == "DynamicQuantizeLinear":
        return 8
    if step.op.startswith("QLinear") or step.op == "QGemm":  # the zero point of the result has its type
        return max((value.bits for value in step.values if value is not None and value.bits), default=None)
    return first.bits if first is not None and step.op in _KEEPS_BITS else None


def _visit(drawing: Drawing, step: Step, declared: Mapping[str, Dims]) -> Sequence[Value]:
    known = step.proto.domain in _DOMAINS
    if known and step.op in ("Shape", "Size") and step.need(0).dims is not None:
        return [_measure(step)]
    if all(not isinstance(value, Tensor) for value in step.values):
        return evaluate(step, drawing.room)
    handler = HANDLERS.get(step.op) if known else None
    return handler(drawing, step) if handler is not None else _unknown(drawing, step, declared)


def _measure(step: Step) -> Constant:
    dims = step.dims(0)
    if step.op == "Size":
        return Constant(dims=(), array=np.array(np.prod(dims, dtype=np.float64)).astype(np.int64))
    start, end = step.integer("start", 0), step.integer("end", len(dims))
    array = np.array(dims[slice(start, end)], dtype=np.int64)
    return Constant(dims=array.shape, array=array)


def _unknown(drawing: Drawing, step: Step, declared: Mapping[str, Dims]) -> Sequence[Value]:
    """A barrier for every output of an operator without a rule."""
    data = [value for value in step.values if isinstance(value, Tensor)]
    results: list[Value] = []
    for index, (name, dims) in enumerate(zip(step.proto.output, outputs_of(step), strict=True)):
        shape = declared.get(name) if dims is None else dims
        if shape is None and name:
            raise step.unsupported(
                f"the operator is not known and the shape of its output {brief(name)} is not in the file: "
                f"run onnx.shape_inference on the model, or add the shape to graph.value_info"
            )
        if shape is None or not name:
            results.append(Constant(dims=None))
            continue
        layout = data[0].layout if data[0].dims == shape else usual(shape)
        results.append(barrier(drawing, step, data, shape, layout, f"{index}" if index else ""))
    made = [result.node for result in results if isinstance(result, Tensor)]
    if made:
        weights = _weights(step)
        treatment = "is not known: treated as a barrier" + ", its weights take no arrays" * bool(weights)
        drawing.approximate(made, step.label, treatment)
        if weights:
            macs = (
                weights * step.dims(0)[1 if step.integer("layout", 0) else 0]
                if step.op in _RECURRENT
                else None
            )
            drawing.leave_out(made, step.label, weights, macs)
    return results


def _weights(step: Step) -> int:
    """Constant weights of an operator without a rule: matrices that are no indices and not only moved."""
    if has_rule(step) and step.op not in (*_RECURRENT, "Einsum", "MatMul"):
        return 0
    values = step.values[1:3] if step.op in _RECURRENT else step.values  # without biases and states
    matrices = (value.dims or () for value in values if isinstance(value, Constant))
    return sum(math.prod(dims) for dims in matrices if sum(size > 1 for size in dims) > 1)


def _declared(graph: Graph, inputs: Inputs) -> dict[str, Dims]:
    """Shapes that the file states for inner tensors, with batch 1, where no other axis is open."""
    shapes: dict[str, Dims] = {}
    for info in (*graph.proto.value_info, *graph.proto.output):
        kind = info.type.tensor_type
        if info.type.HasField("tensor_type") and kind.HasField("shape"):
            dims = [int(axis.dim_value) for axis in kind.shape.dim]
            if dims and (dims[0] <= 0 or dims[0] == inputs.batch):
                dims[0] = 1
            if all(1 <= size <= MAX_DIM for size in dims):
                shapes[info.name] = tuple(dims)
    return shapes
