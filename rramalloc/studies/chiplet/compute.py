"""Compute cost of an operator's work on one processing unit."""

from __future__ import annotations

from typing import NamedTuple


class Work(NamedTuple):
    """A product of an m x k by a k x n matrix, per unit."""

    m: int
    k: int
    n: int


def systolic_cycles(work: Work, side: int) -> float:
    """Cycles on a systolic array of `side` x `side` cells.

    m * k * n / side^2 + 2 * (side - 1), the ratio not rounded, if m or n exceeds the side; else, and where
    one equals it, m + k + n - 1.  Source: SYSTEMS.md 2.
    """
    if work.m > side or work.n > side:
        return work.m * work.k * work.n / (side * side) + 2 * (side - 1)
    return float(work.m + work.k + work.n - 1)
