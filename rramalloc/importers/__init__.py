"""Readers: one file per format; `load` picks the one for a path or a shipped network's name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rramalloc.choices import (
    NODE_NAMES,
    HostLike,
    InputShapes,
    InputValues,
    NetworkArguments,
    NodeNames,
)
from rramalloc.errors import FileError, SpecError, UnknownNameError
from rramalloc.files import names_beside, parse_json, read_json, text_of
from rramalloc.importers.foreign import refuse
from rramalloc.importers.registry import IMPORTERS, READ, Importer, guarded
from rramalloc.network.network import Network
from rramalloc.network.shipped import shipped_names, shipped_network, shipped_text
from rramalloc.records import check_known

if TYPE_CHECKING:
    from onnx import ModelProto
else:
    ModelProto = Any  # importing it takes long; what reads it checks it

_BEFORE_JSON = b"\xef\xbb\xbf \t\r\n"  # a byte-order mark and blanks
NetworkLike = Network | Mapping[str, Any] | str | os.PathLike[str]
"""A network, a document of the form of a network JSON, a file, or the name of a shipped network."""


def as_network(
    network: NetworkLike,
    input_shapes: InputShapes | None = None,
    *,
    input_values: InputValues | None = None,
    allow_partial: bool = False,
    names: NodeNames = "module",
    host: HostLike = (),
) -> Network:
    """Return the network itself, or the one that `load` reads. Raises as `load`."""
    if isinstance(network, Network):
        return network
    return load(
        network, input_shapes, input_values=input_values, allow_partial=allow_partial, names=names, host=host
    )


def network_of(network: NetworkLike, given: NetworkArguments, names: NodeNames = "module") -> Network:
    """Return the network that the arguments of a call describe, `host` among them. Raises as `load`."""
    source = as_network(
        network,
        given.get("input_shapes"),
        input_values=given.get("input_values"),
        allow_partial=given.get("allow_partial", False),
        names=names,
        host=cast("HostLike", dict(given).get("host") or ()),
    )
    return source.in_turns(given.get("feeds_back"), given.get("sequences"), given.get("states"))


def load(
    network: str | os.PathLike[str] | Mapping[str, Any] | bytes | ModelProto,
    input_shapes: InputShapes | None = None,
    *,
    input_values: InputValues | None = None,
    allow_partial: bool = False,
    names: NodeNames = "module",
    host: HostLike = (),
) -> Network:
    """Read a network file, or a shipped network by its name.

    Parameters
    ----------
    network
        A .json, .onnx or .csv file, or a name such as "vgg16". A regular file wins over a shipped
        network of the same name. Or a dict of the form of a network JSON, an onnx.ModelProto, or the bytes of
        an ONNX or JSON file.
    input_shapes
        Shape with batch of every input of an ONNX file that has open axes.
    input_values
        Values of inputs of an ONNX file that decide which branch runs or how often a loop does; the condition
        of a branch may be named too. They are constants then.
    allow_partial
        Take operators whose weights cannot be modelled (custom operators) as nodes that wait for all
        pixels; every result then says which part of the network it covers.
    names
        How nodes of an ONNX file are named: after the PyTorch modules that the file was exported from, as far
        as it tells them ("layer1.0.conv1"), or as in the file ("node_Conv_713").
    host
        Layers of an ONNX file that are left to the host, by name or pattern, where they cannot be expressed.

    Returns
    -------
    Network
        Checked, with the shapes of all nodes.

    Raises
    ------
    FileError, UnknownNameError
        If there is no such file or shipped network, or it cannot be read.
    SpecError, NetworkError
        If it does not hold a valid network.
    UnsupportedError
        If the network cannot be expressed.
    """
    check_known("names", names, NODE_NAMES)
    options: dict[str, Any] = {
        "input_shapes": input_shapes or {},
        "input_values": input_values or {},
        "allow_partial": allow_partial,
        "names": names,
        "host": host,
    }
    if not isinstance(network, str | os.PathLike):
        return _in_memory(network, options)
    if not os.fspath(network):
        raise UnknownNameError("file or shipped network", "", shipped_names())
    path = Path(str(os.fspath(network)))  # of a ShippedName a text, which Path takes
    importer = next((row for row in IMPORTERS.values() if row.ending == path.suffix.lower()), None)
    name = shipped_network(os.fspath(network))
    if name is not None or not (importer and importer.takes_options):
        _check_options(options, path.name)
    if name is not None:
        return Network.from_document(parse_json(shipped_text(name), f"{name}.json"), f"{name}.json")
    is_absent = path.name == os.fspath(network) and not os.path.exists(path)  # unlike Path, never an OSError
    if is_absent and path.suffix in ("", ".json"):
        raise UnknownNameError("file or shipped network", path.name, shipped_names(), names_beside(path.name))
    try:
        return _read(path, importer, options)
    except FileError as error:
        if os.path.exists(path):
            raise
        raise error.suggesting("shipped network", path.stem, shipped_names()) from None


def _check_options(options: Mapping[str, Any], got: str) -> None:
    """Raise SpecError for options that say what the inputs of an ONNX file are, beside something else."""
    for name in ("input_shapes", "input_values"):
        if options[name]:
            raise SpecError(name, f"are for the inputs of an ONNX file, got {got[:60]!r}: leave them out")


def _in_memory(content: object, options: dict[str, Any]) -> Network:
    """Return the network of a document, an ONNX model, or the bytes of either. Raises as `load`."""
    where = "network in memory"
    is_text = isinstance(content, bytes) and content.lstrip(_BEFORE_JSON)[:1] in (b"{", b"[")
    if is_text or isinstance(content, Mapping):
        _check_options(options, "JSON")
        document = parse_json(text_of(content, where), where) if isinstance(content, bytes) else content
        return _of_json(document, where)
    with guarded(where):
        return cast("Network", IMPORTERS["ONNX"].part("from_memory")(content, where, **options))


def _read(path: Path, importer: Importer | None, options: dict[str, Any]) -> Network:
    refuse(path)
    where = os.fspath(path)
    if importer is None:
        reason = f"its ending is none of {', '.join(READ)}: write it as ONNX, which most tools can"
        raise FileError(where, f"{reason}, or in Python give the module to rramalloc.from_torch")
    if importer.ending == ".json":
        return _of_json(read_json(path), where)
    with guarded(where):
        return cast("Network", importer.part()(path, **(options if importer.takes_options else {})))


def _of_json(document: object, where: str) -> Network:
    readers = [row for row in IMPORTERS.values() if row.ending == ".json"]
    with guarded(where):
        chosen = next((row.part() for row in readers if row.part("recognises")(document)), None)
        return cast("Network", (chosen or Network.from_document)(document, where))
