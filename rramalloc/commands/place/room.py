"""Room of `rramalloc place`: its command, calls, view and records."""

from rramalloc.room import Room

ROOM = Room(
    name="place",
    panel="Size a chip",
    order=240,
    title="Place every array",
    command="command:command",
    calls=(
        "place:place",
        "placement:Placement",
    ),
    records={
        "placement": "placement:Placement",
    },
    views={
        "placement": "view:placement_view",
    },
    reads={
        "place": "case limits",
        "--placed": "case limits question",
    },
)
