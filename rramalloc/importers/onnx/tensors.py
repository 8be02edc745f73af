"""Tensors of an ONNX graph: constants, with the values of the few that determine shapes, and tensors with the
meaning of each axis."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
from numpy.typing import NDArray

from rramalloc.errors import SpecError
from rramalloc.importers.axes import AxisRoles, Dims, Role, canonical, lettered, shape_of
from rramalloc.network.geometry import MAX_EXTENT, Pads, Shape
from rramalloc.records import brief

Array = NDArray[np.generic]
NO_PADS = Pads(0, 0, 0, 0)
MAX_FOLDED = 2**16
"""Elements of the largest constant that is evaluated."""
MAX_FOLDED_FLOATS = 64
"""The same for fractions: scale factors need few, anything larger is a weight."""
_T = onnx.TensorProto
_NAMES = "FLOAT DOUBLE FLOAT16 INT64 INT32 INT16 INT8 UINT64 UINT32 UINT16 UINT8 BOOL"
EVALUATED = frozenset(getattr(_T, kind) for kind in _NAMES.split())
"""Element types of constants that shapes can be made of."""
_QUANTISED = re.compile(r"U?INT([248]|16)|FLOAT([1-8])E\w+")
BITS = {
    kind: int(match[1] or match[2])
    for name, kind in _T.DataType.items()
    if (match := _QUANTISED.fullmatch(name)) is not None
}
"""Bits of the element types that quantised values have: as they are stored."""
_OF_WEIGHTS = frozenset((*BITS, _T.FLOAT, _T.DOUBLE, _T.FLOAT16, _T.BFLOAT16))
"""Element types of weights; the others hold indices, sizes and truth values."""

Stored = frozenset[tuple[str, int]]
"""Tensors of the file that values are made of, and how many elements each has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A tensor that does not depend on the network's input.

    dims: None if its shape is not known; array: values, only where they are few enough to matter for shapes;
    origin: the tensor of the file that holds the same values, perhaps in another order; bits: of its whole
    numbers, where they are few, or of those that it was made of; stored: what it is made of.
    """

    dims: Dims | None
    array: Array | None = None
    origin: str = ""
    bits: int | None = None
    stored: Stored = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts(Constant):
    """A sequence of tensors, as SplitToSequence makes it."""

    parts: tuple[Constant | Tensor, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost(Constant):
    """A tensor as long as data says: what works on it is left out, by name. node: stands in its place."""

    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPlace:
    """Position of a table's row in a tensor: `size` elements along an axis, `inner` places apart."""

    axis: int
    size: int
    inner: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Stored weights in a tensor that depends on the input (docs/sources/model.md 14).

    kind: "matrix" if a stored matrix is selected or scaled; "changed" if computed values were added to one,
    which may be an encoding of positions added to data; "row" if rows of a table are read, at `row`;
    is_picked: indices pick it from a stack, as that of experts.
    """

    stored: Stored
    kind: Literal["matrix", "changed", "row"]
    row: RowPlace | None = None
    is_picked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A tensor that depends on the input. Make it with `tensor`.

    node: the network node that yields it; dims: its ONNX shape; layout: what each axis runs over;
    pads: zero border, part of dims, that no node adds: the only consumer takes it over;
    bits: of the whole numbers that quantised values are; chosen: stored weights in it.
    """

    node: str
    dims: Dims
    layout: AxisRoles
    pads: Pads = NO_PADS
    bits: int | None = None
    chosen: Chosen | None = None

    @property
    def shape(self) -> Shape:
        """Channels and grid."""
        return shape_of(self.dims, self.layout)

    @property
    def grid_axes(self) -> frozenset[int]:
        """Axes that run over the grid."""
        return frozenset(axis for axis, role in enumerate(self.layout) if role)

    def aligned(self, rank: int) -> Tensor:
        """Return the same tensor with leading axes of length 1, as broadcasting sees it."""
        more = rank - len(self.dims)
        if not more:
            return self
        return replace(self, dims=(1,) * more + self.dims, layout=((),) * more + self.layout)


Value = Constant | Tensor
V = TypeVar("V", bound=Value)


def arranged(value: V, places: Sequence[int | None]) -> V:
    """Return a tensor with these of its axes, in this order; None: a new one of length 1."""
    if value.dims is None:
        return value
    dims = tuple(1 if at is None else value.dims[at] for at in places)
    if isinstance(value, Constant):
        return replace(value, dims=dims, array=None)
    layout = canonical(dims, [() if at is None else value.layout[at] for at in places])
    return replace(value, dims=dims, layout=layout, pads=NO_PADS)


def dropped(value: V, axes: Container[int]) -> V:
    """Return a tensor without some axes of length 1."""
    return arranged(value, [axis for axis in range(len(value.dims or ())) if axis not in axes])


def inserted(value: V, axes: Container[int], rank: int) -> V:
    """Return a tensor of this rank, with new axes of length 1 at some places of the result."""
    axes_of_value = iter(range(rank))
    return arranged(value, [None if axis in axes else next(axes_of_value) for axis in range(rank)])


def tensor(node: str, dims: Sequence[int], layout: Sequence[Role]) -> Tensor:
    """Return a tensor whose axes of length 1 carry no meaning."""
    return Tensor(node=node, dims=tuple(dims), layout=canonical(dims, layout))


def gridded(dims: Sequence[int], channel_axes: Sequence[int]) -> AxisRoles:
    """Return a layout with these channel axes; the others are the grid, the last of several its columns."""
    grid = [axis for axis, size in enumerate(dims) if size != 1 and axis not in channel_axes]
    letters = ["C"] * len(dims)
    for axis in grid:
        letters[axis] = "X" if len(grid) > 1 and axis == grid[-1] else "Y"
    return lettered(dims, "".join(letters))


def default_nchw_layout(dims: Sequence[int]) -> AxisRoles:
    """Return the layout that convolutions use: channels at axis 1, the grid behind; vectors are channels."""
    return gridded(dims, [len(dims) - 1] if len(dims) <= 2 else [1])


def single_integer(value: Value | None) -> int | None:
    """Return a whole number that is known, else None."""
    array = value.array if isinstance(value, Constant) else None
    is_one = array is not None and array.size == 1 and array.dtype.kind in "iu"
    return int(array.reshape(-1)[0]) if array is not None and is_one else None


def foldable(elements: int, dtype: np.dtype[Any]) -> bool:
    """Return True if a constant of this size and type may be evaluated."""
    return elements <= (MAX_FOLDED_FLOATS if dtype.kind == "f" else MAX_FOLDED)


def dims_of(proto: Any, where: str) -> Dims:
    """Return the shape of a tensor in the file. Raises SpecError for a length below 0 or beyond the limit."""
    for size in proto.dims:
        if not 0 <= size <= MAX_EXTENT:
            raise SpecError(where, f"dims: got {brief(size)}, a length is from 0 to {MAX_EXTENT}")
    return tuple(map(int, proto.dims))


def stored_as(name: str, elements: int, kind: int) -> Stored:
    """Return the origin of a tensor of the file: itself if its elements may be weights, else none."""
    return frozenset([(name, elements)] if elements > 1 and kind in _OF_WEIGHTS else [])


def constant_of(proto: Any, where: str) -> Constant:
    """Return a tensor in the file; values only if they are small, present and stored in the file itself.

    Raises SpecError if its data does not have the length that its dims say.
    """
    kind, dims = proto.data_type, dims_of(proto, where)
    elements = math.prod(dims)
    made = Constant(
        dims=dims, origin=proto.name, bits=BITS.get(kind), stored=stored_as(proto.name, elements, kind)
    )
    if kind not in EVALUATED or proto.data_location == _T.EXTERNAL:
        return made
    listed = len(getattr(proto, onnx.helper.tensor_dtype_to_field(kind)))
    is_empty = elements and not listed and not proto.raw_data
    if is_empty or not foldable(elements, onnx.helper.tensor_dtype_to_np_dtype(kind)):
        return made
    try:
        with np.errstate(all="ignore"):
            return replace(made, array=onnx.numpy_helper.to_array(proto))
    except (ValueError, TypeError, OverflowError) as error:
        raise SpecError(where, f"data: cannot be read as a tensor of {elements} elements: {error}") from None
