"""Store: the SQLite file of a sweep, in which every finished point survives whatever ends its writer.

The file is in WAL mode: a commit is one write to the log, and `--status` reads while a sweep runs. Every row
carries a checksum: SQLite finds damage to its own structure, but not a changed bit inside a value.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import itertools
import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from rramalloc.choices import RowsFormat
from rramalloc.errors import FileError, SpecError
from rramalloc.files import Closing, folder_names, make_folder, open_to_write, remove_file
from rramalloc.parquet import parquet_schema, require_parquet, write_parquet
from rramalloc.studies.database import check_health, opened, prepare, sqlite_errors, transaction
from rramalloc.studies.sweep.rows import SweepRow

DATABASE, LOCK = "sweep.sqlite", ".lock"
ROWS_FILES: dict[RowsFormat, str] = {"csv": "rows.csv", "parquet": "rows.parquet"}
Place = Callable[[str], int | None]
"""Number that a point has in a sweep, by the key of its row; None if the sweep does not have it."""

_BLOCK = 4096
_KIND = "sweep"
_TABLES = (
    "CREATE TABLE sweep (document TEXT, points INTEGER, computed INTEGER, seconds REAL)",
    "CREATE TABLE rows (number INTEGER PRIMARY KEY, failed INTEGER, row TEXT, checksum BLOB)",
)


class SavedState(NamedTuple):
    """What a database says: the sweep's document as JSON, its points, rows and failed rows.

    computed, seconds: of the running or last call.
    """

    document: str
    points: int
    done: int
    failed: int
    computed: int
    seconds: float


class Store(Closing):
    """The folder of a sweep, held for writing by one process at a time; used as a context.

    document: the sweep's, as JSON; points: of its grid; places: where the rows of another sweep that the
    folder may hold belong in this one, called only if needed.
    done, failed: rows there are, and those that are errors; damaged: rows whose checksum did not hold when
    the folder was opened, which are computed again.
    Raises FileError; SpecError if the folder holds something else than this sweep or a part of it.
    """

    def __init__(self, folder: str, document: str, points: int, places: Callable[[], Place]) -> None:
        _check_free(folder)
        make_folder(folder)
        self._folder, self._points, self._stack = folder, points, contextlib.ExitStack()
        self._path = os.path.join(folder, DATABASE)
        try:
            self._stack.enter_context(_locked(folder))
            self._database = self._stack.enter_context(opened(self._path, "rwc", _KIND))
            with sqlite_errors(self._path, _KIND):
                if not prepare(self._database, b"rram", _TABLES):
                    raise FileError(self._path, "is no database of a sweep: name another folder")
                self._adopt(document, places)
                self.damaged = self._drop_damaged()
                self.done, self.failed = _counts(self._database)
                for name in folder_names(folder):
                    is_draft = name.startswith(".rows.") and name.endswith(".tmp")  # of a killed writer
                    if is_draft or (self.done < points and name in ROWS_FILES.values()):
                        remove_file(os.path.join(folder, name))
        except BaseException:
            self._stack.close()
            raise

    def close(self) -> None:
        """Let other processes write."""
        self._stack.close()

    def missing(self) -> Iterator[int]:
        """Numbers of the points that have no row when their block is reached, in rising order."""
        for first in range(0, self._points, _BLOCK):
            numbers = range(first, min(first + _BLOCK, self._points))
            with sqlite_errors(self._path, _KIND):
                query = "SELECT number FROM rows WHERE number BETWEEN ? AND ?"
                there = {number for (number,) in self._database.execute(query, (numbers[0], numbers[-1]))}
            yield from (number for number in numbers if number not in there)

    def add(self, rows: Iterable[tuple[int, dict[str, Any]]]) -> None:
        """Keep rows of points, each with its number; they are on the disk when this returns."""
        records = [_record(number, row) for number, row in rows]
        if records:
            with sqlite_errors(self._path, _KIND), transaction(self._database):
                self._database.executemany("INSERT INTO rows VALUES (?, ?, ?, ?)", records)
            self.done += len(records)
            self.failed += sum(failed for _, failed, _, _ in records)

    def keep_rate(self, computed: int, seconds: float) -> None:
        """Keep for `--status` how many points this call has computed, in which time."""
        with sqlite_errors(self._path, _KIND):
            self._database.execute("UPDATE sweep SET computed = ?, seconds = ?", (computed, seconds))

    def finish(self, rows_format: RowsFormat) -> None:
        """Write all rows to the file that others read, and leave the database as a single file."""
        with sqlite_errors(self._path, _KIND):
            stored = stored_rows(self._database, self._path)
            target = os.path.join(self._folder, ROWS_FILES[rows_format])
            (_write_csv if rows_format == "csv" else _write_parquet)(target, stored)
            self.keep_rate(0, 0.0)
            with contextlib.suppress(sqlite3.OperationalError):  # someone reads it at this moment
                self._database.execute("PRAGMA journal_mode = DELETE")

    def _adopt(self, document: str, places: Callable[[], Place]) -> None:
        """Make this sweep the one of the database; rows that it has move to their numbers in this one."""
        before = self._database.execute("SELECT document, points FROM sweep").fetchone()
        if before == (document.encode(), self._points):
            return
        with transaction(self._database):
            if before is not None:
                self._move_rows(places())
            self._database.execute("DELETE FROM sweep")
            self._database.execute("INSERT INTO sweep VALUES (?, ?, 0, 0.0)", (document, self._points))

    def _move_rows(self, place: Place) -> None:
        self._database.execute("ALTER TABLE rows RENAME TO before")
        self._database.execute(_TABLES[-1])
        for _, _, text in _checked(self._database, "before"):
            if text is not None:
                row = json.loads(text)
                moved = place(row["key"])
                if moved is None:
                    raise SpecError(
                        self._folder,
                        "holds rows of another sweep that this one does not have (its lists, networks, "
                        "hardware or version of rramalloc differ): name another folder",
                    )
                self._database.execute("INSERT INTO rows VALUES (?, ?, ?, ?)", _record(moved, row))
        self._database.execute("DROP TABLE before")

    def _drop_damaged(self) -> int:
        damaged = [(number,) for number, _, text in _checked(self._database) if text is None]
        with transaction(self._database):
            self._database.executemany("DELETE FROM rows WHERE number = ?", damaged)
            self._database.execute("DELETE FROM rows WHERE number NOT BETWEEN 0 AND ?", (self._points - 1,))
        return len(damaged)


def read_state(folder: str) -> SavedState:
    """How far the sweep of a folder is, running, stopped or done. Raises FileError."""
    with _reading(folder) as (database, path):
        saved = database.execute("SELECT * FROM sweep").fetchone()
        if saved is None:
            raise FileError(path, "holds no sweep yet: start it with this folder first")
        failed = [failed for _, failed, text in _checked(database) if text is not None]
    document, points, computed, seconds = saved
    return SavedState(_text(document, path), points, len(failed), sum(failed), computed, seconds)


def read_rows(folder: str) -> Iterator[dict[str, Any]]:
    """All rows of a folder in the order of the grid. Raises FileError, also for one that is damaged."""
    with _reading(folder) as (database, path):
        yield from stored_rows(database, path)


def stored_rows(database: sqlite3.Connection, path: str) -> Iterator[dict[str, Any]]:
    """All rows of a database in the order of the grid. Raises FileError."""
    for number, _, text in _checked(database):
        if text is None:
            words = f"the row of point {number} is damaged: run the same sweep again to compute it anew"
            raise FileError(path, words)
        yield json.loads(text)


def check_rows_format(rows_format: str) -> None:
    """Raise SpecError for an unknown format, and for Parquet if pyarrow is not installed."""
    if rows_format not in ROWS_FILES:
        raise SpecError("rows", f"must be one of {', '.join(ROWS_FILES)}, got {rows_format[:60]!r}")
    if rows_format == "parquet":
        require_parquet("rows")


def _check_free(folder: str) -> None:
    """Raise SpecError unless a folder holds a sweep, or nothing but the remains of an interrupted start."""
    names = folder_names(folder) if os.path.isdir(folder) else []
    if "_sweep.json" in names and DATABASE not in names:
        raise SpecError(
            folder,
            "holds a sweep as rramalloc kept it before it used SQLite (_sweep.json and Parquet parts): "
            "name another folder; the parts stay readable as a Parquet data set",
        )
    strange = [name for name in names if name != LOCK]
    if strange and DATABASE not in names:
        words = f"holds {strange[0][:60]!r} but no sweep: name an empty folder or a new one"
        raise SpecError(folder, words)


@contextlib.contextmanager
def _locked(folder: str) -> Iterator[None]:
    """One writer at a time: an exclusive transaction on an empty database, which ends with its process."""
    path = os.path.join(folder, LOCK)
    with opened(path, "rwc", _KIND, busy_s=0) as lock:
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
            words = "another run is writing this sweep: wait for it to end, or name another folder"
            raise FileError(folder, words) from None
        yield


@contextlib.contextmanager
def _reading(folder: str) -> Iterator[tuple[sqlite3.Connection, str]]:
    path = os.path.join(folder, DATABASE)
    if not os.path.exists(path):
        if os.path.exists(folder):
            _check_free(folder)
        raise FileError(folder, "holds no sweep yet: start it with this folder first")
    with opened(path, "rw", _KIND) as database:
        database.execute("BEGIN")  # one state of the database for all that is read
        check_health(database)
        yield database, path


def _record(number: int, row: dict[str, Any]) -> tuple[int, int, str, bytes]:
    text, failed = json.dumps(row, separators=(",", ":")), int(row["error_kind"] is not None)
    return number, failed, text, _checksum(number, failed, text.encode())


def _checksum(number: object, failed: object, text: object) -> bytes:
    return hashlib.sha256(repr((number, failed, text)).encode()).digest()


def _checked(database: sqlite3.Connection, table: str = "rows") -> Iterator[tuple[int, int, bytes | None]]:
    """Number, failed and row of every record; None as the row if the checksum does not hold."""
    for number, failed, text, checksum in database.execute(f"SELECT * FROM {table} ORDER BY number"):  # noqa: S608
        yield number, failed, text if checksum == _checksum(number, failed, text) else None


def _counts(database: sqlite3.Connection) -> tuple[int, int]:
    done, failed = database.execute("SELECT count(*), coalesce(sum(failed), 0) FROM rows").fetchone()
    return done, failed


def _text(content: object, path: str) -> str:
    try:
        return bytes(content).decode() if isinstance(content, bytes) else str(content)
    except UnicodeDecodeError:
        raise FileError(path, "is damaged: run the same sweep again, it repairs what it can") from None


def _write_csv(path: str, rows: Iterable[dict[str, Any]]) -> None:
    with open_to_write(path) as stream:
        text = io.TextIOWrapper(stream, "utf-8", newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(SweepRow.model_fields)
        writer.writerows(row.values() for row in rows)
        text.detach()


def _write_parquet(path: str, rows: Iterable[dict[str, Any]]) -> None:
    kinds = {name: field.annotation for name, field in SweepRow.model_fields.items()}
    left = iter(rows)
    write_parquet(path, parquet_schema(kinds), iter(lambda: [*itertools.islice(left, _BLOCK)], []))
