"""First allocations of several kinds of arrays: every kind alone, and every layer on the kind it fills best.

Source: docs/sources/model.md 18. The kind that a layer fills best is the one of whose cells one copy uses the
largest part, of equal ones the cheapest, then the first.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import numpy.typing as npt

from rramalloc.mapping.demand import WeightMatrix
from rramalloc.mapping.mode import Mode, ModeOfEach, array_of
from rramalloc.network.node import Stage
from rramalloc.search import cost
from rramalloc.search.problem import Choice, Problem
from rramalloc.search.work import Work
from rramalloc.status import Stopped


def kind_starts(problem: Problem, stop: Work) -> Iterator[Choice]:
    """Yield the allocations that fit, once with the fewest copies and once with all that the slowest can use.

    Nothing where there is one kind.
    """
    alternatives = problem.alternatives
    if alternatives is None or len(alternatives.kinds) < 2 or problem.storage.divide is not None:
        return
    each = [modes_on_kind(problem, kind) for kind in alternatives.kinds]
    for modes in dict.fromkeys([fullest_modes(problem), *each]):
        copies = problem.smallest.copy()
        if problem.holds(copies, modes):
            yield problem.choice(copies.copy(), modes)
            feed(problem, modes, copies, stop)
            yield problem.choice(copies, modes)


def modes_on_kind(problem: Problem, kind: int) -> ModeOfEach:
    """Return the mode of every stage on a kind, in its least sensitive bits; on another where it has none."""
    return _least_sensitive(problem, lambda _, mode: (int(mode.kind != kind), 0.0, 0))


def fullest_modes(problem: Problem) -> ModeOfEach:
    """Return the mode of every stage with the kind that one copy fills best, in its least sensitive bits."""

    def rank(stage: int, mode: Mode) -> tuple[int, float, int]:
        return 0, -_utilisation(problem, stage, mode), problem.arrays_of_stage(stage, mode, 1)

    return _least_sensitive(problem, rank)


def _least_sensitive(problem: Problem, rank: Callable[[int, Mode], tuple[int, float, int]]) -> ModeOfEach:
    """Return the first mode by rank of every stage, among those of its least sensitive bits."""
    if problem.alternatives is None:
        return problem.graph.modes
    modes = list[Mode]()
    for stage, (offered, plain) in enumerate(
        zip(problem.alternatives.each, problem.graph.modes, strict=True)
    ):
        least = min((alternative.sensitivity for alternative in offered), default=0)
        some = [
            alternative.mode.in_block(plain.block)
            for alternative in offered
            if alternative.sensitivity == least
        ]
        modes.append(min(some, key=partial(rank, stage), default=plain))
    return tuple(modes)


def _utilisation(problem: Problem, stage: int, mode: Mode) -> float:
    """Return the share of the cells of its arrays that one copy of a stage uses."""
    network, hardware = problem.storage.laid_out
    node = mode.of_stage(problem.graph.stages[stage])
    own = array_of(hardware, node, mode)
    arrays = problem.storage.count_stored(stage, mode).arrays(1)
    if not isinstance(node, Stage) or not arrays or own.processor is not None:
        return 0.0
    cells = arrays * own.crossbar.wordlines * own.crossbar.bitlines
    return WeightMatrix.of(network, node, own).cells / cells


def feed(problem: Problem, modes: ModeOfEach, copies: npt.NDArray[np.int64], stop: Work) -> Stopped | None:
    """Give one copy after the other to the slowest stage as long as it fits; of equals to the first.

    Return what ended it before that.
    """

    def length(stage: int) -> int:
        """Return the steps or ticks of all batches of a stage."""
        batches = -(-problem.time.total(stage, modes[stage]) // int(copies[stage]))
        return batches * problem.ticks(stage, modes[stage], int(copies[stage]))

    spare = problem.budget - problem.arrays(copies, modes)
    kinds, stored = np.array([mode.kind for mode in modes]), problem.storage.stored(modes, copies)
    nothing, axes = np.zeros_like(stored), problem.resources.axes
    left = [axis.limit - int(axis.amounts(kinds, stored, nothing).sum()) for axis in axes]
    queue = [(-length(stage), stage) for stage in np.flatnonzero(problem.graph.most_copies > 1).tolist()]
    heapq.heapify(queue)
    given, stopped = 0, None
    while queue:
        if stop.out_of_time:
            stopped = stop.cut
            break
        stage = queue[0][1]
        mode, count = modes[stage], int(copies[stage])
        more = problem.arrays_of_stage(stage, mode, count + 1)
        more -= problem.arrays_of_stage(stage, mode, count)
        arrays = more // problem.storage.weight(mode)
        takes = [axis.per_array[mode.kind] * arrays for axis in axes]
        fits = more <= spare and all(amount <= room for amount, room in zip(takes, left, strict=True))
        if count >= problem.copies_allowed(stage, mode)[1] or not fits:
            break
        copies[stage] += 1
        spare -= more
        left = [room - amount for amount, room in zip(takes, left, strict=True)]
        given += 1
        heapq.heapreplace(queue, (-length(stage), stage))
    stop.charge(cost.QUEUE_TURN * given)
    return stopped
