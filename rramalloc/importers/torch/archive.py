"""Reader of `.pt2` archives (torch.export.save) without torch.

The archive is a zip whose graph is JSON; weights, sample inputs and pickles in it are never opened.
"""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from typing import Any, BinaryIO

from rramalloc.errors import FileError, RramallocError
from rramalloc.files import JSON_LIMIT_BYTES, open_to_read, parse_json
from rramalloc.importers.torch.graph import Program
from rramalloc.importers.torch.schema import program

_DIRECTORY_LIMIT_BYTES = 64 * 2**20
_END_RECORD = struct.Struct("<4s4H2LH")
_END_RECORD_64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR_64 = struct.Struct("<4sLQL")
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    NotImplementedError,
    RuntimeError,
    EOFError,
    ValueError,
    OverflowError,
    KeyError,
)


def read_program(path: str | os.PathLike[str]) -> Program:
    """The exported program in an archive. Raises FileError, SpecError, UnsupportedError."""
    where = os.fspath(path)
    text = _graph_text(path, where)
    return program(parse_json(text, where), where)


def _graph_text(path: str | os.PathLike[str], where: str) -> str:
    try:
        with open_to_read(path) as stream:
            if not stream.seekable():
                raise FileError(where, "is a pipe; a .pt2 archive must be a file")
            _check_directory_size(stream, where)
            with zipfile.ZipFile(stream) as archive:
                content = _graph_entry(archive, where)
    except RramallocError:
        raise
    except _BROKEN as error:
        raise FileError(
            where, f"is not a readable .pt2 archive ({error}): save it again with torch.export.save"
        ) from None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileError(where, f"its graph is not UTF-8 text (byte {error.start})") from None


def _check_directory_size(stream: BinaryIO, where: str) -> None:
    """Refuse a zip whose table of contents alone would fill the memory."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - 2**16 - _END_RECORD.size))
    tail = stream.read()
    found = tail.rfind(b"PK\x05\x06")
    if found < 0 or len(tail) - found < _END_RECORD.size:
        raise zipfile.BadZipFile("it is no zip file")
    directory = _END_RECORD.unpack_from(tail, found)[5]
    locator = found - _LOCATOR_64.size
    if directory == 2**32 - 1 and locator >= 0 and tail[locator : locator + 4] == b"PK\x06\x07":
        stream.seek(min(_LOCATOR_64.unpack_from(tail, locator)[2], size))
        directory = _END_RECORD_64.unpack(stream.read(_END_RECORD_64.size))[8]
    if directory > _DIRECTORY_LIMIT_BYTES:
        raise FileError(
            where, f"its table of contents has {directory} bytes, the limit is {_DIRECTORY_LIMIT_BYTES}"
        )


def _graph_entry(archive: zipfile.ZipFile, where: str) -> bytes:
    """The JSON of the graph: `models/*.json` (torch 2.7 on) or `serialized_exported_program.json`."""
    found = [entry for entry in archive.infolist() if _is_graph(entry.filename)]
    if len(found) != 1:
        what = "no graph" if not found else f"{len(found)} graphs"
        raise FileError(where, f"holds {what}; save one program with torch.export.save")
    entry = found[0]
    if entry.file_size > JSON_LIMIT_BYTES:
        raise FileError(where, f"its graph has {entry.file_size} bytes, the limit is {JSON_LIMIT_BYTES}")
    with archive.open(entry) as stream:
        content: Any = stream.read(JSON_LIMIT_BYTES + 1)
    if len(content) > JSON_LIMIT_BYTES:
        raise FileError(where, f"its graph is larger than the limit of {JSON_LIMIT_BYTES} bytes")
    return bytes(content)


def _is_graph(name: str) -> bool:
    parts = name.split("/")
    if parts[-1] == "serialized_exported_program.json":
        return True
    return len(parts) >= 2 and parts[-2] == "models" and parts[-1].endswith(".json")
