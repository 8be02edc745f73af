"""Times that no allocation of a segment undercuts, for all segments at once and without a search.

An allocation with an interval of I needs modes of every stage that take no longer: the fewest wordlines of
such modes bound the time of writing, their fewest arrays must fit, and every input takes an interval at
least. The least over all I bounds the segment (docs/sources/model.md 13).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rramalloc.commands.reload.staircase import Staircase
from rramalloc.commands.reload.writing import Writing
from rramalloc.search.problem import Problem

Times = list[npt.NDArray[np.float64]]
"""A time for every pair of a first stage and of stages from it on that fit the arrays with one copy each."""

_MOST_LOOKS = 2**24
"""Pairs of a segment and an interval that are looked at: beyond them intervals are looked at in ranges."""
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class SegmentFloors:
    """Bounds of the segments of one network.

    problem: of all stages, as if all fitted; arrays: that there are; step_ns: shortest step, or tick, of any
    stage; inputs: that run through a segment.
    """

    problem: Problem
    writing: Writing
    arrays: int
    step_ns: float
    inputs: int

    def times(self) -> Times:
        """In ns; infinite where no interval fits, which may also be found out later."""
        demand = np.concatenate(([0], np.cumsum(self.problem.demand)))
        most = (np.searchsorted(demand, demand[:-1] + self.arrays, side="right") - 1).tolist()
        stages = [Staircase.of(self.problem, self.writing, stage, self.arrays) for stage in range(len(most))]
        ranges = self._ranges(stages, sum(last - first for first, last in enumerate(most)))
        times = [np.full(last - first, math.inf) for first, last in enumerate(most)]
        row_ns = self.writing.write.write_ns_per_row / self.writing.write.lanes
        for shortest, longest in ranges:
            least = np.array([stage.least(longest) for stage in stages])
            slow, arrays, rows = np.concatenate((np.zeros((1, 3), np.int64), np.cumsum(least, axis=0))).T
            run_ns = self.inputs * shortest * self.step_ns
            for first, known in enumerate(times):
                ends = slice(first + 1, first + 1 + len(known))
                fits = (slow[ends] == slow[first]) & (arrays[ends] - arrays[first] <= self.arrays)
                bound = np.where(fits, (rows[ends] - rows[first]) * row_ns + run_ns, math.inf)
                np.minimum(known, bound * (1 - _ROUNDING), out=known)
        return times

    def _ranges(self, stages: Sequence[Staircase], segments: int) -> list[tuple[int, int]]:
        """Shortest and longest interval of each range that is looked at; all intervals where they are few."""
        lengths = np.unique(np.concatenate([stage.modes.length for stage in stages]))
        few = max(2, _MOST_LOOKS // max(1, segments))
        if len(lengths) > few:
            ratio = np.geomspace(1, len(lengths), few).astype(np.int64)
            longest = lengths[np.unique(ratio) - 1]
        else:
            longest = lengths
        after = np.searchsorted(lengths, longest, side="right")
        shortest = lengths[np.concatenate(([0], after[:-1]))]
        return list(zip(shortest.tolist(), longest.tolist(), strict=True))
