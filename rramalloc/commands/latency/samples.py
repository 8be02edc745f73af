"""Samples: every measured time, on the disk before the next one is taken, and their statistics.

A file of JSON lines: what is measured on which device, then the times, a few executions of one run a line.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field, TypeAdapter

from rramalloc.choices import OverheadMethod
from rramalloc.commands.latency.plan import MeasurePlan
from rramalloc.errors import RramallocError, SpecError
from rramalloc.files import Closing, file_errors, open_alone, open_to_read, parse_json
from rramalloc.hardware.hardware import MAX_VALUE
from rramalloc.records import Record, check_format, parse

_CERTAIN = 1.959964
"""Standard deviations of a normal distribution within which 95 % lie."""
_MAD_TO_STD = 1.482602
_MEDIAN_TO_MEAN = 1.253314
_FEW = 8


class TimeSummary(NamedTuple):
    """n times in ns: their median, spread (1.4826 * median absolute deviation) and how sure the median is.

    low_ns, high_ns: 95 % confidence interval of the median, from order statistics, whatever the distribution.
    """

    n: int
    median_ns: float
    spread_ns: float
    low_ns: float
    high_ns: float

    @classmethod
    def of(cls, times_ns: Sequence[float]) -> TimeSummary:
        """Raises ValueError without any time."""
        if not times_ns:
            raise ValueError("there are no times")
        times, n = np.sort(np.asarray(times_ns, dtype=np.float64)), len(times_ns)
        median_ns = float(np.median(times))
        spread_ns = _MAD_TO_STD * float(np.median(np.abs(times - median_ns)))
        if n < _FEW:
            half_ns = _CERTAIN * _MEDIAN_TO_MEAN * spread_ns / math.sqrt(n)
            return cls(n, median_ns, spread_ns, median_ns - half_ns, median_ns + half_ns)
        below = math.floor((n - _CERTAIN * math.sqrt(n)) / 2)
        low_ns, high_ns = float(times[max(below - 1, 0)]), float(times[min(n - below, n - 1)])
        return cls(n, median_ns, spread_ns, low_ns, high_ns)

    @property
    def error_ns(self) -> float:
        """Standard error of the median."""
        return (self.high_ns - self.low_ns) / (2 * _CERTAIN)

    @property
    def width(self) -> float:
        """Width of the confidence interval relative to the median; infinite for fewer than 8 times."""
        if self.n < _FEW:
            return math.inf
        return (self.high_ns - self.low_ns) / self.median_ns if self.median_ns > 0 else 0.0


FORMAT: Literal["rramalloc-latency-samples/1"] = "rramalloc-latency-samples/1"
_HEADER_BYTES = 2**26
_LINE_BYTES = 2**20
Time = Annotated[float, Field(ge=0, le=MAX_VALUE)]


class Header(Record):
    """The first line of the file. method: how the device's overhead is best taken off."""

    format: Literal["rramalloc-latency-samples/1"] = FORMAT
    device: str
    method: OverheadMethod
    plan: MeasurePlan


class _SampleLine(Record):
    """Times of executions of one run, in ns; run: its place in the plan."""

    run: Annotated[int, Field(ge=0)]
    times_ns: list[Time]


_HEADERS: TypeAdapter[Header] = TypeAdapter(Header)
_LINES: TypeAdapter[_SampleLine] = TypeAdapter(_SampleLine)


class SampleFile(Closing):
    """The samples of one plan on one device, held for writing by one process at a time; used as a context.

    times: those of each run of the plan, in ns. A last line that was cut off when its writer was killed is
    dropped. Raises FileError; SpecError if the file holds something else.
    """

    def __init__(self, path: str | os.PathLike[str], header: Header) -> None:
        self._shown = os.fspath(path)
        self._stream = open_alone(path)
        try:
            with file_errors(self._shown):
                self._adopt(header)
        except BaseException:
            self._stream.close()
            raise

    def close(self) -> None:
        """Let other processes write."""
        with file_errors(self._shown):
            self._stream.close()

    def append(self, run: int, times_ns: list[float]) -> None:
        """Keep times of a run; they survive a crash of the machine once this returns."""
        with file_errors(self._shown):
            self._stream.write(_line({"run": run, "times_ns": times_ns}))
            self._commit()
        self.times[run].extend(times_ns)

    def _adopt(self, header: Header) -> None:
        first = _line(header.model_dump(mode="json"))
        self._stream.seek(0)
        head = self._stream.read(len(first))
        if head != first and not first.startswith(head):
            raise SpecError(
                self._shown,
                "holds samples of another network, device or auxiliary layer, or something else: name "
                "another file",
            )
        self.times: list[list[float]] = [[] for _ in header.plan.runs]
        if len(head) < len(first):
            self._stream.truncate(0)
            self._stream.write(first)
        else:
            good = len(first)
            for run, times_ns, end in _lines(self._shown, header):
                self.times[run].extend(times_ns)
                good = end
            self._stream.truncate(good)
        self._commit()

    def _commit(self) -> None:
        """Return once everything is on the disk."""
        self._stream.flush()
        os.fsync(self._stream.fileno())


def read_samples(path: str | os.PathLike[str]) -> tuple[Header, list[list[float]]]:
    """What a samples file says, as far as it was written. Raises FileError, SpecError."""
    where = os.fspath(path)
    with open_to_read(path) as stream:
        first = stream.readline(_HEADER_BYTES)
    try:
        text = first.decode()
    except UnicodeDecodeError:
        text = ""
    document = parse_json(text, where) if first.endswith(b"\n") and text else None
    check_format(document, FORMAT, where, " in the first line")
    header = parse(_HEADERS, document, where)
    times: list[list[float]] = [[] for _ in header.plan.runs]
    for run, times_ns, _ in _lines(where, header):
        times[run].extend(times_ns)
    return header, times


def _lines(where: str, header: Header) -> Iterator[tuple[int, list[float], int]]:
    """Run, times and end of every whole line behind the first; what a killed writer left ends them."""
    with open_to_read(where) as stream:
        end = len(stream.readline(_HEADER_BYTES))
        while line := stream.readline(_LINE_BYTES):
            end += len(line)
            sample = _parsed(line, where)
            if sample is None or sample.run >= len(header.plan.runs):
                if stream.readline(1):
                    raise SpecError(
                        where, f"byte {end - len(line)}: is no line of samples; the file is damaged"
                    )
                return
            yield sample.run, sample.times_ns, end


def _parsed(line: bytes, where: str) -> _SampleLine | None:
    try:
        return parse(_LINES, json.loads(line), where) if line.endswith(b"\n") else None
    except (ValueError, RramallocError, RecursionError):
        return None


def _line(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"
