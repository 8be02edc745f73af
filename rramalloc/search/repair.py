"""Repair of an allocation: removes copies until the budget holds the rest."""

from __future__ import annotations

import numpy as np

from rramalloc.mapping.mode import ModeOfEach
from rramalloc.search.problem import Problem
from rramalloc.timing.simulate import Copies


def fitting(problem: Problem, copies: Copies, modes: ModeOfEach | None = None) -> Copies:
    """Return the allocation itself if it keeps to the budget, else one with fewer copies that does.

    modes: of its stages, which stay as they are. Every copy beyond the least is scaled down alike; how far is
    found by bisection.
    """
    if problem.holds(copies, modes):
        return copies
    extra = copies - problem.smallest
    low, high = 0, 2**20
    while high - low > 1:
        middle = (low + high) // 2
        if problem.holds(problem.smallest + extra * middle // 2**20, modes):
            low = middle
        else:
            high = middle
    fewer: Copies = np.asarray(problem.smallest + extra * low // 2**20, dtype=np.int64)
    return fewer
