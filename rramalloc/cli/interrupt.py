"""Ctrl-C: the first one ends long work with the best result so far, the second one ends the program."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from rramalloc.cli import EXIT_INTERRUPTED
from rramalloc.cli.live_line import LiveLine
from rramalloc.cli.output import note

if TYPE_CHECKING:
    from rramalloc.search.work import CancelToken, Work


@contextmanager
def interruptible(work: Work | CancelToken) -> Iterator[None]:
    """Make the first Ctrl-C set `work.interrupted` and the second raise KeyboardInterrupt while
    this lasts."""

    def ask(number: int, frame: object) -> None:  # noqa: ARG001
        if work.interrupted:
            raise KeyboardInterrupt
        work.interrupted = True

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def end(
    work: Work | CancelToken,
    line: LiveLine,
    *,
    shown: str = "this is the best found so far",
    also: str = "",
    quiet: bool,
) -> None:
    """Report the duration of the work and, if it was interrupted, what is shown; set the exit code."""
    note(f"done in {line.seconds:.2f} s{also}", quiet=quiet)
    if work.interrupted:
        note(f"interrupted: {shown}")
        raise typer.Exit(EXIT_INTERRUPTED)
