"""`annealing`: PIMSYN's search for copies with which all layers take equally long.

Source: PIMSYN (Li et al., DATE 2024, arXiv 2402.18114); its code's simulated annealing and settings.
Objective: the standard deviation of ceil(W_i / d_i) over the layers, with no d_i < 0.6 * d_{i+1}. Start:
arrays in proportion to W_i * c_i (c_i arrays of a copy), copies rounded up. A move gives a random layer more
copies, up to a fifth of what it could have. It then takes random copies from others until the arrays used
differ from the budget by no more than the mean of c_i. Temperatures fall from 10^floor(log10 of the start's
value) to a thousandth of it by 0.95, 100 moves each, for 10 candidates.

PIMSYN adds alpha times the deviation of memory accesses; they rest on the rows and columns of its crossbars,
which an allocation problem does not have: alpha is 0 here. Our reading: the order of layers is the canonical
one; no layer has more copies than windows; of the final candidates the one with the least value, then with
the fewest arrays counts. Candidates may exceed the budget by less than the mean of c_i.

Its moves are compiled; only operations that every machine rounds alike are used.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rramalloc.compiled import compiled, compiled_maker, compiled_part
from rramalloc.methods.method import Method, clipped
from rramalloc.search import cost
from rramalloc.search.kernels.limits import CopyLimitTables, arrays_of, copy_to
from rramalloc.search.problem import Answer, Problem
from rramalloc.search.work import Work
from rramalloc.timing.simulate import Copies

_ORDER = 0.6  # least d_i / d_{i+1} of neighbouring layers, from PIMSYN's code
_MOST_TRIES = 100  # changes that may bring a move back to the budget before it is given up
_SQUARINGS = 20  # exp(-x) is a 2**20th root squared so often: multiplications round the same everywhere


@compiled
def value_of(windows: Any, copies: Any) -> float:
    """Return the standard deviation (n - 1) of the batches, infinite if some d_i < 0.6 * d_{i+1}."""
    n = len(windows)
    mean = 0.0
    for i in range(n):
        if i + 1 < n and copies[i] < _ORDER * copies[i + 1]:
            return np.inf
        mean += (windows[i] + copies[i] - 1) // copies[i]
    mean /= n
    squares = 0.0
    for i in range(n):
        apart = (windows[i] + copies[i] - 1) // copies[i] - mean
        squares += apart * apart
    return float(np.sqrt(squares / max(n - 1, 1)))


@compiled
def _decay(x: float) -> float:
    """Return exp(-x) for x >= 0, by squaring its 2**20th root: the same on every machine."""
    if x > 700.0:
        return 0.0
    root = x / 2.0**_SQUARINGS
    result = 1.0 / (1.0 + root * (1.0 + root * (0.5 + root / 6.0)))
    for _ in range(_SQUARINGS):
        result *= result
    return result


@compiled_part
def _below(random: Any, count: int) -> int:
    """Return a uniform draw of 0 ... count - 1."""
    return min(int(random.random() * count), count - 1)


@compiled_part
def _raised(limits: Any, left: int, random: Any, copies: Any, stages: Any) -> int:
    """Give a random stage enough copies for what is `left` and up to a fifth of the rest; -1 if none can."""
    demand, largest, count = limits.demand, limits.largest, 0
    for i in range(len(demand)):
        if largest[i] - copies[i] > (left + demand[i] - 1) // demand[i]:
            stages[count] = i
            count += 1
    if count == 0:
        return -1
    raised = stages[_below(random, count)]
    fewest = (left + demand[raised] - 1) // demand[raised]
    spread = (largest[raised] - copies[raised] - fewest + 4) // 5
    copies[raised] += fewest + _below(random, spread + 1)
    return int(raised)


@compiled_part
def _moved(limits: Any, random: Any, copies: Any, stages: Any) -> bool:
    """Give a random stage more copies and others fewer, near the budget; return False if that fails."""
    demand, budget, smallest = limits.demand, limits.budget, limits.smallest
    mean = 0.0
    for i in range(len(demand)):
        mean += demand[i]
    mean /= len(demand)
    raised = _raised(limits, max(budget - arrays_of(demand, copies), 0), random, copies, stages)
    if raised < 0:
        return False
    used = arrays_of(demand, copies)
    count = 0
    for i in range(len(demand)):
        if i != raised:
            stages[count] = i
            count += 1
    for _ in range(_MOST_TRIES):
        over = abs(used - budget)
        if over <= mean:
            return True
        if count > 0:
            pick = _below(random, count)
            stage = stages[pick]
            fewer = min(copies[stage] - smallest[stage], over // demand[stage])
            if fewer > 0:
                fewer = 1 + _below(random, fewer)
                copies[stage] -= fewer
                used -= fewer * demand[stage]
            else:
                count -= 1
                stages[pick] = stages[count]
        else:
            nearest = -1
            for i in range(len(demand)):
                near = nearest < 0 or abs(demand[i] - over) < abs(demand[nearest] - over)
                if copies[i] > smallest[i] and near:
                    nearest = i
            if nearest < 0:
                return False
            copies[nearest] -= 1
            used -= demand[nearest]
    return bool(abs(used - budget) <= mean)


@compiled_maker
def cooled(limits: Any, windows: Any, heat: float, moves: int, random: Any, rows: Any, values: Any) -> None:
    """Anneal every candidate by `moves` at one temperature: a row of `rows`, its value in `values`."""
    new, stages = np.empty_like(windows), np.empty_like(windows)
    for _ in range(moves):
        for row in range(len(rows)):
            copy_to(new, rows[row])
            if not _moved(limits, random, new, stages):
                continue
            value = value_of(windows, new)
            worse = value - values[row]
            if worse <= 0.0 or random.random() < _decay(worse / heat):
                copy_to(rows[row], new)
                values[row] = value


SETTINGS_TRIED = 10  # annealed side by side, from PIMSYN's code
MOVES = 100  # per candidate and temperature, from PIMSYN's code
COOLING = 0.95  # factor between temperatures, from PIMSYN's code
RANGE = 1000.0  # first temperature over the last, from PIMSYN's code
_LARGEST_VALUE = 1e4  # stands for the infinite value of a start out of order, so that a temperature exists


def solve(problem: Problem, stop: Work, seed: int) -> Answer:
    """Return the copies of least deviation, at the last temperature or at the end of the work."""
    start = initial(problem)
    value = min(value_of(problem.graph.windows, start), _LARGEST_VALUE)
    rows, values = np.tile(start, (SETTINGS_TRIED, 1)), np.full(SETTINGS_TRIED, value)
    hot = 1.0  # the largest power of ten not above `value`: a logarithm would round
    while hot > value > 0:
        hot /= 10
    while hot * 10 <= value:
        hot *= 10
    heat = hot
    limits = CopyLimitTables(problem.demand, problem.budget, problem.smallest, problem.largest)
    random = np.random.Generator(np.random.PCG64(seed))
    each_s = cost.ANNEALED_STAGE * len(start) * SETTINGS_TRIED * MOVES
    while value > 0 and heat > hot / RANGE and not stop.is_used_up:
        cooled(limits, problem.graph.windows, heat, MOVES, random, rows, values)
        heat *= COOLING
        stop.charge(each_s)
    best = np.lexsort((rows @ problem.demand, values))[0]
    words = f"heuristic: annealing, deviation of batches {values[best]:.6g}"
    stopped = stop.cut if value > 0 and heat > hot / RANGE else None
    return Answer(problem.choice(clipped(problem, rows[best])), 1, words, stopped=stopped)


ANNEALING = Method(
    "annealing",
    solve,
    minimises="the spread of layer times, by chance",
    source="PIMSYN, DATE 2024",
    seeded=True,
)


def initial(problem: Problem) -> Copies:
    """Return PIMSYN's start: in proportion to windows, rounded up, then each one copy less until it fits.

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
