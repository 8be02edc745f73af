"""One operator of an ONNX graph: its attributes and inputs, errors that name it, the nodes it becomes."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import onnx

from rramalloc.errors import NetworkError, SpecError, UnsupportedError
from rramalloc.importers.axes import (
    INNER,
    MAX_TAKEN,
    Atom,
    AxisRoles,
    Dims,
    Role,
    as_images,
    canonical,
    chosen,
    images_of,
    in_raster_order,
    lettered,
    move,
    regriddings,
    runs_of,
    shape_of,
)
from rramalloc.importers.builder import GraphBuilder
from rramalloc.importers.onnx.tensors import Array, Constant, Tensor, Value, foldable, tensor
from rramalloc.network.geometry import MAX_EXTENT, Shape
from rramalloc.records import brief

_P = onnx.AttributeProto
_KINDS = {
    _P.INT: ("i", "an integer"),
    _P.INTS: ("ints", "integers"),
    _P.FLOAT: ("f", "a number"),
    _P.FLOATS: ("floats", "numbers"),
    _P.STRING: ("s", "a text"),
    _P.TENSOR: ("t", "a tensor"),
}
"""Field of an attribute's value by its type, and the type in messages."""
MAX_FOLDED_TOTAL = 2**24
"""Elements of all evaluated constants of a model together: bounds the memory they take."""

_SIDES = ("rows", "columns", "of_images")
"""Fields of a `take` by the side of the grid that it takes from."""

Uses = Mapping[str, Sequence[tuple[str, int]]]
"""Readers of each ONNX tensor: operator and input position; a graph output reads as operator ''."""


Feedback = Literal["none", "caches", "decoder"]
"""How inputs follow from outputs. caches: some have shapes of outputs, but may come from outside instead."""


class OnnxGraphBuilder(GraphBuilder):
    """A graph builder that visits the ONNX nodes in order.

    batch: the batch that the file fixes, everywhere taken as 1; batch_places: axis of each tensor that holds
    it, where known; uses: which operators read each ONNX tensor;
    room: elements of constants that may still be evaluated; moves: how often axes changed between grid and
    channels; external: names of tensors whose values are in another file; offsets: of computed whole numbers,
    the tensor that they are a constant away from, and that constant;
    feedback: how inputs follow from outputs; is_lifted: True for the name of an operator that the user leaves
    out, whatever speaks against it.
    """

    def __init__(
        self, where: str, batch: int, uses: Uses, taken: Iterable[str], external: Collection[str]
    ) -> None:
        super().__init__(where, taken)
        self.batch, self.uses, self.external = batch, uses, external
        self.batch_places: Mapping[str, int] = {}
        self.rounds_left = [0]
        self.offsets: dict[str, tuple[str, int]] = {}
        self.room, self.moves = MAX_FOLDED_TOTAL, 0
        self.feedback: Feedback = "none"
        self.is_lifted: Callable[[str], bool] = lambda name: False

    def keeps_constant(self, array: Array) -> bool:
        """Return True to keep the values of this constant."""
        self.room -= array.size * foldable(array.size, array.dtype)
        return self.room >= 0 and foldable(array.size, array.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxOperator:
    """An ONNX node with its resolved inputs (None: left out) and the operator set it is written for.

    builder: the network that its nodes are appended to.
    """

    builder: OnnxGraphBuilder
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
    def is_standard(self) -> bool:
        """True for an operator of ONNX itself."""
        return self.proto.domain in ("", "ai.onnx")

    @property
    def label(self) -> str:
        """Operator type, with its domain unless it is a standard one."""
        return f"{self.proto.domain}.{self.op}" if self.proto.domain else self.op

    def fault(self, field: str, reason: str) -> SpecError:
        """Return the error of a value that is not allowed in this node."""
        return SpecError(self.place, f"{field}: {reason}")

    def mismatch(self, field: str, reason: str) -> NetworkError:
        """Return the error of shapes that do not match at this node."""
        return NetworkError(self.place, f"{field}: {reason}")

    def unsupported(self, reason: str) -> UnsupportedError:
        """Return the error of a node that the model cannot express."""
        return UnsupportedError(self.place, reason)

    def attribute(self, name: str, kind: int) -> Any:
        """Return the value of an attribute, None if absent. Raises SpecError for another type."""
        for attribute in self.proto.attribute:
            if attribute.name == name:
                if attribute.type not in (kind, _P.UNDEFINED):
                    wanted = _KINDS[kind][1]
                    raise self.fault(name, f"must be {wanted}, got attribute type {attribute.type}")
                return getattr(attribute, _KINDS[kind][0])
        return None

    def integer(self, name: str, default: int) -> int:
        """Return an integer attribute."""
        value = self.attribute(name, _P.INT)
        return default if value is None else int(value)

    def integers(self, name: str) -> Dims | None:
        """Return a list-of-integers attribute, None if absent."""
        values = self.attribute(name, _P.INTS)
        return None if values is None else tuple(map(int, values))

    def text(self, name: str, default: str) -> str:
        """Return a text attribute."""
        value = self.attribute(name, _P.STRING)
        return default if value is None else bytes(value).decode("utf-8", "replace")

    def value(self, index: int) -> Value | None:
        """Return the input at a position, None if left out."""
        return self.values[index] if index < len(self.values) else None

    def need(self, index: int) -> Value:
        """Return the input at a position. Raises NetworkError if it is left out."""
        value = self.value(index)
        if value is None:
            raise self.mismatch("inputs", f"{self.op} needs input {index}, the node has {len(self.values)}")
        return value

    def data(self, index: int = 0) -> Tensor:
        """Return the input that depends on the network's input. Raises UnsupportedError if it is constant."""
        value = self.need(index)
        if isinstance(value, Constant):
            raise self.unsupported(f"input {index} is a constant where {self.op} is expected to take data")
        return value

    def size(self, value: Value) -> Dims:
        """Return the shape of an operand. Raises UnsupportedError if it is not known."""
        if value.dims is None:
            reason = "the shape of a constant operand is not known: simplify the model before the import"
            raise self.unsupported(reason)
        return value.dims

    def dims(self, index: int) -> Dims:
        """Return the shape of an input. Raises UnsupportedError if it is not known."""
        return self.size(self.need(index))

    def operands(self, values: Sequence[Value]) -> tuple[list[Dims], list[Tensor]]:
        """Return the shapes of all operands, and the operands that are data.

        Raises UnsupportedError for open shapes, and if no operand is data.
        """
        sizes, data = [self.size(value) for value in values], [x for x in values if isinstance(x, Tensor)]
        if not data:
            raise self.unsupported("none of its operands is data")
        return sizes, data

    def known(self, index: int, meaning: str) -> Array | None:
        """Return the values of an optional constant input, None if left out or empty.

        Raises UnsupportedError if the values are computed from data or too many.
        """
        value = self.value(index)
        if value is None or (isinstance(value, Constant) and value.dims is not None and 0 in value.dims):
            return None
        if isinstance(value, Constant) and value.array is not None:
            return value.array
        names = value.origin.split(" ") if isinstance(value, Constant) else []
        if any(name in self.builder.external for name in names):
            raise self.unsupported(
                f"{meaning} (input {index}) is stored in external data, which is never read: keep small "
                "tensors in the file, by onnx.save(onnx.load(FILE), FILE, save_as_external_data=True, "
                "size_threshold=1024)"
            )
        raise self.unsupported(
            f"{meaning} (input {index}) cannot be computed without running the model; fix the input "
            f"shapes and simplify the model, so that it becomes a constant"
        )

    def known_integers(self, index: int, meaning: str) -> Dims | None:
        """Return the values like `known`, as whole numbers."""
        array = self.known(index, meaning)
        if array is None:
            return None
        if array.dtype.kind not in "iub":
            raise self.fault(meaning, f"must be integers, got {array.dtype}")
        return tuple(int(value) for value in array.reshape(-1))

    def axis(self, axis: int, rank: int, field: str = "axis") -> int:
        """Return an axis counted from the front. Raises SpecError if it is out of range."""
        if not -rank <= axis < rank:
            raise self.fault(
                field, f"got {brief(axis)}, a tensor of rank {rank} has axes {-rank} to {rank - 1}"
            )
        return axis % rank

    def axes(self, axes: Dims, rank: int, field: str = "axes") -> Dims:
        """Return the axes counted from the front, sorted. Raises SpecError for repeated ones."""
        places = sorted(self.axis(axis, rank, field) for axis in axes)
        if len(set(places)) != len(places):
            raise self.fault(field, f"an axis is listed twice, got {brief(list(axes))}")
        return tuple(places)

    def axes_of(self, rank: int) -> Dims | None:
        """Return the axes given as attribute, or as input in newer operator sets."""
        given = self.integers("axes")
        if given is None and self.opset >= (13 if self.op in ("ReduceSum", "Squeeze", "Unsqueeze") else 18):
            given = self.known_integers(1, "axes")
        return None if given is None else self.axes(given, rank)

    def emit(self, op: str, inputs: Sequence[str], suffix: str = "", **fields: Any) -> str:
        """Append a node; `suffix` names one that helps the main node of this operator.

        Raises NetworkError if its fields or shapes are not allowed.
        """
        stem = f"{self.name}/{suffix}" if suffix else self.name
        name = self.builder.unique(stem) if suffix or self.name in self.builder.shapes else self.name
        self.builder.add(name, op, inputs, self.place, **fields)
        return name

    def barrier(
        self,
        inputs: Sequence[Tensor],
        dims: Dims,
        layout: Sequence[Role],
        suffix: str = "",
        because: str = "",
        macs: int | None = None,
        keeps_images: bool = False,
    ) -> Tensor:
        """Return a barrier: all pixels of the inputs come before the first of the output.

        because: why, if that is approximate; macs: of products of computed tensors among them; keeps_images:
        an image waits for its own pixels alone.
        """
        if 0 in dims:
            raise self.unsupported("its output is empty")
        shape = shape_of(dims, canonical(dims, layout))
        fields = {"shape": shape.as_tuple(), "dynamic_macs": macs, "images": shape.images}
        if shape.images > 1 and not keeps_images:
            fields["mixes_images"] = True
        name = self.emit("barrier", [x.node for x in inputs], suffix, **fields)
        if because:
            self.builder.approximate([name], self.label, f"{because}: treated as a barrier")
        return tensor(name, dims, layout)

    def relayout(self, x: Tensor, layout: Sequence[Role], suffix: str = "regrid") -> Tensor:
        """Return the same values with other roles of the axes: itself, blocks of pixels, or a barrier."""
        return self.expand(x, x.dims, layout, suffix)

    def channelled(self, x: Tensor, axes: Iterable[int], suffix: str = "whole") -> Tensor:
        """Return the tensor with these axes as channels: blocks of pixels are joined into one."""
        return self.relayout(
            x, [() if axis in set(axes) else role for axis, role in enumerate(x.layout)], suffix
        )

    def pixelwise(self, x: Tensor, op: str) -> Tensor:
        """Return a pixelwise node: one pixel in, one pixel out, same shape."""
        return Tensor(node=self.emit(op, [x.node]), dims=x.dims, layout=x.layout)

    def select(self, x: Tensor, dims: Dims, layout: Sequence[Role], suffix: str = "") -> Tensor:
        """Select other channels on the same grid."""
        if 0 in dims:
            raise self.unsupported("its output is empty")
        shape = shape_of(dims, canonical(dims, layout))
        return tensor(self.emit("select", [x.node], suffix, channels=shape.channels), dims, layout)

    def expand(self, x: Tensor, dims: Dims, layout: Sequence[Role], suffix: str = "expand") -> Tensor:
        """Return the tensor on another layout, repeated along axes of length 1: blocks, then pixels."""
        layout = canonical(dims, layout)
        if (dims, layout) == (x.dims, x.layout):
            return x
        moved = move(x.dims, x.layout, dims, layout)
        if moved is None and max(images_of(x.layout), images_of(layout)) > 1:
            return self._regridded(x, dims, layout, suffix)
        if moved is None:
            return self.barrier([x], dims, layout, suffix)
        node, want = x.node, shape_of(dims, layout)
        if x.shape.images > 1 and want == Shape(math.prod(x.shape), 1, 1, x.shape.images):
            return tensor(self.emit("flatten", [node], suffix), dims, layout)
        self.builder.moves += 1
        is_of_images = moved.joined == moved.repeated == 1
        if moved.joined > 1 < moved.repeated or (moved.pool != (1, 1) and moved.pool == x.shape.grid):
            return self.barrier([x], dims, layout, suffix, keeps_images=is_of_images)
        if moved.pool != (1, 1):
            node = self.emit("maxpool", [node], suffix, kernel=moved.pool, stride=moved.pool)
        if self.builder.shapes[node].channels != want.channels or not is_of_images:
            kept: dict[str, Any] = {} if is_of_images else {"images": want.images}
            node = self.emit("select", [node], f"{suffix}_channels", channels=want.channels, **kept)
        if moved.scale != (1, 1):
            node = self.emit("upsample", [node], suffix, scale=moved.scale)
        return tensor(node, dims, layout)

    def _regridded(self, x: Tensor, dims: Dims, layout: AxisRoles, suffix: str) -> Tensor:
        """Return the tensor with axes moved between images and grid, by a `regrid` if their order allows it.

        Before it, what becomes channels does; behind it, what becomes images or grid, or is repeated.
        """
        small = canonical(x.dims, [a if b else () for a, b in zip(x.layout, layout, strict=True)])
        there = canonical(x.dims, [b if a else () for a, b in zip(x.layout, layout, strict=True)])
        steps = regriddings(small, there, x.dims)
        ends = move(x.dims, x.layout, x.dims, small), move(x.dims, there, dims, layout)
        if not steps or there == x.layout or None in ends:
            return self.barrier([x], dims, layout, suffix)
        x = self.expand(x, x.dims, small, suffix)
        for roles, made in steps if small != there else ():
            x = tensor(self.emit("regrid", [x.node], suffix, **made._asdict()), x.dims, roles)
        return self.expand(x, dims, layout, suffix)

    def imaged(self, x: Tensor, axis: int, letters: str, suffix: str = "images") -> Tensor:
        """Return the tensor with an axis as images, and the others as `letters` say."""
        want = list(lettered(x.dims, letters))
        want[axis] = as_images(x.layout[axis]) or lettered((x.dims[axis],), "I")[0]
        return self.relayout(x, want, suffix)

    def take(self, x: Tensor, axis: int, indices: Sequence[int], suffix: str = "") -> Tensor:
        """Return the values at these places along an axis, -1 for zeros: channels of every pixel, or other
        pixels.

        A grid that one axis runs over row by row is made one column first.
        """
        dims = (*x.dims[:axis], len(indices), *x.dims[axis + 1 :])
        if not indices or len(indices) > MAX_EXTENT:
            raise self.unsupported("its output is empty")
        if not x.layout[axis] and x.dims[axis] > 1:
            return self.select(x, dims, x.layout, suffix)
        if not x.layout[axis]:
            return self.expand(x, dims, _grown(x, axis, len(indices)), suffix or "repeat")
        if max(len(indices), x.dims[axis], *x.shape.grid) > MAX_TAKEN:
            return self.barrier([x], dims, x.layout, suffix, "picks from a very long axis")
        if len(x.layout[axis]) > 1 and in_raster_order(x.layout, axis):
            column = self.emit("regrid", [x.node], f"{suffix}column", grid=(x.dims[axis], 1), images=1)
            roles = [() if other != axis else (Atom(x.dims[axis], 0, (0,)),) for other in range(len(x.dims))]
            x = tensor(column, x.dims, roles)
            self.builder.approximate(
                [column], self.label, "waits for whole rows of the grid that it makes one column"
            )
        picked = chosen(x.layout, axis, indices)
        if picked is None:
            return self.barrier([x], dims, x.layout, suffix, "picks from a part of the grid")
        grid, pixels = picked
        runs: dict[str, Any] = {_SIDES[grid]: runs_of(pixels)}
        return tensor(self.emit("take", [x.node], suffix, **runs), dims, x.layout)

    def between(self, x: Tensor, axis: int, before: int, behind: int, suffix: str = "") -> Tensor:
        """Return the values with zeros before and behind them along an axis of the grid; a single value is
        repeated instead.

        As `take` of these places, without a list of them where the axis alone is its side of the grid.
        """
        length = x.dims[axis]
        dims = (*x.dims[:axis], before + length + behind, *x.dims[axis + 1 :])
        if not x.layout[axis] and length == 1 and dims[axis] <= MAX_EXTENT:
            return self.expand(x, dims, _grown(x, axis, dims[axis]), suffix or "repeat")
        factors = x.layout[axis]
        side = [atom for role in x.layout for atom in role if factors and atom.grid == factors[0].grid]
        if len(factors) != 1 or len(side) != 1 or max(dims[axis], *x.shape.grid) > MAX_TAKEN:
            return self.take(x, axis, [-1] * before + list(range(length)) + [-1] * behind, suffix)
        runs = [(-1, before, 0), (0, length, 1), (-1, behind, 0)]
        kept: dict[str, Any] = {_SIDES[factors[0].grid]: [run for run in runs if run[1]]}
        return tensor(self.emit("take", [x.node], suffix, **kept), dims, x.layout)


Handler = Callable[[OnnxOperator], Sequence[Value]]
"""Rule of an operator: its outputs in order; with fewer than the operator has, the last one is the rest."""


def _grown(x: Tensor, axis: int, size: int) -> Sequence[Role]:
    """Return the layout where an axis of one element grows: channels, or in an image the free side."""
    free = [grid for grid in (0, 1) if not any(a.grid == grid for role in x.layout for a in role)]
    grows = axis > 1 and free and len(x.dims) > 3
    return [
        ((Atom(size, free[0], (INNER,)),) if grows else ()) if other == axis else role
        for other, role in enumerate(x.layout)
    ]
