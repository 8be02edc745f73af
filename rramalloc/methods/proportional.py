"""`proportional`: copies in proportion to the windows of a layer, so that all layers take equally long.

Source: PipeLayer (Song et al., HPCA 2017), whose layers with larger grids are stored more often to balance
the pipeline; PIMCOMP calls it "W0H0". docs/sources/model.md 9, column W. The sources take a few whole
multiples of the
smallest grid; our reading is the largest scale of all: copies = max(1, floor(scale * windows)).
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from rramalloc.methods.method import Method, clipped
from rramalloc.search import cost
from rramalloc.search.problem import Answer, Problem
from rramalloc.search.work import Work
from rramalloc.timing.simulate import Copies

_BITS = 52
"""Scales are multiples of 2**-52. The windows of all stages are at most 2**25 together, so two different
scales at which some floor(scale * windows) changes are more than 2**-50 apart, and none is missed."""


def solve(problem: Problem, stop: Work, seed: int) -> Answer:  # noqa: ARG001
    """Return the copies of the largest scale that keeps to the budget, by bisection."""

    def arrays(scale: int) -> int:
        return problem.arrays(_scaled(problem, scale))

    low = max(bisect_right(range(2**_BITS + 1), int(problem.budget), key=arrays) - 1, 0)
    stop.charge(cost.EXACT_STAGE * len(problem.demand) * _BITS)
    return Answer(problem.choice(_scaled(problem, low)), 1, "heuristic: copies in proportion to windows")


PROPORTIONAL = Method(
    "proportional", solve, minimises="differences between the times of layers", source="PipeLayer, HPCA 2017"
)


def _scaled(problem: Problem, scale: int) -> Copies:
    exact = [windows * scale >> _BITS for windows in problem.graph.windows.tolist()]
    return clipped(problem, np.array(exact, dtype=np.int64))
