"""`single-kind`: the best chip of the kinds at hand that uses arrays of one kind alone.

Source: docs/sources/model.md 18, a baseline of kinds of arrays. Each kind by itself gets an equal part of the
work, in the search of `auto`; of those that hold every layer the fastest is taken, of equally fast ones the
first.
"""

from __future__ import annotations

from dataclasses import replace

from rramalloc.errors import BudgetError, SolverError
from rramalloc.methods.method import Method
from rramalloc.search.menu import with_least_cost
from rramalloc.search.objective import Latency
from rramalloc.search.problem import Answer, Problem
from rramalloc.search.work import Work


def solve(problem: Problem, stop: Work, seed: int) -> Answer:
    """Search with every kind alone. Raises SolverError where none holds all layers."""
    if problem.alternatives is None:
        return Latency(problem).solve(stop, seed)
    kinds = sorted({own.kind for some in problem.alternatives.each for own in some})
    found = list[tuple[float, Answer]]()
    for kind in kinds:
        share = stop.nested(max(1, stop.work // len(kinds)))
        try:
            objective = Latency(_of_kind(problem, kind))
            answer = objective.solve(share, seed)
        except BudgetError:
            continue
        finally:
            stop.charge(share.spent_s)
        known = problem.alternatives.hardware.kinds or ()
        name = known[kind].name if known else "of the hardware"
        choice = problem.choice(answer.choice.copies, answer.choice.modes)
        words = f"search over arrays of kind {name!r} alone"
        found.append((objective.value(answer.choice), Answer(choice, 1, words)))
    if not found:
        raise SolverError("no kind alone holds every layer once: give a kind more arrays")
    return min(found, key=lambda own: own[0])[1]


def _of_kind(problem: Problem, kind: int) -> Problem:
    """Return the problem with arrays of one kind alone. Raises BudgetError where they do not hold it."""
    if problem.alternatives is None:
        raise AssertionError("there are several kinds")
    each = tuple(tuple(own for own in some if own.kind == kind) for some in problem.alternatives.each)
    alternatives = replace(problem.alternatives, each=each)
    alone = replace(problem, alternatives=alternatives, start=None)
    return with_least_cost(alone)


SINGLE_KIND = Method(
    "single-kind",
    solve,
    minimises="the exact makespan, with arrays of one kind",
    source="docs/sources/model.md 18",
    sees_digital=True,
    kinds="several",
)
