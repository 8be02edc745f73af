"""Few steps of a chain by the published recurrence.

Source: ACM TODAES 29(1):21, doi 10.1145/3631523: Algorithm 2 looks for the copies with the smallest latency
by Algorithm 1, the published recurrence (docs/sources/model.md 5). Here a steepest descent does, on
that latency, from allocations that are good by other measures: the smallest interval, the shortest
bottleneck, and the shortest exact makespan. It proves nothing; it reaches the published figures, or fewer
steps, on all networks of the source but one ([published figures](results/published.md)). The
allocation is judged by exact timing like any other. Where memory access lengthens the step, the delay is
least in total: steps times their length.
"""

from __future__ import annotations

import numpy as np

from rramalloc.errors import UnsupportedError
from rramalloc.methods import bottleneck
from rramalloc.methods.method import Method
from rramalloc.search import auto, interval
from rramalloc.search.descent import Descent
from rramalloc.search.menu import Menu
from rramalloc.search.problem import Answer, Choice, Problem
from rramalloc.search.ranges import Incumbent
from rramalloc.search.work import Work
from rramalloc.timing.published import chain_layers, published

_SHARE = 4  # each of the three starts may take a quarter of the work; the descents have the rest


def solve(problem: Problem, stop: Work, seed: int) -> Answer:  # noqa: ARG001
    """Return an allocation with few steps by the recurrence, or little delay where steps differ in length.

    Raises UnsupportedError if the network is not a chain, or a layer is timed that the recurrence lacks.
    """
    layers = chain_layers(problem.graph.network, problem.graph.names)
    position = {name: stage for stage, name in enumerate(problem.graph.names)}
    for name in sorted(set(position) - {layer.name for layer in layers}):
        if problem.graph.windows[position[name]] > 1:
            raise UnsupportedError(
                f"{problem.graph.network.name}: node {name[:60]!r}",
                "the published recurrence covers convolutions only, and copies of this layer are of use",
            )
    stages = np.array([position[layer.name] for layer in layers], dtype=np.int64)

    def steps(found: Choice) -> int:
        return published(layers, found.copies[stages].tolist()).steps

    def delay(found: Choice) -> float:
        lengthens = problem.step_time is not None and problem.step_time.moves
        return steps(found) * (problem.time.step_ns(found.copies, found.modes) if lengthens else 1.0)

    incumbent = Incumbent(problem, delay)
    incumbent.propose(interval.solve(problem, stop.nested(stop.work), 0).choice)
    descent = Descent(problem, Menu.of(problem), stop)
    for start in (interval.solve, bottleneck.solve, auto.solve):
        if stop.is_used_up:
            break
        share = stop.nested(stop.work // _SHARE)
        found = start(problem, share, 0).choice
        stop.charge(share.spent_s)
        descent.improve(found, incumbent, stop.work_s - stop.spent_s)
    answer = incumbent.answer("", 1)
    words = f"heuristic: {steps(answer.choice)} steps by the published recurrence, by steepest descent"
    return Answer(answer.choice, 1, words, stopped=stop.cut if stop.is_used_up else None)


PUBLISHED = Method(
    "published",
    solve,
    minimises="the published recurrence, by descent; chains only",
    source="ACM TODAES 29(1):21, doi 10.1145/3631523; docs/sources/model.md 5",
    reads="case -kinds -images limits objective inputs placed method",
)
