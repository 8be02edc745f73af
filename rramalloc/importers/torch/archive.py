"""Reader of `.pt2` archives (torch.export.save) without torch.

The archive is a zip whose graph is JSON. Of the constants only whole numbers are read, which say what places
are taken; weights, sample inputs and pickles are never opened.
"""

from __future__ import annotations

import math
import os
import struct
import zipfile
import zlib
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from rramalloc.errors import FileError, RramallocError
from rramalloc.files import JSON_LIMIT_BYTES, open_to_read, parse_json
from rramalloc.importers.torch.graph import MAX_CONSTANT, Program
from rramalloc.importers.torch.schema import program

_DIRECTORY_LIMIT_BYTES = 64 * 2**20
_END_RECORD = struct.Struct("<4s4H2LH")
_END_RECORD_64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR_64 = struct.Struct("<4sLQL")
_WHOLE = {4: "<i4", 5: "<i8"}
"""Codes of the types of whole numbers, little-endian as torch stores them."""
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
    text, stored = _contents(path, where)
    return program(
        parse_json(text, where), where, lambda names: {name: stored[name] for name in names if name in stored}
    )


def _contents(path: str | os.PathLike[str], where: str) -> tuple[str, dict[str, npt.NDArray[np.int64]]]:
    """The graph, and the whole numbers among the constants."""
    try:
        with open_to_read(path) as stream:
            if not stream.seekable():
                raise FileError(where, "is a pipe; a .pt2 archive must be a file")
            _check_directory_size(stream, where)
            with zipfile.ZipFile(stream) as archive:
                content = _graph_entry(archive, where)
                stored = _whole_numbers(archive)
    except RramallocError:
        raise
    except _BROKEN as error:
        raise FileError(
            where, f"is not a readable .pt2 archive ({error}): save it again with torch.export.save"
        ) from None
    try:
        return content.decode("utf-8"), stored
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


def _whole_numbers(archive: zipfile.ZipFile) -> dict[str, npt.NDArray[np.int64]]:
    """Constants of whole numbers stored as plain bytes; any that is damaged is left out: it has no values."""
    values: dict[str, npt.NDArray[np.int64]] = {}
    entries = {entry.filename: entry for entry in archive.infolist()}
    for name, entry in entries.items():
        if not name.endswith(("model_weights_config.json", "model_constants_config.json")):
            continue
        if entry.file_size > _DIRECTORY_LIMIT_BYTES:
            continue
        try:
            listed = parse_json(archive.read(entry).decode("utf-8"), name)["config"].items()
            for constant, fields in listed:
                meta, folder = fields["tensor_meta"], name.rpartition("/")[0]
                code, dims = _WHOLE.get(meta["dtype"]), [size["as_int"] for size in meta["sizes"]]
                if code is None or fields["use_pickle"] is not False or meta["storage_offset"]["as_int"]:
                    continue
                strides = [math.prod(dims[axis + 1 :]) for axis in range(len(dims))]
                stored = entries[f"{folder}/{fields['path_name']}"]
                fits = stored.file_size == math.prod(dims) * int(code[-1]) <= MAX_CONSTANT * 8
                if fits and [stride["as_int"] for stride in meta["strides"]] == strides:
                    flat = np.frombuffer(archive.read(stored), dtype=code)
                    values[constant] = flat.astype(np.int64).reshape(dims)
        except (*_BROKEN, RramallocError, AttributeError, TypeError):
            continue
    return values


def _is_graph(name: str) -> bool:
    parts = name.split("/")
    if parts[-1] == "serialized_exported_program.json":
        return True
    return len(parts) >= 2 and parts[-2] == "models" and parts[-1].endswith(".json")
