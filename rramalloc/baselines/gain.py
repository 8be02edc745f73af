"""`gain`: the copies that lower the exact makespan most per array, one move after the other.

Source: steepest descent on exact timing (MODEL.md 4), the obvious heuristic for the true objective. A move
gives one stage the fewest copies that save it a batch, or does so for all stages with most batches. Only
stages on a chain of batches that wait for each other from step 0 to the end can lower the makespan alone, so
only those are tried. Our reading where no move lowers it, because stages wait for each other: all stages
with most batches, if that fits, else the stage whose part of the chain shrinks most per array. It ends when
no move fits; the best allocation on the way is returned.
"""

from __future__ import annotations

from rramalloc.baselines.gain_kernel import climb
from rramalloc.search.problem import SECONDS_PER_WORK, Candidate, Problem, Stop

_NS_PER_BATCH = 4.0


def solve(problem: Problem, stop: Stop, seed: int) -> Candidate:  # noqa: ARG001
    """The best allocation on the way up, or when the work allowed is done."""
    graph = (problem.graph.windows, *problem.graph.flat_binding)
    allowed = int(stop.work * SECONDS_PER_WORK / (1e-9 * _NS_PER_BATCH))
    best = problem.smallest.copy()
    work = climb(
        graph, problem.demand, problem.budget, problem.largest, problem.smallest.copy(), allowed, best
    )  # fmt: skip
    words = "heuristic: largest drop of the exact makespan per array"
    words += "" if work < allowed else ", stopped after the work allowed"
    return Candidate(best, 1, words, 1e-9 * _NS_PER_BATCH * work)
