"""Room of `rramalloc schema`: its command, calls, view and records."""

from rramalloc.room import Room

ROOM = Room(
    name="schema",
    panel="Networks and files",
    order=740,
    command="command:command",
)
