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
        "size": "case -first_fit limits target interval_target interval placed",
        "size --placed": "case -first_fit -kinds limits target interval_target interval placed",
    },
)
