"""`uniform`: the same number of copies for all layers, as many as the budget holds.

Source: PIMCOMP (Sun et al., DAC 2023), its code's WeightReplication, method "uniform": copies of every
convolution = floor(arrays / arrays of one copy of everything), fully connected layers once. PIMCOMP divides
by a margin of 1.2 for what does not fit its cores; here there is no such margin. Our reading: a layer gets
no more copies than it has windows, and what that leaves goes to the others.
"""

from __future__ import annotations

import numpy as np

from rramalloc.methods.method import Method, clipped, most_copies
from rramalloc.search import cost
from rramalloc.search.problem import Answer, Problem
from rramalloc.search.work import Work


def solve(problem: Problem, stop: Work, seed: int) -> Answer:  # noqa: ARG001
    """Return the largest number of copies that, given to every stage, keeps to the budget; by bisection."""
    low, high, tried = 1, int(most_copies(problem).max()), 0
    while low < high:
        middle = (low + high + 1) // 2
        tried += 1
        if problem.arrays(clipped(problem, np.full_like(problem.demand, middle))) <= problem.budget:
            low = middle
        else:
            high = middle - 1
    copies = clipped(problem, np.full_like(problem.demand, low))
    stop.charge(cost.UNIFORM_STAGE * len(copies) * tried)
    words = f"heuristic: {low} copies of every layer that can use them"
    return Answer(problem.choice(copies), 1, words)


UNIFORM = Method("uniform", solve, minimises="equal copies for all layers", source="PIMCOMP, DAC 2023")
