"""`annealing`: PIMSYN's search for copies with which all layers take equally long.

Source: PIMSYN (Li et al., DATE 2024, arXiv 2402.18114); its code's simulated annealing and settings.
Objective: the standard deviation of ceil(W_i / d_i) over the layers, with no d_i < 0.6 * d_{i+1}. Start:
arrays in proportion to W_i * c_i (c_i arrays of a copy), copies rounded up. A move gives a random layer more
copies, up to a fifth of what it could have, and takes random ones from others until the arrays used differ
from the budget by no more than the mean of c_i. Temperatures from 10^floor(log10 of the start's value) down
to a thousandth of it by 0.95, 100 moves each, for 10 candidates.

PIMSYN adds alpha times the deviation of memory accesses; they rest on the rows and columns of its crossbars,
which an allocation problem does not have: alpha is 0 here. Our reading: the order of layers is the canonical
one; no layer has more copies than windows; of the final candidates the one with the least value, then with
the fewest arrays counts. Candidates may exceed the budget by less than the mean of c_i.
"""

from __future__ import annotations

import numpy as np

from rramalloc.methods.annealing_kernel import cooled, value_of
from rramalloc.methods.limits import clipped
from rramalloc.search.problem import SECONDS_PER_WORK, Candidate, Problem, Stop
from rramalloc.timing.simulate import Replication

CANDIDATES, MOVES, COOLING, RANGE = 10, 100, 0.95, 1000.0
_LARGEST_VALUE = 1e4
_NS_PER_STAGE = 20.0


def solve(problem: Problem, stop: Stop, seed: int) -> Candidate:
    """The candidate with the least deviation. It ends at the last temperature or the end of work."""
    start = initial(problem)
    value = min(value_of(problem.graph.windows, start), _LARGEST_VALUE)
    rows, values = np.tile(start, (CANDIDATES, 1)), np.full(CANDIDATES, value)
    heat = hot = _power_of_ten(value)
    random = np.random.Generator(np.random.PCG64(seed))
    each_s = 1e-9 * _NS_PER_STAGE * len(start) * CANDIDATES * MOVES
    seconds = 0.0
    allowed = stop.work * SECONDS_PER_WORK
    while value > 0 and heat > hot / RANGE and seconds < allowed and not stop.out_of_time:
        cooled(
            problem.graph.windows, problem.demand, problem.budget, problem.smallest, problem.largest,
            heat, MOVES, random, rows, values,
        )  # fmt: skip
        heat *= COOLING
        seconds += each_s
    best = np.lexsort((rows @ problem.demand, values))[0]
    words = f"heuristic: annealing, deviation of batches {values[best]:.6g}"
    return Candidate(clipped(problem, rows[best]), 1, words, seconds)


def initial(problem: Problem) -> Replication:
    """PIMSYN's start: in proportion to windows, rounded up, then one copy less each in turn until it fits.

    It ends when the arrays exceed the budget by no more than the mean of one copy of each stage.
    """
    windows, demand = problem.graph.windows, problem.demand
    share = problem.budget * windows / float((windows * demand).sum())
    copies = clipped(problem, np.ceil(np.minimum(share, windows)).astype(np.int64))
    over = problem.arrays(copies) - problem.budget
    stage = 0
    while over > demand.mean():
        if copies[stage] > problem.smallest[stage]:
            copies[stage] -= 1
            over -= int(demand[stage])
        stage = (stage + 1) % len(copies)
    return copies


def _power_of_ten(value: float) -> float:
    """The largest power of ten not above `value`, 1 ... 10000 or a fraction; no logarithm, which rounds."""
    power = 1.0
    while power > value > 0:
        power /= 10
    while power * 10 <= value:
        power *= 10
    return power
