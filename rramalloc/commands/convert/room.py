"""What the room of `rramalloc convert` offers."""

from rramalloc.room import Room

ROOM = Room(
    name="convert",
    panel="Networks and files",
    order=710,
    title="Read and write networks",
    command="command:convert",
)
