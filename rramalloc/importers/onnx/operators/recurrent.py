"""Recurrent layers: per direction a projection of the inputs, and a recurrence that takes one of them a step.

Source: docs/sources/model.md 11.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rramalloc.importers.axes import lettered
from rramalloc.importers.onnx.operators.matmul import linear
from rramalloc.importers.onnx.operators.windowed import constant_weight
from rramalloc.importers.onnx.shapes import shown
from rramalloc.importers.onnx.step import Handler, Step
from rramalloc.importers.onnx.tensors import Constant, Tensor, Value, arranged, tensor

_DIRECTIONS = {"forward": (1,), "reverse": (-1,), "bidirectional": (1, -1)}


def recurrent(step: Step, gates: int) -> Sequence[Value]:
    """Translate LSTM, GRU, RNN: all states, the last one, and the last cell. Raises NetworkError,
    UnsupportedError."""
    x, first = step.data(), bool(step.integer("layout", 0))
    (weight, kept), (state, kept_state) = constant_weight(step, 1), constant_weight(step, 2)
    ways = _DIRECTIONS.get(step.text("direction", "forward"))
    if ways is None:
        raise step.fault("direction", f"must be one of {', '.join(_DIRECTIONS)}")
    time, batch = (1, 0) if first else (0, 1)
    hidden = state[-1] if state else 0
    fits = len(x.dims) == 3 and len(weight) == len(state) == 3
    if not fits or (weight, state) != (
        (len(ways), gates * hidden, x.dims[2]),
        (len(ways), gates * hidden, hidden),
    ):
        raise step.mismatch(
            "W", f"weights {shown(weight)} and {shown(state)} do not fit {gates} gates on {shown(x.dims)}"
        )
    if x.dims[batch] != 1:
        raise step.unsupported(f"it gets a batch of {x.dims[batch]}; only one sequence can be expressed")
    length = x.dims[time]
    states, last = list[Tensor](), list[Tensor]()
    for number, way in enumerate(ways):
        suffix = "" if way == 1 else "reverse"
        ordered = step.relayout(x, lettered(x.dims, "1YC" if first else "Y1C"), f"{suffix}order")
        if way == -1 and length > 1:
            ordered = step.take(ordered, time, range(length)[::-1], "reverse_in")
        own = Constant(dims=weight[1:], origin=f"{kept['weights']}[{number}]", bits=kept["weight_bits"])
        ordered = replace(ordered, bits=x.bits)
        projected = linear(step, ordered, 2, gates * hidden, own, f"{suffix}projection")
        begins = [value for value in (step.value(5), step.value(6)) if isinstance(value, Tensor)]
        for value in begins:  # every step waits for the state that the first one starts from
            whole = step.relayout(value, ((),) * len(value.dims), f"{suffix}start")
            whole = step.select(whole, (1, gates * hidden), ((), ()), f"{suffix}start")
            name = step.emit("add", [projected.node, whole.node], f"{suffix}started")
            projected = tensor(name, projected.dims, projected.layout)
        fields: dict[str, Any] = {"weights": f"{kept_state['weights']}[{number}]"}
        fields |= {"weight_bits": kept_state["weight_bits"], "input_bits": x.bits}
        node = step.emit("recurrent", [projected.node], suffix, hidden=hidden, gates=gates, **fields)
        y = tensor(node, (length, 1, 1, hidden), lettered((length, 1, 1, hidden), "Y11C"))
        last.append(step.take(y, 0, [length - 1], f"{suffix}last") if length > 1 else y)
        back = way == -1 and length > 1
        states.append(step.take(y, 0, range(length)[::-1], "reverse_out") if back else y)
    every, ends = _joined(step, states, "both"), _joined(step, last, "ends")
    if first:
        every = arranged(every, (2, 0, 1, 3))
        end = tensor(ends.node, (1, len(ways), hidden), ((),) * 3)
    else:
        end = tensor(ends.node, (len(ways), 1, hidden), ((),) * 3)
    return [every, end]


def _joined(step: Step, parts: Sequence[Tensor], suffix: str) -> Tensor:
    """Return the states of both directions, as channels of each step."""
    if len(parts) == 1:
        return parts[0]
    length, _, _, hidden = parts[0].dims
    name = step.emit("concat", [part.node for part in parts], suffix)
    return tensor(name, (length, len(parts), 1, hidden), parts[0].layout)


HANDLERS: dict[str, Handler] = {
    "LSTM": partial(recurrent, gates=4),
    "GRU": partial(recurrent, gates=3),
    "RNN": partial(recurrent, gates=1),
}
