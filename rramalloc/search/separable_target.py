"""Compiled decision of one target after another, until the optimum of the separable model is known.

Source: MODEL.md 6; bounds in separable_kernel, search in separable_labels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rramalloc.compiled import compiled
from rramalloc.search.separable_kernel import cut, flow, longest, priced, shrink
from rramalloc.search.separable_labels import decide, levels

_SLACK = 1e-6
_SMOOTH, _PACE = 0.002, 0.003
_FEW = 4


@compiled
def relax(
    model: Any, budget: int, target: int, lo: Any, hi: Any, mean: Any, used: Any, rounds: int, before: int,
    paid: Any, flowing: Any,
) -> tuple[float, float]:  # fmt: skip
    """Look for the prices that prove most, cutting the box with each: (arrays needed at least, price).

    mean, used: averaged lengths and arrays, carried on from call to call; paid, flowing: the best flow
    through each function and arc.
    """
    pointer, arrays, of_stage, begin, steps, into = (
        model[0], model[2], model[3], model[4], model[10], model[7]
    )  # fmt: skip
    events = len(into) - 1
    reach, through, part = np.empty(events), np.empty(events), np.empty(len(flowing))
    through_function = np.empty(len(paid))
    cost, choice = np.empty(pointer[-1]), np.empty(len(lo), dtype=np.int64)
    most, best_price = -1e300, 0.0
    for turn in range(before, before + rounds):
        smooth = max(_SMOOTH, 0.1 / np.sqrt(1.0 + turn))
        path = flow(model, mean, 1.0 / (smooth * target), reach, part, through, through_function)
        excess = (path / target - used.sum() / budget) / smooth
        price = budget / target * np.exp(min(30.0, max(-30.0, excess)))
        total = priced(model, through_function, price, lo, hi, cost, choice) - price * target
        if total > most:
            most, best_price = total, price
            paid[:] = through_function
            for event in range(events):
                for arc in range(into[event], into[event + 1]):
                    flowing[arc] = part[arc] * through[event]
        if total > budget + _SLACK:
            break
        cut(model, budget - total + _SLACK, cost, choice, lo, hi)
        pace = max(_PACE, 2.0 / (turn + 2))
        for i in range(len(lo)):
            used[i] += pace * (arrays[pointer[i] + choice[i]] - used[i])
            for r in range(of_stage[i], of_stage[i + 1]):
                mean[r] += pace * (steps[begin[r] + choice[i]] - mean[r])
    return most, best_price


@compiled
def _furthest(model: Any, lo: Any, hi: Any, length: Any, furthest: Any) -> None:
    """Time of every event if every function in the box takes its most."""
    of_stage, begin, value = model[3], model[4], model[5]
    for i in range(len(lo)):
        for r in range(of_stage[i], of_stage[i + 1]):
            length[r] = value[begin[r] + lo[i]]
            for k in range(lo[i] + 1, hi[i] + 1):
                length[r] = max(length[r], value[begin[r] + k])
    longest(model, length, furthest)


@compiled
def attempt(
    model: Any, plan: Any, budget: int, target: int, mean: Any, used: Any, turn: int, rounds: int, chunk: int,
    stack: Any, most_work: int, found: Any,
) -> tuple[int, int, Any]:  # fmt: skip
    """Whether the target can be met: (outcome as of `decide`, work, a target to try next).

    turn: rounds of averaging before; chunk: as for `decide`, 0 to look at prices only.
    """
    pointer, functions, events = model[0], len(mean), len(model[7]) - 1
    n = len(found)
    lo, hi = np.zeros(n, dtype=np.int64), pointer[1:] - pointer[:-1] - 1
    scratch = (
        np.empty(functions, np.int64), np.empty(functions, np.int64), np.empty(events, np.int64),
        np.empty(events, np.int64),
    )  # fmt: skip
    if not shrink(model, budget, target, lo, hi, scratch):
        return 0, 1, target + 1
    paid, flowing, price = np.zeros(functions), np.zeros(len(model[8])), 0.0
    work, width = 1, (hi - lo).sum()
    if width > _FEW * n:
        work += rounds * (len(flowing) // 8 + width // 16)
        most, price = relax(model, budget, target, lo, hi, mean, used, rounds, turn, paid, flowing)
        if most > budget + _SLACK:
            # the same prices would refute more, but they hold for this box only
            return 0, work, target + 1 + np.int64(min((most - budget) / price, target / 32.0))
        if not shrink(model, budget, target, lo, hi, scratch):
            return 0, work, target + 1
    if chunk == 0:
        return 2, work, target
    furthest = np.empty(events, dtype=np.int64)
    _furthest(model, lo, hi, scratch[1], furthest)
    tables = levels(model, plan, target, lo, hi, scratch[2], furthest, flowing, paid, price)
    outcome, labels = decide(
        model, plan, tables, budget, target, scratch[2], model[11], lo, hi, chunk, stack, most_work, found
    )
    return outcome, work + labels, target + 1


@compiled
def lowest_target(model: Any, budget: int, high: int) -> int:
    """Smallest target that is not refuted by looking at one path and one stage at a time."""
    pointer, into, functions = model[0], model[7], len(model[4]) - 1
    n, events = len(pointer) - 1, len(into) - 1
    scratch = (
        np.empty(functions, np.int64), np.empty(functions, np.int64), np.empty(events, np.int64),
        np.empty(events, np.int64),
    )  # fmt: skip
    low = 1
    while low < high:
        middle = (low + high) // 2
        lo, hi = np.zeros(n, dtype=np.int64), pointer[1:] - pointer[:-1] - 1
        if shrink(model, budget, middle, lo, hi, scratch):
            high = middle
        else:
            low = middle + 1
    return low
