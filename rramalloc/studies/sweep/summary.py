"""Rows of a sweep in brief: a line per network and method."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Summary(NamedTuple):
    """The rows of one network and method. makespan: the smallest, None if all failed."""

    network: str
    method: str
    points: int
    failed: int
    makespan: int | None


def summarised(rows: Iterable[tuple[str, str, int | None]]) -> list[Summary]:
    """Of (network, method, makespan or None if it failed) of all rows, in the order of their first rows."""
    lines: dict[tuple[str, str], Summary] = {}
    for network, method, makespan in rows:
        old = lines.get((network, method), Summary(network, method, 0, 0, None))
        known = [value for value in (old.makespan, makespan) if value is not None]
        lines[network, method] = old._replace(
            points=old.points + 1,
            failed=old.failed + (makespan is None),
            makespan=min(known, default=None),
        )
    return list(lines.values())
