"""Progress of a search on stderr: one live line in a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType

_EVERY_S = 1.0
_PATIENCE_S = 3.0


class LiveLine:
    """A line on stderr that says how far long work is; used as a context."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet, self._live = quiet, sys.stderr.isatty()
        self._begun = time.monotonic()
        self._shown_s = -_EVERY_S
        self._width = 0

    def __enter__(self) -> LiveLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()

    def show(self, text: str) -> None:
        """Replace the line in a terminal; elsewhere a new line, not more often than every second."""
        now_s = time.monotonic() - self._begun
        if self._quiet or (not self._live and now_s - self._shown_s < _EVERY_S):
            return
        self._shown_s = now_s
        line = f"{text}, after {now_s:.1f} s"
        if self._live:
            sys.stderr.write("\r" + line.ljust(self._width))
            self._width = max(self._width, len(line))
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()


class SearchProgress:
    """Shows the best makespan and the bound while a search runs; used as a context."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._live = sys.stderr.isatty()
        self._begun = time.monotonic()
        self._shown_s = -_EVERY_S
        self._width = 0
        self._patience = threading.Timer(_PATIENCE_S, self._explain)

    def __enter__(self) -> SearchProgress:
        self._patience.daemon = True
        self._patience.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._patience.cancel()
        if self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()

    def update(self, best: int, bound: int) -> None:
        """Called by the search whenever best or bound improves."""
        self._patience.cancel()
        now_s = time.monotonic() - self._begun
        if self._quiet or (not self._live and now_s - self._shown_s < _EVERY_S):
            return
        self._shown_s = now_s
        line = f"best {best} steps, bound {bound} (gap {(best - bound) / best:.1%}) after {now_s:.1f} s"
        if self._live:
            sys.stderr.write("\r" + line.ljust(self._width))
            self._width = max(self._width, len(line))
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()

    def _explain(self) -> None:
        if not self._quiet:
            sys.stderr.write("no answer yet: a first run compiles for about 20 s, a large network longer\n")
            sys.stderr.flush()
