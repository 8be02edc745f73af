"""Compilation of functions by numba: without Python's lock, and cached on disk where that is safe."""

from __future__ import annotations

import gc
import os
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from rramalloc.cache_folder import cache_folder
from rramalloc.errors import FileError
from rramalloc.memory import check_memory
from rramalloc.numba_settings import own_settings, replaced

Function = TypeVar("Function", bound=Callable[..., Any])

EXPECTED_FUNCTIONS = 70
"""Functions that the first command of a fresh installation compiles: 60 to 80."""
_FUNCTION_S = 0.2
"""Seconds that a function takes on a machine like that of results/timing.md: assumed for the first few."""
_COMPILER_BYTES = 64 * 2**20
"""Memory without which nothing is compiled, since LLVM ends the process that gets none."""
_KEEPING = "make a folder with mkdir -m 700 and name it in NUMBA_CACHE_DIR"
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
    """Compile a function that only compiled code calls: faster, as Python needs no entry point."""
    return _compile(function, no_cpython_wrapper=True, _nrt=False)


def compiled_maker_part(function: Function) -> Function:
    """Compile a function that only compiled code calls and that makes or returns arrays."""
    return _compile(function, no_cpython_wrapper=True, _nrt=True)


def compiled_inline(function: Function) -> Function:
    """Compile a small function into its callers."""
    return _compile(function, inline="always")


def clock() -> float:
    """Return the seconds of a clock that stops while functions are compiled, to measure methods by."""
    return time.monotonic() - compilation.seconds


class Compilation:
    """Compilation in this process of functions that no file holds yet.

    functions: how many so far; on_change: called from any thread with True when one begins, and with False
    when none is being compiled; on_note: called once with a sentence for each folder whose damaged files were
    removed, once when a function begins whose code is not kept on disk, and once when compilation has taken
    longer than a limit of time.
    """

    def __init__(self) -> None:
        self.functions = 0
        self.on_change: Callable[[bool], object] = bool
        self.on_note: Callable[[str], object] = partial(warnings.warn, stacklevel=2)
        self._unkept = ""
        self._noted: set[str] = set()
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
        self._note_unkept()
        if not self._depth:
            self._begun_s = time.monotonic()
        self._depth += 1
        self.functions += 1
        self.on_change(True)

    def leave_unkept(self, reason: str) -> None:
        """Note that functions compiled from now on cannot be cached on disk."""
        self._unkept = self._unkept or reason

    def note_damage(self, folder: Path) -> None:
        """Say once that damaged files of a folder were removed."""
        self._note(str(folder), f"compiled code in {folder} was damaged: it is compiled again")

    def note_limit(self, seconds: float, limit_s: float) -> None:
        """Say once that compilation alone has taken longer than a limit of time, if it has."""
        if seconds > limit_s:
            words = f"compiling took {seconds:.0f} s, longer than the limit of {limit_s:g} s"
            remedy = _KEEPING if self._unkept else "rramalloc warm-up"
            self._note("limit", f"{words}; later runs need not compile: {remedy}")

    def _note(self, matter: str, text: str) -> None:
        if matter not in self._noted:
            self._noted.add(matter)
            self.on_note(text)

    def _note_unkept(self) -> None:
        if self._unkept:
            words = f"every run compiles for about {self.expected_s:.0f} s, its code is not kept"
            self._note("unkept", f"{words}: {self._unkept}; {_KEEPING}")

    def check_kept(self) -> None:
        """Raise FileError if compiled functions cannot be cached on disk."""
        if self._unkept:
            raise FileError("compiled code", f"is not kept, {self._unkept}; {_KEEPING}")

    def speak_for_workers(self) -> None:
        """Warn once, on behalf of worker processes, that compiled code is not cached."""
        try:
            cache_folder(Path(__file__))
        except FileError as error:
            self.leave_unkept(str(error))
        self._note_unkept()

    def end(self) -> None:
        """Note that a function is compiled; numba writes its files next."""
        self._depth -= 1
        if not self._depth:
            self._seconds += time.monotonic() - self._begun_s
            self.on_change(False)


compilation = Compilation()


_functions: set[Any] = set()
"""All that are compiled here: those of a user may be compiled in the same process."""


def compiled_folder() -> Path:
    """Return the folder below which the code of all functions known so far is kept.

    Raises FileError where it is not kept.
    """
    _inside()
    sources = {Path(function.__code__.co_filename) for function in _functions}
    folders = []
    try:
        folders = [cache_folder(source) for source in sources | {Path(__file__)}]
    except FileError as error:
        compilation.leave_unkept(str(error))
    compilation.check_kept()
    return Path(os.path.commonpath(folders))


@cache
def _numba() -> Any:
    """Return numba, which reports to `compilation` what it compiles, if it has events where they were.

    Called under numba's lock: of two threads at once each would add a listener, and what two replace while a
    function is compiled stays replaced, as the second takes the first one's for numba's own.
    """
    import numba

    with suppress(ImportError):
        from numba.core import event

        event.register("numba:compile", _listener(event.Listener))
    return numba


@cache
def _inside() -> ModuleType | None:
    """Return the extensions of numba's inner classes; None where numba has others."""
    try:
        from rramalloc import numba_inside
    except (ImportError, AttributeError):
        compilation.leave_unkept("numba has other inner classes")
        return None
    return numba_inside


def _listener(base: Any) -> Any:
    """Return the listener that numba calls when it begins and ends to compile a function."""

    class Compiles(base):  # type: ignore[misc]
        """Under numba's lock, so that no other compilation comes between."""

        def __init__(self) -> None:
            self._scopes: list[ExitStack] = []

        def on_start(self, event: Any) -> None:
            self._scopes.append(scope := ExitStack())
            if event.data["dispatcher"].py_func not in _functions:
                return
            check_memory(_COMPILER_BYTES)
            scope.enter_context(own_settings())
            if (inside := _inside()) is not None:
                for owner, names in inside.SOONER.items():
                    scope.enter_context(replaced(owner, names))
            scope.callback(compilation.end)
            compilation.begin()
            if gc.isenabled():
                gc.disable()  # of a fifth more time: a compiler makes millions of objects that are kept
                scope.callback(gc.enable)

        def on_end(self, event: Any) -> None:
            self._scopes.pop().close()

    return Compiles()


def _compile(function: Function, **options: Any) -> Function:
    _functions.add(function)
    with own_settings():
        made: Function = _numba().njit(
            nogil=True, boundscheck=False, error_model="numpy", no_cfunc_wrapper=True, **options
        )(function)
        try:
            folder = cache_folder(Path(function.__code__.co_filename))
            if (inside := _inside()) is not None:
                made._cache = inside.Cache(function, folder, compilation.note_damage)  # type: ignore[attr-defined]
        except (FileError, RuntimeError) as error:  # RuntimeError: numba has no source file
            compilation.leave_unkept(str(error))
    return made
