"""Fewest arrays with which a target is met (docs/sources/model.md 8, objective `arrays`).

Where the length of a step depends on the modes, a target in ns is one in steps for every range of lengths.
"""

from __future__ import annotations

import math
from dataclasses import replace

from rramalloc.errors import BudgetError, TargetError
from rramalloc.rounding import SAME_PRODUCT
from rramalloc.search import interval
from rramalloc.search.auto import solve_to_target
from rramalloc.search.bound.provers import refutes
from rramalloc.search.improve import Improver
from rramalloc.search.interval import fewest_words
from rramalloc.search.menu import Menu
from rramalloc.search.problem import Answer, Choice, Problem
from rramalloc.search.resources import Cost
from rramalloc.search.step_search import StepBound, StepLengths, StepSearch
from rramalloc.search.work import SECONDS_PER_WORK, Work
from rramalloc.units import number_of

_WORK_PER_BUDGET = 8  # units of work for a budget that is tried
_ANNEALING = 0.3  # of all work since the target is met, for annealing the arrays before the next budget
_FIRST_ANNEALING_S = 0.1  # work of the annealing before the first budget
_DESCENT_SHARE = 0.2  # of the work spent and planned, that one descent may take


def solve(problem: Problem, stop: Work, seed: int, target: int) -> Answer:
    """Return the fewest arrays found within the budget with a makespan of at most `target` steps.

    Raises TargetError if no allocation within the budget is that fast, or none was found.
    The answer's bound is of the arrays.
    """
    menu = Menu.of(problem)
    first = solve_to_target(problem, stop, seed, target, menu=menu)
    found = first.choice
    if found.makespan > target:
        raise TargetError(
            target,
            first.lower_bound,
            problem.time_unit,
            proven=first.lower_bound > target,
            reached=found.makespan,
        )
    for start in problem.starts(stop):
        if start.makespan <= target and start.arrays < found.arrays:
            found = start
    improver, begun_s, annealed_s = Improver(problem, menu, seed), stop.spent_s, 0.0
    proven = low = _fewest_possible(problem, target, found.arrays, stop)
    while low < found.arrays and not stop.is_used_up:
        before_s = stop.spent_s
        due_s = max(_FIRST_ANNEALING_S, _ANNEALING * (before_s - begun_s)) - annealed_s
        found = improver.fewer_arrays(found, target, low, due_s, stop)
        annealed_s += stop.spent_s - before_s
        if low >= found.arrays or not stop.allows(_WORK_PER_BUDGET):
            break
        budget = (low + found.arrays) // 2
        trial = replace(problem, budget=Cost(budget))
        share = stop.nested(_WORK_PER_BUDGET)
        answer = solve_to_target(trial, share, seed, target)
        stop.charge(share.spent_s)
        if answer.choice.makespan <= target:
            found = answer.choice
        else:
            low = budget + 1
            if answer.lower_bound > target:
                proven = low  # more arrays never hurt, so no smaller budget does either
    words = fewest_words(proven, found.arrays, f"{target} {problem.time_unit}")
    return Answer(found, min(proven, found.arrays), words)


def solve_ns(problem: Problem, stop: Work, seed: int, target_ns: float) -> Answer:
    """Minimise the arrays for a latency in ns, where the length of a step depends on the modes.

    The bound of a TargetError is 0: no search for the least latency is made.
    """
    if stop.out_of_time:
        raise TargetError(target_ns, 0.0, "ns", proven=False)

    def steps_with(step_ns: float) -> int:
        """Return the most steps of this length that meet the target."""
        return int(target_ns * (1 + SAME_PRODUCT) / step_ns)

    def value_of(found: Choice) -> float:
        latency_ns = found.makespan * problem.time.step_ns(found.copies, found.modes)
        return found.arrays if latency_ns <= target_ns * (1 + SAME_PRODUCT) else math.inf

    def bound_of(relaxed: Problem, first_ns: float, last_ns: float, steps: int) -> float:  # noqa: ARG001
        target = steps_with(first_ns)
        if target < steps or refutes(relaxed, target, stop):
            return math.inf
        if relaxed.demand is not problem.demand:  # its budget is not of arrays alone
            return problem.minimum
        return _fewest_possible(relaxed, target, relaxed.budget, stop)

    def search_of(relaxed: Problem, first_ns: float, last_ns: float, work: int) -> StepBound:
        """Search with the steps that are sure to meet the target; the bound is of those that may."""
        sure, least = steps_with(last_ns), bound_of(relaxed, first_ns, last_ns, 1)
        stop.charge(SECONDS_PER_WORK)
        if sure < 1 or least >= search.incumbent.value or relaxed.demand is not problem.demand:
            return StepBound(least)
        share, exact = stop.nested(work), sure == steps_with(first_ns)
        try:
            answer = solve(relaxed, share, seed, sure)
        except TargetError as error:
            return StepBound(math.inf if error.proven and exact else least)
        except BudgetError:
            return StepBound(least)
        stop.charge(share.spent_s)
        found = problem.choice(answer.choice.copies, answer.choice.modes)
        search.incumbent.propose(found)
        search.descent.improve(found, search.incumbent, _DESCENT_SHARE * stop.plan_s)
        return StepBound(max(least, answer.lower_bound) if exact else least)

    def cut(first_ns: float, last_ns: float) -> float | None:
        """Return the longest step with which some number of steps meets the target, near the mean.

        Up to there that number is sure to meet it, and beyond none as large does. None where all step
        lengths of a range allow as many steps.
        """
        sure, most = steps_with(last_ns), steps_with(first_ns)
        if sure == most:
            return None
        middle = round(target_ns / math.sqrt(first_ns * last_ns))
        return target_ns / min(max(middle, sure + 1), most)

    lengths = replace(StepLengths.of(problem), cut=cut)
    search = StepSearch(problem, stop, lengths, value_of, bound_of, search_of)
    bound = search.run()
    incumbent = search.incumbent
    if incumbent.best is None:
        raise TargetError(target_ns, 0.0, "ns", proven=math.isinf(bound))
    fewest = round(incumbent.value)
    least = min(fewest, math.ceil(bound))
    words = fewest_words(least, fewest, f"{target_ns:.10g} ns")
    return incumbent.answer(words, least)


def for_interval(problem: Problem, longest: int) -> Answer:
    """Return the fewest arrays with an interval of at most `longest` steps or ticks: exact, stage by stage.

    Raises TargetError if the budget does not hold them.
    """
    menu = Menu.of(problem)
    state, fewest = menu.cheapest(longest)
    if fewest > problem.budget:
        least = menu.smallest_interval(problem)
        held = _held_by(menu, problem, longest)
        raise TargetError(longest, least, problem.time_unit, goal="interval", reached=least, limit=held)
    found = menu.choice(problem, state)
    words = fewest_words(fewest, found.arrays, f"an interval of {longest} {problem.time_unit}")
    return Answer(found, fewest, words)


def _held_by(menu: Menu, problem: Problem, longest: int) -> str:
    """Return in words which layer takes longer in its shortest mode of a menu; empty for none."""
    ends = menu.stairs.first[1 : len(menu.stages) + 1] - 1
    slowest = int(menu.stairs.length[ends].argmax())
    length = int(menu.stairs.length[ends][slowest])
    if length <= longest:
        return ""
    words = number_of(length, problem.time_unit.removesuffix("s"))
    return f"{problem.graph.names[slowest]!r} alone takes {words} with all the copies that it can have"


def for_interval_ns(problem: Problem, stop: Work, target_ns: float) -> Answer:
    """Return the same for a target in ns, where the length of a step depends on the modes."""
    answer, proven = interval.fewest_arrays(problem, stop, target_ns)
    if answer is not None:
        return answer
    best, least_ns = interval.least_product(problem, stop.nested(stop.work))
    raise TargetError(target_ns, least_ns, "ns", proven=proven, goal="interval", reached=best.value)


def _fewest_possible(problem: Problem, target: int, fewest: int, stop: Work) -> int:
    """Return a lower bound of the arrays: the smallest budget that propagation of one box does not refute."""
    low, high = int(problem.minimum), fewest
    while low < high:
        middle = (low + high) // 2
        try:
            refuted = refutes(replace(problem, budget=Cost(middle)), target, stop)
        except BudgetError:  # the modes that are short or fed enough need more
            refuted = True
        if stop.out_of_time:
            return low
        if refuted:
            low = middle + 1
        else:
            high = middle
    return low
