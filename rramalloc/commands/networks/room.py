"""Room of `rramalloc networks`: its command, calls, view and records."""

from rramalloc.room import Room

ROOM = Room(
    name="networks",
    panel="Networks and files",
    order=720,
    command="command:command",
)
