"""`recurrence`: the allocation that the tight recurrence alone would choose (MODEL.md 5).

A baseline for the gap between model and truth: the recurrence is a lower bound of the exact makespan,
so what it takes for the best is not.
"""

from __future__ import annotations

import numpy as np

from rramalloc.search.interval import smallest_interval
from rramalloc.search.problem import Candidate, Problem, Stop
from rramalloc.timing.recurrence import recurrence
from rramalloc.timing.simulate import Replication

_ROUNDS = 12


def solve(problem: Problem, stop: Stop, seed: int) -> Candidate:  # noqa: ARG001
    """Smallest target for which copies W / (target - wait before - rest after), iterated, fit the budget.

    The wait is PreOp, the rest what follows a stage on its way to the end, both from the recurrence.
    """
    low = smallest_interval(problem)
    high = int(problem.graph.windows.sum())
    best = np.ones_like(problem.demand)
    steps = recurrence(problem.graph, best).steps
    while low < high and not stop.out_of_time:
        target = (low + high) // 2
        copies = _for_target(problem, target)
        if copies is None:
            low = target + 1
            continue
        high = target
        reached = recurrence(problem.graph, copies).steps
        if reached < steps:
            best, steps = copies, reached
    return Candidate(best, 1, "heuristic: no proof of its own")


def _for_target(problem: Problem, target: int) -> Replication | None:
    """Copies that the recurrence asks for to end by `target`; None if they do not fit or do not settle."""
    windows = problem.graph.windows
    copies = np.ones_like(windows)
    for _ in range(_ROUNDS):
        terms = recurrence(problem.graph, copies)
        room = target - terms.pre_op - _rest(problem, copies)
        wanted = np.where(room > 0, -(-windows // np.maximum(room, 1)), windows)
        wanted = np.maximum(wanted, copies)
        if problem.arrays(wanted) > problem.budget:
            return None
        if (wanted == copies).all():
            return copies
        copies = wanted
    return copies if recurrence(problem.graph, copies).steps <= target else None


def _rest(problem: Problem, copies: Replication) -> Replication:
    """Steps from the finish of each stage to the end: what consumers have left when it ends."""
    rest = np.zeros_like(copies)
    for edge in reversed(problem.graph.binding):
        first = int(np.searchsorted(edge.need, edge.need[-1]))
        left = -(-int(problem.graph.windows[edge.consumer]) // int(copies[edge.consumer]))
        left -= first // int(copies[edge.consumer])
        rest[edge.producer] = max(rest[edge.producer], rest[edge.consumer] + left)
    return rest
