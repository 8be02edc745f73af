"""Ctrl-C: the first one ends long work with what it has, the second one ends the program."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class _Work(Protocol):
    """Work that looks at `interrupted` and ends early once it is set."""

    interrupted: bool


@contextmanager
def interruptible(work: _Work) -> Iterator[None]:
    """While this lasts, the first Ctrl-C sets `work.interrupted` and the second raises KeyboardInterrupt."""

    def ask(number: int, frame: object) -> None:  # noqa: ARG001
        if work.interrupted:
            raise KeyboardInterrupt
        work.interrupted = True

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
