"""Exact timing of the allocations that a search tries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rramalloc.search.kernels.moves import State
from rramalloc.search.menu import Menu
from rramalloc.search.problem import Blocks, Candidate, Problem
from rramalloc.search.turns import TimedAllocation
from rramalloc.timing.kernel import NEXT_STEP, Shapes, batch_starts
from rramalloc.timing.simulate import Replication, makespan_of_each


@dataclass(eq=False)
class Timer:
    """Exact timing of allocations of one problem."""

    problem: Problem
    menu: Menu

    def allocation(self, state: State) -> TimedAllocation:
        """Return the allocation of a state of the search."""
        return self.of_blocks(self.menu.blocks_of(state), state.copies.copy())

    def of(self, candidate: Candidate) -> TimedAllocation:
        """Return the allocation that a search proposes."""
        return self.of_blocks(candidate.blocks or self.problem.graph.blocks, candidate.replication)

    def of_blocks(self, blocks: Blocks, copies: Replication) -> TimedAllocation:
        """Return an allocation with its makespan and arrays."""
        graph = self.problem.graph
        if self.problem.one_block:
            return TimedAllocation.of_copies(self.problem, copies)
        shapes = Shapes.of(tuple(grid.recut(block) for grid, block in zip(graph.grids, blocks, strict=True)))
        batches = int((-(-shapes.total // copies)).sum())
        starts, first = np.empty(batches, dtype=np.int64), np.empty(len(copies) + 1, dtype=np.int64)
        ticks = graph.batch_ticks(copies, blocks)
        makespan = int(batch_starts(graph.flat_extents, shapes, ticks, copies, NEXT_STEP, starts, first))
        return TimedAllocation(blocks, copies, makespan, self.problem.arrays(copies, blocks))

    def each(self, blocks: Blocks, copies: Sequence[Replication]) -> Iterator[TimedAllocation]:
        """Allocations with the same blocks, timed together."""
        if copies:
            graph = self.problem.graph.in_blocks(blocks)
            makespans = makespan_of_each(graph, np.array(copies, dtype=np.int64)).tolist()
            for row, makespan in zip(copies, makespans, strict=True):
                yield TimedAllocation(blocks, row, makespan, self.problem.arrays(row, blocks))
