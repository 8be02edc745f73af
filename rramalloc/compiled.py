"""The one way functions are compiled: without Python's lock, and kept on disk for later runs where possible.

numba keeps compiled code in files beside the sources, and fails on a damaged one, or runs what is in it. So
each folder also has the checksums of all files that were written whole. A file without one is removed before
numba reads it, and its function is compiled again. Checksums are only ever added: processes that compile at
the same time need no lock.
"""

from __future__ import annotations

import gc
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

EXPECTED_S = 20
"""Seconds that the first command of a fresh installation compiles for (results/timing.md)."""
_CHECKSUMS = "rramalloc.sums"
_LEVEL, _THOROUGH = 1, 3
"""Of LLVM's levels of optimisation, 0 ... 3: for most, and for what is optimised thoroughly."""
_THOROUGHLY: set[Any] = set()
"""Functions that are optimised fully."""


def compiled(function: Function) -> Function:
    """Compile for NumPy arrays and scalars; the first call in a fresh installation takes seconds.

    For what neither makes nor returns arrays, nor calls what returns them: nothing counts who holds an array,
    so it compiles and runs faster. To make one anyway fails to compile; one that is returned to it is never
    freed.
    """
    return _compile(function, _nrt=False)


def compiled_maker(function: Function) -> Function:
    """As `compiled`, for what makes arrays or returns them."""
    return _compile(function, _nrt=True)


def compiled_part(function: Function) -> Function:
    """As `compiled`, for what only compiled code calls: without the way in from Python it compiles faster."""
    return _compile(function, no_cpython_wrapper=True, _nrt=False)


def compiled_maker_part(function: Function) -> Function:
    """As `compiled_part`, for what makes arrays or returns them."""
    return _compile(function, no_cpython_wrapper=True, _nrt=True)


def compiled_inline(function: Function) -> Function:
    """As `compiled`, for small functions that disappear into their callers."""
    return _compile(function, inline="always")


def thoroughly(function: Function) -> Function:
    """Of what one of the decorators above has made: optimise it fully, as most of the time is spent there.

    All else is optimised at a lower level: searches are as fast with it, and a fresh installation compiles
    for a fifth less time.
    """
    _THOROUGHLY.add(function.py_func)  # type: ignore[attr-defined]
    return function


def clock() -> float:
    """Seconds of a clock that stands still while functions are compiled: what limits of time count."""
    return time.monotonic() - compilation.seconds


class Compilation:
    """What this process compiles because no file holds it yet.

    functions: how many so far; on_change: called from any thread when one begins, True, and when none is
    left, False; on_damage: called with the folder of damaged files that were removed.
    """

    def __init__(self) -> None:
        self.functions = 0
        self.on_change: Callable[[bool], object] = bool
        self.on_damage: Callable[[Path], object] = _warn
        self._seconds, self._depth, self._begun_s = 0.0, 0, 0.0
        self._folders: dict[Path, _Folder] = {}

    @property
    def seconds(self) -> float:
        """Seconds spent compiling so far."""
        return self._seconds + (time.monotonic() - self._begun_s if self._depth else 0.0)

    def begin(self) -> None:
        """A function is compiled now, perhaps within another: numba lets one thread at a time in."""
        if not self._depth:
            self._begun_s = time.monotonic()
        self._depth += 1
        self.functions += 1
        self.on_change(True)

    def end(self) -> None:
        """A function is compiled; numba writes its files next."""
        self._depth -= 1
        if not self._depth:
            self._seconds += time.monotonic() - self._begun_s
            self.on_change(False)

    def written(self, path: Path) -> None:
        """Keep the checksums of the files that numba has written to a folder since the last call."""
        self._folders[path].add_new()

    def check(self, path: Path) -> bool:
        """Remove damaged files from a folder of compiled code; False if they cannot be removed."""
        if path not in self._folders:
            self._folders[path] = folder = _Folder(path)
            if folder.damaged:
                self.on_damage(path)
        return self._folders[path].usable


class _Folder:
    """The files of compiled code in a folder, and the checksums of those that were written whole."""

    def __init__(self, path: Path) -> None:
        self._sums = path / _CHECKSUMS
        self._path = path
        self._seen: dict[Path, tuple[int, int]] = {}
        self.damaged, self.usable = False, True
        try:
            whole: set[bytes] | None = set(self._sums.read_bytes().split())
        except OSError:
            whole = None
        for file in self._files():
            if whole is not None and _checksum(file) in whole:
                self._seen[file] = _state(file)
                continue
            self.damaged = whole is not None
            try:
                file.unlink(missing_ok=True)
            except OSError:
                self.usable = False

    def _files(self) -> list[Path]:
        return [file for suffix in ("nbi", "nbc") for file in self._path.glob(f"*.{suffix}")]

    def add_new(self) -> None:
        """Add the checksums of the files that were not there, or different."""
        new = {file: _state(file) for file in self._files() if _state(file) != self._seen.get(file)}
        self._seen |= new
        if new:
            with suppress(OSError), self._sums.open("ab") as sums:  # else they are compiled again next time
                sums.write(b"".join(_checksum(file) + b"\n" for file in new))


def _checksum(file: Path) -> bytes:
    try:
        return blake2b(file.read_bytes(), digest_size=16).hexdigest().encode()
    except OSError:
        return b""


def _state(file: Path) -> tuple[int, int]:
    try:
        status = file.stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


def _warn(folder: Path) -> None:
    warnings.warn(f"compiled code in {folder} is damaged: it is compiled again", stacklevel=2)


compilation = Compilation()


@cache
def _numba() -> Any:
    """numba, which reports to `compilation` what it compiles."""
    import numba
    from numba.core import event

    class Compiles(event.Listener):  # type: ignore[misc]
        """Under numba's lock, so that no other compilation comes between."""

        def __init__(self) -> None:
            self._collects: list[bool] = []

        def on_start(self, event: Any) -> None:
            compilation.begin()
            self._collects.append(gc.isenabled())
            gc.disable()  # of a fifth more time: a compiler makes millions of objects that are kept

        def on_end(self, event: Any) -> None:
            if self._collects.pop():
                gc.enable()
            compilation.end()

    event.register("numba:compile", Compiles())
    return numba


@cache
def _compiler() -> Any:
    """The steps of numba's compiler that functions made here need.

    None of them has a closure or an expression over whole arrays, which the steps left out rewrite.
    """
    from numba.core.compiler import Compiler

    class Light(Compiler):  # type: ignore[misc]
        def define_pipelines(self) -> list[Any]:
            from numba.core.typed_passes import InlineOverloads, NopythonRewrites
            from numba.core.untyped_passes import InlineClosureLikes

            state, pipelines = self.state, super().define_pipelines()
            state.library = _library_of()(state.targetctx.codegen(), state.func_id.func_qualname)
            state.library.level = _THOROUGH if state.func_id.func in _THOROUGHLY else _LEVEL
            state.library.enable_object_caching()
            for steps in pipelines:
                left_out = (InlineClosureLikes, InlineOverloads, NopythonRewrites)
                steps.passes[:] = [step for step in steps.passes if step[0] not in left_out]
            return pipelines  # type: ignore[no-any-return]

    return Light


@cache
def _library_of() -> Any:
    """The class of a function in LLVM's form, optimised with all that it calls, at a level of its own.

    numba's own optimises each function alone before.
    """
    from numba.core import config
    from numba.core.codegen import JITCodeLibrary

    class Library(JITCodeLibrary):  # type: ignore[misc]
        level = _LEVEL

        def _optimize_functions(self, ll_module: Any) -> None:
            ll_module.data_layout = self._codegen._data_layout

        def _optimize_final_module(self) -> None:
            highest = config.OPT
            config.OPT = type(highest)(min(highest, self.level))
            try:
                super()._optimize_final_module()
            finally:
                config.OPT = highest

    return Library


@cache
def _files_of() -> Any:
    """The class of the files of a function, which tells `compilation` of those it writes.

    numba's own prepares the compiler before it loads one, which takes longer than all that is loaded; what
    has to be compiled after all prepares it then.
    """
    from numba.core.caching import FunctionCache
    from numba.core.runtime import rtsys

    class Files(FunctionCache):  # type: ignore[misc]
        def save_overload(self, sig: Any, data: Any) -> None:
            with suppress(OSError):  # a full disk, a limit of files: it is compiled again next time
                super().save_overload(sig, data)
                compilation.written(Path(self.cache_path))

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            rtsys.initialize(target_context)
            with self._guard_against_spurious_io_errors():
                try:
                    return self._load_overload(sig, target_context)
                except (AttributeError, ImportError):  # types of another version of this package
                    self.flush()
                    return None

    return Files


def _compile(function: Function, **more: Any) -> Function:
    settings = {
        "nogil": True, "boundscheck": False, "error_model": "numpy", "no_cfunc_wrapper": True,
        "pipeline_class": _compiler(),
    } | more  # fmt: skip
    made = _numba().njit(**settings)(function)
    with suppress(RuntimeError):  # neither the package's folder nor the user's cache can be written
        files = _files_of()(function)
        if compilation.check(Path(files.cache_path)):
            made._cache = files
    return made  # type: ignore[no-any-return]
