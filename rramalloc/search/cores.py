"""Number of cores that a search or a sweep may use."""

from __future__ import annotations

import os

from rramalloc.memory import check_memory

_THREAD_BYTES = 128 * 2**20  # of addresses: a stack of 8 MB, and a heap for which 128 MB are asked at first


def cores(allowed: int | None = None) -> int:
    """Return the number of cores available to this process, at most `allowed` (None: all of them).

    One where memory has a limit that leaves no room for another thread: the C library ends the process then.
    """
    try:
        check_memory(_THREAD_BYTES)
    except MemoryError:
        return 1
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return there if allowed is None else min(allowed, there)
