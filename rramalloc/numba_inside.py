"""Extensions of numba's inner classes: checked files of compiled code, and less work for its compiler.

numba keeps compiled code in files, and fails on a damaged one, or runs what is in it. So folders and files
are the user's own (`rramalloc.cache_folder`), and every file ends with its checksum. Files without one, or
that others can write, are removed before numba reads them, and their function is compiled again.

To import this module fails where numba has other classes; `rramalloc.compiled` keeps nothing on disk then.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

from numba.core import types
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary
from numba.core.runtime import rtsys
from numba.core.types.functions import BaseFunction

from rramalloc.cache_folder import is_private_file
from rramalloc.numba_settings import own_settings

_CHECKSUM_BYTES = 16  # 128 bits: a damaged file passes with a probability of 2**-128
_PLAIN = (types.Number, types.Boolean, type(types.none))
"""Types of which no operation depends on how a function is compiled."""
_find_signature: Any = BaseFunction.get_call_type
_signatures: dict[Any, tuple[Any, Any]] = {}
"""Signature of operations on numbers and elements of arrays, and the key of what implements it."""


class CheckedFiles(IndexDataCacheFile):  # type: ignore[misc]
    """The files of a function, with checksums; no other user can write them, whatever the umask allows."""

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[Any]:
        yield (stream := io.BytesIO())
        number, draft = tempfile.mkstemp(".tmp", dir=self._cache_path)
        try:
            with open(number, "wb") as file:
                file.write(stream.getvalue() + _checksum(stream.getvalue()))
            os.replace(draft, filepath)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise


class Cache(FunctionCache):  # type: ignore[misc]
    """numba's cache of a function in a given folder, which is loaded before the compiler is prepared.

    on_damage: called with the folder when damaged files were removed.
    """

    def __init__(self, py_func: Any, folder: Path, on_damage: Callable[[Path], object]) -> None:
        super().__init__(py_func)
        self._folder = folder
        self._on_damage = on_damage
        self._cache_path = str(folder)
        self._base = f"{self._impl.filename_base}.checked"  # numba's own files have no checksum
        self._cache_file = CheckedFiles(str(folder), self._base, self._impl.locator.get_source_stamp())

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write a compiled function."""
        with own_settings(), suppress(OSError):  # a full disk, a limit of files: compiled again next time
            super().save_overload(sig, data)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return a function from its files, None if there are none or they cannot be read."""
        with own_settings(), suppress(OSError):
            self._remove_damaged()
            rtsys.initialize(target_context)
            try:
                return self._load_overload(sig, target_context)
            except (AttributeError, ImportError):  # types of another version of this package
                self.flush()
        return None

    def _remove_damaged(self) -> None:
        files = [*self._folder.glob(f"{self._base}.*")]
        if all(
            is_private_file(file)
            and (content := file.read_bytes()).endswith(_checksum(content[:-_CHECKSUM_BYTES]))
            for file in files
        ):
            return
        for file in files:
            file.unlink(missing_ok=True)
        self._on_damage(self._folder)


def _checksum(content: bytes) -> bytes:
    return blake2b(content, digest_size=_CHECKSUM_BYTES).digest()


def _known_signature(function: Any, context: Any, args: Any, kws: Any) -> Any:
    """Return the signature of a call; numba tries all that is known of "+", strings too, at each one."""
    if kws or not all(isinstance(argument, (*_PLAIN, types.Literal, types.Array)) for argument in args):
        return _find_signature(function, context, args, kws)
    if (question := (function, args)) not in _signatures:
        signature = _find_signature(function, context, args, kws)
        if not isinstance(signature.return_type, _PLAIN):
            return signature
        _signatures[question] = signature, function._impl_keys[signature.args]
    signature, function._impl_keys[signature.args] = _signatures[question]
    return signature


def _leave_to_the_end(library: Any, ll_module: Any) -> None:
    """Skip the optimisation of a single function: it is optimised later with all functions that it calls."""
    ll_module.data_layout = library._codegen._data_layout


SOONER = {
    BaseFunction: {"get_call_type": _known_signature},
    JITCodeLibrary: {"_optimize_functions": _leave_to_the_end},
}
"""Faster replacements of numba's methods for functions of this package: a first command takes 0.7 as long."""
