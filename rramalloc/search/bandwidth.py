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
from rramalloc.search.polish import polished
from rramalloc.search.problem import SECONDS_PER_WORK, Candidate, Problem, Stop
from rramalloc.timing.access import StepTime
from rramalloc.timing.simulate import Replication, makespan_of

_PIECES = 8
_FIRST_WORK = 4
_NARROWEST = 1.0005
_WORTH_POLISHING = 1.2
_SECONDS_PER_POLISH = 5e-7
_PARTS = 2**30


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
        self._keep(self.best)
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
        steps = math.floor(bound_ns / self.step_time.step_ns(self.best) + 1e-9)
        proof = f"latency bound {bound_ns:.6g} ns over all step times, by branch and bound on each range"
        return Candidate(self.best, max(1, steps), proof, self.spent_s)

    def _open(self) -> bool:
        bound_ns = self.pieces[0].bound_ns
        close = self.latency_ns - bound_ns <= max(self.stop.gap, 1e-9) * self.latency_ns
        out_of_work = self.spent_s >= self.stop.work * SECONDS_PER_WORK
        return not (close or out_of_work or self.stop.out_of_time)

    def _add(self, low: float, high: float) -> None:
        """Bound a piece: makespan with the copies `high` can feed, times the shortest step in it."""
        steps = [Bounder(relaxed).root_bound() for relaxed in self._relaxations(high)]
        if steps:
            heapq.heappush(self.pieces, _Piece(max(steps) * max(low, self.shortest), low, high))

    def _deepen(self, piece: _Piece) -> None:
        """Search a piece too narrow to cut with twice the work it had before."""
        piece.work = max(_FIRST_WORK, 2 * piece.work)
        bound_ns = self._explore(piece.high, piece.work) * max(piece.low, self.shortest)
        piece.bound_ns = max(piece.bound_ns, bound_ns)
        heapq.heappush(self.pieces, piece)

    def _explore(self, step_ns: float, work: int) -> int:
        """Search with the copies that a step of this length can feed; the lower bound of their makespan."""
        bound = 1
        for relaxed in self._relaxations(step_ns):
            share = replace(self.stop, work=work, on_progress=None, history=[])
            found = solve_makespan(relaxed, share, self.seed)
            self.spent_s += max(found.seconds or 0.0, SECONDS_PER_WORK)
            bound = max(bound, found.lower_bound)
            if self.problem.fits(found.replication):
                self._keep(found.replication)
        return bound

    def _keep(self, replication: Replication) -> None:
        if self._latency_ns(replication) < self.latency_ns * _WORTH_POLISHING:
            better, simulated = polished(self.problem, self.step_time, replication)
            self.spent_s += simulated * _SECONDS_PER_POLISH * len(replication)
            if self._latency_ns(better) < self.latency_ns:
                self.best, self.latency_ns = better, self._latency_ns(better)

    def _relaxations(self, step_ns: float) -> list[Problem]:
        """Problems that hold every allocation within the budget whose step is at most `step_ns`.

        Each stage alone may have the copies such a step can feed. With a shared bandwidth the sum counts
        too: as a budget of its own, and added to the arrays, each in parts of what there is.
        """
        least = self.problem.smallest
        most = np.minimum(self.step_time.most_copies(step_ns, least), self.problem.graph.windows)
        if (most < least).any():
            return []
        relaxed = [replace(self.problem, most=most)]
        if self.step_time.shared:
            bandwidth = self.step_time.access_ns_per_copy / step_ns * (1 - 1e-12)
            for arrays in (0.0, 1.0):
                parts = bandwidth + arrays * self.problem.demand / self.problem.budget
                demand = np.floor(parts * _PARTS).astype(np.int64)
                budget = int((1 + arrays) * _PARTS)
                if (demand > 0).all() and int((demand * least).sum()) <= budget:
                    relaxed.append(replace(self.problem, demand=demand, budget=budget, most=most, tiles=None))
        return relaxed

    def _latency_ns(self, replication: Replication) -> float:
        return makespan_of(self.problem.graph, replication) * self.step_time.step_ns(replication)
