"""Checkpoints: the windows at which the bound follows each stage, with lookups for compiled code."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.timing.stage_graph import StageGraph

MOST_PER_STAGE = 256

Windows = npt.NDArray[np.int64]


class Checkpoints(NamedTuple):
    """Row ends of every stage, the last window always among them; int64.

    points[first[i]:first[i + 1]]: checkpoints of stage i, rising; total: number of all of them.
    Edge e from p to i has a block from edge_first[e] on: for every checkpoint of i the last checkpoint of p
    at or before the window needed (needed_at); then for every checkpoint of p the first window of i that
    needs it (user, -1 for none) and the first checkpoint of i at or after that (user_at).
    """

    points: Windows
    first: Windows
    total: int
    needed_at: Windows
    user: Windows
    user_at: Windows
    edge_first: Windows


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
            offset = int(edges.offset[edge])
            need = edges.need[offset : offset + int(graph.windows[consumer])]
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


def _row_ends(graph: StageGraph, stage: int) -> Windows:
    shape = graph.network.shapes[graph.names[stage]]
    rows = np.arange(1, shape.height + 1, dtype=np.int64)
    if len(rows) > MOST_PER_STAGE:
        picks = np.linspace(0, len(rows) - 1, MOST_PER_STAGE).astype(np.int64)
        rows = rows[picks]
    return rows * shape.width - 1


def _joined(parts: list[Windows]) -> Windows:
    return np.concatenate([*parts, np.zeros(1, dtype=np.int64)]).astype(np.int64)
