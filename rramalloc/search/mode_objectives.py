"""Objectives over modes: latency in ns, interval, and the front of arrays against makespan.

Where memory access lengthens the step, the range of step times is cut into pieces. Within a piece a stage
has the modes that its longest step can feed, and the product is at least the steps of that relaxation times
the piece's shortest step. Pieces are cut, the one with the smallest bound first, until the bounds of all
reach the best product, or the work is used up (docs/sources/model.md 7, 8 and 10).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from rramalloc.errors import BudgetError, SpecError
from rramalloc.search.auto import AutoSearch, solve_to_target
from rramalloc.search.bandwidth import step_time_of
from rramalloc.search.fewest import makespan_of_candidate
from rramalloc.search.front import Front, Point, Progress
from rramalloc.search.menu import Menu
from rramalloc.search.problem import Candidate, Problem, Stop
from rramalloc.units import duration

if TYPE_CHECKING:
    from rramalloc.search.objective import Objective

_FIRST_WORK, _PIECES, _NARROWEST = 6, 6, 1.0005
_LEVELS, _WORK_PER_LEVEL = 48, 2
"""Budgets at which the front is looked for, with equal ratios, and the least work for each."""


def root_bound(problem: Problem, stop: Stop) -> int:
    """Steps that no allocation undercuts, by a few refuted targets; the same for all methods."""
    known = problem.root_bounds
    if "steps" not in known:
        search = AutoSearch(problem, stop.nested(1, gap=0.0, cores=1), 0, 0, Menu.of(problem))
        search.run()
        known["steps"] = search.bound
    return int(known["steps"])


def root_bound_ns(problem: Problem, stop: Stop) -> float:
    """Latency that no allocation undercuts, by the same for pieces of the step times."""
    known = problem.root_bounds
    if "ns" not in known:
        share = stop.nested(_PIECES * 2, gap=0.0, cores=1)
        known["ns"] = solve_latency_ns(problem, share, 0).objective_bound or 0.0
    return known["ns"]


Steps = Callable[[Menu, int], Candidate]
"""An allocation of few steps with the modes of a menu, and a bound of them, for some units of work."""


def solve_latency_ns(problem: Problem, stop: Stop, seed: int) -> Candidate:
    """Minimise makespan * step_ns; the candidate's `objective_bound` is of that product, in ns."""

    def steps(menu: Menu, work: int) -> Candidate:
        share = stop.nested(work)
        return solve_to_target(problem, share, seed, 0, menu=menu)

    best, bound_ns, seconds = _Pieces(problem, stop, steps, makespan_of_candidate).run()
    proof = f"latency bound {duration(bound_ns)} over all step times, by branch and bound on each range"
    return replace(best, lower_bound=1, proof=proof, seconds=seconds, objective_bound=bound_ns)


def solve_interval(problem: Problem, stop: Stop, seed: int) -> Candidate:
    """Smallest interval, times step_ns where that depends on the modes; then the least makespan."""
    step_time = problem.step_time
    if step_time is None or not step_time.moves:
        menu = Menu.of(problem)
        steps = menu.smallest_interval(problem)
        candidate = solve_to_target(problem, stop, seed, 0, menu=Menu.of(problem, most_length=steps))
        if _interval(problem, candidate) > steps or not problem.holds(
            candidate.replication, candidate.blocks
        ):
            cheapest = _cheapest(menu, steps)
            candidate = replace(candidate, replication=cheapest.replication, blocks=cheapest.blocks)
        bound: float = (
            steps if problem.tiles is None else menu.smallest_interval(replace(problem, tiles=None))
        )
        words = (
            f"interval {steps} proven best by trying every one; makespan at that interval, at least "
            f"{candidate.lower_bound} {problem.time_unit}: {candidate.proof}"
        )
        return replace(candidate, lower_bound=1, objective_bound=bound, proof=words)

    def smallest(menu: Menu, work: int) -> Candidate:
        del work
        return _cheapest(menu, menu.smallest_interval(problem))

    best, bound_ns, seconds = _Pieces(problem, stop, smallest, _interval).run()
    words = f"interval bound {duration(bound_ns)} over all step times, by trying every interval in each range"
    return replace(best, lower_bound=1, proof=words, seconds=seconds, objective_bound=bound_ns)


def smallest_interval(problem: Problem) -> int:
    """The smallest interval, in steps, that a budget allows; tiles may allow less."""
    return Menu.of(problem).smallest_interval(replace(problem, tiles=None))


def _cheapest(menu: Menu, steps: int) -> Candidate:
    """Fewest arrays with which no stage takes longer."""
    state, _ = menu.cheapest(steps)
    return Candidate(state.copies, steps, "", 1e-4, blocks=menu.blocks_of(state))


def _interval(problem: Problem, candidate: Candidate) -> int:
    return problem.timing(candidate).interval


@dataclass(order=True)
class _Piece:
    """Step times above `low` and up to `high`; bound_ns: no allocation with such a step is below it."""

    bound_ns: float
    low: float = field(compare=False)
    high: float = field(compare=False)
    work: int = field(compare=False, default=_FIRST_WORK)


@dataclass(eq=False)
class _Pieces:
    """Minimises steps * step_ns. steps: search of the steps; count: exact steps of what it returns."""

    problem: Problem
    stop: Stop
    steps: Steps
    count: Callable[[Problem, Candidate], int]
    spent_s: float = 0.0
    best: Candidate | None = None
    best_ns: float = math.inf
    pieces: list[_Piece] = field(default_factory=list)

    def run(self) -> tuple[Candidate, float, float]:
        """The best allocation, a bound of the product, and the seconds counted."""
        step_time = step_time_of(self.problem)
        if step_time.transfer is not None:
            raise SpecError("mapping", "'sdk' cannot be optimised for a placement: use --mapping im2col")
        everything = Menu.of(self.problem)
        shortest, longest = everything.step_range_ns(self.problem, step_time)
        self._add(0.0, shortest, _FIRST_WORK)
        if longest > shortest * (1 + 1e-12):
            edges = np.geomspace(shortest, longest, _PIECES + 1).tolist()
            for low, high in pairwise(edges):
                self._add(low, high, _FIRST_WORK)
        while self.pieces and self.stop.is_open(self.best_ns, self.pieces[0].bound_ns, self.spent_s):
            piece = heapq.heappop(self.pieces)
            if piece.high > max(piece.low, shortest) * _NARROWEST:
                middle = math.sqrt(max(piece.low, shortest) * piece.high)
                self._add(piece.low, middle, piece.work)
                self._add(middle, piece.high, piece.work)
            else:
                self._add(piece.low, piece.high, 2 * piece.work, piece.bound_ns)
        if self.best is None:
            raise ValueError("no step time is possible")
        return self.best, min([self.best_ns, *(piece.bound_ns for piece in self.pieces)]), self.spent_s

    def _add(self, low: float, high: float, work: int, known_ns: float = 0.0) -> None:
        """Search with the modes that `high` can feed; the shortest step of the piece bounds the product."""
        shortest_ns = max(low, step_time_of(self.problem).compute_ns)
        if self.best is not None and self.stop.out_of_time:  # a step at least
            heapq.heappush(self.pieces, _Piece(max(shortest_ns, known_ns), low, high, work))
            return
        try:
            menu = Menu.of(self.problem, most_ns=high)
        except BudgetError:  # no allocation has so short a step
            return
        work = max(1, min(work, self.stop.work))
        candidate = self.steps(menu, work)
        self.spent_s += max(candidate.seconds or 0.0, 1e-3)
        if self.problem.holds(candidate.replication, candidate.blocks):
            fixed = self.problem.in_blocks(candidate.blocks)
            value = self.count(self.problem, candidate) * step_time_of(fixed).step_ns(candidate.replication)
            if value < self.best_ns:
                self.best, self.best_ns = candidate, value
        bound_ns = candidate.lower_bound * shortest_ns
        heapq.heappush(self.pieces, _Piece(max(bound_ns, known_ns), low, high, work))


def solve_front(objective: Objective, stop: Stop, seed: int, on_progress: Progress | None) -> Front:
    """Searches at budgets of equal ratios; a point is bounded by the search with the next larger budget."""
    problem = objective.problem
    least, most = problem.minimum, problem.budget
    levels = sorted({round(level) for level in np.geomspace(least, most, _LEVELS).tolist()} | {least, most})
    share = stop.nested(max(_WORK_PER_LEVEL, stop.work // len(levels)))
    points: list[tuple[int, float, Candidate]] = []
    bounds: list[tuple[int, float]] = []
    seconds = 0.0
    for number, budget in enumerate(reversed(levels)):
        within = type(objective)(replace(problem, budget=budget))
        candidate = within.solve(share.nested(share.work), seed)
        seconds += candidate.seconds or 0.0
        timing = within.problem.timing(candidate)
        arrays = problem.arrays(candidate.replication, candidate.blocks)
        points.append((arrays, within.value(timing), candidate))
        bounds.append((budget, within.bound(candidate, share)))
        if on_progress is not None:
            on_progress(len(points), (number + 1) / len(levels))
        if stop.out_of_time:
            break
    kept: list[tuple[int, float, Candidate]] = []
    for point in sorted(points, key=lambda point: point[:2]):
        if not kept or point[1] < kept[-1][1] * (1 - 1e-9):
            kept.append(point)
    shown = []
    for place, (_, value, candidate) in enumerate(kept):
        until = kept[place + 1][0] - 1 if place + 1 < len(kept) else most
        proven = max(bound for budget, bound in bounds if budget >= until)
        shown.append(Point(candidate.replication, value, min(value, proven), candidate.blocks))
    return Front(tuple(shown), 1, seconds)
