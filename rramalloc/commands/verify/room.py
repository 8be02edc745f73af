"""Room of `rramalloc verify`: its command, calls, view and records."""

from rramalloc.room import Room

ROOM = Room(
    name="verify",
    panel="Size a chip",
    order=250,
    title="Verify the arrays",
    command="command:command",
    calls=("verify:EarlyReadError", "verify:verify"),
    records={
        "verification": "verification:Verification",
    },
    views={
        "verification": "view:verification_view",
    },
    needs=("place",),
    reads={"verify": "case limits"},
)
