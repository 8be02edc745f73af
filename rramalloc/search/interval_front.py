"""The front of arrays and interval between streaming inputs: exact, by trying every interval there is."""

from __future__ import annotations

from rramalloc.search.front import Front, Point
from rramalloc.search.interval import even_allocations
from rramalloc.search.problem import Problem
from rramalloc.timing.access import StepTime

_SAME = 1e-12


def solve(problem: Problem, step_time: StepTime | None = None) -> Front:
    """All (arrays, interval) points up to the budget; with a step time (arrays, interval * step_ns) ones.

    Fewer copies move fewer bytes, so the allocation with the fewest copies for an interval has the
    shortest step as well, and every point is proven.
    """
    allocations = sorted(
        even_allocations(problem), key=lambda copies: (problem.arrays(copies), -int(copies.sum()))
    )
    points = list[Point]()
    for copies in allocations:
        value = float((-(-problem.graph.windows // copies)).max())
        value *= 1.0 if step_time is None else step_time.step_ns(copies)
        if points and value >= points[-1].value * (1 - _SAME):
            continue
        if points and problem.arrays(points[-1].replication) == problem.arrays(copies):
            points.pop()
        points.append(Point(copies, value, value))
    return Front(tuple(points), 1, 0.0)
