"""Steepest descent on latency in ns or another value: single and paired moves of a stage's copies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np
import numpy.typing as npt

from rramalloc.search.problem import Problem, Stop
from rramalloc.timing.access import StepTime
from rramalloc.timing.simulate import Replication, makespan_of_each

_MOST_PAIRED_STAGES = 60
_MOST_STEPS = 200
_SECONDS_PER_STAGE = 5e-7
"""Of work for an allocation that is simulated, in seconds of a reference core for each of its stages."""
_SECONDS_PER_LOOK = 0.01
"""Of work between two looks at the clock, which keeps the rows of a network of 5,000 stages few."""

Rows = npt.NDArray[np.int64]
Values = Callable[[Rows], npt.NDArray[np.float64]]
"""What is minimised, of every row of copies."""


def polished(
    problem: Problem, step_time: StepTime, start: Replication, stop: Stop, seconds: float
) -> tuple[Replication, float]:
    """As `descend`, on the exactly timed latency in ns."""
    return descend(problem, lambda rows: _latency_ns(problem, step_time, rows), start, stop, seconds)


def descend(
    problem: Problem, values: Values, start: Replication, stop: Stop, seconds: float
) -> tuple[Replication, float]:
    """Return a local optimum of a value reached from `start`, and the seconds of work counted.

    A move gives one stage one batch more or fewer, or one stage more and another fewer copies. The descent
    ends after so many `seconds` of work, or with the search, at the best allocation so far.
    """
    best, least = start, values(start[None, :])[0]
    row_s = _SECONDS_PER_STAGE * len(start)
    spent_s, size = row_s, max(1, int(_SECONDS_PER_LOOK / row_s))
    for _ in range(_MOST_STEPS):
        chosen, value = None, least * (1 - 1e-12)
        neighbours = _neighbours(problem, best)
        while rows := list(islice(neighbours, size)):
            if spent_s >= seconds or stop.out_of_time:
                return (best if chosen is None else chosen), spent_s
            found = values(np.array(rows))
            spent_s += len(rows) * row_s
            first = int(found.argmin())
            if found[first] < value:
                chosen, value = rows[first], found[first]
        if chosen is None:
            break
        best, least = chosen, value
    return best, spent_s


def _latency_ns(problem: Problem, step_time: StepTime, rows: Rows) -> npt.NDArray[np.float64]:
    steps = makespan_of_each(problem.graph, rows)
    lengths_ns = np.array([step_time.step_ns(row) for row in rows], dtype=np.float64)
    latency_ns: npt.NDArray[np.float64] = steps * lengths_ns
    return latency_ns


def _neighbours(problem: Problem, copies: Replication) -> Iterator[Replication]:
    """Allocations within the budget that differ in one stage, or in two in opposite directions."""
    windows = problem.graph.windows
    batches = -(-windows // copies)
    fewer = np.maximum(np.minimum(-(-windows // (batches + 1)), copies - 1), problem.smallest)
    more = np.minimum(-(-windows // np.maximum(batches - 1, 1)), problem.largest)
    more = np.maximum(more, np.minimum(copies + (batches > 1), problem.largest))
    stages = np.arange(len(copies))
    for stage in stages:
        for value in {int(fewer[stage]), int(more[stage])} - {int(copies[stage])}:
            row = copies.copy()
            row[stage] = value
            if problem.holds(row):
                yield row
            others = stages if len(stages) <= _MOST_PAIRED_STAGES and value > copies[stage] else ()
            for other in others:
                if other != stage and fewer[other] < copies[other]:
                    paired = row.copy()
                    paired[other] = fewer[other]
                    if problem.holds(paired):
                        yield paired
