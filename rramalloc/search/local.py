"""Local search: annealing on the exact makespan from one or more starting allocations."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rramalloc.search.local_kernel import anneal
from rramalloc.search.problem import Problem
from rramalloc.timing.simulate import Replication

_NS_PER_BATCH = 3.0
_WARMTH = ((0.02, 0.0005), (0.006, 0.0002), (0.002, 0.0001))
"""First and last temperature of successive runs, as fractions of the makespan."""


@dataclass(eq=False)
class Annealer:
    """Improves allocations of one problem; the generator's state goes on from run to run."""

    problem: Problem
    seed: int
    _state: npt.NDArray[np.uint64] = field(init=False)
    _runs: int = 0

    def __post_init__(self) -> None:
        mixed = (self.seed * 0x9E3779B97F4A7C15 + 0xD1B54A32D192ED03) % 2**64 or 1
        self._state = np.array([mixed], dtype=np.uint64)

    def round_seconds(self, replication: Replication) -> float:
        """Estimated seconds per round near an allocation, the same on every machine."""
        batches = -(-self.problem.graph.windows // replication)
        degree = np.maximum(np.diff(self.problem.graph.flat_binding.pointer), 1)
        return 1e-9 * _NS_PER_BATCH * float((batches * degree).sum()) + 1e-7 * len(batches)

    def improve(self, start: Replication, rounds: int, target: int) -> tuple[Replication, int]:
        """Best allocation found from `start` and its makespan; ends early when `target` is met."""
        graph = self.problem.graph
        hot, cold = _WARMTH[self._runs % len(_WARMTH)]
        self._runs += 1
        best = start.copy()
        makespan = anneal(
            (graph.windows, *graph.flat_binding), self.problem.demand, self.problem.budget,
            self.problem.smallest, self.problem.largest, 1, start.copy(), rounds, hot, cold, target,
            self._state, best,
        )  # fmt: skip
        return best, int(makespan)
