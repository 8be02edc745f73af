"""Fewest arrays with which a target makespan is met (docs/sources/model.md 8, objective `arrays`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rramalloc.errors import TargetError
from rramalloc.search.auto import solve_to_target
from rramalloc.search.bound import Bounder
from rramalloc.search.improve import Improver
from rramalloc.search.menu import Menu
from rramalloc.search.mode_bound import ModeBounder
from rramalloc.search.problem import Candidate, Problem, Stop
from rramalloc.timing.simulate import makespan_of

_WORK_PER_BUDGET, _ANNEALING = 8, 0.3
"""Units of work for a budget that is tried, and the part of all work for annealing the arrays before."""


def solve(problem: Problem, stop: Stop, seed: int, target: int) -> Candidate:
    """Fewest arrays, within the budget, whose makespan is at most `target` steps.

    Raises TargetError if no allocation within the budget is that fast, or none was found.
    The candidate's `objective_bound` is of the arrays.
    """
    menu = Menu.of(problem)
    first = solve_to_target(problem, stop, seed, target, menu=menu)
    if makespan_of_candidate(problem, first) > target:
        raise TargetError(target, first.lower_bound, problem.time_unit, proven=first.lower_bound > target)
    improver, allowed_s = Improver(problem, menu, seed), stop.work_s
    found = improver.timer.of_blocks(first.blocks or problem.graph.blocks, first.replication)
    proven = low = _fewest_possible(problem, target, found.arrays)
    found, spent_s = improver.fewer_arrays(found, target, low, _ANNEALING * allowed_s, stop)
    spent_s += first.seconds or 0.0
    blocks = None if first.blocks is None else found.blocks
    best, fewest = replace(first, replication=found.copies, blocks=blocks), found.arrays
    while low < fewest and not stop.out_of_time and spent_s < allowed_s:
        budget = (low + fewest) // 2
        trial = replace(problem, budget=budget)
        share = stop.nested(min(_WORK_PER_BUDGET, stop.work))
        candidate = solve_to_target(trial, share, seed, target)
        spent_s += candidate.seconds or 0.0
        if makespan_of_candidate(trial, candidate) <= target:
            best, fewest = candidate, problem.arrays(candidate.replication, candidate.blocks)
        else:
            low = budget + 1
            if candidate.lower_bound > target:
                proven = low  # more arrays never hurt, so no smaller budget does either
    words = f"at least {proven} arrays are needed for {target} {problem.time_unit}"
    words += ", so this is the fewest" if proven >= fewest else ""
    return replace(best, lower_bound=1, proof=words, seconds=spent_s, objective_bound=min(proven, fewest))


def makespan_of_candidate(problem: Problem, candidate: Candidate) -> int:
    """Exact makespan of what any search proposes."""
    return makespan_of(problem.in_blocks(candidate.blocks).graph, candidate.replication)


def _fewest_possible(problem: Problem, target: int, fewest: int) -> int:
    """Smallest budget with which the rules for a single box do not refute the target."""
    low, high = problem.minimum, fewest
    refuted = _refuter(replace(problem, budget=fewest), target)
    while low < high:
        middle = (low + high) // 2
        if refuted(middle):
            low = middle + 1
        else:
            high = middle
    return low


def _refuter(problem: Problem, target: int) -> Callable[[int], bool]:
    """Whether propagation, or with modes the relaxation, refutes a target with a budget."""
    if problem.modes is None:
        return lambda budget: Bounder(replace(problem, budget=budget)).box(target) is None
    menu = Menu.of(problem)

    def refuted(budget: int) -> bool:
        bounder = ModeBounder(replace(problem, budget=budget), menu)
        return bounder.tighten(bounder.everything, target).rows is None

    return refuted
