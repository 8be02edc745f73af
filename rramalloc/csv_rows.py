"""CSV files as users write them: lines with their place, and cells by the names in a header."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from rramalloc.errors import SpecError
from rramalloc.records import brief


def csv_lines(text: str, where: str) -> Iterator[tuple[str, list[str]]]:
    """Place and stripped cells of every line that is not blank; where: the file, as messages call it.

    Raises SpecError.
    """
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for line in reader:
            cells = [cell.strip() for cell in line]
            if any(cells):
                yield f"{where}: line {reader.line_num}", cells
    except csv.Error as error:
        raise SpecError(f"{where}: line {reader.line_num}", f"is not CSV: {error}") from None


def check_columns(header: Sequence[str], place: str, known: Sequence[str], advice: str = "") -> None:
    """Raise SpecError for an unknown or repeated column; advice: another possible cause."""
    for name in header:
        if name not in known:
            columns = ",".join(known)
            raise SpecError(place, f"column {brief(name)} is not known; the columns are {columns}{advice}")
        if header.count(name) > 1:
            raise SpecError(place, f"column {name!r} appears {header.count(name)} times, once is allowed")


def named_cells(header: Sequence[str], cells: Sequence[str], place: str) -> dict[str, str]:
    """Cells by the names of their columns. Raises SpecError if there are more or fewer of them."""
    if len(cells) != len(header):
        raise SpecError(place, f"has {len(cells)} cells, the header has {len(header)} columns")
    return dict(zip(header, cells, strict=True))
