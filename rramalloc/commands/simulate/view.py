"""View of a simulation: its times, and its bottleneck."""

from __future__ import annotations

from collections.abc import Iterator

from rramalloc.allocation.layers import (
    AT_INTERVAL,
    buffers_table,
    efficiency_facts,
    energy_facts,
    interval_fact,
    layer_charts,
    layers_table,
    stream_facts,
)
from rramalloc.allocation.simulation import Simulation
from rramalloc.allocation.timed import Timed
from rramalloc.timing.buffers import Buffers
from rramalloc.units import counted, duration, number_of, rounded, size
from rramalloc.view.view import Fact, View


def simulation_view(simulation: Simulation, timed: Timed | None = None, *, efficiency: bool = False) -> View:
    """Return the view as of an allocation, without a budget or a bound; efficiency: with TOPS."""
    stored = Buffers(simulation.edges, simulation.buffers)
    return View.of(
        simulation,
        kind="Simulation",
        title=f"{simulation.network.name}, simulated on {counted(simulation.arrays, 'array')}",
        sentence=simulation.critical_path_text,
        facts=_facts(simulation, efficiency=efficiency),
        tables=(layers_table(simulation.layers), buffers_table(stored)),
        charts=layer_charts(simulation, stored, timed),
    )


def _facts(simulation: Simulation, *, efficiency: bool) -> Iterator[Fact]:
    unit = simulation.time_unit
    yield Fact("arrays", simulation.arrays)
    yield Fact("makespan", simulation.makespan, f"{unit}s")
    yield interval_fact(simulation, simulation.sequences, simulation.states)
    models = f"tight {number_of(simulation.recurrence, unit)}"
    if simulation.published is not None:
        models += f", published {number_of(simulation.published, 'step')}"
    yield Fact("recurrences", models)
    if simulation.latency_ns is not None and simulation.unit_ns is not None:
        yield Fact("latency", simulation.latency_ns, "ns", f", {duration(simulation.unit_ns)} a {unit}")
        yield Fact("throughput", simulation.throughput_per_s or 0.0, "inputs/s")
    yield from energy_facts(simulation)
    rate = simulation.rate_per_s
    when = AT_INTERVAL if rate is None else f"{rounded(rate)} inputs/s"
    if efficiency:
        yield from efficiency_facts(simulation, when)
    elif rate is not None:
        yield from stream_facts(simulation, when)
    if simulation.buffers is not None:
        stream = size(simulation.buffers.stream_total_bytes)
        alone = size(simulation.buffers.total_bytes)
        yield Fact("buffers", f"{alone} at once for one input, {stream} for inputs at the interval")
    yield Fact("critical path", simulation.critical_path_text)
