"""A PyTorch graph as plain values: what `.pt2` archives and live programs are both turned into."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rramalloc.errors import SpecError
from rramalloc.network.geometry import MAX_EXTENT
from rramalloc.records import brief, is_whole

_MAX_RANK = 16
_MAX_EXPRESSION = 2000
Dims = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ref:
    """The tensor of a name."""

    name: str


@dataclass(frozen=True, slots=True)
class TorchGraph:
    """Operations in order. shapes: dimensions of every tensor by name; outputs: what the graph returns."""

    inputs: tuple[Argument, ...]
    operations: tuple[Operation, ...]
    outputs: tuple[Argument, ...]
    shapes: Mapping[str, Dims]


Argument = Ref | TorchGraph | tuple["Argument", ...] | int | float | bool | str | None


@dataclass(frozen=True, slots=True)
class Operation:
    """One ATen call.

    target: "aten.conv2d.default"; args: by schema name (by position as "0", "1" where it has none);
    outputs: tensor names, None for values that are no tensors; module, module_type: where it was called.
    """

    name: str
    target: str
    args: Mapping[str, Argument]
    outputs: tuple[str | None, ...]
    module: str = ""
    module_type: str = ""

    @property
    def op(self) -> str:
        """`conv2d` for "aten.conv2d.default"; in-place `relu_` counts as `relu`."""
        namespace, _, rest = self.target.partition(".")
        name = rest.split(".", 1)[0]
        if namespace not in ("aten", "quantized_decomposed"):
            return f"{namespace}.{name}"
        return name.rstrip("_") if self.in_place else name

    @property
    def in_place(self) -> bool:
        """Does the call overwrite its first operand?"""
        name = self.target.partition(".")[2].split(".", 1)[0]
        return self.target.startswith("aten.") and name.endswith("_") and not name.endswith("__")


@dataclass(frozen=True, slots=True)
class Program:
    """A graph whose inputs are user inputs (by name, in order) and constants (parameters, buffers).

    constants: values of the few whole numbers among these that say which places are taken.
    """

    graph: TorchGraph
    user_inputs: tuple[str, ...]
    constants: Mapping[str, npt.NDArray[np.int64]] = field(default_factory=dict)


MAX_CONSTANT = 2**16
"""Elements of the largest constant whose values are kept."""


@dataclass(frozen=True, slots=True)
class Symbols:
    """Dynamic dimensions: the batch counts as 1, any other symbol as in the example that was exported."""

    values: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, inputs: Iterable[Iterable[tuple[str | None, int | None]]]) -> Symbols:
        """Symbols among the axes of the inputs, (expression, example) each; the first axis is the batch."""
        values: dict[str, int] = {}
        for axes in inputs:
            for axis, (expression, hint) in enumerate(axes):
                symbol = expression and symbol_name(expression)
                size = hint if axis else 1
                if symbol and size is not None:
                    values.setdefault(symbol, size)
        return cls(values)

    def dimension(self, expression: str, hint: int | None, where: str) -> int:
        """The value of "2*s77" or "Mul(Integer(2), Symbol('s77'))". Raises SpecError."""
        if len(expression) <= _MAX_EXPRESSION:
            try:
                return self._value(ast.parse(expression, mode="eval").body)
            except (SyntaxError, ValueError, KeyError, ZeroDivisionError, RecursionError, MemoryError):
                pass
        if hint is not None:
            return hint
        raise SpecError(
            where,
            f"the dimension {brief(expression)} is dynamic without an example: export with fixed shapes",
        )

    def _value(self, node: ast.expr) -> int:
        match node:
            case ast.Constant(value=int(value)):
                return value
            case ast.Name(id=name):
                return self.values[name]
            case ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str(name)), *_]):
                return self.values[name]
            case ast.Call(func=ast.Name(id="Integer"), args=[operand]):
                return self._value(operand)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._value(operand)
            case ast.Call(func=ast.Name(id="Add" | "Mul" | "FloorDiv" as name), args=[first, *rest]):
                result = self._value(first)
                for operand in rest:
                    result = _combine(name, result, self._value(operand))
                return result
            case ast.BinOp(
                left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv() as op, right=right
            ):
                return _combine(type(op).__name__, self._value(left), self._value(right))
        raise ValueError(ast.dump(node)[:60])


def _combine(operator: str, left: int, right: int) -> int:
    match operator:
        case "Add":
            result = left + right
        case "Sub":
            result = left - right
        case "Mul" | "Mult":
            result = left * right
        case _:
            result = left // right
    if abs(result) > MAX_EXTENT:
        raise ValueError(operator)
    return result


def symbol_name(expression: str) -> str | None:
    """The name if an expression is one bare symbol: "s77" or "Symbol('s77', positive=True)"."""
    if len(expression) > _MAX_EXPRESSION:
        return None
    try:
        node = ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    match node:
        case ast.Name(id=name):
            return name
        case ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str(name)), *_]):
            return name
    return None


def checked_dims(dims: Iterable[object], where: str) -> Dims:
    """Dimensions as a tuple of whole numbers. Raises SpecError."""
    result: list[int] = []
    for extent in dims:
        if not is_whole(extent, 0, MAX_EXTENT):
            raise SpecError(
                where, f"a dimension must be a whole number from 0 to {MAX_EXTENT}, got {brief(extent)}"
            )
        result.append(extent)
        if len(result) > _MAX_RANK:
            raise SpecError(where, f"has more than {_MAX_RANK} dimensions")
    return tuple(result)


def references(argument: Argument) -> Iterable[Ref]:
    """All tensors in an argument, those in lists included."""
    if isinstance(argument, Ref):
        yield argument
    elif isinstance(argument, tuple):
        for item in argument:
            yield from references(item)
