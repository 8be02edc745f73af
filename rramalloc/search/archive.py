"""The fastest allocation for every number of arrays, and bounds, of all budgets at once."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from rramalloc.ndarrays import Ints
from rramalloc.search.kernels.slots import NEVER, Slots
from rramalloc.search.problem import Problem
from rramalloc.timing.simulate import Copies

_MOST_ENTRIES = 2**24
"""Slots times stages that are kept; where there are more numbers of arrays, several share a slot."""


class FrontStep(NamedTuple):
    """One step of the staircase: the fastest allocation known for budgets from `arrays` to `until`."""

    slot: int
    arrays: int
    makespan: int
    until: int


@dataclass(eq=False)
class Archive:
    """Fastest allocation known for every number of arrays of one problem, up to its budget.

    bounds: int64, one a slot: no allocation with at most `top(slot)` arrays takes fewer steps.
    """

    problem: Problem
    slots: Slots = field(init=False)
    bounds: Ints = field(init=False)

    def __post_init__(self) -> None:
        problem, stages = self.problem, len(self.problem.demand)
        lowest = problem.arrays(problem.smallest)
        reach = min(problem.budget, problem.arrays(problem.largest))
        width = -(-(reach - lowest + 1) // max(1, _MOST_ENTRIES // stages))
        count = (reach - lowest) // width + 1
        self.slots = Slots(
            lowest,
            width,
            np.full(count, NEVER, dtype=np.int64),
            np.zeros(count, dtype=np.int64),
            np.zeros((count, stages), dtype=np.int32),
        )
        self.bounds = np.ones(count, dtype=np.int64)

    @property
    def steps(self) -> list[FrontStep]:
        """The staircase of allocations that no other known one dominates, fewest arrays first."""
        # An allocation with fewer arrays fits every larger budget, so the best so far counts.
        best = np.minimum.accumulate(self.slots.makespan)
        falls = np.flatnonzero(np.diff(best, prepend=NEVER))
        untils = [self.top(slot - 1) for slot in falls[1:].tolist()] + [self.problem.budget]
        return [
            FrontStep(slot, int(self.slots.arrays[slot]), int(best[slot]), until)
            for slot, until in zip(falls.tolist(), untils, strict=True)
        ]

    def top(self, slot: int) -> int:
        """Return the largest budget of a slot."""
        if slot + 1 == len(self.bounds):
            return self.problem.budget
        return self.slots.lowest + (slot + 1) * self.slots.width - 1

    def slot_of(self, arrays: int) -> int:
        """Return the slot of a budget, or of the arrays that an allocation uses."""
        return min((arrays - self.slots.lowest) // self.slots.width, len(self.bounds) - 1)

    def at(self, budget: int) -> FrontStep:
        """Return the fastest allocation known for a budget, as a step that ends there."""
        slot = int(self.slots.makespan[: self.slot_of(budget) + 1].argmin())
        return FrontStep(slot, int(self.slots.arrays[slot]), int(self.slots.makespan[slot]), budget)

    def faster(self, step: FrontStep) -> FrontStep | None:
        """Return the next step, with more arrays; None after the last one."""
        after = self.slot_of(step.until) + 1
        faster = np.flatnonzero(self.slots.makespan[after:] < step.makespan)
        return self.at(self.top(after + int(faster[0]))) if len(faster) else None

    def copies(self, step: FrontStep) -> Copies:
        """Return the allocation of a step."""
        copies: Copies = self.slots.copies[step.slot].astype(np.int64)
        return copies

    def propose(self, copies: Copies, makespan: int) -> None:
        """Keep an allocation that fits if it is the fastest of its slot."""
        arrays = self.problem.arrays(copies)
        slot, slots = self.slot_of(arrays), self.slots
        if (makespan, arrays) < (int(slots.makespan[slot]), int(slots.arrays[slot])):
            slots.makespan[slot], slots.arrays[slot] = makespan, arrays
            slots.copies[slot] = copies

    def bound(self, step: FrontStep) -> int:
        """Return the steps that no allocation undercuts with at most the arrays at which a step ends."""
        return int(self.bounds[self.slot_of(step.until)])

    def gap(self, step: FrontStep) -> float:
        """Return the gap of a step: makespan minus lower bound, relative to the makespan."""
        return (step.makespan - self.bound(step)) / step.makespan

    def raise_bound(self, arrays: int, bound: int) -> None:
        """Raise the bound of every budget up to `arrays`: fewer arrays never take fewer steps."""
        slot = self.slot_of(arrays)
        # A slot holds several budgets: its bound rises only where it holds for the largest of them.
        whole = slot + 1 if arrays >= self.top(slot) else slot
        np.maximum(self.bounds[:whole], bound, out=self.bounds[:whole])

    def copy(self) -> Archive:
        """Return a copy of the archive that later changes do not reach."""
        other = copy.copy(self)
        lowest, width, makespan, arrays, copies = self.slots
        other.slots = Slots(lowest, width, makespan.copy(), arrays.copy(), copies.copy())
        other.bounds = self.bounds.copy()
        return other

    def merge(self, other: Archive) -> None:
        """Take over what another archive of the same problem knows better."""
        mine, yours = self.slots, other.slots
        fewer = (yours.makespan == mine.makespan) & (yours.arrays < mine.arrays)
        better = (yours.makespan < mine.makespan) | fewer
        mine.makespan[better] = yours.makespan[better]
        mine.arrays[better] = yours.arrays[better]
        mine.copies[better] = yours.copies[better]
        np.maximum(self.bounds, other.bounds, out=self.bounds)
