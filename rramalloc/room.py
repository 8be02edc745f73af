"""Rooms: the folders of `commands`, and the command, calls, records and views of each.

A room says by name what it has, so that to know all rooms imports nothing of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pkgutil import iter_modules, resolve_name
from typing import Any

from rramalloc.errors import UnsupportedError

_FOLDER = "rramalloc.commands"


@dataclass(frozen=True, kw_only=True)
class Room:
    """A folder of `commands`. Its `room.py` holds one as `ROOM`, and imports nothing else.

    What is called an attribute is a text "module:name", such as "command:place", for a name in a module of
    the folder.

    Parameters
    ----------
    name
        Name of the folder, and of its command, which has "-" in place of "_".
    panel
        Heading of the help and of the documentation under which it stands.
    order
        Its place among all rooms, and among the pages of the documentation.
    title
        Title of its page in `docs/`, which has its name; "" if it has none of its own.
    command
        Attribute: function of the command, or Typer application of several; "" without one, and for a command
        that runs `call` and delivers what it returns.
    call
        Attribute of what such a command runs: its parameters are the options, and the first sentence of its
        docstring that of the help.
    help
        What help says of the options of such a command: the name of the value (None: by its type) and a
        sentence, where that is not what all commands say (`cli.parameters`).
    example
        Paragraphs of its help behind the first sentence.
    figure
        Chart of its result that --figure draws.
    calls
        Attributes that are names of `rramalloc` itself.
    records
        Attribute of the record of each of its file formats, by the name of the format.
    views
        Attribute of the function that makes the view of a result, by the name of its format.
    reads
        Features that each of its commands, or option that it brings, goes with (`allocation.goes_with`).
    needs
        Other rooms that it imports from, without which it is not to be had.
    """

    name: str
    panel: str
    order: int
    title: str = ""
    command: str = ""
    call: str = ""
    help: Mapping[str, tuple[str | None, str]] = field(default_factory=dict)
    example: str = ""
    figure: str = ""
    calls: tuple[str, ...] = ()
    records: Mapping[str, str] = field(default_factory=dict)
    views: Mapping[str, str] = field(default_factory=dict)
    reads: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()

    def full(self, attribute: str) -> str:
        """Return an attribute with the full name of its module."""
        return attribute if attribute.startswith("rramalloc.") else f"{_FOLDER}.{self.name}.{attribute}"

    @property
    def has_command(self) -> bool:
        """True if it has a command."""
        return bool(self.command or self.call)

    def load(self, attribute: str) -> Any:
        """Return the object of an attribute. Raises UnsupportedError without a room that this one needs."""
        for need in self.needs:
            if need not in installed():
                raise _absent(need, self.name)
        return resolve_name(self.full(attribute))


@cache
def installed() -> dict[str, Room]:
    """Return all rooms of this installation by name, in their order."""
    folders = (f"{_FOLDER}.{folder.name}.room" for folder in iter_modules(import_module(_FOLDER).__path__))
    found: list[Room] = [import_module(module).ROOM for module in folders]
    return {room.name: room for room in sorted(found, key=lambda room: room.order)}


@cache
def rooms() -> dict[str, Room]:
    """Return the rooms that have all rooms they need, by name, in their order."""
    every = installed()
    return {name: room for name, room in every.items() if every.keys() >= {*room.needs}}


def load_from(name: str, attribute: str, where: str) -> Any:
    """Return the object that an attribute of a room names.

    Raises
    ------
    UnsupportedError
        This installation does not have the room; `where` names the argument that asks for it.
    """
    if name not in installed():
        raise _absent(name, where)
    return installed()[name].load(attribute)


def _absent(name: str, where: str) -> UnsupportedError:
    reason = f"this installation has no commands/{name}: install rramalloc anew, or leave {where} out"
    return UnsupportedError(where, reason)
