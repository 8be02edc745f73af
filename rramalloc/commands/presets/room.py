"""Room of `rramalloc presets`: its command, calls, view and records."""

from rramalloc.room import Room

ROOM = Room(
    name="presets",
    panel="Networks and files",
    order=730,
    command="command:command",
)
