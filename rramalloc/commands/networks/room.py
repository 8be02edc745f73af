"""What the room of `rramalloc networks` offers."""

from rramalloc.room import Room

ROOM = Room(
    name="networks",
    panel="Networks and files",
    order=720,
    command="command:networks",
)
