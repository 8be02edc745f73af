"""Local search: rebalancing and annealing on the exact makespan."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rramalloc.search.archive import NO_SLOTS, Slots
from rramalloc.search.local_kernel import anneal
from rramalloc.search.problem import Problem
from rramalloc.search.rebalance_kernel import rebalance
from rramalloc.timing.simulate import Replication

_NS_PER_BATCH = 3.0
_NS_PER_STAGE = 100.0
_WARMTH = ((0.02, 0.0005), (0.006, 0.0002), (0.002, 0.0001))
"""First and last temperature of successive runs, as fractions of the makespan."""
_ROUNDS = 30
_SPREADS = (0.0, 0.1, 0.3, 0.6)
"""How far a start is shaken: copies are multiplied by 1 - spread ... 1 + spread."""


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """An allocation, its makespan, and the seconds of a reference core it took to find."""

    replication: Replication
    makespan: int
    seconds: float


@dataclass(eq=False)
class LocalSearch:
    """Improves allocations of one problem; what it draws goes on from call to call.

    slots: of an archive that keeps what is fastest for its number of arrays on the way.
    """

    problem: Problem
    seed: int
    slots: Slots = NO_SLOTS
    _state: npt.NDArray[np.uint64] = field(init=False)
    _draw: np.random.Generator = field(init=False)
    _runs: int = 0

    def __post_init__(self) -> None:
        mixed = (self.seed * 0x9E3779B97F4A7C15 + 0xD1B54A32D192ED03) % 2**64 or 1
        self._state = np.array([mixed], dtype=np.uint64)
        self._draw = np.random.Generator(np.random.PCG64(self.seed))

    def shaken(self, start: Replication) -> Replication:
        """A start near another one: every stage's copies changed by a random factor."""
        spread = _SPREADS[int(self._draw.integers(len(_SPREADS)))]
        factor = 1 - spread + 2 * spread * self._draw.random(len(start))
        copies = np.floor(start * factor + 0.5).astype(np.int64)
        return np.minimum(np.maximum(copies, self.problem.smallest), self.problem.largest)

    def rebalanced(self, start: Replication) -> Found | None:
        """Best allocation on the way to a balance of all stages' slack; None if none fits the budget."""
        best = start.copy()
        damping = 1 + int(self._draw.integers(4))
        makespan, batches = rebalance(
            *self._limits, 1, start.copy(), _ROUNDS, damping, best, self.slots,
        )  # fmt: skip
        stages = len(start) * _ROUNDS * 30
        seconds = 1e-9 * (4 * _NS_PER_BATCH * float(batches) * self._degree + 4 * stages)
        return Found(best, int(makespan), seconds) if makespan else None

    def annealed(self, start: Replication, seconds: float, target: int) -> Found:
        """Best allocation found from `start`; ends early when `target` is met."""
        batches = float((-(-self.problem.graph.windows // start)).sum())
        each = 1e-9 * (_NS_PER_BATCH * batches * self._degree + _NS_PER_STAGE * len(start))
        rounds = max(50, int(seconds / each))
        hot, cold = _WARMTH[self._runs % len(_WARMTH)]
        self._runs += 1
        best = start.copy()
        makespan = anneal(
            *self._limits, 1, start.copy(), rounds, hot, cold, target, self._state, best, self.slots,
        )  # fmt: skip
        return Found(best, int(makespan), rounds * each)

    @property
    def _limits(self) -> tuple[Any, Any, Any, Any, Any, Any]:
        """The problem as the kernels take it."""
        problem = self.problem
        return (
            self._graph, problem.demand, problem.budget, problem.packing, problem.smallest, problem.largest,
        )  # fmt: skip

    @property
    def _graph(self) -> tuple[npt.NDArray[np.generic], ...]:
        return (self.problem.graph.windows, *self.problem.graph.flat_binding)

    @property
    def _degree(self) -> float:
        """Mean number of producers of a stage, at least 1."""
        return max(1.0, len(self.problem.graph.binding) / len(self.problem.graph.stages))
