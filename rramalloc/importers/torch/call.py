"""One ATen call: typed access to its arguments, and the ONNX operators that it is written as."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx

from rramalloc.errors import SpecError
from rramalloc.importers.axes import Dims
from rramalloc.importers.onnx.step import Drawing, Step
from rramalloc.importers.onnx.tensors import Constant, Tensor, Value
from rramalloc.importers.onnx.visit import unknown, visit
from rramalloc.importers.torch.program import Argument, Operation, Ref, references
from rramalloc.records import brief

OPSET = 23
"""Version of the ONNX operators that ATen calls are written as."""
Frame = dict[str, Value]
"""Tensors by name; one that is absent is a parameter or another constant."""
_LARGEST = 2**62


class Call:
    """One ATen call. frame: what the names stand for; name: reserved for its main node."""

    def __init__(
        self, drawing: Drawing, operation: Operation, shapes: Mapping[str, Dims], frame: Frame, name: str
    ) -> None:
        self.drawing, self.operation, self.frame, self.name = drawing, operation, frame, name
        self._shapes = shapes

    @property
    def place(self) -> str:
        """How messages call it."""
        return f"{self.drawing.where}: operation {self.operation.name[:60]!r} ({self.operation.op[:60]})"

    def fault(self, field: str, reason: str) -> SpecError:
        """The error to raise for an argument of this call."""
        return SpecError(f"{self.place}.{field}" if field else self.place, reason)

    def run(self, op: str, *values: Value | Sequence[int] | None, **attributes: Any) -> Value:
        """The first output of an ONNX operator; plain whole numbers stand for a constant vector."""
        return self.outputs(op, values, (self._main,), **attributes)[0]

    @property
    def _main(self) -> str:
        return next((name for name in self.operation.outputs if name), self.operation.name)

    def outputs(
        self,
        op: str,
        values: Sequence[Value | Sequence[int] | None],
        names: Sequence[str | None],
        **attributes: Any,
    ) -> list[Value]:
        """All outputs of an ONNX operator, named as tensors of the graph. Raises RramallocError."""
        return visit(self.step(op, values, names, attributes), self._shapes)

    def step(
        self,
        op: str,
        values: Sequence[Value | Sequence[int] | None] = (),
        names: Sequence[str | None] = (),
        attributes: Mapping[str, Any] = MappingProxyType({}),
    ) -> Step:
        """An ONNX operator in this call's name."""
        for key, given in attributes.items():
            listed = given if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
            if any(isinstance(number, int) and abs(number) > _LARGEST for number in listed):
                raise self.fault(key, f"got {brief(given)}, a number of PyTorch has 64 bits")
        proto = onnx.helper.make_node(op, [], [name or "" for name in names], **attributes)
        operands = tuple(
            value if isinstance(value, Constant | Tensor | None) else self.numbers(value) for value in values
        )
        return Step(
            drawing=self.drawing, proto=proto, name=self.name, place=self.place, opset=OPSET, values=operands
        )

    def numbers(self, values: Sequence[int]) -> Constant:
        """A constant vector. Raises SpecError for numbers that do not fit."""
        if any(abs(number) > _LARGEST for number in values):
            raise self.fault("", f"got {brief(list(values))}, a number of PyTorch has 64 bits")
        return Constant(dims=(len(values),), array=np.array(values, dtype=np.int64))

    def given(self, key: str) -> Argument:
        """An argument, None if left out."""
        return self.operation.args.get(key)

    def of(self, argument: Argument) -> Value | None:
        """What an argument stands for: a tensor, or a number as a constant of rank 0; None for others."""
        if isinstance(argument, Ref):
            return self.value_of(argument.name)
        if isinstance(argument, int | float):
            fits = not isinstance(argument, int) or abs(argument) < _LARGEST
            return Constant(dims=(), array=np.array(argument) if fits else None)
        return None

    def value_of(self, name: str) -> Value:
        """The tensor of a name: computed from the input, or a constant."""
        known = self.frame.get(name)
        return known if known is not None else self.constant(name)

    def constant(self, name: str) -> Constant:
        """A parameter, a buffer, or what is computed from such alone."""
        return Constant(dims=self.dims_of(name), origin=name)

    def value(self, *keys: str) -> Value:
        """The tensor under the first key that is there. Raises SpecError if none is."""
        for key in keys:
            value = self.of(self.given(key)) if self.given(key) is not None else None
            if value is not None:
                return value
        raise self.fault(keys[0], "is left out")

    def optional(self, key: str) -> Value | None:
        """The tensor or number of an argument, None if left out."""
        return self.of(self.given(key))

    def main(self) -> Value:
        """The tensor that an operator of one operand works on."""
        if any(isinstance(self.given(key), Ref) for key in ("self", "input")):
            return self.value("self", "input")
        return next(value for value in self.operands() if isinstance(value, Tensor))

    def operands(self) -> list[Value]:
        """All tensors among the arguments, in order."""
        values = (self.of(ref) for argument in self.operation.args.values() for ref in references(argument))
        return [value for value in values if value is not None]

    def dims(self, value: Value) -> Dims:
        """Shape of an operand."""
        if value.dims is None:
            raise self.fault("", "the shape of a constant operand is not stated")
        return value.dims

    def dims_of(self, name: str) -> Dims:
        """Dimensions of a tensor by name. Raises SpecError if the graph does not state them."""
        if name not in self._shapes:
            raise self.fault("", f"the graph states no shape for the tensor {brief(name)}")
        return self._shapes[name]

    def out(self, index: int = 0) -> Dims:
        """Dimensions of an output."""
        outputs = self.operation.outputs
        name = outputs[index] if index < len(outputs) else None
        if name is None:
            raise self.fault("outputs", f"output {index} is no tensor")
        return self.dims_of(name)

    def number(self, key: str, default: int) -> int:
        """A whole number. Raises SpecError for anything else."""
        value = self.operation.args.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.fault(key, f"must be a fixed whole number, got {brief(value)}")
        return value

    def ints(self, key: str, count: int, default: int) -> Dims:
        """`count` whole numbers; one number stands for all, none or an empty list for the default."""
        value = self.given(key)
        items = value if isinstance(value, tuple) else (default if value is None else value,)
        items = items or (default,)
        items = items * count if len(items) == 1 else items
        if len(items) != count or not all(type(item) is int and item >= 0 for item in items):
            raise self.fault(key, f"must be {count} whole numbers of at least 0, got {brief(value)}")
        return tuple(item for item in items if isinstance(item, int))

    def whole(self, key: str) -> Dims:
        """A list of whole numbers, empty if left out."""
        value = self.given(key)
        items = value if isinstance(value, tuple) else () if value is None else (value,)
        if not all(type(item) is int for item in items):
            raise self.fault(key, f"must be fixed whole numbers, got {brief(value)}")
        return tuple(item for item in items if isinstance(item, int))

    def axes(self, key: str, rank: int) -> Dims:
        """Axes counted from 0, one number or a list; all axes if left out or empty."""
        value = self.given(key)
        items = value if isinstance(value, tuple) else () if value is None else (value,)
        if not all(type(item) is int and -rank <= item < rank for item in items):
            raise self.fault(key, f"must be axes from {-rank} to {rank - 1}, got {brief(value)}")
        return tuple(item % rank for item in items if isinstance(item, int)) or tuple(range(rank))

    def axis(self, key: str, rank: int, default: int = 0) -> int:
        """One axis counted from 0."""
        value = self.number(key, default)
        if not -rank <= value < rank:
            raise self.fault(key, f"must be an axis from {-rank} to {rank - 1}, got {brief(value)}")
        return value % rank

    def unknown(self, note: str = "") -> list[Value]:
        """Every output waits for all pixels of all operands; note: why, if the operator itself is known."""
        op = self.operation.op
        tensors = [value for value in self.operands() if isinstance(value, Tensor)]
        unique = list({(value.node, value.dims): value for value in tensors}.values())
        values = unique if note or op in _MOVES else self.operands()
        return unknown(self.step(op, values, self.operation.outputs, {}), self._shapes, note)


_MOVES = frozenset(
    "index index_put scatter scatter_add scatter_reduce masked_scatter grid_sampler grid_sampler_2d".split()
)
"""Operators whose constant operands say where values go, and are no weights."""
