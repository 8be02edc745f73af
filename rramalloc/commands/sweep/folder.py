"""Folder of a sweep: `sweep.sqlite` with its points and their rows, and at the end the file of all rows."""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from rramalloc.choices import RowsFormat
from rramalloc.commands.sweep.rows import SweepRow
from rramalloc.errors import FileError, SpecError
from rramalloc.files import (
    Closing,
    folder_names,
    make_folder,
    open_alone,
    open_to_write,
    parse_json,
    remove_file,
)
from rramalloc.parquet import parquet_schema, write_parquet
from rramalloc.records import parse
from rramalloc.store import Store

DATABASE = "sweep.sqlite"
ROWS_FILES: dict[RowsFormat, str] = {"csv": "rows.csv", "parquet": "rows.parquet"}
_LOCK = ".lock"
_BLOCK = 4096  # rows read or written at a time: about 10 MB
_TABLES = (
    "CREATE TABLE sweep (identity TEXT, document TEXT, points_per_s REAL)",
    "CREATE TABLE points (number INTEGER PRIMARY KEY, key TEXT)",
)
_ROW: TypeAdapter[SweepRow] = TypeAdapter(SweepRow)


class SavedState(NamedTuple):
    """What a folder says: the sweep's document as JSON, its points, those with a row and with an error.

    points_per_s: of the call that is running or was stopped, None if not known.
    """

    document: str
    points: int
    done: int
    failed: int
    points_per_s: float | None


class SweepFolder(Closing):
    """The folder of a sweep, held for writing by one process at a time; used as a context.

    A row belongs to every point with its key, of this sweep or of another one that the folder had before.

    document: the sweep's, as JSON; identity: hash of all that the keys depend on; keys: of the points in the
    order of the grid. done, failed: points that have a row, and those whose row is an error.
    Raises FileError; SpecError if the folder holds something else than a sweep.
    """

    def __init__(self, folder: str, document: str, identity: str, keys: Callable[[], Iterator[str]]) -> None:
        _check_free(folder)
        make_folder(folder)
        self._folder, self._stack = folder, contextlib.ExitStack()
        try:
            self._stack.enter_context(open_alone(os.path.join(folder, _LOCK)))
            path = os.path.join(folder, DATABASE)
            self._store = self._stack.enter_context(Store(path, "sweep", _TABLES))
            is_other = [*self._store.query("SELECT identity FROM sweep")] != [(identity,)]
            if is_other:
                self._adopt(identity, document, keys())
            state = _state(self._store)
            self.done, self.failed = state.done, state.failed
            for name in folder_names(folder):
                is_draft = name.startswith(".rows.") and name.endswith(".tmp")  # of a killed writer
                if is_draft or ((is_other or state.done < state.points) and name in ROWS_FILES.values()):
                    remove_file(os.path.join(folder, name))
        except BaseException:
            self._stack.close()
            raise

    def close(self) -> None:
        """Let other processes write."""
        self._stack.close()

    def missing(self) -> Iterator[int]:
        """Yield the numbers of points that have no row when their block is reached, in rising order."""
        last = -1
        while True:
            query = (
                "SELECT number FROM points LEFT JOIN rows USING (key) "
                "WHERE number > ? AND row IS NULL ORDER BY number LIMIT ?"
            )
            block = [number for (number,) in self._store.query(query, last, _BLOCK)]
            if not block:
                return
            yield from block
            last = block[-1]

    def add(self, rows: Iterable[dict[str, Any]]) -> None:
        """Keep the rows of as many points; they are on the disk when this returns."""
        if kept := [(row["key"], row) for row in rows]:
            self._store.keep(kept)
            self.done += len(kept)
            self.failed += sum(row["error_kind"] is not None for _, row in kept)

    def keep_rate(self, points_per_s: float | None) -> None:
        """Keep the rate of this call for `--status`."""
        self._store.write("UPDATE sweep SET points_per_s = ?", [(points_per_s,)])

    def finish(self, rows_format: RowsFormat) -> None:
        """Write all rows to the file that others read, and leave the database as a single file."""
        target = os.path.join(self._folder, ROWS_FILES[rows_format])
        (_write_csv if rows_format == "csv" else _write_parquet)(target, _rows(self._store))
        self.keep_rate(None)
        with contextlib.suppress(FileError):  # someone reads it at this moment
            list(self._store.query("PRAGMA journal_mode = DELETE"))

    def _adopt(self, identity: str, document: str, keys: Iterator[str]) -> None:
        """Make this sweep that of the folder: all of it or, if the process is killed, nothing."""
        with self._store.transaction():
            self._store.write("DELETE FROM sweep")
            self._store.write("DELETE FROM points")
            self._store.write("INSERT INTO sweep VALUES (?, ?, NULL)", [(identity, document)])
            self._store.write("INSERT INTO points VALUES (?, ?)", enumerate(keys))


def read_state(folder: str) -> SavedState:
    """How far the sweep of a folder is, running, stopped or done. Raises FileError."""
    with _reading(folder) as store:
        return _state(store)


def read_rows(folder: str) -> Iterator[SweepRow]:
    """All rows of a sweep in the order of the grid. Raises FileError, SpecError."""
    with _reading(folder) as store:
        yield from _rows(store)


def _check_free(folder: str) -> None:
    """Raise SpecError unless a folder holds a sweep, or nothing but the remains of an interrupted start."""
    names = folder_names(folder) if os.path.isdir(folder) else []
    strange = [name for name in names if name != _LOCK]
    if strange and DATABASE not in names:
        words = f"holds {strange[0][:60]!r} but no sweep: name an empty folder or a new one"
        raise SpecError(folder, words)


@contextlib.contextmanager
def _reading(folder: str) -> Iterator[Store]:
    path = os.path.join(folder, DATABASE)
    if not os.path.exists(path):
        if os.path.exists(folder):
            _check_free(folder)
        raise FileError(folder, "holds no sweep yet: start it with this folder first")
    with Store(path, "sweep", _TABLES, create=False) as store:
        yield store


def _state(store: Store) -> SavedState:
    counts = "count(*), count(row), count(json_extract(row, '$.error_kind'))"
    query = f"SELECT {counts} FROM points LEFT JOIN rows USING (key)"  # noqa: S608 - no outer text
    for document, points_per_s in store.query("SELECT document, points_per_s FROM sweep"):
        points, done, failed = next(store.query(query))
        return SavedState(document, points, done, failed, points_per_s)
    raise FileError(store.path, "holds no sweep yet: start it with this folder first")


def _rows(store: Store) -> Iterator[SweepRow]:
    for (text,) in store.query("SELECT row FROM points JOIN rows USING (key) ORDER BY number"):
        yield parse(_ROW, parse_json(text, store.path), store.path)


def _write_csv(path: str, rows: Iterable[SweepRow]) -> None:
    with open_to_write(path) as stream:
        text = io.TextIOWrapper(stream, "utf-8", newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(SweepRow.model_fields)
        writer.writerows(row.model_dump().values() for row in rows)
        text.detach()


def _write_parquet(path: str, rows: Iterable[SweepRow]) -> None:
    kinds = {name: field.annotation for name, field in SweepRow.model_fields.items()}
    left = (row.model_dump() for row in rows)
    write_parquet(path, parquet_schema(kinds), iter(lambda: [*itertools.islice(left, _BLOCK)], []))
