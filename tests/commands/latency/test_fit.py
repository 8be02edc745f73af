"""The fit of overhead and latencies: by hand, and against a device whose truth is known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from commands.latency.small import NETWORK

import rramalloc
from rramalloc.choices import AUXILIARY_LAYERS, AuxiliaryLayer, OverheadMethod
from rramalloc.commands.latency.device import Settings, SimulatedDevice
from rramalloc.commands.latency.fit import RunSummary, fit_latency, fit_overhead, fitted_table
from rramalloc.commands.latency.measure import Repetition, measure_latency
from rramalloc.commands.latency.plan import (
    Header,
    MeasurePlan,
    TimedRun,
    TimeSummary,
    auxiliary_run,
    layer_run,
)
from rramalloc.errors import DeviceError
from rramalloc.network.network import Network
from rramalloc.timing.latency_table import LatencyTable
from rramalloc.timing.measured_layer import MeasuredLayer

LAYER = {"operator", "shape", "parameters"}
METHODS: tuple[OverheadMethod, ...] = ("regression", "subtract", "both")
RELU = MeasuredLayer(operator="relu", shape=(4, 8, 8), parameters={})


def timed(run: TimedRun, *times_ns: float) -> RunSummary:
    return RunSummary(run, TimeSummary.of(times_ns))


def pool(channels: int, extent: int, kernel: int) -> TimedRun:
    parameters = {"kernel": kernel, "stride": kernel}
    shape = (channels, extent, extent)
    return auxiliary_run(MeasuredLayer(operator="avgpool", shape=shape, parameters=parameters))


def exact(a: float, b: float, c: float) -> list[RunSummary]:
    """Bytes in and out: 256 and 256, 256 and 64, 1024 and 64, 4096 and 4096."""
    runs = (pool(4, 4, 1), pool(4, 4, 2), pool(4, 8, 4), pool(16, 8, 1))
    return [timed(run, a * run.input_bytes + b * run.output_bytes + c) for run in runs]


def header() -> Header:
    return Header(device="hand", method="regression", plan=MeasurePlan.of(NETWORK, "avgpool"))


def test_exact_times_give_exact_overhead() -> None:
    fit, _ = fit_overhead(exact(0.5, 2.0, 1000.0))
    assert fit is not None
    overhead = fit.overhead
    found = (overhead.a_ns_per_byte, overhead.b_ns_per_byte, overhead.c_ns, overhead.r2, overhead.runs)
    assert found == pytest.approx((0.5, 2.0, 1000.0, 1.0, 4))


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        (exact(1, 1, 1)[:3], "3 auxiliary layers alone"),
        ([timed(pool(4, n, 1), 5.0) for n in (1, 2, 3, 4, 5)], "apart"),
        ([timed(item.run, 0.0) for item in exact(1, 1, 1)], "no time"),
    ],
)
def test_overhead_that_is_not_determined(runs: Sequence[RunSummary], words: str) -> None:
    fit, trouble = fit_overhead(runs)
    assert fit is None
    assert words in trouble
    with pytest.raises(DeviceError, match=words):
        fitted_table(header(), runs, "regression")


def test_regression_by_hand() -> None:
    """Overhead of relu and pooling: 0.5 * 1024 + 2 * 16 + 1000 = 1544; 5544 - 1544 = 4000."""
    runs = [*exact(0.5, 2.0, 1000.0), timed(layer_run(RELU, "avgpool"), 5544.0)]
    row = fitted_table(header(), runs, "regression", "2026-01-31").rows[0]
    assert row.latency_ns == pytest.approx(4000.0)
    assert (row.n, row.median_ns, row.date, row.flags, row.device) == (
        1,
        5544.0,
        "2026-01-31",
        ("unsteady",),
        "hand",
    )


def test_the_median_ignores_outliers_and_knows_how_sure_it_is() -> None:
    """100 times: ranks (100 - 19.6) / 2 = 40.2 give the 40th and 61st value as 95 % interval."""
    times = [*range(1, 97), 1e6, 1e6, 1e6, 1e6]
    summary = TimeSummary.of(times)
    assert (summary.n, summary.median_ns, summary.low_ns, summary.high_ns) == (100, 50.5, 40.0, 61.0)
    assert summary.spread_ns == pytest.approx(1.482602 * 25)
    assert summary.width == pytest.approx(21 / 50.5)
    assert TimeSummary.of([5.0]).width == float("inf")
    with pytest.raises(ValueError, match="no times"):
        TimeSummary.of([])


def measured(
    folder: Path, settings: Settings, network: Network, seed: int = 0, auxiliary: AuxiliaryLayer = "avgpool"
) -> tuple[LatencyTable, SimulatedDevice]:
    device = SimulatedDevice(network, settings, seed)
    path = folder / f"{auxiliary} {seed}.jsonl"
    measure_latency(
        network, device, path, auxiliary=auxiliary, effort=Repetition(width=0.01, most=300, batch=50)
    )
    return fit_latency(path), device


@pytest.mark.parametrize(
    ("auxiliary", "seed", "outliers"),
    [
        *((auxiliary, 0, 0.0) for auxiliary in AUXILIARY_LAYERS),
        *(("avgpool", seed, 0.0) for seed in (1, 2)),
        ("avgpool", 0, 0.05),
    ],
)
def test_recovery_goals(tmp_path: Path, auxiliary: AuxiliaryLayer, seed: int, outliers: float) -> None:
    """docs/sources/companions.md 4: under 3 % noise a, b, c within 2 % and layer latencies within 5 %.

    SqueezeNet has conv1, conv10, 8 sizes of squeeze and 4 sizes of each expand layer: 18 convolutions.
    """
    network = rramalloc.load("squeezenet")
    settings = Settings(noise=0.03, outliers=outliers)
    table, device = measured(tmp_path, settings, network, seed, auxiliary)
    assert table.overhead is not None
    found = (table.overhead.a_ns_per_byte, table.overhead.b_ns_per_byte, table.overhead.c_ns)
    tolerance = 0.02 + 0.1 * outliers  # one-sided outliers move the median: by 0.06 sigma at 5 %
    assert found == pytest.approx((0.05, 0.05, 20_000.0), rel=tolerance)
    stages = [row for row in table.rows if row.operator == "conv"]
    assert len(stages) == 18
    for row in stages:
        assert row.latency_ns == pytest.approx(device.latency_ns(row), rel=0.05), row.text
        assert row.flags == ()
    for row in table.rows:
        assert row.latency_ns >= 0 or "negative" in row.flags


def test_subtract_leaves_the_transfer_of_the_input(tmp_path: Path) -> None:
    """Without noise: latency + a * (bytes into the layer - bytes out of it); exact where a is 0."""
    for a in (0.0, 0.25):
        device = SimulatedDevice(NETWORK, Settings(noise=0.0, a=a), 0)
        path = tmp_path / f"{a}.jsonl"
        measure_latency(NETWORK, device, path)
        rows = fit_latency(path, method="subtract").rows[:-1]
        assert len(rows) == 6
        for row in rows:
            moved = sum(s.channels * s.pixels for s in row.shapes) - row.output.channels * row.output.pixels
            assert row.latency_ns == pytest.approx(device.latency_ns(row) + a * 4 * moved, rel=1e-9)
