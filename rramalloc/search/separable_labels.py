"""Compiled search of the separable model: stages are decided from the last to the first, all ways at once.

A label is what a choice for the last stages means for the others: its arrays and a few rests (see
separable_plan). A label goes if a path through it exceeds the target, if it costs more than the budget in
the relaxation of separable_kernel, or if another one needs no more of anything. Labels wait on a stack, the
furthest first, a chunk at a time; an empty stack proves that no allocation meets the target.

Source: dynamic programming with bounds and dominance, as for resource-constrained shortest paths.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rramalloc.compiled import compiled
from rramalloc.search.separable_tables import order_of

_SLACK = 1e-6
_NEVER = 2**40
_PARTS = 64.0
"""Parts of an array to which bounds of labels are compared when the most promising come first."""
_COMPARED = 32
"""Kept labels that a new one is compared with where more than two rests make up a label."""


def stack_of(plan: Any, room: int) -> Any:
    """Memory for `room` labels; pages that are never reached are never touched."""
    return (
        np.empty((room, max(1, plan[13])), dtype=np.int32), np.empty(room, dtype=np.int64), np.empty(room),
        np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int64),
    )  # fmt: skip


@compiled
def levels(
    model: Any, plan: Any, target: int, lo: Any, hi: Any, head: Any, furthest: Any, flowing: Any, paid: Any,
    price: float,
) -> Any:  # fmt: skip
    """Per number of undecided stages: arrays they take at least, base and weights of their relaxation,
    and per column steps before it: at least and, if they take their fewest copies, at most.
    """
    pointer, arrays, of_stage, begin, value, least = (
        model[0], model[2], model[3], model[4], model[5], model[6]
    )  # fmt: skip
    n, columns = len(lo), max(1, plan[13])
    cheapest, base = np.zeros(n + 1, dtype=np.int64), np.zeros(n + 1)
    weight = np.zeros((n + 1, columns))
    early = np.zeros((n + 1, columns), dtype=np.int64)
    late = np.full((n + 1, columns), -1, dtype=np.int64)
    base[0] = -price * target
    for i in range(n):
        cheapest[i + 1] = cheapest[i] + arrays[pointer[i] + lo[i]]
        lowest = 1e300
        for k in range(lo[i], hi[i] + 1):
            total = float(arrays[pointer[i] + k])
            for r in range(of_stage[i], of_stage[i + 1]):
                total += price * paid[r] * value[begin[r] + k]
            lowest = min(lowest, total)
        base[i + 1] = base[i] + lowest
    for at in range(len(plan[9])):
        for level in range(plan[12][at] + 1, plan[10][at] + 1):
            weight[level, plan[11][at]] += price * flowing[plan[9][at]]
    for p in range(n):
        for s in range(plan[0][p], plan[0][p + 1]):
            r, event, column = plan[2][s], plan[3][s], plan[1][s]
            soonest, latest = head[event], furthest[event]
            if r >= 0:
                soonest += least[begin[r] + hi[p]]
                latest += value[begin[r] + lo[p]]
            for level in range(p + 1, plan[14][s] + 1):
                early[level, column] = max(early[level, column], soonest)
                late[level, column] = max(late[level, column], latest)
    for level in range(n + 1):
        for c in range(columns):
            if late[level, c] < 0:
                late[level, c] = _NEVER
    return cheapest, base, weight, early, late


@compiled
def _expand(
    model: Any, plan: Any, tables: Any, budget: int, target: int, i: int, low: int, high: int, head: int,
    rests: Any, used: Any, bound: Any, parent: Any, option: Any, label: int, count: int,
) -> int:  # fmt: skip
    """Append what becomes of a label with each option of stage i; number of labels afterwards."""
    pointer, arrays, of_stage, begin, value = model[0], model[2], model[3], model[4], model[5]
    cheapest, base, weight, early, late = tables
    columns = rests.shape[1]
    last = -1
    for k in range(low, high + 1):
        cost = used[label] + arrays[pointer[i] + k]
        if cost + cheapest[i] > budget:
            break
        ended, remaining = 0, 0
        for s in range(plan[0][i], plan[0][i + 1]):
            r = plan[2][s]
            if r >= 0:
                remaining = max(remaining, value[begin[r] + k] + rests[label, plan[1][s]])
            else:
                ended = max(ended, rests[label, plan[1][s]])
        remaining = max(remaining, value[begin[of_stage[i]] + k] + ended)
        if head + remaining > target:
            continue
        for c in range(columns):
            rests[count, c] = rests[label, c]
        for at in range(plan[7][i], plan[7][i + 1]):
            rests[count, plan[8][at]] = 0
        possible = True
        for at in range(plan[4][i], plan[4][i + 1]):
            c, r = plan[5][at], plan[6][at]
            steps = remaining if r < 0 else value[begin[r] + k] + ended
            if early[i, c] + steps > target:
                possible = False
                break
            rests[count, c] = max(rests[count, c], steps)
        if not possible:
            continue
        estimate = cost + base[i]
        for c in range(columns):
            rests[count, c] = max(rests[count, c], target - late[i, c])
            estimate += weight[i, c] * rests[count, c]
        if estimate > budget + _SLACK:
            continue
        if last >= 0:
            better = False
            for c in range(columns):
                if rests[count, c] < rests[last, c]:
                    better = True
                    break
            if not better:
                continue
        used[count], bound[count], parent[count], option[count] = cost, estimate, label, k
        last = count
        count += 1
    return count


@compiled
def _dominated(rests: Any, a: int, b: int) -> bool:
    """Whether label b needs no less than label a of every rest."""
    c = 0
    while c < rests.shape[1] and rests[a, c] <= rests[b, c]:
        c += 1
    return bool(c == rests.shape[1])


@compiled
def _best(rests: Any, used: Any, begin: int, end: int, kept: Any) -> int:
    """kept: the labels in begin ... end - 1 that no other one dominates, by rising arrays; their number."""
    order = order_of(used[begin:end])
    front = np.empty(_COMPARED, dtype=np.int64)
    count, recent = 0, 0
    for at in range(end - begin):
        label = begin + order[at]
        dominated = False
        for f in range(recent):
            if _dominated(rests, front[f], label):
                dominated = True
                if f > 0:
                    front[f], front[f // 2] = front[f // 2], front[f]
                break
        if dominated:
            continue
        kept[count] = label
        count += 1
        if recent < _COMPARED:
            front[recent] = label
            recent += 1
        else:
            front[_COMPARED // 2 + count % (_COMPARED // 2)] = label
    return count


@compiled
def _move(
    rests: Any, used: Any, bound: Any, parent: Any, option: Any, begin: int, end: int, chosen: Any
) -> None:
    """Put the chosen labels at begin ... in their order, by way of the free places from `end` on."""
    for at in range(len(chosen)):
        _copy(rests, used, bound, parent, option, chosen[at], end + at)
    for at in range(len(chosen)):
        _copy(rests, used, bound, parent, option, end + at, begin + at)


@compiled
def _copy(rests: Any, used: Any, bound: Any, parent: Any, option: Any, source: int, to: int) -> None:
    for c in range(rests.shape[1]):
        rests[to, c] = rests[source, c]
    used[to], bound[to], parent[to], option[to] = used[source], bound[source], parent[source], option[source]


@compiled
def decide(
    model: Any, plan: Any, tables: Any, budget: int, target: int, head: Any, pre: Any, lo: Any, hi: Any,
    chunk: int, stack: Any, most_work: int, found: Any,
) -> tuple[int, int]:  # fmt: skip
    """Whether any choice in the box meets target and budget: (outcome, work).

    outcome: 0 there is none (proven), 1 one is in `found`, 2 undecided after most_work label options or with
    a full stack.
    """
    n = len(lo)
    rests, used, bound, parent, option, kept = stack
    room = len(used)
    rests[0], used[0] = 0, 0
    first, until, cursor = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    until[n] = cursor[n] = 1
    level, work = n, 0
    while level <= n:
        if cursor[level] == first[level]:
            level += 1
            continue
        i = level - 1
        begin = max(first[level], cursor[level] - chunk)
        count = until[level]
        for label in range(cursor[level] - 1, begin - 1, -1):
            if count + hi[i] - lo[i] + 1 > room or work > most_work:
                return 2, work
            work += hi[i] - lo[i] + 1
            count = _expand(
                model, plan, tables, budget, target, i, lo[i], hi[i], head[pre[i]], rests, used, bound,
                parent, option, label, count,
            )  # fmt: skip
        cursor[level] = begin
        size = count - until[level]
        if size == 0:
            continue
        if i == 0:
            best = until[level]
            for label in range(until[level], count):
                best = label if used[label] < used[best] else best
            for stage in range(n):
                found[stage] = option[best]
                best = parent[best]
            return 1, work
        work += size
        left = _best(rests, used, until[level], count, kept)
        chosen = kept[:left]
        if left > chunk:
            worst = np.empty(left, dtype=np.int64)
            for at in range(left):
                worst[at] = np.int64(-_PARTS * bound[chosen[at]])
            chosen = chosen[order_of(worst)]
        if count + left > room:
            return 2, work
        _move(rests, used, bound, parent, option, until[level], count, chosen)
        first[i], until[i], cursor[i] = until[level], until[level] + left, until[level] + left
        level = i
    return 0, work
