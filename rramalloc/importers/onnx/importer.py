"""Conversion of an ONNX model to a network: visits the operators that the outputs need, in order."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import re
from collections import ChainMap
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from rramalloc.choices import HostLike, NodeNames
from rramalloc.errors import FileError, SpecError, UnsupportedError
from rramalloc.files import as_utf8
from rramalloc.importers.axes import AxisRoles, Dims, shape_of
from rramalloc.importers.builder import LoopWork, needed
from rramalloc.importers.onnx.chosen import (
    EXPERTS,
    chosen_in,
    filtered,
    is_mixture,
    leave_out_chosen,
    stored_in,
    values_in_byte,
)
from rramalloc.importers.onnx.control import branch_of, charge_rounds, check_decided, repeated
from rramalloc.importers.onnx.feedback import feedback_of
from rramalloc.importers.onnx.first_axes import FirstAxes, settled
from rramalloc.importers.onnx.graph import (
    Graph,
    all_nodes,
    decode,
    graph_of,
    model_in,
    most_unfolded,
    part_of,
    place_of,
    read_by,
    undefined,
)
from rramalloc.importers.onnx.inputs import (
    TRIAL,
    Inputs,
    InputValue,
    checked_values,
    factors_of,
    layouts_of,
    resolved_inputs,
)
from rramalloc.importers.onnx.operators import HANDLERS
from rramalloc.importers.onnx.shapes import broadcast_from_axis, evaluate_constants, outputs_of
from rramalloc.importers.onnx.step import Handler, OnnxGraphBuilder, OnnxOperator
from rramalloc.importers.onnx.tensors import (
    BITS,
    Constant,
    Lost,
    Parts,
    Tensor,
    Value,
    arranged,
    constant_of,
    default_nchw_layout,
    dims_of,
    gridded,
    single_integer,
    stored_as,
    tensor,
)
from rramalloc.network.geometry import MAX_EXTENT
from rramalloc.network.network import FEEDS_BACK, Network
from rramalloc.records import brief

Built = tuple[OnnxGraphBuilder, list[str]]
"""The nodes of a graph, and those of its outputs."""
_QONNX = ("qonnx.custom_op.general", "finn.custom_op.general", "onnx.brevitas")
_DOMAINS = ("", "ai.onnx", "com.microsoft", *_QONNX)
_QONNX_BITS = {"Quant": ((3,), 0), "IntQuant": ((3,), 0), "Trunc": ((4,), 0), "FloatQuant": ((2, 3), 1)}
"""Inputs that hold the bits of the result, of exponent and mantissa, and the bits that it has beside them."""
_MAX_TRIALS = 8  # inputs whose other layouts are tried, each with an import of the whole graph
_LAYERS = ("MatMul", "Gemm", "Conv", "ConvTranspose")
_WEIGHTED = ("CausalConvWithState", "DeformConv", "Einsum", "MatMul")
"""Standard operators whose matrices are weights, where no rule knows them."""
_REORDERINGS = frozenset(
    "Identity Cast Transpose Reshape Flatten Squeeze Unsqueeze QuantizeLinear DequantizeLinear Quant "
    "IntQuant FloatQuant Trunc BipolarQuant".split()
)
_KEEPS_BITS = _REORDERINGS.union(
    "Clip Concat Constant DepthToSpace Expand Gather MaxPool Pad Relu Slice SpaceToDepth Split".split()
)
"""Operators whose results are values of their first input, or 0."""
_PACKED = re.compile(r"NBits|Bnb4|QMoE|BlockQuantized")
"""Operators whose weights lie in bytes, several in each where they have few bits."""
_FILTERS = ("Compress", "NonMaxSuppression", "NonZero", "Unique")
"""Operators whose results are as long as data says."""
_LONGEST_REASON = 300  # letters, of why an operator is left out
_MOST_ORIGIN = 4096  # letters of the names that a tensor is joined of: Concat of itself doubles them
_DECIDED = "how many values it yields is decided by data"
_SCALES = ("Div", "Mul", "Sub")
"""Operators that a dequantisation of stored values is written out with."""


def read(
    path: Path,
    input_shapes: Mapping[str, Sequence[int]],
    *,
    input_values: Mapping[str, InputValue] | None = None,
    allow_partial: bool = False,
    host: HostLike = (),
    names: NodeNames = "module",
) -> Network:
    """Read the network in an ONNX file; arguments and errors as of `rramalloc.load`."""
    return from_model(
        decode(path),
        os.fspath(path),
        input_shapes,
        input_values=input_values,
        allow_partial=allow_partial,
        host=host,
        names=names,
    )


def from_memory(
    model: Any,
    where: str,
    input_shapes: Mapping[str, Sequence[int]],
    *,
    input_values: Mapping[str, InputValue],
    allow_partial: bool,
    host: HostLike,
    names: NodeNames,
) -> Network:
    """Return the network of an onnx.ModelProto, or of its bytes; arguments and errors as of `from_model`."""
    if isinstance(model, bytes):
        model = model_in(model, where)
    if not isinstance(model, onnx.ModelProto):
        wanted = "must be a file, a name, bytes or an onnx.ModelProto"
        raise SpecError("network", f"{wanted}, got {brief(model)}")
    return from_model(
        model,
        where,
        input_shapes,
        input_values=input_values,
        allow_partial=allow_partial,
        host=host,
        names=names,
        name=model.graph.name or "network",
    )


def from_model(
    model: Any,
    where: str,
    input_shapes: Mapping[str, Sequence[int]],
    *,
    input_values: Mapping[str, InputValue] | None = None,
    allow_partial: bool = False,
    host: HostLike = (),
    names: NodeNames = "module",
    dynamic: Collection[str] = (),
    name: str = "",
    source: str = "",
) -> Network:
    """Return the network of an onnx.ModelProto; `where`: its file, as messages name it.

    host: layers that are left to the host where they cannot be expressed, by name or pattern; dynamic: inputs
    with an open first axis, of the length of an example unless it is a batch; name, source: of the network,
    by default after the file; a program with a source takes no input values.

    Raises SpecError, NetworkError, UnsupportedError; FileError if a text in it is not UTF-8.
    """
    try:
        given = checked_values(input_values or {}, where)
        graph = graph_of(model, where, names, given, has_options=not source)
        check_decided(graph, graph.computed)
        inputs = replace(resolved_inputs(graph, input_shapes, given), dynamic=frozenset(dynamic))
        inputs = settled(inputs, _first_axes(graph, inputs), where)

        patterns = [host] if isinstance(host, str) else host or ()  # options that nobody gave are None

        def is_lifted(layer: str) -> bool:
            return allow_partial or any(fnmatchcase(layer, pattern) for pattern in patterns)

        builder, outputs = _fewest_barriers(
            inputs, lambda layouts: _import(graph, inputs, layouts, is_lifted)
        )
        made_by = (model.producer_name, model.producer_version)
        producer = " ".join(part for part in made_by if part and isinstance(part, str))
        file = as_utf8(Path(where).name)
        chosen = "".join(f", {key} = {value}" for key, value in given.items())
        network = builder.network(
            name or Path(file).stem or file,
            source
            or f"ONNX file {file}, opset {graph.opset}, producer {producer[:100] or 'unknown'}{chosen}",
            is_lifted=is_lifted,
            warnings=inputs.notes,
            outputs=outputs,
        )
        if builder.feedback == "decoder":
            return replace(network, sequences=1, warnings=(*network.warnings, FEEDS_BACK))
        return replace(network, has_caches=builder.feedback == "caches")
    except UnicodeDecodeError:
        raise FileError(where, "is damaged: a name in the model is not UTF-8 text") from None


def _first_axes(graph: Graph, inputs: Inputs) -> FirstAxes:
    """Return what operators say of the first axes of inputs that are longer than 1, or open."""
    stored = {tensor.name for tensor in graph.proto.initializer}
    axes = FirstAxes({name: dims[0] for name, dims in inputs.data.items() if dims and dims[0] > 1}, stored)
    if axes.lengths:
        with contextlib.suppress(SpecError):
            layouts = {name: layouts_of(dims)[0] for name, dims in inputs.data.items()}
            _import(graph, inputs, layouts, axes=axes)
    return axes


def _fewest_barriers(inputs: Inputs, build: Callable[[Mapping[str, AxisRoles]], Built]) -> Built:
    """Return the network with the fewest barriers under the likely roles of the inputs' axes."""
    options = {name: layouts_of(dims, name in inputs.images) for name, dims in inputs.data.items()}
    layouts = {name: choices[0] for name, choices in options.items()}
    best = build(layouts)
    for name, choices in list(options.items())[:_MAX_TRIALS]:
        for layout in choices[1:]:
            if not _barriers(best):
                return best
            with contextlib.suppress(SpecError):
                trial = build({**layouts, name: layout})
                if _barriers(trial) < _barriers(best):
                    best, layouts[name] = trial, layout
    return best


def _barriers(built: Built) -> int:
    builder, outputs = built
    return builder.moves + sum(node.op == "barrier" for node in needed(builder.nodes, outputs))


def _import(
    graph: Graph,
    inputs: Inputs,
    layouts: Mapping[str, AxisRoles],
    is_lifted: Callable[[str], bool] = lambda layer: False,
    axes: FirstAxes | None = None,
) -> Built:
    external = {
        proto.name for proto in graph.proto.initializer if proto.data_location == onnx.TensorProto.EXTERNAL
    }
    builder = OnnxGraphBuilder(graph.where, inputs.batch, graph.uses, graph.names, external)
    builder.batch_places = inputs.batch_places
    builder.is_lifted = is_lifted
    builder.rounds_left = [most_unfolded(sum(1 for _ in all_nodes(graph.proto.node)))]
    values: dict[str, Value] = _stored(
        [proto for proto in graph.proto.initializer if proto.name in graph.uses], graph.where
    )
    for sparse in graph.proto.sparse_initializer:
        name = sparse.values.name
        dims = dims_of(sparse, graph.where)
        stored = stored_as(name, math.prod(dims), sparse.values.data_type)
        values[name] = Constant(dims=dims, origin=name, stored=stored)
    kinds = {info.name: info.type.tensor_type.elem_type for info in graph.proto.input}
    for name, dims in inputs.weights.items():
        stored = stored_as(name, math.prod(dims), kinds[name])
        values[name] = Constant(dims=dims, origin=name, bits=BITS.get(kinds[name]), stored=stored)
    for name, dims in inputs.data.items():
        node = builder.unique(name)
        shape = shape_of(dims, layouts[name])
        builder.add(node, "input", (), graph.where, shape=shape.as_tuple(), images=shape.images)
        values[name] = replace(tensor(node, dims, layouts[name]), bits=BITS.get(kinds[name]))
    values.update(inputs.values)
    first = TRIAL if axes is not None and inputs.open else 1
    Visitor(graph, builder, _declared(graph.proto, inputs.batch, first), axes).visit_all(values)
    last = [values[name] for name in graph.outputs]
    last += [part for value in last if isinstance(value, Parts) for part in value.parts]
    outputs = [value.node for value in last if isinstance(value, Tensor | Lost)]
    shapes = [value.dims for value in last if isinstance(value, Tensor)]
    builder.feedback = feedback_of(graph, inputs.data, shapes)
    if not outputs:
        raise SpecError(graph.where, "graph.output: no output of the model depends on an input")
    return builder, outputs


def _stored(initializers: Sequence[Any], where: str) -> dict[str, Value]:
    """Return tensors of the file by name."""
    return {
        proto.name: constant_of(proto, f"{where}: initializer {brief(proto.name)}") for proto in initializers
    }


def _declared(proto: Any, batch: int, first: int = 1) -> dict[str, Dims]:
    """Return the shapes that a graph states for inner tensors, where no axis but the first is open.

    first: length of a first axis that is open, or the batch.
    """
    shapes: dict[str, Dims] = {}
    for info in (*proto.value_info, *proto.output):
        kind = info.type.tensor_type
        if info.type.HasField("tensor_type") and kind.HasField("shape"):
            dims = [int(axis.dim_value) for axis in kind.shape.dim]
            if dims and (dims[0] <= 0 or dims[0] == batch):
                dims[0] = first
            if all(1 <= size <= MAX_EXTENT for size in dims):
                shapes[info.name] = tuple(dims)
    return shapes


@dataclass(frozen=True, slots=True)
class Visitor:
    """Visits the operators of a graph, each with the values of its inputs, and adds its nodes to the builder.

    declared: shapes that the file states; axes: follows the first axes of inputs.
    """

    graph: Graph
    builder: OnnxGraphBuilder
    declared: MutableMapping[str, Dims]
    axes: FirstAxes | None = None

    def visit_all(self, values: MutableMapping[str, Value]) -> None:
        """Add the outputs of every node to the values."""
        for proto, name in zip(self.graph.nodes, self.graph.names, strict=True):
            self.visit(proto, name, values)

    def visit(self, proto: Any, name: str, values: MutableMapping[str, Value]) -> None:
        """Add the outputs of a node to the values; those of an If are of the branch that runs."""
        missing = [source for source in proto.input if source and source not in values]
        if missing:
            raise undefined(self.graph.where, proto, missing[0])
        step = OnnxOperator(
            builder=self.builder,
            proto=proto,
            name=name,
            place=place_of(self.graph.where, proto),
            opset=self.graph.opset,
            values=tuple(values[source] if source else None for source in proto.input),
        )
        step = broadcast_from_axis(step) if step.is_standard else step
        if step.is_standard and step.op == "If":
            branch = branch_of(step, self.graph)
            made = self.visit_part(step.place, branch, ChainMap({}, values))
            if self.axes is not None:
                self.axes.rename([info.name for info in branch.output], proto.output)
            values.update(zip(proto.output, made, strict=True))
            return
        if self.axes is not None:
            self.axes.judge(step)
        try:
            made = self._made(step, values)
        except SpecError as error:
            is_lifted = isinstance(error, UnsupportedError) and self.builder.is_lifted(step.name)
            if self.axes is None and not is_lifted:
                raise
            made = (
                _by_shapes(step, self.declared)
                if self.axes is not None
                else _left_out(step, self.declared, error.reason)
            )
        if self.axes is not None:
            self.axes.carry(step, made)
        values.update((name, value) for name, value in zip(proto.output, made, strict=True) if name)

    def _made(self, step: OnnxOperator, values: MutableMapping[str, Value]) -> list[Value]:
        """Return the outputs of an operator, also of one that repeats a body or works on what is lost."""
        pairs = zip(step.proto.input, step.values, strict=True)
        lost = [name for name, value in pairs if isinstance(value, Lost)]
        if lost:
            if _left_work(step, None)[0] and not self.builder.is_lifted(step.name):
                raise step.unsupported(f"{_DECIDED}: {filtered(self.graph, lost)}")
            return _left_out(step, self.declared, _DECIDED)
        if step.is_standard and step.op in ("Loop", "Scan"):
            read = [values[source] for source in read_by(step.proto) if source in values]
            return repeated(step, self.graph, partial(self._round, step, values), read)
        made = self._outputs(step)
        self._follow(step)
        return made

    def _outputs(self, step: OnnxOperator) -> list[Value]:
        """Return the outputs of an operator, lost where data decides their length."""
        try:
            return _outputs(step, self.declared)
        except UnsupportedError:
            if step.op not in _FILTERS:
                raise
            return _left_out(step, self.declared, _DECIDED)

    def _follow(self, step: OnnxOperator) -> None:
        """Keep how far computed places lie behind each other: the length of slices of a stored table."""
        first, second = step.value(0), step.value(1)
        name, shift = step.proto.input[0] if step.proto.input else "", 0
        if step.op in ("Add", "Sub"):
            if step.op == "Add" and isinstance(first, Constant):
                name, second = step.proto.input[1], first
            number = single_integer(second)
            if number is None:
                return
            shift = number if step.op == "Add" else -number
        elif step.op not in ("Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze"):
            return
        base, before = self.builder.offsets.get(name, (name, 0))
        self.builder.offsets[step.proto.output[0]] = base, before + shift

    def visit_part(self, place: str, body: Any, values: MutableMapping[str, Value]) -> list[Value]:
        """Return the outputs of a branch or a body; values: of its inputs, and around it."""
        builder = self.builder
        charge_rounds(builder, place, body)
        part = part_of(
            self.graph, body, values, lambda name: isinstance(values[name], Tensor), builder.is_taken
        )
        builder.reserve(part.names)
        values.update(_stored(body.initializer, self.graph.where))
        declared = ChainMap(_declared(body, builder.batch), self.declared)
        around, builder.uses = builder.uses, part.uses
        replace(self, graph=part, declared=declared).visit_all(values)
        builder.uses = around
        return [values[name] for name in part.outputs]

    def _round(
        self, step: OnnxOperator, values: MutableMapping[str, Value], body: Any, given: Sequence[Value]
    ) -> tuple[list[Value], LoopWork]:
        """Visit the body of a loop once, with nodes that are dropped; return its outputs and its work."""
        builder = OnnxGraphBuilder(self.builder.where, self.builder.batch, {}, (), self.builder.external)
        builder.shapes = ChainMap({}, self.builder.shapes)
        builder.room = self.builder.room
        builder.is_lifted = self.builder.is_lifted
        builder.rounds_left = self.builder.rounds_left
        inputs: dict[str, Value] = {}
        for info, value in zip(body.input, given, strict=True):
            if isinstance(value, Tensor):
                layout = default_nchw_layout(value.dims)
                node = builder.unique(f"{step.name}/{info.name}")
                builder.add(node, "input", (), step.place, shape=shape_of(value.dims, layout).as_tuple())
                value = replace(tensor(node, value.dims, layout), bits=value.bits, chosen=value.chosen)
            elif not value.origin:
                value = replace(value, origin=info.name)
            inputs[info.name] = value
        made = replace(self, builder=builder).visit_part(step.place, body, ChainMap(inputs, values))
        self.builder.room = builder.room
        return made, builder.work()


def _outputs(step: OnnxOperator, declared: Mapping[str, Dims]) -> list[Value]:
    """Return every output of an operator, with its bits; a constant that only reorders another one keeps its
    origin.

    declared: shapes that the file states, for operators without a rule.
    """
    before = len(step.builder.nodes)
    results = _results(step, declared)
    if step.op != "CastLike":  # takes only the type of its second input
        results = _with_unread(step, results, before)
    origins = [value.origin for value in step.values if isinstance(value, Constant)]
    kept = ""
    if step.op in _REORDERINGS and isinstance(step.value(0), Constant):
        kept = origins[0]
    elif step.op == "Gather" and all(origins) and single_integer(step.value(1)) is not None:
        kept = f"{origins[0]}[{single_integer(step.value(1))}, axis {step.integer('axis', 0)}]"
    elif step.op == "Concat" and len(origins) == len(step.values) and all(origins):
        kept = " ".join(origins)
    if len(kept) > _MOST_ORIGIN:
        kept = f"{kept[:_MOST_ORIGIN]} {hashlib.sha256(kept.encode(errors='surrogateescape')).hexdigest()}"
    bits = _bits(step, results)
    outputs: list[Value] = []
    for index, name in enumerate(step.proto.output):
        value = results[min(index, len(results) - 1)]
        if isinstance(value, Constant):
            stored = stored_in(step, value, name)
            outputs.append(replace(value, origin=kept or name, bits=bits, stored=stored))
        else:
            outputs.append(replace(value, bits=bits, chosen=chosen_in(step, value)))
    is_known = step.is_standard or _handler(step) is not None
    leave_out_chosen(step, outputs, is_known=is_known)
    return outputs


def _with_unread(step: OnnxOperator, results: Sequence[Value], before: int) -> Sequence[Value]:
    """Return the results that wait for all of every input that no rule reads: a computed bias, scale, slope
    or length.

    before: how many nodes there were before this operator.
    """
    read = {value.node for value in results if isinstance(value, Tensor)}
    for node in reversed(step.builder.nodes[before:]):
        if node.name in read:
            read.update(node.inputs)
    inputs = {value.node: value for value in step.values if isinstance(value, Tensor)}
    if not read:
        return results
    for x in [x for name, x in inputs.items() if name not in read]:
        waited = x.node
        if x.shape.pixels > 1:
            waited = step.emit("global_maxpool", [x.node], "all", images=1)
        waiting: dict[str, str] = {}
        for y in dict.fromkeys(value.node for value in results if isinstance(value, Tensor)):
            one = step.emit("select", [waited], "all", channels=step.builder.shapes[y].channels)
            waiting[y] = step.emit("add", [y, one], "waiting")
        if x.shape.pixels > 1:
            step.builder.approximate(list(waiting.values()), step.label, f"waits for all of {x.node[:60]!r}")
        results = [
            replace(value, node=waiting[value.node]) if isinstance(value, Tensor) else value
            for value in results
        ]
    return results


def _bits(step: OnnxOperator, results: Sequence[Value]) -> int | None:
    """Return the bits of the whole numbers that the results are or were made of, None if of others."""
    if step.op == "QuantizeLinear":
        zero = step.value(2)
        kind = step.integer("output_dtype", onnx.TensorProto.UINT8)
        return zero.bits if zero is not None else BITS.get(kind)
    if step.op in ("BipolarQuant", "DynamicQuantizeLinear"):
        return 1 if step.op == "BipolarQuant" else 8
    if step.op in _QONNX_BITS:
        places, sign = _QONNX_BITS[step.op]
        arrays = [step.known(place, "bits") for place in places]
        sizes = [float(a.reshape(-1)[0]) for a in arrays if a is not None and a.size == 1]
        bits = sign + sum(sizes)
        if len(sizes) < len(places) or not 1 <= bits <= 64:
            raise step.fault("bits", "must be one number from 1 to 64")
        return int(bits)
    if step.op.startswith("QLinear") or step.op == "QGemm":  # the zero point of the result has its type
        return max((value.bits for value in step.values if value is not None and value.bits), default=None)
    if step.op == "Cast" and step.integer("to", 0) in BITS:
        return BITS[step.integer("to", 0)]
    if step.op in _SCALES and not any(isinstance(value, Tensor) for value in step.values):
        alike = [value for value in step.values if value is not None and value.dims == results[0].dims]
        return next((value.bits for value in alike if value.bits), None)
    first = (*step.values, *results)[0] if step.op in _KEEPS_BITS else None
    return None if first is None else first.bits


def _handler(step: OnnxOperator) -> Handler | None:
    return HANDLERS.get(step.op) if step.proto.domain in _DOMAINS else None


def _results(step: OnnxOperator, declared: Mapping[str, Dims]) -> Sequence[Value]:
    handler, is_known = _handler(step), step.proto.domain in _DOMAINS
    if step.proto.domain == "com.microsoft.nchwc":
        raise step.unsupported(
            "ONNX Runtime wrote this file for one processor: save it again with the graph optimisation level "
            "ORT_ENABLE_EXTENDED"
        )
    if is_known and step.op in ("Shape", "Size") and step.need(0).dims is not None:
        dims = step.dims(0)
        array = np.array(np.prod(dims, dtype=np.float64)).astype(np.int64)
        if step.op == "Shape":
            start, end = step.integer("start", 0), step.integer("end", len(dims))
            array = np.array(dims[slice(start, end)], dtype=np.int64)
        return [Constant(dims=array.shape, array=array)]
    if handler is not None and "Sequence" in step.op:
        return handler(step)
    if any(isinstance(value, Parts) for value in step.values):
        if step.op == "Identity":
            return [step.need(0)]
        raise step.unsupported(f"{step.op} takes a sequence of tensors, which cannot be expressed")
    if not any(isinstance(value, Tensor) for value in step.values):
        made = evaluate_constants(step)
        if len(made) == 1 and made[0].dims is None:
            made = [Constant(dims=declared.get(step.proto.output[0]))]
        if is_known and step.op in _LAYERS:
            _precompute(step, made[0].dims)
        return made
    if handler is None:
        return _unknown(step, declared)
    if step.op == "Slice" and isinstance(step.need(0), Constant):
        return [_sliced_table(step, declared)]
    default = int(step.op.startswith("Nhwc"))
    if step.proto.domain != "com.microsoft" or not step.integer("channels_last", default):
        return handler(step)
    rank = len(step.data().dims)
    front = arranged(step.data(), (0, rank - 1, *range(1, rank - 1)))
    results = handler(replace(step, values=(front, *step.values[1:])))
    return [arranged(y, (0, *range(2, rank), 1)) if isinstance(y, Tensor) else y for y in results]


def _sliced_table(step: OnnxOperator, declared: Mapping[str, Dims]) -> Tensor:
    """Return the part of a stored table that is read from a computed place on.

    Raises UnsupportedError where neither the file nor its end, so far behind its start, say how long it is.
    """
    table, dims = step.dims(0), declared.get(step.proto.output[0])
    start, end = (step.builder.offsets.get(name, (name, 0)) for name in step.proto.input[1:3])
    axes = step.known_integers(3, "axes") or (0,)
    if start[0] == end[0] and len(axes) == 1 and step.value(4) is None:
        axis = step.axis(axes[0], len(table), "axes")
        length = min(max(end[1] - start[1], 0), table[axis])
        dims = (*table[:axis], length, *table[axis + 1 :])
    if dims is None:
        raise step.unsupported(
            "how much it keeps of a stored table is computed from data: add the shape of its output to "
            "graph.value_info"
        )
    places = [value for value in step.values if isinstance(value, Tensor)]
    return step.barrier(places, dims, gridded(dims, [len(dims) - 1]))


def _by_shapes(step: OnnxOperator, declared: Mapping[str, Dims]) -> list[Value]:
    """Return every output of an operator with its shape alone, as far as that is known."""
    data = [value for value in step.values if isinstance(value, Tensor)]
    made = list[Value]()
    for shape in _sizes(step, declared):
        if not data or shape is None or 0 in shape:
            made.append(Constant(dims=shape))
        else:
            made.append(step.barrier(data, shape, default_nchw_layout(shape), "shape"))
    return made


def _sizes(step: OnnxOperator, declared: Mapping[str, Dims]) -> list[Dims | None]:
    """Return the shapes of an operator's outputs, as they are inferred or the file states them."""
    sizes: Sequence[Dims | None] = [None] * len(step.proto.output)
    with contextlib.suppress(SpecError):
        sizes = outputs_of(step)
    pairs = zip(step.proto.output, sizes, strict=True)
    return [declared.get(name) if dims is None else dims for name, dims in pairs]


def _precompute(step: OnnxOperator, out: Dims | None) -> None:
    """Note a layer whose input is constant: a product with a large matrix of the file."""
    first, second = step.value(0), step.value(1)
    if isinstance(second, Constant) and second.array is None and second.dims and len(second.dims) > 1:
        inner = first.dims[-1] if first is not None and first.dims and step.op == "MatMul" else None
        macs = math.prod(out) * inner if out is not None and inner is not None else None
        step.builder.precompute(step.name, step.label, math.prod(second.dims), macs)


def _unknown(step: OnnxOperator, declared: Mapping[str, Dims]) -> list[Value]:
    """Return a barrier for every output of an operator without a rule."""
    data = [value for value in step.values if isinstance(value, Tensor)]
    results: list[Value] = []
    for index, (name, dims) in enumerate(zip(step.proto.output, outputs_of(step), strict=True)):
        shape = declared.get(name) if dims is None else dims
        if shape is None and name in step.builder.uses:
            raise step.unsupported(
                f"the operator is not known and the shape of its output {brief(name)} is not in the file: "
                f"add the shape to graph.value_info"
            )
        if shape is None or not name:  # nobody reads it
            results.append(Constant(dims=None))
            continue
        layout = data[0].layout if data[0].dims == shape else default_nchw_layout(shape)
        results.append(step.barrier(data, shape, layout, f"{index}" if index else ""))
    made = [result.node for result in results if isinstance(result, Tensor)]
    if made:
        weights = _weights(step)
        treatment = "is not known: treated as a barrier" + ", its weights take no arrays" * bool(weights)
        step.builder.approximate(made, step.label, treatment)
        if weights:
            advice = EXPERTS if is_mixture(step) else ""
            step.builder.leave_out(made, step.label, weights, advice=advice)
    return results


def _left_out(step: OnnxOperator, declared: Mapping[str, Dims], because: str) -> list[Value]:
    """Return barriers in the place of an operator that is left out: lost where no shape is known.

    Its weights count as not modelled.
    """
    every = [x for value in step.values for x in (value.parts if isinstance(value, Parts) else [value])]
    data = [value for value in every if isinstance(value, Tensor | Lost)]
    if not data:
        return _by_shapes(step, declared)
    sizes, made = _sizes(step, declared), list[Value]()
    for index, dims in enumerate(sizes):
        shape = dims if dims and 0 not in dims else (1, 1)
        layout = default_nchw_layout(shape)
        fields = {"shape": shape_of(shape, layout).as_tuple(), "images": 1}
        node = step.emit("barrier", [x.node for x in data], f"{index}" if index else "", **fields)
        known = tensor(node, shape, layout)
        made.append(known if dims and 0 not in dims else Lost(dims=None, node=node))
    nodes = [value.node for value in made if isinstance(value, Tensor | Lost)]
    step.builder.approximate(nodes, step.label, f"is left out, a barrier: {because[:_LONGEST_REASON]}")
    weights, macs = _left_work(step, sizes[0])
    if weights:
        step.builder.leave_out(nodes, step.label, weights, macs)
    return made


def _left_work(step: OnnxOperator, out: Dims | None) -> tuple[int, int | None]:
    """Return the weights of a layer that is left out, and its products, None where they are not known."""
    places, kernels = factors_of(step.proto)
    stored = [step.value(at) for at in kernels or places]
    table = step.value(0) if step.op.startswith("Gather") else None
    stored += [table] if table is not None and len(table.dims or ()) > 2 else []  # of matrices, as of experts
    held = [value.dims or () for value in stored if isinstance(value, Constant) and value.origin]
    if _handler(step) is None or not held:
        return _weights(step), None
    weights = sum(math.prod(dims) for dims in held)
    first = step.need(0).dims
    streamed = first if step.op == "ConvTranspose" else out
    if streamed is None or len(held) > 1:
        return weights, None
    if kernels:  # weights of one output channel (or input channel, where it is transposed) for each value
        return weights, math.prod(streamed) * math.prod(held[0][1:])
    return weights, math.prod(streamed) * first[-1] if first and step.op == "MatMul" else None


def _weights(step: OnnxOperator) -> int:
    """Return the number of constant weights of an operator without a rule: those of its matrices."""
    if step.is_standard and step.op not in _WEIGHTED and onnx.defs.has(step.op):
        return 0
    stored = [value for value in step.values if isinstance(value, Constant)]
    matrices = [value for value in stored if sum(size > 1 for size in value.dims or ()) > 1]
    if step.op.endswith("MoE"):  # beside stacks of matrices it has one of biases for each
        matrices = [value for value in matrices if len(value.dims or ()) > 2]
    packed = [value for value in matrices if value.bits]
    if not packed:
        return sum(math.prod(value.dims or ()) for value in matrices)
    # Their scales and zero points, one of each for a block of weights, are matrices, too, but smaller.
    scales = max((math.prod(value.dims or ()) for value in matrices if not value.bits), default=0)
    counts = [(math.prod(value.dims or ()), value.bits) for value in packed]
    few_bits = values_in_byte(step) if _PACKED.search(step.op) else 1
    return sum(count * (few_bits if bits == 8 else 1) for count, bits in counts if count > scales)
