"""What every heuristic keeps to: the fewest and the most copies of a stage that make sense."""

from __future__ import annotations

import numpy as np

from rramalloc.search.problem import Problem
from rramalloc.timing.simulate import Replication


def most_copies(problem: Problem) -> Replication:
    """Windows of every stage, or the problem's own limit; whatever the budget is."""
    if problem.most is None:
        return problem.graph.windows
    most: Replication = np.minimum(problem.graph.windows, problem.most)
    return most


def clipped(problem: Problem, copies: Replication) -> Replication:
    """The copies, not below the fewest allowed and not above `most_copies`."""
    kept: Replication = np.maximum(np.minimum(copies, most_copies(problem)), problem.smallest)
    return kept
