"""Compiled moves of `annealing`; only operations that every machine rounds alike are used."""

from __future__ import annotations

from typing import Any

import numpy as np

from rramalloc.compiled import compiled

_ORDER = 0.6
_MOST_TRIES = 100
_SQUARINGS = 20


@compiled
def value_of(windows: Any, copies: Any) -> float:
    """Standard deviation (n - 1) of the batches; infinite if some d_i < 0.6 * d_{i+1}; 0 for one stage."""
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
    """exp(-x) for x >= 0, by squaring its 2**20th root."""
    if x > 700.0:
        return 0.0
    root = x / 2.0**_SQUARINGS
    result = 1.0 / (1.0 + root * (1.0 + root * (0.5 + root / 6.0)))
    for _ in range(_SQUARINGS):
        result *= result
    return result


@compiled
def _below(random: Any, count: int) -> int:
    """Uniform in 0 ... count - 1."""
    return min(int(random.random() * count), count - 1)


@compiled
def _raised(demand: Any, left: int, largest: Any, random: Any, copies: Any, stages: Any) -> int:
    """Give a random stage enough copies for what is `left` and up to a fifth of the rest; -1 if none can."""
    count = 0
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


@compiled
def _moved(
    demand: Any, budget: int, smallest: Any, largest: Any, random: Any, copies: Any, stages: Any
) -> bool:  # fmt: skip
    """Raise a random stage and lower others until about the budget is used; whether that was possible."""
    mean = demand.mean()
    raised = _raised(demand, max(budget - (copies * demand).sum(), 0), largest, random, copies, stages)
    if raised < 0:
        return False
    used = (copies * demand).sum()
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


@compiled
def cooled(
    windows: Any, demand: Any, budget: int, smallest: Any, largest: Any, heat: float, moves: int, random: Any,
    rows: Any, values: Any,
) -> None:  # fmt: skip
    """`moves` at one temperature for every candidate, a row of `rows` with its value in `values`."""
    new = rows[0].copy()
    stages = np.empty(len(demand), dtype=np.int64)
    for _ in range(moves):
        for row in range(len(rows)):
            new[:] = rows[row]
            if not _moved(demand, budget, smallest, largest, random, new, stages):
                continue
            value = value_of(windows, new)
            worse = value - values[row]
            if worse <= 0.0 or random.random() < _decay(worse / heat):
                rows[row] = new
                values[row] = value
