"""Performance matrix: run time of every task under every strategy, as CSV or Parquet."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rramalloc.errors import SpecError
from rramalloc.files import check_writable, open_to_write
from rramalloc.studies.parquet import require_parquet, write_parquet

if TYPE_CHECKING:
    import pyarrow as pa

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
