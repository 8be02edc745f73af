"""Fewest arrays among allocations that are equally fast."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from rramalloc.mapping.mode import Mode
from rramalloc.search import cost
from rramalloc.search.bound.boxes import Bounder, Outcome
from rramalloc.search.menu import Menu
from rramalloc.search.problem import Choice, Problem
from rramalloc.search.resources import Cost
from rramalloc.search.work import Work

_TIE_NODES = 2000
"""Most nodes of branch and bound for one number of arrays."""
_TIE_S = 2.0
"""Most counted seconds for all numbers of arrays."""
_TRIM_S = 0.5
"""Most counted seconds of one trim."""


def trim(problem: Problem, menu: Menu, found: Choice, stop: Work) -> Choice:
    """Take arrays away stage by stage as long as the makespan does not grow, within a limit of work."""
    best = found
    batches = float((-(-problem.graph.windows // found.copies)).sum())
    tries = int(_TRIM_S / (cost.BATCH * batches))
    order = np.argsort(-problem.arrays_of_stages(best.copies, best.modes), kind="stable")
    for stage in order.tolist():
        if stop.out_of_time:  # to count arrays of other blocks takes long, too
            return best
        arrays = problem.arrays_of_stage(stage, best.modes[stage], int(best.copies[stage]))
        for others, rising in (
            (menu.cheaper(stage, arrays), True),
            (_with_fewer(problem, menu, stage, arrays), False),
        ):
            for change in others:
                if tries == 0 or stop.out_of_time:
                    return best
                tries -= 1
                modes, fewer = list(best.modes), best.copies.copy()
                modes[stage], fewer[stage] = change
                trial = problem.choice(fewer, tuple(modes))
                if trial.makespan <= best.makespan and trial.arrays < best.arrays:
                    best = trial if problem.holds(trial.copies, trial.modes) else best
                elif rising:  # the modes that follow take longer
                    break
    return best


def _with_fewer(problem: Problem, menu: Menu, stage: int, arrays: int) -> Iterator[tuple[Mode, int]]:
    """Yield every block of a stage of several with the most copies that take fewer arrays."""
    blocks = menu.blocks
    first, end = int(menu.first[stage]), int(menu.first[stage + 1])
    for number in range(first, end) if end - first > 1 else ():
        mode = menu.mode(number)
        fitting = problem.storage.count(stage, mode).most_copies(arrays - 1)
        copies = min(fitting, int(blocks.most[number]))
        if copies >= int(blocks.least[number]):
            yield mode, copies


Attempt = Callable[[Choice, float], tuple[Choice | None, bool]]
"""Return a choice as fast with fewer arrays, found in some counted seconds, or None and if that is proven."""


def with_fewest_arrays(problem: Problem, menu: Menu, found: Choice, stop: Work) -> tuple[Choice, bool]:
    """Return the allocation with the fewest arrays at a proven makespan, and whether that is proven.

    Of copies that all step together, by branch and bound (docs/sources/model.md 8).
    """

    def attempt(best: Choice, left_s: float) -> tuple[Choice | None, bool]:
        bounder = Bounder(replace(problem, budget=Cost(best.arrays - 1)))
        affordable = 1 + int(left_s / bounder.node_seconds)
        outcome, _, copies = bounder.decide(found.makespan, min(_TIE_NODES, affordable), stop)
        if outcome is not Outcome.FOUND:
            return None, outcome is Outcome.REFUTED
        return trim(problem, menu, problem.choice(copies), stop), False

    best = trim(problem, menu, found, stop)
    return lower_budgets(best, problem.arrays(problem.smallest), stop, _TIE_S, attempt)


def lower_budgets(
    best: Choice, minimum: int, stop: Work, most_s: float, attempt: Attempt
) -> tuple[Choice, bool]:
    """Lower the budget below the arrays of the best one until an attempt finds none, or a limit of work."""
    begun_s, limit_s = stop.spent_s, min(stop.work_s, most_s)
    while best.arrays > minimum:
        left_s = limit_s - (stop.spent_s - begun_s)
        if left_s < 0.0 or stop.out_of_time:
            return best, False
        fewer, proven = attempt(best, left_s)
        if fewer is None:
            return best, proven
        best = fewer
    return best, True
