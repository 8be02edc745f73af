"""Section of measured latencies."""

from __future__ import annotations

from rramalloc.chart import BLUE, Key
from rramalloc.page.section import Bars, Detail, Fact, Section, stacked_bars, table, warning_notes
from rramalloc.timing.latency_table import LatencyTable
from rramalloc.units import counted, duration, rounded


def latency_section(result: LatencyTable, detail: Detail) -> Section:
    """Return the section: latencies of the layers, and the overhead that was taken off."""
    layers = [row for row in result.rows if row.operator != "network"]
    total = sum(row.latency_ns for row in layers)
    facts = [Fact("Layers", f"{len(layers):,}", f"{duration(total)} together, each distinct one once")]
    if result.overhead is not None:
        cost = result.overhead
        facts.append(Fact("Overhead a run", duration(max(0.0, cost.c_ns)), f"R^2 {cost.r2:.6f}"))
        each = f"{rounded(cost.a_ns_per_byte)} in, {rounded(cost.b_ns_per_byte)} out"
        facts.append(Fact("Overhead a byte [ns]", each))
    names = [f"{row.operator} {' x '.join(map(str, row.shape))}" for row in layers]
    bars: Bars = ((Key("latency", BLUE), [max(0.0, row.latency_ns) / 1e3 for row in layers]),)
    columns = (
        "Operator, Shape, Parameters=brief_parameters, Latency float=latency_ns, "
        "Noise float=noise_ns, Lowest float=low_ns, Highest float=high_ns, Runs int=n, "
        "Flags=flag_text"
    )
    chart = (stacked_bars("Latency of the layers", "layer", "us", names, bars, detail),) if layers else ()
    device = next((row.device for row in result.rows if row.device), "unknown device")
    return Section(
        title="Measured latencies",
        subtitle=device,
        facts=tuple(facts),
        blocks=(
            *warning_notes(result.warnings),
            *chart,
            table("Layers", columns, result.rows, detail, folded=False),
        ),
        headline=f"{counted(len(layers), 'layer')} on {device}",
    )
