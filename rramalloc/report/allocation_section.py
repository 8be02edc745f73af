"""Section of an allocation or a simulation: how fast, how far from optimal, and what limits it."""

from __future__ import annotations

from collections.abc import Iterator

from rramalloc.allocation.allocation import Allocation, Layer
from rramalloc.allocation.simulation import Simulation
from rramalloc.report.layers import buffer_blocks, layer_table, replication_chart
from rramalloc.report.section import Block, Detail, Fact, Note, Section, section_of
from rramalloc.report.timed import Timed
from rramalloc.report.timeline import timeline_chart
from rramalloc.units import area, counted, duration, energy, quantity, rounded, share, steps

_LEAD = "What limits it."
_LACKS = (
    "Where each stage waits, the critical path and buffers are not shown: they need the network, and none "
    "that ships has this hash. Give its file with --network."
)


def allocation_section(allocation: Allocation, timed: Timed | None, detail: Detail) -> Section:
    """Return the section: headline, timeline, layers and buffers; timed: None if the network is not known."""
    arrays, options = allocation.arrays, allocation.options
    facts = (
        _makespan(allocation),
        Fact("Gap", *_gap(allocation)),
        Fact(
            "Arrays used", f"{arrays.used:,}", f"of a budget of {arrays.budget:,}; least {arrays.minimum:,}"
        ),
        Fact(
            "Interval", steps(allocation.interval, allocation.time_unit), _rate(allocation.throughput_per_s)
        ),
        *_energy(allocation),
    )
    return section_of(
        "Allocation",
        allocation,
        title=f"{allocation.network.name} on {counted(arrays.budget, 'array')}",
        facts=facts,
        limit=_opening(allocation, timed),
        blocks=_blocks(allocation, timed, detail),
        headline=f"{steps(allocation.makespan, allocation.time_unit)}, {_gap_words(allocation)}",
        made=(
            ("Objective, method", f"{allocation.objective}, {allocation.method}"),
            ("Seed, work", f"{allocation.seed}, {options.work} units"),
            ("Bound shown by", allocation.proof),
        ),
    )


def simulation_section(simulation: Simulation, timed: Timed, detail: Detail) -> Section:
    """Return the section as of an allocation, without a budget or a bound."""
    facts = (
        _makespan(simulation),
        Fact("Arrays used", f"{simulation.arrays:,}"),
        Fact(
            "Interval", steps(simulation.interval, simulation.time_unit), _rate(simulation.throughput_per_s)
        ),
        Fact(
            "Tight recurrence",
            steps(simulation.recurrence, simulation.time_unit),
            "a lower bound of this allocation",
        ),
        *_energy(simulation),
    )
    return section_of(
        "Simulation",
        simulation,
        title=f"{simulation.network.name}, simulated on {counted(simulation.arrays, 'array')}",
        facts=facts,
        limit=simulation.critical_path_text,
        lead=_LEAD,
        blocks=_blocks(simulation, timed, detail),
        headline=steps(simulation.makespan, simulation.time_unit),
        made=(("Handoff", f"a pixel can be used in the {simulation.handoff} step"),),
    )


def _blocks(result: Allocation | Simulation, timed: Timed | None, detail: Detail) -> tuple[Block, ...]:
    layers = result.layers
    if not layers:
        return (Note("The file lists no layers."),)
    lacks = () if timed is not None else (Note(_LACKS),)
    buffers = () if timed is None else buffer_blocks(timed.edges, detail)
    return (
        *lacks,
        timeline_chart(result, timed, detail),
        replication_chart(result, detail),
        layer_table(layers, result.makespan, detail),
        *buffers,
    )


def _makespan(result: Allocation | Simulation) -> Fact:
    absolute = "" if result.latency_ns is None else duration(result.latency_ns)
    step = "" if result.unit_ns is None else f", {duration(result.unit_ns)} a {result.time_unit}"
    return Fact("Makespan", steps(result.makespan, result.time_unit), absolute + step)


def _energy(result: Allocation | Simulation) -> Iterator[Fact]:
    """Yield the energy and the area that the hardware gives."""
    if result.energy_pj is not None or result.dynamic_pj is not None or result.static_pj is not None:
        parts = (("dynamic", result.dynamic_pj), ("static", result.static_pj))
        words = ", ".join(f"{name} {'not given' if pj is None else energy(pj)}" for name, pj in parts)
        yield Fact("Energy", "not given" if result.energy_pj is None else energy(result.energy_pj), words)
    if result.area_um2 is not None:
        whole = result.chip_area_um2
        words = "" if whole is None else f"in use, {area(whole)} of the whole chip"
        yield Fact("Area", area(result.area_um2), words)


def _gap(allocation: Allocation) -> tuple[str, str]:
    if allocation.gap == 0:
        return "0 %", allocation.proven
    bound = quantity(allocation.lower_bound, allocation.objective_unit)
    return share(allocation.gap), f"at most from optimal; bound {bound}"


def _gap_words(allocation: Allocation) -> str:
    return allocation.proven if allocation.gap == 0 else f"gap {share(allocation.gap)}"


def _opening(allocation: Allocation, timed: Timed | None) -> str:
    """Return the sentence on top: time, energy and area, the gap to the bound, and the bottleneck."""
    rate, latency_ns = allocation.throughput_per_s, allocation.latency_ns
    parts = [steps(allocation.makespan, allocation.time_unit) if latency_ns is None else duration(latency_ns)]
    parts[0] += " for one input"
    parts += [] if rate is None else [f"{rounded(rate)} inputs a second"]
    parts += [] if allocation.energy_pj is None else [f"{energy(allocation.energy_pj)} an input"]
    parts += [] if allocation.area_um2 is None else [area(allocation.area_um2)]
    limit = _limit(allocation.layers, allocation.makespan) if timed is None else timed.limit
    words = f"{', '.join(parts)}; {_gap_words(allocation)}"
    return f"{words}; {limit}" if limit else words


def _rate(throughput_per_s: float | None) -> str:
    return "between inputs" if throughput_per_s is None else f"{rounded(throughput_per_s)} inputs a second"


def _limit(layers: tuple[Layer, ...], makespan: int) -> str:
    """Return the bottleneck as the table of layers alone shows it."""
    if not layers:
        return ""
    longest = max(layers, key=lambda layer: layer.batches)
    last = max(layers, key=lambda layer: layer.finish)
    return (
        f"{longest.name} computes longest, in {longest.batches:,} of the {makespan:,} steps; "
        f"{last.name} finishes last"
    )
