"""Compiled ticks of a batch: of a stage whose block is fixed, or of a block of a menu."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rramalloc.compiled import compiled_part
from rramalloc.rounding import EXACTLY
from rramalloc.timing.stage_graph import BatchTicks


class Clock(NamedTuple):
    """Ticks of a batch by number of a stage, or of a block of a menu, see BatchTicks: int64 and float64.

    The arrays take compute[first[i]] ... with 1 ... full[i] copies.
    """

    first: Any
    full: Any
    per_copy: Any
    compute: Any

    @classmethod
    def of(cls, each: Sequence[BatchTicks]) -> Clock:
        """Return the clock of every stage, or block."""
        full = np.array([len(own.compute) for own in each], dtype=np.int64)
        compute = np.array([ticks for own in each for ticks in own.compute], dtype=np.int64)
        per_copy = np.array([own.per_copy for own in each], dtype=np.float64)
        return cls(np.cumsum(full) - full, full, per_copy, compute)

    @classmethod
    def joined(cls, clocks: Sequence[Clock]) -> Clock:
        """Return one clock for the rows of all clocks, in their order."""
        starts = np.cumsum([0, *(len(clock.compute) for clock in clocks)])
        first = [clock.first + start for clock, start in zip(clocks, starts, strict=False)]
        parts = ([clock[at] for clock in clocks] for at in (1, 2, 3))
        return cls(*(np.concatenate(part) for part in (first, *parts)))

    def take(self, numbers: Any) -> Clock:
        """Return the clocks of some stages or blocks by their numbers."""
        return Clock(self.first[numbers], self.full[numbers], self.per_copy[numbers], self.compute)

    def of_each(self, numbers: Any, copies: Any) -> Any:
        """Return `ticks_of` for arrays of numbers and copies that broadcast; int64."""
        access = np.ceil(self.per_copy[numbers] * copies * EXACTLY).astype(np.int64)
        return np.maximum(
            self.compute[self.first[numbers] + np.minimum(copies, self.full[numbers]) - 1], access
        )


@compiled_part
def ticks_of(clock: Any, number: int, copies: int) -> int:
    """Return the ticks of a batch of `copies`; more copies never take fewer."""
    # Beyond `full` copies the arrays are as full as they get, so the compute ticks stay the same.
    compute = clock.compute[clock.first[number] + min(copies, clock.full[number]) - 1]
    return max(compute, np.int64(math.ceil(clock.per_copy[number] * copies * EXACTLY)))
