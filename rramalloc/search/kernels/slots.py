"""Compiled part of an archive: the fastest allocation that a search meets for every number of arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.compiled import compiled_part
from rramalloc.ndarrays import Ints

NEVER = 2**62


class Slots(NamedTuple):
    """An archive as compiled searches fill it: an allocation's slot is (arrays - lowest) // width.

    makespan: int64, NEVER where nothing is known; arrays: int64; copies: int32, one row a slot.
    """

    lowest: int
    width: int
    makespan: Ints
    arrays: Ints
    copies: npt.NDArray[np.int32]


NO_SLOTS = Slots(0, 1, np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, 0), np.int32))
"""For searches that keep only their best."""


@compiled_part
def would_update(slots: Any, arrays: int, makespan: int) -> bool:
    """Return True if an allocation is faster than that of its slot, or as fast with fewer arrays."""
    slot = (arrays - slots.lowest) // slots.width
    if slot >= len(slots.makespan):
        return False
    known = slots.makespan[slot]
    return bool(makespan < known or (makespan == known and arrays < slots.arrays[slot]))


@compiled_part
def update(slots: Any, arrays: int, makespan: int, copies: Any) -> None:
    """Keep an allocation that fits if it is the fastest of its slot."""
    if would_update(slots, arrays, makespan):
        slot = (arrays - slots.lowest) // slots.width
        slots.makespan[slot] = makespan
        slots.arrays[slot] = arrays
        for i in range(len(copies)):
            slots.copies[slot, i] = copies[i]
