"""View of a simulation: how fast, and what limits it."""

from __future__ import annotations

from collections.abc import Iterator

from rramalloc.allocation.layers import buffers_table, energy_facts, layer_charts, layers_table
from rramalloc.allocation.simulation import Simulation
from rramalloc.allocation.timed import Timed
from rramalloc.timing.buffers import Buffers
from rramalloc.units import counted, duration, number_of, size
from rramalloc.view.view import Fact, View


def simulation_view(simulation: Simulation, timed: Timed | None = None) -> View:
    """Return the view as of an allocation, without a budget or a bound."""
    stored = Buffers(simulation.edges, simulation.buffers)
    return View.of(
        simulation,
        kind="Simulation",
        title=f"{simulation.network.name}, simulated on {counted(simulation.arrays, 'array')}",
        sentence=simulation.critical_path_text,
        facts=_facts(simulation),
        tables=(layers_table(simulation.layers), buffers_table(stored)),
        charts=layer_charts(simulation, stored, timed),
    )


def _facts(simulation: Simulation) -> Iterator[Fact]:
    unit = simulation.time_unit
    yield Fact("arrays", simulation.arrays)
    yield Fact("makespan", simulation.makespan, f"{unit}s")
    yield Fact("interval", simulation.interval, f"{unit}s", "between inputs when inputs stream")
    models = f"tight {number_of(simulation.recurrence, unit)}"
    if simulation.published is not None:
        models += f", published {number_of(simulation.published, 'step')}"
    yield Fact("recurrences", models)
    if simulation.latency_ns is not None and simulation.unit_ns is not None:
        yield Fact("latency", simulation.latency_ns, "ns", f", {duration(simulation.unit_ns)} a {unit}")
    yield from energy_facts(simulation)
    if simulation.buffers is not None:
        stream = size(simulation.buffers.stream_total_bytes)
        alone = size(simulation.buffers.total_bytes)
        yield Fact("buffers", f"{alone} at once for one input, {stream} for inputs at the interval")
    yield Fact("critical path", simulation.critical_path_text)
