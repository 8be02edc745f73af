"""The one way functions are compiled: without Python's lock, and kept on disk for later runs where safe.

`rramalloc.numba_inside` extends inner classes of numba: with them a first run compiles in half the time, and
later ones start by a quarter sooner. Where anything of them is not as expected, `njit(cache=True)` does.
"""

from __future__ import annotations

import gc
import os
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from rramalloc.cache_folder import cache_folder, is_private_file, private_folder
from rramalloc.errors import FileError
from rramalloc.memory import check_memory
from rramalloc.numba_settings import own_settings

Function = TypeVar("Function", bound=Callable[..., Any])

EXPECTED_FUNCTIONS = 70
"""Functions that the first command of a fresh installation compiles: 60 to 80."""
_FUNCTION_S = 0.2
"""Seconds that a function takes on a machine like that of results/timing.md: assumed for the first few."""
_COMPILER_BYTES = 64 * 2**20
"""Memory without which nothing is compiled, since LLVM ends the process that gets none."""
_ASSUMED = 7
"""Functions that count as compiled at that pace: after as many, half of the estimate is what was measured."""


def compiled(function: Function) -> Function:
    """Compile for NumPy arrays and scalars; the first call in a fresh installation takes seconds.

    For what neither makes nor returns arrays, nor calls what returns them: nothing counts who holds an array,
    so it compiles and runs faster. To make one anyway fails to compile; one that is returned to it is never
    freed.
    """
    return _compile(function, _nrt=False)


def compiled_maker(function: Function) -> Function:
    """Compile a function that makes or returns arrays, which it would else inherit from its caller."""
    return _compile(function, _nrt=True)


def compiled_part(function: Function) -> Function:
    """Compile a function that only compiled code calls: faster, as Python needs no entry."""
    return _compile(function, no_cpython_wrapper=True, _nrt=False)


def compiled_maker_part(function: Function) -> Function:
    """Compile a function that only compiled code calls and that makes or returns arrays."""
    return _compile(function, no_cpython_wrapper=True, _nrt=True)


def compiled_inline(function: Function) -> Function:
    """Compile a small function into its callers."""
    return _compile(function, inline="always")


def thoroughly(function: Function) -> Function:
    """Optimise fully what one of the decorators above has made, as most of the time is spent there.

    All else is optimised at a lower level: searches are as fast with it, and a fresh installation compiles
    for a fifth less time.
    """
    if (inside := _inside()) is not None:
        inside.THOROUGHLY.add(function.py_func)  # type: ignore[attr-defined]
    return function


def clock() -> float:
    """Return the seconds of a clock that stops while functions are compiled, for limits of time."""
    return time.monotonic() - compilation.seconds


def _warn_of_damage(folder: Path) -> None:
    warnings.warn(f"compiled code in {folder} is damaged: it is compiled again", stacklevel=2)


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=2)


class Compilation:
    """Compilation in this process of functions that no file holds yet.

    functions: how many so far; on_change: called from any thread with True when one begins, and with False
    when none is being compiled; on_damage: called with the folder of damaged files that were removed;
    on_unkept: called once with a sentence when one begins whose code is not kept on disk; is_reported: numba
    says when one begins.
    """

    def __init__(self) -> None:
        self.functions = 0
        self.on_change: Callable[[bool], object] = bool
        self.on_damage: Callable[[Path], object] = _warn_of_damage
        self.on_unkept: Callable[[str], object] = _warn
        self.is_reported = True
        self._unkept, self._is_said = "", False
        self._seconds, self._depth, self._begun_s = 0.0, 0, 0.0

    @property
    def seconds(self) -> float:
        """Seconds spent compiling so far."""
        return self._seconds + (time.monotonic() - self._begun_s if self._depth else 0.0)

    @property
    def expected_s(self) -> float:
        """Seconds that a first command compiles for at the pace of this machine so far."""
        pace_s = (_ASSUMED * _FUNCTION_S + self.seconds) / (_ASSUMED + self.functions)
        return pace_s * max(EXPECTED_FUNCTIONS, self.functions)

    def begin(self) -> None:
        """Note that a function is compiled now, perhaps within another: numba compiles in one thread."""
        self._say_unkept()
        if not self._depth:
            self._begun_s = time.monotonic()
        self._depth += 1
        self.functions += 1
        self.on_change(True)

    def leave_unkept(self, reason: str) -> None:
        """Note that what is compiled later cannot be kept on disk."""
        self._unkept = self._unkept or reason
        if not self.is_reported:
            self._say_unkept()

    def _say_unkept(self) -> None:
        if self._unkept and not self._is_said:
            self._is_said = True
            remedy = "make a folder with mkdir -m 700 and name it in NUMBA_CACHE_DIR"
            self.on_unkept(
                f"every run compiles for about {self.expected_s:.0f} s, its code is not kept: "
                f"{self._unkept}; {remedy}"
            )

    def speak_for_workers(self) -> None:
        """Note it once for processes that this one starts, which are silent about it."""
        try:
            cache_folder(Path(__file__), os.environ.get("NUMBA_CACHE_DIR", ""))
        except FileError as error:
            self.leave_unkept(str(error))
        self._say_unkept()

    def end(self) -> None:
        """Note that a function is compiled; numba writes its files next."""
        self._depth -= 1
        if not self._depth:
            self._seconds += time.monotonic() - self._begun_s
            self.on_change(False)


compilation = Compilation()


@cache
def _numba() -> Any:
    """Return numba, which reports to `compilation` what it compiles, unless it has other events."""
    with own_settings():
        import numba
    try:
        from numba.core import event

        event.register("numba:compile", _listener(event.Listener))
    except (ImportError, AttributeError):
        compilation.is_reported = False
    return numba


_own_functions: set[Any] = set()


def _listener(base: Any) -> Any:
    """Return what numba calls when it begins and ends to compile a function."""

    class Compiles(base):  # type: ignore[misc]
        """Under numba's lock, so that no other compilation comes between."""

        def __init__(self) -> None:
            self._scopes: list[ExitStack] = []

        def on_start(self, event: Any) -> None:
            check_memory(_COMPILER_BYTES)
            self._scopes.append(scope := ExitStack())
            if event.data["dispatcher"].py_func in _own_functions:
                scope.enter_context(own_settings())
                scope.callback(compilation.end)
                compilation.begin()
                if gc.isenabled():
                    gc.disable()  # of a fifth more time: a compiler makes millions of objects that are kept
                    scope.callback(gc.enable)

        def on_end(self, event: Any) -> None:
            self._scopes.pop().close()

    return Compiles()


@cache
def _inside() -> ModuleType | None:
    """Return the extensions of numba's inner classes; None where numba has others."""
    _numba()
    try:
        from rramalloc import numba_inside
    except (ImportError, AttributeError):
        return None
    return numba_inside


def _compile(function: Function, *, inline: str = "never", **inner: bool) -> Function:
    settings = {"nogil": True, "boundscheck": False, "error_model": "numpy", "inline": inline}
    inside = _inside()
    _own_functions.add(function)
    with own_settings():
        if inside is None:
            return _kept_by_numba(function, settings)
        made: Function = _numba().njit(
            no_cfunc_wrapper=True, pipeline_class=inside.Light, **settings, **inner
        )(function)
        try:
            inside.keep_on_disk(made, compilation.on_damage)
        except (FileError, RuntimeError) as error:  # RuntimeError: numba has no source file
            compilation.leave_unkept(str(error))
    return made


def _kept_by_numba(function: Function, settings: dict[str, Any]) -> Function:
    """Compile as numba does, which chooses the folder itself: without one if others can write there."""
    numba = _numba()
    made: Function
    try:
        cache_folder(Path(function.__code__.co_filename), os.environ.get("NUMBA_CACHE_DIR", ""))
        made = numba.njit(cache=True, **settings)(function)
        chosen = Path(made.stats.cache_path)  # type: ignore[attr-defined]
        if private_folder(chosen) != chosen:
            raise FileError(str(chosen), "lies behind a link")
        for file in chosen.glob("*.nb[ic]"):
            if not is_private_file(file):
                raise FileError(str(file), "belongs to another user or can be written by others")
    except (FileError, RuntimeError) as error:  # RuntimeError: numba finds no folder
        compilation.leave_unkept(str(error))
        made = numba.njit(**settings)(function)
    return made
