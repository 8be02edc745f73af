"""`gain`: the copies that lower the exact makespan most per array, one move after the other.

A move gives one stage the fewest copies that save it a batch, or does so for all stages with most batches.
Only stages on a chain of batches that wait for each other from step 0 to the end can lower the makespan
alone, so only those are tried. Where no move lowers it, because stages wait for each other: all stages with
most batches, if that fits, else the stage whose part of the chain shrinks most per array.

Source: steepest descent on exact timing (docs/sources/model.md 4), the obvious heuristic for the true
objective; ties and stages that wait for each other are our reading.
"""

from __future__ import annotations

from operator import itemgetter

import numpy as np

from rramalloc.methods.method import Method
from rramalloc.search import cost
from rramalloc.search.problem import Answer, Choice, Problem
from rramalloc.search.work import REASONS, Work
from rramalloc.timing.critical_path import chain_of
from rramalloc.timing.simulate import Copies


def solve(problem: Problem, stop: Work, seed: int) -> Answer:  # noqa: ARG001
    """Return the best allocation on the way up from the fewest copies, or when the work allowed is done."""
    path = [problem.choice(problem.smallest)]
    while not stop.is_used_up and (moves := _moves(problem, path[-1])):
        best = (0.0, moves[0][2])
        for promise, arrays, copies in moves:
            # No move saves more than it promises, so none of the rest is better.
            if promise <= best[0] or stop.is_used_up:
                break
            stop.charge(cost.BATCH * int((-(-problem.graph.windows // copies)).sum()))
            saved = path[-1].makespan - problem.choice(copies).makespan
            best = max(best, (saved / arrays, copies), key=itemgetter(0))
        path.append(problem.choice(best[1]))
    words = "heuristic: largest drop of the exact makespan per array"
    stopped = None
    if stop.is_used_up:
        stopped = stop.cut
        words += REASONS[stopped].removeprefix("bounded")
    return Answer(min(path, key=lambda found: found.makespan), 1, words, stopped=stopped)


def _moves(problem: Problem, current: Choice) -> list[tuple[float, int, Copies]]:
    """Return (steps saved per array at most, arrays, copies) of the moves that fit, by falling promise."""
    copies = current.copies
    windows = problem.graph.windows
    enters, leaves = chain_of(problem.timing(current))
    batches = -(-windows // copies)
    more = -(-windows // np.maximum(batches - 1, 1))
    # The chain still goes through the windows at which it enters and leaves a stage.
    entered = np.minimum((enters + 1) * copies, windows) - 1
    drops = np.maximum(leaves // copies - enters - (leaves // more - entered // more), 0)
    stages = [*np.flatnonzero(leaves >= 0), np.flatnonzero(batches == batches.max())]
    fitting = []
    for raised, drop in zip(stages, [*drops[leaves >= 0], current.makespan], strict=True):
        new = copies.copy()
        new[raised] = more[raised]
        arrays = int(problem.demand @ (new - copies))
        if arrays > 0 and problem.is_allowed(new):
            fitting.append((drop / arrays, arrays, new))
    return sorted(fitting, key=itemgetter(0), reverse=True)


GAIN = Method(
    "gain", solve, minimises="the exact makespan, greedily", source="steepest descent on exact timing"
)
