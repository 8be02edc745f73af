"""`read`: the result that a file holds, whatever call or command wrote it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from rramalloc.errors import SpecError, suggestion
from rramalloc.files import parse_json, read_text
from rramalloc.hardware.loader import hardware_of, load_hardware
from rramalloc.network.network import Network
from rramalloc.records import FORMAT_PREFIX, brief, format_name, parse
from rramalloc.room import load_from
from rramalloc.schemas import record_of, schema_names
from rramalloc.timing.latency_table import load_latency_table
from rramalloc.upgrade import upgraded

RESULT_LIMIT_BYTES = 2**28  # of a result: a placement is the largest
_TABLES_OF_HARDWARE = ("crossbar", "precision")
"""Tables that every hardware has, by which a document without `format` is recognised as one."""


def read(path: str | os.PathLike[str]) -> Any:
    """Read a result that `save` of a call's result, or `-o` of a command, wrote.

    `load` reads networks of any kind; `read` reads the files that rramalloc itself writes.

    Parameters
    ----------
    path
        A JSON file with a `format` of this program, the JSON or TOML of a hardware, a latency table in CSV,
        or the folder of a finished sweep.

    Returns
    -------
    Allocation, Comparison, Network, ...
        The type that the format names, equal to what was saved; type checkers are told of all of them. Of
        an `Evaluation` or a sweep it is the document, without the matrices of the one and the folder of the
        other.

    Raises
    ------
    FileError
        The file cannot be read.
    SpecError
        It holds no result of this program, or one of another version.

    Examples
    --------
    >>> import rramalloc
    >>> rramalloc.optimize("alexnet", arrays=400).save("a.json")
    >>> print(rramalloc.read("a.json"))
    alexnet: 226 steps on 394 of 400 arrays, proven optimal for the layers on arrays
    """
    shown = os.fspath(path)
    if os.path.isdir(shown):
        return load_from("sweep", "sweep:read_sweep", "the folder of a sweep")(shown)
    match Path(shown).suffix.lower():
        case ".toml":
            return load_hardware(path)
        case ".csv":
            return load_latency_table(path)
    return result_of(parse_json(read_text(path, RESULT_LIMIT_BYTES), shown), shown)


def result_of(document: object, where: str) -> Any:
    """Return the result whose document this is, of this version or an older one.

    Raises SpecError; `where` names the file.
    """
    document = upgraded(document)
    if not isinstance(document, dict):
        raise SpecError(where, f"must be a result of this program, got {brief(document)}")
    name = format_name(document.get("format"))
    if name == "network":
        return Network.from_document(document, where)
    if name in schema_names():
        return parse(TypeAdapter(record_of(name)), document, where)
    if "format" not in document and all(table in document for table in _TABLES_OF_HARDWARE):
        return hardware_of(document, where)
    raise SpecError(where, _no_result(document))


def _no_result(document: dict[str, Any]) -> str:
    """Return the reason why a document is no result, and the call that reads it if that is known."""
    if "format" not in document:
        if "copies" in document:
            return "says how layers run and has no `format`: give it to `simulate` as the allocation"
        return f"has no `format`; a result has one, such as {FORMAT_PREFIX}allocation/2"
    known = [f"{FORMAT_PREFIX}{name}" for name in schema_names()]
    text = str(document["format"])[:200]
    hint = suggestion(text.rpartition("/")[0] or text, known) or f"known: {', '.join(schema_names())}"
    return f"format: no result of this program has {brief(document['format'])}; {hint}"


def sizing_in(network: object) -> Any | None:
    """Return the result of `size` whose file stands in place of a network, None for any other network.

    Raises FileError, SpecError.
    """
    is_file = isinstance(network, str | os.PathLike) and os.path.isfile(network)
    if not is_file or Path(str(network)).suffix.lower() != ".json":
        return None
    text = read_text(str(network), RESULT_LIMIT_BYTES)
    if f"{FORMAT_PREFIX}size" not in text:  # other networks are not read twice
        return None
    document = parse_json(text, str(network))
    if not isinstance(document, dict) or format_name(document.get("format")) != "size":
        return None
    return result_of(document, str(network))


def network_of_sizing(sized: Any) -> Network:
    """Return a network of a result of `size`, a row of its `networks`. Raises SpecError."""
    where = f"networks: {sized.name[:60]!r}"
    if sized.network is None:
        raise SpecError(where, "an earlier version wrote no network beside its allocation: size again")
    return Network.from_document(sized.network, where)
