"""Room of `rramalloc inspect`: its command, calls, view and records."""

from rramalloc.room import Room

ROOM = Room(
    name="inspect",
    panel="Allocate",
    order=120,
    title="Look at a network",
    command="command:command",
    views={
        "inspection": "view:inspection_view",
    },
    reads={"inspect": "case -latency_table"},
)
