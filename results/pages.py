"""How the pages of results/ are written: tables and numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def markdown(rows: Iterable[list[str]]) -> list[str]:
    """A table; the first row is its head."""
    head, *body = ["| " + " | ".join(row) + " |" for row in rows]
    return [head, "|" + "---|" * (head.count("|") - 1), *body, ""]


def by_budget(cells: Mapping[tuple[str, int, float], str]) -> list[str]:
    """A table with a row for each network and size of the arrays, a column for each budget.

    cells: text by network, lines of an array, and budget over the minimum.
    """
    factors = list(dict.fromkeys(factor for _, _, factor in cells))
    rows = [["network", "lines", *(f"x{factor:g}" for factor in factors)]]
    for network, lines in dict.fromkeys((network, lines) for network, lines, _ in cells):
        found = [cells.get((network, lines, factor), "-") for factor in factors]
        rows.append([network, str(lines), *found])
    return markdown(rows)


def seconds_text(seconds: float) -> str:
    """Seconds with three figures below 10, one decimal from there on."""
    return f"{seconds:.1f}" if seconds >= 10 else f"{seconds:.2f}" if seconds >= 0.1 else f"{seconds:.2g}"
