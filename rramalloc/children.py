"""Child processes of this Python. None looks for modules in the working folder, where anybody's may lie.

Python puts that folder first on the path of `-c` and `-m`, as which `multiprocessing` starts its processes.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

from rramalloc.errors import WorkerError

_P = ParamSpec("_P")
_T = TypeVar("_T")
_SAFE_PATH = "PYTHONSAFEPATH"  # -P in words that processes of `multiprocessing` inherit
_start = threading.Lock()


def python_command(*arguments: str) -> list[str]:
    """Return the command of a new Python process with these arguments."""
    return [sys.executable, "-P", *arguments]


def python_words(*arguments: str) -> str:
    """Return `python_command` as a user types it."""
    return shlex.join(python_command(*arguments))


class ProcessPool(ProcessPoolExecutor):
    """Processes that import what they run; `begin` is called in each. Raises WorkerError."""

    def __init__(self, processes: int, begin: Callable[..., object], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
        with _starting():  # which starts the process that keeps the semaphores
            super().__init__(processes, context, begin, arguments)

    def submit(self, function: Callable[_P, _T], /, *arguments: _P.args, **options: _P.kwargs) -> Future[_T]:
        """Make the next process that is free call a function; one may start for it."""
        with _starting():
            return super().submit(function, *arguments, **options)


@contextlib.contextmanager
def _starting() -> Iterator[None]:
    """Make processes that start meanwhile safe: from the working folder, Ctrl-C, and the main module.

    Ctrl-C is left to this process. A script that calls `sweep` outside of `if __name__ == "__main__"` would
    start sweeps in its workers.
    """
    if sys.flags.ignore_environment and not sys.flags.safe_path:
        words = "python -E starts workers that run modules of the working folder: start it with -I, or -P too"
        raise WorkerError(words)
    with _start:
        main, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
        before = os.environ.get(_SAFE_PATH)
        os.environ[_SAFE_PATH] = "1"
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # which a process inherits
        try:
            yield
        finally:
            sys.modules["__main__"] = main
            os.environ.pop(_SAFE_PATH)
            if before is not None:
                os.environ[_SAFE_PATH] = before
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
