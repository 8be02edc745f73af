"""Progress in a notebook: one line below the cell while long work runs, removed when it is done.

Nothing is shown anywhere else, and nothing of a notebook is needed to compute.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVarTuple

from rramalloc.units import share

Reported = TypeVarTuple("Reported")
_EVERY_S = 0.2  # between two lines: often enough to be read, seldom enough to cost nothing


@contextmanager
def followed(
    given: Callable[[*Reported], None] | None, wanted: bool, words: Callable[[*Reported], str]
) -> Iterator[Callable[[*Reported], None] | None]:
    """Yield the callback of a search: the caller's own function, or a line in a notebook, or nothing.

    wanted: whether a line may be shown; words: the line, from the values that the search reports.
    """
    if given is not None or not wanted or not in_notebook():
        yield given
        return
    line = _Line()

    def show(*progress: *Reported) -> None:
        line.show(words(*progress))

    try:
        yield show
    finally:
        line.clear()


def in_notebook() -> bool:
    """Return True in the kernel of a notebook: IPython with a front end that can replace output."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return getattr(shell, "kernel", None) is not None


class _Line:
    """One output of a cell, replaced at most five times a second."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._shown_s = 0.0

    def show(self, text: str) -> None:
        """Show a text in the place of the last one, unless that is too fresh."""
        now_s = time.monotonic()
        if self._handle is None:
            from IPython.display import display

            self._handle = display({"text/plain": text}, raw=True, display_id=True)
        elif now_s - self._shown_s >= _EVERY_S:
            self._handle.update({"text/plain": text}, raw=True)
        else:
            return
        self._shown_s = now_s

    def clear(self) -> None:
        """Leave an empty output: what stays in the notebook does not depend on the machine."""
        if self._handle is not None:
            self._handle.update({"text/plain": "", "text/html": ""}, raw=True)


def of_search(best: int, bound: int) -> str:
    """Return the line of `optimize`: the search for the least makespan, whatever the objective."""
    return f"makespan {best}, bound {bound} (gap {share((best - bound) / best)})"
