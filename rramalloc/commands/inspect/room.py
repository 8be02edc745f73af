"""Room of `rramalloc inspect`: its command, calls, view and records."""

from rramalloc.room import Room

ROOM = Room(
    name="inspect",
    panel="Allocate",
    order=120,
    title="Look at a network",
    call="rramalloc.api:inspect",
    example="Example: rramalloc inspect resnet18 --hardware isaac",
    views={
        "inspection": "view:inspection_view",
    },
    reads={"inspect": "case -latency_table"},
)
