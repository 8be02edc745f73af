"""View of a plan of segments: the time of each, written and run, and plain cuts beside it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from rramalloc.chart import BLUE, ORANGE, Chart, Key
from rramalloc.commands.reload.plan import ReloadPlan
from rramalloc.units import duration, number_of, rounded
from rramalloc.view.charts import Bars, stacked_bars
from rramalloc.view.view import FIGURE, Detail, Fact, View, table


def reload_view(plan: ReloadPlan) -> View:
    """Return the view: time per input, its bound, the segments, and the result of plain cuts."""
    segments = table(
        "Segments",
        plan.segments,
        "first, last, stages, arrays, makespan, interval, write=write_ns, run=run_ns, time=time_ns",
        spare="interval makespan run_ns write_ns",
    )
    others = table("Plain cuts", plan.other_cuts, "cuts, segments, time=total_ns, ratio", shown=0)
    longest = max(plan.segments, key=lambda segment: segment.time_ns)
    return View.of(
        plan,
        kind="Plan of segments",
        title=f"{plan.network.name} in segments: {duration(plan.per_input_ns)} an input",
        sentence=f"the segment from {longest.first} takes longest, {duration(longest.time_ns)}",
        extent=number_of(len(plan.segments), "segment"),
        facts=_facts(plan),
        tables=(segments, others),
        charts={"segments": partial(segments_chart, plan)},
    )


def _facts(plan: ReloadPlan) -> Iterator[Fact]:
    arrays = plan.arrays
    most = f"of {arrays.budget} (all layers need {arrays.minimum})" if arrays.minimum else arrays.limits
    yield Fact("arrays", arrays.used, note=f"used at most {most}")
    for name, parts in plan.cut_layers.items():
        yield Fact("cut layer", f"{name}, {number_of(parts, 'part')}")
    yield Fact("time", plan.total_ns, "ns", f"for {number_of(plan.inputs, 'input')} per loading")
    yield Fact("per input", plan.per_input_ns, "ns", f", {rounded(plan.throughput_per_s)} inputs/s")
    yield Fact("writing", plan.write_ns, "ns", "of it")
    yield Fact("lower bound", plan.lower_bound, "ns")
    yield Fact("gap", plan.gap, "share", "from optimal at most")
    yield Fact("proof", plan.proof)
    for other in plan.other_cuts:
        words = "as many layers as fit" if other.cuts == "greedy" else "each layer alone"
        number = number_of(other.segments, "segment")
        yield Fact("other cuts", f"{words}: {other.ratio:.3f} times as long, {number}")
    if plan.energy_pj is not None:
        yield Fact("energy", plan.energy_pj, "pJ", "an input")


def segments_chart(plan: ReloadPlan, *, detail: Detail = FIGURE) -> Chart | None:
    """Stack the times in which every segment is written and runs."""
    segments = plan.segments
    bars: Bars = (
        (Key("write", ORANGE), [segment.write_ns / 1e3 for segment in segments]),
        (Key("run", BLUE), [segment.run_ns / 1e3 for segment in segments]),
    )
    names = [segment.first for segment in segments]
    return stacked_bars("Time of the segments", "segment", "us", names, bars, detail=detail)
