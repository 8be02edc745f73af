"""View of a simulation: how fast, and what limits it."""

from __future__ import annotations

from collections.abc import Iterator

from rramalloc.allocation.layers import buffers_table, energy_facts, layer_charts, layers_table
from rramalloc.allocation.simulation import Simulation
from rramalloc.allocation.timed import Timed
from rramalloc.units import counted, duration, number_of
from rramalloc.view.view import Fact, View


def simulation_view(simulation: Simulation, timed: Timed | None = None) -> View:
    """Return the view as of an allocation, without a budget or a bound."""
    return View.of(
        simulation,
        kind="Simulation",
        title=f"{simulation.network.name}, simulated on {counted(simulation.arrays, 'array')}",
        sentence=simulation.critical_path_text,
        facts=_facts(simulation),
        tables=(layers_table(simulation.layers), buffers_table(simulation.edges)),
        charts=layer_charts(simulation, simulation.edges, timed),
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
    yield Fact("critical path", simulation.critical_path_text)
