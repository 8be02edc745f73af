"""Compiled part of the archive: keeping what is fastest for its number of arrays."""

from __future__ import annotations

from typing import Any

from rramalloc.compiled import compiled_inline


@compiled_inline
def would_keep(slots: Any, arrays: int, makespan: int) -> bool:
    """Whether an allocation is the fastest known of its slot, or as fast with fewer arrays."""
    lowest, width, fastest, used, _ = slots
    slot = (arrays - lowest) // width
    if slot >= len(fastest):
        return False
    return bool(makespan < fastest[slot] or (makespan == fastest[slot] and arrays < used[slot]))


@compiled_inline
def keep(slots: Any, arrays: int, makespan: int, copies: Any) -> None:
    """Keep an allocation that fits if it is the fastest known of its slot."""
    if would_keep(slots, arrays, makespan):
        lowest, width, fastest, used, kept = slots
        slot = (arrays - lowest) // width
        fastest[slot], used[slot] = makespan, arrays
        for i in range(len(copies)):
            kept[slot, i] = copies[i]
