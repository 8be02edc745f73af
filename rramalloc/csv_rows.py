"""CSV files as users write them: rows with their place, cells by the names in the header."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence

from rramalloc.errors import SpecError

FORMULA = ("=", "+", "-", "@", "'")  # a spreadsheet takes text that begins so for a formula, or for text

_ESCAPE = re.compile(r"\\(?:[\\nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U000[0-9a-f]{5}|U0010[0-9a-f]{4})")
_END = re.compile(r"^ +| +\Z")


def csv_cell(value: object) -> object:
    """Return a value as a cell: controls escaped, an apostrophe before what would be a formula.

    `unescaped` returns the text again: spaces at its ends, which reading strips, and backslashes that would
    be read as escapes are escaped, too.
    """
    if not isinstance(value, str):
        return value
    if not value.isprintable() or value != value.strip(" ") or _ESCAPE.search(value):
        value = value.replace("\\", "\\\\")
        value = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in value)
        value = _END.sub(lambda spaces: "\\x20" * len(spaces[0]), value)
    return f"'{value}" if value.startswith(FORMULA) and not _is_number(value) else value


def unescaped(cell: str) -> str:
    """Return the text that `csv_cell` wrote, from a cell of `csv_rows`."""
    return _ESCAPE.sub(lambda escape: escape[0].encode().decode("unicode_escape"), cell)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


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
            from rramalloc.records import brief  # pydantic would slow every start

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
            cells = [cell[1:] if cell[:1] == "'" and cell[1:].startswith(FORMULA) else cell for cell in cells]
            if any(cells):
                yield f"{where}: line {reader.line_num}", cells
    except csv.Error as error:
        raise SpecError(f"{where}: line {reader.line_num}", f"is not CSV: {error}") from None
