"""`simulate`: exact timing, stalls, buffers and the critical path of one allocation."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from typing import Literal, NamedTuple

import numpy as np
from pydantic import Field

from rramalloc.allocation.allocation import (
    Layer,
    PositiveCount,
    Product,
    TimedResult,
)
from rramalloc.allocation.allocation_input import AllocationInput
from rramalloc.allocation.case import Case
from rramalloc.allocation.optimize import layers_in_result, on_units
from rramalloc.choices import Handoff
from rramalloc.errors import SpecError, UnsupportedError
from rramalloc.mapping.demand import Storage, folds, storage_of
from rramalloc.mapping.options import MappingOptions
from rramalloc.ndarrays import Ints
from rramalloc.network.network import Network
from rramalloc.network.node import Name
from rramalloc.records import Steps, absent
from rramalloc.timing.access import Absolute
from rramalloc.timing.buffers import BufferedEdge, BufferTotals, buffers
from rramalloc.timing.critical_path import CriticalSegment, critical_path, path_words
from rramalloc.timing.figures import totals
from rramalloc.timing.measured_steps import MeasuredSteps
from rramalloc.timing.metrics import EnergyModel, Metrics, left_out
from rramalloc.timing.published import chain_layers, published
from rramalloc.timing.simulate import ExactTiming
from rramalloc.timing.stage_graph import StageGraph
from rramalloc.units import counted, plain_quantity

_NO_TICK = "times are ticks, as the allocation has cycles; nothing says how long a tick is: no latency in ns"
_SDK = "mapping im2col has no blocks: arrays are counted as mapping sdk does"
_MOST_TICKS = 2**53  # of all batches together: JSON readers with doubles keep whole numbers exact up to it
_TOO_MANY_EDGES = "more edges between stages than can be listed: buffers are left out, the timing is exact"


class TimedLayer(Layer):
    """A layer of an allocation with the steps it waits for inputs after its first batch."""

    stall_steps: Steps


class Simulation(TimedResult):
    """Exact timing of one allocation (docs/sources/model.md 4), and what the models say of it
    (docs/sources/model.md 5).

    recurrence: steps by the tight recurrence, a lower bound of makespan; published: steps by the published
    recurrence, None where it does not apply, as to blocks and cycles; with cycles of the allocation all times
    are ticks of unknown length, and none is in ns; latency_table: measured step times, None if those of the
    hardware hold; buffers: of all edges together, None where they are too many to list; rate_per_s: inputs a
    second that the fields of the stream are about, None for those of the throughput; sequences: that take
    turns where the next input needs this one's output, None where it does not.
    """

    format: Literal["rramalloc-simulation/2"] = "rramalloc-simulation/2"
    handoff: Handoff
    arrays: Product
    recurrence: Steps
    published: Steps | None
    layers: tuple[TimedLayer, ...]
    edges: tuple[BufferedEdge, ...]
    buffers: BufferTotals | None = Field(None, exclude_if=absent)
    critical_path: tuple[CriticalSegment, ...]
    critical_path_text: str
    latency_table: MeasuredSteps | None = None
    rate_per_s: float | None = Field(None, exclude_if=absent)
    sequences: PositiveCount | None = Field(None, exclude_if=absent)
    states: dict[Name, Name] | None = Field(None, exclude_if=absent)

    def _headline(self) -> tuple[str, str]:
        arrays = counted(self.arrays, "array")
        words = f"{counted(self.makespan, self.time_unit)} on {arrays}, interval {self.interval:,}"
        return self.network.name, words


class SimulatedSums(NamedTuple):
    """Timing of an allocation, with its arrays, energy and area.

    storage, options: as its blocks decide; taken: arrays of every stage; metrics: None without [energy].
    """

    timing: ExactTiming
    storage: Storage
    options: MappingOptions
    taken: Ints
    absolute: Absolute
    metrics: Metrics | None

    @property
    def arrays(self) -> int:
        """Arrays of all stages."""
        return int(self.taken.sum())


def simulated_sums(
    network: Network, given: AllocationInput, graph: StageGraph, handoff: Handoff
) -> SimulatedSums:
    """Time an allocation on the graph of its network. Raises as `simulate_network`."""
    hardware, options = given.hardware, given.options
    timing = given.timing(graph, handoff)
    in_blocks, copies = timing.graph, timing.copies
    if (most := int((timing.batches * timing.cycles).sum())) > _MOST_TICKS:
        raise SpecError(
            given.where, f"cycles: all batches last {most} ticks together, the limit is {_MOST_TICKS}"
        )
    if in_blocks.blocks != graph.blocks:  # im2col is sdk with the smallest blocks: the blocks decide
        options = options.changed(mapping="sdk")
    storage = storage_of(network, graph.stages, hardware, options)
    taken = storage.taken(in_blocks.modes, copies.astype(object))  # any number of copies can be simulated
    absolute = Absolute.of(given.step_time(in_blocks), timing)
    if given.cycles and graph.unit != "ticks":
        absolute = Absolute(None, None, None)
    metrics = None
    if hardware.has_energy:
        model = EnergyModel(graph, hardware, options)
        metrics = model.measure(in_blocks.modes, copies, storage, absolute.latency_ns)
    return SimulatedSums(timing, storage, options, taken, absolute, metrics)


def simulate_network(
    case: Case, given: AllocationInput, *, handoff: Handoff, rate_per_s: float | None = None
) -> Simulation:
    """Simulate an allocation as its case says.

    rate_per_s: inputs a second that it is asked for, those of its throughput if left out.

    Raises SpecError for a name that is no stage, for copies below 1 or above the layer's blocks, for a block
    or for ticks that a layer cannot have; for a rate above the throughput, or without times or energy.
    """
    network, hardware, measured = case.network, case.hardware, case.measured
    graph = given.graph(network)
    sums = simulated_sums(network, given, graph, handoff)
    timing, options = sums.timing, sums.options
    in_blocks, copies = timing.graph, timing.copies
    demand = sums.storage.stored(in_blocks.modes, np.ones_like(copies))
    in_ticks, warnings = graph.unit == "ticks", [*network.warnings, *given.options.host_notes(network)]
    if not graph.lists_all_edges:
        warnings.append(_TOO_MANY_EDGES)
    warnings += () if measured is None else measured.warnings
    if given.cycles and not in_ticks and given.step_time(in_blocks) is not None:
        warnings.append(_NO_TICK)
    warnings += (*given.left_out, *left_out(hardware))
    if options.mapping != given.options.mapping:
        warnings.append(_SDK)
    sizes = folds(network, graph.stages, hardware, options)
    shown = {"in_blocks": bool(given.blocks) or options.mapping == "sdk", "with_cycles": bool(given.cycles)}
    layers = layers_in_result(
        timing, demand.tolist(), sums.taken.tolist(), sizes, hardware, sums.metrics, **shown
    )
    warnings += given.differences(layers) if handoff == "next" else ()
    rate_per_s = None if rate_per_s is None else _checked_rate(rate_per_s, sums.absolute, sums.metrics)
    path = critical_path(timing)
    unit = "tick" if given.cycles or in_ticks else "step"
    stalls = dict(zip(graph.names, timing.stall_steps.tolist(), strict=True))
    stored = buffers(timing, hardware.precision.output_bits)
    return Simulation(
        **case.about(links=bool(given.transfer_ns), units=on_units(hardware, in_blocks)),
        handoff=handoff,
        arrays=sums.arrays,
        makespan=timing.makespan,
        interval=timing.interval,
        recurrence=max(layer.op for layer in layers),
        published=None
        if in_blocks.blocks != graph.blocks or given.cycles or in_ticks
        else published_steps(network, dict(zip(graph.names, copies.tolist(), strict=True))),
        **sums.absolute._asdict(),
        **totals(sums.metrics, sums.absolute, in_blocks, rate_per_s),
        layers=tuple(TimedLayer(**layer.model_dump(), stall_steps=stalls[layer.name]) for layer in layers),
        edges=stored.edges,
        buffers=stored.totals,
        critical_path=path,
        critical_path_text=path_words(path, timing.makespan, unit),
        latency_table=measured,
        rate_per_s=rate_per_s,
        sequences=network.sequences,
        states=dict(network.states) or None,
        warnings=tuple(warnings),
    )


def _checked_rate(rate_per_s: float, absolute: Absolute, metrics: Metrics | None) -> float:
    """Return a rate up to the throughput, and the throughput itself for one that is displayed like it.

    Raises SpecError.
    """
    throughput = absolute.throughput_per_s
    if throughput is None or metrics is None or metrics.energy_pj is None:
        lacks = "time" if throughput is None else "energy"
        raise SpecError("rate", f"asks for the power at that rate, but the hardware gives no {lacks}")
    if rate_per_s <= throughput:
        return rate_per_s
    if plain_quantity(rate_per_s, "inputs/s") != plain_quantity(throughput, "inputs/s"):
        words = f"must be at most the throughput, {throughput:.10g} inputs/s, got {rate_per_s:.10g}"
        raise SpecError("rate", f"{words}: ask for less, or give the layers more copies")
    return throughput


def published_steps(network: Network, copies: MappingOf[str, int]) -> int | None:
    """Return the steps by the published recurrence, None where it does not cover the network."""
    try:
        chain = chain_layers(network, copies)
        return published(chain, [copies[layer.name] for layer in chain]).steps
    except UnsupportedError:
        return None
