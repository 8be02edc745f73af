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
from rramalloc.timing.simulate import Copies, ExactTiming
from rramalloc.timing.stage_graph import StageGraph

BITS_PER_BYTE = 8  # bandwidths are in bytes, precisions in bits
_NO_ACCESS = 1e-200  # ns: divisor for stages without access, whose quotient then exceeds every limit
_MANY = 2.0**40  # copies where nothing limits them: above any number of windows, and exact as int64


@dataclass(frozen=True, eq=False)
class Transfer:
    """Transfer time of each stage's outputs of a step to the tiles of its readers: fixed + copies * per copy.

    fixed_ns, ns_per_copy: float64 of length n, of one placement.
    """

    fixed_ns: npt.NDArray[np.float64]
    ns_per_copy: npt.NDArray[np.float64]

    def of_stages(self, copies: Copies) -> npt.NDArray[np.float64]:
        """Return the transfer time of every stage with these copies [ns]."""
        return self.fixed_ns + self.ns_per_copy * copies


@dataclass(frozen=True, eq=False)
class StepTime:
    """Length of a step for any allocation of one network on one hardware.

    compute_ns: lower bound of a step, the arrays' time of the slowest stage; access_ns_per_copy: float64 of
    length n, time of the memory per copy of each stage (0 without a memory description); shared: whether
    all stages share the bandwidth; transfer: between tiles, at the same time as the access, None without a
    placement; by_bits: whether the length depends on bits that stages choose.
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
        """Return the step time; None if neither hardware nor measurement gives one: results are in steps.

        measured: step times of all stages, in place of the hardware's. With own clocks a step is a tick.
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

    def in_modes(self, graph: StageGraph, hardware: Hardware) -> StepTime:
        """Return the step time of the same stages with the access that the blocks of `graph` need."""
        return replace(self, access_ns_per_copy=_access_ns_per_copy(graph, hardware))

    @property
    def moves(self) -> bool:
        """Whether the length of a step depends on the copies."""
        carried = self.transfer is not None and bool(self.transfer.ns_per_copy.any())
        return carried or self.by_bits or bool(self.access_ns_per_copy.any())

    @property
    def depends_on_copies(self) -> bool:
        """Whether two allocations may differ in the length of a step, also by the transfer of a placement."""
        return self.moves or self.transfer is not None

    def step_ns(self, copies: Copies) -> float:
        """Return the length of a step [ns]: the longest of computing, transfer and access, which overlap."""
        access = self.access_ns_per_copy * copies
        carried = 0.0 if self.transfer is None else float(self.transfer.of_stages(copies).max())
        return max(self.compute_ns, carried, float(access.sum() if self.shared else access.max()))

    def alone_ns(
        self, stages: npt.NDArray[np.int64], copies: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float64]:
        """Return the length of a step [ns] of each of these stages with `copies` if no other stage runs."""
        alone = np.maximum(self.access_ns_per_copy[stages] * copies, self.compute_ns)
        if self.transfer is None:
            return alone
        carried = self.transfer.fixed_ns[stages] + self.transfer.ns_per_copy[stages] * copies
        return np.maximum(alone, carried)

    def most_copies(self, step_ns: float, least: Copies) -> Copies:
        """Return the most copies of each stage that a step of `step_ns` can feed if all others have `least`.

        It is below `least` where that cannot be fed either. With a shared bandwidth the limit of a stage
        leaves the others `least` copies, so all stages together may not reach their limits.
        """
        room = np.full(len(self.access_ns_per_copy), step_ns)
        if self.shared:
            taken = self.access_ns_per_copy * least
            room = step_ns - (float(taken.sum()) - taken)
        # SAME_PRODUCT lets a step keep to the limit that was computed from its own product.
        copies = np.floor(room / np.maximum(self.access_ns_per_copy, _NO_ACCESS) * (1 + SAME_PRODUCT))
        if self.transfer is not None:
            room = step_ns * (1 + SAME_PRODUCT) - self.transfer.fixed_ns
            carried = np.floor(room / np.maximum(self.transfer.ns_per_copy, _NO_ACCESS) * (1 + SAME_PRODUCT))
            copies = np.minimum(copies, np.where(room < 0, 0, carried))
        return np.minimum(np.maximum(copies, 0), _MANY).astype(np.int64)


class Absolute(NamedTuple):
    """Timing of an allocation in ns; None where the hardware gives no time.

    tick_ns: in place of step_ns where stages have their own clocks.
    """

    step_ns: float | None
    latency_ns: float | None
    throughput_per_s: float | None
    tick_ns: float | None = None

    @property
    def unit_ns(self) -> float | None:
        """Length of a step or tick."""
        return self.step_ns or self.tick_ns

    @classmethod
    def of(cls, step_time: StepTime | None, timing: ExactTiming) -> Absolute:
        """Return latency makespan * step and throughput 1 / (interval * step): docs/sources/model.md 7."""
        if step_time is None:
            return cls(None, None, None)
        step_ns = step_time.step_ns(timing.copies)
        latency_ns, throughput_per_s = timing.makespan * step_ns, 1e9 / (timing.period * step_ns)
        if timing.graph.unit == "steps":
            return cls(step_ns, latency_ns, throughput_per_s)
        return cls(None, latency_ns, throughput_per_s, tick_ns=step_ns)


def _access_ns_per_copy(graph: StageGraph, hardware: Hardware) -> npt.NDArray[np.float64]:
    """Return the time of the memory per copy of each stage in a common step [ns].

    0 without a memory description, and with own clocks: there each batch takes the time of its own access,
    and the length of a tick is fixed.
    """
    if hardware.memory is None or hardware.own_clock:
        return np.zeros(len(graph.stages))
    pairs = zip(graph.stages, graph.blocks, strict=True)
    return np.array([access_ns(graph.network, stage, block, hardware) for stage, block in pairs])


def access_ns(network: Network, stage: TimedNode, block: Pair, hardware: Hardware) -> float:
    """Return the time of a step of one copy at the whole bandwidth of the memory [ns], 0 without one."""
    if hardware.memory is None:
        return 0.0
    return bytes_of_block(network, stage, block, hardware) / hardware.memory.bandwidth_gb_s


def bytes_of_block(network: Network, stage: TimedNode, block: Pair, hardware: Hardware) -> float:
    """Return the bytes that one copy reads and writes in a step with this block; 0 of a digital node.

    Reuse "none" reads the whole parallel window, "row" the columns that the block to its left has not read,
    "full" every input once.
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
            # A step beyond the width of the parallel window leaves no column to reuse.
            values = float(high * min(input_step(stage, 1, block[1]), wide) * source.channels)
        case "full":
            values = source.pixels * source.channels / output.pixels * block[0] * block[1]
    precision = hardware.precision.of_layer(stage)
    read = values * precision.input_bits / BITS_PER_BYTE
    return read + block[0] * block[1] * output.channels * precision.output_bits / BITS_PER_BYTE
