"""`bottleneck`: one more copy for the slowest layer, until it does not fit.

Source: the usual greedy heuristic, as in PIMCOMP's ReplicationByBalance without its margin (balance.py). Our
reading: it ends as soon as a copy of the slowest layer does not fit, or that layer has a copy for each of
its windows; smaller copies of other layers would not make the slowest one faster.
"""

from __future__ import annotations

from rramalloc.methods.slowest import fed
from rramalloc.search.problem import Candidate, Problem, Stop


def solve(problem: Problem, stop: Stop, seed: int) -> Candidate:  # noqa: ARG001
    """Feed the stage with most batches from what the fewest copies leave of the budget."""
    room = problem.budget - problem.arrays(problem.smallest)
    made = fed(problem, room + 1, [0])
    return Candidate(
        made.allocations[0], 1, "heuristic: copies for the slowest layer, one by one", made.seconds
    )
