"""Number of cores that a search or a sweep may use."""

from __future__ import annotations

import os


def cores(allowed: int | None = None) -> int:
    """Return the number of cores available to this process, at most `allowed` (None: all of them)."""
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return there if allowed is None else min(allowed, there)
