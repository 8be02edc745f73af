"""From an ONNX model to a network: visits the operators in order and keeps what the outputs need."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rramalloc.choices import NodeNames
from rramalloc.errors import FileError, SpecError
from rramalloc.importers.axes import Dims, Layout, shape_of
from rramalloc.importers.onnx import protos
from rramalloc.importers.onnx.first_axes import AllDecidedError, FirstAxes
from rramalloc.importers.onnx.functions import inlined
from rramalloc.importers.onnx.graph import Graph, decode, graph_of
from rramalloc.importers.onnx.inputs import Inputs, inputs_of, layouts_of, settled
from rramalloc.importers.onnx.step import Drawing, Step
from rramalloc.importers.onnx.tensors import Constant, Tensor, Value, tensor
from rramalloc.importers.onnx.visit import Drawn, fewest_barriers, visit
from rramalloc.network.geometry import MAX_EXTENT
from rramalloc.network.network import Network
from rramalloc.records import brief

OLDEST_OPSET = 7


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
    name: str = "",
    source: str = "",
) -> Network:
    """The network of an onnx.ModelProto; `where`: its file, as messages name it.

    name, source: of the network, by default after the file.

    Raises SpecError, NetworkError, UnsupportedError; FileError if a text in it is not UTF-8.
    """
    try:
        graph = graph_of(inlined(model, where), where, names)
        inputs = inputs_of(graph, input_shapes)
        inputs = settled(inputs, _verdicts(graph, inputs), where)
        drawing, ends = fewest_barriers(inputs.data, lambda layouts: _import(graph, inputs, layouts))
        made_by = (model.producer_name, model.producer_version)
        producer = " ".join(part for part in made_by if part and isinstance(part, str))
        file = Path(where).name
        return drawing.network(
            name or Path(file).stem or file,
            source or f"ONNX file {file}, opset {graph.opset}, producer {producer[:100] or 'unknown'}",
            allow_partial=allow_partial,
            warnings=_general(graph, inputs),
            ends=ends,
        )
    except UnicodeDecodeError:
        raise FileError(where, "is damaged: a name in the model is not UTF-8 text") from None


def _general(graph: Graph, inputs: Inputs) -> list[str]:
    warnings = []
    if graph.opset < OLDEST_OPSET:
        warnings.append(f"opset {graph.opset} is older than {OLDEST_OPSET}: broadcasting may be read wrongly")
    return [*warnings, *inputs.notes]


def _verdicts(graph: Graph, inputs: Inputs) -> Mapping[str, bool]:
    """Whether the model treats the first axis of each input as a batch, as far as that shows."""
    stored = {tensor.name for tensor in graph.proto.initializer}
    axes = FirstAxes([name for name, dims in inputs.data.items() if dims and dims[0] > 1], stored)
    if axes.pending:
        with contextlib.suppress(SpecError, AllDecidedError):
            _import(graph, inputs, {name: layouts_of(dims)[0] for name, dims in inputs.data.items()}, axes)
    return axes.verdicts


def _import(
    graph: Graph, inputs: Inputs, layouts: Mapping[str, Layout], axes: FirstAxes | None = None
) -> Drawn:
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
            drawing=drawing,
            proto=proto,
            name=graph.names[index],
            place=graph.place(index),
            opset=graph.opset,
            values=tuple(values[name] if name else None for name in proto.input),
        )
        if axes is not None:
            axes.judge(step)
        made = visit(step, declared)
        if axes is not None:
            axes.carry(step, made)
        values.update(zip(proto.output, made, strict=True))
    ends = [value.node for name in graph.outputs if isinstance(value := values[name], Tensor)]
    if not ends:
        raise SpecError(graph.where, "graph.output: no output of the model depends on an input")
    return drawing, ends


def _declared(graph: Graph, inputs: Inputs) -> dict[str, Dims]:
    """Shapes that the file states for inner tensors, with batch 1, where no other axis is open."""
    shapes: dict[str, Dims] = {}
    for info in (*graph.proto.value_info, *graph.proto.output):
        kind = info.type.tensor_type
        if info.type.HasField("tensor_type") and kind.HasField("shape"):
            dims = [int(axis.dim_value) for axis in kind.shape.dim]
            if dims and (dims[0] <= 0 or dims[0] == inputs.batch):
                dims[0] = 1
            if all(1 <= size <= MAX_EXTENT for size in dims):
                shapes[info.name] = tuple(dims)
    return shapes
