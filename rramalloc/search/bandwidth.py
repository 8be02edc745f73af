"""Least latency when memory access lengthens the step: makespan * step_ns (MODEL.md 7 and 8).

More copies take fewer steps but move more bytes per step. The range of step times is cut into pieces;
within one piece every stage has at most the copies that the piece's longest step can feed.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from rramalloc.search.auto import solve as solve_makespan
from rramalloc.search.bound import Bounder
from rramalloc.search.problem import SECONDS_PER_WORK, Candidate, Problem, Stop
from rramalloc.timing.access import StepTime
from rramalloc.timing.simulate import Replication, makespan_of_each

_PIECES = 8
_FIRST_WORK = 4
_NARROWEST = 1.0005


def solve(problem: Problem, stop: Stop, seed: int) -> Candidate:
    """Minimise makespan * step_ns; the bound is in steps of the length of the allocation returned.

    Raises ValueError if the problem has no step time.
    """
    if problem.step_time is None:
        raise ValueError("the problem has no step time")
    search = _Search(problem, problem.step_time, stop, seed)
    search.run()
    return search.candidate()


@dataclass(order=True)
class _Piece:
    """Step times above `low` and up to `high`; bound_ns: no allocation with such a step is faster.

    work: units the search for its makespan was last given, 0 before the first.
    """

    bound_ns: float
    low: float = field(compare=False)
    high: float = field(compare=False)
    work: int = field(compare=False, default=0)


@dataclass(eq=False)
class _Search:
    problem: Problem
    step_time: StepTime
    stop: Stop
    seed: int
    spent_s: float = 0.0

    def __post_init__(self) -> None:
        self.best = self.problem.smallest.copy()
        self.shortest = self.step_time.step_ns(self.best)
        self.latency_ns = self._latency_ns(self.best)
        self.pieces: list[_Piece] = []

    def run(self) -> None:
        longest = max(self.shortest, self.step_time.step_ns(self.problem.largest))
        self._add(0.0, self.shortest)
        if longest > self.shortest:
            for low, high in pairwise(np.geomspace(self.shortest, longest, _PIECES + 1).tolist()):
                self._add(low, high)
        while self._open():
            piece = heapq.heappop(self.pieces)
            if piece.high > max(piece.low, self.shortest) * _NARROWEST:
                middle = math.sqrt(max(piece.low, self.shortest) * piece.high)
                self._explore(middle, _FIRST_WORK)
                self._add(piece.low, middle)
                self._add(middle, piece.high)
            else:
                self._deepen(piece)

    def candidate(self) -> Candidate:
        bound_ns = min(self.latency_ns, *(piece.bound_ns for piece in self.pieces))
        steps = math.ceil(bound_ns / self.step_time.step_ns(self.best) - 1e-6)
        proof = f"latency bound {bound_ns:.6g} ns over all step times, by branch and bound on each range"
        return Candidate(self.best, max(1, steps), proof, self.spent_s)

    def _open(self) -> bool:
        bound_ns = self.pieces[0].bound_ns
        close = self.latency_ns - bound_ns <= max(self.stop.gap, 1e-9) * self.latency_ns
        out_of_work = self.spent_s >= self.stop.work * SECONDS_PER_WORK
        return not (close or out_of_work or self.stop.out_of_time)

    def _add(self, low: float, high: float) -> None:
        """Bound a piece: makespan with the copies `high` can feed, times the shortest step in it."""
        limited = self._limited(high)
        if limited is not None:
            steps = Bounder(limited).root_bound()
            heapq.heappush(self.pieces, _Piece(steps * max(low, self.shortest), low, high))

    def _deepen(self, piece: _Piece) -> None:
        """Search a piece too narrow to cut with twice the work it had before."""
        piece.work = max(_FIRST_WORK, 2 * piece.work)
        found = self._explore(piece.high, piece.work)
        if found is not None:
            bound_ns = found.lower_bound * max(piece.low, self.shortest)
            piece.bound_ns = max(piece.bound_ns, bound_ns)
        heapq.heappush(self.pieces, piece)

    def _explore(self, step_ns: float, work: int) -> Candidate | None:
        """Search with the copies that a step of this length can feed."""
        limited = self._limited(step_ns)
        if limited is None:
            return None
        found = solve_makespan(limited, replace(self.stop, work=work, on_progress=None), self.seed)
        self.spent_s += max(found.seconds or 0.0, SECONDS_PER_WORK)
        latency_ns = self._latency_ns(found.replication)
        if latency_ns < self.latency_ns:
            self.best, self.latency_ns = found.replication, latency_ns
        return found

    def _limited(self, step_ns: float) -> Problem | None:
        """The problem with at most the copies that steps of `step_ns` allow each stage."""
        access, least = self.step_time.access_ns_per_copy, self.problem.smallest
        room = np.full(len(access), step_ns)
        if self.step_time.shared:
            room = step_ns - (float((access * least).sum()) - access * least)
        most = np.floor(room / np.maximum(access, 1e-300) * (1 + 1e-12))
        limit = np.minimum(most, self.problem.graph.windows).astype(np.int64)
        return None if (limit < least).any() else replace(self.problem, most=limit)

    def _latency_ns(self, replication: Replication) -> float:
        steps = int(makespan_of_each(self.problem.graph, replication[None, :])[0])
        return steps * self.step_time.step_ns(replication)
