"""Workers: points go out in batches of plain JSON values, to processes here or to a Dask cluster.

Both are used through `concurrent.futures`: a batch is a future, and one loop hands out and collects.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Protocol

from rramalloc.errors import WorkerError
from rramalloc.studies.sweep.rows import failed_row, inputs_of
from rramalloc.studies.sweep.spec import Spec
from rramalloc.studies.sweep.sweep_sources import Sources
from rramalloc.version import __version__

_WAIT_S = 0.2
_MOST_POINTS = 64
_MOST_FALSE_STARTS = 3
_CODE = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"  # the driver handles Ctrl-C
    "from rramalloc.studies.sweep.compute import serve; serve(int(sys.argv[1]))"
)

Document = dict[str, Any]
"""A batch on its way: version, points, and the networks and hardware they refer to; or the answer."""
Finished = list[tuple[int, dict[str, Any]]]
"""Number of a point in the grid, and its row."""


class WorkerDied(Exception):  # noqa: N818 - an event that the loop below handles
    """The worker of a batch has ended without an answer."""


class Workers(Protocol):
    """Where batches are computed; no row depends on it.

    deaths: of workers over one point alone, after which that point is a row with an error;
    attributes_deaths: whether a death is reported for the batch of that worker only.
    """

    deaths: int
    attributes_deaths: bool

    def room(self) -> int:
        """Batches that may be under way at a time. Raises WorkerError if the workers are lost."""
        ...

    def submit(self, document: Document) -> Future[Document]:
        """The answer of `run_batch`; the future may raise WorkerDied or WorkerError."""
        ...

    def close(self) -> None:
        """End or leave all workers at once."""
        ...


class Distribution:
    """Hands out the missing points until each has its row.

    missing: their numbers in rising order; points: how many they are. A batch whose worker dies is tried
    again point by point, so that only a point that kills its workers becomes a row with that error.
    """

    def __init__(self, spec: Spec, sources: Sources, missing: Iterator[int], points: int) -> None:
        self._spec, self._sources, self._missing, self._left = spec, sources, missing, points
        self._again: deque[int] = deque()
        self._suspects: deque[int] = deque()
        self._deaths: Counter[int] = Counter()
        self._flying: dict[Future[Document], list[int]] = {}
        self._compiled_s: dict[str, tuple[float, float]] = {}

    @property
    def compiled_s(self) -> float:
        """Seconds of compilation during this sweep, on average over its workers."""
        spent = [after - before for before, after in self._compiled_s.values()]
        return sum(spent) / max(1, len(spent))

    def rows(self, workers: Workers) -> Iterator[Finished]:
        """Rows as they are finished, an empty list from time to time. Raises WorkerError."""
        while True:
            room = workers.room()
            while len(self._flying) < room and (numbers := self._take(room, workers)):
                self._flying[workers.submit(self.document(numbers))] = numbers
            if not self._flying:
                return
            rows: Finished = []
            for future in wait(self._flying, _WAIT_S, FIRST_COMPLETED).done:
                numbers = self._flying.pop(future)
                try:
                    rows += self.finished(numbers, future.result())
                except WorkerDied:
                    rows += self._lost(numbers, workers)
            yield rows

    def document(self, numbers: list[int]) -> Document:
        """The batch of these points as it travels."""
        points = [(number, self._spec.point(number)) for number in numbers]
        return {
            "version": __version__,
            "networks": {str(point.network): [*self._sources.networks[point.network]] for _, point in points},
            "hardware": {str(point.hardware): self._sources.hardware[point.hardware] for _, point in points},
            "points": [[number, *point] for number, point in points],
        }

    def finished(self, numbers: list[int], answer: Document) -> Finished:
        """The rows of a batch; points it did not get to are handed out again. Raises WorkerError."""
        if "fault" in answer:
            raise WorkerError(f"a worker {answer['fault']}: install the same rramalloc everywhere")
        begun, ended = answer["compiled_s"]
        before, after = self._compiled_s.get(answer["worker"], (begun, ended))
        self._compiled_s[answer["worker"]] = min(before, begun), max(after, ended)
        rows: Finished = [(number, row) for number, row in answer["rows"]]
        self._again.extend(numbers[len(rows) :])
        return rows

    def _take(self, room: int, workers: Workers) -> list[int]:
        """Numbers of the next batch: few towards the end, so that all workers end at about the same time.

        Where deaths are not attributed, a suspect is under way with no other batch.
        """
        suspected = any(number in self._deaths for numbers in self._flying.values() for number in numbers)
        if not workers.attributes_deaths and (suspected or (self._suspects and self._flying)):
            return []
        if self._suspects:
            return [self._suspects.popleft()]
        taken: list[int] = []
        for _ in range(max(1, min(self._left // (4 * room), _MOST_POINTS))):
            number = self._again.popleft() if self._again else next(self._missing, None)
            if number is None:
                break
            taken.append(number)
        self._left -= len(taken)
        return taken

    def _lost(self, numbers: list[int], workers: Workers) -> Finished:
        """A worker died over a batch: try its points alone, or give up the one that it was.

        Where deaths are not attributed, one counts only for a suspect: other points were not under way alone.
        """
        number = numbers[0]
        alone = len(numbers) == 1 and (workers.attributes_deaths or number in self._deaths)
        self._deaths.update(numbers if alone else dict.fromkeys(numbers, 0))
        if self._deaths[number] < workers.deaths:
            self._suspects.extend(numbers)
            return []
        point = self._spec.point(number)
        inputs = inputs_of(
            point, self._sources.networks[point.network], self._sources.hardware[point.hardware]
        )
        error = WorkerError("every worker that tried this point died: was its memory enough?")
        return [(number, failed_row(inputs, error).model_dump())]


class LocalWorkers:
    """Processes of this machine, each fed by a thread and replaced when it dies.

    Not `ProcessPoolExecutor`: it imports the caller's main module into every worker, and one death fails
    all batches that are under way.
    """

    deaths = 3
    attributes_deaths = True

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._threads = ThreadPoolExecutor(jobs)
        self._idle: deque[subprocess.Popen[bytes]] = deque()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._closed = False

    def room(self) -> int:
        """One batch for every process."""
        return self._jobs

    def submit(self, document: Document) -> Future[Document]:
        """Have the next process that is free compute a batch."""
        return self._threads.submit(self._compute, document)

    def close(self) -> None:
        """Kill all processes."""
        with self._lock:
            self._closed = True
            for process in self._processes:
                process.kill()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for process in list(self._processes):
            self._bury(process)

    def _compute(self, document: Document) -> Document:
        process = self._idle.popleft() if self._idle else self._start()
        line = json.dumps(document, separators=(",", ":")).encode() + b"\n"
        answer = b""
        with contextlib.suppress(OSError):
            process.stdin.write(line)  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
            answer = process.stdout.readline()  # type: ignore[union-attr]
        if not answer.endswith(b"\n"):
            self._bury(process)
            raise WorkerDied
        self._idle.append(process)
        parsed: Document = json.loads(answer)
        return parsed

    def _start(self) -> subprocess.Popen[bytes]:
        """A process that has said it is ready. Raises WorkerError if time and again none does."""
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        command = [sys.executable, "-P", "-c", _CODE, str(os.getpid())]
        code = 0
        for _ in range(_MOST_FALSE_STARTS):
            with self._lock:
                if self._closed:
                    raise WorkerDied
                process = subprocess.Popen(  # noqa: S603 - this interpreter, with arguments of our own
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env=os.environ | {"PYTHONPATH": path},
                )
                self._processes.add(process)
            if process.stdout is not None and process.stdout.readline():
                return process
            code = self._bury(process)
        raise WorkerError(f"worker processes end with code {code} before they begin: is memory short?")

    def _bury(self, process: subprocess.Popen[bytes]) -> int:
        """Exit code of a process that is dead or dying."""
        process.kill()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()
        self._processes.discard(process)
        return process.wait()
