"""Own clocks: how many ticks a batch of every stage lasts, in any mode (docs/sources/model.md 11)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from rramalloc.errors import SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.tables import Processor
from rramalloc.mapping.demand import active_lines, copies_of_full_array
from rramalloc.mapping.mode import Mode, array_of
from rramalloc.mapping.modes import smallest_block
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.counts import macs, windows
from rramalloc.network.network import Network
from rramalloc.network.node import Stage
from rramalloc.rounding import EXACTLY
from rramalloc.timing.access import access_ns
from rramalloc.timing.measured_steps import MeasuredSteps
from rramalloc.timing.stage_graph import MOST_CYCLES, BatchTicks, StageGraph


def timed_graph(
    network: Network,
    hardware: Hardware,
    options: MappingOptions,
    measured: MeasuredSteps | None = None,
    graph: StageGraph | None = None,
) -> StageGraph:
    """Return the stages of a network, with own clocks and rated digital nodes if the hardware has them.

    measured: step times of every stage, in place of the hardware's; graph: that of this network and these
    options, if it was built before. Raises UnsupportedError as `StageGraph.build`; SpecError if own clocks
    have no time or take more than MOST_CYCLES ticks.
    """
    # A graph without digital nodes was built for no rates: it lacks the nodes that this hardware rates.
    if graph is None or (hardware.rated and graph.weighted.all()):
        graph = StageGraph.build(network, options, hardware.rated)
    if not hardware.own_clock:
        return graph
    if measured is None and hardware.compute_ns is None:
        raise SpecError(
            f"hardware {hardware.name[:60]!r}",
            'clock = "own" needs the time of a step in [timing] (step_ns, or read_ns and dac_bits), or a '
            "latency table",
        )
    return graph.timed(_Clocks(graph, hardware, options, measured))


def digital_ns(network: Network, stage: Stage, processor: Processor) -> float:
    """Return the time of a batch of one copy in a digital unit: the products of its smallest block."""
    high, wide = smallest_block(stage)
    per_window = macs(network, stage) / windows(network, stage)
    return high * wide * per_window / processor.macs_per_ns


@dataclass(frozen=True, eq=False)
class _Clocks:
    """The function `Clocks` of a graph on a hardware with own clocks, which remembers its values."""

    graph: StageGraph
    hardware: Hardware
    options: MappingOptions
    measured: MeasuredSteps | None
    _ticks: dict[tuple[int, Mode], BatchTicks] = field(default_factory=dict, repr=False)

    def __call__(self, stage: int, mode: Mode) -> BatchTicks:
        # Equal stages have equal ticks, unless each of them was measured.
        kind = self.graph.kinds[stage] if self.measured is None else stage
        if (kind, mode) not in self._ticks:
            self._ticks[kind, mode] = self._batch(stage, mode)
        return self._ticks[kind, mode]

    def _batch(self, stage: int, mode: Mode) -> BatchTicks:
        """Return the ticks of a batch of a stage in a mode; source: docs/sources/model.md 11."""
        node, network = mode.of_stage(self.graph.stages[stage]), self.graph.network
        block = mode.block
        if not isinstance(node, Stage):
            rates = {} if self.hardware.digital is None else self.hardware.digital.ns_per_pixel
            return self._counted(node.name, [rates[node.op]], 0.0)
        hardware = array_of(self.hardware, node, mode)
        if hardware.processor is not None:
            compute_ns = [digital_ns(network, node, hardware.processor)]
        elif self.measured is not None:
            compute_ns = [self.measured.compute_ns[node.name]]
        elif hardware.timing is not None:
            # Only with mapping "sdk" do copies share arrays, so only there do more copies read more lines.
            full = 1
            if hardware.timing.depends_on_lines and self.options.mapping == "sdk":
                full = copies_of_full_array(network, node, hardware, block)
            lines = [
                active_lines(network, node, hardware, self.options, block, copies)
                for copies in range(1, full + 1)
            ]
            bits = hardware.precision.input_bits
            compute_ns = [
                hardware.timing.compute_ns(bits, hardware.crossbar, *lines_in_use) for lines_in_use in lines
            ]
        moved_ns = access_ns(network, node, block, hardware)
        if hardware.memory is not None and hardware.memory.scope == "shared":
            moved_ns *= int(self.graph.weighted.sum())  # each stage has an equal part of the bandwidth
        return self._counted(node.name, compute_ns, moved_ns)

    def _counted(self, name: str, compute_ns: Sequence[float], moved_ns: float) -> BatchTicks:
        """Return times in whole ticks, rounded up. Raises SpecError above MOST_CYCLES ticks."""
        tick_ns = self.hardware.tick_ns
        if (longest_ns := max(*compute_ns, moved_ns)) > MOST_CYCLES * tick_ns:
            raise SpecError(
                f"hardware {self.hardware.name[:60]!r}",
                f"a step of {name[:60]!r} lasts {longest_ns:.4g} ns, more than {MOST_CYCLES} ticks of "
                f"{tick_ns:g} ns: give a longer tick_ns",
            )
        compute = tuple(max(1, math.ceil(time_ns / tick_ns * EXACTLY)) for time_ns in compute_ns)
        return BatchTicks(compute, moved_ns / tick_ns)
