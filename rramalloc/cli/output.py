"""Write results for the user: tables, JSON and CSV on stdout; notes on stderr."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from rramalloc.cli.parameters import Format
from rramalloc.cli.terminal import shortened, width_of, wrapped
from rramalloc.columns import Column, columns_of, with_values
from rramalloc.csv_rows import csv_cell
from rramalloc.files import to_json
from rramalloc.units import area, edp, energy, in_table, printable, rounded

if TYPE_CHECKING:
    from rramalloc.allocation.allocation import Allocation
    from rramalloc.allocation.inspection import Inspection
    from rramalloc.allocation.simulation import Simulation
    from rramalloc.hardware.hardware import Hardware
    from rramalloc.mapping.options import MappingOptions
    from rramalloc.network.coverage import Coverage

_GAP = "   "
_NARROW_GAP = "  "  # where the table is wider than the terminal
_READABLE = 16  # a text column is not cut below this as long as other columns can go
_LEAST_WIDTH = 8  # a text column is never cut below this


class TableLayout(NamedTuple):
    """Columns, alignment and headings with which a result's rows are printed.

    columns: CSV has their fields as header, optional ones are left out where no row has a value; the others:
    as of `print_table`.
    """

    columns: Sequence[Column]
    texts: Sequence[str] = ()
    spare: Sequence[str] = ()
    whole: str = "--format csv"


def table_of(columns: str, *, texts: str = "", spare: str = "", whole: str = "--format csv") -> TableLayout:
    """Return the layout of columns written as `columns_of` reads them; texts, spare: fields with blanks
    between them."""
    read = columns_of(columns)
    heading = {column.field: column.heading for column in read}
    left, first = ([heading[field] for field in fields.split()] for fields in (texts, spare))
    return TableLayout(read, left, first, whole)


def print_result(
    document: Callable[[], object],
    table: TableLayout,
    items: Sequence[object],
    output_format: Format,
    below: Iterable[tuple[str, str]] | None = None,
    *,
    quiet: bool = False,
) -> bool:
    """Print what `document` makes as JSON, or `items` as CSV or table; True after a table.

    below: lines that stand below the table, if they are all.
    """
    if output_format == "json":
        print_json(document())
        return False
    columns = with_values(table.columns, items)
    fields = [column.field for column in columns]
    rows = [[getattr(item, field) for field in fields] for item in items]
    if output_format == "csv":
        print_csv(fields, [[cell(v) if isinstance(v, tuple) else v for v in row] for row in rows])
        return False
    cells = [
        [
            in_table(field, v) if isinstance(v, int | float) and not isinstance(v, bool) else v
            for field, v in zip(fields, row, strict=True)
        ]
        for row in rows
    ]
    headings = [column.heading for column in columns]
    print_table(headings, cells, table.texts, spare=table.spare, whole=table.whole, quiet=quiet)
    if below is not None:
        typer.echo()
        print_lines(below)
    return True


def print_part(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], texts: Sequence[str], spare: Sequence[str], *,
    quiet: bool,
) -> None:  # fmt: skip
    """Print another table of a result and an empty line, nothing without rows; only JSON has all of it."""
    if rows:
        print_table(columns, rows, texts, spare=spare, whole="--format json", quiet=quiet)
        typer.echo()


def print_json(document: object) -> None:
    """Print one JSON document on stdout."""
    sys.stdout.write(to_json(document))


def print_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a CSV with header on stdout."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([*map(csv_cell, row)] for row in rows)
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
    """Print a table on stdout; columns named in `texts` are left-aligned, the others are numbers.

    A pipe or file gets everything. In a terminal that is too narrow texts are shortened and columns left
    out, those in `spare` first, in that order; unless `quiet`, a note says which, and that `whole` has all.
    """
    from rich.cells import cell_len

    table = [list(columns), *([printable(cell(value)) for value in row] for row in rows)]
    full = [max(map(cell_len, column)) for column in zip(*table, strict=True)]
    widths = list(full)
    left = [column in texts for column in columns]
    room = width_of(sys.stdout)
    kept, gap = list(range(len(widths))), _GAP
    if room is not None and _sum(widths, kept, gap) > room:
        gap = _NARROW_GAP
        kept = _kept(columns, widths, left, spare, room)
        _narrow(widths, left, kept, room)

    def aligned(text: str, place: int) -> str:
        if widths[place] < full[place]:
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
    """Print aligned "label value" lines on stdout."""
    items = list(pairs)
    width = max(len(label) for label, _ in items)
    for label, value in items:
        print_text(printable(value), f"{label:<{width}}  ")


def print_text(text: str, label: str = "") -> None:
    """Print a line on stdout; in a terminal that is too narrow it goes on below, behind the label."""
    typer.echo(label + wrapped(text, width_of(sys.stdout), len(label)))


def note(text: str, *, quiet: bool = False) -> None:
    """Print a line of talk on stderr."""
    if not quiet:
        typer.echo(wrapped(printable(text), width_of(sys.stderr)), err=True)


def warn(warnings: Iterable[str], *, quiet: bool = False) -> None:
    """Print what a result says was assumed or ignored, a line each on stderr."""
    for warning in warnings:
        note(f"warning: {warning}", quiet=quiet)


def mapping_words(chosen: MappingOptions | Inspection) -> str:
    """Return the words for a result's mapping: "kernel_split, folded"."""
    return f"{chosen.mapping}, folded" if chosen.fold else chosen.mapping


def hardware_words(hardware: Hardware, mapping: str) -> str:
    """Return the words for a result's hardware; mapping: in words."""
    return f"{hardware.name}{hardware.set_words}, arrays of {hardware.sizes}, mapping {mapping}"


def energy_lines(result: Allocation | Simulation) -> Iterator[tuple[str, str]]:
    """Yield the energy and area of an allocation, for hardware that says more than steps."""
    if result.hardware.energy is None:
        if result.hardware.timing is not None:
            yield "energy", "not given by the hardware"
        return
    from rramalloc.timing.metrics import energy_parts  # imports numba, which most commands begin without

    total = "not given" if result.energy_pj is None else energy(result.energy_pj)
    yield "energy", f"{total} an input ({energy_parts(result)})"
    yield "EDP", "not given" if result.edp is None else edp(result.edp)
    whole = "" if result.chip_area_um2 is None else f" in use, {area(result.chip_area_um2)} of the whole chip"
    yield "area", "not given" if result.area_um2 is None else area(result.area_um2) + whole


def coverage_line(coverage: Coverage | None) -> list[tuple[str, str]]:
    """Return the coverage of the network by a result, as the last line of its summary."""
    return [] if coverage is None else [("coverage", coverage.summary)]


def cell(value: Any) -> str:
    """Return a value as a table shows it."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return rounded(value)
    if isinstance(value, tuple | list):
        return "x".join(str(part) for part in value)
    return str(value)


def _sum(widths: Sequence[int], kept: Sequence[int], gap: str) -> int:
    """Return the columns of the terminal that a line of the table takes."""
    return sum(widths[place] for place in kept) + len(gap) * (len(kept) - 1)


def _kept(
    columns: Sequence[str], widths: Sequence[int], left: Sequence[bool], spare: Sequence[str], room: int
) -> list[int]:
    """Return the places of the columns that stay: spare ones go while texts are readable, more if that is not
    enough."""
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
