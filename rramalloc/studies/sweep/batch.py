"""Batches: points go to workers a few at a time, as plain JSON values that need no file on the other side."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rramalloc.errors import WorkerError
from rramalloc.studies.sweep.grid import Grid
from rramalloc.studies.sweep.point import Point
from rramalloc.studies.sweep.row import Row, asked, failed
from rramalloc.studies.sweep.sources import NetworkText, Sources
from rramalloc.version import __version__

BATCH_S = 0.25
"""How long a batch should take: long enough to make its journey worth it, short enough to lose."""
_LONGEST_S = 1.0
_MOST_POINTS = 512
_DEATHS = 3

Document = dict[str, Any]
"""A batch on its way: version, points, and the networks and hardware they refer to."""
Finished = list[tuple[int, dict[str, Any]]]
"""Number of a point in the grid, and its row."""


def run_batch(document: Document) -> Document:
    """Compute the points of a batch, in a worker: {"rows": [[number, row], ...], "seconds"}.

    It ends early, with at least one row, when it takes long; the rest is handed out again. A worker that
    cannot compute at all says so, {"fault": ...}, for no exception can be trusted to survive the journey.
    """
    try:
        if document["version"] != __version__:
            return {"fault": f"has rramalloc {__version__}, the driver has {document['version']}"}
        return _rows(document)
    except Exception as error:  # noqa: BLE001 - told to the driver
        return {"fault": f"cannot compute: {type(error).__name__}: {str(error)[:200]}"}


def _rows(document: Document) -> Document:
    from rramalloc.studies.sweep.compute import row_of

    networks = {place: NetworkText(*source) for place, source in document["networks"].items()}
    begun, rows = time.perf_counter(), []
    for number, *values in document["points"]:
        point = Point(*values)
        row = row_of(point, networks[str(point.network)], document["hardware"][str(point.hardware)])
        rows.append([number, row.model_dump()])
        if time.perf_counter() - begun > _LONGEST_S:
            break
    return {"rows": rows, "seconds": time.perf_counter() - begun}


@dataclass(slots=True)
class Batches:
    """Hands out the points that are missing, each until its row is there.

    missing: their numbers in rising order. The number of points in a batch follows the time they take; no row
    depends on it.
    """

    grid: Grid
    sources: Sources
    missing: Iterator[int]
    _again: deque[int] = field(default_factory=deque)
    _alone: deque[int] = field(default_factory=deque)
    _deaths: dict[int, int] = field(default_factory=dict)
    _points: int = 1
    _seconds_each: float = 0.0

    def take(self) -> list[int]:
        """Numbers of the next points to compute, none if all are handed out."""
        if self._alone:
            return [self._alone.popleft()]
        taken: list[int] = []
        while len(taken) < self._points:
            number = self._again.popleft() if self._again else next(self.missing, None)
            if number is None:
                break
            taken.append(number)
        return taken

    @property
    def suspect(self) -> bool:
        """Whether the next point to be handed out is one whose worker has died."""
        return bool(self._alone)

    @property
    def ended(self) -> bool:
        """Whether there is nothing to hand out; what is handed out may still come back."""
        if not self._alone and not self._again:
            number = next(self.missing, None)
            self._again.extend([] if number is None else [number])
        return not self._alone and not self._again

    def document(self, numbers: list[int]) -> Document:
        """The batch of these points as it travels."""
        points = [(number, self.grid.point(number)) for number in numbers]
        networks = sorted({point.network for _, point in points})
        machines = sorted({point.hardware for _, point in points})
        return {
            "version": __version__,
            "networks": {str(place): list(self.sources.networks[place]) for place in networks},
            "hardware": {str(place): self.sources.hardware[place] for place in machines},
            "points": [[number, *point] for number, point in points],
        }

    def finished(self, numbers: list[int], answer: Document) -> Finished:
        """The rows of a batch; points it did not get to are handed out again. Raises WorkerError."""
        if "fault" in answer:
            raise WorkerError(f"a worker {answer['fault']}: install the same rramalloc everywhere")
        rows: Finished = [(number, row) for number, row in answer["rows"]]
        self._again.extend(numbers[len(rows) :])
        self._learn(len(rows), answer["seconds"])
        return rows

    def lost(self, numbers: list[int], *, for_good: bool = False) -> Finished:
        """A worker died over a batch: its points are tried alone. A point that is alone when that happens
        time and again becomes a row with that error, at once if it was tried again already (for_good).
        """
        if len(numbers) > 1:
            self._alone.extend(numbers)
            return []
        number = numbers[0]
        self._deaths[number] = self._deaths.get(number, 0) + 1
        if self._deaths[number] < _DEATHS and not for_good:
            self._alone.append(number)
            return []
        return [(number, self._dead(number).model_dump())]

    def _dead(self, number: int) -> Row:
        point = self.grid.point(number)
        told = asked(point, self.sources.networks[point.network], self.sources.hardware[point.hardware])
        return failed(told, WorkerError("every worker that tried this point died: was its memory enough?"))

    def _learn(self, points: int, seconds: float) -> None:
        """Next batches are sized by what points took of late, at most twice as large as this one."""
        each = seconds / points
        self._seconds_each = each if not self._seconds_each else 0.7 * self._seconds_each + 0.3 * each
        wanted = int(BATCH_S / max(self._seconds_each, 1e-9))
        self._points = max(1, min(wanted, 2 * self._points, _MOST_POINTS))
