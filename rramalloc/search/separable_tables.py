"""Compiled tables of the separable model: useful copies, their waits, runs and tails, and the arcs between.

The model is a longest path: two events per stage (its first batch may start: pre; it has ended: op) and
arcs whose lengths are functions of the copies of one stage. Arcs that other arcs imply for every choice of
copies are left out.  Source: MODEL.md 5 and 6; the same inequalities as `milp.build`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rramalloc.compiled import compiled

_LOOKED_AT = 256
"""Edges of one stage that are tried as a reason to leave out another; bounds the time of dense graphs."""


@compiled
def order_of(keys: Any) -> Any:
    """Places in the order of their keys, equal ones as they are."""
    return np.argsort(keys, kind="mergesort")


@compiled
def grouped(keys: Any, groups: int) -> tuple[Any, Any]:
    """(first place of each group among the following, places by their group 0, 1 ...)."""
    first, order = np.zeros(groups + 1, dtype=np.int64), np.empty(len(keys), dtype=np.int64)
    for key in keys:
        first[key + 1] += 1
    for group in range(groups):
        first[group + 1] += first[group]
    after = first.copy()
    for at in range(len(keys)):
        order[after[keys[at]]] = at
        after[keys[at]] += 1
    return first, order


@compiled
def options(windows: Any, least: Any, most: Any, demand: Any) -> Any:
    """Useful copies of every stage: (first entry of each stage, fewest, most copies and arrays of each).

    All copies from fewest to most take equally many batches.
    """
    n = len(windows)
    pointer = np.zeros(n + 1, dtype=np.int64)
    for i in range(n):
        d, count = least[i], 0
        while d <= most[i]:
            count += 1
            batches = (windows[i] + d - 1) // d
            d = (windows[i] + batches - 2) // (batches - 1) if batches > 1 else most[i] + 1
        pointer[i + 1] = pointer[i] + count
    low, high = np.empty(pointer[n], dtype=np.int64), np.empty(pointer[n], dtype=np.int64)
    arrays = np.empty(pointer[n], dtype=np.int64)
    for i in range(n):
        d = least[i]
        for k in range(pointer[i], pointer[i + 1]):
            batches = (windows[i] + d - 1) // d
            after = (windows[i] + batches - 2) // (batches - 1) if batches > 1 else most[i] + 1
            low[k], high[k], arrays[k] = d, min(after - 1, most[i]), demand[i] * d
            d = after
    return pointer, low, high, arrays


@compiled
def edge_terms(windows: Any, pointer: Any, offset: Any, need: Any) -> tuple[Any, Any, Any, Any]:
    """Of every edge: consumer, first and last window needed, first window of the consumer that needs it."""
    edges = len(offset)
    consumer, first = np.empty(edges, dtype=np.int64), np.empty(edges, dtype=np.int64)
    last, user = np.empty(edges, dtype=np.int64), np.empty(edges, dtype=np.int64)
    for i in range(len(windows)):
        for edge in range(pointer[i], pointer[i + 1]):
            begin, end = offset[edge], offset[edge] + windows[i] - 1
            consumer[edge], first[edge], last[edge] = i, need[begin], need[end]
            low, high = begin, end
            while low < high:
                middle = (low + high) // 2
                if need[middle] < need[end]:
                    low = middle + 1
                else:
                    high = middle
            user[edge] = low - begin
    return consumer, first, last, user


@compiled
def _reaching(n: int, pointer: Any, producer: Any, counts: Any) -> Any:
    """Bit p of row i: stage i follows stage p along edges that count."""
    rows = np.zeros((n, (n + 63) // 64), dtype=np.uint64)
    for i in range(n):
        for edge in range(pointer[i], pointer[i + 1]):
            if counts[edge]:
                p = producer[edge]
                for word in range(rows.shape[1]):
                    rows[i, word] |= rows[p, word]
                rows[i, p // 64] |= np.uint64(1) << np.uint64(p % 64)
    return rows


@compiled
def _has(rows: Any, i: int, p: int) -> bool:
    return bool((rows[i, p // 64] >> np.uint64(p % 64)) & np.uint64(1) != 0)


@compiled
def needed(
    n: int, pointer: Any, producer: Any, consumer: Any, first: Any, user: Any, ends: Any, start: Any,
    outgoing: Any,
) -> Any:  # fmt: skip
    """Which edges bind: row 0 as a wait (pre to pre), row 1 as a tail (op to op).

    A wait of p -> i follows from a wait at least as long of p -> m if m comes before i; a tail of p -> i
    from a tail at least as long of m -> i if m comes after p.
    """
    keep = np.empty((2, len(producer)), dtype=np.bool_)
    for edge in range(len(producer)):
        keep[0, edge], keep[1, edge] = first[edge] >= 0, ends[edge]
    waits, tails = _reaching(n, pointer, producer, keep[0]), _reaching(n, pointer, producer, keep[1])
    for edge in range(len(producer)):
        p, i = producer[edge], consumer[edge]
        if first[edge] >= 0:
            for at in range(start[p], min(start[p + 1], start[p] + _LOOKED_AT)):
                other = outgoing[at]
                if first[other] >= first[edge] and _has(waits, i, consumer[other]):
                    keep[0, edge] = False
                    break
        if ends[edge]:
            for other in range(max(pointer[i], pointer[i + 1] - _LOOKED_AT), pointer[i + 1]):
                if ends[other] and user[other] <= user[edge] and _has(tails, producer[other], p):
                    keep[1, edge] = False
                    break
    return keep


@compiled
def _function(key: Any, kind: Any, begin: int, count: Any, new_key: int, new_kind: Any) -> Any:
    """Index of a function of a stage among those from `begin`; begin + count if it is new."""
    for r in range(begin, begin + count):
        if key[r] == new_key and kind[r] == new_kind:
            return r
    key[begin + count], kind[begin + count] = new_key, new_kind
    return begin + count


@compiled
def functions(
    n: int, pointer: Any, start: Any, outgoing: Any, first: Any, last: Any, user: Any, ends: Any, keep: Any
) -> Any:
    """Distinct functions of each stage: (first of each stage, key, kind, and per edge wait, reach, tail).

    kind 0: a run of all batches; 1: until window `key` is computed; 2: from window `key` to the last one.
    """
    edges, wait, tail = len(first), np.int64(1), np.int64(2)
    key, kind = np.zeros(n + 3 * edges, dtype=np.int64), np.zeros(n + 3 * edges, dtype=np.int64)
    of_edge = np.full((3, edges), -1, dtype=np.int64)
    of_stage = np.zeros(n + 1, dtype=np.int64)
    for i in range(n):
        begin, count = of_stage[i], np.int64(1)
        for at in range(start[i], start[i + 1]):
            edge = outgoing[at]
            if keep[0, edge]:
                of_edge[0, edge] = _function(key, kind, begin, count, first[edge], wait)
                count = max(count, of_edge[0, edge] - begin + 1)
            if not ends[edge]:
                of_edge[1, edge] = _function(key, kind, begin, count, last[edge], wait)
                count = max(count, of_edge[1, edge] - begin + 1)
        for edge in range(pointer[i], pointer[i + 1]):
            if keep[1, edge] or not ends[edge]:
                of_edge[2, edge] = _function(key, kind, begin, count, user[edge], tail)
                count = max(count, of_edge[2, edge] - begin + 1)
        of_stage[i + 1] = begin + count
    total = of_stage[n]
    return of_stage, key[:total].copy(), kind[:total].copy(), of_edge[0], of_edge[1], of_edge[2]


@compiled
def values(windows: Any, pointer: Any, low: Any, high: Any, of_stage: Any, key: Any, kind: Any) -> Any:
    """(first entry of every function, its value for each option of its stage, their running minimum)."""
    begin = np.zeros(len(key) + 1, dtype=np.int64)
    for i in range(len(windows)):
        for r in range(of_stage[i], of_stage[i + 1]):
            begin[r + 1] = begin[r] + pointer[i + 1] - pointer[i]
    value, least = np.empty(begin[-1], dtype=np.int64), np.empty(begin[-1], dtype=np.int64)
    for i in range(len(windows)):
        for r in range(of_stage[i], of_stage[i + 1]):
            lowest = 2**62
            for k in range(pointer[i], pointer[i + 1]):
                if kind[r] == 1:
                    steps = key[r] // high[k] + 1
                else:
                    steps = (windows[i] + low[k] - 1) // low[k]
                    if kind[r] == 2:
                        steps -= key[r] // low[k]
                lowest = min(lowest, steps)
                at = begin[r] + k - pointer[i]
                value[at], least[at] = steps, lowest
    return begin, value, least


@compiled
def arcs(
    n: int, pointer: Any, producer: Any, ends: Any, keep: Any, of_stage: Any, wait: Any, reach: Any, tail: Any
) -> Any:
    """Events in topological order: (first arc into each event, event it comes from, its function or -1).

    Events of a stage: pre, one per function that windows inside it are waited for with, op. The last event
    is the end of all.
    """
    edges = len(producer)
    base = np.empty(n + 1, dtype=np.int64)
    inner = np.full(of_stage[n], -1, dtype=np.int64)
    leads = np.zeros(n, dtype=np.bool_)
    for edge in range(edges):
        if ends[edge]:
            leads[producer[edge]] = True
        else:
            inner[reach[edge]] = 0
    event = 0
    for i in range(n):
        base[i] = event
        event += 1
        for r in range(of_stage[i], of_stage[i + 1]):
            if inner[r] == 0:
                inner[r] = event
                event += 1
        event += 1
    base[n] = event
    into = np.zeros(event + 2, dtype=np.int64)
    origin = np.empty(3 * edges + 3 * n + event, dtype=np.int64)
    length = np.empty(3 * edges + 3 * n + event, dtype=np.int64)
    count = 0
    for i in range(n):
        for edge in range(pointer[i], pointer[i + 1]):
            if keep[0, edge]:
                origin[count], length[count] = base[producer[edge]], wait[edge]
                count += 1
        into[base[i] + 1] = count
        for r in range(of_stage[i], of_stage[i + 1]):
            if inner[r] >= 0:
                origin[count], length[count] = base[i], r
                count += 1
                into[inner[r] + 1] = count
        origin[count], length[count] = base[i], of_stage[i]
        count += 1
        for edge in range(pointer[i], pointer[i + 1]):
            if ends[edge] and keep[1, edge]:
                origin[count], length[count] = base[producer[edge] + 1] - 1, tail[edge]
                count += 1
            elif not ends[edge]:
                origin[count], length[count] = inner[reach[edge]], tail[edge]
                count += 1
        into[base[i + 1]] = count
    for i in range(n):
        if not leads[i]:
            origin[count], length[count] = base[i + 1] - 1, -1
            count += 1
    into[event + 1] = count
    return into, origin[:count].copy(), length[:count].copy(), base


@compiled
def tables(
    windows: Any, least: Any, most: Any, demand: Any, pointer: Any, producer: Any, offset: Any, need: Any
) -> tuple[Any, Any, Any]:
    """The model as all kernels read it, the copies of each option, and the kind of each function.

    (0 first option of each stage, of each option 1 fewest copies, 2 arrays; 3 first function of each stage;
    of each function 4 first entry in 5 its steps per option, 6 their running minimum; 7 first arc into each
    event, of each arc 8 the event it comes from, 9 its function or -1; 10 as 5, float; 11 first event of each
    stage)
    """
    n = len(windows)
    first_option, low, high, arrays = options(windows, least, most, demand)
    consumer, first, last, user = edge_terms(windows, pointer, offset, need)
    ends = last == windows[producer] - 1
    start, outgoing = grouped(producer, n)
    keep = needed(n, pointer, producer, consumer, first, user, ends, start, outgoing)
    of_stage, key, kind, wait, reach, tail = functions(
        n, pointer, start, outgoing, first, last, user, ends, keep
    )
    begin, value, lowest = values(windows, first_option, low, high, of_stage, key, kind)
    into, origin, function, base = arcs(n, pointer, producer, ends, keep, of_stage, wait, reach, tail)
    model = (
        first_option, low, arrays, of_stage, begin, value, lowest, into, origin, function,
        value.astype(np.float64), base,
    )  # fmt: skip
    return model, low, kind
