"""Compiled ticks of a batch: of a stage whose block is fixed, or of a block of a menu."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rramalloc.compiled import compiled_part
from rramalloc.timing.stage_graph import EXACTLY


class Clock(NamedTuple):
    """Ticks of a batch by number of a stage, or of a block of a menu, see BatchTicks: int64 and float64."""

    least: Any
    per_copy: Any

    def of_each(self, numbers: Any, copies: Any) -> Any:
        """As `ticks_of`, of arrays of numbers and copies that broadcast; int64."""
        access = np.ceil(self.per_copy[numbers] * copies * EXACTLY).astype(np.int64)
        return np.maximum(self.least[numbers], access)


@compiled_part
def ticks_of(clock: Any, number: int, copies: int) -> int:
    """Ticks of a batch of so many copies; more copies never take fewer."""
    return max(clock.least[number], np.int64(math.ceil(clock.per_copy[number] * copies * EXACTLY)))
