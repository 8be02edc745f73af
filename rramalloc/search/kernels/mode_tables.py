"""Compiled bounds over labels: what sets of modes of two stages make each other wait, and the cheapest paths.

A label is a set of modes of a stage. For a pair (p, i) of stages that wait for each other, with labels k and
m, every allocation whose modes are in these labels has

  start_i >= start_p + wait(k, m)      finish_i >= start_p + middle(k, m)      finish_i >= finish_p + tail(m)

and start_i >= finish_p + beyond where `whole(m)`: the first batch of i needs the last pixel of p. `beyond` is
the least time from the finish of a batch of p to the start of one of i that waits for it: over all paths of
edges, the lags of the edges and the least periods of the stages between.

All of them rest on what single pixels need, whatever the order in which blocks compute them, and on these
facts about a mode with low ... high copies that take the same number of batches, each of at least `period`
ticks: the batch with block x finishes (x // high + 1) * period ticks after its stage's start or later, and
from its start to the end of the stage at least (batches - x // low) * period ticks pass.

Source: docs/sources/model.md 4 and 10; tested against exhaustive search over modes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rramalloc.compiled import compiled, compiled_part
from rramalloc.search.kernels.cuts import potentials

_FAR = 1e18
_MOST = 2**60


class LabelledModes(NamedTuple):
    """Modes of all stages that are left, those of stage i from first[i] to first[i + 1] - 1; int64.

    label: of each mode within its stage; size[i]: labels of stage i; height, width: of the stages.
    """

    first: Any
    tall: Any
    wide: Any
    top: Any
    left: Any
    columns: Any
    low: Any
    high: Any
    batches: Any
    period: Any
    label: Any
    size: Any
    height: Any
    width: Any


class Pairs(NamedTuple):
    """Stages i that wait for ancestors p, grouped by i: pairs pointer[i] ... pointer[i + 1] - 1 belong to i.

    beyond: least ticks between the two, see the module; rows of p that the rows of i need stand from
    table[row] on, columns from table[column] on; user_row, user_column: first row and column of i that need
    the last ones of p, -1 if none does. checks of stage i: rows checked[check_first[i]] ... of its grid at
    which middles are looked at.
    """

    pointer: Any
    producer: Any
    beyond: Any
    row: Any
    column: Any
    user_row: Any
    user_column: Any
    table: Any
    check_first: Any
    checked: Any


class Waits(NamedTuple):
    """For every pair and labels k of p and m of i: see the module; whole is 1 or 0."""

    wait: Any
    middle: Any
    tail: Any
    whole: Any


@compiled
def fill_waits(modes: Any, pairs: Any, waits: Any) -> None:
    """Write the tables of all pairs. wait and middle are -_MOST where nothing is needed."""
    n, labels = len(modes.size), waits.wait.shape[1]
    tallest = 0
    for i in range(n):
        tallest = max(tallest, modes.height[i])
    checks = 0
    for i in range(n):
        checks = max(checks, pairs.check_first[i + 1] - pairs.check_first[i])
    first_row, first_column = np.empty(labels, dtype=np.int64), np.empty(labels, dtype=np.int64)
    whole_row = np.empty(labels, dtype=np.int64)
    need_row, left = np.empty((labels, checks), dtype=np.int64), np.empty((labels, checks), dtype=np.int64)
    delivered = np.empty((labels, tallest), dtype=np.int64)
    for i in range(n):
        for e in range(pairs.pointer[i], pairs.pointer[i + 1]):
            p, beyond = pairs.producer[e], pairs.beyond[e]
            rows, columns, table = pairs.row[e], pairs.column[e], pairs.table
            end = table[columns + modes.width[i] - 1]  # last column of p that is needed
            count = pairs.check_first[i + 1] - pairs.check_first[i]
            for m in range(modes.size[i]):
                first_row[m], first_column[m], whole_row[m] = _MOST, _MOST, _MOST
                waits.tail[e, m], waits.whole[e, m] = _MOST, 1
                for y in range(count):
                    need_row[m, y], left[m, y] = _MOST, _MOST
            for mode in range(modes.first[i], modes.first[i + 1]):
                m, low, across = modes.label[mode], modes.low[mode], modes.columns[mode]
                batches, period = modes.batches[mode], modes.period[mode]
                tall, wide, top, aside = modes.tall[mode], modes.wide[mode], modes.top[mode], modes.left[mode]
                r, c = (low - 1) // across, (low - 1) % across
                needed = table[rows + min((r + 1) * tall - top, modes.height[i]) - 1]
                beside = table[columns + min((c + 1) * wide - aside, modes.width[i]) - 1]
                if beside < 0:
                    needed = -1
                above = -1
                if r > 0:
                    above = table[rows + r * tall - top - 1]
                first_row[m] = min(first_row[m], needed)
                first_column[m] = min(first_column[m], beside)
                whole_row[m] = min(whole_row[m], above)
                at_end = needed == modes.height[p] - 1 and beside == modes.width[p] - 1
                if not (at_end or (above == modes.height[p] - 1 and end == modes.width[p] - 1)):
                    waits.whole[e, m] = 0
                if pairs.user_row[e] >= 0:
                    block = (pairs.user_row[e] + top) // tall * across + (
                        pairs.user_column[e] + aside
                    ) // wide
                    waits.tail[e, m] = min(waits.tail[e, m], (batches - block // low) * period + beyond)
                for y in range(count):
                    r = (pairs.checked[pairs.check_first[i] + y] + top) // tall
                    needed = table[rows + min((r + 1) * tall - top, modes.height[i]) - 1]
                    need_row[m, y] = min(need_row[m, y], needed)
                    left[m, y] = min(left[m, y], (batches - (r * across + across - 1) // low) * period)
            if pairs.user_row[e] < 0:
                for m in range(modes.size[i]):
                    waits.tail[e, m] = -_MOST
            for k in range(modes.size[p]):
                for m in range(modes.size[i]):
                    waits.wait[e, k, m] = _MOST
                for y in range(modes.height[p]):
                    delivered[k, y] = _MOST
            for mode in range(modes.first[p], modes.first[p + 1]):
                k, high, across = modes.label[mode], modes.high[mode], modes.columns[mode]
                period = modes.period[mode]
                tall, wide, top, aside = modes.tall[mode], modes.wide[mode], modes.top[mode], modes.left[mode]
                column = (end + aside) // wide
                row, time = -1, 0
                for y in range(modes.height[p]):
                    r = (y + top) // tall
                    if r != row:
                        row, time = r, ((r * across + column) // high + 1) * period
                    delivered[k, y] = min(delivered[k, y], time)
                for m in range(modes.size[i]):
                    needed = -_MOST
                    if first_row[m] >= 0:
                        needed = (first_row[m] + top) // tall * across + (first_column[m] + aside) // wide
                    if whole_row[m] >= 0:
                        needed = max(needed, (whole_row[m] + top) // tall * across + column)
                    time = (needed // high + 1) * period + beyond if needed >= 0 else -_MOST
                    waits.wait[e, k, m] = min(waits.wait[e, k, m], time)
            for k in range(modes.size[p]):
                for m in range(modes.size[i]):
                    longest = -_MOST
                    for y in range(count):
                        if need_row[m, y] >= 0:
                            longest = max(longest, delivered[k, need_row[m, y]] + left[m, y] + beyond)
                    waits.middle[e, k, m] = longest


class Ways(NamedTuple):
    """Scratch, float64 (stages, labels): least ticks and payments on paths to and from every stage.

    before: to its start, done: to its finish, without its own payment; ahead: from its start to the end,
    after: from its finish; paid: for the arrays of a label beyond the stage's fewest.
    """

    before: Any
    done: Any
    ahead: Any
    after: Any
    paid: Any


@compiled_part
def _forward(pairs: Any, waits: Any, size: Any, runs: Any, ways: Any) -> None:
    before, done, paid = ways.before, ways.done, ways.paid
    for i in range(len(size)):
        for m in range(size[i]):
            before[i, m], done[i, m] = 0.0, 0.0
        for e in range(pairs.pointer[i], pairs.pointer[i + 1]):
            p = pairs.producer[e]
            ended = _FAR
            for k in range(size[p]):
                ended = min(ended, done[p, k] + paid[p, k])
            for m in range(size[i]):
                started, finished = _FAR, _FAR
                for k in range(size[p]):
                    begun = before[p, k] + paid[p, k]
                    started = min(started, begun + waits.wait[e, k, m])
                    finished = min(finished, begun + waits.middle[e, k, m])
                before[i, m] = max(before[i, m], started)
                if waits.whole[e, m]:
                    before[i, m] = max(before[i, m], ended + pairs.beyond[e])
                done[i, m] = max(done[i, m], finished, ended + waits.tail[e, m])
        for m in range(size[i]):
            done[i, m] = max(done[i, m], before[i, m] + runs[i, m])


@compiled_part
def _backward(pairs: Any, waits: Any, size: Any, runs: Any, ways: Any) -> None:
    ahead, after, paid = ways.ahead, ways.after, ways.paid
    for i in range(len(size)):
        for m in range(size[i]):
            ahead[i, m], after[i, m] = 0.0, 0.0
    for i in range(len(size) - 1, -1, -1):
        for m in range(size[i]):
            ahead[i, m] = max(ahead[i, m], runs[i, m] + after[i, m])
        for e in range(pairs.pointer[i], pairs.pointer[i + 1]):
            p = pairs.producer[e]
            rest = _FAR
            for m in range(size[i]):
                way = max(0.0, waits.tail[e, m] + after[i, m])
                if waits.whole[e, m]:
                    way = max(way, ahead[i, m] + pairs.beyond[e])
                rest = min(rest, way + paid[i, m])
            for k in range(size[p]):
                after[p, k] = max(after[p, k], rest)
                way = _FAR
                for m in range(size[i]):
                    own = max(0.0, waits.wait[e, k, m] + ahead[i, m], waits.middle[e, k, m] + after[i, m])
                    way = min(way, own + paid[i, m])
                ahead[p, k] = max(ahead[p, k], way)


@compiled
def price_labels(
    pairs: Any, waits: Any, size: Any, runs: Any, arrays: Any, limit: float, price: float, spare: int,
    ways: Any, kept: Any,
) -> float:  # fmt: skip
    """Remove labels (kept becomes False) that must pass the limit at one price per array; a lower bound.

    Every allocation within the budget pays at most price * spare for arrays beyond each stage's fewest, so
    ticks and payments on a path through a label, less that, bound the makespan of all that use it. The bound
    holds for all labels given; ways.before and ways.after[:] are left as they were computed.
    """
    for i in range(len(size)):
        fewest = arrays[i, 0]
        for m in range(size[i]):
            fewest = min(fewest, arrays[i, m])
        for m in range(size[i]):
            ways.paid[i, m] = price * (arrays[i, m] - fewest)
    _forward(pairs, waits, size, runs, ways)
    _backward(pairs, waits, size, runs, ways)
    bound, bought = 0.0, price * spare
    for i in range(len(size)):
        least = _FAR
        for m in range(size[i]):
            way = max(ways.before[i, m] + ways.ahead[i, m], ways.done[i, m] + ways.after[i, m])
            way += ways.paid[i, m] - bought
            if way > limit:
                kept[i, m] = False
            least = min(least, way)
        bound = max(bound, least)
    return bound


class Potentials(NamedTuple):
    """For every pair, written by `separate_waits`: excess and a[e, k] + b[e, m] <= the table."""

    excess: Any
    a: Any
    b: Any


@compiled
def separate_waits(
    pairs: Any, tables: Any, size: Any, solution: Any, ends: bool, floor: float, out: Any
) -> None:  # fmt: skip
    """Fill `out` for the waits (ends False: start to start) or the middles (True: start to finish).

    floor: entries below are as good as this, since no start is that long before another.
    """
    labels = tables.shape[1]
    cost = np.empty((labels, labels))
    for i in range(len(size)):
        for e in range(pairs.pointer[i], pairs.pointer[i + 1]):
            p = pairs.producer[e]
            for k in range(size[p]):
                for m in range(size[i]):
                    cost[k, m] = max(float(tables[e, k, m]), floor)
            potentials(cost, solution.weights[p], solution.weights[i], size[p], size[i], out.a[e], out.b[e])
            total = solution.begin[p] - (solution.end[i] if ends else solution.begin[i])
            for k in range(size[p]):
                total += out.a[e, k] * solution.weights[p, k]
            for m in range(size[i]):
                total += out.b[e, m] * solution.weights[i, m]
            out.excess[e] = total
