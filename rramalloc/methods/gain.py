"""`gain`: the copies that lower the exact makespan most per array, one move after the other.

Source: steepest descent on exact timing (docs/sources/model.md 4), the obvious heuristic for the true
objective; our
reading of ties and of stages that wait for each other is in search/improve.py.
"""

from __future__ import annotations

from rramalloc.methods.method import Method
from rramalloc.search.improve import climb_up
from rramalloc.search.problem import SECONDS_PER_WORK, Candidate, Problem, Stop


def solve(problem: Problem, stop: Stop, seed: int) -> Candidate:  # noqa: ARG001
    """The best allocation on the way up, or when the work allowed is done."""
    way = climb_up(problem, stop.work * SECONDS_PER_WORK)
    words = "heuristic: largest drop of the exact makespan per array"
    words += "" if way.ended else ", stopped after the work allowed"
    return Candidate(way.replication, 1, words, way.seconds)


GAIN = Method(
    "gain",
    solve,
    minimises="the exact makespan, greedily",
    source="steepest descent on exact timing",
)
