"""Compiled layers of a relaxed decision diagram: one layer for every stage, in canonical order.

A state stands for allocations of the stages so far that may still meet the target. It holds the fewest arrays
that any of them takes, and the least finish of chosen windows (`Points`) of every stage that later ones wait
for. A transition gives the next stage one of its intervals of copies, low ... high. The batch of window w has
number floor(w / d). So with t the ticks of a batch of `low` copies

  finish(w) >= start + (w // high + 1) * t
  finish(w) >= finish(v) + max((w - v) // high, w // high - v // low) * t      for the point v before w
  finish(w) >= available(p, need(p, last)) + lag + t                           for every producer p

where `last` is the last window of the batch if all copies in the interval put w into a batch of the same
number, else w itself. A window between two points is done no earlier than the point before it, plus the
batches between them. States that cannot meet the target, or not within the budget at some price per array,
are dropped. Where there are too many, several become one: the fewest arrays and the earliest finishes of all
of them. So no allocation that meets the target is lost, and where no state is left there is none.

Source: docs/sources/model.md 4; relaxed decision diagrams are those of Andersen, Hadzic, Hooker and
Tiedemann, A constraint store based on multivalued decision diagrams, CP 2007, doi
10.1007/978-3-540-74970-7_11. Tested against exhaustive search.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rramalloc.compiled import compiled, compiled_inline, compiled_part

# Offset basis and prime of FNV-1a. States of one hash become one, which is valid whatever they are.
_FIRST_HASH = np.uint64(1469598103934665603)
_HASH_FACTOR = np.uint64(1099511628211)
_LATE = 2**62
LANES = 32  # centres that are compared at once: LLVM vectorises a loop of fixed length
_COMPARED = 3  # finishes by which they are compared first; most centres fail at these


class Points(NamedTuple):
    """Windows at which a diagram follows each stage: the first and the last one among them; int64.

    window[first[i]:first[i + 1]]: those of stage i, rising; at[at_first[i] + w]: int32, the number, from 0
    on, of the last one at or before window w.
    """

    window: Any
    first: Any
    at: Any
    at_first: Any


class States(NamedTuple):
    """States of a layer, a row each: int64, but inverse float64.

    arrays: fewest that the stages so far take; finish: of the points of every group of stages, one group
    after the other; inverse, ticks: of every group, one over the most copies, and least ticks of a batch.
    """

    arrays: Any
    finish: Any
    inverse: Any
    ticks: Any

    @classmethod
    def of(cls, count: int, width: int, groups: int) -> States:
        """Return room for `count` states of `width` finishes and some groups."""
        groups = max(1, groups)
        return cls(
            np.empty(count, dtype=np.int64),
            np.empty((count, width), dtype=np.int64),
            np.empty((count, groups)),
            np.empty((count, groups), dtype=np.int64),
        )


class Choices(NamedTuple):
    """Intervals of copies of a stage, fewest first, and what they mean for its points; int64.

    low, high, ticks, arrays: of every choice, the last two of its fewest copies. base[c, r]: least ticks from
    the start of the stage to the finish of point r; gap[c, r]: from that of point r - 1. For the entering
    edges, grouped: entry e asks states for group[e], after lag[e] ticks; at[c, e, r]: the finish among those
    of a state that point r waits for, -1 for none, and windows_past[c, e, r]: windows past its point;
    at[c, e, R], windows_past[c, e, R]: of the first batch.
    """

    low: Any
    high: Any
    ticks: Any
    arrays: Any
    base: Any
    gap: Any
    group: Any
    lag: Any
    at: Any
    windows_past: Any


class StateLimits(NamedTuple):
    """Limits that states must keep to. latest[r]: finish of the stage's points; start: least start of the
    stage; arrays: most that the stages so far may take.

    For every price number l: paid[l]: target + price * (spare + least arrays so far) is the most that a state
    may pay, with price[l] for every array. ahead[l, c]: ticks and payments from the start of the stage to the
    end; after[l, c]: from its finish.
    """

    latest: Any
    start: int
    arrays: int
    price: Any
    paid: Any
    ahead: Any
    after: Any


class Carry(NamedTuple):
    """Finishes that go from states of a layer to those of the next one; int64.

    Of piece x: source[x] ... source[x] + length[x] - 1 go to those from target[x] on, of old_group[x] to
    new_group[x]. own: where the finishes of the stage itself go, -1 for nowhere, own_group: to which group.
    """

    source: Any
    target: Any
    length: Any
    old_group: Any
    new_group: Any
    own: int
    own_group: int


class StateTable(NamedTuple):
    """Hash table of new states. key: uint64; number: of the state, -1 for none; features: finishes that tell
    states apart, counted in 1 / per_tick ticks; row, own: scratch, a new state and finishes of the stage.
    """

    key: Any
    number: Any
    features: Any
    per_tick: float
    row: Any
    own: Any


@compiled
def fill_choices(graph: Any, points: Any, stage: int, edges: Any, places: Any, choices: Any) -> None:
    """Write what the intervals of a stage mean. edges, places: of every entry an edge, and where the finishes
    of its producer begin in a state.
    """
    low, high, ticks, base, gap = choices.low, choices.high, choices.ticks, choices.base, choices.gap
    begin, size = points.first[stage], points.first[stage + 1] - points.first[stage]
    windows = graph.windows[stage]
    for c in range(len(low)):
        before = 0
        for r in range(size):
            w = points.window[begin + r]
            least, most = w // high[c], w // low[c]
            base[c, r] = (least + 1) * ticks[c]
            gap[c, r] = 0
            last = w
            if r > 0:
                between = max((w - before) // high[c], least - before // low[c])
                gap[c, r] = max(between, 0) * ticks[c]
            if least == most:
                last = min((least + 1) * low[c], windows) - 1
            _look_up(graph, points, edges, places, choices, c, r, last)
            before = w
        _look_up(graph, points, edges, places, choices, c, size, min(low[c], windows) - 1)


@compiled_part
def _look_up(
    graph: Any, points: Any, edges: Any, places: Any, choices: Any, c: int, r: int, last: int
) -> None:
    for e in range(len(edges)):
        producer = graph.producer[edges[e]]
        window = graph.need[graph.offset[edges[e]] + last]
        if window < 0:
            choices.at[c, e, r], choices.windows_past[c, e, r] = -1, 0
            continue
        at = points.at[points.at_first[producer] + window]
        choices.at[c, e, r] = places[e] + at
        choices.windows_past[c, e, r] = window - points.window[points.first[producer] + at]


@compiled_inline
def _ready(choices: Any, states: Any, s: int, c: int, e: int, r: int) -> int:
    """Return the least tick at which entry e of choice c may begin point r after state s."""
    at, group = choices.at[c, e, r], choices.group[e]
    if at < 0:
        return -_LATE
    batches = np.int64((choices.windows_past[c, e, r] + 0.5) * states.inverse[s, group])
    return states.finish[s, at] + batches * states.ticks[s, group] + choices.lag[e]


@compiled_inline
def _affordable(limits: Any, arrays: int, time: int, ways: Any, c: int) -> bool:
    """Return True if arrays so far and ticks until `time` leave enough for the rest at every price."""
    for number in range(len(limits.price)):
        if time + ways[number, c] + limits.price[number] * arrays > limits.paid[number]:
            return False
    return True


@compiled_inline
def _passes(
    choices: Any, limits: Any, states: Any, s: int, c: int, arrays: int, own: Any
) -> tuple[bool, int]:
    """Write the finishes of a stage with choice c after state s.

    Returns whether the target may be met, and how many points were looked at.
    """
    end, entries, ticks = len(own) - 1, len(choices.group), choices.ticks[c]
    start = limits.start
    for e in range(entries):
        start = max(start, _ready(choices, states, s, c, e, end + 1))
    if not _affordable(limits, arrays, start, limits.ahead, c):
        return False, 0
    finish = start + choices.base[c, end]
    for e in range(entries):
        finish = max(finish, _ready(choices, states, s, c, e, end) + ticks)
    if finish > limits.latest[end] or not _affordable(limits, arrays, finish, limits.after, c):
        return False, 1
    base, gap = choices.base[c], choices.gap[c]
    for r in range(end + 1):
        own[r] = start + base[r]
    for e in range(entries):
        at, windows_past, group = choices.at[c, e], choices.windows_past[c, e], choices.group[e]
        begun, inverse, period = states.finish[s], states.inverse[s, group], states.ticks[s, group]
        passed = choices.lag[e] + ticks
        for r in range(end + 1):
            if at[r] >= 0:
                # The point before the needed window is `windows_past` away: at least that many batches of the
                # producer pass between them. Inverse and period are the least of the merged states, so the
                # time is a lower bound.
                time = begun[at[r]] + np.int64((windows_past[r] + 0.5) * inverse) * period + passed
                own[r] = max(own[r], time)
    finish = 0
    for r in range(end + 1):
        finish = max(finish + gap[r], own[r])
        # The latest finish holds for every allocation in the box that meets the target, so the state is
        # dropped.
        if finish > limits.latest[r]:
            return False, r + 1
        own[r] = finish
    return _affordable(limits, arrays, finish, limits.after, c), end + 1


@compiled_inline
def _slot_of(table: Any) -> int:
    """Return the place of a state as in table.row in the table, or a free one."""
    key = _FIRST_HASH
    for f in range(len(table.features)):
        value = np.int64(table.row[table.features[f]] * table.per_tick)
        key = (key ^ np.uint64(value + 1)) * _HASH_FACTOR
        key ^= key >> np.uint64(29)
    mask = np.uint64(len(table.key) - 1)
    slot = key & mask
    while table.number[slot] >= 0 and table.key[slot] != key:
        slot = (slot + np.uint64(1)) & mask
    table.key[slot] = key
    return int(slot)


@compiled_inline
def _fill_row(old: Any, carry: Any, s: int, table: Any) -> None:
    """Write the finishes of a successor of state s, whose stage finishes as in table.own, to table.row."""
    row, own = table.row, table.own
    for x in range(len(row)):
        row[x] = 0
    for x in range(len(carry.source)):
        for r in range(carry.length[x]):
            place = carry.target[x] + r
            row[place] = max(row[place], old.finish[s, carry.source[x] + r])
    if carry.own >= 0:
        for r in range(len(own)):
            row[carry.own + r] = max(row[carry.own + r], own[r])


@compiled_inline
def _add_row(new: Any, count: int, arrays: int, table: Any) -> int:
    """Make a state of table.row, or part of one of the `count` there are: which one."""
    slot = _slot_of(table)
    j = table.number[slot]
    if j < 0:
        table.number[slot] = count
        new.arrays[count] = arrays
        for x in range(len(table.row)):
            new.finish[count, x] = table.row[x]
        for g in range(new.ticks.shape[1]):
            new.inverse[count, g], new.ticks[count, g] = 1.0, _LATE
        return count
    # States of one key become one with the least of everything: it relaxes both, so no allocation is lost.
    new.arrays[j] = min(new.arrays[j], arrays)
    for x in range(len(table.row)):
        new.finish[j, x] = min(new.finish[j, x], table.row[x])
    return int(j)


@compiled_inline
def _keep_paces(choices: Any, old: Any, carry: Any, s: int, c: int, new: Any, j: int) -> None:
    """Let state j be no slower between points than what follows state s by choice c."""
    for x in range(len(carry.source)):
        g, h = carry.new_group[x], carry.old_group[x]
        new.inverse[j, g] = min(new.inverse[j, g], old.inverse[s, h])
        new.ticks[j, g] = min(new.ticks[j, g], old.ticks[s, h])
    if carry.own >= 0:
        g = carry.own_group
        new.inverse[j, g] = min(new.inverse[j, g], 1.0 / choices.high[c])
        new.ticks[j, g] = min(new.ticks[j, g], choices.ticks[c])


class Turn(NamedTuple):
    """Place (state, choice) where `expand` goes on, and candidates and points looked at; int64."""

    at: Any
    work: Any


@compiled
def expand(
    choices: Any, limits: Any, old: Any, carry: Any, table: Any, new: Any, count: int, turn: Any
) -> int:
    """Add the successors of all states to the `count` in `new`, from where a turn is; how many then.

    Ends early where `new` is full, with the turn where to go on.
    """
    at, work = turn.at, turn.work
    s, c, room = at[0], at[1], len(new.arrays)
    while s < len(old.arrays):
        while c < len(choices.low):
            arrays = old.arrays[s] + choices.arrays[c]
            # Choices come with rising arrays: all further ones exceed the budget too.
            if arrays > limits.arrays:
                break
            if count == room:
                at[0], at[1] = s, c
                return count
            passed, seen = _passes(choices, limits, old, s, c, arrays, table.own)
            work[0] += 1
            work[1] += seen
            if passed:
                _fill_row(old, carry, s, table)
                j = _add_row(new, count, arrays, table)
                _keep_paces(choices, old, carry, s, c, new, j)
                count = max(count, j + 1)
            c += 1
        c = 0
        s += 1
    at[0], at[1] = s, c
    return count


@compiled_part
def _covers(finish: Any, other: Any, telling: Any, slack: int) -> bool:
    """Return True if no finish is more than `slack` ticks later than that of another state."""
    for f in range(_COMPARED, len(telling)):
        if finish[telling[f]] > other[telling[f]] + slack:
            return False
    r = 0
    while r < len(finish) and finish[r] <= other[r] + slack:
        r += 1
    return r == len(finish)


@compiled_inline
def _covered(states: Any, near: Any, count: int, centres: Any, j: int, telling: Any, slack: int) -> int:
    """Return the first centre that covers state j, -1 if none does; most fail at the telling finishes."""
    finish, first, second, third = states.finish, near[0], near[1], near[2]
    a, b, c = finish[j, telling[0]] + slack, finish[j, telling[1]] + slack, finish[j, telling[2]] + slack
    for begin in range(0, count, LANES):
        close = np.int64(0)
        for lane in range(LANES):  # of a fixed length, so that LLVM compares several centres at once
            at = np.uint64(begin + lane)
            close |= np.int64((first[at] <= a) & (second[at] <= b) & (third[at] <= c))
        if close == 0:
            continue
        for k in range(begin, min(begin + LANES, count)):
            near_enough = first[k] <= a and second[k] <= b and third[k] <= c
            if near_enough and _covers(finish[centres[k]], finish[j], telling, slack):
                return k
    return -1


@compiled
def cover(
    states: Any, order: Any, telling: Any, slack: int, near: Any, centres: Any, centre: Any, work: Any
) -> int:
    """Choose centres so that every state is at most `slack` ticks earlier than one with no more arrays.

    order: the states by arrays; telling: finishes that are compared first; near: scratch for three of them,
    of the centres and LANES more; centres[k]: a state, centre[j]: the k of state j, written. Returns how many
    centres there are, one more than there is room for if that is not enough. work[2]: centres looked at are
    added to it.
    """
    count = 0
    near[:] = _LATE
    for x in range(len(order)):
        j = order[x]
        k = _covered(states, near, count, centres, j, telling, slack)
        work[2] += count if k < 0 else k + 1
        # No centre is near: the state becomes one. Each state is within `slack` of its centre, so merging
        # makes no finish more than that much earlier than it was.
        if k < 0:
            if count == len(centres):
                return count + 1
            for f in range(_COMPARED):
                near[f, count] = states.finish[j, telling[f]]
            centres[count], k = j, count
            count += 1
        centre[j] = k
    return count


@compiled
def merge(states: Any, centre: Any, merged: Any) -> None:
    """Merge every state into its centre, which `merged` holds."""
    for j in range(len(centre)):
        k = centre[j]
        for r in range(states.finish.shape[1]):
            # The minimum is a valid lower bound for both, so a refutation of the merged state refutes all its
            # members.
            merged.finish[k, r] = min(merged.finish[k, r], states.finish[j, r])
        for g in range(states.ticks.shape[1]):
            merged.inverse[k, g] = min(merged.inverse[k, g], states.inverse[j, g])
            merged.ticks[k, g] = min(merged.ticks[k, g], states.ticks[j, g])
