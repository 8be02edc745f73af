"""Look-up tables for bounds: checkpoints of every stage, and waits for ancestors several edges up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from rramalloc.ndarrays import Ints
from rramalloc.search.kernels.clock import Clock
from rramalloc.timing.stage_graph import StageGraph

_MOST_CHECKPOINTS = 256
"""Checkpoints of one stage at most."""
_MOST_ENTRIES = 2**24
"""Entries of the tables of all pairs of Reach at most: bounds the memory."""

NeedTable = npt.NDArray[np.int32]


class Checkpoints(NamedTuple):
    """The windows at which the bound follows each stage: row ends, the last window among them; int64.

    points[first[i]:first[i + 1]]: checkpoints of stage i, rising; total: number of all of them.
    Edge e from p to i has a block from edge_first[e] on: for every checkpoint of i the last checkpoint of p
    at or before the window needed (needed_at); then for every checkpoint of p the first window of i that
    needs it (user, -1 for none) and the first checkpoint of i at or after that (user_at).
    """

    points: Ints
    first: Ints
    total: int
    needed_at: Ints
    user: Ints
    user_at: Ints
    edge_first: Ints


@lru_cache(maxsize=2)
def checkpoints(graph: StageGraph) -> Checkpoints:
    """Choose checkpoints for a graph and tabulate how they depend on each other along its binding edges."""
    edges = graph.flat_binding
    chosen = [_row_ends(graph, stage) for stage in range(len(graph.stages))]
    first = np.concatenate(([0], np.cumsum([len(points) for points in chosen])))
    needed, users, users_at, starts = [], [], [], [0]
    for consumer in range(len(chosen)):
        own = chosen[consumer]
        for edge in range(edges.pointer[consumer], edges.pointer[consumer + 1]):
            producer = int(edges.producer[edge])
            theirs = chosen[producer]
            need = edges.of(edge, consumer)
            at = first[producer] + np.searchsorted(theirs, need[own], side="right") - 1
            user = np.searchsorted(need, theirs, side="left")
            used = user < len(need)
            user_at = first[consumer] + np.searchsorted(own, np.where(used, user, 0), side="left")
            unused = np.full(len(theirs), -1)
            needed.append(np.concatenate((at, unused)))
            users.append(np.concatenate((np.full(len(own), -1), np.where(used, user, -1))))
            users_at.append(np.concatenate((np.full(len(own), -1), np.where(used, user_at, -1))))
            starts.append(starts[-1] + len(at) + len(user))
    return Checkpoints(
        points=np.concatenate(chosen),
        first=first.astype(np.int64),
        total=int(first[-1]),
        needed_at=_joined(needed),
        user=_joined(users),
        user_at=_joined(users_at),
        edge_first=np.array(starts, dtype=np.int64),
    )


def _row_ends(graph: StageGraph, stage: int) -> Ints:
    grid = graph.grids[stage]
    rows = np.arange(1, grid.rows + 1, dtype=np.int64)
    if len(rows) > _MOST_CHECKPOINTS:
        picks = np.linspace(0, len(rows) - 1, _MOST_CHECKPOINTS).astype(np.int64)
        # Fewer checkpoints weaken the bounds and keep them valid: each rule holds for any chosen windows.
        rows = rows[picks]
    return rows * grid.columns - 1


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate([*parts, np.zeros(1, dtype=np.int64)]).astype(np.int64)


class Reach(NamedTuple):
    """Pairs of a stage and an ancestor at most some edges up, grouped by stage.

    Along a path g -> p -> i a fast p hides how slow g is: p waits for g, and i for p. The windows of g that i
    needs through p bound the wait of i whatever the copies of p are. Pairs pointer[i] ... pointer[i + 1]
    - 1 belong to stage i; pair e has the ancestor producer[e], and need[offset[e] + w] is the last window
    of it that windows 0 ... w of i need, -1 for none.
    delay[e]: least ticks from the finish of a batch of the ancestor to the start of one of i that waits for
    it: on every path between them the lags of the edges and a batch of each stage passed.
    user[e]: first window of i that needs the ancestor's last one, -1 if none does.
    """

    pointer: Ints
    producer: Ints
    offset: Ints
    need: NeedTable
    delay: Ints
    user: Ints


Need = TypeVar("Need")
Ancestors = dict[int, tuple[int, Need]]
"""Ancestors of a stage: least ticks from the finish of a batch there to the start of one here that waits for
it, and the pixels needed of it.
"""


@dataclass(frozen=True, slots=True)
class NeedRules(Generic[Need]):
    """Rules by which needs combine: along a path, and on one path or on another.

    through: of what a stage needs of a producer, and that of its own.
    """

    through: Callable[[Need, Need], Need]
    union: Callable[[Need, Need], Need]

    def add(self, found: Ancestors[Need], ancestor: int, delay: int, need: Need) -> None:
        """Add another path to an ancestor."""
        if ancestor in found:
            least, other = found[ancestor]
            # On several paths the least delay and the union of needs hold whichever path decides.
            delay, need = min(least, delay), self.union(other, need)
        found[ancestor] = delay, need

    def merge(self, found: list[Ancestors[Need]], level: list[Ancestors[Need]]) -> None:
        """Add other paths to ancestors of all stages."""
        for own, others in zip(found, level, strict=True):
            for ancestor, (delay, need) in others.items():
                self.add(own, ancestor, delay, need)

    def levels_up(self, direct: list[Ancestors[Need]], passed: Ints) -> Iterator[list[Ancestors[Need]]]:
        """Yield the ancestors of all stages two edges up, three edges up, and so on.

        passed: least ticks of a batch of every stage.
        """
        level = direct
        while True:
            level = [self._one_up(own, direct, passed) for own in level]
            yield level

    def _one_up(self, level: Ancestors[Need], direct: list[Ancestors[Need]], passed: Ints) -> Ancestors[Need]:
        following: Ancestors[Need] = {}
        for ancestor, (delay, need) in level.items():
            for producer, (lag, other) in direct[ancestor].items():
                time = lag + int(passed[ancestor]) + delay
                self.add(following, producer, time, self.through(need, other))
        return following


@lru_cache(maxsize=4)
def reach(graph: StageGraph, hops: int) -> Reach:
    """Return the pairs of stages at most `hops` edges apart, fewer if their tables would be too large."""
    direct: list[Ancestors[NeedTable]] = [{} for _ in graph.stages]
    for edge in graph.timing_edges:
        direct[edge.consumer][edge.producer] = graph.lag(edge), graph.needed(edge)
    found = [own.copy() for own in direct]
    tables = NeedRules(_composed, np.maximum)
    entries = _entries(direct)
    clock = clock_of(graph)
    for level in islice(tables.levels_up(direct, clock.compute[clock.first]), hops - 1):
        entries += _entries(level)
        if entries > _MOST_ENTRIES:
            break
        tables.merge(found, level)
    return _flat(graph, found)


def _composed(need: NeedTable, other: NeedTable) -> NeedTable:
    return np.where(need >= 0, other[np.maximum(need, 0)], np.int32(-1))


def _entries(level: list[Ancestors[NeedTable]]) -> int:
    return sum(len(need) for own in level for _, need in own.values())


def _flat(graph: StageGraph, found: list[Ancestors[NeedTable]]) -> Reach:
    pointer, offset = [0], [0]
    pairs: list[tuple[int, int, int]] = []
    tables: list[NeedTable] = []
    for own in found:
        for ancestor in sorted(own):
            delay, need = own[ancestor]
            at = int(np.searchsorted(need, graph.windows[ancestor] - 1))
            pairs.append((ancestor, delay, at if at < len(need) else -1))
            tables.append(need)
            offset.append(offset[-1] + len(need))
        pointer.append(len(pairs))
    producer, least, user = np.array([*pairs, (0, 0, -1)], dtype=np.int64).T.copy()
    return Reach(
        pointer=np.array(pointer, dtype=np.int64),
        producer=producer,
        offset=np.array(offset, dtype=np.int64),
        need=np.concatenate([*tables, np.zeros(1, dtype=np.int32)]),
        delay=least,
        user=user,
    )


def clock_of(graph: StageGraph) -> Clock:
    """Return the ticks of a batch of every stage."""
    return Clock.of([graph.clocks(i, block) for i, block in enumerate(graph.modes)])
