"""`sweep`: from a spec to a folder with a row for every point; `sweep_status`: how far it is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import TypeAdapter

from rramalloc.choices import RowsFormat
from rramalloc.errors import FileError, SpecError
from rramalloc.files import parse_json, to_json
from rramalloc.plots import SweepPlots
from rramalloc.progress import followed, of_sweep
from rramalloc.records import brief, parse
from rramalloc.result import Result, frame_of
from rramalloc.search.cores import cores
from rramalloc.studies.sweep.rows import SweepDocument, SweepRow, SweepStatus, SweepSummary, summarise
from rramalloc.studies.sweep.spec import Spec, read_spec
from rramalloc.studies.sweep.store import (
    Place,
    Store,
    check_rows_format,
    read_rows,
    read_state,
)
from rramalloc.studies.sweep.sweep_sources import Sources, read_sources
from rramalloc.studies.sweep.workers import Distribution, LocalWorkers, Workers
from rramalloc.units import counted

if TYPE_CHECKING:
    import pandas as pd

MAX_JOBS = 4096
_KEEP_EVERY_S = 1.0
_REASONS = 3
_DOCUMENT: TypeAdapter[SweepDocument] = TypeAdapter(SweepDocument)
_ROWS: TypeAdapter[tuple[SweepRow, ...]] = TypeAdapter(tuple[SweepRow, ...])


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
    error; damaged: rows that were computed again because their checksum did not hold.
    """

    folder: str
    document: SweepDocument
    computed: int
    failed: int
    damaged: int = 0

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
        return read_rows(self.folder)

    def to_dict(self) -> dict[str, Any]:
        """The spec as it was resolved, and all rows."""
        return self.document.to_dict() | {"rows": list(self.rows())}

    def to_frame(self) -> pd.DataFrame:
        """One row per point, columns as the fields of SweepRow; what a failed point lacks is NA."""
        import pandas as pd

        frame = pd.DataFrame.from_records(self.rows(), columns=[*SweepRow.model_fields])
        dtypes: dict[Any, str] = {
            int: "Int64",
            int | None: "Int64",
            float | None: "float64",
            float | int | None: "float64",
            float | int | None: "float64",
            bool | None: "boolean",
        }
        kinds = {name: dtypes.get(field.annotation) for name, field in SweepRow.model_fields.items()}
        return frame.astype({name: dtype for name, dtype in kinds.items() if dtype})

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
    from there. A point that fails is a row with its error.

    Parameters
    ----------
    spec
        A TOML file or its content.
    folder
        An empty folder, a new one, or that of the same or a smaller sweep.
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
    check_rows_format(rows)
    sources = read_sources(resolved, where, base, allow_partial=allow_partial)
    document = SweepDocument.of(resolved, sources)
    path, size = os.fspath(folder), resolved.size
    with Store(path, to_json(document.to_dict()), size, lambda: _places(resolved, sources)) as store:
        before = store.done
        if before < size:
            workers = _workers(scheduler, jobs, size - before)
            try:
                with followed(on_progress, progress, lambda now: of_sweep(*now[:3])) as callback:
                    distribution = Distribution(resolved, sources, store.missing(), size - before)
                    clock = _Clock(store, size, before, callback, distribution)
                    clock.report()
                    for finished in distribution.rows(workers):
                        store.add(finished)
                        clock.report()
            finally:
                workers.close()
        store.finish(rows)
    return SweepResult(path, document, store.done - before, store.failed, store.damaged)


def sweep_status(folder: str | os.PathLike[str]) -> SweepStatus:
    """How far the sweep in a folder is, running, stopped or done. Raises FileError, SpecError."""
    shown = os.fspath(folder)
    state = read_state(shown)
    document = _parse_document(state.document, shown)
    points_per_s, left_s = _rate(state.computed, state.seconds, state.points - state.done)
    return SweepStatus(
        name=document.spec.name,
        points=state.points,
        done=state.done,
        failed=state.failed,
        points_per_s=points_per_s,
        left_s=left_s,
    )


def read_sweep(folder: str) -> SweepDocument:
    """A finished sweep with its rows, as `sweep --format json` prints it. Raises FileError, SpecError."""
    state = read_state(folder)
    if state.done != state.points:
        words = f"has {state.done} rows of {state.points}: run `rramalloc sweep` to its end first"
        raise FileError(folder, words)
    rows = parse(_ROWS, tuple(read_rows(folder)), folder)
    return _parse_document(state.document, folder).model_copy(update={"rows": rows})


def _parse_document(text: str, where: str) -> SweepDocument:
    return parse(_DOCUMENT, parse_json(text, where), where)


@dataclass(slots=True)
class _Clock:
    """The rate of one call: points that it computed in the time it took, without that of compilation."""

    store: Store
    points: int
    before: int
    on_progress: OnProgress | None
    distribution: Distribution
    _begun_s: float = field(default_factory=time.monotonic)
    _kept_s: float = -_KEEP_EVERY_S

    def report(self) -> None:
        """Report the progress to the caller, and once a second to the folder."""
        now_s, computed = time.monotonic(), self.store.done - self.before
        seconds = max(0.0, now_s - self._begun_s - self.distribution.compiled_s)
        if now_s - self._kept_s >= _KEEP_EVERY_S:
            self._kept_s = now_s
            self.store.keep_rate(computed, seconds)
        if self.on_progress is not None:
            rate = _rate(computed, seconds, self.points - self.store.done)
            self.on_progress(SweepProgress(self.points, self.store.done, self.store.failed, *rate))


def _rate(computed: int, seconds: float, left: int) -> tuple[float | None, float | None]:
    """Points per second, and the time that the points left will take."""
    if computed <= 0 or seconds <= 0:
        return None, None
    return computed / seconds, left * seconds / computed


def _workers(scheduler: str | None, jobs: int | None, points: int) -> Workers:
    if scheduler is None:
        return LocalWorkers(min(jobs or cores(), points))
    from rramalloc.studies.sweep.cluster import ClusterWorkers

    return ClusterWorkers(scheduler)


def _places(spec: Spec, sources: Sources) -> Place:
    """Finds points by the keys of their rows."""
    numbers = {bytes.fromhex(sources.key(point)): number for number, point in enumerate(spec.points())}
    return lambda key: numbers.get(bytes.fromhex(key))
