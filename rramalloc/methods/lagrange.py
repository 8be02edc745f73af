"""`lagrange`: arrays in proportion to the square root of windows times demand.

Source: doi 10.3390/info15070409: the sum of layer times, sum of W_i / d_i, is least under sum of
c_i * d_i = A (W_i windows, c_i arrays of a copy) where d_i = x * sqrt(W_i / c_i); Lagrange multipliers give
one x for all layers. Our reading for whole copies: rounded down, at least 1, at most the windows, with the
largest x that fits; the rest of the budget goes, copy by copy, where W_i / d_i falls most per array.
"""

from __future__ import annotations

import heapq

import numpy as np

from rramalloc.methods.method import Method, clipped, most_copies
from rramalloc.search import cost
from rramalloc.search.problem import Answer, Problem
from rramalloc.search.work import Work
from rramalloc.timing.simulate import Copies

_HALVINGS = 100  # bisection of x: more than the 53 bits of a double, so x is exact


def solve(problem: Problem, stop: Work, seed: int) -> Answer:  # noqa: ARG001
    """Return the continuous optimum rounded down, with the rest of the budget spent greedily."""
    shape = np.sqrt(problem.graph.windows / problem.demand)
    low, high = 0.0, 2.0 * float((problem.graph.windows / shape).max())
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if problem.arrays(_scaled(problem, middle * shape)) <= problem.budget:
            low = middle
        else:
            high = middle
    copies = _scaled(problem, low * shape)
    steps = _spend(problem, copies)
    stop.charge(cost.HALVED_STAGE * len(copies) * _HALVINGS + cost.GREEDY_COPY * steps)
    words = "heuristic: arrays by the square root of windows times demand"
    return Answer(problem.choice(copies), 1, words)


LAGRANGE = Method(
    "lagrange",
    solve,
    minimises="the sum of layer times, copies taken as continuous",
    source="doi 10.3390/info15070409",
)


def _scaled(problem: Problem, copies: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Copies:
    return clipped(problem, np.minimum(copies, problem.graph.windows).astype(np.int64))


def _spend(problem: Problem, copies: Copies) -> int:
    """Add copies while any fits, the largest saving of W / d per array first; return the stages examined."""
    windows, demand, most = problem.graph.windows.tolist(), problem.demand.tolist(), most_copies(problem)
    left = problem.budget - problem.arrays(copies)

    def saving(stage: int) -> float:
        have = int(copies[stage])
        saved: float = windows[stage] / (have * (have + 1) * demand[stage])
        return saved

    heap = [(-saving(stage), stage) for stage in range(len(copies))]
    heapq.heapify(heap)
    looked_at = 0
    while heap:
        stage = heapq.heappop(heap)[1]
        looked_at += 1
        if copies[stage] < most[stage] and demand[stage] <= left:
            copies[stage] += 1
            left -= demand[stage]
            heapq.heappush(heap, (-saving(stage), stage))
    return looked_at
