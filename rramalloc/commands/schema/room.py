"""What the room of `rramalloc schema` offers."""

from rramalloc.room import Room

ROOM = Room(
    name="schema",
    panel="Networks and files",
    order=740,
    command="command:schema",
)
