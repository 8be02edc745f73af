"""One more copy for the slowest layer, again and again: what `bottleneck`, `balance` and `genetic` share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.methods.limits import most_copies
from rramalloc.methods.slowest_kernel import feed
from rramalloc.search.problem import Problem

_NS_PER_COPY = 50.0


class Fed(NamedTuple):
    """allocations: a row for each reserve; seconds: work, counted."""

    allocations: npt.NDArray[np.int64]
    seconds: float


def fed(problem: Problem, room: int, reserves: Sequence[int]) -> Fed:
    """Copies for the slowest stage while more arrays are left than one copy of it and than the reserve.

    room: arrays to give away beyond the fewest copies allowed; reserves: falling, one allocation for each.
    The slowest stage has most batches; which one of equals, a priority queue decides (slowest_kernel.py). It
    ends where the slowest stage has as many copies as it can use.
    """
    rows = np.tile(problem.smallest, (len(reserves), 1))
    given = feed(
        problem.graph.windows, problem.demand, most_copies(problem), room,
        np.array(reserves, dtype=np.int64), problem.smallest.copy(), rows,
    )  # fmt: skip
    return Fed(rows, 1e-9 * _NS_PER_COPY * given)
