"""Room of `rramalloc simulate`: its command, calls, view and records."""

from rramalloc.room import Room

ROOM = Room(
    name="simulate",
    panel="Allocate",
    order=160,
    title="Time an allocation",
    command="command:command",
    views={
        "simulation": "view:simulation_view",
    },
    reads={"simulate": "case limits"},
)
