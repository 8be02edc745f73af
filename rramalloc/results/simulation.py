"""What `simulate` tells of one allocation: exact timing, stalls, buffers and the critical path."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as MappingOf
from typing import Annotated, Literal

from pydantic import Field

from rramalloc.choices import Handoff
from rramalloc.errors import UnsupportedError
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.demand import demands, folds
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.coverage import Coverage
from rramalloc.network.network import Network
from rramalloc.plots import SimulationPlots
from rramalloc.records import Record
from rramalloc.result import ResultRecord
from rramalloc.results.allocation import Layer, NetworkId, Product, Steps
from rramalloc.results.optimize import layers_of
from rramalloc.timing.access import Absolute, StepTime
from rramalloc.timing.buffers import buffers
from rramalloc.timing.critical_path import Segment, critical_path, describe
from rramalloc.timing.measured_steps import MeasuredSteps
from rramalloc.timing.published import chain_layers, published
from rramalloc.timing.simulate import Timing, replication_by_name, simulate
from rramalloc.timing.stage_graph import StageGraph
from rramalloc.units import counted

_TOO_MANY_EDGES = "more edges between stages than can be listed: buffers are left out, the timing is exact"


class TimedLayer(Layer):
    """A layer of an allocation with the steps it waits for inputs after its first batch."""

    stall_steps: Steps


class BufferedEdge(Record):
    """Pixels of `producer` that wait for `consumer` at the fullest moment."""

    producer: str
    consumer: str
    buffer_pixels: Steps
    buffer_bytes: Annotated[int, Field(ge=0)]


class CriticalSegment(Record):
    """A run of batches that the makespan waits for; see timing.critical_path.Segment."""

    stage: str
    start: Steps
    finish: Steps
    batches: Steps
    waits_for: str | None
    row: int | None
    column: int | None


class Simulation(ResultRecord):
    """Exact timing of one allocation (docs/sources/model.md 4), and what the models say of it
    (docs/sources/model.md 5).

    recurrence: steps by the tight recurrence, a lower bound of makespan; published: steps by the published
    recurrence, None where it does not apply; step_ns ... throughput_per_s: None without [timing];
    latency_table: measured step times, None if those of the hardware hold; coverage: how much of the
    network this is about.
    """

    rows_in = "layers"
    columns = ("name", "windows", "replication", "batches", "start", "finish", "stall_steps")

    format: Literal["rramalloc-simulation/1"] = "rramalloc-simulation/1"
    network: NetworkId
    hardware: Hardware
    handoff: Handoff
    arrays: Product
    makespan: Steps
    interval: Steps
    recurrence: Steps
    published: Steps | None
    step_ns: float | None
    latency_ns: float | None
    throughput_per_s: float | None
    layers: tuple[TimedLayer, ...]
    edges: tuple[BufferedEdge, ...]
    critical_path: tuple[CriticalSegment, ...]
    critical_path_text: str
    latency_table: MeasuredSteps | None = None
    coverage: Coverage | None = None
    warnings: tuple[str, ...] = ()

    @property
    def plot(self) -> SimulationPlots:
        """Figures: timeline."""
        return SimulationPlots(self)

    def _headline(self) -> tuple[str, str]:
        arrays = counted(self.arrays, "array")
        words = f"{counted(self.makespan, 'step')} on {arrays}, interval {self.interval:,}"
        return self.network.name, words

    def _notes(self) -> list[str]:
        return [self.critical_path_text, *super()._notes()]


def simulate_network(
    network: Network, replication: MappingOf[str, int], hardware: Hardware, options: MappingOptions, *,
    handoff: Handoff, where: str, measured: MeasuredSteps | None = None,
) -> Simulation:  # fmt: skip
    """Simulate copies given by layer name; layers left out have one. `where` names their file in errors.

    measured: step times instead of those of the hardware.
    Raises SpecError for a name that is no stage and for copies below 1 or above the layer's windows.
    """
    graph = StageGraph.build(network, options.fc)
    timing = simulate(graph, replication_by_name(graph, replication, where), handoff)
    demand = demands(network, graph.stages, hardware, options)
    step_time = StepTime.of(graph, hardware, measured)
    absolute = Absolute.of(step_time, timing)
    sizes = folds(network, graph.stages, hardware, options)
    taken = [d * int(n) for d, n in zip(demand, timing.replication, strict=True)]
    layers = layers_of(timing, demand, taken, sizes, with_blocks=False)
    path = critical_path(timing)
    stalls = dict(zip(graph.names, timing.stall_steps.tolist(), strict=True))
    return Simulation(
        network=NetworkId.of(network),
        hardware=hardware,
        handoff=handoff,
        arrays=sum(taken),
        makespan=timing.makespan,
        interval=timing.interval,
        recurrence=max(layer.op for layer in layers),
        published=_published_steps(network, dict(zip(graph.names, timing.replication.tolist(), strict=True))),
        step_ns=absolute.step_ns,
        latency_ns=absolute.latency_ns,
        throughput_per_s=absolute.throughput_per_s,
        layers=tuple(TimedLayer(**layer.model_dump(), stall_steps=stalls[layer.name]) for layer in layers),
        edges=buffered_edges(timing, hardware.precision.output_bits),
        critical_path=critical_segments(path),
        critical_path_text=describe(path, timing.makespan),
        latency_table=measured,
        coverage=Coverage.of(network, graph.names),
        warnings=(
            *network.warnings,
            *(() if graph.lists_all_edges else (_TOO_MANY_EDGES,)),
            *(() if measured is None else measured.warnings),
        ),
    )


def buffered_edges(timing: Timing, output_bits: int) -> tuple[BufferedEdge, ...]:
    """What is buffered between stages; nothing where there are too many edges to list them all."""
    return tuple(
        BufferedEdge(
            producer=buffer.producer,
            consumer=buffer.consumer,
            buffer_pixels=buffer.pixels,
            buffer_bytes=buffer.size_bytes(output_bits),
        )
        for buffer in (buffers(timing) if timing.graph.lists_all_edges else ())
    )


def critical_segments(path: Iterable[Segment]) -> tuple[CriticalSegment, ...]:
    """A critical path as it is kept in files."""
    return tuple(
        CriticalSegment(**{name: getattr(segment, name) for name in CriticalSegment.model_fields})
        for segment in path
    )


def _published_steps(network: Network, replication: MappingOf[str, int]) -> int | None:
    try:
        chain = chain_layers(network)
    except UnsupportedError:
        return None
    return published(chain, [replication[layer.name] for layer in chain]).steps
