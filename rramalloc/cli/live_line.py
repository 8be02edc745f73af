"""Progress on stderr: one live line in a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from typing import Self

from rramalloc.cli.output import note
from rramalloc.compiled import compilation
from rramalloc.files import Closing
from rramalloc.progress import of_search
from rramalloc.view.width import shortened, width_of

_PATIENCE_S = 3.0  # silence after which the line says why nothing has appeared yet
_TICK_S = 0.9  # between two looks at a line that nobody changes: no second without a sign of life
_NOTICED_S = 1.0  # a compilation that took longer is reported


class LiveLine(Closing):
    """A line on stderr with the progress of long work; used as a context.

    A terminal has one that changes, unless it is a dumb one.

    every_s: seconds between two lines where there is no terminal; live_every_s: between two changes of the
    line in one. All such lines share one row of the terminal.
    """

    _width = 0

    _text = "searching"

    def __init__(self, *, quiet: bool, every_s: float = 1.0, live_every_s: float = 0.0) -> None:
        self._over = threading.Event()
        self._quiet, self._live = quiet, sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._every_s = live_every_s if self._live else every_s
        self._begun = time.monotonic()
        self._shown_s: float | None = None

    @property
    def seconds(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._begun

    def close(self) -> None:
        """Take the line away from a terminal."""
        if LiveLine._width:
            sys.stderr.write("\r" + " " * min(LiveLine._width, _room()) + "\r")
            sys.stderr.flush()
            LiveLine._width = 0

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

    def __enter__(self) -> Self:
        self._ticking = threading.Thread(target=self._tick, daemon=True)
        if self._live and not self._quiet:
            self._ticking.start()
        self._patience = threading.Timer(_PATIENCE_S, self._explain)
        self._patience.daemon = True
        self._patience.start()
        return self

    def close(self) -> None:
        """Remove the line, and stop counting the seconds."""
        self._patience.cancel()
        self._over.set()
        super().close()

    def _tick(self) -> None:
        """Count the seconds on in a terminal while nothing new is found."""
        while not self._over.wait(_TICK_S):
            if self._shown_s is None or self.seconds - self._shown_s >= _TICK_S:
                self.show(self._text)

    def update(self, best: int, bound: int, what: str = "") -> None:
        """Show the best value and the bound; the search calls this whenever one of them improves.

        what: is searched, where several searches follow each other.
        """
        self._patience.cancel()
        self.show(f"{what}: {of_search(best, bound)}" if what else of_search(best, bound))

    def _explain(self) -> None:
        if not compilation.functions:
            note("no answer yet: a large network takes a while", quiet=self._quiet)


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
