"""Results that the two sides of a search exchange after every turn: allocations, and lower bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rramalloc.search.problem import Blocks, Problem
from rramalloc.search.work import Work
from rramalloc.timing.simulate import ExactTiming, Replication, makespan_of


@dataclass(frozen=True, slots=True, eq=False)
class TimedAllocation:
    """Blocks and copies of every stage, the exact makespan, and the arrays that they use."""

    blocks: Blocks
    copies: Replication
    makespan: int
    arrays: int

    @classmethod
    def of_copies(cls, problem: Problem, copies: Replication, makespan: int | None = None) -> TimedAllocation:
        """Return copies of the graph's blocks; makespan: theirs if it is known."""
        graph = problem.graph
        makespan = makespan_of(graph, copies) if makespan is None else int(makespan)
        return cls(graph.blocks, copies.copy(), makespan, problem.arrays(copies))

    @classmethod
    def of_timing(cls, problem: Problem, timing: ExactTiming) -> TimedAllocation:
        """Return an allocation that was simulated."""
        blocks, copies = timing.graph.blocks, timing.replication
        return cls(blocks, copies, timing.makespan, problem.arrays(copies, blocks))

    @property
    def identity(self) -> bytes:
        """Key that distinguishes it from all others of its problem."""
        return np.array(self.blocks).tobytes() + self.copies.tobytes()

    @property
    def key(self) -> tuple[int, int]:
        """Faster ones first, of equals those with fewer arrays."""
        return self.makespan, self.arrays


@dataclass(frozen=True, slots=True, eq=False)
class ProofTurn:
    """Result of one proof turn: the bound, and allocations worth a look."""

    bound: int
    found: tuple[TimedAllocation, ...]


class LowerSide(Protocol):
    """Raises the lower bound; what it has learnt of a target stays from turn to turn."""

    @property
    def nodes(self) -> int:
        """Boxes looked at so far."""
        ...

    @property
    def first_s(self) -> float:
        """Seconds that the first target takes at least, counted."""
        ...

    def root(self, known: int, makespan: int, stop: Work) -> tuple[int, tuple[TimedAllocation, ...]]:
        """Return a first bound, and allocations to start from that need not fit.

        known, makespan: lower bound and makespan to begin with.
        """
        ...

    def run(self, bound: int, makespan: int, seconds: float, left_s: float, stop: Work) -> ProofTurn:
        """Work for about `seconds` on targets from `bound` to below `makespan`.

        left_s: seconds of work that the whole search has left; stop: is charged for what is done. Same calls,
        same answer.
        """
        ...
