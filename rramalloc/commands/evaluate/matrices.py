"""Load matrix (who does what) as streamed JSON, performance matrix (run times) as CSV or Parquet."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import numpy as np
import numpy.typing as npt

from rramalloc.allocation.allocation import NetworkId
from rramalloc.commands.evaluate.enumeration import ColumnSource
from rramalloc.errors import SpecError
from rramalloc.files import check_writable, open_to_write
from rramalloc.hardware.performance import ChipPerformance
from rramalloc.parquet import require_parquet, write_parquet
from rramalloc.records import Record

if TYPE_CHECKING:
    import pyarrow as pa

_TOGETHER = 4096
_COPY_BYTES = 2**20


class LoadMatrix(Record):
    """Who does what. matrix: tasks x strategies; an entry lists (subtask, compute units, storage units).

    Units and subtasks are numbered from 1.  Source: docs/sources/companions.md 1.
    """

    format: Literal["rramalloc-load-matrix/1"] = "rramalloc-load-matrix/1"
    network: NetworkId
    chip: ChipPerformance
    tasks: tuple[str, ...]
    strategies: tuple[str, ...]
    matrix: tuple[tuple[tuple[tuple[int, tuple[int, ...], tuple[int, ...]], ...], ...], ...]


def write_load(
    path: str | os.PathLike[str],
    network: NetworkId,
    chip: ChipPerformance,
    tasks: Sequence[str],
    sources: Sequence[ColumnSource],
) -> None:
    """Write the load matrix whole or not at all, without holding it in memory. Raises FileError.

    Rows that do not depend on the task are made once and copied within the file.
    """
    head: dict[str, Any] = {
        "format": "rramalloc-load-matrix/1",
        "network": network.model_dump(mode="json"),
        "chip": chip.model_dump(mode="json"),
        "tasks": list(tasks),
        "strategies": [name for source in sources for name in source.names],
    }
    with open_to_write(path) as stream:
        fields = ",\n".join(f"{_text(key)}: {_text(value)}" for key, value in head.items())
        stream.write(f'{{\n{fields},\n"matrix": [\n'.encode())
        begin = stream.tell()
        end = _write_row(stream, 0, sources)
        for task in range(1, len(tasks)):
            stream.write(b",\n")
            if all(source.alike for source in sources):
                _copy(stream, begin, end)
            else:
                _write_row(stream, task, sources)
        stream.write(b"\n]\n}\n")


def _write_row(stream: BinaryIO, task: int, sources: Sequence[ColumnSource]) -> int:
    """Write a row of the matrix; returns the place where it ends."""
    entries: Iterator[str] = (entry for source in sources for entry in source.loads(task))
    separator = "["
    while some := ",\n".join(islice(entries, _TOGETHER)):
        stream.write((separator + some).encode())
        separator = ",\n"
    stream.write(b"]")
    return stream.tell()


def _copy(stream: BinaryIO, begin: int, end: int) -> None:
    """Append what stands between two places."""
    target = stream.tell()
    while begin < end:
        stream.seek(begin)
        piece = stream.read(min(_COPY_BYTES, end - begin))
        stream.seek(target)
        stream.write(piece)
        begin, target = begin + len(piece), target + len(piece)


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


Matrix = npt.NDArray[np.float64]
KINDS = (".csv", ".parquet")
_OWN = ("strategy", "time_ns")


def column_sums(matrix: Matrix) -> npt.NDArray[np.float64]:
    """Sum over the tasks, added in execution order, so that it is the same on every machine."""
    total = np.zeros(matrix.shape[1])
    for row in matrix:
        total += row
    return total


def check_performance_path(path: str | os.PathLike[str] | None, tasks: Sequence[str] = ()) -> None:
    """Raise SpecError, FileError if the matrix cannot be written to `path`."""
    if path is None:
        return
    kind = _kind(path)
    if kind not in KINDS:
        raise SpecError(os.fspath(path), f"the performance matrix is written as {' or '.join(KINDS)}")
    check_writable(path)
    if kind == ".parquet":
        require_parquet(os.fspath(path))
    for name in _OWN if kind == ".parquet" else ():
        if name in tasks:
            raise SpecError(
                os.fspath(path),
                f"has a column {name!r} of its own, as a layer is called: rename the layer or write .csv",
            )


def write_performance(
    path: str | os.PathLike[str], matrix: Matrix, tasks: Sequence[str], strategies: Sequence[str]
) -> None:
    """Write the matrix, in ns, whole or not at all. Raises SpecError, FileError.

    CSV has the matrix as it is, a row per task and a column per strategy. Parquet, which is made for many
    rows, has it transposed: a row per strategy with its name, time_ns (the column's sum) and every task.
    """
    check_performance_path(path, tasks)
    if _kind(path) == ".parquet":
        table = _table(matrix, tasks, strategies)
        write_parquet(path, table.schema, [table])
        return
    with open_to_write(path) as stream:
        stream.write(_line(["task", *strategies]))
        for name, row in zip(tasks, matrix, strict=True):
            stream.write(_line([name]).rstrip(b"\n") + b"," + _numbers(row) + b"\n")


def _kind(path: str | os.PathLike[str]) -> str:
    return Path(path).suffix.lower()


def _table(matrix: Matrix, tasks: Sequence[str], strategies: Sequence[str]) -> pa.Table:
    import pyarrow as pa

    columns = [pa.array(strategies, pa.string()), pa.array(column_sums(matrix)), *map(pa.array, matrix)]
    return pa.table(columns, names=[*_OWN, *tasks])


def _line(cells: Sequence[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue().encode()


def _numbers(row: npt.NDArray[np.float64]) -> bytes:
    """Shortest texts that read back as the same numbers; equal numbers are written out once."""
    values, places = np.unique(row, return_inverse=True)
    texts = np.array([repr(value) for value in values.tolist()], dtype=object)
    return ",".join(texts[places].tolist()).encode()
