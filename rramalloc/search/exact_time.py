"""ExactTime: the one door from modes and copies to makespan, interval and the length of a step.

Whatever a search, a method or a compiled kernel proposes is timed here before it is believed. The judge
(`allocation/check.py`) shares no code with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.mode import Mode, ModeOfEach
from rramalloc.ndarrays import Floats, Ints
from rramalloc.search.resources import Alternatives
from rramalloc.timing.access import StepTime, access_ns
from rramalloc.timing.kernel import NEXT_STEP, Shapes, batch_starts
from rramalloc.timing.simulate import Copies, ExactTiming, makespan_of_each, simulate
from rramalloc.timing.stage_graph import StageGraph

_TOGETHER = 4
"""Allocations with the same blocks from which on their windows are traced anew to time them in one call."""


@dataclass(frozen=True, eq=False)
class ExactTime:
    """Exact times of the allocations of one problem (docs/sources/model.md 4, 7, 10 and 11).

    graph: stages and edges; step_time: None if results are in steps; hardware: whose memory is read;
    alternatives: the kinds of arrays and the bits that stages choose from, None where there is one of each.
    """

    graph: StageGraph
    step_time: StepTime | None
    hardware: Hardware | None
    alternatives: Alternatives | None
    _access: dict[tuple[int, Mode], float] = field(default_factory=dict, repr=False)

    def makespans(self, copies: Copies, modes: ModeOfEach) -> Ints:
        """Return the makespan of every row of `copies`, int64 (k, n), all in the same modes."""
        graph = self.graph
        if modes == graph.modes:
            return makespan_of_each(graph, copies)
        if self.is_timed_together(len(copies)):
            return makespan_of_each(graph.in_modes(modes), copies)
        return np.array([self._of_extents(row, modes) for row in copies], dtype=np.int64)

    def is_timed_together(self, count: int) -> bool:
        """Return True if so many allocations in other modes than the graph's are timed in one call."""
        # A graph in blocks has the clocks of one alternative.
        return self.alternatives is None and count >= _TOGETHER

    def makespan(self, copies: Copies, modes: ModeOfEach) -> int:
        """Return the makespan of one allocation."""
        return int(self.makespans(copies[None, :], modes)[0])

    def _of_extents(self, copies: Copies, modes: ModeOfEach) -> int:
        """Return the makespan by the extents of edges, which no block has to be traced for."""
        graph = self.graph
        shapes = Shapes.of(
            tuple(grid.recut(mode.block) for grid, mode in zip(graph.grids, modes, strict=True))
        )
        batches = int((-(-shapes.total // copies)).sum())
        starts, first = np.empty(batches, dtype=np.int64), np.empty(len(copies) + 1, dtype=np.int64)
        ticks = graph.batch_ticks(copies, modes)
        return int(batch_starts(graph.flat_extents, shapes, ticks, copies, NEXT_STEP, starts, first))

    def timing(self, copies: Copies, modes: ModeOfEach) -> ExactTiming:
        """Return when every batch of an allocation starts."""
        return simulate(self.graph.in_modes(modes), copies)

    def total(self, stage: int, mode: Mode) -> int:
        """Return the number of blocks of this mode that cover the output of a stage."""
        return self.graph.grids[stage].recut(mode.block).total

    def lengths(self, copies: Copies, modes: ModeOfEach) -> Copies:
        """Return the steps or ticks of all batches of every stage, int64."""
        totals = [self.total(stage, mode) for stage, mode in enumerate(modes)]
        lengths: Copies = -(-np.array(totals, dtype=np.int64) // copies)
        return lengths * self.graph.batch_ticks(copies, modes)

    def interval(self, copies: Copies, modes: ModeOfEach) -> int:
        """Return the interval: the length of the longest stage, in steps or ticks."""
        return int(self.lengths(copies, modes).max())

    def access_ns(self, stage: int, modes: Sequence[Mode]) -> Floats:
        """Time that the memory needs in a step per copy in each of these modes."""
        return np.array([self._access_of(stage, mode) for mode in modes])

    def _access_of(self, stage: int, mode: Mode) -> float:
        step_time, hardware = self.step_time, self.hardware
        if step_time is None:
            return 0.0
        if hardware is None or mode == self.graph.modes[stage] or not step_time.access_ns_per_copy[stage]:
            return float(step_time.access_ns_per_copy[stage])
        key = self.graph.kinds[stage], mode  # equal stages move the same bytes
        if key not in self._access:
            node = mode.of_stage(self.graph.stages[stage])
            self._access[key] = access_ns(self.graph.network, node, mode.block, hardware)
        return self._access[key]

    def compute_ns(self, stage: int, modes: Sequence[Mode]) -> Floats:
        """Time of a common step that the bits of each of these variants take at least, 0 where all are equal.

        The arrays of a step read as many bits as the stage with the most.
        """
        if self.step_time is None or not self.step_time.by_bits or self.alternatives is None:
            return np.zeros(len(modes))
        return self.alternatives.compute_ns(stage, modes)

    def step_time_in(self, modes: ModeOfEach) -> StepTime:
        """Return the step time with these modes. Raises ValueError where no time is given."""
        if self.step_time is None:
            raise ValueError("the problem has no step time")
        if modes == self.graph.modes:
            return self.step_time
        access = [self._access_of(stage, mode) for stage, mode in enumerate(modes)]
        compute_ns = self.step_time.compute_ns
        if self.step_time.by_bits:
            each = (self.compute_ns(stage, [mode]) for stage, mode in enumerate(modes))
            compute_ns = max(compute_ns, *(float(own[0]) for own in each))
        return replace(self.step_time, compute_ns=compute_ns, access_ns_per_copy=np.array(access))

    def step_ns(self, copies: Copies, modes: ModeOfEach) -> float:
        """Return the length of a step or tick of an allocation [ns]. Raises ValueError without a time."""
        return self.step_time_in(modes).step_ns(copies)
