"""Workers on this machine: one process per core, replaced when it dies."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from rramalloc.errors import WorkerError
from rramalloc.studies.sweep.batch import Batches, Finished

_WAIT_S = 0.05
_CHUNK_BYTES = 2**20
_MOST_FALSE_STARTS = 3
_CODE = "import sys; from rramalloc.studies.sweep.worker import main; main(int(sys.argv[1]))"


@dataclass(eq=False, slots=True)
class _Worker:
    """A process; numbers: the points it is at, None while it starts, empty while it waits."""

    process: subprocess.Popen[bytes]
    numbers: list[int] | None = None
    received: bytearray = field(default_factory=bytearray)


class LocalWorkers:
    """Computes batches in worker processes. Raises WorkerError if none can be started."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._workers: list[_Worker] = []
        self._selector = selectors.DefaultSelector()
        self._false_starts = 0

    def rows(self, batches: Batches) -> Iterator[Finished]:
        """Rows as they are finished, until there are none left; an empty list from time to time."""
        for _ in range(self._jobs):
            self._start()
        while True:
            for worker in self._workers:
                if worker.numbers == []:
                    yield self._give(worker, batches)
            if not any(worker.numbers for worker in self._workers) and batches.ended:
                return
            for key, _ in self._selector.select(_WAIT_S):
                yield self._listen(key.data, batches)
            yield []

    def close(self) -> None:
        """End all workers, whatever they are at."""
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            _bury(worker)
        self._selector.close()

    def _start(self) -> None:
        """Not by `multiprocessing`, which would run the caller's main module again."""
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        command = [sys.executable, "-P", "-c", _CODE, str(os.getpid())]
        environment = os.environ | {"PYTHONPATH": path}
        process = subprocess.Popen(  # noqa: S603 - this interpreter, with arguments of our own
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        worker = _Worker(process)
        self._workers.append(worker)
        if process.stdout is not None:
            self._selector.register(process.stdout, selectors.EVENT_READ, worker)

    def _give(self, worker: _Worker, batches: Batches) -> Finished:
        """Hand a waiting worker its next batch."""
        worker.numbers = batches.take()
        if not worker.numbers or worker.process.stdin is None:
            return []
        line = json.dumps(batches.document(worker.numbers), separators=(",", ":")).encode() + b"\n"
        try:
            worker.process.stdin.write(line)
            worker.process.stdin.flush()
        except BrokenPipeError:
            return self._replace(worker, batches)
        return []

    def _listen(self, worker: _Worker, batches: Batches) -> Finished:
        """Take what a worker says; its end is noticed by silence."""
        if worker.process.stdout is None:
            return []
        said = os.read(worker.process.stdout.fileno(), _CHUNK_BYTES)
        if not said:
            return self._replace(worker, batches)
        worker.received += said
        if not said.endswith(b"\n"):
            return []
        answer = json.loads(worker.received)
        worker.received.clear()
        numbers, worker.numbers = worker.numbers, []
        if numbers is None:
            self._false_starts = 0
            return []
        return batches.finished(numbers, answer)

    def _replace(self, worker: _Worker, batches: Batches) -> Finished:
        self._selector.unregister(worker.process.stdout)  # type: ignore[arg-type]
        self._workers.remove(worker)
        code = _bury(worker)
        if worker.numbers is None:
            self._false_starts += 1
            if self._false_starts >= _MOST_FALSE_STARTS:
                raise WorkerError(
                    f"worker processes end with code {code} before they begin: is memory short?"
                )
        self._start()
        return batches.lost(worker.numbers) if worker.numbers else []


def _bury(worker: _Worker) -> int:
    """Exit code of a worker that is dead or dying."""
    for pipe in (worker.process.stdin, worker.process.stdout):
        with contextlib.suppress(OSError):
            if pipe is not None:
                pipe.close()
    worker.process.kill()
    return worker.process.wait()
