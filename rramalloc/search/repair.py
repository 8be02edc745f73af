"""Repair of an allocation: removes copies until the budget holds the rest."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from rramalloc.mapping.mode import ModeOfEach
from rramalloc.search.problem import Problem
from rramalloc.timing.simulate import Copies

_PARTS = 2**20  # of what copies have beyond the least: the last bit of a million copies


def fitting(problem: Problem, copies: Copies, modes: ModeOfEach | None = None) -> Copies:
    """Return the allocation itself if it keeps to the budget, else one with fewer copies that does.

    modes: of its stages, which stay as they are. Every copy beyond the least is scaled down alike; how far is
    found by bisection.
    """
    if problem.holds(copies, modes):
        return copies
    extra = copies - problem.smallest

    def scaled(part: int) -> Copies:
        """Return the copies with so many parts of `_PARTS` of what is beyond the least."""
        return np.asarray(problem.smallest + extra * part // _PARTS, dtype=np.int64)

    holding = bisect_left(range(1, _PARTS), True, key=lambda part: not problem.holds(scaled(part), modes))
    return scaled(holding)
