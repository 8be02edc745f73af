"""`sweep`: from a spec to a folder with a row for every point; `sweep_status`: how far it is.

The folder has `sweep.sqlite` with the points and their rows, and at the end the file of all rows.
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
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from pydantic import TypeAdapter

from rramalloc.choices import RowsFormat
from rramalloc.commands.sweep.rows import (
    COLUMNS,
    SweepDocument,
    SweepRow,
    SweepStatus,
    SweepSummary,
    failed_row,
    inputs_of,
    summarise,
)
from rramalloc.commands.sweep.spec import Sources, SweepPoint, read_sources, read_spec
from rramalloc.commands.sweep.workers import ClusterWorkers, LocalWorkers, Task, computed
from rramalloc.csv_rows import csv_cell
from rramalloc.errors import FileError, SpecError, WorkerError
from rramalloc.files import (
    Closing,
    folder_names,
    make_folder,
    open_alone,
    open_to_write,
    parse_json,
    remove_file,
    to_json,
)
from rramalloc.parquet import parquet_schema, require_parquet, write_parquet
from rramalloc.plots import SweepPlots
from rramalloc.progress import followed, of_sweep
from rramalloc.records import brief, parse
from rramalloc.result import Result, frame_of
from rramalloc.search.cores import cores
from rramalloc.store import Store
from rramalloc.units import counted

if TYPE_CHECKING:
    import pandas as pd


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
    """State of a folder: the sweep's document as JSON, its points, those with a row and with an error.

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
    """Return the progress of the sweep in a folder, running, stopped or done. Raises FileError."""
    with _reading(folder) as store:
        return _state(store)


def read_rows(folder: str) -> Iterator[SweepRow]:
    """Yield all rows of a sweep in the order of the grid. Raises FileError, SpecError."""
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
        writer.writerow(COLUMNS)
        writer.writerows(map(csv_cell, row.to_dict().values()) for row in rows)
        text.detach()


def _write_parquet(path: str, rows: Iterable[SweepRow]) -> None:
    left = (row.to_dict() for row in rows)
    write_parquet(path, parquet_schema(COLUMNS), iter(lambda: [*itertools.islice(left, _BLOCK)], []))


MAX_JOBS = 4096  # processes
_KEEP_EVERY_S = 1.0  # a write of the rate waits for the disk, as one of a row does
_REASONS = 3  # different errors that a summary shows
_DOCUMENT: TypeAdapter[SweepDocument] = TypeAdapter(SweepDocument)


class SweepProgress(NamedTuple):
    """Points of the sweep, those with a row, those that failed; and the rate and time left of this call."""

    points: int
    done: int
    failed: int
    points_per_s: float | None
    left_s: float | None


OnProgress = Callable[[SweepProgress], None]


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

    @property
    def plot(self) -> SweepPlots:
        """Figures: columns."""
        return SweepPlots(self)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield all rows in the order of the grid, one at a time in memory."""
        return (row.to_dict() for row in read_rows(self.folder))

    def to_dict(self) -> dict[str, Any]:
        """Return the spec as it was resolved, and all rows."""
        return self.document.to_dict() | {"rows": list(self.rows())}

    def json_parts(self) -> Iterator[str]:
        """Yield the JSON of `to_dict`, one row at a time in memory."""
        return self.document.json_parts(read_rows(self.folder))

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with one row per point, columns as COLUMNS names them; what a failed point
        lacks is NA."""
        import pandas as pd

        dtypes = {int: "Int64", float: "float64", bool: "boolean"}
        first = {name: (get_args(kind) or (kind,))[0] for name, kind in COLUMNS.items()}
        frame = pd.DataFrame.from_records(self.rows(), columns=[*first])
        return frame.astype({name: dtypes[kind] for name, kind in first.items() if kind in dtypes})

    def summary(self) -> list[SweepSummary]:
        """Return a line per network and method, in the order of their first points."""
        return summarise((row["network"], row["method"], row["makespan"]) for row in self.rows())

    def reasons(self) -> list[str]:
        """Return the first different errors of points that failed."""
        errors = (f"{row['error_kind']}: {row['error']}" for row in self.rows() if row["error_kind"])
        return list(dict.fromkeys(errors))[:_REASONS]

    def _headline(self) -> tuple[str, str]:
        name = self.document.spec.name or os.path.basename(self.folder)
        return f"sweep {name}", f"{counted(self.points, 'point')}, {self.failed:,} failed"

    def _table(self) -> pd.DataFrame:
        return frame_of(self.summary(), SweepSummary._fields)

    def _notes(self) -> list[str]:
        return [f"Failed: {reason}" for reason in self.reasons()] if self.failed else []


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
    """Compute every point of a spec and keep its row in `folder`.

    Finished points survive whatever ends the call, in `sweep.sqlite`: the next call with that folder goes on
    from there, also with more or other points. A point that fails is a row with its error.

    Parameters
    ----------
    spec
        A TOML file or its content.
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
        Called with a SweepProgress.
    progress
        Show a line in a notebook.

    Raises
    ------
    SpecError, FileError, UnknownNameError
        The spec, what it names or the folder cannot be used.
    WorkerError
        The workers are lost.
    """
    resolved, where, base = read_spec(spec)
    if jobs is not None and (scheduler is not None or isinstance(jobs, bool) or not 1 <= jobs <= MAX_JOBS):
        words = (
            "is for workers on this machine, leave it out" if scheduler else f"must be from 1 to {MAX_JOBS}"
        )
        raise SpecError("jobs", f"{words}, got {brief(jobs)}")
    if rows == "parquet":
        require_parquet("rows")
    sources = read_sources(resolved, where, base, allow_partial=allow_partial)
    document = SweepDocument.of(resolved, sources)
    path, text = os.fspath(folder), to_json(document.to_dict())
    identity = hashlib.sha256((text + sources.networks[0].latency_table).encode()).hexdigest()
    with SweepFolder(path, text, identity, lambda: map(sources.key, resolved.points())) as kept:
        before = kept.done
        if before < resolved.size:
            with (
                ClusterWorkers(scheduler)
                if scheduler is not None
                else LocalWorkers(jobs or cores()) as workers,
                followed(on_progress, progress, lambda now: of_sweep(*now[:3])) as callback,
            ):
                report = _Report(kept, resolved.size, callback)
                report()
                points = map(resolved.point, kept.missing())
                for finished in computed(
                    (Task(point, sources.arguments(point)) for point in points), workers
                ):
                    kept.add(_row(task.point, row, sources) for task, row in finished)
                    report()
        kept.finish(rows)
        return SweepResult(path, document, kept.done - before, kept.failed)


def sweep_status(folder: str | os.PathLike[str]) -> SweepStatus:
    """Return the progress of the sweep in a folder, running, stopped or done. Raises FileError, SpecError."""
    shown = os.fspath(folder)
    state = read_state(shown)
    return SweepStatus(
        name=_parse_document(state.document, shown).spec.name,
        points=state.points,
        done=state.done,
        failed=state.failed,
        points_per_s=state.points_per_s,
        left_s=_left_s(state.points - state.done, state.points_per_s),
    )


def read_sweep(folder: str) -> SweepDocument:
    """Read a finished sweep with its rows, as `sweep --format json` prints it. Raises FileError,
    SpecError."""
    state = read_state(folder)
    if state.done != state.points:
        words = f"has {state.done} rows of {state.points}: run `rramalloc sweep` to its end first"
        raise FileError(folder, words)
    rows = tuple(read_rows(folder))
    return _parse_document(state.document, folder).model_copy(update={"rows": rows})


def _parse_document(text: str, where: str) -> SweepDocument:
    return parse(_DOCUMENT, parse_json(text, where), where)


class _Report:
    """Tells the caller, and once a second the folder, how far a call is.

    The rate counts from its first row on: before it, workers start and compile.
    """

    def __init__(self, folder: SweepFolder, points: int, on_progress: OnProgress | None) -> None:
        self._folder, self._points, self._on_progress = folder, points, on_progress
        self._before, self._first, self._kept_s = folder.done, (0.0, 0), -_KEEP_EVERY_S

    def __call__(self) -> None:
        now_s, done = time.monotonic(), self._folder.done
        if done > self._before and self._first == (0.0, 0):
            self._first = now_s, done
        begun_s, first = self._first
        rate = (done - first) / (now_s - begun_s) if done > first > 0 and now_s > begun_s else None
        if now_s - self._kept_s >= _KEEP_EVERY_S:
            self._kept_s = now_s
            self._folder.keep_rate(rate)
        if self._on_progress is not None:
            left_s = _left_s(self._points - done, rate)
            self._on_progress(SweepProgress(self._points, done, self._folder.failed, rate, left_s))


def _left_s(points: int, points_per_s: float | None) -> float | None:
    return points / points_per_s if points_per_s else None


def _row(point: SweepPoint, row: dict[str, Any] | None, sources: Sources) -> dict[str, Any]:
    """Return the row of a point that a worker computed, or that killed all its workers."""
    if row is not None:
        return row
    error = WorkerError("every worker that tried this point died: was its memory enough?")
    return failed_row(inputs_of(point, *sources.of(point)), error).to_dict()
