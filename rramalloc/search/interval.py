"""The smallest interval between streaming inputs: exact, by bisection (docs/sources/model.md 8)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rramalloc.mapping.modes import breakpoints
from rramalloc.search.problem import Candidate, Problem, Stop
from rramalloc.timing.simulate import Replication

_NS_PER_STAGE = 20.0
"""Time of one look at an interval, per stage: a count of work, not a clock."""


def smallest_interval(problem: Problem) -> int:
    """Smallest max_i ceil(W_i / d_i) within the budget, of allocations that can be placed."""
    low = int((-(-problem.graph.windows // problem.graph.most_copies)).max())
    high = int(problem.graph.windows.max())
    while low < high:
        middle = (low + high) // 2
        if problem.holds(fewest_copies(problem, middle)):
            high = middle
        else:
            low = middle + 1
    return low


def fewest_copies(problem: Problem, interval: int) -> Replication:
    """Fewest copies with which no stage takes more than `interval` batches."""
    copies: Replication = np.minimum(-(-problem.graph.windows // interval), problem.graph.most_copies)
    return copies


def possible_intervals(problem: Problem) -> list[int]:
    """Every number of batches that some stage can take, the smallest first."""
    intervals = {1}
    for windows in set(problem.graph.windows.tolist()):
        intervals.update((-(-windows // breakpoints(windows, windows))).tolist())
    return sorted(intervals)


def even_allocations(problem: Problem) -> Iterator[Replication]:
    """Allocations in which no stage takes more batches than some interval, for every interval there is."""
    for steps in possible_intervals(problem):
        copies = np.minimum(np.maximum(fewest_copies(problem, steps), problem.smallest), problem.largest)
        if problem.fits(copies):
            yield copies


def fastest_interval(problem: Problem) -> int:
    """The interval with the smallest interval * step_ns within the budget; the shortest of equals.

    Without a step time the smallest interval. With one, fewer copies can shorten the step, so every
    number of batches that a stage can have is tried.
    """
    shortest = smallest_interval(problem)
    if problem.step_time is None:
        return shortest
    best, best_ns = shortest, math.inf
    for steps in sorted({shortest, *(steps for steps in possible_intervals(problem) if steps > shortest)}):
        length_ns = steps * problem.step_time.step_ns(fewest_copies(problem, steps))
        if length_ns < best_ns * (1 - 1e-12):
            best, best_ns = steps, length_ns
    return best


def solve(problem: Problem, stop: Stop, seed: int) -> Candidate:  # noqa: ARG001
    """Fewest arrays that reach the smallest interval. The interval itself bounds the makespan."""
    interval = smallest_interval(problem)
    copies = fewest_copies(problem, interval)
    bound = interval if problem.tiles is None else smallest_interval(replace(problem, tiles=None))
    words = "interval: with this budget some stage needs that many batches"
    looks = int(problem.graph.windows.max()).bit_length()
    return Candidate(copies, bound, words, 1e-9 * _NS_PER_STAGE * looks * len(copies))
