"""`sweep`: from a spec to a folder with a row for every point; `sweep_status`: its progress.

The folder has `sweep.sqlite` with the points and their rows, and at the end the file of all rows. A row
belongs to every point with its key, of this sweep or of another one that the folder had before.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from pydantic import TypeAdapter

from rramalloc.choices import RowsFormat
from rramalloc.commands.sweep.rows import (
    COLUMNS,
    SweepDocument,
    SweepRow,
    SweepStatus,
    SweepSummary,
    columns_of_rows,
    frame_of_rows,
    row_of,
)
from rramalloc.commands.sweep.spec import MAX_POINTS, Grid, read_spec
from rramalloc.commands.sweep.workers import ClusterWorkers, LocalWorkers, check_jobs, computed_points
from rramalloc.csv_rows import csv_cell
from rramalloc.errors import FileError, SpecError
from rramalloc.files import (
    as_utf8,
    file_errors,
    folder_names,
    make_folder,
    open_alone,
    open_to_read,
    open_to_write,
    parse_json,
    to_json,
)
from rramalloc.parquet import parquet_schema, require_parquet, write_parquet
from rramalloc.progress import followed
from rramalloc.records import parse
from rramalloc.result import Result
from rramalloc.search.cores import cores
from rramalloc.store import Store
from rramalloc.units import counted
from rramalloc.upgrade import upgraded, upgraded_row
from rramalloc.view.view import View

if TYPE_CHECKING:
    import pandas as pd


DATABASE = "sweep.sqlite"
ROWS_FILES: dict[RowsFormat, str] = {"csv": "rows.csv", "parquet": "rows.parquet"}
_LOCK = ".lock"
_BLOCK = 4096  # rows of a Parquet file written at a time: about 10 MB
_KEEP_EVERY_S = 1.0  # a write of the rate waits for the disk, as one of a row does
_REASONS = 3  # different errors that a summary shows
_TABLES = (
    "CREATE TABLE sweep (identity TEXT, document TEXT, points_per_s REAL)",
    "CREATE TABLE points (number INTEGER PRIMARY KEY, key TEXT)",
)
_SUMMARY = """
SELECT json_extract(row, '$.network'), json_extract(row, '$.method'),
  count(*), count(*) - count(json_extract(row, '$.makespan')), min(json_extract(row, '$.makespan'))
FROM points JOIN rows USING (key) GROUP BY 1, 2 ORDER BY min(number)
"""
_NOT_COUNTED = """
SELECT DISTINCT json_extract(row, '$.not_counted') AS text
FROM points JOIN rows USING (key) WHERE text NOT NULL ORDER BY text
"""
_ERRORS = """
SELECT json_extract(row, '$.error_kind') || ': ' || json_extract(row, '$.error') AS reason
FROM points JOIN rows USING (key) WHERE reason NOT NULL GROUP BY reason ORDER BY min(number) LIMIT ?
"""
_ROW: TypeAdapter[SweepRow] = TypeAdapter(SweepRow)
_DOCUMENT: TypeAdapter[SweepDocument] = TypeAdapter(SweepDocument)
OnProgress = Callable[[SweepStatus], None]


@dataclass(frozen=True, repr=False)
class SweepResult(Result):
    """A finished sweep, whose rows are read from its folder as they are asked for.

    computed: points that this call computed, the others had their rows before; failed: points whose row is an
    error.
    """

    folder: str
    document: SweepDocument
    computed: int
    failed: int

    @property
    def points(self) -> int:
        """Points of the sweep, each with one row."""
        return self.document.points

    def view(self, **known: Any) -> View:
        """Return the view of its summary."""
        from rramalloc.commands.sweep.view import result_view  # draws, which a sweep itself does not

        reasons = self.reasons() if self.failed else ()
        return result_view(self, self.summary(), reasons, partial(read_rows, self.folder), **known)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield all rows in the order of the grid, one at a time in memory."""
        return (row.to_dict() for row in read_rows(self.folder))

    def to_dict(self) -> dict[str, Any]:
        """Return the spec as it was resolved, and all rows."""
        return self._about.to_dict() | {"rows": list(self.rows())}

    def json_parts(self) -> Iterator[str]:
        """Yield the JSON of `to_dict`, one row at a time in memory."""
        return self._about.json_parts(read_rows(self.folder))

    @property
    def _about(self) -> SweepDocument:
        """The document with what its rows do not count."""
        return self.document.model_copy(update={"not_counted": self.not_counted})

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with one row per point, columns as in the file of rows; what a failed point
        lacks is NA."""
        return frame_of_rows(self.rows(), self.document.spec)

    def summary(self) -> list[SweepSummary]:
        """Return a line per network and method, in the order of their first points."""
        with _reading(self.folder) as store:
            return [SweepSummary(*line) for line in store.query(_SUMMARY)]

    @cached_property
    def not_counted(self) -> tuple[str, ...]:
        """Words for the times and energies that any row leaves out."""
        with _reading(self.folder) as store:
            found = [text.split("; ") for (text,) in store.query(_NOT_COUNTED)]
        return tuple(dict.fromkeys(text for texts in found for text in texts))

    def reasons(self) -> list[str]:
        """Return the first different errors of points that failed."""
        with _reading(self.folder) as store:
            return [reason for (reason,) in store.query(_ERRORS, _REASONS)]

    def _headline(self) -> tuple[str, str]:
        name = self.document.spec.name or as_utf8(os.path.basename(self.folder))
        return f"sweep {name}", f"{counted(self.points, 'point')}, {self.failed:,} failed"


def sweep(
    spec: str | os.PathLike[str] | Mapping[str, Any],
    folder: str | os.PathLike[str],
    *,
    rows: RowsFormat = "csv",
    scheduler: str | None = None,
    jobs: int | None = None,
    allow_partial: bool = False,
    on_progress: OnProgress | None = None,
    progress: bool = True,
) -> SweepResult:
    """Compute every combination of the lists in SPEC.toml; the same command goes on where it was stopped.

    Finished points survive whatever ends the call, in `sweep.sqlite`: the next call with that folder goes on
    from there, also with more or other points. A point that fails is a row with its error.

    Parameters
    ----------
    spec
        A TOML file, or a dict of its form.
    folder
        An empty folder, a new one, or that of a sweep.
    rows
        Format of the file with all rows that is written at the end: `rows.csv` or `rows.parquet`.
    scheduler
        Address of a Dask scheduler ("tcp://host:8786") whose workers compute the points.
    jobs
        Processes on this machine without a scheduler; None: one per core.
    allow_partial
        Take operators whose weights cannot be modelled as barriers.
    on_progress
        Called with a SweepStatus.
    progress
        Show a line in a notebook.

    Returns
    -------
    SweepResult
        The rows, read from the folder as they are asked for.

    Raises
    ------
    SpecError, FileError, UnknownNameError
        The spec, what it names or the folder cannot be used.
    WorkerError
        The workers are lost.
    """
    resolved, where, base = read_spec(spec)
    check_jobs(jobs, scheduler)
    if rows == "parquet":
        require_parquet("rows")
    grid = Grid.read(resolved, where, base, allow_partial=allow_partial)
    document, path = SweepDocument.of(grid), os.fspath(folder)
    with held_folder(path) as store:
        adopt(store, to_json(document.to_dict()), grid.table, (point.key for point in grid.points()))
        before = done, failed = _counts(store)
        if done < resolved.size:
            with (
                ClusterWorkers(scheduler)
                if scheduler is not None
                else LocalWorkers(jobs or cores()) as workers,
                followed(on_progress, progress, lambda now: now.words) as callback,
            ):
                report = _Report(store, document, done, callback)
                report(done, failed)
                for finished in computed_points(map(grid.point, missing(store)), workers):
                    made = [row_of(point, found) for point, found in finished]
                    store.keep((row["key"], row) for row in made)
                    done += len(made)
                    failed += sum(row["error_kind"] is not None for row in made)
                    report(done, failed)
        finish(store, path, rows, columns_of_rows(resolved))
    return SweepResult(path, document, done - before[0], failed)


def sweep_status(folder: str | os.PathLike[str]) -> SweepStatus:
    """Return the progress of a sweep, running, stopped or done.

    Parameters
    ----------
    folder
        The folder of the sweep.

    Returns
    -------
    SweepStatus
        Points in all, done and failed, and the time that is left.

    Raises
    ------
    RramallocError
        FileError, SpecError.
    """
    with _reading(os.fspath(folder)) as store:
        document, points_per_s = _saved(store)
        return SweepStatus.of(document.spec.name, document.points, *_counts(store), points_per_s)


def read_sweep(folder: str, most: int = MAX_POINTS) -> SweepDocument:
    """Read a finished sweep with its rows, as `sweep --format json` prints it.

    Raises FileError, SpecError; also for more than `most` rows.
    """
    with _reading(folder) as store:
        document, (done, _) = _saved(store)[0], _counts(store)
        if document.points > most:
            words = f"has {document.points} points, the limit is {most} here: name a sweep of fewer"
            raise SpecError(folder, f"{words}, or draw this one with `rramalloc sweep --figure`")
        if done != document.points:
            words = f"has {done} rows of {document.points}: run `rramalloc sweep` to its end first"
            raise FileError(folder, words)
        return document.model_copy(update={"rows": tuple(_rows(store))})


def read_rows(folder: str) -> Iterator[SweepRow]:
    """Yield all rows of a sweep in the order of the grid. Raises FileError, SpecError."""
    with _reading(folder) as store:
        yield from _rows(store)


@contextlib.contextmanager
def held_folder(folder: str) -> Iterator[Store]:
    """Hold the database of a folder, which one process at a time may write.

    Raises FileError; SpecError if the folder holds something else than a sweep.
    """
    _check_free(folder)
    make_folder(folder)
    path = os.path.join(folder, DATABASE)
    with open_alone(os.path.join(folder, _LOCK)), Store(path, "sweep", _TABLES) as store:
        yield store


def adopt(store: Store, document: str, table: str, keys: Iterator[str]) -> None:
    """Make a sweep that of the folder: all of it or, if the process is killed, nothing.

    document: the sweep's, as JSON; table: of measured steps, as JSON; keys: of the points in the order of the
    grid.
    """
    identity = hashlib.sha256((document + table).encode()).hexdigest()
    is_other = [*store.query("SELECT identity FROM sweep")] != [(identity,)]
    folder = os.path.dirname(store.path)
    stale = ROWS_FILES.values() if is_other or next(iter(missing(store)), None) is not None else ()
    for name in folder_names(folder):  # before the sweep changes: `finish` keeps the file that it finds
        if name in stale or (name.startswith(".rows.") and name.endswith(".tmp")):  # of a killed writer
            path = os.path.join(folder, name)
            with file_errors(path):
                os.unlink(path)
    if is_other:
        with store.transaction():
            store.write("DELETE FROM sweep")
            store.write("DELETE FROM points")
            store.write("INSERT INTO sweep VALUES (?, ?, NULL)", [(identity, document)])
            store.write("INSERT INTO points VALUES (?, ?)", enumerate(keys))


def missing(store: Store) -> Iterator[int]:
    """Yield the numbers of the points that have no row now, in rising order."""
    query = "SELECT number FROM points LEFT JOIN rows USING (key) WHERE row IS NULL ORDER BY number"
    numbers = np.fromiter((number for (number,) in store.query(query)), np.int64)
    return map(int, numbers)


def finish(store: Store, folder: str, rows_format: RowsFormat, columns: Mapping[str, Any] = COLUMNS) -> None:
    """Write all rows to the file that others read, unless it is there, and leave the database as one file."""
    target, rows = os.path.join(folder, ROWS_FILES[rows_format]), (row.to_dict() for row in _rows(store))
    if rows_format == "csv" and _has_columns(target, columns):
        pass
    elif rows_format == "csv":
        with open_to_write(target) as stream:
            text = io.TextIOWrapper(stream, "utf-8", newline="")
            write_csv(text, rows, columns)
            text.detach()
    else:
        blocks = iter(lambda: [*itertools.islice(rows, _BLOCK)], [])
        write_parquet(target, parquet_schema(columns), blocks)
    _keep_rate(store, None)
    with contextlib.suppress(FileError):  # someone reads it at this moment
        list(store.query("PRAGMA journal_mode = DELETE"))


def _has_columns(path: str, columns: Iterable[str]) -> bool:
    """Return True if a file of rows is there, with these columns."""
    first = io.StringIO()
    write_csv(first, (), columns)
    head = first.getvalue().encode()
    with contextlib.suppress(FileError), open_to_read(path) as stream:
        return stream.read(len(head)) == head
    return False


def write_csv(text: TextIO, rows: Iterable[dict[str, Any]], columns: Iterable[str]) -> None:
    """Write rows as CSV with their columns in the first line."""
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(map(csv_cell, row.values()) for row in rows)


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


def _saved(store: Store) -> tuple[SweepDocument, float | None]:
    """Return the sweep's document, and the rate of the call that is running or was stopped."""
    for document, points_per_s in store.query("SELECT document, points_per_s FROM sweep"):
        return parse(_DOCUMENT, upgraded(parse_json(document, store.path)), store.path), points_per_s
    raise FileError(store.path, "holds no sweep yet: start it with this folder first")


def _counts(store: Store) -> tuple[int, int]:
    """Return how many points have a row, and how many have one that is an error."""
    counts = "count(row), count(json_extract(row, '$.error_kind'))"
    done, failed = next(store.query(f"SELECT {counts} FROM points LEFT JOIN rows USING (key)"))  # noqa: S608
    return done, failed


def _rows(store: Store) -> Iterator[SweepRow]:
    for (text,) in store.query("SELECT row FROM points JOIN rows USING (key) ORDER BY number"):
        yield parse(_ROW, upgraded_row(parse_json(text, store.path)), store.path)


def _keep_rate(store: Store, points_per_s: float | None) -> None:
    """Keep the rate of this call for `--status`."""
    store.write("UPDATE sweep SET points_per_s = ?", [(points_per_s,)])


class _Report:
    """Reports the progress of a call to the caller, and once a second to the folder.

    The rate counts from its first row on: before it, workers start and compile.
    """

    def __init__(
        self, store: Store, document: SweepDocument, before: int, on_progress: OnProgress | None
    ) -> None:
        self._store, self._document, self._before, self._on_progress = store, document, before, on_progress
        self._first, self._kept_s = (0.0, 0), -_KEEP_EVERY_S

    def __call__(self, done: int, failed: int) -> None:
        now_s = time.monotonic()
        if done > self._before and self._first == (0.0, 0):
            self._first = now_s, done
        begun_s, first = self._first
        rate = (done - first) / (now_s - begun_s) if done > first > 0 and now_s > begun_s else None
        if now_s - self._kept_s >= _KEEP_EVERY_S:
            self._kept_s = now_s
            _keep_rate(self._store, rate)
        if self._on_progress is not None:
            document = self._document
            self._on_progress(SweepStatus.of(document.spec.name, document.points, done, failed, rate))
