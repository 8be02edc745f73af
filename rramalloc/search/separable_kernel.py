"""Compiled bounds of the separable model: what a target leaves of every stage, and what that must cost.

A box holds, for every stage, the options lo ... hi of its useful copies. Two rules shrink it without losing
an allocation that meets target and budget: no path through an option may exceed the target when all others
take their least, and no option may cost more than the budget in a Lagrangian relaxation in which the
lengths of paths are paid for by a flow over the arcs. Any flow is valid; a good one comes from smoothed
longest paths of averaged lengths (the dual of a packing linear program, by Frank-Wolfe steps).

Source: MODEL.md 6; Fulkerson's duality of project cost and flow; tested against MILP solvers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rramalloc.compiled import compiled

_SLACK = 1e-6
"""Arrays by which a bound must exceed the budget before rounding errors cannot be the reason."""


@compiled
def longest(model: Any, length: Any, head: Any) -> int:
    """Time of the last event; head: of each event, if function r takes length[r] steps."""
    into, origin, function = model[7], model[8], model[9]
    for event in range(len(into) - 1):
        latest = 0
        for arc in range(into[event], into[event + 1]):
            r = function[arc]
            at = head[origin[arc]]
            if r >= 0:
                at += length[r]
            latest = max(latest, at)
        head[event] = latest
    return int(head[len(into) - 2])


@compiled
def steps_of(model: Any, choice: Any, length: Any, head: Any) -> int:
    """Steps that the model gives one option per stage."""
    of_stage, begin, value = model[3], model[4], model[5]
    for i in range(len(choice)):
        for r in range(of_stage[i], of_stage[i + 1]):
            length[r] = value[begin[r] + choice[i]]
    return longest(model, length, head)


@compiled
def _limits(model: Any, target: int, length: Any, head: Any, rest: Any, limit: Any) -> None:
    """limit[r]: most steps that function r may take, all others at `length`; rest: from each event on."""
    into, origin, function = model[7], model[8], model[9]
    rest[:] = 0
    limit[:] = target
    for event in range(len(into) - 2, -1, -1):
        for arc in range(into[event], into[event + 1]):
            r, source = function[arc], origin[arc]
            if r < 0:
                rest[source] = max(rest[source], rest[event])
            else:
                rest[source] = max(rest[source], rest[event] + length[r])
                limit[r] = min(limit[r], target - head[source] - rest[event])


@compiled
def _within_limits(model: Any, i: int, k: int, limit: Any) -> bool:
    of_stage, begin, value = model[3], model[4], model[5]
    within = True
    for r in range(of_stage[i], of_stage[i + 1]):
        within = within and value[begin[r] + k] <= limit[r]
    return within


@compiled
def shrink(model: Any, budget: int, target: int, lo: Any, hi: Any, scratch: Any) -> bool:
    """Shrink the box by target and budget until neither changes it; False if nothing is left."""
    pointer, arrays, of_stage, begin, value, least = (
        model[0], model[2], model[3], model[4], model[5], model[6]
    )  # fmt: skip
    length, limit, head, rest = scratch
    n = len(lo)
    while True:
        for i in range(n):
            for r in range(of_stage[i], of_stage[i + 1]):
                at = begin[r] + hi[i]
                length[r] = value[at] if lo[i] == hi[i] else least[at]
        if longest(model, length, head) > target:
            return False
        _limits(model, target, length, head, rest, limit)
        spare = budget
        for i in range(n):
            while lo[i] <= hi[i] and not _within_limits(model, i, lo[i], limit):
                lo[i] += 1
            if lo[i] > hi[i]:
                return False
            spare -= arrays[pointer[i] + lo[i]]
        if spare < 0:
            return False
        changed = False
        for i in range(n):
            most = spare + arrays[pointer[i] + lo[i]]
            while arrays[pointer[i] + hi[i]] > most or not _within_limits(model, i, hi[i], limit):
                hi[i] -= 1
                changed = True
        if not changed:
            return True


@compiled
def flow(model: Any, mean: Any, scale: float, reach: Any, share: Any, through: Any, paid: Any) -> float:
    """A unit flow from input to end that prefers long paths; smoothed length of the longest.

    Each path gets a weight exp(scale * its mean length); paid[r]: flow through the arcs of function r.
    """
    into, origin, function = model[7], model[8], model[9]
    events = len(into) - 1
    for event in range(events):
        first, after = into[event], into[event + 1]
        if after == first:
            reach[event] = 0.0
            continue
        latest = -1.0
        for arc in range(first, after):
            r = function[arc]
            share[arc] = reach[origin[arc]] + (mean[r] if r >= 0 else 0.0)
            latest = max(latest, share[arc])
        if after == first + 1:
            share[first] = 1.0
            reach[event] = latest
            continue
        total = 0.0
        for arc in range(first, after):
            share[arc] = np.exp(scale * (share[arc] - latest))
            total += share[arc]
        for arc in range(first, after):
            share[arc] /= total
        reach[event] = latest + np.log(total) / scale
    through[:] = 0.0
    paid[:] = 0.0
    through[events - 1] = 1.0
    for event in range(events - 1, -1, -1):
        if through[event] > 0.0:
            for arc in range(into[event], into[event + 1]):
                part = through[event] * share[arc]
                through[origin[arc]] += part
                if function[arc] >= 0:
                    paid[function[arc]] += part
    return float(reach[events - 1])


@compiled
def priced(model: Any, paid: Any, price: float, lo: Any, hi: Any, cost: Any, choice: Any) -> float:
    """Least arrays and payments of all stages when a step of function r costs price * paid[r] arrays.

    cost: of every option; choice: the cheapest of each stage.
    """
    pointer, arrays, of_stage, begin, steps = model[0], model[2], model[3], model[4], model[10]
    total = 0.0
    for i in range(len(lo)):
        at = pointer[i]
        for k in range(lo[i], hi[i] + 1):
            cost[at + k] = arrays[at + k]
        for r in range(of_stage[i], of_stage[i + 1]):
            each = price * paid[r]
            if each > 0.0:
                for k in range(lo[i], hi[i] + 1):
                    cost[at + k] += each * steps[begin[r] + k]
        best = lo[i]
        for k in range(lo[i] + 1, hi[i] + 1):
            if cost[at + k] < cost[at + best]:
                best = k
        choice[i] = best
        total += cost[at + best]
    return total


@compiled
def cut(model: Any, room: float, cost: Any, choice: Any, lo: Any, hi: Any) -> bool:
    """Drop options at both ends that cost more than `room` beyond the cheapest; whether any was."""
    pointer = model[0]
    dropped = False
    for i in range(len(lo)):
        at = pointer[i]
        most = cost[at + choice[i]] + room
        while cost[at + lo[i]] > most:
            lo[i] += 1
            dropped = True
        while cost[at + hi[i]] > most:
            hi[i] -= 1
            dropped = True
    return dropped
