"""View of an allocation: its times, its distance from the bound, and its bottleneck."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from rramalloc.allocation.allocation import Allocation, Layer
from rramalloc.allocation.layers import (
    buffers_table,
    efficiency_facts,
    energy_facts,
    interval_fact,
    layer_charts,
    layers_table,
)
from rramalloc.allocation.timed import Timed
from rramalloc.commands.optimize.convergence import convergence_chart
from rramalloc.network.coverage import name_some
from rramalloc.search.objective import OBJECTIVES
from rramalloc.timing.buffers import NO_BUFFERS
from rramalloc.units import area, counted, duration, energy, number_of, quantity, rounded, share, steps
from rramalloc.view.view import Fact, View, busy_period


def allocation_view(
    allocation: Allocation,
    timed: Timed | None = None,
    *,
    recurrence: bool = False,
    efficiency: bool = False,
    claim: str = "",
) -> View:
    """Return the view: timeline, layers and, where the network is known, buffers.

    recurrence: the table has the terms of the tight recurrence, too; efficiency: energy of inputs
    that stream, and TOPS; claim: words that stand in place of its proof and its gap, where they were not
    checked.
    """
    arrays = allocation.arrays
    stored = NO_BUFFERS if timed is None else timed.buffers
    return View.of(
        allocation,
        kind="Allocation",
        title=f"{allocation.network.name} on {counted(arrays.budget or arrays.used, 'array')}",
        sentence=_opening(allocation, timed, claim),
        extent=number_of(len(allocation.layers), "stage"),
        facts=(*_facts(allocation, claim), *(efficiency_facts(allocation) if efficiency else ())),
        tables=(layers_table(allocation.layers, recurrence=recurrence), buffers_table(stored)),
        charts=layer_charts(allocation, stored, timed)
        | {"convergence": partial(convergence_chart, allocation, claim=claim)},
        answer=_answer(allocation),
    )


def _facts(allocation: Allocation, claim: str) -> Iterator[Fact]:
    arrays, unit = allocation.arrays, f"{allocation.time_unit}s"
    if arrays.by_kind is None:
        least = f"used of {arrays.budget} (at least {arrays.minimum} are needed)"
        yield Fact("arrays", arrays.used, note=least)
    else:
        yield Fact("arrays", arrays.used, note=f"used: {arrays.limits}")
    yield Fact("makespan", allocation.makespan, unit)
    yield interval_fact(allocation, allocation.options.sequences, allocation.options.states)
    value, of_value = allocation.objective_value, allocation.objective_unit
    if allocation.options.inputs is not None:
        yield Fact("inputs", value, of_value, f"for {allocation.options.inputs} inputs that stream")
    if words := OBJECTIVES[allocation.objective].words:
        yield Fact(allocation.objective, value, of_value, words)
    yield Fact("lower bound", allocation.lower_bound, of_value)
    yield Fact("gap", allocation.gap, "share", claim or "from optimal at most")
    yield Fact("proof", claim or allocation.proof)
    measured = allocation.options.latency_table
    if measured is not None:
        slowest = f"a step in the slowest stage, {measured.slowest}"
        yield Fact("measured", measured.longest_ns, "ns", slowest)
    if allocation.latency_ns is not None and allocation.unit_ns is not None:
        yield Fact(allocation.time_unit, allocation.unit_ns, "ns")
        yield Fact("latency", allocation.latency_ns, "ns")
        yield Fact("throughput", allocation.throughput_per_s or 0.0, "inputs/s")
    yield from energy_facts(allocation)
    if allocation.sensitivity is not None:
        yield Fact("sensitivity", f"{allocation.sensitivity:g}", note="in sum, of the bits chosen")
    if allocation.placed is not None:
        slowest_ns = max(allocation.placed.transfer_ns.values())
        placed = counted(allocation.placed.rounds, "allocation")
        end = "transfers are hidden" if allocation.placed.converged else "the best of them hides not all"
        words = f"a step between tiles; {placed} placed, {end}"
        yield Fact("transfer", slowest_ns, "ns", words)


def _opening(allocation: Allocation, timed: Timed | None, claim: str) -> str:
    """Return the sentence on top: time, energy and area, the gap to the bound, and the bottleneck."""
    rate, latency_ns = allocation.throughput_per_s, allocation.latency_ns
    time = steps(allocation.makespan, allocation.time_unit) if latency_ns is None else duration(latency_ns)
    parts = [f"{time} for one input"]
    if (inputs := allocation.options.inputs) is not None:
        parts.insert(
            0, f"{quantity(allocation.objective_value, allocation.objective_unit)} for {inputs} inputs"
        )
    is_of_interval = busy_period(allocation)[1] == "interval"
    if is_of_interval:
        unit_ns, interval = allocation.unit_ns, allocation.interval
        every = steps(interval, allocation.time_unit) if unit_ns is None else duration(interval * unit_ns)
        parts.insert(0, f"an input every {every}")
    if allocation.objective == "arrays":
        parts.insert(0, counted(allocation.arrays.used, "array"))
    parts += [] if rate is None else [f"{rounded(rate)} inputs a second"]
    parts += [] if allocation.energy_pj is None else [f"{energy(allocation.energy_pj)} an input"]
    parts += [] if allocation.area_um2 is None else [area(allocation.area_um2)]
    if is_of_interval:
        limit = _limit_of_interval(allocation)
    else:
        limit = _limit(allocation.layers, allocation.makespan) if timed is None else timed.limit
    words = f"{', '.join(parts)}; {claim or _gap(allocation)}"
    return f"{words}; {limit}" if limit else words


def _answer(allocation: Allocation) -> str:
    """Return the name of the fact that answers the question."""
    if allocation.options.inputs is not None:
        return "inputs"
    if allocation.objective == "latency":
        return "makespan" if allocation.latency_ns is None else "latency"
    return {"edp": "EDP"}.get(allocation.objective, allocation.objective)


def _limit_of_interval(allocation: Allocation) -> str:
    """Return the layers that set the interval, in words."""
    longest = max((layer.normal_op for layer in allocation.layers), default=0)
    names = [layer.name for layer in allocation.layers if layer.normal_op == longest]
    if allocation.options.sequences is not None or not names:
        return ""  # the interval follows from the latency
    which = name_some(names)
    return f"{which} {'sets' if len(names) == 1 else 'set'} the interval: busy in {longest:,} of its steps"


def _gap(allocation: Allocation) -> str:
    return allocation.proven if allocation.gap == 0 else f"gap {share(allocation.gap)}"


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
