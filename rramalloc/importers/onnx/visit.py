"""Application of one operator to its inputs, and the roles of input axes that lead to the fewest barriers.

The operators of every importer are ONNX operators here: others are written as such before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx

from rramalloc.errors import SpecError
from rramalloc.importers.axes import Dims, Layout
from rramalloc.importers.builder import needed
from rramalloc.importers.onnx import protos
from rramalloc.importers.onnx.constants import evaluate
from rramalloc.importers.onnx.inputs import layouts_of
from rramalloc.importers.onnx.operators import HANDLERS
from rramalloc.importers.onnx.outputs import has_rule, outputs_of
from rramalloc.importers.onnx.step import Drawing, Step
from rramalloc.importers.onnx.tensors import Constant, Parts, Tensor, Value, arranged, usual
from rramalloc.records import brief

Drawn = tuple[Drawing, list[str]]
"""The nodes of a graph, and those of its outputs."""
_QONNX = ("qonnx.custom_op.general", "finn.custom_op.general", "onnx.brevitas")
_DOMAINS = ("", "ai.onnx", "com.microsoft", *_QONNX)
_QONNX_BITS = {"Quant": 3, "IntQuant": 3, "Trunc": 4}
"""Input that holds the bits of the result."""
_MAX_TRIALS = 8  # inputs whose other layouts are tried, each with an import of the whole graph
_LAYERS = ("MatMul", "Gemm", "Conv", "ConvTranspose")
_WEIGHTED = ("CausalConvWithState", "DeformConv", "Einsum", "MatMul")
"""Operators with a rule for shapes alone whose matrices are weights."""
_REORDERINGS = frozenset(
    "Identity Cast Transpose Reshape Flatten Squeeze Unsqueeze QuantizeLinear DequantizeLinear Quant "
    "IntQuant FloatQuant Trunc BipolarQuant".split()
)
_KEEPS_BITS = _REORDERINGS.union(
    "Clip Concat DepthToSpace Expand Gather MaxPool Pad Relu Slice SpaceToDepth Split".split()
)
"""Operators whose results are values of their first input, or 0."""


def visit(step: Step, declared: Mapping[str, Dims]) -> list[Value]:
    """Return every output of an operator, with its bits; a constant that only reorders another one keeps its
    origin.

    declared: shapes that the file states, for operators without a rule.
    """
    before = len(step.drawing.nodes)
    results = _results(step, declared)
    if step.op != "CastLike":  # takes only the type of its second input
        results = _with_unread(step, results, before)
    first = step.values[0] if step.values else None
    kept = first.origin if isinstance(first, Constant) and step.op in _REORDERINGS else ""
    if step.op == "Concat" and all(isinstance(value, Constant) and value.origin for value in step.values):
        kept = " ".join(value.origin for value in step.values if isinstance(value, Constant))
    bits = _bits(step)
    outputs: list[Value] = []
    for index, name in enumerate(step.proto.output):
        value = replace(results[min(index, len(results) - 1)], bits=bits)
        outputs.append(replace(value, origin=kept or name) if isinstance(value, Constant) else value)
    return outputs


def _with_unread(step: Step, results: Sequence[Value], before: int) -> Sequence[Value]:
    """Return the results that wait for all of every input that no rule reads: a computed bias, scale, slope
    or length.

    before: how many nodes there were before this operator.
    """
    read = {value.node for value in results if isinstance(value, Tensor)}
    for node in reversed(step.drawing.nodes[before:]):
        if node.name in read:
            read.update(node.inputs)
    inputs = {value.node: value for value in step.values if isinstance(value, Tensor)}
    if not read:
        return results
    for x in [x for name, x in inputs.items() if name not in read]:
        whole = step.emit("global_maxpool", [x.node], "all") if x.shape.pixels > 1 else x.node
        waiting: dict[str, str] = {}
        for y in dict.fromkeys(value.node for value in results if isinstance(value, Tensor)):
            channels = step.drawing.shapes[y].channels
            one = step.emit("select", [whole], "all", channels=channels)
            waiting[y] = step.emit("add", [y, one], "waiting")
        if x.shape.pixels > 1:
            step.drawing.approximate(list(waiting.values()), step.label, f"waits for all of {x.node[:60]!r}")
        results = [
            replace(value, node=waiting[value.node]) if isinstance(value, Tensor) else value
            for value in results
        ]
    return results


def fewest_barriers(data: Mapping[str, Dims], draw: Callable[[Mapping[str, Layout]], Drawn]) -> Drawn:
    """Return the network under the likely roles of the inputs' axes, which no file states, with the fewest
    barriers."""
    layouts = {name: layouts_of(dims)[0] for name, dims in data.items()}
    best = draw(layouts)
    for name, dims in list(data.items())[:_MAX_TRIALS]:
        for layout in layouts_of(dims)[1:]:
            if not _barriers(best):
                return best
            try:
                trial = draw({**layouts, name: layout})
            except SpecError:
                continue
            if _barriers(trial) < _barriers(best):
                best, layouts[name] = trial, layout
    return best


def _barriers(drawn: Drawn) -> int:
    drawing, ends = drawn
    return drawing.moves + sum(node.op == "barrier" for node in needed(drawing.nodes, ends))


def _bits(step: Step) -> int | None:
    """Return the bits of the whole numbers that the results are or were made of, None if they are not
    quantised."""
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
    if step.op == "BipolarQuant":
        return 1
    if step.op in _QONNX_BITS:
        array = step.known(_QONNX_BITS[step.op], "bits")
        if array is None or array.size != 1 or not 1 <= float(array.reshape(-1)[0]) <= 64:
            raise step.fault("bits", "must be one number from 1 to 64")
        return int(array.reshape(-1)[0])
    if step.op.startswith("QLinear") or step.op == "QGemm":  # the zero point of the result has its type
        return max((value.bits for value in step.values if value is not None and value.bits), default=None)
    return first.bits if first is not None and step.op in _KEEPS_BITS else None


def _results(step: Step, declared: Mapping[str, Dims]) -> Sequence[Value]:
    known = step.proto.domain in _DOMAINS
    if step.proto.domain == "com.microsoft.nchwc":
        raise step.unsupported(
            "ONNX Runtime wrote this file for one processor: save it again with the graph optimisation level "
            "ORT_ENABLE_EXTENDED"
        )
    if known and step.op in ("Shape", "Size") and step.need(0).dims is not None:
        return [_measure(step)]
    if known and "Sequence" in step.op and step.op in HANDLERS:
        return HANDLERS[step.op](step)
    if any(isinstance(value, Parts) for value in step.values):
        if step.op == "Identity":
            return [step.need(0)]
        raise step.unsupported(f"{step.op} takes a sequence of tensors, which cannot be expressed")
    if all(not isinstance(value, Tensor) for value in step.values):
        made = evaluate(step, step.drawing.room)
        if len(made) == 1 and made[0].dims is None:
            made = [Constant(dims=declared.get(step.proto.output[0]))]
        if known and step.op in _LAYERS:
            _precompute(step, made[0].dims)
        return made
    handler = HANDLERS.get(step.op) if known else None
    last = step.proto.domain == "com.microsoft" and step.integer("channels_last", int(step.op[:4] == "Nhwc"))
    if handler is not None and last:
        x = step.data()
        last = len(x.dims) - 1
        front = arranged(x, (0, last, *range(1, last)))
        results = handler(replace(step, values=(front, *step.values[1:])))
        return [arranged(y, (0, *range(2, last + 1), 1)) if isinstance(y, Tensor) else y for y in results]
    return handler(step) if handler is not None else unknown(step, declared)


def _precompute(step: Step, out: Dims | None) -> None:
    """Note a layer whose input is constant: a product with a large matrix of the file."""
    first, second = step.value(0), step.value(1)
    if isinstance(second, Constant) and second.array is None and second.dims and len(second.dims) > 1:
        inner = first.dims[-1] if first is not None and first.dims and step.op == "MatMul" else None
        macs = math.prod(out) * inner if out is not None and inner is not None else None
        step.drawing.precompute(step.name, step.label, math.prod(second.dims), macs)


def _measure(step: Step) -> Constant:
    dims = step.dims(0)
    if step.op == "Size":
        return Constant(dims=(), array=np.array(np.prod(dims, dtype=np.float64)).astype(np.int64))
    start, end = step.integer("start", 0), step.integer("end", len(dims))
    array = np.array(dims[slice(start, end)], dtype=np.int64)
    return Constant(dims=array.shape, array=array)


def unknown(step: Step, declared: Mapping[str, Dims], because: str = "") -> list[Value]:
    """Return a barrier for every output of an operator without a rule; because: why, if that is known."""
    data = [value for value in step.values if isinstance(value, Tensor)]
    results: list[Value] = []
    for index, (name, dims) in enumerate(zip(step.proto.output, outputs_of(step), strict=True)):
        shape = declared.get(name) if dims is None else dims
        if shape is None and name:
            raise step.unsupported(
                f"the operator is not known and the shape of its output {brief(name)} is not in the file: "
                f"add the shape to graph.value_info"
            )
        if shape is None or not name:
            results.append(Constant(dims=None))
            continue
        layout = data[0].layout if data[0].dims == shape else usual(shape)
        results.append(step.barrier(data, shape, layout, f"{index}" if index else ""))
    made = [result.node for result in results if isinstance(result, Tensor)]
    if made:
        weights = 0 if because else _weights(step)
        treatment = "is not known: treated as a barrier" + ", its weights take no arrays" * bool(weights)
        step.drawing.approximate(made, step.label, because or treatment)
        if weights:
            step.drawing.leave_out(made, step.label, weights, None)
    return results


def _weights(step: Step) -> int:
    """Return the number of constant weights of an operator without a rule: matrices that are no indices and
    not only moved."""
    if has_rule(step) and step.op not in _WEIGHTED:
        return 0
    matrices = (value.dims or () for value in step.values if isinstance(value, Constant))
    return sum(math.prod(dims) for dims in matrices if sum(size > 1 for size in dims) > 1)
