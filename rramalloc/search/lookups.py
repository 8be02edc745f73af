"""Look-up tables for bounds: checkpoints of every stage, and waits for ancestors several edges up."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.timing.dependencies import Edge
from rramalloc.timing.stage_graph import StageGraph

_MOST_CHECKPOINTS = 256
"""Of one stage."""
_MOST_ENTRIES = 2**24
"""Of the tables of all pairs of Reach."""

Whole = npt.NDArray[np.int64]
Table = npt.NDArray[np.int32]


class Checkpoints(NamedTuple):
    """The windows at which the bound follows each stage: row ends, the last window among them; int64.

    points[first[i]:first[i + 1]]: checkpoints of stage i, rising; total: number of all of them.
    Edge e from p to i has a block from edge_first[e] on: for every checkpoint of i the last checkpoint of p
    at or before the window needed (needed_at); then for every checkpoint of p the first window of i that
    needs it (user, -1 for none) and the first checkpoint of i at or after that (user_at).
    """

    points: Whole
    first: Whole
    total: int
    needed_at: Whole
    user: Whole
    user_at: Whole
    edge_first: Whole


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


def _row_ends(graph: StageGraph, stage: int) -> Whole:
    grid = graph.grids[stage]
    rows = np.arange(1, grid.rows + 1, dtype=np.int64)
    if len(rows) > _MOST_CHECKPOINTS:
        picks = np.linspace(0, len(rows) - 1, _MOST_CHECKPOINTS).astype(np.int64)
        rows = rows[picks]
    return rows * grid.columns - 1


def _joined(parts: list[Whole]) -> Whole:
    return np.concatenate([*parts, np.zeros(1, dtype=np.int64)]).astype(np.int64)


class Reach(NamedTuple):
    """Pairs of a stage and an ancestor at most some edges up, grouped by stage.

    Along a path g -> p -> i a fast p hides how slow g is: p waits for g, and i for p. The windows of g that i
    needs through p bound the wait of i whatever the copies of p are. Pairs pointer[i] ... pointer[i + 1]
    - 1 belong to stage i; pair e has the ancestor producer[e], and need[offset[e] + w] is the last window
    of it that windows 0 ... w of i need, -1 for none.
    hops[e]: fewest edges between the two, each takes at least a step; user[e]: first window of i that
    needs the ancestor's last one, -1 if none does.
    """

    pointer: Whole
    producer: Whole
    offset: Whole
    need: Table
    hops: Whole
    user: Whole


@lru_cache(maxsize=4)
def reach(graph: StageGraph, hops: int) -> Reach:
    """Pairs at most `hops` edges apart, fewer where their tables would be too large."""
    nearest = [{edge.producer: graph.needed(edge) for edge in edges} for edges in _incoming(graph)]
    found = [{p: (1, need) for p, need in direct.items()} for direct in nearest]
    levels = nearest
    entries = sum(len(need) for direct in nearest for need in direct.values())
    for hop in range(2, hops + 1):
        levels = [_one_up(level, nearest) for level in levels]
        entries += sum(len(need) for level in levels for need in level.values())
        if entries > _MOST_ENTRIES:
            break
        for own, level in zip(found, levels, strict=True):
            for ancestor, need in level.items():
                known = own.get(ancestor)
                own[ancestor] = (hop, need) if known is None else (known[0], np.maximum(known[1], need))
    return _flat(graph, found)


def _incoming(graph: StageGraph) -> list[list[Edge]]:
    edges: list[list[Edge]] = [[] for _ in graph.stages]
    for edge in graph.binding:
        edges[edge.consumer].append(edge)
    return edges


def _one_up(level: dict[int, Table], nearest: list[dict[int, Table]]) -> dict[int, Table]:
    """Windows needed of the producers of the ancestors in `level`."""
    following: dict[int, Table] = {}
    for ancestor, need in level.items():
        for producer, table in nearest[ancestor].items():
            composed = np.where(need >= 0, table[np.maximum(need, 0)], np.int32(-1))
            known = following.get(producer)
            following[producer] = composed if known is None else np.maximum(known, composed)
    return following


def _flat(graph: StageGraph, found: list[dict[int, tuple[int, Table]]]) -> Reach:
    pointer, offset = [0], [0]
    producer: list[int] = []
    hops: list[int] = []
    user: list[int] = []
    tables: list[Table] = []
    for own in found:
        for ancestor in sorted(own):
            hop, need = own[ancestor]
            at = int(np.searchsorted(need, graph.windows[ancestor] - 1))
            producer.append(ancestor)
            hops.append(hop)
            user.append(at if at < len(need) else -1)
            tables.append(need)
            offset.append(offset[-1] + len(need))
        pointer.append(len(producer))
    return Reach(
        pointer=np.array(pointer, dtype=np.int64),
        producer=np.array([*producer, 0], dtype=np.int64),
        offset=np.array(offset, dtype=np.int64),
        need=np.concatenate([*tables, np.zeros(1, dtype=np.int32)]),
        hops=np.array([*hops, 0], dtype=np.int64),
        user=np.array([*user, -1], dtype=np.int64),
    )
