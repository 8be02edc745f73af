"""Tensors in the file: their shapes, and the values of the few that determine shapes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper

from rramalloc.errors import SpecError
from rramalloc.importers.axes import Dims
from rramalloc.importers.onnx.tensors import Array, Constant
from rramalloc.network.geometry import MAX_EXTENT
from rramalloc.records import brief

MAX_FOLDED = 2**16
"""Elements of the largest constant that is evaluated."""
MAX_FOLDED_FLOATS = 64
"""The same for fractions: scale factors need few, anything larger is a weight."""

MAX_FOLDED_TOTAL = 2**24
"""Elements of all evaluated constants of a model together: bounds the memory they take."""

_T = onnx.TensorProto
_EVALUATED = "FLOAT DOUBLE FLOAT16 INT64 INT32 INT16 INT8 UINT64 UINT32 UINT16 UINT8 BOOL"
_KINDS = frozenset(getattr(_T, kind) for kind in _EVALUATED.split())
"""Element types of constants that shapes can be made of."""
_BITS = {getattr(_T, f"{sign}INT{bits}"): bits for bits in (4, 8, 16) for sign in ("", "U")}


class Room:
    """Number of further elements that may be evaluated; once it is used up, nothing is."""

    def __init__(self) -> None:
        self.left = MAX_FOLDED_TOTAL

    def take(self, array: Array) -> bool:
        """Return True to keep this constant."""
        if not foldable(array.size, array.dtype):
            return False
        self.left -= array.size
        return self.left >= 0


def bits_of(kind: int) -> int | None:
    """Return the bits of an element type that quantised values have, None for any other type."""
    return _BITS.get(kind)


def dtype_of(kind: int) -> np.dtype[Any] | None:
    """Return the NumPy type of an ONNX element type, None if it has none that is needed here."""
    return onnx.helper.tensor_dtype_to_np_dtype(kind) if kind in _KINDS else None


def foldable(elements: int, dtype: np.dtype[Any]) -> bool:
    """Return True if a constant of this size and type may be evaluated."""
    return elements <= (MAX_FOLDED_FLOATS if dtype.kind == "f" else MAX_FOLDED)


def dims_of(proto: Any, where: str) -> Dims:
    """Return the shape of a tensor in the file. Raises SpecError for a length below 0 or beyond the limit."""
    dims = tuple(int(size) for size in proto.dims)
    for size in dims:
        if not 0 <= size <= MAX_EXTENT:
            raise SpecError(where, f"dims: got {brief(size)}, a length is from 0 to {MAX_EXTENT}")
    return dims


def constant_of(proto: Any, where: str) -> Constant:
    """Return a tensor in the file; values only if they are small, present and stored in the file itself.

    Raises SpecError if its data does not have the length that its dims say.
    """
    dims, bits, dtype = dims_of(proto, where), bits_of(proto.data_type), dtype_of(proto.data_type)
    elements = math.prod(dims)
    if dtype is None or not foldable(elements, dtype) or proto.data_location == _T.EXTERNAL:
        return Constant(dims=dims, bits=bits)
    if proto.ByteSize() > 16 * elements + 2**16:
        raise SpecError(where, f"holds {proto.ByteSize()} bytes, far more than its {elements} elements need")
    raw = len(proto.raw_data)
    listed = len(getattr(proto, onnx.helper.tensor_dtype_to_field(proto.data_type)))
    if not raw and not listed and elements:
        return Constant(dims=dims, bits=bits)
    if raw and raw != elements * dtype.itemsize:
        raise SpecError(
            where,
            f"raw_data: got {raw} bytes, its {elements} elements of {dtype} take {elements * dtype.itemsize}",
        )
    if not raw and listed != elements:
        raise SpecError(where, f"data: got {listed} values, the dims say {elements}")
    try:
        with np.errstate(all="ignore"):
            return Constant(dims=dims, array=onnx.numpy_helper.to_array(proto), bits=bits)
    except (ValueError, TypeError, OverflowError) as error:
        raise SpecError(where, f"data: cannot be read as {dtype}: {error}") from None
