"""`fullest-kind`: every layer on the kind of arrays that it uses best, copies for the slowest layer.

Source: docs/sources/model.md 18, a baseline of kinds of arrays: the kind of a layer is the one of whose cells
one copy uses the largest part, of equal ones the cheapest, then the first; copies are those of `bottleneck`.
Where the kinds differ in the length of a step the slowest layer is the one that takes longest. It ends as
soon as a copy of the slowest layer does not fit, or that layer has all the copies it can use.
"""

from __future__ import annotations

import heapq

import numpy as np
import numpy.typing as npt

from rramalloc.errors import SolverError
from rramalloc.mapping.demand import WeightMatrix
from rramalloc.mapping.mode import Mode, ModeOfEach
from rramalloc.methods.method import Method
from rramalloc.network.node import Stage
from rramalloc.search import cost
from rramalloc.search.problem import Answer, Problem
from rramalloc.search.work import Work
from rramalloc.status import Stopped


def solve(problem: Problem, stop: Work, seed: int) -> Answer:  # noqa: ARG001
    """Choose the kinds, then feed the slowest stage. Raises SolverError where a kind is too small."""
    modes, copies = fullest_modes(problem), problem.smallest.copy()
    if not problem.holds(copies, modes):
        used = problem.storage.stored(modes, copies).tolist()
        _, hardware = problem.storage.laid_out
        need = {kind.name: 0 for kind in hardware.kinds or ()}
        for mode, arrays in zip(modes, used, strict=True):
            need[list(need)[mode.kind]] += arrays
        shares = ", ".join(f"{name} {arrays:,}" for name, arrays in need.items())
        words = "every layer once on the kind that it uses best takes more than there is"
        raise SolverError(f"{words}: {shares}: give these kinds more arrays")
    words = "heuristic: the kind whose cells a layer uses best, copies for the slowest layer"
    stopped = _feed(problem, modes, copies, stop)
    return Answer(problem.choice(copies, modes), 1, words, stopped=stopped)


FULLEST_KIND = Method(
    "fullest-kind",
    solve,
    minimises="empty cells, then the slowest layer's time, greedily",
    source="docs/sources/model.md 18",
    sees_digital=True,
    kinds="several",
)


def fullest_modes(problem: Problem) -> ModeOfEach:
    """Return the mode of every stage with the kind that one copy fills best, in its least sensitive bits."""
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
        ranks = [
            (-_utilisation(problem, stage, mode), problem.arrays_of_stage(stage, mode, 1)) for mode in some
        ]
        modes.append(some[ranks.index(min(ranks))] if some else plain)
    return tuple(modes)


def _utilisation(problem: Problem, stage: int, mode: Mode) -> float:
    """Return the share of the cells of its arrays that one copy of a stage uses."""
    network, hardware = problem.storage.laid_out
    node, of_kind = mode.of_stage(problem.graph.stages[stage]), hardware.each_kind[mode.kind]
    arrays = problem.storage.count_stored(stage, mode).arrays(1)
    if not isinstance(node, Stage) or not arrays:
        return 0.0
    cells = arrays * of_kind.crossbar.wordlines * of_kind.crossbar.bitlines
    return WeightMatrix.of(network, node, of_kind).cells / cells


def _feed(problem: Problem, modes: ModeOfEach, copies: npt.NDArray[np.int64], stop: Work) -> Stopped | None:
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
