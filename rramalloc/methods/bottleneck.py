"""`bottleneck`: one more copy for the slowest layer, until it does not fit.

Source: the usual greedy heuristic, as in PIMCOMP's ReplicationByBalance without its margin (balance.py). Our
reading: it ends as soon as a copy of the slowest layer does not fit, or that layer has a copy for each of
its windows; smaller copies of other layers would not make the slowest one faster. With kinds of arrays
(docs/sources/model.md 18) every layer has the kind with which all layers together cost least, and the slowest
one is the one that takes longest.

Its compiled loop works on the binary heap of the C++ library that PIMCOMP is built with.

With equal batches the heap's own moves decide which stage is next: a removed top leaves a hole that sinks to
the bottom towards the larger child, the right one of equals, and the last entry rises from there. Doing the
same is what gives PIMCOMP's allocations copy by copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rramalloc.compiled import compiled_maker, compiled_part
from rramalloc.methods.method import Method, most_copies
from rramalloc.ndarrays import Ints
from rramalloc.search import cost, kind_starts
from rramalloc.search.kernels.limits import copy_to
from rramalloc.search.menu import Menu
from rramalloc.search.problem import Answer, Problem
from rramalloc.search.work import Work


def solve(problem: Problem, stop: Work, seed: int) -> Answer:  # noqa: ARG001
    """Give copies to the stage with most batches while the budget lasts, from the fewest copies on."""
    words = "heuristic: copies for the slowest layer, one by one"
    if problem.alternatives is not None:
        menu = Menu.of(problem, stop)
        cheapest = menu.choice(problem, menu.smallest)
        stopped = kind_starts.feed(problem, cheapest.modes, cheapest.copies, stop)
        return Answer(problem.choice(cheapest.copies, cheapest.modes), 1, words, stopped=stopped)
    room = problem.budget - problem.arrays(problem.smallest)
    copies = fed(problem, room + 1, [0], stop)[0]
    return Answer(problem.choice(copies), 1, words)


BOTTLENECK = Method(
    "bottleneck",
    solve,
    minimises="the slowest layer's time, greedily",
    source="PIMCOMP without its margin, DAC 2023",
    reads="case limits objective inputs placed method",
)


@compiled_part
def _rise(key: Any, item: Any, hole: int, value: int, entry: int) -> None:
    """Sift an entry up from the hole while its parent is smaller."""
    while hole > 0 and key[(hole - 1) // 2] < value:
        key[hole], item[hole] = key[(hole - 1) // 2], item[(hole - 1) // 2]
        hole = (hole - 1) // 2
    key[hole], item[hole] = value, entry


@compiled_part
def _without_top(key: Any, item: Any, count: int) -> None:
    """Remove the top of a heap of `count` entries; the place of the last one becomes free."""
    count -= 1
    hole = 0
    while 2 * hole + 2 < count:
        child = 2 * hole + 2
        if key[child] < key[child - 1]:
            child -= 1
        key[hole], item[hole] = key[child], item[child]
        hole = child
    if 2 * hole + 2 == count:
        key[hole], item[hole] = key[count - 1], item[count - 1]
        hole = count - 1
    if count > 0:
        _rise(key, item, hole, key[count], item[count])


@compiled_maker
def feed(windows: Any, demand: Any, most: Any, room: int, reserves: Any, copies: Any, rows: Any) -> int:
    """Give copies to the slowest stage, in place; return how many were given.

    rows[k]: written, the copies when reserves[k] is reached. Stages of one window, such as fully connected
    layers, are not in the queue.
    """
    n, row, given = 0, 0, 0
    key, item = np.empty_like(windows), np.empty_like(windows)
    for stage in range(len(windows)):
        if windows[stage] > 1:
            _rise(key, item, n, (windows[stage] + copies[stage] - 1) // copies[stage], stage)
            n += 1
    while row < len(reserves) and n > 0:
        stage = item[0]
        if key[0] == 1 or copies[stage] >= most[stage]:
            break
        if room <= demand[stage] or room <= reserves[row]:
            copy_to(rows[row], copies)
            row += 1
            continue
        copies[stage] += 1
        room -= demand[stage]
        given += 1
        _without_top(key, item, n)
        _rise(key, item, n - 1, (windows[stage] + copies[stage] - 1) // copies[stage], stage)
    for rest in range(row, len(rows)):
        copy_to(rows[rest], copies)
    return given


def fed(problem: Problem, room: int, reserves: Sequence[int], stop: Work) -> Ints:
    """Give copies to the slowest stage while more arrays are free than one copy needs and than the reserve.

    room: arrays beyond those of the fewest copies allowed; reserves: falling, each with a row of the result.
    The slowest stage has the most batches; a priority queue decides between equals (`_rise`). The search ends
    where the slowest stage has as many copies as it can use.
    """
    rows = np.tile(problem.smallest, (len(reserves), 1))
    windows, demand, most = problem.graph.windows, problem.demand, most_copies(problem)
    falling, copies = np.array(reserves, dtype=np.int64), problem.smallest.copy()
    given = feed(windows, demand, most, room, falling, copies, rows)
    stop.charge(cost.QUEUE_TURN * given)
    return rows
