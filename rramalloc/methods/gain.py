"""`gain`: the copies that lower the exact makespan most per array, one move after the other.

A move gives one stage the fewest copies that save it a batch, or does so for all stages with most batches.
Only stages on a chain of batches that wait for each other from step 0 to the end can lower the makespan
alone, so only those are tried. Where no move lowers it, because stages wait for each other: all stages with
most batches, if that fits, else the stage whose part of the chain shrinks most per array.

Source: steepest descent on exact timing (docs/sources/model.md 4), the obvious heuristic for the true
objective; ties and stages that wait for each other are our reading.
"""

from __future__ import annotations

from rramalloc.methods.method import Method
from rramalloc.search import cost
from rramalloc.search.kernels.climb import climb
from rramalloc.search.kernels.schedule import Schedule
from rramalloc.search.problem import Answer, Problem
from rramalloc.search.work import Work


def solve(problem: Problem, stop: Work, seed: int) -> Answer:  # noqa: ARG001
    """Return the best allocation on the way up from the fewest copies, or when the work allowed is done."""
    allowed, best = int(stop.work_s / cost.BATCH), problem.smallest.copy()
    edges = problem.graph.flat_binding
    schedule = Schedule.of_copies(edges)
    work = climb(edges, problem.limits, allowed, problem.smallest.copy(), best, schedule)
    words = "heuristic: largest drop of the exact makespan per array"
    words += "" if work < allowed else ", stopped after the work allowed"
    stop.charge(cost.BATCH * work)
    return Answer(problem.choice(best), 1, words)


GAIN = Method(
    "gain", solve, minimises="the exact makespan, greedily", source="steepest descent on exact timing"
)
