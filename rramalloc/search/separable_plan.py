"""Compiled plan of the separable search: what must be remembered of the stages decided so far.

Stages are decided from the last to the first. What the decided ones mean for the others is a few rests,
each the most steps that remain after some events: a set of successors that one or several undecided events
share. A rest has a column of the label while an undecided event needs it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rramalloc.compiled import compiled
from rramalloc.search.separable_tables import grouped, order_of


@compiled
def _slots(
    n: int, of_stage: Any, kind: Any, into: Any, origin: Any, function: Any, base: Any, owner: Any
) -> Any:
    """Arcs between stages by the place they leave from: (slot of each arc or -1, stage, function, number).

    A slot is a function that leads from pre out of its stage or to an event inside it, or (function -1) the
    end of a stage.
    """
    events, arcs = len(into) - 1, len(origin)
    slot = np.full(arcs, -1, dtype=np.int64)
    of_function = np.full(of_stage[n], -1, dtype=np.int64)
    of_event = np.full(events, -1, dtype=np.int64)
    stage, through = np.empty(arcs, dtype=np.int64), np.empty(arcs, dtype=np.int64)
    event_of = np.empty(arcs, dtype=np.int64)
    count = 0
    for event in range(events - 1):
        for arc in range(into[event], into[event + 1]):
            source, r = origin[arc], function[arc]
            if owner[source] == owner[event]:
                continue
            if kind[r] == 1:
                if of_function[r] < 0:
                    of_function[r] = count
                    stage[count], through[count], event_of[count] = owner[source], r, source
                    count += 1
                slot[arc] = of_function[r]
            else:
                if of_event[source] < 0:
                    of_event[source] = count
                    stage[count], through[count], event_of[count] = owner[source], -1, source
                    if source + 1 < base[owner[source] + 1]:
                        through[count], event_of[count] = function[into[source]], base[owner[source]]
                    count += 1
                slot[arc] = of_event[source]
    return slot, stage[:count].copy(), through[:count].copy(), event_of[:count].copy()


@compiled
def _rests(slot: Any, count: int, member: Any, members: int) -> Any:
    """(rest of each slot, number of rests): slots with the same successors share one."""
    order = order_of(slot * members + member)
    start, _ = grouped(slot, count)
    mark = np.zeros(count, dtype=np.int64)
    for s in range(count):
        for at in range(start[s], start[s + 1]):
            mark[s] = mark[s] * 1000003 + member[order[at]] + 1
    by_mark = order_of(mark)
    rest = np.full(count, -1, dtype=np.int64)
    total = 0
    for at in range(count):
        s = by_mark[at]
        for before in range(at - 1, -1, -1):
            other = by_mark[before]
            if mark[other] != mark[s]:
                break
            same = start[other + 1] - start[other] == start[s + 1] - start[s]
            for k in range(start[s + 1] - start[s]):
                same = same and member[order[start[s] + k]] == member[order[start[other] + k]]
            if same:
                rest[s] = rest[other]
                break
        if rest[s] < 0:
            rest[s] = total
            total += 1
    return rest, total


@compiled
def _columns(n: int, born: Any, first_death: Any, by_death: Any) -> Any:
    """(column of each rest, number of columns): a column is free again when its rest is read no more."""
    column = np.full(len(born), -1, dtype=np.int64)
    in_use = np.zeros(len(born), dtype=np.bool_)
    columns = 0
    first_birth, by_birth = grouped(born, n)
    for i in range(n - 1, -1, -1):
        for at in range(first_death[i], first_death[i + 1]):
            in_use[column[by_death[at]]] = False
        for at in range(first_birth[i], first_birth[i + 1]):
            free = 0
            while in_use[free]:
                free += 1
            in_use[free] = True
            column[by_birth[at]] = free
            columns = max(columns, free + 1)
    return column, columns


@compiled
def _crossing(slot: Any, into: Any, function: Any, kind: Any, owner: Any) -> Any:
    """Arcs between stages: (arc, consumer, what they lead to: pre or a function of the consumer)."""
    events = len(into) - 1
    arc_of, consumer = np.empty(len(slot), dtype=np.int64), np.empty(len(slot), dtype=np.int64)
    member = np.empty(len(slot), dtype=np.int64)
    count = 0
    for event in range(events):
        for arc in range(into[event], into[event + 1]):
            if slot[arc] >= 0:
                arc_of[count], consumer[count] = arc, owner[event]
                member[count] = function[arc] + events if kind[function[arc]] == 2 else event
                count += 1
    return arc_of[:count].copy(), consumer[:count].copy(), member[:count].copy()


@compiled
def plan(n: int, of_stage: Any, kind: Any, into: Any, origin: Any, function: Any, base: Any) -> Any:
    """What each stage reads and writes.

    (0 first slot of each stage, of each slot 1 column, 2 function or -1, 3 event;
    4 first write of each stage, of each write 5 column, 6 function or -1 for pre;
    7 first column that each stage frees, 8 those columns; of each arc between stages 9 its index,
    10 consumer, 11 column, 12 producer; 13 number of columns; 14 stage at which a slot's rest begins)
    """
    events = len(into) - 1
    owner = np.full(events, n, dtype=np.int64)
    for i in range(n):
        for event in range(base[i], base[i + 1]):
            owner[event] = i
    slot, stage, through, event_of = _slots(n, of_stage, kind, into, origin, function, base, owner)
    arc_of, consumer, member = _crossing(slot, into, function, kind, owner)
    members = events + len(kind)
    rest, rests = _rests(slot[arc_of], len(stage), member, members)
    born, dies = np.zeros(rests, dtype=np.int64), np.full(rests, n, dtype=np.int64)
    for at in range(len(arc_of)):
        r = rest[slot[arc_of[at]]]
        born[r] = max(born[r], consumer[at])
    for s in range(len(stage)):
        dies[rest[s]] = min(dies[rest[s]], stage[s])
    first_death, by_death = grouped(dies, n)
    column, columns = _columns(n, born, first_death, by_death)
    first_slot, slots = grouped(stage, n)
    arc_rest = rest[slot[arc_of]]
    key = (consumer * (rests + 1) + arc_rest) * members + member
    order = order_of(key)
    writes = np.empty(len(key), dtype=np.int64)
    count = 0
    for at in range(len(key)):
        if at == 0 or key[order[at]] != key[order[at - 1]]:
            writes[count] = order[at]
            count += 1
    writes = writes[:count]
    first_write, _ = grouped(consumer[writes], n)
    write_function = member[writes] - events
    return (
        first_slot, column[rest[slots]], through[slots], event_of[slots],
        first_write, column[arc_rest[writes]], np.maximum(write_function, -1),
        first_death, column[by_death], arc_of, consumer, column[arc_rest], stage[slot[arc_of]],
        columns, born[rest[slots]],
    )  # fmt: skip
