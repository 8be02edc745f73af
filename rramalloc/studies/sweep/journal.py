"""Journal: rows that are finished but not yet in a Parquet file, one JSON line each."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from rramalloc.files import open_to_read
from rramalloc.folders import AppendedFile, remove_file, rename_file

_COMMIT_EVERY_S = 0.05


class Line(NamedTuple):
    """A line of a journal: the point's number in the grid, where the line is, whether the point failed."""

    number: int
    place: int
    length: int
    failed: bool


class Journal:
    """An append-only file of rows, brought to the disk at most every 50 ms.

    owner: the sweep it belongs to, told in its first line; lines of another owner are dropped, and so is
    a last line that was cut off when its writer was killed. Raises FileError.
    """

    def __init__(self, path: str, owner: str) -> None:
        self._committed_s = time.monotonic()
        self._file = AppendedFile(path)
        self.lines = [line for line, _ in read_rows(path, owner)]
        header = _header(owner)
        good = self.lines[-1].place + self.lines[-1].length if self.lines else len(header)
        if not self.lines:
            self._file.cut(0)
            self._file.append(header)
        self._file.cut(good)
        self._dirty = True
        self.commit(now=True)

    @property
    def length(self) -> int:
        """Bytes of the file."""
        return self._file.length

    def append(self, number: int, row: dict[str, Any]) -> Line:
        """Add the row of a point."""
        content = line_of(number, row)
        self._dirty = True
        return Line(number, self._file.append(content), len(content), _is_failed(row))

    def read(self, line: Line) -> bytes:
        """A line as it stands."""
        return self._file.read(line.place, line.length)

    def row(self, line: Line) -> dict[str, Any]:
        """The row of a line."""
        found: dict[str, Any] = json.loads(self.read(line))["row"]
        return found

    def commit(self, *, now: bool = False) -> None:
        """Bring what is new to the disk, unless that was done a moment ago."""
        if self._dirty and (now or time.monotonic() - self._committed_s >= _COMMIT_EVERY_S):
            self._file.commit()
            self._dirty, self._committed_s = False, time.monotonic()

    def close(self) -> None:
        """Commit and let go of the file."""
        self.commit(now=True)
        self._file.close()


def write_journal(path: str, owner: str, lines: Iterable[bytes]) -> None:
    """A new journal in place of what is at `path`, whole or not at all. Raises FileError."""
    draft = f"{path}.draft"
    remove_file(draft)
    file = AppendedFile(draft)
    try:
        file.append(_header(owner))
        for line in lines:
            file.append(line)
        file.commit()
    except BaseException:
        remove_file(draft)
        raise
    finally:
        file.close()
    rename_file(draft, path)


def line_of(number: int, row: dict[str, Any]) -> bytes:
    """The line of a point and its row."""
    return json.dumps({"point": number, "row": row}, separators=(",", ":")).encode() + b"\n"


def belongs(path: str, owner: str) -> bool:
    """Whether a journal is of that owner. Raises FileError."""
    with open_to_read(path) as stream:
        return stream.readline() == _header(owner)


def read_rows(path: str, owner: str) -> Iterator[tuple[Line, dict[str, Any]]]:
    """The whole lines of a journal with their rows, none if it is another owner's. Raises FileError."""
    with open_to_read(path) as stream:
        place = len(_header(owner))
        if stream.readline() != _header(owner):
            return
        for content in stream:
            found = _parsed(content)
            if found is None:
                return
            number, row = found
            yield Line(number, place, len(content), _is_failed(row)), row
            place += len(content)


def _header(owner: str) -> bytes:
    return json.dumps({"sweep": owner}).encode() + b"\n"


def _is_failed(row: dict[str, Any]) -> bool:
    return row["error_kind"] is not None


def _parsed(content: bytes) -> tuple[int, dict[str, Any]] | None:
    """None for a line that was cut off or damaged."""
    try:
        document = json.loads(content) if content.endswith(b"\n") else {}
        number, row = document["point"], document["row"]
        _is_failed(row)
    except (ValueError, KeyError, TypeError):
        return None
    return number, row
