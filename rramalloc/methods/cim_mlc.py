"""`cim-mlc`: the least sum of layer times with copies that divide the width of a layer's output.

Source: CIM-MLC (Qu et al., ASPLOS 2024, arXiv 2401.12428), the duplication of operators in its core mode
(docs/sources/peers.md 7): a dynamic program over the layers and the cores left, in which d copies divide a
layer's latency by d. It allows d only where the output's width is a multiple of d; matrix products have one.

Our reading: cores are arrays, and a layer's latency is that of its batches. Of equal sums the one with fewer
arrays wins. Tokens lie below each other, so that a linear layer has width 1. The fewest copies that a user
allows remain a choice where they do not divide the width. With blocks of windows the width counts blocks.
"""

from __future__ import annotations

import numpy as np

from rramalloc.methods.method import Method
from rramalloc.search.menu import StageModes, all_modes
from rramalloc.search.problem import Answer, Problem
from rramalloc.search.sequential import solve_among
from rramalloc.search.work import Work


def solve(problem: Problem, stop: Work, seed: int) -> Answer:  # noqa: ARG001
    """Return the least sum of batches with copies that divide the output's width."""
    stages = list[StageModes]()
    for menu, fewest in zip(all_modes(problem), problem.smallest.tolist(), strict=True):
        # d | width means width / d batches a row. A divisor d is the fewest copies for windows / d batches,
        # so none is missed.
        kept = (menu.each.columns % menu.low == 0) | (menu.low <= fewest)
        stages.append(menu.take(np.flatnonzero(kept)))
    return solve_among(problem, stop, stages)


CIM_MLC = Method(
    "cim-mlc",
    solve,
    minimises="the sum of layer times, copies dividing the output's width",
    source="CIM-MLC, ASPLOS 2024",
)
