"""Step time and memory access: from steps to nanoseconds (docs/sources/model.md 7)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.modes import input_extent, input_step
from rramalloc.network.geometry import Pair
from rramalloc.network.network import Network
from rramalloc.network.node import Stage, TimedNode
from rramalloc.rounding import SAME_PRODUCT
from rramalloc.timing.measured_steps import MeasuredSteps
from rramalloc.timing.simulate import ExactTiming, Replication
from rramalloc.timing.stage_graph import StageGraph

BITS_PER_BYTE = 8  # bandwidths are in bytes, precisions in bits
_NO_ACCESS = 1e-200  # ns: divisor for stages without access, whose quotient then exceeds every limit
_MANY = 2.0**40


@dataclass(frozen=True, eq=False)
class Transfer:
    """Time that each stage's outputs of a step need to reach their readers' tiles: fixed + copies * per copy.

    fixed_ns, ns_per_copy: float64 of length n, as one placement has them.
    """

    fixed_ns: npt.NDArray[np.float64]
    ns_per_copy: npt.NDArray[np.float64]

    def of_stages(self, replication: Replication) -> npt.NDArray[np.float64]:
        """Transfer time of every stage in ns."""
        return self.fixed_ns + self.ns_per_copy * replication


@dataclass(frozen=True, eq=False)
class StepTime:
    """Length of a step for any allocation of one network on one hardware.

    compute_ns: time a step takes at least, that of the slowest stage; access_ns_per_copy: float64 of length
    n, time the memory needs per copy of each stage (0 without a memory description); shared: all stages
    share the bandwidth; transfer: between tiles, beside the memory's access, None where the placement is
    left open; by_bits: whether stages choose bits on which the length depends.
    """

    compute_ns: float
    access_ns_per_copy: npt.NDArray[np.float64]
    shared: bool
    transfer: Transfer | None = None
    by_bits: bool = False

    @classmethod
    def of(
        cls, graph: StageGraph, hardware: Hardware, measured: MeasuredSteps | None = None
    ) -> StepTime | None:
        """None if neither the hardware nor a measurement says anything of time: results are then in steps.

        measured: step times of all stages, instead of those of the hardware. Where stages have their own
        clocks a step is a tick.
        """
        if hardware.own_clock:
            return cls(hardware.tick_ns, _access_ns_per_copy(graph, hardware), shared=False)
        if measured is not None:
            compute_ns = measured.longest_ns
        elif hardware.compute_ns is not None:
            compute_ns = max(hardware.of_layer(stage).compute_ns or 0.0 for stage in graph.stages)
        else:
            return None
        shared = hardware.memory is not None and hardware.memory.scope == "shared"
        return cls(compute_ns, _access_ns_per_copy(graph, hardware), shared)

    def in_blocks(self, graph: StageGraph, hardware: Hardware) -> StepTime:
        """Return the step time of the same stages in the blocks of `graph`."""
        return replace(self, access_ns_per_copy=_access_ns_per_copy(graph, hardware))

    @property
    def moves(self) -> bool:
        """Whether the length of a step depends on the copies."""
        carried = self.transfer is not None and bool(self.transfer.ns_per_copy.any())
        return carried or self.by_bits or bool(self.access_ns_per_copy.any())

    @property
    def depends_on_copies(self) -> bool:
        """Whether two allocations may differ in the length of a step, or in what a placement adds to it."""
        return self.moves or self.transfer is not None

    def step_ns(self, replication: Replication) -> float:
        """Length of one step in ns; more copies move more bytes per step."""
        access = self.access_ns_per_copy * replication
        carried = 0.0 if self.transfer is None else float(self.transfer.of_stages(replication).max())
        return max(self.compute_ns, carried, float(access.sum() if self.shared else access.max()))

    def alone_ns(
        self, stages: npt.NDArray[np.int64], copies: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float64]:
        """Return the length of a step of each of these stages with `copies` while no other stage runs."""
        own = np.maximum(self.access_ns_per_copy[stages] * copies, self.compute_ns)
        if self.transfer is None:
            return own
        carried = self.transfer.fixed_ns[stages] + self.transfer.ns_per_copy[stages] * copies
        return np.maximum(own, carried)

    def most_copies(self, step_ns: float, least: Replication) -> Replication:
        """Return the copies that a step of `step_ns` can feed while all other stages have at least `least`.

        Below `least` where not even that can be fed; with a shared bandwidth a stage's limit supposes that
        the others stay at `least`, so all limits together need not be reachable.
        """
        room = np.full(len(self.access_ns_per_copy), step_ns)
        if self.shared:
            taken = self.access_ns_per_copy * least
            room = step_ns - (float(taken.sum()) - taken)
        copies = np.floor(room / np.maximum(self.access_ns_per_copy, _NO_ACCESS) * (1 + SAME_PRODUCT))
        if self.transfer is not None:
            room = step_ns * (1 + SAME_PRODUCT) - self.transfer.fixed_ns
            carried = np.floor(room / np.maximum(self.transfer.ns_per_copy, _NO_ACCESS) * (1 + SAME_PRODUCT))
            copies = np.minimum(copies, np.where(room < 0, 0, carried))
        return np.minimum(np.maximum(copies, 0), _MANY).astype(np.int64)


class Absolute(NamedTuple):
    """An allocation's timing outside the model's steps; None where the hardware says nothing of time.

    tick_ns: instead of step_ns where stages have their own clocks.
    """

    step_ns: float | None
    latency_ns: float | None
    throughput_per_s: float | None
    tick_ns: float | None = None

    @classmethod
    def of(cls, step_time: StepTime | None, timing: ExactTiming) -> Absolute:
        """Latency = makespan * step, throughput = 1 / (interval * step).  Source: docs/sources/model.md 7."""
        if step_time is None:
            return cls(None, None, None)
        step_ns = step_time.step_ns(timing.replication)
        latency_ns, throughput_per_s = timing.makespan * step_ns, 1e9 / (timing.interval * step_ns)
        if timing.graph.unit == "steps":
            return cls(step_ns, latency_ns, throughput_per_s)
        return cls(None, latency_ns, throughput_per_s, tick_ns=step_ns)


def _access_ns_per_copy(graph: StageGraph, hardware: Hardware) -> npt.NDArray[np.float64]:
    """Time the memory needs per copy of each stage and step, 0 without a memory description.

    Also where stages have their own clocks: their batches take that time, and ticks are always as long.
    """
    if hardware.memory is None or hardware.own_clock:
        return np.zeros(len(graph.stages))
    each = zip(graph.stages, graph.blocks, strict=True)
    return np.array([access_ns(graph.network, stage, block, hardware) for stage, block in each])


def access_ns(network: Network, stage: TimedNode, block: Pair, hardware: Hardware) -> float:
    """Time that the whole bandwidth of the memory needs for a step of one copy, 0 without a memory."""
    if hardware.memory is None:
        return 0.0
    return bytes_of_block(network, stage, block, hardware) / hardware.memory.bandwidth_gb_s


def bytes_of_block(network: Network, stage: TimedNode, block: Pair, hardware: Hardware) -> float:
    """Bytes that one copy of a stage reads and writes per step, for a block of windows; 0 of a digital node.

    Reuse "none" reads the whole parallel window, "row" what it has not read for the block to its left.
    Source: docs/sources/model.md 7 and 10. Raises ValueError if the hardware has no memory description.
    """
    if hardware.memory is None:
        raise ValueError("the hardware has no [memory]")
    if not isinstance(stage, Stage):
        return 0.0
    source, output = network.input_shape(stage), network.shapes[stage.name]
    high, wide = (input_extent(stage, axis, block[axis]) for axis in (0, 1))
    match hardware.memory.reuse:
        case "none":
            values = float(high * wide * source.channels)
        case "row":
            values = float(high * min(input_step(stage, 1, block[1]), wide) * source.channels)
        case "full":
            values = source.pixels * source.channels / output.pixels * block[0] * block[1]
    precision = hardware.precision.of_layer(stage)
    read = values * precision.input_bits / BITS_PER_BYTE
    return read + block[0] * block[1] * output.channels * precision.output_bits / BITS_PER_BYTE
