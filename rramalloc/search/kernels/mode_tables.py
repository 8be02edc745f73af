"""Compiled bounds over labels: waits between sets of modes of two stages, and the cheapest paths.

A label is a set of modes of a stage. For a pair (p, i) of stages that wait for each other, with labels k and
m, every allocation whose modes are in these labels has

  start_i >= start_p + wait(k, m)      finish_i >= start_p + middle(k, m)      finish_i >= finish_p + tail(m)

and start_i >= finish_p + delay where `whole(m)`: the first batch of i needs the last pixel of p. `delay` is
the least time from the finish of a batch of p to the start of one of i that waits for it: over all paths of
edges, the lags of the edges and the least periods of the stages between.

All of them rest on the needs of single pixels, whatever the order in which blocks compute them, and on two
facts about a mode with low ... high copies that take the same number of batches, each of at least `period`
ticks. The batch with block x finishes (x // high + 1) * period ticks after its stage's start or later. From
its start to the end of the stage at least (batches - x // low) * period ticks pass.

Source: docs/sources/model.md 4 and 10; tested against exhaustive search over modes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rramalloc.compiled import compiled, compiled_maker, compiled_maker_part, compiled_part
from rramalloc.search.kernels.prices import with_slack
from rramalloc.timing.kernel import block_row, last_row

_FAR = 1e18  # stands for an infinite time: above every sum of ticks and payments
_MOST = 2**60
_BISECTIONS = 10  # of the slack of labels: exact to a thousandth of its range, a larger slack is valid too


class LabelledModes(NamedTuple):
    """Modes of all stages that may still meet the target, first[i] to first[i + 1] - 1 of stage i; int64.

    label: of each mode within its stage; size[i]: labels of stage i; height, width: of the stages.
    """

    first: Any
    tall: Any
    wide: Any
    top: Any
    left: Any
    image: Any
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

    delay: least ticks between the two, see the module; rows of p that the rows of i need stand from
    table[row] on, columns from table[column] on; user_row, user_column: first row and column of i that need
    the last ones of p, -1 if none does. checks of stage i: rows checked[check_first[i]] ... of its grid at
    which middles are looked at.
    """

    pointer: Any
    producer: Any
    delay: Any
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


@compiled_part
def _cover_within(features: Any, most: int, slack: float, centres: Any, label: Any) -> int:
    """Choose centres that dominate every mode up to `slack`; return their number, or most + 1 if too many."""
    count = 0
    for mode in range(len(features)):
        closest, chosen = slack, -1
        for c in range(count):
            excess = 0.0
            for f in range(features.shape[1]):
                excess = max(excess, features[centres[c], f] - features[mode, f])
                if excess > closest:
                    break
            if excess < closest or (excess == closest and chosen < 0):
                closest, chosen = excess, c
                if excess == 0.0:
                    break
        if chosen < 0:
            if count == most:
                return most + 1
            centres[count], chosen = mode, count
            count += 1
        label[mode] = chosen
    return count


@compiled_maker
def cut_into_labels(features: Any, most: int, largest: float, label: Any) -> int:
    """Cut modes into at most `most` labels and return how many there are; label: int64, written.

    A label is what one of its modes dominates up to a slack in every feature (smaller is better), and that
    slack, at most `largest`, is about the smallest that needs no more labels. So a label is hardly better
    than a mode in it, however many worse modes it holds. The modes should come best first.
    """
    centres = np.empty(most, dtype=np.int64)
    low, high = 0.0, largest
    # Without slack labels are exact; slack is added only where modes outnumber the labels.
    count = _cover_within(features, most, low, centres, label)
    if count <= most:
        return count
    for _ in range(_BISECTIONS):
        slack = (low + high) / 2
        if _cover_within(features, most, slack, centres, label) <= most:
            high = slack
        else:
            low = slack
    return _cover_within(features, most, high, centres, label)


class _Reaches(NamedTuple):
    """Least reaches that all modes of a label share, for every stage and label m: see `_fill_reaches`.

    Rows and columns are counted from the top and from the left. first_row, first_column: least that the first
    batch reaches to; above: least rows above the row of blocks that it ends in; bottom[:, :, y]: least rows
    down to the end of the blocks of the checked row y; left: least ticks from their start to the end of the
    stage; delivered[:, y, :]: least ticks until row y is complete.
    """

    first_row: Any
    first_column: Any
    above: Any
    bottom: Any
    left: Any
    delivered: Any


@compiled_part
def _fill_reaches(modes: Any, fastest: Any, pairs: Any, reaches: Any) -> None:
    for i in range(len(modes.size)):
        base, count = pairs.check_first[i], pairs.check_first[i + 1] - pairs.check_first[i]
        for mode in range(modes.first[i], modes.first[i + 1]):
            m, low, across = modes.label[mode], modes.low[mode], modes.columns[mode]
            tall, top, image = modes.tall[mode], modes.top[mode], modes.image[mode]
            r = (low - 1) // across
            end = last_row(r, tall, top, image) + 1
            # The minimum over the modes of a label: no mode of it needs less, so waits built from it hold for
            # all.
            reaches.first_row[i, m] = min(reaches.first_row[i, m], end)
            end = ((low - 1) % across + 1) * modes.wide[mode] - modes.left[mode]
            reaches.first_column[i, m] = min(reaches.first_column[i, m], end, modes.width[i])
            reaches.above[i, m] = min(
                reaches.above[i, m], last_row(r - 1, tall, top, image) + 1 if r > 0 else 0
            )
            row, end, time = -1, 0, 0
            for y in range(count):
                r = block_row(pairs.checked[base + y], 1.0 / tall, top + 0.5, image)
                if r != row:
                    row, end = r, last_row(r, tall, top, image) + 1
                    # Fewest copies put the last block of the row into its latest batch: the fewest batches
                    # still follow.
                    time = (modes.batches[mode] - (r * across + across - 1) // low) * modes.period[mode]
                reaches.bottom[i, m, y] = min(reaches.bottom[i, m, y], end)
                reaches.left[i, m, y] = min(reaches.left[i, m, y], time)
        _fill_delivered(fastest, i, modes.width[i] - 1, reaches.delivered[i])


@compiled_part
def _fill_delivered(modes: Any, p: int, end: int, delivered: Any) -> None:
    """Fill the least ticks of every label until each row of p is complete up to a column."""
    delivered[: modes.height[p], : modes.size[p]] = _MOST
    for mode in range(modes.first[p], modes.first[p + 1]):
        k, tall, top, image = modes.label[mode], modes.tall[mode], modes.top[mode], modes.image[mode]
        last, per_batch = (end + modes.left[mode]) // modes.wide[mode], 1.0 / modes.high[mode]
        y, r = 0, 0
        while y < modes.height[p]:
            # Most copies finish block `last` earliest; 0.5 keeps the product with the inverse on the right
            # side.
            time = (np.int64((last + 0.5) * per_batch) + 1) * modes.period[mode]
            following = last_row(r, tall, top, image) + 1
            while y < following:
                delivered[y, k] = min(delivered[y, k], time)
                y += 1
            r, last = r + 1, last + modes.columns[mode]


@compiled_maker
def fill_waits(modes: Any, fastest: Any, pairs: Any, waits: Any) -> None:
    """Write the tables of all pairs. wait and middle are -_MOST where nothing is needed.

    fastest: the modes without those of a label that deliver no pixel earlier than another one of theirs does.
    """
    n, labels = len(modes.size), waits.wait.shape[1]
    tallest, checks = 0, 0
    for i in range(n):
        tallest = max(tallest, modes.height[i])
        checks = max(checks, pairs.check_first[i + 1] - pairs.check_first[i])
    reaches = _Reaches(
        np.full((n, labels), _MOST),
        np.full((n, labels), _MOST),
        np.full((n, labels), _MOST),
        np.full((n, labels, checks), _MOST),
        np.full((n, labels, checks), _MOST),
        np.full((n, tallest, labels), _MOST),
    )
    _fill_reaches(modes, fastest, pairs, reaches)
    first_row, first_column = np.empty(labels, dtype=np.int64), np.empty(labels, dtype=np.int64)
    whole_row = np.empty(labels, dtype=np.int64)
    partly, longest = np.empty((tallest, labels), dtype=np.int64), np.empty(labels, dtype=np.int64)
    for i in range(n):
        for e in range(pairs.pointer[i], pairs.pointer[i + 1]):
            p, delay = pairs.producer[e], pairs.delay[e]
            rows, columns, table = pairs.row[e], pairs.column[e], pairs.table
            end = table[columns + modes.width[i] - 1]  # last column of p that is needed
            for m in range(modes.size[i]):
                first_row[m] = table[rows + reaches.first_row[i, m] - 1]
                first_column[m] = table[columns + reaches.first_column[i, m] - 1]
                # Nothing of the row is needed where no column is.
                if first_column[m] < 0:
                    first_row[m] = -1
                above = reaches.above[i, m]
                whole_row[m] = table[rows + above - 1] if above > 0 else -1
                bottom, right = modes.height[p] - 1, modes.width[p] - 1
                waits.whole[e, m] = (first_row[m] == bottom and first_column[m] == right) or (
                    whole_row[m] == bottom and end == right
                )
                waits.tail[e, m] = _MOST if pairs.user_row[e] >= 0 else -_MOST
            if pairs.user_row[e] >= 0:
                for mode in range(modes.first[i], modes.first[i + 1]):
                    m = modes.label[mode]
                    per_tall, top = 1.0 / modes.tall[mode], modes.top[mode] + 0.5
                    block = (
                        block_row(pairs.user_row[e], per_tall, top, modes.image[mode]) * modes.columns[mode]
                    )
                    block += (pairs.user_column[e] + modes.left[mode]) // modes.wide[mode]
                    time = (modes.batches[mode] - block // modes.low[mode]) * modes.period[mode] + delay
                    waits.tail[e, m] = min(waits.tail[e, m], time)
            delivered = reaches.delivered[p]
            if end < modes.width[p] - 1:
                delivered = partly
                _fill_delivered(fastest, p, end, delivered)
            for k in range(modes.size[p]):
                for m in range(modes.size[i]):
                    waits.wait[e, k, m] = _MOST
            for mode in range(fastest.first[p], fastest.first[p + 1]):
                k, per_batch, period = fastest.label[mode], 1.0 / fastest.high[mode], fastest.period[mode]
                per_row, per_column = 1.0 / fastest.tall[mode], 1.0 / fastest.wide[mode]
                across, top, aside = fastest.columns[mode], fastest.top[mode] + 0.5, fastest.left[mode] + 0.5
                image = fastest.image[mode]
                for m in range(modes.size[i]):
                    needed = -1
                    if first_row[m] >= 0:
                        needed = block_row(first_row[m], per_row, top, image) * across
                        needed += np.int64((first_column[m] + aside) * per_column)
                    if whole_row[m] >= 0:
                        whole = block_row(whole_row[m], per_row, top, image) * across
                        needed = max(needed, whole + np.int64((end + aside) * per_column))
                    time = -_MOST
                    if needed >= 0:
                        time = (np.int64((needed + 0.5) * per_batch) + 1) * period + delay
                    waits.wait[e, k, m] = min(waits.wait[e, k, m], time)
            count = pairs.check_first[i + 1] - pairs.check_first[i]
            for m in range(modes.size[i]):
                longest[:] = -_MOST
                for y in range(count):
                    row = table[rows + reaches.bottom[i, m, y] - 1]
                    if row >= 0:
                        left = reaches.left[i, m, y] + delay
                        for k in range(modes.size[p]):
                            longest[k] = max(longest[k], delivered[row, k] + left)
                for k in range(modes.size[p]):
                    waits.middle[e, k, m] = longest[k]


class PathTimes(NamedTuple):
    """Scratch, float64 (stages, labels): least ticks and payments on paths to and from every stage.

    before: to its start, done: to its finish, without its own payment; ahead: from its start to the end,
    after: from its finish; paid: for the arrays of a label beyond the stage's fewest.
    """

    before: Any
    done: Any
    ahead: Any
    after: Any
    paid: Any


@compiled_maker_part
def _forward(pairs: Any, waits: Any, size: Any, runs: Any, times: Any) -> None:
    before, done, paid = times.before, times.done, times.paid
    started, finished = np.empty(before.shape[1]), np.empty(before.shape[1])
    for i in range(len(size)):
        for m in range(size[i]):
            before[i, m], done[i, m] = 0.0, 0.0
        for e in range(pairs.pointer[i], pairs.pointer[i + 1]):
            p = pairs.producer[e]
            ended = _FAR
            for k in range(size[p]):
                ended = min(ended, done[p, k] + paid[p, k])
            started[:], finished[:] = _FAR, _FAR
            for k in range(size[p]):
                begun = before[p, k] + paid[p, k]
                for m in range(size[i]):
                    started[m] = min(started[m], begun + waits.wait[e, k, m])
                    finished[m] = min(finished[m], begun + waits.middle[e, k, m])
            for m in range(size[i]):
                before[i, m] = max(before[i, m], started[m])
                if waits.whole[e, m]:
                    before[i, m] = max(before[i, m], ended + pairs.delay[e])
                done[i, m] = max(done[i, m], finished[m], ended + waits.tail[e, m])
        for m in range(size[i]):
            done[i, m] = max(done[i, m], before[i, m] + runs[i, m])


@compiled_part
def _backward(pairs: Any, waits: Any, size: Any, runs: Any, times: Any) -> None:
    ahead, after, paid = times.ahead, times.after, times.paid
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
                    way = max(way, ahead[i, m] + pairs.delay[e])
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
    pairs: Any, waits: Any, size: Any, runs: Any, arrays: Any, array_price: Any, times: Any, kept: Any
) -> None:
    """Remove labels (kept becomes False) that must miss the target at an `ArrayPrice`.

    Every allocation within the budget pays at most price * spare for arrays beyond each stage's fewest. So
    ticks and payments on a path through a label, less that, bound the makespan of all that use it.
    """
    for i in range(len(size)):
        fewest = arrays[i, 0]
        for m in range(size[i]):
            fewest = min(fewest, arrays[i, m])
        for m in range(size[i]):
            times.paid[i, m] = array_price.price * (arrays[i, m] - fewest)
    _forward(pairs, waits, size, runs, times)
    _backward(pairs, waits, size, runs, times)
    limit = with_slack(array_price.target) + array_price.price * array_price.spare
    for i in range(len(size)):
        for m in range(size[i]):
            way = max(times.before[i, m] + times.ahead[i, m], times.done[i, m] + times.after[i, m])
            # Too long on every path through the label, even if the whole spare budget is paid for: no
            # allocation within the budget that meets the target uses a mode of it.
            if way + times.paid[i, m] > limit:
                kept[i, m] = False
