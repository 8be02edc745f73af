"""`single-kind`: the best chip of the kinds at hand that uses arrays of one kind alone.

Source: docs/sources/model.md 18, a baseline of kinds of arrays. Each kind by itself gets an equal part of the
work, in the search of `auto`; of those that hold every layer the fastest is taken, of equally fast ones the
first.
"""

from __future__ import annotations

from dataclasses import replace

from rramalloc.errors import SolverError
from rramalloc.methods.method import Method
from rramalloc.search.menu import on_each_kind
from rramalloc.search.objective import Latency
from rramalloc.search.problem import Answer, Problem
from rramalloc.search.work import Work
from rramalloc.status import Stopped


def solve(problem: Problem, stop: Work, seed: int) -> Answer:
    """Search with every kind alone. Raises SolverError where none holds all layers."""
    hardware, found = problem.storage.hardware, list[tuple[float, Answer]]()
    if hardware is None or hardware.kinds is None:
        latency = Latency(problem)
        answer = latency.solve(stop, seed)
        is_proven = latency.value(answer.choice) <= answer.lower_bound
        return replace(answer, stopped=Stopped.PROOF if is_proven else stop.cut)
    for kind, alone in on_each_kind(problem):
        share = stop.nested(max(1, stop.work // len(hardware.kinds)))
        objective = Latency(alone)
        answer = objective.solve(share, seed)
        stop.charge(share.spent_s)
        choice = problem.choice(answer.choice.copies, answer.choice.modes)
        words = f"search over arrays of kind {hardware.kinds[kind].name!r} alone"
        value = objective.value(answer.choice)
        stopped = None if value <= answer.lower_bound else stop.cut
        found.append((value, Answer(choice, 1, words, stopped=stopped)))
    if not found:
        raise SolverError("no kind alone holds every layer once: give a kind more arrays")
    open_end = next((answer.stopped for _, answer in found if answer.stopped is not None), None)
    return replace(min(found, key=lambda answer: answer[0])[1], stopped=open_end)


SINGLE_KIND = Method(
    "single-kind",
    solve,
    minimises="the exact makespan, with arrays of one kind",
    source="docs/sources/model.md 18",
    sees_digital=True,
    reads="case limits objective inputs placed method",
    needs="kinds",
)
