"""How far a sweep is and how long it will take: told while it runs, and kept for `--status`."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from rramalloc.errors import FileError
from rramalloc.files import parse_json, read_text, write_text
from rramalloc.studies.sweep import parts
from rramalloc.studies.sweep.adopt import JOURNAL, PROGRESS, owner, read_document
from rramalloc.studies.sweep.document import SweepStatus, parse_document
from rramalloc.studies.sweep.journal import Line, read_rows

_KEEP_EVERY_S = 1.0
_LIMIT_BYTES = 10_000


class SweepProgress(NamedTuple):
    """Points of the sweep, those with a row, those that failed; and the rate and time left of this call."""

    points: int
    done: int
    failed: int
    points_per_s: float | None
    left_s: float | None


OnProgress = Callable[[SweepProgress], None]


@dataclass(slots=True)
class Clock:
    """Measures one call: its rate is what it computed in the time it took, rows found do not count."""

    folder: str
    points: int
    found: int
    on_progress: OnProgress | None
    _begun_s: float = field(default_factory=time.monotonic)
    _kept_s: float = -_KEEP_EVERY_S

    def tell(self, done: int, failed: int) -> None:
        """Tell the caller how far it is, and once a second the folder."""
        seconds, computed = time.monotonic() - self._begun_s, done - self.found
        if time.monotonic() - self._kept_s >= _KEEP_EVERY_S:
            self._kept_s = time.monotonic()
            kept = json.dumps({"computed": computed, "seconds": seconds})
            write_text(os.path.join(self.folder, PROGRESS), kept + "\n")
        if self.on_progress is not None:
            self.on_progress(
                SweepProgress(self.points, done, failed, *_rate(computed, seconds, self.points - done))
            )


def sweep_status(folder: str | os.PathLike[str]) -> SweepStatus:
    """How far the sweep in a folder is, running, stopped or done. Raises FileError, SpecError."""
    shown = os.fspath(folder)
    text = read_document(shown)
    if text is None:
        raise FileError(shown, "holds no sweep yet: start it with this folder first")
    document = parse_document(text, shown)
    size = parts.rows_of_a_part(document.points)
    journal = os.path.join(shown, JOURNAL)
    lines = {line.number: line.failed for line in _lines(journal, owner(text))}
    found = parts.find_parts(shown)  # after the journal: rows that move meanwhile are seen twice, not never
    waiting = {number: failed for number, failed in lines.items() if number // size not in found}
    done = sum(min(size, document.points - part * size) for part in found) + len(waiting)
    failed = sum(parts.count_failed(path) for path in found.values()) + sum(waiting.values())
    per_s, left_s = _kept_rate(shown, document.points - done)
    return SweepStatus(
        name=document.spec.name,
        points=document.points,
        done=done,
        failed=failed,
        points_per_s=per_s,
        left_s=left_s,
    )


def _lines(journal: str, of: str) -> Iterator[Line]:
    """Lines of the journal, none if the sweep has just ended and taken it away."""
    if os.path.exists(journal):
        with contextlib.suppress(FileError):
            yield from (line for line, _ in read_rows(journal, of))


def _kept_rate(folder: str, left: int) -> tuple[float | None, float | None]:
    """Points per second of the last call, and the time that the points left will take."""
    path = os.path.join(folder, PROGRESS)
    try:
        kept = parse_json(read_text(path, _LIMIT_BYTES), path)
        return _rate(kept["computed"], kept["seconds"], left)
    except (FileError, KeyError, TypeError):
        return None, None


def _rate(computed: int, seconds: float, left: int) -> tuple[float | None, float | None]:
    if computed <= 0 or seconds <= 0:
        return None, None
    return computed / seconds, left * seconds / computed
