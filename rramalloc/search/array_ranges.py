"""Least value of what rises with arrays and with time, by pieces of the range of arrays.

More arrays take less time, but leak more, and take longer to write (docs/sources/model.md 8, 12 and 13). The
range of arrays is cut into pieces; an allocation in a piece has at least its fewest arrays, and is not faster
than the bound of the time with its most arrays. Pieces are cut or searched on, the one with the smallest
bound first, until the bounds of all reach the best value, or the work is used up.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.search.polish import Rows, descend
from rramalloc.search.problem import SECONDS_PER_WORK, Candidate, Problem, Stop
from rramalloc.timing.simulate import ExactTiming, Replication, simulate

_FIRST_WORK = 2
_STEP_TIMES = 10
_ROUNDING = 1e-9


class FasterThan(NamedTuple):
    """An allocation that takes little time, and a time in ns that none within the budget undercuts."""

    candidate: Candidate
    bound_ns: float


Fastest = Callable[[Problem, int], FasterThan]
"""A search for the least time of a problem, for so many units of work."""


@dataclass(order=True)
class _ArrayRange:
    """Arrays above `low` and up to `high`; bound: of the objective of every allocation with so many."""

    bound: float
    low: int = field(compare=False)
    high: int = field(compare=False)


@dataclass(eq=False)
class ArrayRangeSearch:
    """Minimises a value that rises with arrays and time.

    value: exact, of an allocation; floor: bound of the value with at least so many arrays and so much time;
    fastest: search for the least time.
    """

    problem: Problem
    stop: Stop
    value: Callable[[ExactTiming], float]
    floor: Callable[[int, float], float]
    fastest: Fastest
    spent_s: float = 0.0
    best: Candidate | None = None
    best_key: tuple[float, int, list[int]] = (math.inf, 0, [])

    def __post_init__(self) -> None:
        self.pieces: list[_ArrayRange] = []
        self.closed: list[_ArrayRange] = []
        self._work: dict[int, int] = {}
        self._bound_ns: dict[int, float] = {}

    def run(self) -> Candidate:
        """The best allocation; its `objective_bound` is of the value."""
        self._keep(self.problem.smallest.copy(), None)
        self._search(self.problem.budget, _FIRST_WORK)
        self._add(self.problem.minimum - 1, self.problem.budget)
        while self.pieces and self.stop.is_open(self.best_key[0], self.pieces[0].bound, self.spent_s):
            piece = heapq.heappop(self.pieces)
            if self._is_wide(piece):
                middle = self._middle(piece)
                self._search(middle, _FIRST_WORK)
                self._add(piece.low, middle)
                self._add(middle, piece.high)
            elif self._work[piece.high] >= max(self.stop.work, _FIRST_WORK):
                self.closed.append(piece)
            else:
                self._search(piece.high, 2 * self._work[piece.high])
                self._add(piece.low, piece.high)
        if self.best is None:
            raise AssertionError("one copy of every stage fits")
        bound = min([self.best_key[0], *(piece.bound for piece in [*self.pieces, *self.closed])])
        proof = "bound over all numbers of arrays, by branch and bound on ranges of them"
        return replace(
            self.best, lower_bound=1, proof=proof, seconds=self.spent_s, objective_bound=bound, repaired=False
        )

    def _is_wide(self, piece: _ArrayRange) -> bool:
        """Whether cutting a piece helps: its bound with the most arrays is as good as the best, or better."""
        if piece.high <= piece.low + 1:
            return False
        most = self.floor(piece.high, self._bound_ns[piece.high])
        if most <= piece.bound * (1 + _ROUNDING):
            return False
        by_width, by_time = most - piece.bound, max(0.0, self.best_key[0] - most)
        return by_width >= by_time or self._work[piece.high] >= self.stop.work

    def _middle(self, piece: _ArrayRange) -> int:
        middle = math.isqrt((piece.low + 1) * piece.high)
        return min(max(middle, piece.low + 1), piece.high - 1)

    def _add(self, low: int, high: int) -> None:
        heapq.heappush(self.pieces, _ArrayRange(self.floor(low + 1, self._bound_ns[high]), low, high))

    def _search(self, arrays: int, work: int) -> None:
        """Search for the least time with so many arrays; its bound holds for all with fewer."""
        candidate, bound_ns = self.fastest(replace(self.problem, budget=arrays), work)
        step_time = self.problem.step_time
        several = step_time is not None and step_time.moves  # a search for every range of step times
        least_s = SECONDS_PER_WORK * (_STEP_TIMES if several else 1)
        self.spent_s += max(candidate.seconds or 0.0, least_s)
        self._work[arrays] = work
        self._bound_ns[arrays] = max(bound_ns, self._bound_ns.get(arrays, 0.0))
        if self.problem.holds(candidate.replication, candidate.blocks):
            self._keep(candidate.replication, candidate)

    def _keep(self, replication: Replication, candidate: Candidate | None) -> None:
        blocks = None if candidate is None else candidate.blocks
        if blocks is None and not self.problem.on_menu:
            left_s = self.stop.work_s - self.spent_s
            replication, seconds = descend(self.problem, self._values, replication, self.stop, left_s)
            self.spent_s += seconds
        timing = simulate(self.problem.in_blocks(blocks).graph, replication)
        arrays = self.problem.arrays(replication, timing.graph.blocks)
        key = (self.value(timing), arrays, replication.tolist())
        if key < self.best_key:
            self.best, self.best_key = Candidate(replication, 1, "", blocks=blocks), key

    def _values(self, rows: Rows) -> npt.NDArray[np.float64]:
        return np.array([self.value(simulate(self.problem.graph, row)) for row in rows])
