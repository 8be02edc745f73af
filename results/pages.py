"""How the pages of results/ are written: tables and numbers."""

from __future__ import annotations

from collections.abc import Iterable


def markdown(rows: Iterable[list[str]]) -> list[str]:
    """A table; the first row is its head."""
    head, *body = ["| " + " | ".join(row) + " |" for row in rows]
    return [head, "|" + "---|" * (head.count("|") - 1), *body, ""]


def seconds_text(seconds: float) -> str:
    """Seconds with three figures below 10, one decimal from there on."""
    return f"{seconds:.1f}" if seconds >= 10 else f"{seconds:.2f}" if seconds >= 0.1 else f"{seconds:.2g}"
