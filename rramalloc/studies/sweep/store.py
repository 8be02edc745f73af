"""Store: the folder of a sweep, in which every finished point survives whatever happens to its writer.

A row goes to the journal first. Once all rows of a part are there they are written to a Parquet file in the
order of the grid, and their lines in the journal are of no more use: whoever reads the folder ignores lines
of parts that exist, so that a crash between the two steps leaves nothing twice.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from rramalloc.errors import FileError
from rramalloc.folders import lock_file, make_folder, remove_file
from rramalloc.studies.sweep import parts
from rramalloc.studies.sweep.adopt import JOURNAL, LOCK, PROGRESS, Place, adopt, check_free, owner
from rramalloc.studies.sweep.journal import Journal, Line, write_journal

_COMPACT_BYTES = 2**20


class Store:
    """The folder of a sweep, held for writing by one process at a time; used as a context.

    text: the sweep's document, which says what its rows are; points: how many there are; places: where the
    rows of another sweep that the folder may hold belong in this one.
    Raises FileError; SpecError if the folder holds something else than this sweep or a part of it.
    """

    def __init__(self, folder: str, text: str, points: int, places: Callable[[], Place]) -> None:
        check_free(folder)
        make_folder(folder)
        lock = lock_file(os.path.join(folder, LOCK))
        if lock is None:
            words = "another run is writing this sweep: wait for it to end, or name another folder"
            raise FileError(folder, words)
        self._folder, self._points, self._owner, self._lock = folder, points, owner(text), lock
        self._part_rows = parts.rows_of_a_part(points)
        try:
            adopt(folder, text, places)
            self._resume()
        except BaseException:
            os.close(lock)
            raise

    def _resume(self) -> None:
        found = parts.find_parts(self._folder)
        self._written = set(found)
        self._pending: dict[int, dict[int, Line]] = {}
        self._dead_bytes = 0
        self.failed = sum(parts.count_failed(path) for path in found.values())
        self.done = sum(self._rows_of(part) for part in found)
        self._journal = Journal(os.path.join(self._folder, JOURNAL), self._owner)
        for line in self._journal.lines:
            self._note(line)
        self._journal.lines.clear()
        for part in sorted(self._pending):
            self._write_if_whole(part)

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._journal.close()
            if self.done == self._points:
                for name in (JOURNAL, PROGRESS):
                    remove_file(os.path.join(self._folder, name))
        finally:
            os.close(self._lock)

    def missing(self) -> Iterator[int]:
        """Numbers of the points that have no row when their turn comes, in rising order."""
        for part in range(-(-self._points // self._part_rows)):
            if part not in self._written:
                first = part * self._part_rows
                for number in range(first, first + self._rows_of(part)):
                    if number not in self._pending.get(part, ()):
                        yield number

    def add(self, number: int, row: dict[str, Any]) -> None:
        """Keep the row of a point. It is safe after the next `commit`."""
        self._note(self._journal.append(number, row))
        self._write_if_whole(number // self._part_rows)

    def commit(self) -> None:
        """Bring what is new to the disk, unless that was done a moment ago."""
        self._journal.commit()

    def _rows_of(self, part: int) -> int:
        return min(self._part_rows, self._points - part * self._part_rows)

    def _note(self, line: Line) -> None:
        """Take a line of the journal into account, unless its row is there already."""
        part = line.number // self._part_rows
        rows = self._pending.setdefault(part, {})
        if part in self._written or line.number in rows or not 0 <= line.number < self._points:
            self._dead_bytes += line.length
            return
        rows[line.number] = line
        self.done += 1
        self.failed += line.failed

    def _write_if_whole(self, part: int) -> None:
        lines = self._pending.get(part, {})
        if len(lines) < self._rows_of(part):
            return
        rows = [self._journal.row(lines[number]) for number in sorted(lines)]
        parts.write_part(self._folder, part, rows)
        self._written.add(part)
        del self._pending[part]
        self._dead_bytes += sum(line.length for line in lines.values())
        if self._dead_bytes > max(_COMPACT_BYTES, self._journal.length // 2):
            self._compact()

    def _compact(self) -> None:
        """Write the journal anew without the lines of parts that exist."""
        path = os.path.join(self._folder, JOURNAL)
        kept = [line for lines in self._pending.values() for line in lines.values()]
        write_journal(path, self._owner, map(self._journal.read, kept))
        self._journal.close()
        self._journal = Journal(path, self._owner)
        self._pending.clear()
        for line in self._journal.lines:
            self._pending.setdefault(line.number // self._part_rows, {})[line.number] = line
        self._journal.lines.clear()
        self._dead_bytes = 0
