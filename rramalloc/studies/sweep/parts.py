"""Parts: Parquet files of consecutive rows, each named by its place and the hash of its content."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rramalloc.errors import FileError
from rramalloc.files import read_bytes, write_bytes
from rramalloc.folders import folder_names
from rramalloc.studies.sweep.row import Row

if TYPE_CHECKING:
    import pyarrow as pa

_NAME = re.compile(r"part-([0-9]{5})-[0-9a-f]{16}\.parquet")
_PART_LIMIT_BYTES = 2**30
_FEWEST_ROWS, _MOST_ROWS, _PARTS = 128, 8192, 64


def rows_of_a_part(points: int) -> int:
    """Rows of every part but the last: about 64 parts, of 128 rows at least and 8192 at most."""
    rows = _FEWEST_ROWS
    while rows < _MOST_ROWS and rows * _PARTS < points:
        rows *= 2
    return rows


def schema() -> pa.Schema:
    """Columns and types of the dataset, from the fields of Row."""
    import pyarrow as pa

    types = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    columns = []
    for name, field in Row.model_fields.items():
        kinds: tuple[Any, ...] = getattr(field.annotation, "__args__", (field.annotation,))
        columns.append(pa.field(name, types[kinds[0]], nullable=type(None) in kinds))
    return pa.schema(columns)


def write_part(folder: str, number: int, rows: list[dict[str, Any]]) -> None:
    """Write a part whole or not at all. Equal rows give equal bytes and so an equal name."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema()), sink, compression="zstd")
    content = sink.getvalue().to_pybytes()
    name = f"part-{number:05}-{hashlib.sha256(content).hexdigest()[:16]}.parquet"
    write_bytes(os.path.join(folder, name), content)


def find_parts(folder: str) -> dict[int, str]:
    """Path of every part by its number, in rising order. Raises FileError if a number is there twice."""
    found: dict[int, str] = {}
    for name in folder_names(folder):
        if match := _NAME.fullmatch(name):
            if int(match[1]) in found:
                raise FileError(
                    os.path.join(folder, name), "stands beside another part of that number: delete both"
                )
            found[int(match[1])] = os.path.join(folder, name)
    return found


def count_failed(path: str) -> int:
    """Rows of a part that are errors, from its footer alone. Raises FileError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        footer = pq.read_metadata(path)
        column = footer.schema.names.index("error_kind")
        groups = [footer.row_group(group) for group in range(footer.num_row_groups)]
        return sum(group.num_rows - group.column(column).statistics.null_count for group in groups)
    except (pa.ArrowException, OSError, ValueError, AttributeError) as error:
        raise _unreadable(path, error) from None


def read_part(path: str, columns: list[str] | None = None) -> pa.Table:
    """The rows of a part. Raises FileError.

    Not by `pyarrow.parquet.read_table`: it reads in a thread that, whatever its options, may still let go of
    these bytes when the interpreter ends, which aborts the process (apache/arrow issues 34314 and 36389).
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        content = pa.BufferReader(read_bytes(path, _PART_LIMIT_BYTES))
        with pq.ParquetFile(content, pre_buffer=False) as file:
            return file.read(columns, use_threads=False)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(path, error) from None


def part_rows(path: str) -> Iterator[dict[str, Any]]:
    """The rows of a part, one by one. Raises FileError."""
    yield from read_part(path).to_pylist()


def _unreadable(path: str, error: Exception) -> FileError:
    return FileError(
        path, f"is no readable part of a sweep ({str(error).splitlines()[0]}): delete it to compute it again"
    )
