"""Room of `rramalloc report`: its command, calls, view and records."""

from rramalloc.room import Room

ROOM = Room(
    name="report",
    panel="Compare and publish",
    order=330,
    title="Report",
    command="command:command",
    calls=("report:report",),
)
