"""The smallest interval between streaming inputs: exact, by bisection (MODEL.md 8)."""

from __future__ import annotations

from rramalloc.search.problem import Candidate, Problem, Stop
from rramalloc.timing.simulate import Replication


def smallest_interval(problem: Problem) -> int:
    """Smallest max_i ceil(W_i / d_i) within the budget."""
    low, high = 1, int(problem.graph.windows.max())
    while low < high:
        middle = (low + high) // 2
        if problem.arrays(_fewest(problem, middle)) <= problem.budget:
            high = middle
        else:
            low = middle + 1
    return low


def _fewest(problem: Problem, interval: int) -> Replication:
    """Fewest copies with which no stage takes more than `interval` batches."""
    return -(-problem.graph.windows // interval)


def solve(problem: Problem, stop: Stop, seed: int) -> Candidate:  # noqa: ARG001
    """Fewest arrays that reach the smallest interval. The interval itself bounds the makespan."""
    interval = smallest_interval(problem)
    copies = _fewest(problem, interval)
    return Candidate(copies, interval, "interval: with this budget some stage needs that many batches")
