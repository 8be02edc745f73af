"""Making a folder a sweep's own: an empty one, the one it was stopped in, or that of a smaller sweep.

The rows of a smaller sweep are drafted as a journal of the new one. The moment `_sweep.json` is replaced the
folder is the new sweep's; the draft takes the place of the old rows then, or when the folder is next opened.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from typing import Any

from rramalloc.errors import FileError, SpecError
from rramalloc.files import JSON_LIMIT_BYTES, parse_json, read_text, write_text
from rramalloc.folders import folder_names, remove_file, rename_file
from rramalloc.studies.sweep import parts
from rramalloc.studies.sweep.journal import belongs, line_of, read_rows, write_journal

SWEEP, JOURNAL, PROGRESS, LOCK = "_sweep.json", "_journal.jsonl", "_progress.json", "_lock"
_DRAFT = "_extended.jsonl"

Place = Callable[[str], int | None]
"""Number that a point has in a sweep, by the key of its row; None if the sweep does not have it."""


def owner(text: str) -> str:
    """What a journal calls the sweep whose document is `text`."""
    return hashlib.sha256(text.encode()).hexdigest()


def read_document(folder: str) -> str | None:
    """The document of the sweep that a folder holds; None if it holds none. Raises FileError."""
    path = os.path.join(folder, SWEEP)
    return read_text(path, JSON_LIMIT_BYTES) if os.path.exists(path) else None


def check_free(folder: str) -> None:
    """Raise SpecError unless a folder holds a sweep, or nothing but what a killed start has left."""
    if os.path.isdir(folder) and not os.path.exists(os.path.join(folder, SWEEP)):
        names = [name for name in folder_names(folder) if name != LOCK and not name.startswith(f".{SWEEP}")]
        if names:
            words = f"holds {names[0][:60]!r} but no sweep: name an empty folder or a new one"
            raise SpecError(folder, words)


def adopt(folder: str, text: str, places: Callable[[], Place]) -> None:
    """Make a folder the sweep's whose document is `text`, with all rows that it holds.

    places: how the rows of another sweep are found in this one, asked only if there are any.
    Raises FileError; SpecError if there are rows that this sweep does not have.
    """
    for name in folder_names(folder):
        if name.endswith((".tmp", ".draft")):
            remove_file(os.path.join(folder, name))
    before = read_document(folder)
    if before is not None:
        _settle(folder, before)
    if before == text:
        return
    if before is not None:
        lines = _moved(folder, before, places())
        write_journal(os.path.join(folder, _DRAFT), owner(text), lines)
    write_text(os.path.join(folder, SWEEP), text)
    _settle(folder, text)


def _settle(folder: str, text: str) -> None:
    """End an extension that was begun: its draft replaces the rows if the folder is the new sweep's."""
    draft = os.path.join(folder, _DRAFT)
    if not os.path.exists(draft):
        return
    if not belongs(draft, owner(text)):
        remove_file(draft)
        return
    for path in parts.find_parts(folder).values():
        remove_file(path)
    rename_file(draft, os.path.join(folder, JOURNAL))


def _moved(folder: str, before: str, place: Place) -> Iterator[bytes]:
    """The rows of the sweep before as lines of this one."""
    for row in _rows_before(folder, before):
        number = place(row["key"])
        if number is None:
            raise SpecError(
                folder,
                "holds rows of another sweep that this one does not have (its lists, networks, hardware or "
                "version of rramalloc differ): name another folder",
            )
        yield line_of(number, row)


def _rows_before(folder: str, before: str) -> Iterator[dict[str, Any]]:
    found = parts.find_parts(folder)
    for path in found.values():
        yield from parts.part_rows(path)
    journal = os.path.join(folder, JOURNAL)
    if os.path.exists(journal):
        size = parts.rows_of_a_part(_points(before))
        for line, row in read_rows(journal, owner(before)):
            if line.number // size not in found:
                yield row


def _points(text: str) -> int:
    """Points of the sweep whose document is `text`. Raises FileError."""
    document = parse_json(text, SWEEP)
    points = document.get("points") if isinstance(document, dict) else None
    if not isinstance(points, int):
        raise FileError(SWEEP, "is no document of a sweep: name another folder")
    return points
