"""The upper side of `auto`: rebalancing, annealing and climbing on the exact makespan.

`Improver` rebalances and anneals in turns, each going on from the incumbent. `climb_up` is the steepest climb
from the fewest copies: one move after the other, always the one that saves most of the exact makespan per
array.
A move gives one stage the fewest copies that save it a batch, or does so for all stages with most batches.
Only stages on a chain of batches that wait for each other from step 0 to the end can lower the makespan
alone, so only those are tried. Where no move lowers it, because stages wait for each other: all stages with
most batches, if that fits, else the stage whose part of the chain shrinks most per array.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rramalloc.search.archive import NO_SLOTS, Slots
from rramalloc.search.kernels.anneal import Cooling, anneal, generator
from rramalloc.search.kernels.climb import climb
from rramalloc.search.kernels.rebalance import rebalance
from rramalloc.search.problem import Problem, Stop
from rramalloc.search.turns import TimedAllocation
from rramalloc.timing.simulate import Replication

_NS_PER_BATCH = 3.0
_NS_PER_STAGE = 100.0
_WARMTH = ((0.02, 0.0005), (0.006, 0.0002), (0.002, 0.0001))
"""First and last temperature of successive runs, as fractions of the makespan."""
_ROUNDS = 30
_SPREADS = (0.0, 0.1, 0.3, 0.6)
"""How far a start is perturbed: copies are multiplied by 1 - spread ... 1 + spread."""
_S_PER_CLIMBED_BATCH = 4e-9
_SMALLEST_COUNT_S, _FAILED_COUNT_S = 1e-4, 1e-3
"""Least time of a trial, and that of one whose allocations all miss the budget."""


@dataclass(eq=False)
class Improver:
    """The `UpperSide` of one problem: rebalances perturbed starts, then anneals.

    slots: of an archive that keeps what is fastest for its number of arrays on the way;
    guides: other allocations to start from now and then, such as the corners of boxes.
    """

    problem: Problem
    seed: int
    slots: Slots = NO_SLOTS
    guides: list[Replication] = field(default_factory=list)
    _walk: TimedAllocation | None = None
    _starts: int = 0
    _runs: int = 0

    def __post_init__(self) -> None:
        self._state = generator(self.seed)
        self._draw = np.random.Generator(np.random.PCG64(self.seed))

    def run(
        self, best: TimedAllocation, enough: int, seconds: float, stop: Stop
    ) -> tuple[TimedAllocation, float]:
        """As `UpperSide.run`; each half takes about `seconds`."""
        spent = 0.0
        while spent < seconds and best.makespan > enough and not stop.out_of_time:
            candidate, took = self._rebalance(self._start(best))
            spent += max(took, _SMALLEST_COUNT_S)
            if candidate is not None and candidate.key < best.key:
                best = candidate
        if best.makespan > enough and not stop.out_of_time:
            walk = self._walk
            start = best if walk is None or walk.makespan > best.makespan else walk
            self._walk, took = self._anneal(start.copies, enough, seconds)
            spent += max(took, _SMALLEST_COUNT_S)
            best = min(best, self._walk, key=lambda each: each.key)
        return best, spent

    def _start(self, best: TimedAllocation) -> Replication:
        """The best and the first guide as they are, then those and other guides perturbed."""
        self._starts += 1
        start = best.copies
        if self._starts % 3 == 1 and self.guides:
            start = self.guides[self._starts // 3 % len(self.guides)]
        return self._perturbed(start) if self._starts > 2 else start

    def _perturbed(self, start: Replication) -> Replication:
        """Every stage's copies changed by a random factor."""
        spread = _SPREADS[int(self._draw.integers(len(_SPREADS)))]
        factor = 1 - spread + 2 * spread * self._draw.random(len(start))
        copies = np.floor(start * factor + 0.5).astype(np.int64)
        return np.minimum(np.maximum(copies, self.problem.smallest), self.problem.largest)

    def _rebalance(self, start: Replication) -> tuple[TimedAllocation | None, float]:
        """Best allocation on the way to a balance of all stages' slack, and seconds; None if none fits."""
        best, problem = start.copy(), self.problem
        damping = 1 + int(self._draw.integers(4))
        makespan, batches = rebalance(
            problem.graph.flat_binding, problem.limits, _ROUNDS, damping, start.copy(), best, self.slots
        )
        stages = len(start) * _ROUNDS * 30
        seconds = 1e-9 * (4 * _NS_PER_BATCH * float(batches) * self._degree + 4 * stages)
        if not makespan:
            return None, _FAILED_COUNT_S
        return TimedAllocation.of_copies(problem, best, makespan), seconds

    def _anneal(self, start: Replication, enough: int, seconds: float) -> tuple[TimedAllocation, float]:
        """Best allocation on a walk, and seconds; ends early at `enough` steps."""
        batches = float((-(-self.problem.graph.windows // start)).sum())
        each = 1e-9 * (_NS_PER_BATCH * batches * self._degree + _NS_PER_STAGE * len(start))
        rounds = max(50, int(seconds / each))
        hot, cold = _WARMTH[self._runs % len(_WARMTH)]
        self._runs += 1
        best = start.copy()
        cooling = Cooling(rounds, hot, cold, enough)
        graph, limits = self.problem.graph.flat_binding, self.problem.limits
        makespan = anneal(graph, limits, cooling, self._state, start.copy(), best, self.slots)
        return TimedAllocation.of_copies(self.problem, best, makespan), rounds * each

    @property
    def _degree(self) -> float:
        """Mean number of producers of a stage, at least 1."""
        return max(1.0, len(self.problem.graph.binding) / len(self.problem.graph.stages))


@dataclass(frozen=True, slots=True, eq=False)
class Climb:
    """The fastest allocation on a way up; seconds: of a reference core; ended: whether no move was left."""

    replication: Replication
    seconds: float
    ended: bool


def climb_up(problem: Problem, seconds: float) -> Climb:
    """Climb from the fewest copies until no move fits the budget, or for about so many seconds of work.

    Tiles are not looked at: with a chip the allocation may have to be repaired.
    """
    allowed = int(seconds / _S_PER_CLIMBED_BATCH)
    best = problem.smallest.copy()
    work = climb(problem.graph.flat_binding, problem.limits, allowed, problem.smallest.copy(), best)
    return Climb(best, _S_PER_CLIMBED_BATCH * work, work < allowed)
