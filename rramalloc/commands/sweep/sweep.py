"""`sweep`: from a spec to a folder with a row for every point; `sweep_status`: how far it is."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_args

from pydantic import TypeAdapter

from rramalloc.choices import RowsFormat
from rramalloc.commands.sweep.folder import SweepFolder, read_rows, read_state
from rramalloc.commands.sweep.rows import (
    SweepDocument,
    SweepRow,
    SweepStatus,
    SweepSummary,
    failed_row,
    inputs_of,
    summarise,
)
from rramalloc.commands.sweep.sources import Sources, read_sources
from rramalloc.commands.sweep.spec import SweepPoint, read_spec
from rramalloc.commands.sweep.workers import ClusterWorkers, LocalWorkers, Task, computed
from rramalloc.errors import FileError, SpecError, WorkerError
from rramalloc.files import parse_json, to_json
from rramalloc.parquet import require_parquet
from rramalloc.plots import SweepPlots
from rramalloc.progress import followed, of_sweep
from rramalloc.records import brief, parse
from rramalloc.result import Result, frame_of
from rramalloc.search.cores import cores
from rramalloc.units import counted

if TYPE_CHECKING:
    import pandas as pd

MAX_JOBS = 4096
_KEEP_EVERY_S = 1.0  # a write of the rate waits for the disk, as one of a row does
_REASONS = 3
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
        """All rows in the order of the grid, one at a time in memory."""
        return (row.model_dump() for row in read_rows(self.folder))

    def to_dict(self) -> dict[str, Any]:
        """The spec as it was resolved, and all rows."""
        return self.document.to_dict() | {"rows": list(self.rows())}

    def to_frame(self) -> pd.DataFrame:
        """One row per point, columns as the fields of SweepRow; what a failed point lacks is NA."""
        import pandas as pd

        dtypes = {int: "Int64", float: "float64", bool: "boolean"}
        fields = SweepRow.model_fields.items()
        first = {name: (get_args(field.annotation) or (field.annotation,))[0] for name, field in fields}
        frame = pd.DataFrame.from_records(self.rows(), columns=[*first])
        return frame.astype({name: dtypes[kind] for name, kind in first.items() if kind in dtypes})

    def summary(self) -> list[SweepSummary]:
        """A line per network and method, in the order of their first points."""
        return summarise((row["network"], row["method"], row["makespan"]) for row in self.rows())

    def reasons(self) -> list[str]:
        """The first different errors of points that failed."""
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
                for finished in computed((Task(point, sources.task(point)) for point in points), workers):
                    kept.add(_row(task.point, row, sources) for task, row in finished)
                    report()
        kept.finish(rows)
        return SweepResult(path, document, kept.done - before, kept.failed)


def sweep_status(folder: str | os.PathLike[str]) -> SweepStatus:
    """How far the sweep in a folder is, running, stopped or done. Raises FileError, SpecError."""
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
    """A finished sweep with its rows, as `sweep --format json` prints it. Raises FileError, SpecError."""
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


def _row(point: SweepPoint, row: str | None, sources: Sources) -> dict[str, Any]:
    """The row of a point that a worker computed, or that killed all its workers."""
    if row is not None:
        return cast("dict[str, Any]", json.loads(row))
    error = WorkerError("every worker that tried this point died: was its memory enough?")
    return failed_row(inputs_of(point, *sources.of(point)), error).model_dump()
