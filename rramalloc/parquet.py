"""Parquet files, for those who have installed the extra `parquet` (pyarrow)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rramalloc.errors import SpecError
from rramalloc.files import open_to_write
from rramalloc.lazy import how_to_install

if TYPE_CHECKING:
    import pyarrow as pa


def require_parquet(where: str) -> None:
    """Raise SpecError about the option `where` unless pyarrow is installed."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        words = f"Parquet needs the package pyarrow: {how_to_install('parquet')}, or choose CSV"
        raise SpecError(where, words) from None


def parquet_schema(kinds: Mapping[str, Any]) -> pa.Schema:
    """Return columns from Python types: str, int, float or bool, each also as an optional one."""
    import pyarrow as pa

    types = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    columns = []
    for name, kind in kinds.items():
        parts: tuple[Any, ...] = getattr(kind, "__args__", (kind,))
        columns.append(pa.field(name, types[parts[0]], nullable=type(None) in parts))
    return pa.schema(columns)


def write_parquet(
    path: str | os.PathLike[str],
    schema: pa.Schema,
    blocks: Iterable[list[dict[str, Any]]] | Iterable[pa.Table],
) -> None:
    """Write a file atomically, a block of rows at a time. Raises FileError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with open_to_write(path) as stream, pq.ParquetWriter(stream, schema, compression="zstd") as writer:
        for block in blocks:
            writer.write_table(pa.Table.from_pylist(block, schema) if isinstance(block, list) else block)
