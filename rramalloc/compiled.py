"""The one way functions are compiled: cached on disk where that is possible, without Python's lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile for NumPy arrays and scalars; the first call in a fresh installation takes seconds."""
    return _compile(function, inline="never")


def compiled_inline(function: Function) -> Function:
    """As `compiled`, for small functions that disappear into their callers."""
    return _compile(function, inline="always")


def _compile(function: Function, inline: str) -> Function:
    settings = {"nogil": True, "boundscheck": False, "error_model": "numpy", "inline": inline}
    try:
        return numba.njit(cache=True, **settings)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # neither the package's folder nor the user's cache can be written
        return numba.njit(**settings)(function)  # type: ignore[no-any-return]
