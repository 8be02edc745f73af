"""Workers of a sweep: processes of this machine or of a Dask cluster, both as executors."""

from __future__ import annotations

import contextlib
import gc
import logging
import multiprocessing
import operator
import os
import pkgutil
import threading
import time
import warnings
from abc import abstractmethod
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from typing import Any, Protocol, TypeVar

from rramalloc.children import ProcessPool, python_words
from rramalloc.commands.sweep.rows import ComputedColumns, failure
from rramalloc.compiled import compilation
from rramalloc.errors import RramallocError, SpecError, WorkerError
from rramalloc.files import Closing
from rramalloc.lazy import how_to_install
from rramalloc.records import brief, is_whole
from rramalloc.version import __version__

MAX_JOBS = 4096  # processes
_WAIT_S = 0.2  # between two looks at the progress
_CONNECT_S = 15  # to reach a scheduler, after which it counts as absent
_LOOK_EVERY_S = 1.0  # between two looks at how many workers a cluster has
_RESUME = "what is finished is kept: the same command goes on from there"


def check_jobs(jobs: int | None, scheduler: str | None) -> None:
    """Raise SpecError unless a number of processes is one that a machine has, without a scheduler."""
    if jobs is not None and (scheduler is not None or not is_whole(jobs, 1, MAX_JOBS)):
        words = f"must be from 1 to {MAX_JOBS}"
        if scheduler:
            words = "is for workers on this machine, leave it out"
        raise SpecError("jobs", f"{words}, got {brief(jobs)}")


class Submitted(Protocol):
    """Task of a worker: a hashable point of a sweep, or a search of `size`."""

    @property
    def call(self) -> tuple[Any, ...]:
        """Name of a function ("module:function") and its arguments.

        They are plain values, for schedulers and workers that lack the package.
        """


class Workers(Closing):
    """Processes or machines that compute points; no row depends on them. Closing ends or leaves all at once.

    deaths: of workers over one point alone, after which that point is a row with an error; death: what a
    future raises if its worker has died; name: of all workers, in messages.
    """

    deaths: int
    death: type[Exception]
    name: str

    @abstractmethod
    def width(self) -> int:
        """Return the points that may be under way at a time. Raises WorkerError if the workers are lost."""

    @abstractmethod
    def submit(self, point: Submitted) -> Future[ComputedColumns]:
        """Return the future results of a point; they may raise `death`. Raises WorkerError."""

    def others(self, point: Submitted) -> str:
        """Return in brackets which workers do not have this version of rramalloc, and what they have."""
        return ""

    def lost(self, error: BaseException) -> WorkerError:
        """Return the error of workers that are gone."""
        return WorkerError(f"lost {self.name} ({_first_line(error)}); {_RESUME}")


def compute(function: str, *arguments: Any) -> ComputedColumns:
    """Call a function by its name in a worker: the driver loads none of the code of searches."""
    found: ComputedColumns = pkgutil.resolve_name(function)(*arguments)
    return found


T = TypeVar("T", bound=Submitted)


def computed_points(points: Iterator[T], workers: Workers) -> Iterator[list[tuple[T, ComputedColumns]]]:
    """Yield points with their results as they are finished, an empty list from time to time.

    Points under way when a worker dies are tried again one at a time, so that only one that kills its workers
    becomes an error. Raises WorkerError.
    """
    suspects: deque[T] = deque()
    alone: T | None = None
    deaths: Counter[T] = Counter()
    flying: dict[Future[ComputedColumns], T] = {}
    while True:
        width = workers.width()
        if not flying:
            alone = suspects.popleft() if suspects else None
            if alone is not None:
                flying[workers.submit(alone)] = alone
        while alone is None and not suspects and len(flying) < width and (point := next(points, None)):
            flying[workers.submit(point)] = point
        if not flying:
            return
        finished: list[tuple[T, ComputedColumns]] = []
        for future in wait(flying, _WAIT_S, FIRST_COMPLETED).done:
            point = flying.pop(future)
            try:
                finished.append((point, future.result()))
            except workers.death:
                deaths[point] += point is alone
                if deaths[point] < workers.deaths:
                    suspects.append(point)
                else:
                    words = "every worker that tried this point died: was its memory enough?"
                    finished.append((point, failure(WorkerError(words))))
            except (CancelledError, OSError) as error:
                raise workers.lost(error) from None
            except WorkerError as error:
                raise WorkerError(f"{error}{workers.others(point)}; {_RESUME}") from None
            except RramallocError as error:  # of its environment, not of another version
                raise WorkerError(f"a worker cannot run the sweep: {error}; {_RESUME}") from None
            except Exception as error:  # noqa: BLE001 - a row says what failed: the worker has other code
                words = f"a worker cannot run the sweep ({type(error).__name__}: {_first_line(error)})"
                words += f": install the same rramalloc on all workers{workers.others(point)}"
                raise WorkerError(f"{words}; {_RESUME}") from None
        yield finished


class LocalWorkers(Workers):
    """Processes of this machine, which end when the driver closes them, ends or is killed."""

    deaths = 3  # one may be chance: a user or the system ended a process that took memory
    death = BrokenProcessPool
    name = "the worker processes"

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        _check_room(4 + 2 * jobs)  # two in each process and of the pool, this thread's and one that cleans up
        compilation.speak_for_workers()
        self._living, self._driver = multiprocessing.Pipe(duplex=False)
        self._pool = ProcessPool(jobs, _begin, self._living)

    def width(self) -> int:
        """Return two for each process, so that none waits for the driver."""
        return 2 * self._jobs

    def submit(self, point: Submitted) -> Future[ComputedColumns]:
        """Make the next process that is free compute a point; dead processes are replaced first."""
        try:
            return self._pool.submit(compute, *point.call)
        except BrokenProcessPool:
            self._pool.shutdown()
            self._pool = ProcessPool(self._jobs, _begin, self._living)
            try:
                self._pool.submit(os.getpid).result()
            except BrokenProcessPool:
                words = "worker processes end before they begin: is memory short, or ulimit -n or -u?"
                raise WorkerError(words) from None
            return self._pool.submit(compute, *point.call)

    def close(self) -> None:
        """End all processes, busy ones too."""
        self._driver.close()
        self._pool.shutdown(cancel_futures=True)
        self._living.close()


def _check_room(threads: int) -> None:
    """Start `threads` threads at once: a pool that cannot waits for ever. Raises RuntimeError."""
    done = threading.Event()
    try:
        for _ in range(threads):
            threading.Thread(target=done.wait, daemon=True).start()
    finally:
        done.set()


def _begin(living: Connection) -> None:
    """Set up a worker process: it ends with the driver, says nothing, and what a solver prints goes nowhere.

    living: end of a pipe whose other end only the driver has, and never writes to.
    """

    def watch() -> None:
        with contextlib.suppress(EOFError, OSError):
            living.recv_bytes()
        os._exit(1)

    compilation.on_note = str
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one process per core; it hangs without its threads
    threading.Thread(target=watch, daemon=True).start()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


class ClusterWorkers(Workers):
    """The cluster of a Dask scheduler, of which only the workers need the package.

    Results that a dying worker takes with it are computed again; workers that join later are used.
    Raises WorkerError if the scheduler cannot be reached or is lost.
    """

    deaths = 1  # the scheduler has tried a point on several workers before it reports a death

    def __init__(self, address: str) -> None:
        try:
            from distributed import Client, KilledWorker
        except ImportError:
            words = f"a Dask cluster needs the package 'distributed': {how_to_install('dask')}"
            raise WorkerError(words) from None
        if not address.strip():  # the library would start a cluster of its own
            raise WorkerError("no Dask scheduler answers at '': give its tcp:// address")
        self.death, self.name = KilledWorker, f"the Dask scheduler at {address}"
        self._levels = _silence()
        gc.collect()  # a client that never started, collected while another starts, would wait for ever
        try:
            self._client = Client(address, timeout=_CONNECT_S, set_as_default=False)
        except Exception as error:  # noqa: BLE001 - whatever the library raises, nobody answers
            words = f"no Dask scheduler answers at {address[:200]!r} ({_first_line(error)})"
            raise WorkerError(f"{words}: is it running, and is that its tcp:// address?") from None
        # by name: a scheduler or worker that is sent a function that it cannot import fails without words
        self._compute: Any = self._client.submit(pkgutil.resolve_name, f"{__name__}:compute", pure=False)
        self._executor = self._client.get_executor(pure=False)
        self._address, self._width, self._looked_s = address, 0, -_LOOK_EVERY_S

    def width(self) -> int:
        """Return a few points for every thread of the present workers, counted from time to time."""
        if time.monotonic() - self._looked_s >= _LOOK_EVERY_S:
            try:
                threads = sum(self._client.nthreads().values())
            except Exception as error:  # noqa: BLE001 - whatever the library raises, nobody answers
                raise self.lost(error) from None
            if not threads:
                start = python_words("-m", "dask", "worker", self._address)
                words = f"{self.name} has no worker yet, nothing is computed: start one with {start}"
                warnings.warn(words, stacklevel=2)
            self._width, self._looked_s = 4 * max(1, threads), time.monotonic()
        return self._width

    def submit(self, point: Submitted) -> Future[ComputedColumns]:
        """Make the cluster compute a point."""
        future: Future[ComputedColumns] = self._executor.submit(operator.call, self._compute, *point.call)
        return future

    def others(self, point: Submitted) -> str:
        """Return in brackets which workers do not have this version of rramalloc, and what they have."""
        name = f"{point.call[0].partition(':')[0]}:__version__"
        with contextlib.suppress(Exception):  # it is lost while an error of it is told
            found = self._client.run(pkgutil.resolve_name, name, on_error="return")
            other = {address: version for address, version in found.items() if version != __version__}
            named = ", ".join(f"{address}: {brief(str(version))}" for address, version in other.items())
            return f" ({named})" if named else ""
        return ""

    def close(self) -> None:
        """Take back what is under way and leave the cluster."""
        with contextlib.suppress(Exception):
            self._executor.shutdown(wait=False)
        with contextlib.suppress(Exception):
            self._client.close(timeout=2)
        for logger, level in self._levels.items():
            logger.setLevel(level)


def _silence() -> dict[logging.Logger, int]:
    """Keep the library's tracebacks off stderr, its errors become ours; returns the levels before."""
    names = ("distributed", *(f"distributed.{part}" for part in ("client", "comm", "core", "utils")))
    levels = {logger: logger.level for logger in map(logging.getLogger, (*names, "tornado.application"))}
    for logger in levels:
        logger.setLevel(logging.CRITICAL)
    return levels


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
