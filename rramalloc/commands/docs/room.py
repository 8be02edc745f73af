"""Room of `rramalloc docs`: its command."""

from rramalloc.room import Room

ROOM = Room(
    name="docs",
    panel="Networks and files",
    order=760,
    command="command:command",
)
