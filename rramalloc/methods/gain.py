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
from rramalloc.search.kernels.climb import WORK, Climb, go_on
from rramalloc.search.kernels.schedule import Schedule
from rramalloc.search.problem import Answer, Problem
from rramalloc.search.work import Work

_SECONDS_PER_LOOK = 0.05  # of work between two looks at the clock


def solve(problem: Problem, stop: Work, seed: int) -> Answer:  # noqa: ARG001
    """Return the best allocation on the way up from the fewest copies, or when the work allowed is done."""
    allowed, climb = int(stop.work_s / cost.BATCH), Climb.of(problem.smallest)
    edges, limits = problem.graph.flat_binding, problem.limits
    schedule, goes_on = Schedule.of_copies(edges), True
    while goes_on and not stop.out_of_time:
        goes_on = go_on(edges, limits, allowed, int(_SECONDS_PER_LOOK / cost.BATCH), climb, schedule)
    work = int(climb.at[WORK])
    words = "heuristic: largest drop of the exact makespan per array"
    if work >= allowed:
        words += ", stopped after the work allowed"
    elif goes_on:
        words += ", stopped by the time limit (depends on the machine)"
    stop.charge(cost.BATCH * work)
    return Answer(problem.choice(climb.best), 1, words)


GAIN = Method(
    "gain", solve, minimises="the exact makespan, greedily", source="steepest descent on exact timing"
)
