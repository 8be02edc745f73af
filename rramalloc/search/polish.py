"""Steepest descent on latency in ns or another value: single and paired moves of a stage's copies."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from rramalloc.search.problem import Problem
from rramalloc.timing.access import StepTime
from rramalloc.timing.simulate import Replication, makespan_of_each

_MOST_PAIRED_STAGES = 60
_MOST_STEPS = 200

Rows = npt.NDArray[np.int64]
Values = Callable[[Rows], npt.NDArray[np.float64]]
"""What is minimised, of every row of copies."""


def polished(problem: Problem, step_time: StepTime, start: Replication) -> tuple[Replication, int]:
    """A local optimum reached from `start`, and the number of simulations it took.

    Latency in ns is exactly timed.
    """
    return descend(problem, lambda rows: _latency_ns(problem, step_time, rows), start)


def descend(problem: Problem, values: Values, start: Replication) -> tuple[Replication, int]:
    """A local optimum of a value reached from `start`, and the number of allocations that were examined.

    A move gives one stage one batch more or fewer, or one stage more and another fewer copies.
    """
    best, least = start, values(start[None, :])[0]
    simulated = 1
    for _ in range(_MOST_STEPS):
        rows = _neighbours(problem, best)
        if len(rows) == 0:
            break
        found = values(rows)
        simulated += len(rows)
        chosen = int(found.argmin())
        if found[chosen] >= least * (1 - 1e-12):
            break
        best, least = rows[chosen], found[chosen]
    return best, simulated


def _latency_ns(problem: Problem, step_time: StepTime, rows: Rows) -> npt.NDArray[np.float64]:
    steps = makespan_of_each(problem.graph, rows)
    lengths_ns = np.array([step_time.step_ns(row) for row in rows], dtype=np.float64)
    latency_ns: npt.NDArray[np.float64] = steps * lengths_ns
    return latency_ns


def _neighbours(problem: Problem, copies: Replication) -> Rows:
    """Allocations within the budget that differ in one stage, or in two in opposite directions."""
    windows = problem.graph.windows
    batches = -(-windows // copies)
    fewer = np.maximum(np.minimum(-(-windows // (batches + 1)), copies - 1), problem.smallest)
    more = np.minimum(-(-windows // np.maximum(batches - 1, 1)), problem.largest)
    more = np.maximum(more, np.minimum(copies + (batches > 1), problem.largest))
    rows = []
    stages = np.arange(len(copies))
    for stage in stages:
        for value in {int(fewer[stage]), int(more[stage])} - {int(copies[stage])}:
            row = copies.copy()
            row[stage] = value
            rows.append(row)
            others = stages if len(stages) <= _MOST_PAIRED_STAGES and value > copies[stage] else ()
            for other in others:
                if other != stage and fewer[other] < copies[other]:
                    paired = row.copy()
                    paired[other] = fewer[other]
                    rows.append(paired)
    kept = [row for row in rows if problem.holds(row)]
    return np.array(kept, dtype=np.int64).reshape(len(kept), len(copies))
