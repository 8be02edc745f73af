"""`sweep`: the one call from a spec to a folder with a row for every point."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from rramalloc.errors import SpecError
from rramalloc.files import to_json
from rramalloc.progress import followed, of_sweep
from rramalloc.records import brief
from rramalloc.search.cores import cores
from rramalloc.studies.sweep.adopt import Place
from rramalloc.studies.sweep.batch import Batches, Finished
from rramalloc.studies.sweep.document import document_of
from rramalloc.studies.sweep.grid import Grid
from rramalloc.studies.sweep.progress import Clock, OnProgress, SweepProgress
from rramalloc.studies.sweep.result import SweepResult
from rramalloc.studies.sweep.sources import Sources, read_sources
from rramalloc.studies.sweep.spec import read_spec
from rramalloc.studies.sweep.store import Store

MAX_JOBS = 4096


class Workers(Protocol):
    """Where batches are computed; no row depends on it."""

    def rows(self, batches: Batches) -> Iterator[Finished]:
        """Rows as they are finished, until there are none left; an empty list from time to time."""
        ...

    def close(self) -> None:
        """Let go of all workers, whatever they are at."""
        ...


def sweep(
    spec: str | os.PathLike[str] | Mapping[str, Any],
    folder: str | os.PathLike[str],
    *,
    scheduler: str | None = None,
    jobs: int | None = None,
    on_progress: OnProgress | None = None,
    progress: bool = True,
) -> SweepResult:
    """Compute every point of a spec and keep its row in `folder`, a Parquet dataset.

    spec: a TOML file or its content; scheduler: address of a Dask scheduler ("tcp://host:8786") whose workers
    do the work, None for `jobs` processes on this machine (None: one per core). Finished points survive
    whatever ends the call: the next call with that folder goes on from there. A point that fails is a row
    with its error. progress: show a line in a notebook.
    Raises SpecError, FileError, UnknownNameError; WorkerError if the workers are lost.
    """
    found, where, base = read_spec(spec)
    if jobs is not None and (scheduler is not None or isinstance(jobs, bool) or not 1 <= jobs <= MAX_JOBS):
        told = (
            "is for workers on this machine, leave it out" if scheduler else f"must be from 1 to {MAX_JOBS}"
        )
        raise SpecError("jobs", f"{told}, got {brief(jobs)}")
    sources = read_sources(found, where, base)
    grid = Grid(found)
    document = document_of(found, sources)
    shown = os.fspath(folder)
    with Store(shown, to_json(document.to_dict()), grid.size, lambda: _places(grid, sources)) as store:
        before = store.done
        if before < grid.size:
            workers = _workers(scheduler, jobs, grid.size - before)
            try:
                with followed(on_progress, progress, _told) as tell:
                    clock = Clock(shown, grid.size, before, tell)
                    _compute(store, workers, Batches(grid, sources, store.missing()), clock)
            finally:
                workers.close()
        computed, failed = store.done - before, store.failed
    return SweepResult(shown, document, computed, failed)


def _workers(scheduler: str | None, jobs: int | None, points: int) -> Workers:
    if scheduler is not None:
        from rramalloc.studies.sweep.cluster import ClusterWorkers

        return ClusterWorkers(scheduler)
    from rramalloc.studies.sweep.local import LocalWorkers

    return LocalWorkers(min(jobs or cores(), points))


def _told(now: SweepProgress) -> str:
    return of_sweep(now.points, now.done, now.failed)


def _compute(store: Store, workers: Workers, batches: Batches, clock: Clock) -> None:
    clock.tell(store.done, store.failed)
    for rows in workers.rows(batches):
        for number, row in rows:
            store.add(number, row)
        store.commit()
        clock.tell(store.done, store.failed)


def _places(grid: Grid, sources: Sources) -> Place:
    """Finds points by the keys of their rows."""
    numbers = {bytes.fromhex(sources.key(point)): number for number, point in enumerate(grid)}

    def place(key: str) -> int | None:
        return numbers.get(bytes.fromhex(key))

    return place
