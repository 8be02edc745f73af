"""The end of long work, also of work that Ctrl-C ended with the best result so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from rramalloc.cli import EXIT_INTERRUPTED
from rramalloc.cli.live_line import LiveLine
from rramalloc.cli.output import note

if TYPE_CHECKING:
    from rramalloc.search.work import CancelToken, Work


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
