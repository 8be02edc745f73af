"""`none`: every layer is stored once, the point from which copies are added.

Source: the definition. A problem that asks for more copies of a stage gets those.
"""

from __future__ import annotations

from rramalloc.methods.method import Method
from rramalloc.search.problem import Answer, Problem
from rramalloc.search.work import Work


def solve(problem: Problem, stop: Work, seed: int) -> Answer:  # noqa: ARG001
    """Return one copy of every stage."""
    stop.charge(0.0)
    return Answer(problem.choice(problem.smallest.copy()), 1, "heuristic: every layer is stored once")


ONE_COPY = Method("none", solve, minimises="nothing: every layer once", source="the definition")
