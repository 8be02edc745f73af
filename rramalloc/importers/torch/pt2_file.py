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
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from rramalloc.errors import FileError, NetworkError, RramallocError, SpecError
from rramalloc.files import JSON_LIMIT_BYTES, open_to_read, parse_json
from rramalloc.importers.torch.program import (
    MAX_CONSTANT,
    Argument,
    Dims,
    Operation,
    Program,
    Ref,
    Symbols,
    TorchGraph,
    checked_dims,
)
from rramalloc.network.network import MAX_NODES
from rramalloc.records import brief

Whole = npt.NDArray[np.int64]
_SCHEMA_MAJOR = 8
_MAX_DEPTH = 20
_SCALARS = {"as_int": int, "as_bool": bool, "as_string": str, "as_float": float | int}


def program(
    document: object, where: str, stored: Callable[[Collection[str]], Mapping[str, Whole]]
) -> Program:
    """Check and convert a document. Raises FileError, SpecError, NetworkError.

    stored: the values of whole numbers among constants of these names in the file.
    """
    top = _dict(document, where)
    major = _dict(top.get("schema_version", {}), f"{where}: schema_version").get("major")
    if major != _SCHEMA_MAJOR:
        raise FileError(
            where,
            f"has the torch.export schema version {brief(major)}, this program reads {_SCHEMA_MAJOR} "
            f"(torch 2.6 on): export again with such a torch",
        )
    module = _dict(top.get("graph_module"), f"{where}: graph_module")
    signature = _dict(module.get("signature"), f"{where}: signature")
    specs = _list(signature.get("input_specs"), f"{where}: signature.input_specs")
    user_inputs = tuple(_user_inputs(specs, where))
    graph = _dict(module.get("graph"), f"{where}: graph")
    symbols = _symbols(graph, user_inputs, where)
    names = dict(_constants(specs, where))
    values = stored(names.values())
    constants = {tensor: values[name] for tensor, name in names.items() if name in values}
    return Program(_Reader(where, symbols).graph(graph, 0), user_inputs, constants)


def _user_inputs(specs: list[Any], where: str) -> Iterator[str]:
    for index, spec in enumerate(specs):
        place = f"{where}: signature.input_specs[{index}]"
        user_input = _dict(spec, place).get("user_input")
        if user_input is None:
            continue
        tensor = _dict(_dict(user_input, place).get("arg"), place).get("as_tensor")
        if tensor is not None:
            yield _text(_dict(tensor, place).get("name"), f"{place}.name")


def _constants(specs: list[Any], where: str) -> Iterator[tuple[str, str]]:
    """Name in the graph and name in the file of every buffer and other constant."""
    for index, spec in enumerate(specs):
        place = f"{where}: signature.input_specs[{index}]"
        for kind, key in (("buffer", "buffer_name"), ("tensor_constant", "tensor_constant_name")):
            entry = _dict(spec, place).get(kind)
            if entry is not None:
                fields = _dict(entry, place)
                name = _text(_dict(fields.get("arg"), place).get("name"), f"{place}.name")
                yield name, _text(fields.get(key), f"{place}.{key}")


def _symbols(graph: dict[str, Any], user_inputs: tuple[str, ...], where: str) -> Symbols:
    tensors = _dict(graph.get("tensor_values"), f"{where}: tensor_values")
    places = {name: f"{where}: tensor {brief(name)}" for name in user_inputs}
    return Symbols.of(
        [
            _expression(size, place)
            for size in _list(_dict(tensors.get(name), place).get("sizes"), f"{place}.sizes")
        ]
        for name, place in places.items()
    )


def _expression(size: object, place: str) -> tuple[str | None, int | None]:
    """The text and example value of a dynamic dimension; (None, None) for a plain one."""
    expression = _dict(size, place).get("as_expr")
    if expression is None:
        return None, None
    fields = _dict(expression, place)
    hint = fields.get("hint")
    if isinstance(hint, dict):
        hint = hint.get("as_int")
    if not isinstance(hint, int) or isinstance(hint, bool):
        hint = None
    return _text(fields.get("expr_str"), f"{place}.expr_str"), hint


@dataclass(frozen=True, slots=True)
class _Reader:
    where: str
    symbols: Symbols

    def graph(self, document: object, depth: int) -> TorchGraph:
        fields = _dict(document, f"{self.where}: graph")
        nodes = _list(fields.get("nodes"), f"{self.where}: nodes")
        if len(nodes) > MAX_NODES:
            raise NetworkError(self.where, f"has {len(nodes)} operations, the limit is {MAX_NODES}")
        tensors = _dict(fields.get("tensor_values"), f"{self.where}: tensor_values")
        return TorchGraph(
            tuple(self._arguments(fields.get("inputs"), f"{self.where}: inputs", depth)),
            tuple(
                self._operation(node, f"{self.where}: operation {i}", depth) for i, node in enumerate(nodes)
            ),
            tuple(self._arguments(fields.get("outputs"), f"{self.where}: outputs", depth)),
            {name: self._dims(meta, f"{self.where}: tensor {brief(name)}") for name, meta in tensors.items()},
        )

    def _dims(self, meta: object, place: str) -> Dims:
        sizes = _list(_dict(meta, place).get("sizes"), f"{place}.sizes")
        return checked_dims((self._dimension(size, place) for size in sizes), f"{place}.sizes")

    def _dimension(self, size: object, place: str) -> object:
        expression, hint = _expression(size, place)
        if expression is None:
            return _dict(size, place).get("as_int")
        return self.symbols.dimension(expression, hint, place)

    def _operation(self, document: object, place: str, depth: int) -> Operation:
        fields = _dict(document, place)
        target = _text(fields.get("target"), f"{place}.target").removeprefix("torch.ops.")
        place = f"{place} ({target[:60]})"
        args: dict[str, Argument] = {}
        for index, item in enumerate(_list(fields.get("inputs"), f"{place}.inputs")):
            given = _dict(item, f"{place}.inputs[{index}]")
            key = given.get("name") or str(index)
            args[_text(key, f"{place}.inputs[{index}].name")] = self._argument(given.get("arg"), place, depth)
        outputs = tuple(self._outputs(fields.get("outputs"), place))
        name = fields.get("name") or next((output for output in outputs if output), target)
        metadata = _dict(fields.get("metadata") or {}, f"{place}.metadata")
        module, module_type = _module(metadata.get("nn_module_stack"))
        return Operation(_text(name, f"{place}.name"), target, args, outputs, module, module_type)

    def _outputs(self, document: object, place: str) -> Iterator[str | None]:
        for argument in self._arguments(document, f"{place}.outputs", 0):
            if isinstance(argument, tuple):
                yield from (item.name if isinstance(item, Ref) else None for item in argument)
            else:
                yield argument.name if isinstance(argument, Ref) else None

    def _arguments(self, document: object, place: str, depth: int) -> Iterator[Argument]:
        for item in _list(document, place):
            yield self._argument(item, place, depth)

    def _argument(self, document: object, place: str, depth: int) -> Argument:
        """One value of the tagged union; kinds that no operator's shape depends on become None."""
        tagged = _dict(document, place)
        if depth > _MAX_DEPTH:
            raise NetworkError(place, f"is nested more than {_MAX_DEPTH} deep")
        if len(tagged) != 1:
            raise SpecError(place, f"an argument must have one kind, got {brief(list(tagged))}")
        kind, value = next(iter(tagged.items()))
        match kind:
            case "as_tensor":
                return Ref(_text(_dict(value, place).get("name"), place))
            case "as_tensors":
                return tuple(
                    Ref(_text(_dict(item, place).get("name"), place)) for item in _list(value, place)
                )
            case "as_optional_tensor":
                return self._argument(value, place, depth + 1)
            case "as_optional_tensors":
                return tuple(self._argument(item, place, depth + 1) for item in _list(value, place))
            case "as_ints" | "as_bools" | "as_strings" | "as_floats":
                return tuple(_scalar(f"{kind[:-1]}", item, place) for item in _list(value, place))
            case "as_sym_int":
                return self._argument(value, place, depth + 1) if isinstance(value, dict) else None
            case "as_sym_ints":
                return tuple(self._argument(item, place, depth + 1) for item in _list(value, place))
            case "as_graph":
                return self.graph(_dict(value, place).get("graph"), depth + 1)
        return _scalar(kind, value, place) if kind in _SCALARS else None


def _scalar(kind: str, value: object, place: str) -> int | float | bool | str | None:
    if kind == "as_float" and isinstance(value, str):
        return None  # "Infinity", "NaN"
    wanted = _SCALARS[kind]
    if not isinstance(value, wanted) or (isinstance(value, bool) and kind != "as_bool"):
        raise SpecError(place, f"{kind} does not hold such a value, got {brief(value)}")
    return value


def _module(stack: object) -> tuple[str, str]:
    """Path and class of the innermost module in "key,path,class;key,path,class"."""
    if not isinstance(stack, str) or not stack:
        return "", ""
    parts = stack.rpartition(";")[2].split(",")
    return (parts[1], parts[2]) if len(parts) == 3 else ("", "")


def _dict(value: object, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SpecError(place, f"must be an object, got {brief(value)}")
    return value


def _list(value: object, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise SpecError(place, f"must be a list, got {brief(value)}")
    return value


def _text(value: object, place: str) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= 1000:
        raise SpecError(place, f"must be a text of 1 to 1000 characters, got {brief(value)}")
    return value


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
                text = graph_text(archive, where)
                stored = _whole_numbers(archive)
    except RramallocError:
        raise
    except _BROKEN as error:
        raise FileError(
            where, f"is not a readable .pt2 archive ({error}): save it again with torch.export.save"
        ) from None
    return text, stored


def _check_directory_size(stream: BinaryIO, where: str) -> None:
    """Refuse a zip whose table of contents alone would fill the memory."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - 2**16 - _END_RECORD.size))
    tail = stream.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < _END_RECORD.size:
        raise zipfile.BadZipFile("it is no zip file")
    directory = _END_RECORD.unpack_from(tail, at)[5]
    locator = at - _LOCATOR_64.size
    if directory == 2**32 - 1 and locator >= 0 and tail[locator : locator + 4] == b"PK\x06\x07":
        stream.seek(min(_LOCATOR_64.unpack_from(tail, locator)[2], size))
        directory = _END_RECORD_64.unpack(stream.read(_END_RECORD_64.size))[8]
    if directory > _DIRECTORY_LIMIT_BYTES:
        raise FileError(
            where, f"its table of contents has {directory} bytes, the limit is {_DIRECTORY_LIMIT_BYTES}"
        )


def graph_text(archive: zipfile.ZipFile, where: str) -> str:
    """The JSON of the graph: `models/*.json` (torch 2.7 on) or `serialized_exported_program.json`."""
    graphs = [entry for entry in archive.infolist() if _is_graph(entry.filename)]
    if len(graphs) != 1:
        what = "no graph" if not graphs else f"{len(graphs)} graphs"
        raise FileError(where, f"holds {what}; save one program with torch.export.save")
    entry = graphs[0]
    if entry.file_size > JSON_LIMIT_BYTES:
        raise FileError(where, f"its graph has {entry.file_size} bytes, the limit is {JSON_LIMIT_BYTES}")
    with archive.open(entry) as stream:
        content: Any = stream.read(JSON_LIMIT_BYTES + 1)
    if len(content) > JSON_LIMIT_BYTES:
        raise FileError(where, f"its graph is larger than the limit of {JSON_LIMIT_BYTES} bytes")
    try:
        return str(content, "utf-8")
    except UnicodeDecodeError as error:
        raise FileError(where, f"its graph is not UTF-8 text (byte {error.start})") from None


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
