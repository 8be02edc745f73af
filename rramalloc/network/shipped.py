"""The networks that ship with the package, by name."""

from __future__ import annotations

from rramalloc.errors import UnknownNameError
from rramalloc.files import JSON_LIMIT_BYTES, ShippedName, read_text, shipped_name
from rramalloc.shipped_files import shipped_folder

_FOLDER = "networks"


def shipped_names() -> tuple[ShippedName, ...]:
    """Return the names of all shipped networks, sorted."""
    return tuple(sorted(ShippedName(path.stem) for path in shipped_folder(_FOLDER).glob("*.json")))


def shipped_network(entry: str, folder: str = "") -> ShippedName | None:
    """Return the name of the shipped network that an entry means, None if it means a file."""
    return shipped_name(entry, shipped_names(), ".json", folder)


def shipped_text(name: str) -> str:
    """Return the network JSON of a shipped network. Raises UnknownNameError."""
    if name not in shipped_names():
        raise UnknownNameError("shipped network", name, shipped_names())
    return read_text(shipped_folder(_FOLDER) / f"{name}.json", JSON_LIMIT_BYTES)
