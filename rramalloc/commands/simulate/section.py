"""Section of a simulation on a page: how fast, and what limits it."""

from __future__ import annotations

from rramalloc.allocation.simulation import Simulation
from rramalloc.page.layers import energy_facts, layer_blocks, makespan_fact, rate_words
from rramalloc.page.section import Detail, Fact, Section, section_of
from rramalloc.page.timed import Timed
from rramalloc.units import counted, steps


def simulation_section(simulation: Simulation, timed: Timed, detail: Detail) -> Section:
    """Return the section as of an allocation, without a budget or a bound."""
    facts = (
        makespan_fact(simulation),
        Fact("Arrays used", f"{simulation.arrays:,}"),
        Fact(
            "Interval",
            steps(simulation.interval, simulation.time_unit),
            rate_words(simulation.throughput_per_s),
        ),
        Fact(
            "Tight recurrence",
            steps(simulation.recurrence, simulation.time_unit),
            "a lower bound of this allocation",
        ),
        *energy_facts(simulation),
    )
    return section_of(
        "Simulation",
        simulation,
        title=f"{simulation.network.name}, simulated on {counted(simulation.arrays, 'array')}",
        facts=facts,
        limit=simulation.critical_path_text,
        lead="What limits it.",
        blocks=layer_blocks(simulation, timed, detail),
        headline=steps(simulation.makespan, simulation.time_unit),
        made=(("Handoff", f"a pixel can be used in the {simulation.handoff} step"),),
    )
