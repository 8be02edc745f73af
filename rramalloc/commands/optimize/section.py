"""Section of an allocation on a page: how fast, how far from optimal, and what limits it."""

from __future__ import annotations

from rramalloc.allocation.allocation import Allocation, Layer
from rramalloc.page.layers import energy_facts, layer_blocks, makespan_fact, rate_words
from rramalloc.page.section import Detail, Fact, Section, section_of
from rramalloc.page.timed import Timed
from rramalloc.units import area, counted, duration, energy, quantity, rounded, share, steps


def allocation_section(allocation: Allocation, timed: Timed | None, detail: Detail) -> Section:
    """Return the section: headline, timeline, layers and buffers; timed: None if the network is not known."""
    arrays, options = allocation.arrays, allocation.options
    facts = (
        makespan_fact(allocation),
        Fact("Gap", *_gap(allocation)),
        Fact("Arrays used", f"{arrays.used:,}", arrays.limits),
        Fact(
            "Interval",
            steps(allocation.interval, allocation.time_unit),
            rate_words(allocation.throughput_per_s),
        ),
        *energy_facts(allocation),
    )
    return section_of(
        "Allocation",
        allocation,
        title=f"{allocation.network.name} on {counted(arrays.budget or arrays.used, 'array')}",
        facts=facts,
        limit=_opening(allocation, timed),
        blocks=layer_blocks(allocation, timed, detail),
        headline=f"{steps(allocation.makespan, allocation.time_unit)}, {_gap_words(allocation)}",
        made=(
            ("Objective, method", f"{allocation.objective}, {allocation.method}"),
            ("Seed, work", f"{allocation.seed}, {options.work} units"),
            ("Bound shown by", allocation.proof),
        ),
    )


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
