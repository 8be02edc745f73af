"""Workers of an existing Dask cluster: the same batches, whose workers need nothing but the package."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import operator
import pkgutil
import queue
import time
from collections.abc import Iterator
from typing import Any

from rramalloc.errors import WorkerError
from rramalloc.studies.sweep.batch import Batches, Document, Finished

_WAIT_S = 0.05
_CONNECT_S = 15
_PER_THREAD = 4
_LOOK_EVERY_S = 1.0
_RUN_BATCH = "rramalloc.studies.sweep.batch:run_batch"
_RESUME = "what is finished is kept: the same command goes on from there"


class ClusterWorkers:
    """Computes batches on the cluster of a Dask scheduler, a bounded number of them in flight.

    Results that a dying worker takes with it are computed again; workers that join later are used.
    Raises WorkerError if the scheduler cannot be reached or is lost.
    """

    def __init__(self, address: str) -> None:
        try:
            from distributed import Client
        except ImportError:
            raise WorkerError(
                "a Dask cluster needs the package 'distributed': pip install 'rramalloc[dask]'"
            ) from None
        if not address.strip():  # the library would start a cluster of its own
            raise WorkerError("no Dask scheduler answers at '': give its tcp:// address")
        self._address = address
        self._levels = _silence()
        try:
            self._client = Client(address, timeout=_CONNECT_S, set_as_default=False)
        except Exception as error:  # noqa: BLE001 - whatever the library raises, nobody answers
            words = f"no Dask scheduler answers at {address[:200]!r} ({_first_line(error)})"
            raise WorkerError(f"{words}: is it running, and is that its tcp:// address?") from None
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._flying: dict[Any, list[int]] = {}
        self._numbers = itertools.count()
        self._alone = False
        self._room, self._looked_s = 0, -_LOOK_EVERY_S

    def rows(self, batches: Batches) -> Iterator[Finished]:
        """Rows as they are finished, until there are none left; an empty list from time to time."""
        while True:
            self._submit(batches)
            if not self._flying and batches.ended:
                return
            with contextlib.suppress(queue.Empty):
                while True:
                    future = self._done.get(timeout=_WAIT_S)
                    yield self._landed(future, self._flying.pop(future), batches)
                    self._submit(batches)
            yield []

    def close(self) -> None:
        """Take back what is in flight and leave the cluster."""
        with contextlib.suppress(Exception):
            if self._flying:
                self._client.cancel(list(self._flying), force=True)
        with contextlib.suppress(Exception):
            self._client.close(timeout=2)
        for logger, level in self._levels.items():
            logger.setLevel(level)

    def _submit(self, batches: Batches) -> None:
        self._look()
        while self._may_submit(batches):
            self._alone = batches.suspect
            numbers = batches.take()
            if not numbers:
                return
            future = self._fly(batches.document(numbers))
            self._flying[future] = numbers
            future.add_done_callback(self._done.put)

    def _fly(self, document: Document) -> Any:
        """A future of `run_batch`, which the worker finds by its name.

        A worker that is sent a function it cannot import leaves the cluster; one that cannot find it says so.
        """
        key = f"{self._client.id}-{next(self._numbers)}"
        found = (pkgutil.resolve_name, _RUN_BATCH)
        task = (operator.call, found, (json.loads, json.dumps(document)))
        return self._client.get({key: task}, key, sync=False)

    def _may_submit(self, batches: Batches) -> bool:
        """A scheduler blames all points of a worker that dies, so a suspect flies with no other point."""
        if batches.suspect or self._alone:
            return not self._flying
        return len(self._flying) < self._room

    def _look(self) -> None:
        """See from time to time whether the scheduler is there, and how many threads its workers have."""
        if time.monotonic() - self._looked_s < _LOOK_EVERY_S:
            return
        try:
            threads = sum(self._client.nthreads().values())
        except Exception as error:  # noqa: BLE001 - whatever the library raises, nobody answers
            raise self._lost(error) from None
        self._room, self._looked_s = _PER_THREAD * max(1, threads), time.monotonic()

    def _landed(self, future: Any, numbers: list[int], batches: Batches) -> Finished:
        """The rows of a batch that has come back in one way or another."""
        from concurrent.futures import CancelledError

        from distributed import KilledWorker

        try:
            return batches.finished(numbers, future.result(timeout=_CONNECT_S))
        except WorkerError:
            raise
        except KilledWorker:
            return batches.lost(numbers, for_good=True)
        except TimeoutError:  # its result went with a worker and is being computed again
            self._flying[future] = numbers
            future.add_done_callback(self._done.put)
            return []
        except (CancelledError, OSError) as error:
            raise self._lost(error) from None
        except Exception as error:  # noqa: BLE001 - run_batch raises nothing: the worker has not got it
            words = f"a worker cannot run the sweep ({type(error).__name__}: {_first_line(error)})"
            raise WorkerError(f"{words}: install the same rramalloc on all workers; {_RESUME}") from None

    def _lost(self, error: BaseException) -> WorkerError:
        reason = _first_line(error)
        return WorkerError(f"lost the Dask scheduler at {self._address} ({reason}); {_RESUME}")


def _silence() -> dict[logging.Logger, int]:
    """Keep the library's tracebacks off stderr, its errors are told in words; returns the levels before."""
    loggers = [
        logging.getLogger(f"distributed{part}") for part in ("", ".client", ".comm", ".core", ".utils")
    ]
    levels = {logger: logger.level for logger in loggers}
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    return levels


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
