"""Tensors in the file: their shapes, and the values of the few that determine shapes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx

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
_KINDS: dict[int, tuple[str, str]] = {
    _T.FLOAT: ("<f4", "float_data"),
    _T.DOUBLE: ("<f8", "double_data"),
    _T.FLOAT16: ("<f2", "int32_data"),
    _T.INT64: ("<i8", "int64_data"),
    _T.INT32: ("<i4", "int32_data"),
    _T.INT16: ("<i2", "int32_data"),
    _T.INT8: ("i1", "int32_data"),
    _T.UINT16: ("<u2", "int32_data"),
    _T.UINT8: ("u1", "int32_data"),
    _T.BOOL: ("?", "int32_data"),
    _T.UINT32: ("<u4", "uint64_data"),
    _T.UINT64: ("<u8", "uint64_data"),
}


_BITS = {
    _T.INT4: 4, _T.UINT4: 4, _T.INT8: 8, _T.UINT8: 8, _T.INT16: 16, _T.UINT16: 16,
}  # fmt: skip


class Room:
    """How many more elements may be evaluated; once it is used up, nothing is."""

    def __init__(self) -> None:
        self.left = MAX_FOLDED_TOTAL

    def take(self, array: Array) -> bool:
        """Whether to keep this constant."""
        if not foldable(array.size, array.dtype):
            return False
        self.left -= array.size
        return self.left >= 0


def bits_of(kind: int) -> int | None:
    """Bits of an element type that quantised values have, None for any other type."""
    return _BITS.get(kind)


def dtype_of(kind: int) -> np.dtype[Any] | None:
    """NumPy type of an ONNX element type, None if it has none that is needed here."""
    return np.dtype(_KINDS[kind][0]).newbyteorder("=") if kind in _KINDS else None


def foldable(elements: int, dtype: np.dtype[Any]) -> bool:
    """Whether a constant of this size and type may be evaluated."""
    return elements <= (MAX_FOLDED_FLOATS if dtype.kind == "f" else MAX_FOLDED)


def dims_of(proto: Any, where: str) -> Dims:
    """Shape of a tensor in the file. Raises SpecError for a length below 0 or beyond the limit."""
    dims = tuple(int(size) for size in proto.dims)
    for size in dims:
        if not 0 <= size <= MAX_EXTENT:
            raise SpecError(where, f"dims: got {brief(size)}, a length is from 0 to {MAX_EXTENT}")
    return dims


def constant_of(proto: Any, where: str) -> Constant:
    """A tensor in the file; values only if they are small, present and stored in the file itself.

    Raises SpecError if its data does not have the length that its dims say.
    """
    dims = dims_of(proto, where)
    kind, bits = _KINDS.get(proto.data_type), bits_of(proto.data_type)
    elements = math.prod(dims)
    if kind is None or not foldable(elements, np.dtype(kind[0])) or proto.data_location == _T.EXTERNAL:
        return Constant(dims=dims, bits=bits)
    if proto.ByteSize() > 16 * elements + 2**16:
        raise SpecError(where, f"holds {proto.ByteSize()} bytes, far more than its {elements} elements need")
    raw = bytes(proto.raw_data)
    listed = getattr(proto, kind[1])
    if not raw and not listed and elements:
        return Constant(dims=dims, bits=bits)
    flat = _from_raw(raw, kind[0], elements, where) if raw else _from_list(proto, listed, elements, where)
    return Constant(dims=dims, array=flat.reshape(dims), bits=bits)


def _from_raw(raw: bytes, code: str, elements: int, where: str) -> Array:
    dtype = np.dtype(code)
    if len(raw) != elements * dtype.itemsize:
        raise SpecError(
            where,
            f"raw_data: got {len(raw)} bytes, its {elements} elements of {dtype} "
            f"take {elements * dtype.itemsize}",
        )
    return np.frombuffer(raw, dtype).astype(dtype.newbyteorder("="))


def _from_list(proto: Any, listed: Any, elements: int, where: str) -> Array:
    if len(listed) != elements:
        raise SpecError(where, f"data: got {len(listed)} values, the dims say {elements}")
    code = _KINDS[proto.data_type][0]
    if proto.data_type == _T.FLOAT16:
        return np.array(listed, dtype=np.int64).astype(np.uint16).view(np.float16)
    wide = np.uint64 if np.dtype(code).kind == "u" else np.float64 if np.dtype(code).kind == "f" else np.int64
    if proto.data_type in (_T.UINT8, _T.UINT16):
        wide = np.int64
    with np.errstate(all="ignore"):
        return np.array(list(listed), dtype=wide).astype(np.dtype(code).newbyteorder("="))
