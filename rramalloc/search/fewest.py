"""Fewest arrays with which a target makespan is met (docs/sources/model.md 8, objective `arrays`)."""

from __future__ import annotations

from dataclasses import replace

from rramalloc.errors import TargetError
from rramalloc.search.auto import solve_to_target
from rramalloc.search.bound import Bounder
from rramalloc.search.problem import SECONDS_PER_WORK, Candidate, Problem, Stop
from rramalloc.timing.simulate import makespan_of

_WORK_PER_BUDGET = 8


def solve(problem: Problem, stop: Stop, seed: int, target: int) -> Candidate:
    """Fewest arrays, within the budget, whose makespan is at most `target` steps.

    Raises TargetError if no allocation within the budget is that fast, or none was found.
    The candidate's `objective_bound` is of the arrays.
    """
    first = solve_to_target(problem, stop, seed, target)
    if _makespan(problem, first) > target:
        raise TargetError(target, first.lower_bound, "steps", proven=first.lower_bound > target)
    best, fewest = first, problem.arrays(first.replication)
    spent_s = first.seconds or 0.0
    proven = low = _fewest_possible(problem, target, fewest)
    while low < fewest and not stop.out_of_time and spent_s < stop.work * SECONDS_PER_WORK:
        budget = (low + fewest) // 2
        trial = replace(problem, budget=budget)
        share = replace(stop, work=min(_WORK_PER_BUDGET, stop.work), on_progress=None, history=[])
        found = solve_to_target(trial, share, seed, target)
        spent_s += found.seconds or 0.0
        if _makespan(trial, found) <= target:
            best, fewest = found, problem.arrays(found.replication)
        else:
            low = budget + 1
            if found.lower_bound > target:
                proven = low  # more arrays never hurt, so no smaller budget does either
    words = f"at least {proven} arrays are needed for {target} steps"
    words += ", so this is the fewest" if proven >= fewest else ""
    return Candidate(best.replication, 1, words, spent_s, objective_bound=min(proven, fewest))


def _makespan(problem: Problem, candidate: Candidate) -> int:
    return makespan_of(problem.graph, candidate.replication)


def _fewest_possible(problem: Problem, target: int, fewest: int) -> int:
    """Smallest budget with which propagation alone does not refute the target."""
    low, high = problem.minimum, fewest
    while low < high:
        middle = (low + high) // 2
        if Bounder(replace(problem, budget=middle)).box(target) is None:
            low = middle + 1
        else:
            high = middle
    return low
