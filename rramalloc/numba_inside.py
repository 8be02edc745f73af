"""Extensions of numba's inner classes: less work for its compiler, and checked files of compiled code.

numba keeps compiled code in files, and fails on a damaged one, or runs what is in it. So folders and files
are the user's own (`rramalloc.cache_folder`), and each folder also has the checksums of all files that were
written whole. A file without one, or that others can write, is removed before numba reads it, and its
function is compiled again. Checksums are only ever added: processes that compile at the same time need no
lock.

To import this module fails where numba has other classes; `rramalloc.compiled` does without it then.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from llvmlite.binding import Linkage, parse_assembly
from llvmlite.ir import Constant, GlobalVariable
from numba.core import config, ir, types
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
)
from numba.core.cgutils import voidptr_t
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.runtime import rtsys
from numba.core.typed_passes import InlineOverloads, NopythonRewrites
from numba.core.types.functions import BaseFunction
from numba.core.untyped_passes import InlineClosureLikes

from rramalloc.cache_folder import cache_folder, is_private_file
from rramalloc.numba_settings import own_settings, replaced

try:
    from numba.core.caching import InTreeCacheLocator
except ImportError:  # numba 0.61 calls it private
    from numba.core.caching import _InTreeCacheLocator as InTreeCacheLocator

CHECKSUMS = "rramalloc.sums"
_LEVEL = 1
"""Level of LLVM's optimisation, 0 ... 3: searches are as fast as with the highest."""
_THOROUGH = 3
"""The level of what is optimised thoroughly."""
THOROUGHLY: set[Any] = set()
"""Functions that are optimised thoroughly."""
_LEFT_OUT = (InlineClosureLikes, InlineOverloads, NopythonRewrites)
"""Passes that rewrite closures and expressions over whole arrays, which functions here do not have."""
_PLAIN = (types.Number, types.Boolean, type(types.none))
"""Types of which no operation depends on how a function is compiled."""
_EXTENDED = (
    CompileResultCacheImpl._locator_classes,
    BaseFunction.get_call_type,
    Compiler.compile_extra,
    Compiler.define_pipelines,
    FunctionCache._guard_against_spurious_io_errors,
    FunctionCache._load_overload,
    FunctionCache.save_overload,
    InTreeCacheLocator.ensure_cache_path,
    IndexDataCacheFile._open_for_write,
    JITCodeLibrary._finalize_final_module,
    JITCodeLibrary._get_module_for_linking,
    JITCodeLibrary._optimize_final_module,
    JITCodeLibrary._optimize_functions,
    rtsys.initialize,
)
"""Internals of numba that are overridden or called: an AttributeError says that numba has changed."""


class Library(JITCodeLibrary):  # type: ignore[misc]
    """A function optimised with all that it calls; numba also optimises each one alone before."""

    level = _LEVEL

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        level = type(config.OPT)(min(config.OPT, self.level))
        with replaced(config, {"OPT": level}):
            super()._optimize_final_module()


class CompiledPart(Library):
    """A function that only compiled code calls: its callers optimise and compile it with their own."""

    def _optimize_final_module(self) -> None:
        if self.level == _THOROUGH:  # its callers may be optimised less
            super()._optimize_final_module()

    def _finalize_final_module(self) -> None:
        whole: Any = self._final_module
        self._finalized = True
        self._get_module_for_linking()
        # All that is left to be compiled is the variable in which numba keeps the function's environment.
        rest = self._codegen._create_empty_module(self.name)
        for one in whole.global_variables:
            if one.linkage == Linkage.common:
                variable = GlobalVariable(rest, voidptr_t, one.name)
                variable.linkage = "common"
                variable.initializer = Constant(voidptr_t, None)
        self._final_module: Any = parse_assembly(str(rest))
        self._final_module.name = whole.name
        super()._finalize_final_module()


class OwnBlock(ir.Block):  # type: ignore[misc]
    """A block of a function that was read for one place of a caller: to inline it there needs no copy."""

    def __deepcopy__(self, memo: dict[int, Any]) -> OwnBlock:
        return self


@cache
def _inliner() -> Any:
    """Return numba's inliner, which reads a function anew for every place, without the two copies of each."""
    from numba.core.inline_closurecall import InlineWorker  # with half of numba that only compiling needs

    class Inliner(InlineWorker):  # type: ignore[misc]
        def run_untyped_passes(self, func: Any, enable_ssa: bool = False) -> Any:
            read = super().run_untyped_passes(func, enable_ssa)
            for block in read.blocks.values():
                block.__class__ = OwnBlock
            return read

    return Inliner


_signatures: dict[Any, tuple[Any, Any]] = {}
"""Signature of operations on numbers and elements of arrays, and the key of what implements it."""
_find_signature: Any = BaseFunction.get_call_type


def _known_signature(function: Any, context: Any, args: Any, kws: Any) -> Any:
    """Return the signature of a call; numba tries all that is known of "+", strings too, at each one."""
    if kws or not all(isinstance(each, (*_PLAIN, types.Literal, types.Array)) for each in args):
        return _find_signature(function, context, args, kws)
    question = function, args
    if question in _signatures:
        signature, function._impl_keys[signature.args] = _signatures[question]
        return signature
    signature = _find_signature(function, context, args, kws)
    if isinstance(signature.return_type, _PLAIN):
        _signatures[question] = signature, function._impl_keys[signature.args]
    return signature


class Light(Compiler):  # type: ignore[misc]
    """The steps of numba's compiler without those that nothing here needs."""

    def compile_extra(self, func: Any) -> Any:
        """Compile a function; numba's lock keeps other threads from compiling meanwhile."""
        from numba.core import inline_closurecall

        with (
            replaced(inline_closurecall, {"InlineWorker": _inliner()}),
            replaced(BaseFunction, {"get_call_type": _known_signature}),
        ):
            return super().compile_extra(func)

    def define_pipelines(self) -> list[Any]:
        """Return the steps, with a library of the function's own level."""
        state, pipelines = self.state, super().define_pipelines()
        kind = CompiledPart if state.flags.no_cpython_wrapper else Library
        state.library = kind(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.level = _THOROUGH if state.func_id.func in THOROUGHLY else _LEVEL
        state.library.enable_object_caching()
        for steps in pipelines:
            steps.passes[:] = [step for step in steps.passes if step[0] not in _LEFT_OUT]
        return pipelines  # type: ignore[no-any-return]


class Locator(InTreeCacheLocator):  # type: ignore[misc]
    """The user's own folder for the files of a function."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        super().__init__(py_func, py_file)
        self._cache_path = str(cache_folder(Path(py_file), os.environ.get("NUMBA_CACHE_DIR", "")))

    def ensure_cache_path(self) -> None:
        """Do nothing: it was made when it was chosen."""


class OwnFolder(CompileResultCacheImpl):  # type: ignore[misc]
    """As numba keeps what it compiles, in no other folder."""

    _locator_classes = (Locator,)


class OwnFiles(IndexDataCacheFile):  # type: ignore[misc]
    """The files of a function, which no other user can write, whatever the umask allows."""

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[Any]:
        number, draft = tempfile.mkstemp(".tmp", dir=self._cache_path)
        try:
            with open(number, "wb") as stream:
                yield stream
            os.replace(draft, filepath)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise


class Files(FunctionCache):  # type: ignore[misc]
    """The files of a function: with checksums, and loaded before the compiler is prepared."""

    _impl_class = OwnFolder

    def __init__(self, py_func: Any) -> None:
        super().__init__(py_func)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = OwnFiles(self._cache_path, self._impl.filename_base, stamp)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write a compiled function and its checksums."""
        with own_settings(), suppress(OSError):  # a full disk, a limit of files: compiled again next time
            super().save_overload(sig, data)
            own = Path(self.cache_path).glob(f"{self._impl.filename_base}.*")
            with open(Path(self.cache_path) / CHECKSUMS, "ab", opener=_own) as sums:
                sums.write(b"".join(_checksum(file) + b"\n" for file in own))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return a function from its file, None if there is none."""
        with own_settings(), self._guard_against_spurious_io_errors():
            rtsys.initialize(target_context)
            try:
                return self._load_overload(sig, target_context)
            except (AttributeError, ImportError):  # types of another version of this package
                self.flush()
                return None


def keep_on_disk(made: Any, on_damage: Callable[[Path], object]) -> None:
    """Load a function from its file and write it there.

    Raises FileError or RuntimeError if there is no folder that only the user can write.
    on_damage: called with a folder of which damaged files were removed.
    """
    files = Files(made.py_func)
    if _is_whole(Path(files.cache_path), on_damage):
        made._cache = files


@cache
def _is_whole(folder: Path, on_damage: Callable[[Path], object]) -> bool:
    """Remove the files of a folder that were not written whole, or that others can write.

    Returns False if they cannot be removed.
    """
    sums, known = folder / CHECKSUMS, set[bytes]()
    has_sums = is_private_file(sums)
    if has_sums:
        known = set(sums.read_bytes().split())
    files = [*folder.glob("*.nbi"), *folder.glob("*.nbc")]
    damaged = [file for file in files if not is_private_file(file) or _checksum(file) not in known]
    try:
        if not has_sums:  # of a version without checksums, or another user's
            sums.unlink(missing_ok=True)
        for file in damaged:
            file.unlink(missing_ok=True)
    except OSError:
        return False
    if damaged and has_sums:
        on_damage(folder)
    return True


def _own(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _checksum(file: Path) -> bytes:
    try:
        return blake2b(file.read_bytes(), digest_size=16).hexdigest().encode()
    except OSError:
        return b""
