"""`recurrence`: the allocation that the tight recurrence alone would choose (docs/sources/model.md 5).

A baseline for the gap between model and truth: the recurrence is a lower bound of the exact makespan,
so what it takes for the best is not.
"""

from __future__ import annotations

import numpy as np

from rramalloc.methods.method import Method
from rramalloc.search import cost
from rramalloc.search.interval import even_copies
from rramalloc.search.problem import Answer, Problem
from rramalloc.search.work import Work
from rramalloc.timing.recurrence import recurrence
from rramalloc.timing.simulate import Copies

_ROUNDS = 16  # fixed-point iterations per target; a target that needs more counts as not met


def solve(problem: Problem, stop: Work, seed: int) -> Answer:  # noqa: ARG001
    """Return the smallest target for which copies W / (target - wait - rest), iterated, fit the budget.

    The wait is PreOp, the rest what follows a stage on its way to the end, both from the recurrence.
    """
    best, looks = even_copies(problem), 0
    low, high = 1, recurrence(problem.graph, best).steps
    while low < high and not stop.out_of_time:
        target, looks = (low + high) // 2, looks + 1
        copies = _for_target(problem, target, best)
        if copies is None:
            low = target + 1
        else:
            best, high = copies, recurrence(problem.graph, copies).steps
    stop.charge(cost.RECURRENCE_EDGE * looks * _ROUNDS * max(1, len(problem.graph.edges)))
    stopped = stop.cut if low < high else None
    return Answer(problem.choice(best), 1, "heuristic: no proof of its own", stopped=stopped)


RECURRENCE = Method(
    "recurrence", solve, minimises="the tight recurrence, by iteration", source="docs/sources/model.md 5"
)


def _for_target(problem: Problem, target: int, start: Copies) -> Copies | None:
    """Return copies whose recurrence is at most `target`, None if the iteration finds none that fit."""
    copies = start
    for _ in range(_ROUNDS):
        terms = recurrence(problem.graph, copies)
        if terms.steps <= target and problem.is_allowed(copies):
            return copies
        room = np.maximum(target - terms.pre_op - _rest(problem, copies), 1)
        wanted = np.minimum(-(-problem.graph.windows // room), problem.largest)
        copies = np.floor(np.sqrt(copies * wanted.astype(np.float64)) + 0.5).astype(np.int64)
    return None


def _rest(problem: Problem, copies: Copies) -> Copies:
    """Return the steps from the finish of each stage to the end: those its consumers still need."""
    rest = np.zeros_like(copies)
    for edge in reversed(problem.graph.binding):
        need = problem.graph.needed(edge)
        first = int(np.searchsorted(need, need[-1]))
        left = -(-int(problem.graph.windows[edge.consumer]) // int(copies[edge.consumer]))
        left -= first // int(copies[edge.consumer])
        rest[edge.producer] = max(rest[edge.producer], rest[edge.consumer] + left)
    return rest
