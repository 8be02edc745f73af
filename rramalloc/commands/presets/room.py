"""What the room of `rramalloc presets` offers."""

from rramalloc.room import Room

ROOM = Room(
    name="presets",
    panel="Networks and files",
    order=730,
    command="command:presets",
)
