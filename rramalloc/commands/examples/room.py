"""Room of `rramalloc examples`: its command."""

from rramalloc.room import Room

ROOM = Room(
    name="examples",
    panel="Networks and files",
    order=750,
    command="command:command",
)
