"""Compiled published recurrence, and a dynamic program that decides whether a target of it can be met.

The program chooses copies from the last layer of a chain to the first. What the layers chosen so far ask
of the others is a short list of demands "pixel `ask` of the layer before must be there by step `due`";
to ask for less, with fewer arrays and shorter tails, dominates. Source: MODEL.md 5, written as

    PreOp_i = G_{i-1}(last_i(d_i))
    G_k(x)  = max(ceil(x / d_k) - 1 + PreOp_k, G_{k-1}(last_k(ceil(x / d_k) * d_k)))
    Op_L    = max over i of ( NormalOp_i + PreOp_i + sum over j > i of Tail_j )

where last_i(n) is the last pixel of layer i - 1 that the first n windows of layer i need, counted from 1.
It rises with n where padding is smaller than the kernel, and then the program is exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rramalloc.compiled import compiled, compiled_inline

_ROUNDS = 4


@compiled_inline
def _ceil(part: int, whole: int) -> int:
    """Exact below 2^53, and faster than a division of integers."""
    return int(np.ceil(part / whole))


@compiled_inline
def _last(layers: Any, i: int, n: int) -> int:
    """Last pixel of layer i - 1 that the first n windows of layer i need; rows are not clamped.

    layers: int64, a row per layer: w_out; and of the layer before it: w_out, conv pixels per window along
    an axis, conv row that the first window ends in, last conv column that any window needs; windows; tail.
    """
    before, step, first, end = layers[i, 1], layers[i, 2], layers[i, 3], layers[i, 4]
    row = _ceil(n, layers[i, 0]) - 1
    column = n - row * layers[i, 0] - 1
    return int((row * step + first - 1) * before + min(column * step + first, end))


@compiled
def published_steps(layers: Any, copies: Any) -> int:
    """Latency by the published recurrence."""
    pre_op = np.zeros(len(layers), dtype=np.int64)
    op = 0
    for i in range(len(layers)):
        n = copies[i]
        for k in range(i - 1, -1, -1):
            batches = _ceil(_last(layers, k + 1, n), copies[k])
            wait = batches - 1 + pre_op[k]
            if k == i - 1 or wait > pre_op[i]:
                pre_op[i] = wait
            n = batches * copies[k]
        finish = _ceil(layers[i, 5], copies[i]) + pre_op[i]
        op = max(finish, op + _ceil(layers[i, 6], copies[i])) if i else finish
    return op


@compiled
def least_box(
    layers: Any, demand: Any, room: int, target: int, rest: int, asks: Any, dues: Any, count: int, free: int,
    low: Any, high: Any, wait: Any,
) -> int:  # fmt: skip
    """Shrink low ... high of the first `free` layers to what can meet the target; arrays of `low`, or -1.

    room: arrays these layers may take; rest: tails of the layers behind them; wait: written, bounds of PreOp.
    """
    arrays = 0
    for _ in range(_ROUNDS):
        before = arrays
        for r in range(count):
            if not _reach(layers, asks[r], dues[r], free, low, high, wait):
                return -1
        arrays = _narrow(demand, room, free, low, high)
        if arrays < 0:
            return -1
        for j in range(free):
            wait[j] = _least_wait(layers, j, low, high, wait)
        after = rest
        for j in range(free - 1, -1, -1):
            left = target - after - wait[j]
            if left < 1:
                return -1
            low[j] = max(low[j], _ceil(layers[j, 5], left))
            if low[j] > high[j]:
                return -1
            after += _ceil(layers[j, 6], high[j])
        arrays = _narrow(demand, room, free, low, high)
        if arrays <= before:
            break
    return arrays


@compiled_inline
def _narrow(demand: Any, room: int, free: int, low: Any, high: Any) -> int:
    """Lower `high` to what the arrays leave beside `low`, which takes as many as returned; -1: too many."""
    arrays = 0
    for j in range(free):
        arrays += demand[j] * low[j]
    if arrays > room:
        return -1
    for j in range(free):
        high[j] = min(high[j], low[j] + (room - arrays) // demand[j])
    return arrays


@compiled_inline
def _least_wait(layers: Any, j: int, low: Any, high: Any, wait: Any) -> int:
    """Least PreOp of layer j with copies in low ... high, given those of the layers before."""
    least = 0
    n = low[j]
    for m in range(j - 1, -1, -1):
        ask = _last(layers, m + 1, n)
        batches = _ceil(ask, high[m])
        least = max(least, batches - 1 + wait[m])
        n = max(ask, batches * low[m])
    return least


@compiled
def _reach(layers: Any, ask: int, due: int, free: int, low: Any, high: Any, wait: Any) -> bool:
    """Raise `low` of the first `free` layers to have pixel `ask` of the last of them by step `due`."""
    for j in range(free - 1, -1, -1):
        left = due + 1 - wait[j]
        if left < 1:
            return False
        low[j] = max(low[j], _ceil(ask, left))
        if low[j] > high[j]:
            return False
        if j:
            ask = _last(layers, j, max(ask, _ceil(ask, high[j]) * low[j]))
    return True


@compiled
def _asked(
    layers: Any, i: int, copies: int, target: int, rest: int, asks: Any, dues: Any, count: int,
    new_asks: Any, new_dues: Any,
) -> int:  # fmt: skip
    """Demands on layer i - 1 once layer i has these copies, given those on layer i; -1 if unmet.

    The first is for the start of layer i, the others for its batches that the layers behind ask for.
    """
    wait = target - rest - _ceil(layers[i, 5], copies)
    for r in range(count):
        wait = min(wait, dues[r] + 1 - _ceil(asks[r], copies))
    if wait < 0:
        return -1
    if i == 0:
        return 0
    new_asks[0], new_dues[0] = _last(layers, i, copies), wait
    found = 1
    for r in range(count):
        ask = _last(layers, i, _ceil(asks[r], copies) * copies)
        found = _add(new_asks, new_dues, found, ask, dues[r])
    return found


@compiled_inline
def _add(asks: Any, dues: Any, count: int, ask: int, due: int) -> int:
    """Add a demand unless another one implies it, and drop those that it implies; how many there are."""
    implied = False
    for m in range(count):
        implied = implied or (asks[m] >= ask and dues[m] <= due)
    if implied:
        return count
    kept = 0
    for m in range(count):
        if asks[m] > ask or dues[m] < due:
            asks[kept], dues[kept] = asks[m], dues[m]
            kept += 1
    asks[kept], dues[kept] = ask, due
    return kept + 1


@compiled
def extend(
    layers: Any, demand: Any, budget: int, target: int, i: int, box: Any, states: Any, begin: int, end: int,
    out: Any, filled: int, limit: int,
) -> tuple[int, int]:  # fmt: skip
    """Append states begin ... end - 1 with every useful number of copies of layer i to `out`.

    states, out: copies (k x n), arrays, rest, least (k), asks, dues (k x n), count (k); least: arrays that
    the whole allocation takes at least; box: low and high of all layers. Returns the number of states in
    `out` and the layers that were looked at, a count of work; ends early if `out` is full or the work
    passes `limit`.
    """
    copies, arrays, rest, _, asks, dues, count = states
    to_copies, to_arrays, to_rest, to_least, to_asks, to_dues, to_count = out
    room = np.empty((6, len(layers)), dtype=np.int64)
    low, high, under, over, wait, later = room[0], room[1], room[2], room[3], room[4], room[5]
    work = 0
    for s in range(begin, end):
        low[:], high[:], wait[:] = box[0], box[1], 0
        left = budget - arrays[s]
        work += (i + 1) * (i + 1 + count[s])
        least = least_box(
            layers, demand, left, target, rest[s], asks[s], dues[s], count[s], i + 1, low, high, wait
        )
        if least < 0:
            continue
        for d in range(low[i], high[i] + 1):
            if filled == len(to_least) or work > limit:
                return filled, work
            to = filled
            found = _asked(
                layers, i, d, target, rest[s], asks[s], dues[s], count[s], to_asks[to], to_dues[to]
            )
            if found < 0:
                continue
            to_rest[to] = rest[s] + _ceil(layers[i, 6], d)
            under[:], over[:], later[:] = low, high, wait
            work += (i + 1) * (i + 1 + found)
            least = least_box(
                layers, demand, left - d * demand[i], target, to_rest[to], to_asks[to], to_dues[to], found, i,
                under, over, later,
            )  # fmt: skip
            if least < 0:
                continue
            to_copies[to] = copies[s]
            to_copies[to, i] = d
            to_arrays[to] = arrays[s] + d * demand[i]
            to_least[to] = to_arrays[to] + least
            to_count[to] = found
            filled += 1
            if i == 0:
                break
    return filled, work


@compiled
def undominated(states: Any, order: Any, look: int) -> int:
    """Move to the front of `order` the states that none of the `look` ones kept before them dominates.

    order: states by rising arrays. A state dominates if it takes no more arrays, has no longer tails and
    all it asks for is asked for by the other too. Returns how many were kept.
    """
    _, arrays, rest, _, asks, dues, count = states
    kept = 0
    for b in order:
        dominated = False
        for at in range(kept - 1, max(-1, kept - 1 - look), -1):
            a = order[at]
            if rest[a] <= rest[b] and arrays[a] <= arrays[b]:
                dominated = _implied(asks[a], dues[a], count[a], asks[b], dues[b], count[b])
                if dominated:
                    break
        if not dominated:
            order[kept] = b
            kept += 1
    return kept


@compiled_inline
def _implied(asks: Any, dues: Any, count: int, other_asks: Any, other_dues: Any, other_count: int) -> bool:
    """Whether who meets the other demands meets these."""
    for r in range(count):
        met = False
        for t in range(other_count):
            if other_asks[t] >= asks[r] and other_dues[t] <= dues[r]:
                met = True
                break
        if not met:
            return False
    return True
