"""How results reach the user: tables, JSON and CSV on stdout; notes on stderr."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import typer

from rramalloc.cli.parameters import Format
from rramalloc.cli.terminal import columns_of, shortened, wrapped
from rramalloc.files import to_json
from rramalloc.units import duration, printable

_GAP, _NARROW_GAP = "   ", "  "
_READABLE, _LEAST_WIDTH = 16, 8
"""A text column is not cut below the first as long as others can go, and never below the second."""


def print_result(
    document: Callable[[], object],
    columns: Mapping[str, str],
    items: Sequence[object],
    output_format: Format,
    texts: Sequence[str],
    *,
    spare: Sequence[str] = (),
    whole: str = "--format csv",
    quiet: bool = False,
) -> bool:
    """Print what `document` makes as JSON, or `items` as CSV or table; True after a table.

    columns: the field of an item for each heading of the table; CSV has the fields as header; those that
    are optional in results are left out where no item has a value; texts, spare, whole, quiet: as
    `print_table`.
    """
    if output_format == "json":
        print_json(document())
        return False
    columns = _with_values(columns, items)
    fields = list(columns.values())
    rows = [[getattr(item, field) for field in fields] for item in items]
    if output_format == "csv":
        print_csv(fields, [[cell(v) if isinstance(v, tuple) else v for v in row] for row in rows])
        return False
    table = [
        [time_cell(v) if field.endswith("_ns") else v for field, v in zip(fields, row, strict=True)]
        for row in rows
    ]
    print_table(list(columns), table, texts, spare=spare, whole=whole, quiet=quiet)
    return True


def _with_values(columns: Mapping[str, str], items: Iterable[object]) -> Mapping[str, str]:
    from rramalloc.result import ResultRecord

    optional = ResultRecord.optional & {*columns.values()}
    given = {field for field in optional for item in items if getattr(item, field) is not None}
    return {name: field for name, field in columns.items() if field not in optional - given}


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


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    texts: Sequence[str] = (),
    *,
    spare: Sequence[str] = (),
    whole: str = "--format csv",
    quiet: bool = False,
) -> None:
    """A table on stdout; columns named in `texts` are left-aligned, the others are numbers.

    A pipe or file gets everything. In a terminal that is too narrow texts are shortened and columns left
    out, those in `spare` first, in that order; unless `quiet`, a note says which, and that `whole` has all.
    """
    from rich.cells import cell_len

    table = [list(columns), *([printable(cell(value)) for value in row] for row in rows)]
    full = [max(map(cell_len, column)) for column in zip(*table, strict=True)]
    widths = list(full)
    left = [column in texts for column in columns]
    room = columns_of(sys.stdout)
    kept, gap = list(range(len(widths))), _GAP
    if room is not None and _sum(widths, kept, gap) > room:
        gap = _NARROW_GAP
        kept = _kept(columns, widths, left, spare, room)
        _narrow(widths, left, kept, room)

    def aligned(text: str, place: int) -> str:
        text = shortened(text, widths[place])
        spaces = " " * (widths[place] - cell_len(text))
        return text + spaces if left[place] else spaces + text

    lines = [gap.join(aligned(row[place], place) for place in kept).rstrip() for row in table]
    rule = "─" * _sum(widths, kept, gap)
    sys.stdout.write("\n".join([lines[0], rule, *lines[1:]]) + "\n")
    sys.stdout.flush()
    absent = [column for place, column in enumerate(columns) if place not in kept]
    cut = [columns[place] for place in kept if widths[place] < full[place]]
    hidden = [
        f"{what}: {', '.join(names)}; " for what, names in (("left out", absent), ("cut", cut)) if names
    ]
    if hidden:
        note(f"{''.join(hidden)}a wider terminal or {whole} shows all", quiet=quiet)


def print_lines(pairs: Iterable[tuple[str, str]]) -> None:
    """Aligned "label  value" lines on stdout."""
    items = list(pairs)
    width = max(len(label) for label, _ in items)
    for label, value in items:
        print_text(printable(value), f"{label:<{width}}  ")


def print_text(text: str, label: str = "") -> None:
    """A line on stdout; in a terminal that is too narrow it goes on below, behind the label."""
    typer.echo(label + wrapped(text, columns_of(sys.stdout), len(label)))


def note(text: str, *, quiet: bool = False) -> None:
    """A line of talk on stderr."""
    if not quiet:
        typer.echo(wrapped(printable(text), columns_of(sys.stderr)), err=True)


def warn(warnings: Iterable[str], *, quiet: bool = False) -> None:
    """What a result says was assumed or ignored, a line each on stderr."""
    for warning in warnings:
        note(f"warning: {warning}", quiet=quiet)


def cell(value: Any) -> str:
    """A value as a table shows it."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, tuple | list):
        return "x".join(str(part) for part in value)
    return str(value)


def time_cell(value_ns: float | None) -> str:
    """A time as a table shows it."""
    return "-" if value_ns is None else duration(value_ns)


def _sum(widths: Sequence[int], kept: Sequence[int], gap: str) -> int:
    """Columns of the terminal that a line of the table takes."""
    return sum(widths[place] for place in kept) + len(gap) * (len(kept) - 1)


def _kept(
    columns: Sequence[str], widths: Sequence[int], left: Sequence[bool], spare: Sequence[str], room: int
) -> list[int]:
    """Places of the columns that stay: spare ones go while texts are readable, more if that is not enough."""
    kept = list(range(len(columns)))
    first = [columns.index(column) for column in spare if column in columns]
    last = [place for place in reversed(kept[1:]) if place not in first]
    for going, least in ((first, _READABLE), (last, _LEAST_WIDTH)):
        smallest = [min(width, least) if text else width for width, text in zip(widths, left, strict=True)]
        for place in going:
            if _sum(smallest, kept, _NARROW_GAP) <= room:
                break
            kept.remove(place)
    return kept


def _narrow(widths: list[int], left: Sequence[bool], kept: Sequence[int], room: int) -> None:
    """Shorten the widest text columns until the table fits."""
    excess = _sum(widths, kept, _NARROW_GAP) - room
    while excess > 0:
        widest = max(((widths[place], place) for place in kept if left[place]), default=(0, 0))
        if widest[0] <= _LEAST_WIDTH:
            return
        cut = min(excess, max(1, (widest[0] - _LEAST_WIDTH) // 2))
        widths[widest[1]] -= cut
        excess -= cut
