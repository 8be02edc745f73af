"""Times that were taken elsewhere, from a CSV with one execution a row."""

from __future__ import annotations

import os

from rramalloc.errors import DeviceError, SpecError
from rramalloc.studies.latency.auxiliary import Run
from rramalloc.timing.latency_csv import csv_rows, number
from rramalloc.timing.latency_table import Method

_COLUMNS = ("run", "time_ns")


class ReplayDevice:
    """Hands out the times of a file; columns: run (as `rramalloc latency plan` prints it), time_ns.

    Raises FileError; SpecError with line and column; DeviceError if there is no time.
    """

    method: Method = "regression"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        where = os.fspath(path)
        self.name = f"replay of {os.path.basename(where)}"
        self._where = where
        self._times: dict[str, list[float]] = {}
        for place, row in csv_rows(where, _COLUMNS, _COLUMNS):
            time_ns = number(row, "time_ns", place)
            if time_ns < 0 or "run" not in row:
                raise SpecError(place, "needs a run and a time_ns that is not negative")
            self._times.setdefault(row["run"], []).append(time_ns)
        if not self._times:
            raise DeviceError(self.name, f"{where} has no times")

    def refusal(self, run: Run) -> str | None:
        """Runs without a time cannot be done."""
        return None if run.text in self._times else f"{self._where} has no time of it"

    def sample(self, run: Run, first: int, count: int) -> list[float]:
        """The next times of the file."""
        return self._times[run.text][first : first + count]
