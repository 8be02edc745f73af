"""Progress on stderr: one live line in a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Self

_PATIENCE_S = 3.0


class LiveLine:
    """A line on stderr that says how far long work is; used as a context.

    every_s: seconds between two lines where there is no terminal; live_every_s: between two changes of the
    line in one.
    """

    def __init__(self, *, quiet: bool, every_s: float = 1.0, live_every_s: float = 0.0) -> None:
        self._quiet, self._live = quiet, sys.stderr.isatty()
        self._every_s = live_every_s if self._live else every_s
        self._begun = time.monotonic()
        self._shown_s: float | None = None
        self._width = 0

    @property
    def seconds(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._begun

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()

    def show(self, text: str) -> None:
        """Replace the line in a terminal, or write another elsewhere, unless the last is too fresh."""
        now_s = self.seconds
        if self._quiet or (self._shown_s is not None and now_s - self._shown_s < self._every_s):
            return
        self._shown_s = now_s
        line = f"{text}, after {now_s:.1f} s"
        if self._live:
            sys.stderr.write("\r" + line.ljust(self._width))
            self._width = max(self._width, len(line))
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()


class SearchLine(LiveLine):
    """The best makespan and the bound while a search runs, and why there may be none for a while."""

    def __enter__(self) -> Self:
        self._patience = threading.Timer(_PATIENCE_S, self._explain)
        self._patience.daemon = True
        self._patience.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._patience.cancel()
        super().__exit__(kind, error, trace)

    def update(self, best: int, bound: int) -> None:
        """Called by the search whenever best or bound improves."""
        self._patience.cancel()
        self.show(f"best {best} steps, bound {bound} (gap {(best - bound) / best:.1%})")

    def _explain(self) -> None:
        if not self._quiet:
            sys.stderr.write("no answer yet: a first run compiles for about 20 s, a large network longer\n")
            sys.stderr.flush()
