"""The networks that ship with the package, by name."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from rramalloc.errors import UnknownNameError
from rramalloc.files import JSON_LIMIT_BYTES, read_text


@cache
def _folder() -> Path:
    """Return the folder of the networks: inside an installed package, beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "networks"
    return installed if installed.is_dir() else package.parent / "networks"


def shipped_names() -> tuple[str, ...]:
    """Return the names of all shipped networks, sorted."""
    return tuple(sorted(path.stem for path in _folder().glob("*.json")))


def shipped_text(name: str) -> str:
    """Return the network JSON of a shipped network. Raises UnknownNameError."""
    if name not in shipped_names():
        raise UnknownNameError("shipped network", name, shipped_names())
    return read_text(_folder() / f"{name}.json", JSON_LIMIT_BYTES)
