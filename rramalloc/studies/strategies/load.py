"""Load matrix: which units work on which subtask of every task under every strategy, streamed as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO, Literal

from rramalloc.files import open_to_write
from rramalloc.records import Record
from rramalloc.results.allocation import NetworkId
from rramalloc.studies.strategies.chip import ChipPerformance
from rramalloc.studies.strategies.source import Source

_TOGETHER = 4096
_COPY_BYTES = 2**20


class LoadMatrix(Record):
    """Who does what. matrix: tasks x strategies; an entry lists (subtask, compute units, storage units).

    Units and subtasks are numbered from 1.  Source: SYSTEMS.md 1.
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
    sources: Sequence[Source],
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


def _write_row(stream: BinaryIO, task: int, sources: Sequence[Source]) -> int:
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
