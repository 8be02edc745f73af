"""The networks that ship with the package, by name."""

from __future__ import annotations

from rramalloc.errors import UnknownNameError
from rramalloc.files import JSON_LIMIT_BYTES, read_text
from rramalloc.shipped_files import shipped_folder

_FOLDER = "networks"


def shipped_names() -> tuple[str, ...]:
    """Return the names of all shipped networks, sorted."""
    return tuple(sorted(path.stem for path in shipped_folder(_FOLDER).glob("*.json")))


def shipped_text(name: str) -> str:
    """Return the network JSON of a shipped network. Raises UnknownNameError."""
    if name not in shipped_names():
        raise UnknownNameError("shipped network", name, shipped_names())
    return read_text(shipped_folder(_FOLDER) / f"{name}.json", JSON_LIMIT_BYTES)
