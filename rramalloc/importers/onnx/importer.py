"""Conversion of an ONNX model to a network: visits the operators in order and keeps what the outputs need."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx

from rramalloc.choices import NodeNames
from rramalloc.errors import FileError, SpecError
from rramalloc.importers.axes import Dims, Layout, shape_of
from rramalloc.importers.onnx import protos
from rramalloc.importers.onnx.first_axes import AllDecidedError, FirstAxes
from rramalloc.importers.onnx.functions import inlined
from rramalloc.importers.onnx.graph import (
    CONTROL_FLOW,
    CONTROLS,
    Graph,
    decode,
    graph_of,
    place_of,
    undefined,
)
from rramalloc.importers.onnx.inputs import Inputs, inputs_of, layouts_of, settled
from rramalloc.importers.onnx.step import Drawing, Step
from rramalloc.importers.onnx.tensors import Constant, Parts, Tensor, Value, tensor
from rramalloc.importers.onnx.visit import Drawn, fewest_barriers, visit
from rramalloc.network.geometry import MAX_EXTENT
from rramalloc.network.network import Network
from rramalloc.records import brief

OLDEST_OPSET = 7  # from it on, operands broadcast without attributes


def read(
    path: Path,
    input_shapes: Mapping[str, Sequence[int]],
    *,
    allow_partial: bool = False,
    names: NodeNames = "module",
) -> Network:
    """Read the network in an ONNX file; `input_shapes`: with batch, for every input with open axes.

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
    """Return the network of an onnx.ModelProto; `where`: its file, as messages name it.

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
    """Return True for each input whose first axis the model treats as a batch, as far as that shows."""
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
    drawing.external = {
        proto.name for proto in graph.proto.initializer if proto.data_location == onnx.TensorProto.EXTERNAL
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
        _visit_node(graph, drawing, proto, graph.names[index], values, declared, axes)
    last = [values[name] for name in graph.outputs]
    last += [part for value in last if isinstance(value, Parts) for part in value.parts]
    ends = [value.node for value in last if isinstance(value, Tensor)]
    if not ends:
        raise SpecError(graph.where, "graph.output: no output of the model depends on an input")
    return drawing, ends


def _visit_node(
    graph: Graph,
    drawing: Drawing,
    proto: Any,
    name: str,
    values: dict[str, Value],
    declared: Mapping[str, Dims],
    axes: FirstAxes | None,
) -> None:
    """Add what a node makes to the values; of an If the branch that runs."""
    missing = [source for source in proto.input if source and source not in values]
    if missing:
        raise undefined(graph.where, proto, missing[0])
    step = Step(
        drawing=drawing,
        proto=proto,
        name=name,
        place=place_of(graph.where, proto),
        opset=graph.opset,
        values=tuple(values[source] if source else None for source in proto.input),
    )
    if proto.op_type in CONTROLS and proto.domain in ("", "ai.onnx"):
        branch = _branch(step)
        inner = dict(values)
        for stored in branch.initializer:
            constant = protos.constant_of(stored, f"{graph.where}: initializer {brief(stored.name)}")
            inner[stored.name] = replace(constant, origin=stored.name)
        for node in branch.node:
            _visit_node(graph, drawing, node, node.name or name, inner, declared, axes)
        for output, info in zip(proto.output, branch.output, strict=True):
            if info.name not in inner:
                raise undefined(graph.where, proto, info.name)
            values[output] = inner[info.name]
        return
    if axes is not None:
        axes.judge(step)
    made = visit(step, declared)
    if axes is not None:
        axes.carry(step, made)
    values.update(zip(proto.output, made, strict=True))


def _branch(step: Step) -> Any:
    """Return the branch that runs. Raises UnsupportedError if the condition depends on data."""
    condition = step.value(0)
    known = condition.array if step.op == "If" and isinstance(condition, Constant) else None
    wanted = None if known is None or known.size != 1 else "then_branch" if known.any() else "else_branch"
    found = [attribute.g for attribute in step.proto.attribute if attribute.name == wanted]
    if not found or len(found[0].output) != len(step.proto.output):
        raise step.unsupported(CONTROL_FLOW)
    return found[0]


def _declared(graph: Graph, inputs: Inputs) -> dict[str, Dims]:
    """Return the shapes that the file states for inner tensors, with batch 1, where no other axis is open."""
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
