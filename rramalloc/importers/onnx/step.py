"""One operator of an ONNX graph: typed access to attributes and inputs, and errors that name it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import onnx

from rramalloc.errors import NetworkError, SpecError, UnsupportedError
from rramalloc.importers.axes import Dims
from rramalloc.importers.onnx.tensors import Array, Constant, Tensor, Value
from rramalloc.records import brief

_INT, _INTS = onnx.AttributeProto.INT, onnx.AttributeProto.INTS
_FLOAT, _FLOATS = onnx.AttributeProto.FLOAT, onnx.AttributeProto.FLOATS
_STRING, _TENSOR = onnx.AttributeProto.STRING, onnx.AttributeProto.TENSOR
_KINDS = {
    _INT: "an integer",
    _INTS: "integers",
    _FLOAT: "a number",
    _FLOATS: "numbers",
    _STRING: "a text",
    _TENSOR: "a tensor",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An ONNX node with its resolved inputs (None: left out) and the operator set it is written for."""

    proto: Any
    name: str
    place: str
    opset: int
    values: tuple[Value | None, ...]

    @property
    def op(self) -> str:
        """Operator type."""
        return str(self.proto.op_type)

    @property
    def label(self) -> str:
        """Operator type, with its domain unless it is a standard one."""
        return f"{self.proto.domain}.{self.op}" if self.proto.domain else self.op

    def fault(self, field: str, reason: str) -> SpecError:
        """A value of this node is not allowed."""
        return SpecError(self.place, f"{field}: {reason}")

    def mismatch(self, field: str, reason: str) -> NetworkError:
        """Shapes at this node do not match."""
        return NetworkError(self.place, f"{field}: {reason}")

    def unsupported(self, reason: str) -> UnsupportedError:
        """The model cannot express this node."""
        return UnsupportedError(self.place, reason)

    def _attribute(self, name: str, kind: int, field: str) -> Any:
        for attribute in self.proto.attribute:
            if attribute.name == name:
                if attribute.type not in (kind, onnx.AttributeProto.UNDEFINED):
                    raise self.fault(name, f"must be {_KINDS[kind]}, got attribute type {attribute.type}")
                return getattr(attribute, field)
        return None

    def integer(self, name: str, default: int) -> int:
        """An integer attribute."""
        value = self._attribute(name, _INT, "i")
        return default if value is None else int(value)

    def integers(self, name: str) -> Dims | None:
        """A list-of-integers attribute, None if absent."""
        values = self._attribute(name, _INTS, "ints")
        return None if values is None else tuple(int(value) for value in values)

    def numbers(self, name: str) -> tuple[float, ...] | None:
        """A list-of-floats attribute, None if absent."""
        values = self._attribute(name, _FLOATS, "floats")
        return None if values is None else tuple(float(value) for value in values)

    def number(self, name: str) -> float | None:
        """A float attribute, None if absent."""
        value = self._attribute(name, _FLOAT, "f")
        return None if value is None else float(value)

    def text(self, name: str, default: str) -> str:
        """A text attribute."""
        value = self._attribute(name, _STRING, "s")
        return default if value is None else bytes(value).decode("utf-8", "replace")

    def tensor_attribute(self, name: str) -> Any:
        """A TensorProto attribute, None if absent."""
        return self._attribute(name, _TENSOR, "t")

    def value(self, index: int) -> Value | None:
        """Input at a position, None if left out."""
        return self.values[index] if index < len(self.values) else None

    def need(self, index: int) -> Value:
        """Input at a position. Raises NetworkError if it is left out."""
        value = self.value(index)
        if value is None:
            raise self.mismatch("inputs", f"{self.op} needs input {index}, the node has {len(self.values)}")
        return value

    def data(self, index: int = 0) -> Tensor:
        """Input that depends on the network's input. Raises UnsupportedError if it is constant."""
        value = self.need(index)
        if isinstance(value, Constant):
            raise self.unsupported(f"input {index} is a constant where {self.op} is expected to take data")
        return value

    def dims(self, index: int) -> Dims:
        """Shape of an input. Raises UnsupportedError if it is not known."""
        value = self.need(index)
        if value.dims is None:
            raise self.unsupported(
                f"the shape of constant input {index} is not known: simplify the model before the import"
            )
        return value.dims

    def known(self, index: int, meaning: str) -> Array | None:
        """Values of an optional constant input, None if left out or empty.

        Raises UnsupportedError if the values are computed from data or too many.
        """
        value = self.value(index)
        if value is None or (isinstance(value, Constant) and value.dims is not None and 0 in value.dims):
            return None
        if isinstance(value, Constant) and value.array is not None:
            return value.array
        raise self.unsupported(
            f"{meaning} (input {index}) cannot be computed without running the model; fix the input "
            f"shapes and simplify the model, so that it becomes a constant"
        )

    def known_integers(self, index: int, meaning: str) -> Dims | None:
        """Like `known`, as whole numbers."""
        array = self.known(index, meaning)
        if array is None:
            return None
        if array.dtype.kind not in "iub":
            raise self.fault(meaning, f"must be integers, got {array.dtype}")
        return tuple(int(value) for value in array.reshape(-1))

    def axis(self, axis: int, rank: int, field: str = "axis") -> int:
        """An axis counted from the front. Raises SpecError if it is out of range."""
        if not -rank <= axis < rank:
            raise self.fault(
                field, f"got {brief(axis)}, a tensor of rank {rank} has axes {-rank} to {rank - 1}"
            )
        return axis % rank

    def axes(self, axes: Dims, rank: int, field: str = "axes") -> Dims:
        """Axes counted from the front, sorted. Raises SpecError for repeated ones."""
        places = sorted(self.axis(axis, rank, field) for axis in axes)
        if len(set(places)) != len(places):
            raise self.fault(field, f"an axis is listed twice, got {brief(list(axes))}")
        return tuple(places)

    def axes_of(self, rank: int, index: int, since: int) -> Dims | None:
        """Axes given as attribute before opset `since` and as input from then on."""
        given = self.integers("axes")
        if given is None and self.opset >= since:
            given = self.known_integers(index, "axes")
        return None if given is None else self.axes(given, rank)
