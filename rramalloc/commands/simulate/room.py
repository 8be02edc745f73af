"""What the room of `rramalloc simulate` offers."""

from rramalloc.room import Room

ROOM = Room(
    name="simulate",
    panel="Allocate",
    order=160,
    title="Time an allocation",
    command="command:simulate",
    views={
        "simulation": "view:simulation_view",
    },
)
