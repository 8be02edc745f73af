"""Progress on stderr: one live line in a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from typing import ClassVar, Self

from rramalloc.cli.output import note
from rramalloc.compiled import compilation
from rramalloc.files import Closing
from rramalloc.progress import of_search
from rramalloc.view.width import shortened, width_of

_PATIENCE_S = 3.0  # silence after which the line says why nothing has appeared yet
_TICK_S = 0.9  # between two looks at a line that nobody changes: no second without a sign of life
_SILENCE_S = 6.0  # without a word on stderr that is no terminal, after which there is one
_NOTICED_S = 1.0  # a compilation that took longer is reported


class LiveLine(Closing):
    """A line on stderr with the progress of long work; used as a context.

    A terminal has one that changes, unless it is a dumb one.

    every_s: seconds between two lines where there is no terminal; live_every_s: between two changes of the
    line in one. All such lines share one row of the terminal.
    """

    _width = 0
    shown: ClassVar[LiveLine | None] = None
    """The one that is in use."""
    _text = "at work"

    def __init__(self, *, quiet: bool, every_s: float = 1.0, live_every_s: float = 0.0) -> None:
        self._quiet, self._live = quiet, sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._every_s = live_every_s if self._live else every_s
        self._begun = time.monotonic()
        self._shown_s: float | None = None

    @property
    def seconds(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._begun

    def __enter__(self) -> Self:
        LiveLine.shown = self
        return self

    def close(self) -> None:
        """Take the line away from a terminal."""
        LiveLine.shown = None if LiveLine.shown is self else LiveLine.shown
        if LiveLine._width:
            sys.stderr.write("\r" + " " * min(LiveLine._width, _room()) + "\r")
            sys.stderr.flush()
            LiveLine._width = 0

    def repeat(self) -> None:
        """Show the line again, with the seconds so far; where there is no terminal, after a silence."""
        if self._live or self.seconds - (self._shown_s or 0.0) >= _SILENCE_S:
            self.show(self._text)

    def show(self, text: str) -> None:
        """Replace the line in a terminal, or write another elsewhere, unless the last is too fresh."""
        now_s = self.seconds
        if self._quiet or (self._shown_s is not None and now_s - self._shown_s < self._every_s):
            return
        from rich.cells import cell_len

        self._shown_s = now_s
        self._text = text
        line = f"{text}, after {now_s:.1f} s"
        if self._live:
            line = shortened(line, _room())
            sys.stderr.write("\r" + line + " " * (min(LiveLine._width, _room()) - cell_len(line)))
            LiveLine._width = cell_len(line)
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()


class SearchLine(LiveLine):
    """Line with the best makespan and the bound of a search, or the reason why there is none yet."""

    _text = "searching"

    def __enter__(self) -> Self:
        self._patience = threading.Timer(_PATIENCE_S, self._explain)
        self._patience.daemon = True
        self._patience.start()
        return super().__enter__()

    def close(self) -> None:
        """Remove the line."""
        self._patience.cancel()
        super().close()

    def update(self, best: int, bound: int, what: str = "") -> None:
        """Show the best value and the bound; the search calls this whenever one of them improves.

        what: is searched, where several searches follow each other.
        """
        self._patience.cancel()
        self.show(f"{what}: {of_search(best, bound)}" if what else of_search(best, bound))

    def _explain(self) -> None:
        if not compilation.functions:
            note("no answer yet: a large network takes a while", quiet=self._quiet)


class Pulse(Closing):
    """Keeps a command from being silent: repeats its line, or says that it is at work; used as a context."""

    def __init__(self, *, quiet: bool) -> None:
        self._over = threading.Event()
        if not quiet:
            threading.Thread(target=self._beat, daemon=True).start()

    def close(self) -> None:
        """End it."""
        self._over.set()

    def _beat(self) -> None:
        begun_s = said_s = time.monotonic()
        while not self._over.wait(_TICK_S):
            line = LiveLine.shown
            now_s = time.monotonic()
            if line is not None:
                line.repeat()
                said_s = now_s
            elif now_s - said_s >= _SILENCE_S:
                note(f"at work, after {now_s - begun_s:.0f} s")
                said_s = now_s


def announce_compilation(*, quiet: bool) -> None:
    """Report the progress of compilation on stderr, and files of compiled code that were removed.

    quiet: say once that they are, and nothing else.
    """
    line = LiveLine(quiet=quiet, every_s=5.0, live_every_s=0.2)
    is_said = False

    def show(active: bool) -> None:
        nonlocal is_said
        if not active:
            line.close()
        elif compilation.seconds > _NOTICED_S:
            words = f"compiling once (about {compilation.expected_s:.0f} s)"
            if quiet and not is_said:  # seconds without a word look like a hang
                note(words)
            is_said = True
            line.show(f"{words}: {compilation.functions} functions")

    warnings.showwarning = lambda message, *_, **__: note(f"warning: {message}")
    compilation.on_change = show
    compilation.on_note = lambda text: note(f"note: {text}", quiet=quiet)


def _room() -> int:
    """Return the columns that a line may take and still be replaced: a full one would move the cursor on."""
    return max((width_of(sys.stderr) or 1) - 1, 1)
