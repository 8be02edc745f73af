"""Steepest climb: one move after the other, always the one that saves most of the exact makespan per array.

A move gives one stage the fewest copies that save it a batch, or does so for all stages with most batches.
Only stages on a chain of batches that wait for each other from step 0 to the end can lower the makespan
alone, so only those are tried. Where no move lowers it, because stages wait for each other: all stages with
most batches, if that fits, else the stage whose part of the chain shrinks most per array.
"""

from __future__ import annotations

from dataclasses import dataclass

from rramalloc.search.climb_kernel import climb
from rramalloc.search.problem import Problem
from rramalloc.timing.simulate import Replication

_S_PER_BATCH = 4e-9


@dataclass(frozen=True, slots=True, eq=False)
class Climb:
    """The fastest allocation on a way up; seconds: of a reference core; ended: whether no move was left."""

    replication: Replication
    seconds: float
    ended: bool


def climbed(problem: Problem, seconds: float) -> Climb:
    """Climb from the fewest copies until no move fits the budget, or for about so many seconds of work.

    Tiles are not looked at: with a chip the allocation may have to be repaired.
    """
    graph = (problem.graph.windows, *problem.graph.flat_binding)
    allowed = int(seconds / _S_PER_BATCH)
    best = problem.smallest.copy()
    work = climb(
        graph, problem.demand, problem.budget, problem.largest, problem.smallest.copy(), allowed, best
    )  # fmt: skip
    return Climb(best, _S_PER_BATCH * work, work < allowed)
