"""Compiled separation: inequalities of the relaxation that a fractional solution violates most.

A label is an interval of copies of a stage, x[i, m] the weight of label m of stage i (their sum is 1).
For a pair (p, i) of Reach whose labels are k and m, three inequalities hold for every allocation:

  start_i >= start_p + wait(k, m)         wait(k, m) = (need(low_m - 1) // high_k + 1) * t_k + beyond
  finish_i >= start_p + (need(w) // high_k + 1) * t_k + beyond + ((W_i - 1 - w) // high_m + 1) * t_m
  finish_i >= finish_p + max(1, ceil((W_i - user) / high_m)) * t_m + beyond

the second for every window w, with t the ticks of a batch of the fewest copies of a label.
The first is linear in x only after its pair cost is replaced by the sum a_k + b_m <= wait(k, m) that is
largest at x: the dual of a transport problem, solved along the staircase, and made valid by taking b and
then a as large as all waits allow.  Source: docs/sources/model.md 4.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rramalloc.compiled import compiled, compiled_inline, compiled_part


class Solution(NamedTuple):
    """Fractional solution. weights: of every label, float64 (stages, labels); begin, end: of every stage."""

    weights: Any
    begin: Any
    end: Any

    def mixed(self, other: Solution, part: float) -> Solution:
        """Return this solution mixed with `part` of another one."""
        return Solution(*(part * b + (1.0 - part) * a for a, b in zip(self, other, strict=True)))


class Corners(NamedTuple):
    """Windows first[e] ... first[e + 1] - 1 of `windows`: the corners of the table of pair e."""

    first: Any
    windows: Any


class Violations(NamedTuple):
    """For every pair, written by `separate`: by how much the solution violates its three inequalities.

    wait: with the potentials a[e], b[e] of producer and consumer labels; tail; middle: at most[e], the window
    of the corner where it is violated most; cost: scratch, labels of a producer x of its consumer.
    """

    wait: Any
    a: Any
    b: Any
    tail: Any
    middle: Any
    most: Any
    cost: Any


@compiled
def separate(
    windows: Any, reach: Any, corners: Any, labels: Any, solution: Any, target: float, violations: Any
) -> None:
    """Fill `violations`. labels: Labels of relaxation.py."""
    _waits(reach, labels, solution, target, violations)
    _tails(windows, reach, labels, solution, violations.tail)
    _middles(windows, reach, corners, labels, solution, violations)


@compiled_inline
def _waits(reach: Any, labels: Any, solution: Any, target: float, violations: Any) -> None:
    low, high, ticks, count, x = labels.low, labels.high, labels.ticks, labels.size, solution.weights
    cost = violations.cost
    for i in range(len(count)):
        for e in range(reach.pointer[i], reach.pointer[i + 1]):
            p, a, b = reach.producer[e], violations.a[e], violations.b[e]
            for m in range(count[i]):
                window = reach.need[reach.offset[e] + low[i, m] - 1]
                for k in range(count[p]):
                    wait = (window // high[p, k] + 1) * ticks[p, k] + reach.beyond[e]
                    # A pair that does not wait gives no inequality: the least difference of starts that a
                    # target allows.
                    cost[k, m] = wait if window >= 0 else -target
            potentials(cost, x[p], x[i], count[p], count[i], a, b)
            total = solution.begin[p] - solution.begin[i]
            for k in range(count[p]):
                total += a[k] * x[p, k]
            for m in range(count[i]):
                total += b[m] * x[i, m]
            violations.wait[e] = total


@compiled_part
def potentials(cost: Any, left: Any, right: Any, rows: int, columns: int, a: Any, b: Any) -> None:
    """Write sums a_k + b_m <= cost[k, m], tight along the staircase that couples `left` and `right`."""
    k, m = 0, 0
    a[0], b[0] = 0.0, cost[0, 0]
    # The north-west corner rule solves this transport problem: it is optimal where costs are Monge, and
    # otherwise still gives sums that the last two loops make valid.
    here, there = left[0], right[0]
    while k + 1 < rows or m + 1 < columns:
        if m + 1 == columns or (k + 1 < rows and here <= there):
            there -= here
            k += 1
            here = left[k]
            a[k] = cost[k, m] - b[m]
        else:
            here -= there
            m += 1
            there = right[m]
            b[m] = cost[k, m] - a[k]
    for m in range(columns):
        # The largest b for these a that violates no pair, and then the largest a for these b: whatever the
        # coupling was, every sum a_k + b_m stays at most its wait.
        least = cost[0, m] - a[0]
        for k in range(1, rows):
            least = min(least, cost[k, m] - a[k])
        b[m] = least
    for k in range(rows):
        least = cost[k, 0] - b[0]
        for m in range(1, columns):
            least = min(least, cost[k, m] - b[m])
        a[k] = least


@compiled_inline
def _middles(windows: Any, reach: Any, corners: Any, labels: Any, solution: Any, violations: Any) -> None:
    high, ticks, count, x = labels.high, labels.ticks, labels.size, solution.weights
    for i in range(len(count)):
        for e in range(reach.pointer[i], reach.pointer[i + 1]):
            p = reach.producer[e]
            violations.middle[e], violations.most[e] = -1.0, -1
            for c in range(corners.first[e], corners.first[e + 1]):
                w = corners.windows[c]
                total = solution.begin[p] - solution.end[i] + reach.beyond[e]
                for k in range(count[p]):
                    total += x[p, k] * ((reach.need[reach.offset[e] + w] // high[p, k] + 1) * ticks[p, k])
                for m in range(count[i]):
                    total += x[i, m] * (((windows[i] - 1 - w) // high[i, m] + 1) * ticks[i, m])
                if violations.most[e] < 0 or total > violations.middle[e]:
                    violations.middle[e], violations.most[e] = total, w


@compiled_inline
def _tails(windows: Any, reach: Any, labels: Any, solution: Any, excess: Any) -> None:
    high, ticks, count, x = labels.high, labels.ticks, labels.size, solution.weights
    for i in range(len(count)):
        for e in range(reach.pointer[i], reach.pointer[i + 1]):
            excess[e] = -1.0
            user = reach.user[e]
            if user >= 0:
                total = solution.end[reach.producer[e]] - solution.end[i] + reach.beyond[e]
                for m in range(count[i]):
                    # The windows from the first user of p's last pixel on run after p has finished.
                    batches = max(1, (windows[i] - user + high[i, m] - 1) // high[i, m])
                    total += x[i, m] * (batches * ticks[i, m])
                excess[e] = total


@compiled
def upper_hull(need: Any, first: int, count: int, hull: Any) -> int:
    """Return the corners of the upper hull of the points (w, need[first + w]) with need >= 0."""
    size = 0
    for w in range(count):
        v = need[first + w]
        if v < 0:
            continue
        while size >= 2:
            u, t = hull[size - 1], hull[size - 2]
            # A point below the line between its neighbours is never the largest of a linear function: it is
            # no cut.
            if (need[first + u] - need[first + t]) * (w - u) <= (v - need[first + u]) * (u - t):
                size -= 1
            else:
                break
        hull[size] = w
        size += 1
    return size
