"""The smallest interval between streaming inputs, times the length of a step where that depends on the modes.

With an interval no stage takes longer than that. For every interval there is a shortest step: of the modes
that are short enough those with the least memory access that the budget allows. Ranges of intervals are cut
until the bounds of all reach the best product, so the result is exact (docs/sources/model.md 8).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from rramalloc.choices import DEFAULT_WORK
from rramalloc.errors import BudgetError
from rramalloc.rounding import SAME_PRODUCT
from rramalloc.search import cost
from rramalloc.search.menu import (
    Menu,
    all_modes,
    copies_alone,
    fed_by,
    limited_to,
    step_of_modes,
)
from rramalloc.search.problem import Answer, Choice, Problem
from rramalloc.search.ranges import Incumbent, step_time_of
from rramalloc.search.resources import Cost
from rramalloc.search.sequential import least_access
from rramalloc.search.step_search import IntervalRanges, StepBound, StepSearch
from rramalloc.search.work import Work
from rramalloc.timing.simulate import Copies


def fewest_arrays(problem: Problem, stop: Work, target_ns: float) -> tuple[Answer | None, bool]:
    """Return the fewest arrays whose interval * step_ns is at most a target; None where none was found.

    For every interval the target is a longest step. Where all stages share the bandwidth their access sums
    up to a step: over modes that is a knapsack for each number of arrays. The bound is of the arrays; the
    second value says whether it is proven.
    """
    search = search_of_fewest(problem, stop, target_ns)
    bound = search.run()
    incumbent = search.incumbent
    if incumbent.best is None:
        return None, math.isinf(bound)
    least = min(math.ceil(bound * (1 - SAME_PRODUCT)), incumbent.best.arrays)
    words = fewest_words(least, incumbent.best.arrays, f"an interval of {target_ns:.10g} ns")
    return incumbent.answer(words, least), least == incumbent.best.arrays


def search_of_fewest(problem: Problem, stop: Work, target_ns: float) -> StepSearch:
    """Return the search over intervals for the fewest arrays whose interval * step_ns is at most a target."""
    most_ns = target_ns * (1 + SAME_PRODUCT)
    intervals = IntervalRanges(problem, most_ns)

    def value_of(found: Choice) -> float:
        return found.arrays if _product(found) <= most_ns else math.inf

    def bound_of(_: Problem, first: float, last: float, steps: int) -> float:  # noqa: ARG001
        if first * intervals.shortest_step_ns(last) > most_ns:
            return math.inf
        return intervals.fewest(last, most_ns / first)[1]

    def search_of(_: Problem, length: float, last: float, work: int) -> StepBound:  # noqa: ARG001
        stop.charge(cost.INTERVAL_STAGE * len(intervals.menu.stages))
        found, fewest = intervals.fewest(length, most_ns / length)
        if found is None:
            return StepBound(fewest)
        search.incumbent.propose(found)
        if math.isfinite(value_of(found)):  # of copies alone always: the fewest have the least access too
            return StepBound(fewest)
        low, high = int(fewest), problem.budget + 1
        while low < high:
            if stop.is_used_up:
                return StepBound(low)
            middle = (low + high) // 2
            fitting = limited_to(replace(problem, budget=Cost(middle)), int(length))
            share = stop.nested(DEFAULT_WORK)  # whatever is allowed, so that a longer search does the same
            least = least_access(fitting, share)
            stop.charge(share.spent_s)
            search.incumbent.propose(least.choice)
            if least.lower_bound * length > most_ns:
                low = middle + 1
            else:
                high = middle
        return StepBound(low if low <= problem.budget else math.inf)

    search = StepSearch(problem, stop, intervals, value_of, bound_of, search_of)
    return search


def fewest_words(least: int, found: int, target: str) -> str:
    """Return the proof of the fewest arrays in words."""
    end = ", so this is the fewest" if least >= found else ""
    return f"at least {least} arrays are needed for {target}{end}"


def least_product(problem: Problem, stop: Work) -> tuple[Incumbent, float]:
    """Return the allocation with the smallest interval * step_ns, and a bound of that product."""
    intervals = IntervalRanges(problem)

    def bound_of(_: Problem, first: float, last: float, steps: int) -> float:  # noqa: ARG001
        return first * intervals.shortest_step_ns(last)

    def search_of(_: Problem, length: float, last: float, work: int) -> StepBound:  # noqa: ARG001
        """Propose the allocation with the shortest step for an interval."""
        stop.charge(cost.INTERVAL_STAGE * len(problem.demand))
        menu, incumbent = intervals.menu, search.incumbent
        incumbent.propose(menu.choice(problem, menu.cheapest(int(length))[0]))
        least_ns = intervals.shortest_step_ns(length)
        if incumbent.value <= length * least_ns * (1 + SAME_PRODUCT):  # the bound is attained
            return StepBound(length * least_ns)
        limited = limited_to(problem, int(length))
        if not step_time_of(problem).shared:
            return StepBound(length * _least_longest_access(limited, least_ns, incumbent))
        share = stop.nested(DEFAULT_WORK)
        fed = least_access(limited, share)
        stop.charge(share.spent_s)
        incumbent.propose(fed.choice)
        return StepBound(length * max(least_ns, fed.lower_bound))

    search = StepSearch(problem, stop, intervals, _product, bound_of, search_of)
    bound = search.run()
    return search.incumbent, bound


def _product(found: Choice) -> float:
    """Return interval * step_ns of an allocation."""
    time = found.problem.time
    return time.interval(found.copies, found.modes) * time.step_ns(found.copies, found.modes)


def _least_longest_access(problem: Problem, least_ns: float, incumbent: Incumbent) -> float:
    """Return the shortest step, from `least_ns` on, whose modes fit the budget, by bisection over all."""
    per_stage = all_modes(problem)
    every = [step_of_modes(problem, stage, each) for stage, each in enumerate(per_stage)]
    steps = np.unique(np.maximum(np.concatenate(every), least_ns))
    low, high = 0, len(steps) - 1
    while low < high:
        middle = (low + high) // 2
        try:
            fed = fed_by(problem, float(steps[middle]))
        except BudgetError:
            low = middle + 1
            continue
        high = middle
        menu = Menu.of(fed)
        incumbent.propose(menu.choice(fed, menu.cheapest(2**60)[0]))
    return float(steps[low])


def even_copies(problem: Problem) -> Copies:
    """Return the fewest copies of the graph's blocks that reach the smallest interval."""
    found = copies_alone(problem)
    if found is None:
        return problem.smallest
    alone, menu = found
    copies: Copies = menu.cheapest(menu.smallest_interval(alone))[0].copies
    return copies


def solve(problem: Problem, stop: Work, seed: int) -> Answer:  # noqa: ARG001
    """Return the fewest copies with the smallest interval, which is a lower bound of the makespan too."""
    copies = even_copies(problem)
    bound = Menu.of(problem).smallest_interval(problem)
    words = "interval: with this budget some stage needs that many batches"
    looks = int(problem.graph.windows.max()).bit_length()
    stop.charge(cost.INTERVAL_STAGE * looks * len(copies))
    return Answer(problem.choice(copies), bound, words)
