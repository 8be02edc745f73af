"""Control flow: the branch of an If that runs, and how often the body of a Loop or a Scan does.

What runs may depend on shapes and constants, never on data. A body that is repeated is one barrier.
Source: docs/sources/model.md 2, 14.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx

from rramalloc.errors import RramallocError, UnsupportedError
from rramalloc.importers.axes import Dims
from rramalloc.importers.builder import LoopWork
from rramalloc.importers.onnx.graph import Graph, all_nodes, place_of, read_by
from rramalloc.importers.onnx.step import OnnxGraphBuilder, OnnxOperator
from rramalloc.importers.onnx.tensors import (
    Constant,
    Tensor,
    Value,
    constant_of,
    default_nchw_layout,
    foldable,
)
from rramalloc.records import brief

_COMPARISONS = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
MAX_FOLLOWED = 4096  # operators of the rounds of a loop that are followed one by one: half a second
_ROUND = 8  # operators that take as long as to begin a round
_TRUE = Constant(dims=(), array=np.array(True))
_MOST_NAMED = 3  # deciding inputs in a message
Body = Callable[[Any, Sequence[Value]], tuple[list[Value], LoopWork]]
"""Visits a body once with these inputs; returns its outputs, and the work of its layers."""


def check_decided(graph: Graph, computed: Collection[str]) -> None:
    """Raise UnsupportedError for an operator that data decides, before anything else is asked for.

    computed: tensors whose values depend on inputs of the graph, not only on the shapes of these.
    """
    for node in graph.nodes:
        deciding = {"If": 1, "Loop": 2}.get(node.op_type, 0) if node.domain in ("", "ai.onnx") else 0
        for name in filter(None, node.input[:deciding]):
            if name in computed and name not in graph.decisions:
                raise UnsupportedError(place_of(graph.where, node), _reason(graph, node.op_type, name))


def branch_of(step: OnnxOperator, graph: Graph) -> Any:
    """Return the branch that runs. Raises UnsupportedError if data decides it."""
    condition = step.need(0)
    name = step.proto.input[0]
    known = graph.decisions.get(name)
    if known is None:
        known = _flag(condition)
    if known is None:
        raise step.unsupported(_reason(graph, step.op, name))
    return _body(step, "then_branch" if known else "else_branch", len(step.proto.output))


def _flag(value: Value | None) -> bool | None:
    """Return a truth value that is known, else None."""
    array = value.array if isinstance(value, Constant) else None
    return None if array is None or array.size != 1 else bool(array.any())


def _body(step: OnnxOperator, name: str, outputs: int, inputs: int = 0) -> Any:
    """Return the graph that an attribute holds. Raises SpecError if it is missing or does not fit."""
    found = [attribute.g for attribute in step.proto.attribute if attribute.name == name]
    if not found or len(found[0].output) != outputs or len(found[0].input) != inputs:
        got = f"{len(found[0].input)} and {len(found[0].output)}" if found else "none"
        raise step.fault(name, f"must be a graph with {inputs} inputs and {outputs} outputs, got {got}")
    return found[0]


def _reason(graph: Graph, op: str, name: str) -> str:
    """Return the reason why control flow cannot be expressed: the inputs that decide it, and a remedy."""
    what = "which branch runs" if op == "If" else "how often it runs"
    named, examples = _deciding_inputs(graph, name)
    shown = ", ".join(brief(info.name) for info in named[:_MOST_NAMED])
    shown += f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    inputs = "inputs" if len(named) > 1 else "input"
    who = f"{inputs} {shown}" if named else "values that cannot be computed without running the model"
    kinds = [info.type.tensor_type for info in named]
    are_single = all(
        kind.HasField("shape") and all(axis.dim_value == 1 for axis in kind.shape.dim) for kind in kinds
    )
    if not graph.has_options:
        help_ = "export the wanted branch as a model of its own, or the loop unrolled"
    elif named and are_single:
        options = " ".join(f"--input-value {info.name}={examples[info.name]}" for info in named)
        help_ = f"say what it is, for example {options}"
    elif op == "If":
        help_ = f"say which one, by --input-value {name}=true, or false"
    else:
        help_ = "export the model with a fixed number of rounds, or with the loop unrolled"
    return f"control flow: {what} is decided by {who}, not by shapes and constants: {help_}"


def _deciding_inputs(graph: Graph, name: str) -> tuple[list[Any], dict[str, str]]:
    """Return the inputs of the graph that a tensor is computed from, with a value for each as an example."""
    producers: dict[str, Any] = {}
    for node in all_nodes(graph.proto.node):
        inner = [info.name for attribute in node.attribute for info in attribute.g.input]
        producers.update(dict.fromkeys((*node.output, *inner), node))
    stored = {tensor.name: tensor for tensor in graph.proto.initializer}
    infos = {info.name: info for info in graph.proto.input if info.name not in stored}
    found, seen, pending, compared = list[Any](), {name}, [name], list[str]()
    while pending:
        current = pending.pop()
        if current in infos:
            found.append(infos[current])
        elif current in producers and producers[current].op_type not in ("Shape", "Size"):
            node = producers[current]
            if node.op_type in _COMPARISONS:
                compared += [_number(name, stored, producers) for name in node.input]
            fresh = [tensor for tensor in read_by(node) if tensor and tensor not in seen]
            seen.update(fresh)
            pending += fresh
    number = next(filter(None, compared), "1")
    is_flag = {info.name: info.type.tensor_type.elem_type == onnx.TensorProto.BOOL for info in found}
    return found, {tensor: "true" if flag else number for tensor, flag in is_flag.items()}


def _number(name: str, stored: Mapping[str, Any], producers: Mapping[str, Any]) -> str:
    """Return the number that a constant of one element holds, "" of any other tensor."""
    proto = stored.get(name)
    if proto is None and name in producers and producers[name].op_type == "Constant":
        proto = next(
            (attribute.t for attribute in producers[name].attribute if attribute.HasField("t")), None
        )
    if proto is None or math.prod(proto.dims) != 1:
        return ""
    known = constant_of(proto, "").array
    return "" if known is None or known.dtype.kind == "b" else str(known.item())


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """Results of a Loop or Scan: final states, outputs collected over all rounds, and the work of these."""

    states: Sequence[Value]
    collected: Sequence[Value]
    work: LoopWork


def repeated(step: OnnxOperator, graph: Graph, run: Body, read: Sequence[Value]) -> list[Value]:
    """Return the outputs of Loop or Scan, as barriers where its body runs on data.

    run: visits the body; read: tensors that the operator and its body read. Raises SpecError,
    UnsupportedError.
    """
    rounds = _loop(step, graph, run) if step.op == "Loop" else _scan(step, run)
    data = list({value.node: value for value in read if isinstance(value, Tensor)}.values())
    results, made = list[Value](), list[str]()
    for number, value in enumerate((*rounds.states, *rounds.collected)):
        if isinstance(value, Constant):
            results.append(value)
            continue
        products = None if made else rounds.work.products or None
        suffix = f"{number}" if number else ""
        results.append(step.barrier(data, value.dims, default_nchw_layout(value.dims), suffix, macs=products))
        made.append(results[-1].node)  # type: ignore[union-attr]
    if made:
        weights = rounds.work.weights
        treatment = "repeats its body: treated as a barrier" + ", its weights take no arrays" * bool(weights)
        step.builder.approximate(made, step.label, treatment)
        if weights:
            step.builder.leave_out(made, step.label, weights, rounds.work.macs)
    return results


def _loop(step: OnnxOperator, graph: Graph, run: Body) -> Rounds:
    """Follow a Loop: every round if it is short, else one round that stands for all."""
    states = [step.need(index) for index in range(2, len(step.values))]
    count = len(states)
    collects = len(step.proto.output) - count
    body = _body(step, "body", 1 + len(step.proto.output), 2 + count)
    trips = step.value(0)
    most = None
    if trips is not None:
        array = trips.array if isinstance(trips, Constant) else None
        if array is None or array.size != 1 or array.dtype.kind not in "iu":
            raise step.unsupported(_reason(graph, step.op, step.proto.input[0]))
        most = int(array.reshape(-1)[0])
    going = _flag(step.value(1)) if step.value(1) is not None else True
    if going is None:
        raise step.unsupported(_reason(graph, step.op, step.proto.input[1]))
    size = _ROUND + sum(1 for _ in all_nodes(body.node))
    if going and most is not None and most * size > MAX_FOLLOWED:
        return _one_for_all(step, run, body, states, most)
    begun, before = states, step.builder.rounds_left[0]
    parts: list[list[Value]] = [[] for _ in range(collects)]
    work, turn = LoopWork(), 0
    while going and (most is None or turn < most):
        if turn * size > MAX_FOLLOWED:
            raise step.unsupported(
                f"control flow: it runs {turn} rounds and does not end there: export the model with a fixed "
                f"number of rounds, or with the loop unrolled"
            )
        made, done = run(body, [Constant(dims=(), array=np.array(turn)), _TRUE, *states])
        going = _flag(made[0])
        if going is None:
            raise step.unsupported(_reason(graph, step.op, body.output[0].name))
        states = made[1 : 1 + count]
        for part, value in zip(parts, made[1 + count :], strict=True):
            part.append(value)
        work = work.followed_by(done)
        turn += 1
        size = (before - step.builder.rounds_left[0]) // turn  # with the rounds of loops in it
        if going and most is not None and most * size > MAX_FOLLOWED:
            return _one_for_all(step, run, body, begun, most)
    return Rounds(states=states, collected=[_stacked(step, part) for part in parts], work=work)


def charge_rounds(builder: OnnxGraphBuilder, place: str, body: Any) -> None:
    """Count the operators of a branch or a round, without those within them.

    Raises UnsupportedError if they are more than a file of this size may unfold to.
    """
    builder.rounds_left[0] -= _ROUND + len(body.node)
    if builder.rounds_left[0] < 0:
        raise UnsupportedError(
            place,
            "control flow: its rounds, with those of the loops in it, have more operators than a file of its "
            "size may unfold to: export the model with fewer rounds, or with the loop unrolled",
        )


def _one_for_all(step: OnnxOperator, run: Body, body: Any, states: Sequence[Value], rounds: int) -> Rounds:
    """Follow one round of a Loop that stands for all: it does not end the loop, and keeps every shape."""
    made: list[Value] = []
    with contextlib.suppress(RramallocError):
        made, work = _any_round(lambda begun: run(body, [Constant(dims=()), _TRUE, *begun]), states, 1)
    charge_rounds(step.builder, step.place, body)
    ends = made[1 : 1 + len(states)]
    if not made or not _flag(made[0]) or [x.dims for x in ends] != [x.dims for x in states]:
        raise step.unsupported(
            f"control flow: its {rounds} rounds are not alike, more than can be followed: export the model "
            f"with fewer rounds, or with the loop unrolled"
        )
    collected = [
        _spread(value, (rounds, *step.size(value))) if value.dims is not None else value
        for value in made[1 + len(states) :]
    ]
    return Rounds(states=ends, collected=collected, work=work.times(rounds))


def _any_round(
    run: Callable[[Sequence[Value]], tuple[list[Value], LoopWork]], states: Sequence[Value], first: int
) -> tuple[list[Value], LoopWork]:
    """Visit a round that stands for all: its constants are those of every round.

    run: visits the body with these states; first: number of the first state among its results. A constant
    state that a round makes of data is data, and one that it changes has no known value.
    """
    states = list(states)
    while True:
        made, work = run(states)
        is_final = True
        for number, end in enumerate(made[first : first + len(states)]):
            begin = states[number]
            if isinstance(begin, Tensor) or end.dims != begin.dims:
                continue
            if isinstance(end, Tensor):
                states[number] = end
                is_final = False
            elif begin.array is not None and not np.array_equal(begin.array, end.array):  # type: ignore[arg-type]
                states[number] = replace(begin, array=None)
                is_final = False
        if is_final:
            return made, work


def _spread(value: Value, dims: Dims) -> Value:
    """Return a value of another shape, without its contents."""
    if isinstance(value, Constant):
        return Constant(dims=dims)
    return replace(value, dims=dims, layout=default_nchw_layout(dims))


def _stacked(step: OnnxOperator, parts: Sequence[Value]) -> Value:
    """Return the values of all rounds, stacked along a new first axis."""
    if not parts:
        return Constant(dims=None)
    shapes = {step.size(part) for part in parts}
    if len(shapes) > 1:
        raise step.mismatch("body", "its rounds make tensors of different shapes, which cannot be joined")
    dims = (len(parts), *shapes.pop())
    arrays = [part.array for part in parts if isinstance(part, Constant) and part.array is not None]
    if len(arrays) == len(parts) and foldable(math.prod(dims), arrays[0].dtype):
        return Constant(dims=dims, array=np.stack(arrays))
    data = [part for part in parts if isinstance(part, Tensor)]
    return _spread(data[0] if data else parts[0], dims)


def _scan(step: OnnxOperator, run: Body) -> Rounds:
    """Follow a Scan: one round stands for all, as many as its inputs are long."""
    if step.opset < 9:
        raise step.unsupported("control flow: Scan has a batch before opset 9: export with opset 9 or later")
    total, scanned = len(step.values), step.integer("num_scan_inputs", 0)
    if not 1 <= scanned <= total:
        raise step.fault("num_scan_inputs", f"got {brief(scanned)} for {total} inputs")
    states = [step.need(index) for index in range(total - scanned)]
    body = _body(step, "body", len(step.proto.output), total)
    given = step.integers("scan_input_axes") or (0,) * scanned
    collects = len(step.proto.output) - len(states)
    made_along = step.integers("scan_output_axes") or (0,) * collects
    if len(given) != scanned or len(made_along) != collects:
        raise step.fault("scan_input_axes", f"must be {scanned} axes, and {collects} of outputs")
    slices, lengths, stacked = list[Value](), set[int](), 0
    for number, axis in enumerate(given):
        value = step.need(total - scanned + number)
        dims = step.size(value)
        place = step.axis(axis, len(dims), "scan_input_axes")
        lengths.add(dims[place])
        kept = (*dims[:place], *dims[place + 1 :])
        slices.append(_spread(value, kept))
        is_stack = isinstance(value, Constant) and value.stored and sum(size > 1 for size in kept) > 1
        stacked += math.prod(kept) if is_stack else 0  # a matrix of its own for every round
    if len(lengths) != 1:
        raise step.mismatch("inputs", f"the scanned inputs are {sorted(lengths)} long, which must be equal")
    made, work = _any_round(lambda begun: run(body, [*begun, *slices]), states, 0)
    ends, collected = made[: len(states)], list[Value]()
    if [step.size(value) for value in ends] != [step.size(value) for value in states]:
        raise step.mismatch("body", "its states change their shapes")
    (rounds,) = lengths
    for value, axis in zip(made[len(states) :], made_along, strict=True):
        dims = step.size(value)
        place = step.axis(axis, len(dims) + 1, "scan_output_axes")
        collected.append(_spread(value, (*dims[:place], rounds, *dims[place:])))
    work = work.times(rounds)
    if work.weights and rounds > 1 and stacked:
        work = replace(work, held=work.held | {("", (rounds - 1) * stacked)})
    return Rounds(states=ends, collected=collected, work=work)
