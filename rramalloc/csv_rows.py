"""CSV files as users write them: rows with their place, cells by the names in the header."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from rramalloc.errors import SpecError
from rramalloc.records import brief


def csv_rows(
    text: str, where: str, columns: Sequence[str], needed: Sequence[str] | None = None, advice: str = ""
) -> Iterator[tuple[str, dict[str, str]]]:
    """Place and stripped cells, by column, of every row that is not blank.

    where: the file, as messages call it; needed: columns that must be there, None for all; advice: another
    possible cause of an unknown column. Raises SpecError.
    """
    lines = _lines(text, where)
    place, header = next(lines, (where, []))
    if not header:
        raise SpecError(where, f"is empty; the first line is the header {','.join(columns)}")
    for name in header:
        if name not in columns:
            known = ",".join(columns)
            raise SpecError(place, f"column {brief(name)} is not known; the columns are {known}{advice}")
        if header.count(name) > 1:
            raise SpecError(place, f"column {name!r} appears {header.count(name)} times, once is allowed")
    for name in columns if needed is None else needed:
        if name not in header:
            raise SpecError(place, f"column {name!r} is missing; the columns are {','.join(columns)}")
    for place, cells in lines:
        if len(cells) != len(header):
            raise SpecError(place, f"has {len(cells)} cells, the header has {len(header)} columns")
        yield place, dict(zip(header, cells, strict=True))


def _lines(text: str, where: str) -> Iterator[tuple[str, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for line in reader:
            cells = [cell.strip() for cell in line]
            if any(cells):
                yield f"{where}: line {reader.line_num}", cells
    except csv.Error as error:
        raise SpecError(f"{where}: line {reader.line_num}", f"is not CSV: {error}") from None
