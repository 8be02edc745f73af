"""Types of NumPy arrays, as signatures name them, with shapes and units in docstrings; sparse arrays."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


def sparse(size: int, kind: type[np.signedinteger[Any]]) -> npt.NDArray[Any]:
    """Return zeros of which few are used: memory is taken page by page, as they are written.

    np.empty asks the system for pages of 2 MiB, of which a large network's searches use some bytes each.
    """
    length = max(1, size) * np.dtype(kind).itemsize
    return np.frombuffer(mmap.mmap(-1, length), dtype=kind, count=size)
