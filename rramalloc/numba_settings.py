"""numba with the settings of the environment alone, for functions of this package alone.

numba also reads `.numba_config.yaml` of the working folder, whoever wrote it: when it is imported, and before
each function that it compiles. It may name a folder of compiled code, which is run as it lies there. So numba
is imported without that file, and its settings are others while it decorates, loads, compiles or keeps a
function of this package. The user's own functions in the same process keep theirs.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any

from rramalloc.errors import SpecError

_FILE = ".numba_config.yaml"
_OF_COMMANDS = "NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING"  # which the command line sets itself
_importing = threading.Lock()
_own_lock = threading.RLock()


@contextmanager
def replaced(owner: Any, values: dict[str, Any]) -> Iterator[None]:
    """Replace attributes of a module or a class while the context lasts."""
    before = {name: getattr(owner, name) for name in values}
    for name, value in values.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


@contextmanager
def own_settings() -> Iterator[None]:
    """Give numba the settings of the environment; its lock keeps other threads from compiling meanwhile.

    Raises SpecError if numba cannot be loaded with them, or does not compile.
    """
    settings = _settings() | {"CACHE_DIR": os.environ.get("NUMBA_CACHE_DIR", "")}
    from numba import config

    with compiler_lock(), replaced(config, settings):
        yield


@cache
def compiler_lock() -> Any:
    """Return numba's lock of compilation; where numba has it elsewhere, one of this package."""
    try:
        from numba.core.compiler_lock import global_compiler_lock
    except ImportError:
        return _own_lock
    return global_compiler_lock


@cache
def _settings() -> dict[str, Any]:
    """Import numba and return its settings by the environment, and that nothing is read again.

    They are those of a new copy of numba's module of settings: the first may have the file's.
    """
    try:
        with _importing, _without_file():
            from numba import config

            copy = ModuleType(config.__name__)
            config.__loader__.exec_module(copy)
    except (ValueError, Warning) as error:
        names = sorted(name for name in os.environ if name.startswith("NUMBA_") and name != _OF_COMMANDS)
        words = f"numba cannot be loaded: {str(error).splitlines()[0].rstrip('.')}"
        raise SpecError("environment", f"{words}; correct or unset {' or '.join(names)}") from None
    if vars(copy)["DISABLE_JIT"]:
        raise SpecError("NUMBA_DISABLE_JIT", "searches run as compiled code alone: unset it")
    settings = {name: value for name, value in vars(copy).items() if name.isupper()}
    return settings | {"reload_config": lambda: None}


@contextmanager
def _without_file() -> Iterator[None]:
    """Hide the file from numba, and turn its warnings about the environment into errors."""
    exists = os.path.exists
    hidden = {"exists": lambda path: path != _FILE and exists(path)}
    with replaced(os.path, hidden), warnings.catch_warnings():
        warnings.filterwarnings("error", "Environment variable 'NUMBA_")
        yield
