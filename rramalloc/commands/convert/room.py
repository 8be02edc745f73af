"""Room of `rramalloc convert`: its command, calls, view and records."""

from rramalloc.room import Room

ROOM = Room(
    name="convert",
    panel="Networks and files",
    order=710,
    title="Read and write networks",
    command="command:command",
)
