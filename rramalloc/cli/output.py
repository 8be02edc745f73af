"""How results reach the user: tables, JSON and CSV on stdout; notes on stderr."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import typer

from rramalloc.cli.options import Format
from rramalloc.files import to_json

_GAP = "   "
_LEAST_WIDTH = 8
"""A text column is never cut below this, however narrow the terminal."""


def print_result(
    document: Callable[[], object],
    columns: Mapping[str, str],
    items: Iterable[object],
    output_format: Format,
    texts: Sequence[str],
) -> bool:
    """Print what `document` makes as JSON, or `items` as CSV or table; True after a table.

    columns: the field of an item for each heading of the table; CSV has the fields as header.
    """
    if output_format is Format.json:
        print_json(document())
        return False
    fields = list(columns.values())
    rows = [[getattr(item, field) for field in fields] for item in items]
    if output_format is Format.csv:
        print_csv(fields, [[cell(v) if isinstance(v, tuple) else v for v in row] for row in rows])
        return False
    print_table(list(columns), rows, texts)
    return True


def print_json(document: object) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(to_json(document))


def print_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A CSV with header on stdout."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    sys.stdout.write(text.getvalue())


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], texts: Sequence[str] = ()) -> None:
    """A table on stdout; columns named in `texts` are left-aligned, the others are numbers.

    In a terminal that is too narrow the text columns are cut; a pipe or file gets everything.
    """
    from rich.cells import cell_len, set_cell_size

    table = [list(columns), *([printable(cell(value)) for value in row] for row in rows)]
    widths = [max(map(cell_len, column)) for column in zip(*table, strict=True)]
    left = [column in texts for column in columns]
    if sys.stdout.isatty():
        _narrow(widths, left)

    def aligned(text: str, width: int, *, to_left: bool) -> str:
        if cell_len(text) > width:
            text = set_cell_size(text, width - 1) + "…"
        spaces = " " * (width - cell_len(text))
        return text + spaces if to_left else spaces + text

    lines = [
        _GAP.join(
            aligned(text, width, to_left=side) for text, width, side in zip(row, widths, left, strict=True)
        ).rstrip()
        for row in table
    ]
    rule = "─" * (sum(widths) + len(_GAP) * (len(widths) - 1))
    sys.stdout.write("\n".join([lines[0], rule, *lines[1:]]) + "\n")


def print_lines(pairs: Iterable[tuple[str, str]]) -> None:
    """Aligned "label  value" lines on stdout."""
    items = list(pairs)
    width = max(len(label) for label, _ in items)
    for label, value in items:
        typer.echo(f"{label:<{width}}  {printable(value)}")


def note(text: str, *, quiet: bool = False) -> None:
    """A line of talk on stderr."""
    if not quiet:
        typer.echo(printable(text), err=True)


def cell(value: Any) -> str:
    """A value as a table shows it."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, tuple | list):
        return "x".join(str(part) for part in value)
    return str(value)


def printable(text: str) -> str:
    """Text without control characters: a name from a file cannot move the cursor or break a line."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def _narrow(widths: list[int], left: Sequence[bool]) -> None:
    """Cut the widest text columns until the table fits the terminal."""
    import shutil

    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - shutil.get_terminal_size().columns
    while excess > 0:
        widest = max((width, place) for place, width in enumerate(widths) if left[place])
        if widest[0] <= _LEAST_WIDTH:
            return
        cut = min(excess, max(1, (widest[0] - _LEAST_WIDTH) // 2))
        widths[widest[1]] -= cut
        excess -= cut
