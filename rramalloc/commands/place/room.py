"""Room of `rramalloc place`: its command, calls, view and records."""

from rramalloc.room import Room

ROOM = Room(
    name="place",
    panel="Size a chip",
    order=240,
    title="Place every array",
    call="place:place",
    help={
        "work": (
            "N",
            "Units of improvement, about 0.01 s each; left out: as many as pay, 0: construction only.",
        ),
        "output": ("FILE", "Write the placement as JSON."),
    },
    figure="chip_map",
    example="Example: rramalloc place alexnet --allocation a.json --hardware isaac",
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
