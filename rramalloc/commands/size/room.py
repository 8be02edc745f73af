"""Room of `rramalloc size`: its command, calls, view and records."""

from rramalloc.room import Room

ROOM = Room(
    name="size",
    panel="Size a chip",
    order=220,
    title="The chip for your networks",
    command="command:command",
    calls=(
        "size:size",
        "sizing:Sizing",
    ),
    records={
        "size": "sizing:Sizing",
        "size-spec": "question:SizeQuestion",
    },
    views={
        "size": "view:sizing_view",
    },
    needs=("sweep",),
    reads={
        "size": "case limits target interval placed",
        "size --placed": "case -kinds limits target interval placed",
    },
)
