"""Results of the searches of `size`: computed here or by workers, and kept for a call that goes on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, TypeAdapter

from rramalloc.commands.size.task import SizeTask, TaskResult, result_of
from rramalloc.errors import FileError, WorkerError
from rramalloc.files import Closing, check_writable
from rramalloc.records import Record, parse
from rramalloc.search.work import Work
from rramalloc.store import Store

if TYPE_CHECKING:
    from rramalloc.commands.sweep.workers import Workers


_DELETE = "delete the file, or name another"


class _Kept(Record):
    """A `TaskResult` as a store keeps it."""

    found: dict[str, Any] | None
    least: Annotated[int, Field(ge=0)]
    impossible: str
    miss: Annotated[float, Field(gt=0)] | None
    work_s: Annotated[float, Field(ge=0)]


_KEPT: TypeAdapter[_Kept] = TypeAdapter(_Kept)


class Results(Closing):
    """Results of tasks, used as a context.

    path: of a file that keeps them, None to keep none; workers: that compute them, None for this process.
    Raises FileError.
    """

    def __init__(self, path: str | os.PathLike[str] | None, workers: Workers | None) -> None:
        check_writable(path)
        self._workers = workers
        self._is_new = path is not None and not os.path.exists(path)
        self._store = None if path is None else Store(path, "sizing")

    def close(self) -> None:
        """Close the file; a new one of a question that was refused goes."""
        if self._store is None:
            return
        is_empty = not any(self._store.query("SELECT key FROM rows LIMIT 1"))
        self._store.close()
        if self._is_new and is_empty:
            os.unlink(self._store.path)

    def of(self, tasks: Sequence[SizeTask], stop: Work) -> dict[SizeTask, TaskResult]:
        """Return the results of tasks, without those that were not ready when the work was ended.

        Raises WorkerError, RramallocError.
        """
        known = dict[SizeTask, TaskResult]()
        if self._store is not None:
            kept = {task: self._kept(self._store, task) for task in tasks}
            known = {task: result for task, result in kept.items() if result is not None}
        missing = [task for task in dict.fromkeys(tasks) if task not in known]
        if self._workers is None:
            return known | self._here(missing, stop)
        return known | self._by_workers(missing, self._workers, stop)

    def _here(self, tasks: Sequence[SizeTask], stop: Work) -> dict[SizeTask, TaskResult]:
        made = dict[SizeTask, TaskResult]()
        for task in tasks:
            if stop.out_of_time:
                break
            made[task] = result_of(task, stop.nested(task.work))
            if not stop.out_of_time:  # else it may not be what the task alone would find
                self._keep(task, made[task])
        return made

    def _by_workers(
        self, tasks: Sequence[SizeTask], workers: Workers, stop: Work
    ) -> dict[SizeTask, TaskResult]:
        from rramalloc.commands.sweep.workers import computed_points

        made = dict[SizeTask, TaskResult]()
        for finished in computed_points(iter(tasks), workers):
            for task, found in finished:
                if "error" in found:
                    raise WorkerError(str(found["error"]))
                made[task] = found
                self._keep(task, found)
            if stop.out_of_time:
                break
        return made

    def _keep(self, task: SizeTask, result: TaskResult) -> None:
        if self._store is not None:
            row = {"result": result, "sha256": _sha256(task, result)}
            self._store.keep([(task.key, row)])

    @staticmethod
    def _kept(store: Store, task: SizeTask) -> TaskResult | None:
        """Return the result that a store keeps, None for none. Raises FileError, SpecError."""
        row = store.get(task.key)
        if row is None:
            return None
        if not isinstance(row, dict) or row.keys() != {"result", "sha256"}:
            raise FileError(store.path, f"row {task.key[:12]} is no search of `size`: {_DELETE}")
        if row["sha256"] != _sha256(task, row["result"]):
            raise FileError(store.path, f"row {task.key[:12]} was changed after it was kept: {_DELETE}")
        return parse(_KEPT, row["result"], f"{store.path}: row {task.key[:12]}").model_dump()


def _sha256(task: SizeTask, result: Any) -> str:
    """Return a hash of a stored result and its task, by which changed rows are recognised."""
    return hashlib.sha256(json.dumps([task.key, result], sort_keys=True).encode()).hexdigest()
