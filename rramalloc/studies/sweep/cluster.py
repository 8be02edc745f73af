"""ClusterWorkers: an existing Dask cluster, whose workers need nothing but the package."""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import logging
import operator
import pkgutil
import time
from concurrent.futures import CancelledError, Future
from typing import Any

from rramalloc.errors import WorkerError
from rramalloc.lazy import how_to_install
from rramalloc.studies.sweep.workers import Document, WorkerDied

_CONNECT_S = 15
_PER_THREAD = 4
_LOOK_EVERY_S = 1.0
_RUN_BATCH = "rramalloc.studies.sweep.compute:run_batch"
_RESUME = "what is finished is kept: the same command goes on from there"


class ClusterWorkers:
    """Computes batches on the cluster of a Dask scheduler.

    Results that a dying worker takes with it are computed again; workers that join later are used.
    Raises WorkerError if the scheduler cannot be reached or is lost.
    """

    deaths = 1  # the scheduler has tried a batch on several workers before it reports a death
    attributes_deaths = False  # it blames all batches of a worker that dies

    def __init__(self, address: str) -> None:
        try:
            from distributed import Client
        except ImportError:
            words = f"a Dask cluster needs the package 'distributed': {how_to_install('dask')}"
            raise WorkerError(words) from None
        if not address.strip():  # the library would start a cluster of its own
            raise WorkerError("no Dask scheduler answers at '': give its tcp:// address")
        self._address = address
        self._levels = _silence()
        gc.collect()  # a client that never started, collected while another starts, would wait for ever
        try:
            self._client = Client(address, timeout=_CONNECT_S, set_as_default=False)
        except Exception as error:  # noqa: BLE001 - whatever the library raises, nobody answers
            words = f"no Dask scheduler answers at {address[:200]!r} ({_first_line(error)})"
            raise WorkerError(f"{words}: is it running, and is that its tcp:// address?") from None
        self._tasks: dict[Future[Document], Any] = {}
        self._numbers = itertools.count()
        self._room, self._looked_s = 0, -_LOOK_EVERY_S

    def room(self) -> int:
        """A few batches for every thread of the workers there are, looked up from time to time."""
        if time.monotonic() - self._looked_s >= _LOOK_EVERY_S:
            try:
                threads = sum(self._client.nthreads().values())
            except Exception as error:  # noqa: BLE001 - whatever the library raises, nobody answers
                raise self._lost(error) from None
            self._room, self._looked_s = _PER_THREAD * max(1, threads), time.monotonic()
        return self._room

    def submit(self, document: Document) -> Future[Document]:
        """Have the cluster compute a batch, by the name of the function.

        A worker that is sent a function it cannot import leaves the cluster; one that cannot resolve the
        name answers with an error.
        """
        key = f"{self._client.id}-{next(self._numbers)}"
        function = (pkgutil.resolve_name, _RUN_BATCH)
        graph = {key: (operator.call, function, (json.loads, json.dumps(document)))}
        answer: Future[Document] = Future()
        task = self._tasks[answer] = self._client.get(graph, key, sync=False)
        task.add_done_callback(lambda task: self._collect(task, answer))
        return answer

    def close(self) -> None:
        """Take back what is under way and leave the cluster."""
        with contextlib.suppress(Exception):
            if self._tasks:
                self._client.cancel(list(self._tasks.values()), force=True)
        with contextlib.suppress(Exception):
            self._client.close(timeout=2)
        for logger, level in self._levels.items():
            logger.setLevel(level)

    def _collect(self, task: Any, answer: Future[Document]) -> None:
        """Pass on how a task ended, in a thread of the library."""
        from distributed import KilledWorker

        try:
            result = task.result(timeout=_CONNECT_S)
        except KilledWorker:
            answer.set_exception(WorkerDied())
        except TimeoutError:  # its result was lost with a worker and is being computed again
            task.add_done_callback(lambda task: self._collect(task, answer))
            return
        except (CancelledError, OSError) as error:
            answer.set_exception(self._lost(error))
        except Exception as error:  # noqa: BLE001 - run_batch raises nothing: the worker does not have it
            words = f"a worker cannot run the sweep ({type(error).__name__}: {_first_line(error)})"
            words += f": install the same rramalloc on all workers; {_RESUME}"
            answer.set_exception(WorkerError(words))
        else:
            answer.set_result(result)
        self._tasks.pop(answer, None)

    def _lost(self, error: BaseException) -> WorkerError:
        reason = _first_line(error)
        return WorkerError(f"lost the Dask scheduler at {self._address} ({reason}); {_RESUME}")


def _silence() -> dict[logging.Logger, int]:
    """Keep the library's tracebacks off stderr, its errors become ours; returns the levels before."""
    loggers = [
        logging.getLogger(f"distributed{part}") for part in ("", ".client", ".comm", ".core", ".utils")
    ]
    levels = {logger: logger.level for logger in loggers}
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    return levels


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
