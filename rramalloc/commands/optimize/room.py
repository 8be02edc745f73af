"""Room of `rramalloc optimize`: its command, calls, view and records."""

from rramalloc.room import Room

ROOM = Room(
    name="optimize",
    panel="Allocate",
    order=110,
    title="Allocate arrays",
    command="command:command",
    views={
        "allocation": "view:allocation_view",
    },
    reads={"optimize": "case limits question"},
)
