"""Results of the searches of `size`: computed here or by workers, and kept for a call that goes on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rramalloc.commands.size.task import Result, SizeTask, result_of
from rramalloc.errors import WorkerError
from rramalloc.files import Closing, check_writable
from rramalloc.search.work import Work
from rramalloc.store import Store

if TYPE_CHECKING:
    from rramalloc.commands.sweep.workers import Workers


class Results(Closing):
    """Results of tasks, used as a context.

    path: of a file that keeps them, None to keep none; workers: that compute them, None for this process.
    Raises FileError.
    """

    def __init__(self, path: str | os.PathLike[str] | None, workers: Workers | None) -> None:
        check_writable(path)
        self._workers = workers
        self._store = None if path is None else Store(path, "sizing")

    def close(self) -> None:
        """Close the file."""
        if self._store is not None:
            self._store.close()

    def of(self, tasks: Sequence[SizeTask], stop: Work) -> dict[SizeTask, Result]:
        """Return the results of tasks, without those that were not ready when the work was ended.

        Raises WorkerError, RramallocError.
        """
        known = dict[SizeTask, Result]()
        if self._store is not None:
            kept = {task: self._store.get(task.key) for task in tasks}
            known = {task: result for task, result in kept.items() if result is not None}
        missing = [task for task in dict.fromkeys(tasks) if task not in known]
        if self._workers is None:
            return known | self._here(missing, stop)
        return known | self._by_workers(missing, self._workers, stop)

    def _here(self, tasks: Sequence[SizeTask], stop: Work) -> dict[SizeTask, Result]:
        made = dict[SizeTask, Result]()
        for task in tasks:
            if stop.out_of_time:
                break
            made[task] = result_of(task, stop.nested(task.work))
            if not stop.out_of_time:  # else it may not be what the task alone would find
                self._keep(task, made[task])
        return made

    def _by_workers(self, tasks: Sequence[SizeTask], workers: Workers, stop: Work) -> dict[SizeTask, Result]:
        from rramalloc.commands.sweep.workers import computed_points

        made = dict[SizeTask, Result]()
        for finished in computed_points(iter(tasks), workers):
            for task, found in finished:
                if "error" in found:
                    raise WorkerError(str(found["error"]))
                made[task] = found
                self._keep(task, found)
            if stop.out_of_time:
                break
        return made

    def _keep(self, task: SizeTask, result: Result) -> None:
        if self._store is not None:
            self._store.keep([(task.key, result)])
