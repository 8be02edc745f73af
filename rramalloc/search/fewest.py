"""Fewest arrays with which a target is met (docs/sources/model.md 8, objective `arrays`).

Where the length of a step depends on the modes, a target in ns is one in steps for every range of lengths.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from rramalloc.errors import BudgetError, TargetError
from rramalloc.search.auto import solve_to_target
from rramalloc.search.bound import Bounder
from rramalloc.search.improve import Improver
from rramalloc.search.menu import Menu
from rramalloc.search.mode_bound import ModeBounder
from rramalloc.search.problem import Candidate, Problem
from rramalloc.search.ranges import STEP_RANGES, Incumbent, StepBound, StepRange, close_ranges
from rramalloc.search.timer import Timer
from rramalloc.search.turns import TimedAllocation
from rramalloc.search.work import SECONDS_PER_WORK, Work

_WORK_PER_BUDGET = 8  # units of work for a budget that is tried
_ANNEALING = 0.3  # of all work, for annealing the arrays before budgets are tried
_SAME = 1e-12
"""A latency that is longer than the target by less than this, relatively, meets it."""


def solve(problem: Problem, stop: Work, seed: int, target: int) -> Candidate:
    """Fewest arrays, within the budget, whose makespan is at most `target` steps.

    Raises TargetError if no allocation within the budget is that fast, or none was found.
    The candidate's `objective_bound` is of the arrays.
    """
    menu = Menu.of(problem)
    timer = Timer(problem, menu)
    first = solve_to_target(problem, stop, seed, target, menu=menu)
    found = timer.of(first)
    if found.makespan > target:
        raise TargetError(target, first.lower_bound, problem.time_unit, proven=first.lower_bound > target)
    improver, allowed_s = Improver(problem, menu, seed), stop.work_s
    proven = low = _fewest_possible(problem, target, found.arrays, stop)
    account = stop.nested(stop.work)
    found = improver.fewer_arrays(found, target, low, _ANNEALING * allowed_s, account)
    spent_s = account.spent_s + (first.seconds or 0.0)
    while low < found.arrays and not stop.out_of_time and spent_s < allowed_s:
        budget = (low + found.arrays) // 2
        trial = replace(problem, budget=budget)
        candidate = solve_to_target(trial, stop.nested(min(_WORK_PER_BUDGET, stop.work)), seed, target)
        spent_s += candidate.seconds or 0.0
        timed = timer.of(candidate)
        if timed.makespan <= target:
            found = timed
        else:
            low = budget + 1
            if candidate.lower_bound > target:
                proven = low  # more arrays never hurt, so no smaller budget does either
    words = f"at least {proven} arrays are needed for {target} {problem.time_unit}"
    words += ", so this is the fewest" if proven >= found.arrays else ""
    bound = min(proven, found.arrays)
    return Candidate(found.copies, 1, words, spent_s, objective_bound=bound, blocks=found.blocks)


def solve_ns(problem: Problem, stop: Work, seed: int, target_ns: float) -> Candidate:
    """Minimise the arrays for a latency in ns, where the length of a step depends on the modes.

    The bound of a TargetError is 0: no search for the least latency is made.
    """

    def arrays(found: TimedAllocation) -> float:
        latency_ns = found.makespan * problem.step_ns(found.copies, found.blocks)
        return found.arrays if latency_ns <= target_ns * (1 + _SAME) else math.inf

    timer = Timer(problem, Menu.of(problem))
    model = _FewestByStep(problem, Incumbent(problem, arrays), timer, stop, seed, target_ns)
    if stop.out_of_time:
        raise TargetError(target_ns, 0.0, "ns", proven=False)
    bound = close_ranges(StepRange.all_of(problem, model, stop.work, STEP_RANGES), model.incumbent, stop)
    if model.incumbent.best is None:
        raise TargetError(target_ns, 0.0, "ns", proven=math.isinf(bound))
    fewest = round(model.incumbent.value)
    least = min(fewest, math.ceil(bound))
    words = f"at least {least} arrays are needed for {target_ns:.10g} ns"
    words += ", so this is the fewest" if least >= fewest else ""
    return model.incumbent.candidate(words, least)


@dataclass(eq=False)
class _FewestByStep:
    """The `StepModel` of the arrays."""

    problem: Problem
    incumbent: Incumbent
    timer: Timer
    stop: Work
    seed: int
    target_ns: float

    def bound(self, relaxed: Problem, step_ns: float, steps: int) -> float:
        """Return the fewest arrays with which single boxes do not refute `steps` of this length."""
        target = int(self.target_ns * (1 + _SAME) / step_ns)
        if target < steps or _is_refuted(relaxed, target, self.stop):
            return math.inf
        if relaxed.demand is not self.problem.demand:  # its budget is not of arrays alone
            return self.problem.minimum
        return _fewest_possible(relaxed, target, relaxed.budget, self.stop)

    def search(self, relaxed: Problem, step_ns: float, longest_ns: float, work: int) -> StepBound:
        """Search with the steps that are sure to meet the target; the bound is of those that may."""
        sure, least = int(self.target_ns * (1 + _SAME) / longest_ns), self.bound(relaxed, step_ns, 1)
        self.incumbent.spent_s += SECONDS_PER_WORK
        if sure < 1 or least >= self.incumbent.value or relaxed.demand is not self.problem.demand:
            return StepBound(least)
        try:
            candidate = solve(relaxed, self.stop.nested(work), self.seed, sure)
        except TargetError as error:
            return StepBound(math.inf if error.proven and longest_ns <= step_ns * (1 + _SAME) else least)
        except BudgetError:
            return StepBound(least)
        self.incumbent.spent_s += candidate.seconds or 0.0
        self.incumbent.offer(self.timer.of(candidate))
        if longest_ns <= step_ns * (1 + _SAME):
            least = max(least, candidate.objective_bound or 0.0)
        return StepBound(least)


def _is_refuted(problem: Problem, target: int, stop: Work) -> bool:
    """Return whether propagation, or over modes the relaxation, refutes a target."""
    if problem.one_block and not problem.is_limited:
        return Bounder(problem).box(target) is None
    bounder = ModeBounder(problem, Menu.of(problem))
    return bounder.tighten(bounder.everything, target, stop).rows is None


def _fewest_possible(problem: Problem, target: int, fewest: int, stop: Work) -> int:
    """Smallest budget with which the rules for a single box do not refute the target."""
    low, high = problem.minimum, fewest
    while low < high:
        middle = (low + high) // 2
        try:
            refuted = _is_refuted(replace(problem, budget=middle), target, stop)
        except BudgetError:  # the modes that are short or fed enough need more
            refuted = True
        if stop.out_of_time:
            return low
        if refuted:
            low = middle + 1
        else:
            high = middle
    return low
