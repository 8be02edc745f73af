"""Least latency when memory access lengthens the step: steps * step_ns (docs/sources/model.md 7 and 8).

More copies take fewer steps but move more bytes per step. The range of step times is cut into pieces;
within one piece every stage has at most the copies that the piece's longest step can feed, and the product
is at least the steps of that relaxation times the piece's shortest step. Pieces are cut, the one with the
smallest bound first, until the bounds of all reach the best product, or the work is used up.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np

from rramalloc.search.auto import solve as solve_makespan
from rramalloc.search.bound import Bounder
from rramalloc.search.polish import polished
from rramalloc.search.problem import SECONDS_PER_WORK, Candidate, Problem, Stop
from rramalloc.timing.access import StepTime
from rramalloc.timing.simulate import Replication, makespan_of
from rramalloc.units import duration

_PIECES = 8
_FIRST_WORK = 4
_NARROWEST = 1.0005
_ROUNDING = 1e-12
_WORTH_POLISHING = 1.2
_PARTS = 2**30
_ROOT_CUTS = 16
"""Cuts of the range of step times for a bound without a search."""


def solve(problem: Problem, stop: Stop, seed: int) -> Candidate:
    """Minimise makespan * step_ns; the candidate's `objective_bound` is of that product, in ns.

    Raises ValueError if the problem has no step time.
    """
    best = minimise(problem, stop, _ExactSteps(problem, stop, seed))
    proof = f"latency bound {duration(best.bound_ns)} over all step times, by branch and bound on each range"
    return Candidate(best.replication, 1, proof, best.seconds, objective_bound=best.bound_ns)


class StepSearch(Protocol):
    """A model of the number of steps, which is minimised together with the length of a step."""

    def steps(self, replication: Replication) -> int:
        """Steps of an allocation."""
        ...

    def bound(self, relaxed: Problem) -> int:
        """Steps that no allocation of a problem undercuts, at little cost."""
        ...

    def solve(self, relaxed: Problem, work: int) -> Candidate:
        """An allocation of few steps and a bound of the steps, for so many units of work, counted."""
        ...

    def improve(self, replication: Replication, seconds: float) -> tuple[Replication, float]:
        """A better allocation near this one, and the seconds of work that took, about `seconds` at most."""
        ...


class Fastest(NamedTuple):
    """The best allocation, its latency, a latency that none undercuts, and the work counted in seconds."""

    replication: Replication
    latency_ns: float
    bound_ns: float
    seconds: float


def minimise(problem: Problem, stop: Stop, model: StepSearch) -> Fastest:
    """Minimise steps * step_ns by a model of the steps. Raises ValueError without a step time."""
    search = _BandwidthSearch(problem, step_time_of(problem), stop, model)
    search.run()
    bound_ns = min(search.latency_ns, *(piece.bound_ns for piece in search.pieces))
    return Fastest(search.best, search.latency_ns, bound_ns, search.spent_s)


def root_bound_ns(problem: Problem, stop: Stop) -> float:
    """Latency that no allocation undercuts, by the relaxations of the pieces alone."""
    known = problem.root_bounds
    if "ns" not in known:
        search = _BandwidthSearch(problem, step_time_of(problem), stop, _ExactSteps(problem, stop, 0))
        search.cut_range(1)
        for _ in range(_ROOT_CUTS):
            if stop.out_of_time or not search.cut(heapq.heappop(search.pieces)):
                break
        known["ns"] = min(search.latency_ns, *(piece.bound_ns for piece in search.pieces))
    return known["ns"]


@dataclass(order=True)
class _StepRange:
    """Step times above `low` and up to `high`; bound_ns: no allocation with such a step is faster.

    first: the shortest of them that an allocation can have; work: units the search for its steps was last
    given, 0 before the first.
    """

    bound_ns: float
    low: float = field(compare=False)
    first: float = field(compare=False)
    high: float = field(compare=False)
    work: int = field(compare=False, default=0)


@dataclass(eq=False)
class _BandwidthSearch:
    problem: Problem
    step_time: StepTime
    stop: Stop
    model: StepSearch
    spent_s: float = 0.0

    def __post_init__(self) -> None:
        self.best = self.problem.smallest.copy()
        self.shortest = self.step_time.step_ns(self.best)
        self.latency_ns = self._latency_ns(self.best)
        self.pieces: list[_StepRange] = []

    def run(self) -> None:
        self._keep(self.best)
        self.cut_range(_PIECES)
        while self.stop.is_open(self.latency_ns, self.pieces[0].bound_ns, self.spent_s):
            piece = heapq.heappop(self.pieces)
            if self._is_wide(piece):
                self._explore(self._middle(piece), _FIRST_WORK)
                self.cut(piece)
            else:
                self._deepen(piece)

    def cut_range(self, pieces: int) -> None:
        """All step times, in pieces of equal ratio, and the shortest step by itself."""
        longest = max(self.shortest, self.step_time.step_ns(self.problem.largest))
        self._add(0.0, self.shortest)
        if longest > self.shortest:
            for low, high in pairwise(np.geomspace(self.shortest, longest, pieces + 1).tolist()):
                self._add(low, high)

    def cut(self, piece: _StepRange) -> bool:
        """Put the halves of a piece in its place, or the piece itself where it is too narrow to cut."""
        if not self._is_wide(piece):
            heapq.heappush(self.pieces, piece)
            return False
        middle = self._middle(piece)
        self._add(piece.low, middle)
        self._add(middle, piece.high)
        return True

    def _is_wide(self, piece: _StepRange) -> bool:
        """Whether a piece holds several step times, or a wide range of those that are not listed."""
        return piece.high > piece.first * (_NARROWEST if self._is_dense else 1 + _ROUNDING)

    def _middle(self, piece: _StepRange) -> float:
        return math.sqrt(piece.first * piece.high)

    @property
    def _is_dense(self) -> bool:
        """Whether step times are sums over stages, too many to list."""
        return self.step_time.shared or self.step_time.transfer is not None

    def _possible(self, low: float, high: float) -> tuple[float, float]:
        """The shortest and the longest step above `low` and up to `high` that some stage's copies take."""
        if self._is_dense or high <= self.shortest:
            return max(low, self.shortest), high
        moving = self.step_time.access_ns_per_copy > 0
        per_copy, most = self.step_time.access_ns_per_copy[moving], self.problem.largest[moving]
        above = np.floor(low / per_copy * (1 + _ROUNDING)) + 1
        below = np.minimum(np.floor(high / per_copy * (1 + _ROUNDING)), most)
        longest = float((per_copy * below).max())
        return float(np.where(above > most, np.inf, per_copy * above).min()), min(high, longest)

    def _add(self, low: float, high: float) -> None:
        """Bound a piece: steps with the copies `high` can feed, times the shortest step in it."""
        first, last = self._possible(low, high)
        if first > last * (1 + _ROUNDING):
            return
        steps = [self.model.bound(relaxed) for relaxed in self._relaxations(last)]
        if steps:
            heapq.heappush(self.pieces, _StepRange(max(steps) * first, low, first, last))

    def _deepen(self, piece: _StepRange) -> None:
        """Search a piece too narrow to cut with twice the work it had before."""
        piece.work = min(max(_FIRST_WORK, 2 * piece.work), max(_FIRST_WORK, self.stop.work))
        bound_ns = self._explore(piece.high, piece.work) * piece.first
        piece.bound_ns = max(piece.bound_ns, bound_ns)
        heapq.heappush(self.pieces, piece)

    def _explore(self, step_ns: float, work: int) -> int:
        """Search with the copies that a step of this length can feed; the lower bound of their steps."""
        bound = 1
        for relaxed in self._relaxations(step_ns):
            candidate = self.model.solve(relaxed, work)
            self.spent_s += candidate.seconds or 0.0
            bound = max(bound, candidate.lower_bound)
            if self.problem.fits(candidate.replication):
                self._keep(candidate.replication)
        return bound

    def _keep(self, replication: Replication) -> None:
        if self._latency_ns(replication) < self.latency_ns * _WORTH_POLISHING:
            better, seconds = self.model.improve(replication, self.stop.work_s - self.spent_s)
            self.spent_s += seconds
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
        return self.model.steps(replication) * self.step_time.step_ns(replication)


@dataclass(frozen=True, slots=True)
class _ExactSteps:
    """Steps by exact timing, searched for by `auto`."""

    problem: Problem
    stop: Stop
    seed: int

    def steps(self, replication: Replication) -> int:
        return makespan_of(self.problem.graph, replication)

    def bound(self, relaxed: Problem) -> int:
        return 1 if self.stop.out_of_time else Bounder(relaxed).root_bound(self.stop)

    def solve(self, relaxed: Problem, work: int) -> Candidate:
        share = self.stop.nested(work)
        candidate = solve_makespan(relaxed, share, self.seed)
        return replace(candidate, seconds=max(candidate.seconds or 0.0, SECONDS_PER_WORK))

    def improve(self, replication: Replication, seconds: float) -> tuple[Replication, float]:
        return polished(self.problem, step_time_of(self.problem), replication, self.stop, seconds)


def step_time_of(problem: Problem) -> StepTime:
    """The step time of a problem. Raises ValueError if it has none."""
    if problem.step_time is None:
        raise ValueError("the problem has no step time")
    return problem.step_time
