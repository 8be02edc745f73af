"""Views of latencies: a plan of runs, measured layers, and the estimate of a network."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from operator import attrgetter

from rramalloc.chart import BLUE, Chart, Key
from rramalloc.commands.latency.estimate import LatencyEstimate
from rramalloc.commands.latency.plan import MeasurePlan
from rramalloc.timing.latency_table import LatencyTable
from rramalloc.units import rounded
from rramalloc.view.charts import Bars, stacked_bars
from rramalloc.view.view import FIGURE, Detail, Fact, View, table


def plan_view(plan: MeasurePlan) -> View:
    """Return the view of the runs that a measurement times."""
    columns = "run, input_bytes, output_bytes"
    runs = table("Runs", plan.runs, columns, spare="output_bytes input_bytes", run=attrgetter("text"))
    return View(kind="Plan", title="Plan of a measurement", tables=(runs,))


def table_view(measured: LatencyTable) -> View:
    """Return the view of a table: latencies of the layers, and the overhead that was taken off."""
    rows = table(
        "Layers",
        measured.rows,
        "operator, shape, parameters=brief_parameters, latency_ns, noise_ns, spread_ns, n, flags=flag_text",
        spare="spread_ns noise_ns n shape flag_text",
    )
    return View.of(
        measured,
        kind="Latency table",
        title="Measured latencies",
        facts=_measured(measured),
        tables=(rows,),
        charts={"latency": partial(latency_chart, measured)},
    )


def _measured(measured: LatencyTable) -> Iterator[Fact]:
    first, overhead = measured.rows[0], measured.overhead
    yield Fact("device", str(first.device))
    yield Fact("method", str(first.method))
    if first.date is not None:
        yield Fact("date", first.date)
    if overhead is not None:
        yield Fact("a", rounded(overhead.a_ns_per_byte), note="ns per byte in")
        yield Fact("b", rounded(overhead.b_ns_per_byte), note="ns per byte out")
        yield Fact("c", overhead.c_ns, "ns", "a run")
        yield Fact("R^2", f"{overhead.r2:.6f}", note=f"over {overhead.runs} auxiliary layers alone")


def latency_chart(measured: LatencyTable, *, detail: Detail = FIGURE) -> Chart | None:
    """Draw a bar for every distinct layer."""
    layers = [row for row in measured.rows if row.operator != "network"]
    names = [f"{row.operator} {' x '.join(map(str, row.shape))}" for row in layers]
    bars: Bars = ((Key("latency", BLUE), [max(0.0, row.latency_ns) / 1e3 for row in layers]),)
    return stacked_bars("Latency of the layers", "layer", "us", names, bars, detail=detail)


def estimate_view(estimated: LatencyEstimate) -> View:
    """Return the view of an estimate: the layers, their sum, and the measured time."""
    layers = table(
        "Layers",
        estimated.layers,
        "layer=name, operator, latency_ns, share, flags=flag_text",
        spare="flag_text operator",
    )
    return View.of(
        estimated,
        kind="Latency estimate",
        extent=f"{len(estimated.layers)} layers",
        facts=_total(estimated),
        tables=(layers,),
    )


def _total(estimated: LatencyEstimate) -> Iterator[Fact]:
    yield Fact("estimate", estimated.total_ns, "ns", ", the sum of all layers")
    if estimated.measured_ns is None or estimated.error is None:
        yield Fact("measured", "not in the table")
    else:
        yield Fact("measured", estimated.measured_ns, "ns", ", the whole network")
        yield Fact("error", f"{estimated.error:+.2%} of the measured time")
