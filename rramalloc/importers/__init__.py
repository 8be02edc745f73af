"""Readers: one file per format; `load` picks the one for a path or a shipped network's name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from rramalloc.errors import FileError, UnknownNameError
from rramalloc.files import parse_json, read_json
from rramalloc.network.network import Network
from rramalloc.network.shipped import shipped_names, shipped_text

InputShapes = Mapping[str, Sequence[int]]
"""Shape of every dynamic input by name, with batch: {"images": (1, 3, 224, 224)}."""


NetworkLike = Network | str | os.PathLike[str]


def as_network(network: NetworkLike, input_shapes: InputShapes | None = None) -> Network:
    """The network itself, or the one that `load` finds. Raises FileError, SpecError, UnknownNameError."""
    return network if isinstance(network, Network) else load(network, input_shapes)


def load(network: str | os.PathLike[str], input_shapes: InputShapes | None = None) -> Network:
    """The network in a file (.json, .onnx, .csv, .pt2) or a shipped one by name ("vgg16").

    A file that exists wins over a shipped network of the same name.
    Raises FileError, SpecError, UnknownNameError.
    """
    if not os.fspath(network):
        raise UnknownNameError("file or shipped network", "", shipped_names())
    path = Path(network)
    name = path.name.removesuffix(".json")
    is_absent = path.name == os.fspath(network) and not os.path.exists(path)  # unlike Path, never an OSError
    if is_absent and name in shipped_names():
        return Network.from_document(parse_json(shipped_text(name), path.name), path.name)
    if is_absent and path.suffix in ("", ".json"):
        raise UnknownNameError("file or shipped network", name, shipped_names())
    try:
        return _read(path, input_shapes or {})
    except FileError as error:
        if os.path.exists(path):
            raise
        raise error.suggesting("shipped network", path.stem, shipped_names()) from None


def _read(path: Path, input_shapes: InputShapes) -> Network:
    match path.suffix.lower():
        case ".json":
            return _read_json(path)
        case ".onnx":
            from rramalloc.importers.onnx import read

            return read(path, input_shapes)
        case ".csv":
            from rramalloc.importers import layer_table

            return layer_table.read(path)
        case ".pt2":
            from rramalloc.importers import torch

            return torch.read(path)
    raise FileError(os.fspath(path), "its ending is none of .json, .onnx, .csv, .pt2")


def _read_json(path: Path) -> Network:
    from rramalloc.importers import pimcomp

    document = read_json(path)
    if pimcomp.recognises(document):
        return pimcomp.from_document(document, os.fspath(path))
    return Network.from_document(document, os.fspath(path))
