"""`latency fit`: from times of runs to the overhead of the device and the latency of each layer.

Source: docs/sources/companions.md 4.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.choices import OverheadMethod
from rramalloc.commands.latency.plan import Header, TimedRun, TimeSummary, read_samples
from rramalloc.errors import DeviceError, SpecError
from rramalloc.records import brief
from rramalloc.timing.latency_table import DATE, Flag, LatencyRow, LatencyTable, Overhead
from rramalloc.timing.measured_layer import MeasuredLayer
from rramalloc.units import counted, duration, rounded

WIDEST = 0.1  # relative width of a confidence interval above which a median is called unsteady
_SIGMAS = 2.0  # standard errors below which a latency is not told from noise
_REMEDY = "time more of the plan, or use --method subtract"
_APART = 0.1  # relative distance of two corrections above which they are said to disagree
_RANK_TOLERANCE = 1e-9  # of columns scaled to 1; rounding is far below, any spread of sizes far above
_UNKNOWNS = 3  # a and b per byte, and c


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
        """Return the standard error of the overhead of a run."""
        at = np.array([run.input_bytes, run.output_bytes, 1.0])
        return float(np.sqrt(max(0.0, at @ self.covariance @ at)))


def fit_latency(
    samples: str | os.PathLike[str], *, method: OverheadMethod | None = None, date: str | None = None
) -> LatencyTable:
    """Return the latency table of a samples file.

    Parameters
    ----------
    samples
        The file that `measure_latency` wrote.
    method
        "regression" takes the fitted overhead off, "subtract" the time of the auxiliary layer alone, "both"
        that time and the fitted transfer of what the layer reads beyond it; None: as the device asks.
    date
        YYYY-MM-DD, put into every row.

    Returns
    -------
    LatencyTable
        One row a layer.

    Raises
    ------
    DeviceError
        The times do not determine the latencies.
    RramallocError
        FileError, SpecError.
    """
    check_date(date)
    header, times = read_samples(samples)
    timed = [
        RunSummary(run, TimeSummary.of(times_ns))
        for run, times_ns in zip(header.plan.runs, times, strict=True)
        if times_ns
    ]
    return fitted_table(header, timed, method or header.method, date)


def check_date(date: str | None) -> None:
    """Raise SpecError before long work if a date is none."""
    if date is not None and re.fullmatch(DATE, date) is None:
        raise SpecError("date", f"must be YYYY-MM-DD, got {brief(date)}")


def fitted_table(
    header: Header, timed: Sequence[RunSummary], method: OverheadMethod, date: str | None = None
) -> LatencyTable:
    """Return the latencies of all layers that were timed. Raises DeviceError."""
    alone = [item for item in timed if item.run.kind == "auxiliary"]
    kinds = list(dict.fromkeys(_kind(item.run) for item in alone))
    fits: dict[str, Fit | None] = {}
    for kind in kinds:
        fits[kind], trouble = fit_overhead([item for item in alone if _kind(item.run) == kind])
        if fits[kind] is None and method != "subtract":
            raise DeviceError(header.device, f"{trouble}; {_REMEDY}")
    if not kinds and method != "subtract":
        raise DeviceError(header.device, f"{fit_overhead([])[1]}; {_REMEDY}")
    by_auxiliary = {item.run.auxiliary.text: item for item in alone if item.run.auxiliary is not None}
    first = next(iter(fits.values()), None)
    warnings = [] if first is None else _doubts(first.overhead)
    layers: dict[str, tuple[MeasuredLayer, list[tuple[RunSummary, Outside]]]] = {}
    for item in timed:
        layer = item.run.layer
        if layer is None:
            continue
        outside = _outside(item, fits.get(_kind(item.run), first), by_auxiliary)
        if method in outside:
            layers.setdefault(layer.text, (layer, []))[1].append((item, outside))
        else:
            warnings.append(f"{layer.text}: left out, its auxiliary layer alone was not timed")
    rows = [_row(*group, device=header.device, method=method, date=date) for group in layers.values()]
    if not rows:
        raise DeviceError(header.device, "no layer was timed yet: go on with `rramalloc latency measure`")
    warnings += _biases(rows, None if first is None else first.overhead)
    overhead = None if first is None else first.overhead
    return LatencyTable(overhead=overhead, rows=tuple(rows), warnings=tuple(warnings))


def _kind(run: TimedRun) -> str:
    """Return the kind of auxiliary layer behind a run: operator, and kernel of a convolution."""
    auxiliary = run.auxiliary
    if auxiliary is None:
        return ""
    kernel = auxiliary.parameters.get("kernel") if auxiliary.operator == "conv" else ""
    return f"{auxiliary.operator} {kernel}"


Outside = dict[OverheadMethod, tuple[float, float]]
"""Time outside a layer and its standard error, by method."""


def _outside(item: RunSummary, fit: Fit | None, alone: dict[str, RunSummary]) -> Outside:
    """Return all corrections of a run that the measurements allow.

    "both" takes off the auxiliary layer as it was timed alone, and what the fit says of the bytes that the
    layer reads beyond those of the auxiliary layer.
    """
    run = item.run
    outside = Outside()
    if fit is not None:
        outside["regression"] = (fit.overhead.ns(run.input_bytes, run.output_bytes), fit.error_ns(run))
    if run.auxiliary is None:
        outside["subtract"] = (0.0, 0.0)
        if fit is not None:
            outside["both"] = outside["regression"]
    elif run.auxiliary.text in alone:
        other = alone[run.auxiliary.text]
        outside["subtract"] = (other.summary.median_ns, other.summary.error_ns)
        if fit is not None:
            transfer_ns = fit.overhead.a_ns_per_byte * (run.input_bytes - other.run.input_bytes)
            outside["both"] = (other.summary.median_ns + transfer_ns, other.summary.error_ns)
    return outside


def fit_overhead(alone: Sequence[RunSummary]) -> tuple[Fit | None, str]:
    """Return the overhead fitted to auxiliary layers alone, or None and the reason why there is none."""
    if len(alone) <= _UNKNOWNS:
        return None, f"{len(alone)} auxiliary layers alone were timed, {_UNKNOWNS + 1} are needed"
    unknowns = np.array([[item.run.input_bytes, item.run.output_bytes, 1.0] for item in alone])
    medians = np.array([item.summary.median_ns for item in alone])
    if (medians <= 0).any():
        return None, "an auxiliary layer takes no time at all"
    scale = unknowns.max(axis=0)
    weighted = unknowns / scale / medians[:, None]
    ones = np.ones(len(alone))
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


def _row(
    layer: MeasuredLayer,
    some: Sequence[tuple[RunSummary, Outside]],
    *,
    device: str,
    method: OverheadMethod,
    date: str | None,
) -> LatencyRow:
    """Return the latency of a layer, of several kinds of auxiliary layers the mean weighted by their
    certainty."""
    first = some[0][0].summary
    values = [item.summary.median_ns - outside[method][0] for item, outside in some]
    errors = [float(np.hypot(item.summary.error_ns, outside[method][1])) for item, outside in some]
    weights = np.array([1 / max(error, 1e-9) ** 2 for error in errors])
    latency_ns = float(weights @ np.array(values) / weights.sum()) if len(some) > 1 else values[0]
    noise_ns = float(1 / np.sqrt(weights.sum())) if len(some) > 1 else errors[0]
    every = [item.summary.median_ns - ns for item, outside in some for ns, _ in outside.values()]
    is_network = some[0][0].run.kind == "network"
    flags: dict[Flag, bool] = {
        "below_noise": latency_ns < _SIGMAS * noise_ns,
        "negative": latency_ns < 0,
        "unsteady": max(item.summary.width for item, _ in some) > WIDEST,
    }
    return LatencyRow(
        **layer.model_dump(),
        latency_ns=latency_ns,
        spread_ns=first.spread_ns,
        noise_ns=noise_ns,
        n=sum(item.summary.n for item, _ in some),
        median_ns=first.median_ns,
        low_ns=None if is_network else min(every),
        high_ns=None if is_network else max(every),
        device=device,
        method=method,
        date=date,
        flags=tuple(flag for flag, holds in flags.items() if holds),
    )


def _biases(rows: Sequence[LatencyRow], overhead: Overhead | None) -> list[str]:
    """Return a warning of a bias that R^2 cannot show: auxiliary layers' own work in the cost of a byte."""
    apart = []
    for row in rows:
        width_ns = (row.high_ns or 0.0) - (row.low_ns or 0.0)
        if width_ns > max(_APART * abs(row.latency_ns), 2 * _SIGMAS * (row.noise_ns or 0.0)):
            apart.append(width_ns)
    if not apart or overhead is None:
        return []
    warning = (
        f"the corrections disagree for {counted(len(apart), 'layer')}, by up to {duration(max(apart))}: the "
        f"fit cannot tell transfer from work of the auxiliary layers in proportion to bytes, and R^2 = "
        f"{overhead.r2:.6f} does not show it; these latencies are between low_ns and high_ns"
    )
    return [warning]


def _doubts(overhead: Overhead) -> list[str]:
    values = {"a": overhead.a_ns_per_byte, "b": overhead.b_ns_per_byte, "c": overhead.c_ns}
    return [
        f"overhead: {name} = {rounded(value)} is negative, so the model does not describe this device well"
        for name, value in values.items()
        if value < 0
    ]
