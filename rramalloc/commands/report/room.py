"""What the room of `rramalloc report` offers."""

from rramalloc.room import Room

ROOM = Room(
    name="report",
    panel="Compare and publish",
    order=330,
    title="Report",
    command="command:report",
    calls=("report:report",),
)
