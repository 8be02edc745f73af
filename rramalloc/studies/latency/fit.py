"""`latency fit`: from times of runs to the overhead of the device and the latency of each layer.

Source: docs/sources/companions.md 4.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.errors import DeviceError, SpecError
from rramalloc.records import brief
from rramalloc.studies.latency.plan import TimedRun
from rramalloc.studies.latency.samples import Header, TimeSummary, read_samples
from rramalloc.timing.latency_table import DATE, LatencyRow, LatencyTable, Method, Overhead
from rramalloc.timing.measured_layer import MeasuredLayer

WIDEST = 0.1
"""Relative width of a confidence interval above which a median is called unsteady."""
_SIGMAS = 2.0
_RANK_TOLERANCE = 1e-9
_UNKNOWNS = 3


class RunSummary(NamedTuple):
    """A run and its times."""

    run: TimedRun
    summary: TimeSummary


@dataclass(frozen=True, eq=False)
class Fit:
    """Least squares of median = a * input_bytes + b * output_bytes + c, every run weighted by 1 / median.

    covariance: float64 of shape (3, 3), of (a, b, c).
    """

    overhead: Overhead
    covariance: npt.NDArray[np.float64]

    def error_ns(self, run: TimedRun) -> float:
        """Standard error of the overhead of a run."""
        at = np.array([run.input_bytes, run.output_bytes, 1.0])
        return float(np.sqrt(max(0.0, at @ self.covariance @ at)))


def fit_latency(
    samples: str | os.PathLike[str], *, method: Method | None = None, date: str | None = None
) -> LatencyTable:
    """The latency table of a samples file.

    method: "regression" takes the fitted overhead off, "subtract" the time of the auxiliary layer alone;
    None: as the device asks; date: YYYY-MM-DD, put into every row.
    Raises DeviceError if the times do not determine the latencies, FileError, SpecError.
    """
    check_date(date)
    header, times = read_samples(samples)
    timed = [
        RunSummary(run, TimeSummary.of(times_ns))
        for run, times_ns in zip(header.plan.runs, times, strict=True)
        if times_ns
    ]
    return table_of(header, timed, method or header.method, date)


def check_date(date: str | None) -> None:
    """Fail before long work if a date is none. Raises SpecError."""
    if date is not None and re.fullmatch(DATE, date) is None:
        raise SpecError("date", f"must be YYYY-MM-DD, got {brief(date)}")


def table_of(
    header: Header, timed: Sequence[RunSummary], method: Method, date: str | None = None
) -> LatencyTable:
    """The latencies of all layers that were timed. Raises DeviceError."""
    alone = [item for item in timed if item.run.kind == "auxiliary"]
    fit, trouble = fit_overhead(alone)
    if fit is None and method == "regression":
        raise DeviceError(header.device, f"{trouble}; time more of the plan, or use --method subtract")
    by_auxiliary = {item.run.auxiliary.text: item for item in alone if item.run.auxiliary is not None}
    rows, warnings = [], [] if fit is None else _doubts(fit.overhead)
    for item in timed:
        layer = item.run.layer
        if layer is None:
            continue
        outside = _outside(item, method, fit, by_auxiliary)
        if outside is None:
            warnings.append(f"{layer.text}: left out, its auxiliary layer alone was not timed")
            continue
        rows.append(_row(layer, item.summary, outside, device=header.device, method=method, date=date))
    if not rows:
        raise DeviceError(header.device, "no layer was timed yet: go on with `rramalloc latency measure`")
    overhead = None if fit is None else fit.overhead
    return LatencyTable(overhead=overhead, rows=tuple(rows), warnings=tuple(warnings))


def fit_overhead(alone: Sequence[RunSummary]) -> tuple[Fit | None, str]:
    """The overhead that auxiliary layers alone show; None and why if they do not determine it."""
    if len(alone) <= _UNKNOWNS:
        return None, f"{len(alone)} auxiliary layers alone were timed, {_UNKNOWNS + 1} are needed"
    unknowns = np.array([[item.run.input_bytes, item.run.output_bytes, 1.0] for item in alone])
    medians = np.array([item.summary.median_ns for item in alone])
    if (medians <= 0).any():
        return None, "an auxiliary layer takes no time at all"
    scale = unknowns.max(axis=0)
    weighted, ones = unknowns / scale / medians[:, None], np.ones(len(alone))
    if np.linalg.matrix_rank(unknowns / scale, tol=_RANK_TOLERANCE) < _UNKNOWNS:
        return None, "the input and output sizes of the auxiliary layers do not vary apart from each other"
    solution, *_ = np.linalg.lstsq(weighted, ones, rcond=None)
    residual = weighted @ solution - ones
    variance = float(residual @ residual) / (len(alone) - _UNKNOWNS)
    covariance = variance * np.linalg.inv(weighted.T @ weighted) / np.outer(scale, scale)
    a, b, c = (solution / scale).tolist()
    left = medians - unknowns @ (solution / scale)
    around = medians - medians.mean()
    total = float(around @ around)
    r2 = 1.0 - float(left @ left) / total if total > 0 else 1.0
    return Fit(Overhead(a_ns_per_byte=a, b_ns_per_byte=b, c_ns=c, r2=r2, runs=len(alone)), covariance), ""


def _outside(
    item: RunSummary, method: Method, fit: Fit | None, alone: dict[str, RunSummary]
) -> tuple[float, float] | None:
    """Time outside the layer and its standard error; None if it was not measured."""
    if method == "regression" and fit is not None:
        return fit.overhead.ns(item.run.input_bytes, item.run.output_bytes), fit.error_ns(item.run)
    if item.run.auxiliary is None:
        return 0.0, 0.0
    timed_alone = alone.get(item.run.auxiliary.text)
    return None if timed_alone is None else (timed_alone.summary.median_ns, timed_alone.summary.error_ns)


def _row(
    layer: MeasuredLayer,
    summary: TimeSummary,
    outside: tuple[float, float],
    *,
    device: str,
    method: Method,
    date: str | None,
) -> LatencyRow:
    latency_ns = summary.median_ns - outside[0]
    noise_ns = float(np.hypot(summary.error_ns, outside[1]))
    flags = {
        "below_noise": latency_ns < _SIGMAS * noise_ns,
        "negative": latency_ns < 0,
        "unsteady": summary.width > WIDEST,
    }
    fields: dict[str, Any] = {
        "latency_ns": latency_ns,
        "spread_ns": summary.spread_ns,
        "noise_ns": noise_ns,
        "n": summary.n,
        "median_ns": summary.median_ns,
        "device": device,
        "method": method,
        "date": date,
        "flags": tuple(flag for flag, holds in flags.items() if holds),
    }
    return LatencyRow(**layer.model_dump(), **fields)


def _doubts(overhead: Overhead) -> list[str]:
    values = {"a": overhead.a_ns_per_byte, "b": overhead.b_ns_per_byte, "c": overhead.c_ns}
    return [
        f"overhead: {name} = {value:.4g} is negative, so the model does not describe this device well"
        for name, value in values.items()
        if value < 0
    ]
