"""Compiled separation of inequalities along whole paths of stages that wait for each other.

A path leads from the start of a stage to the finish of another one. It enters a stage i where the end of a
row u of its grid waits for a producer, and leaves it where a pixel is done for which the next stage waits. As
blocks are computed in order, a mode of i with low ... high copies takes at least

  (block(pixel) // high - block(end of row u) // low + 1) * period

ticks from the one to the other, which depends on the mode of i alone. So the length of a path is linear in
the weights of labels, however many stages it has. The longest path of a fractional solution is found stage by
stage. Source: docs/sources/model.md 4 and 10.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rramalloc.compiled import compiled, compiled_maker, compiled_maker_part, compiled_part

_NEVER = -1e18
_NO_WEIGHT = 1e-7  # a label of less weight in the relaxation is not in use: the tolerance of the solver


class PathPoints(NamedTuple):
    """Places at which paths enter and leave stages; int64.

    Stage i is entered at the ends of its rows row[k], enter[i] <= k < enter[i + 1]. It is left at the pixels
    leave_row[q], leave_column[q], leave[i] <= q < leave[i + 1], of which the first is its last pixel.
    awaited[at[e] + k - enter[i]]: the q of the producer of edge e into i for which k waits, -1 for none.
    """

    enter: Any
    row: Any
    leave: Any
    leave_row: Any
    leave_column: Any
    at: Any
    awaited: Any


class LongestPaths(NamedTuple):
    """Written by `longest_paths`. value[q]: least ticks until a pixel is done; entered[q]: the k by which the
    longest path to it entered the stage, -1 if it begins there; edge[k]: the edge that k waits for longest.
    """

    value: Any
    entered: Any
    edge: Any


class Leg(NamedTuple):
    """A path in a stage: entered by an edge at the end of a row, -1 at its start, and left at a pixel."""

    stage: int
    entered: int
    row: int
    column: int
    edge: int


@compiled_part
def _block(modes: Any, mode: int, y: int, x: int) -> int:
    row = (y + modes.top[mode]) // modes.tall[mode]
    return row * modes.columns[mode] + (x + modes.left[mode]) // modes.wide[mode]


@compiled_part
def _ticks_between(waiting: int, before: int, done: int, after: int, period: int, target: int) -> int:
    """Return the ticks from the wait of a block to the end of the batch of another one.

    before, after: batches before that of the wait, and up to that of the block that is done. Where that
    block comes first, no longer than the target passes from then until the wait.
    """
    return max(after - before, 1) * period if waiting <= done else -target


@compiled_maker_part
def _least_legs(points: Any, modes: Any, i: int, begin: int, end: int, target: int, least: Any) -> None:
    """Write the least ticks of modes begin ... end - 1 of a stage for all its legs to least[k + 1, q].

    k = -1: from the start of the stage.
    """
    enter, leave = points.enter[i], points.leave[i]
    entries, exits = points.enter[i + 1] - enter, points.leave[i + 1] - leave
    waiting, done = np.empty(entries, dtype=np.int64), np.empty(exits, dtype=np.int64)
    least[:] = 1e18
    for mode in range(begin, end):
        low, high, period = modes.low[mode], modes.high[mode], modes.period[mode]
        for q in range(exits):
            done[q] = _block(modes, mode, points.leave_row[leave + q], points.leave_column[leave + q])
            # The minimum over the modes of a label bounds each of them, so the inequality holds for all.
            least[0, q] = min(least[0, q], float((done[q] // high + 1) * period))
        for k in range(entries):
            waiting[k] = _block(modes, mode, points.row[enter + k], modes.width[i] - 1)
        done_batch = done // high + 1
        for k in range(entries):
            # Fewest copies put the wait into the latest batch, most copies the exit into the earliest: the
            # fewest batches lie between.
            block, before = waiting[k], waiting[k] // low
            for q in range(exits):
                ticks = _ticks_between(block, before, done[q], done_batch[q], period, target)
                least[k + 1, q] = min(least[k + 1, q], float(ticks))


@compiled_maker_part
def _add_legs(points: Any, modes: Any, i: int, target: int, weights: Any, costs: Any) -> None:
    """Add the weighted least ticks of all labels of a stage to costs[k + 1, q]; k = -1 for its start."""
    least = np.empty_like(costs)
    begin = modes.first[i]
    while begin < modes.first[i + 1]:
        label, end = modes.label[begin], begin + 1
        while end < modes.first[i + 1] and modes.label[end] == label:
            end += 1
        if weights[label] > _NO_WEIGHT:
            _least_legs(points, modes, i, begin, end, target, least)
            for k in range(costs.shape[0]):
                for q in range(costs.shape[1]):
                    costs[k, q] += weights[label] * least[k, q]
        begin = end


@compiled_maker
def longest_paths(edges: Any, points: Any, modes: Any, target: int, solution: Any, longest: Any) -> None:
    """Fill `longest` for a fractional solution. The modes of a stage are sorted by label."""
    for i in range(len(modes.size)):
        enter, leave = points.enter[i], points.leave[i]
        entries, exits = points.enter[i + 1] - enter, points.leave[i + 1] - leave
        waited = np.full(entries, _NEVER)
        longest.edge[enter : enter + entries] = -1
        for e in range(edges.pointer[i], edges.pointer[i + 1]):
            for k in range(entries):
                q = points.awaited[points.at[e] + k]
                # Any path gives a valid inequality; the longest at the fractional solution is the most
                # violated.
                if q >= 0 and longest.value[q] + edges.lag[e] > waited[k]:
                    waited[k], longest.edge[enter + k] = longest.value[q] + edges.lag[e], e
        costs = np.zeros((entries + 1, exits))
        _add_legs(points, modes, i, target, solution.weights[i], costs)
        for q in range(exits):
            value, entered = solution.begin[i] + costs[0, q], -1
            for k in range(entries):
                if waited[k] + costs[k + 1, q] > value:
                    value, entered = waited[k] + costs[k + 1, q], k
            longest.value[leave + q], longest.entered[leave + q] = value, entered


@compiled
def trace(edges: Any, points: Any, longest: Any, stage: int, legs: Any) -> int:
    """Write the legs of the longest path to the finish of a stage, the last first; how many there are."""
    i, q, count = stage, points.leave[stage], 0
    while True:
        k = longest.entered[q]
        legs[count, 0], legs[count, 1] = i, points.row[points.enter[i] + k] if k >= 0 else -1
        legs[count, 2], legs[count, 3], legs[count, 4] = points.leave_row[q], points.leave_column[q], -1
        count += 1
        if k < 0:
            return count
        e = longest.edge[points.enter[i] + k]
        legs[count - 1, 4] = e
        i, q = edges.producer[e], points.awaited[points.at[e] + k]


@compiled
def leg_costs(modes: Any, legs: Any, target: int, costs: Any) -> None:
    """Write the least ticks that every label of the stage of each leg takes for it, to costs[leg, label]."""
    for leg in range(len(legs)):
        i, u, y, x = legs[leg, 0], legs[leg, 1], legs[leg, 2], legs[leg, 3]
        for m in range(modes.size[i]):
            costs[leg, m] = 1e18
        for mode in range(modes.first[i], modes.first[i + 1]):
            low, high, period = modes.low[mode], modes.high[mode], modes.period[mode]
            done = _block(modes, mode, y, x)
            after = done // high + 1
            ticks = after * period
            if u >= 0:
                waiting = _block(modes, mode, u, modes.width[i] - 1)
                ticks = _ticks_between(waiting, waiting // low, done, after, period, target)
            costs[leg, modes.label[mode]] = min(costs[leg, modes.label[mode]], float(ticks))
