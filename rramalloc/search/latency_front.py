"""The front of arrays and latency in ns, when memory access lengthens the step (docs/sources/model.md 7
and 8).

Allocations are looked for with all steps allowed, and with the copies that shorter and shorter steps can
feed. For the bounds the range of step times is cut into pieces: what a piece's longest step can feed takes
so many steps at least, and each of them is at least as long as the piece's shortest.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.search.archive import NEVER, Archive
from rramalloc.search.bound import Bounder
from rramalloc.search.front import Front, Point, Progress, explore
from rramalloc.search.problem import Problem, Stop
from rramalloc.timing.access import StepTime

_LIMITS, _PIECES, _BUDGETS = 5, 24, 64
_SEARCHING = 0.8
"""Part of the work for finding allocations; the rest is for bounds."""
_SAME = 1e-9
"""Latencies closer than this, relatively, are one."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class _Known(NamedTuple):
    """Allocations, one a row: arrays used, latency in ns, copies."""

    arrays: Ints
    latency_ns: Floats
    copies: Ints


def solve(
    problem: Problem, step_time: StepTime, stop: Stop, seed: int, on_progress: Progress | None = None
) -> Front:
    """All (arrays, makespan * step_ns) points up to the budget; values and bounds in ns."""
    archives, seconds = _explored(problem, step_time, stop, seed, on_progress)
    known = _undominated(_allocations(problem, step_time, archives))
    untils = [arrays - 1 for arrays in known.arrays[1:].tolist()] + [problem.budget]
    bounds_ns, spent_s = _bounds_ns(problem, step_time, untils, known.latency_ns.tolist(), stop)
    points = tuple(
        Point(copies, latency_ns, min(latency_ns, bound_ns))
        for copies, latency_ns, bound_ns in zip(
            known.copies, known.latency_ns.tolist(), bounds_ns, strict=True
        )
    )
    return Front(points, max(archive.slots.width for archive in archives), seconds + spent_s)


def _explored(
    problem: Problem, step_time: StepTime, stop: Stop, seed: int, on_progress: Progress | None
) -> tuple[list[Archive], float]:
    """Search with copies limited to what steps of several lengths can feed; the seconds counted."""
    shortest, longest = step_time.step_ns(problem.smallest), step_time.step_ns(problem.largest)
    limits_ns = np.geomspace(shortest, longest, _LIMITS).tolist() if longest > shortest else [longest]
    share = stop.nested(max(1, int(_SEARCHING * stop.work / len(limits_ns))))
    archives, seconds = list[Archive](), 0.0
    for limit_ns in limits_ns:
        archive, spent_s = explore(_capped(problem, step_time, limit_ns), share, seed)
        seconds += spent_s
        archives.append(archive)
        if on_progress is not None:
            on_progress(len(archive.steps), _SEARCHING * len(archives) / len(limits_ns))
    return archives, seconds


def _capped(problem: Problem, step_time: StepTime, longest_ns: float) -> Problem:
    """The problem with the copies that steps of a length can feed; it holds all allocations of such steps."""
    most = np.minimum(step_time.most_copies(longest_ns, problem.smallest), problem.graph.windows)
    return replace(problem, most=np.maximum(most, problem.smallest))


def _allocations(problem: Problem, step_time: StepTime, archives: list[Archive]) -> _Known:
    slots = [archive.slots for archive in archives]
    kept = [part.makespan < NEVER for part in slots]
    copies = np.concatenate([part.copies[rows] for part, rows in zip(slots, kept, strict=True)])
    makespan = np.concatenate([part.makespan[rows] for part, rows in zip(slots, kept, strict=True)])
    step_ns = np.array([step_time.step_ns(row) for row in copies])
    wide = copies.astype(np.int64)
    return _Known(wide @ problem.demand, makespan * step_ns, wide)


def _undominated(known: _Known) -> _Known:
    """Those that no other one dominates, fewest arrays first."""
    chosen, fastest_ns = list[int](), math.inf
    for row in np.lexsort((known.latency_ns, known.arrays)).tolist():
        if known.latency_ns[row] < fastest_ns * (1 - _SAME):
            chosen.append(row)
            fastest_ns = float(known.latency_ns[row])
    return _Known(known.arrays[chosen], known.latency_ns[chosen], known.copies[chosen])


def _bounds_ns(
    problem: Problem, step_time: StepTime, budgets: list[int], latency_ns: list[float], stop: Stop
) -> tuple[list[float], float]:
    """For each budget ns that nothing undercuts, worked out for some and handed on to those below.

    latency_ns: known for each budget, beyond which no bound is looked for.
    """
    shortest, longest = step_time.step_ns(problem.smallest), step_time.step_ns(problem.largest)
    edges = np.geomspace(shortest, longest, _PIECES + 1).tolist() if longest > shortest else [shortest] * 2
    bounders = [Bounder(_capped(problem, step_time, high_ns)) for _, high_ns in pairwise(edges)]
    steps, prices, seconds = [1] * len(bounders), [-1] * len(bounders), 0.0
    bounds_ns, stride = [0.0] * len(budgets), -(-len(budgets) // _BUDGETS)
    for place in range(len(budgets) - 1, -1, -1):
        looked_at = (len(budgets) - 1 - place) % stride == 0 and not stop.out_of_time
        for piece, (bounder, low_ns) in enumerate(zip(bounders, edges, strict=False)):
            enough = math.ceil(latency_ns[place] / low_ns * (1 - _SAME))
            if looked_at and steps[piece] < enough:
                within = bounder.within(budgets[place])
                steps[piece], prices[piece], nodes = within.raised(steps[piece], enough, prices[piece], stop)
                seconds += nodes * bounder.node_seconds
        bounds_ns[place] = min(bound * low_ns for bound, low_ns in zip(steps, edges, strict=False))
    return bounds_ns, seconds
