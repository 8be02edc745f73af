"""How results reach the user: tables, JSON and CSV on stdout; notes on stderr."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import typer

from rramalloc.files import to_json

_WIDE = 10_000
"""Columns assumed where stdout is no terminal: nothing is cut or wrapped in a pipe or file."""


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
    """A table on stdout; columns named in `texts` are left-aligned, the others are numbers."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        side = "left" if column in texts else "right"
        table.add_column(Text(column), justify=side, no_wrap=True, overflow="ellipsis")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(Text(cell(value)) for value in row))
    terminal = sys.stdout.isatty()
    console = Console(file=sys.stdout, width=None if terminal else _WIDE, highlight=False)
    console.print(table)


def print_lines(pairs: Iterable[tuple[str, str]]) -> None:
    """Aligned "label  value" lines on stdout."""
    items = list(pairs)
    width = max(len(label) for label, _ in items)
    for label, value in items:
        typer.echo(f"{label:<{width}}  {value}")


def note(text: str, *, quiet: bool = False) -> None:
    """A line of talk on stderr."""
    if not quiet:
        typer.echo(text, err=True)


def cell(value: Any) -> str:
    """A value as a table shows it."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, tuple | list):
        return "x".join(str(part) for part in value)
    return str(value)
