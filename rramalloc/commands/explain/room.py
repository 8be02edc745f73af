"""Room of `rramalloc explain`: its command, calls, view and records."""

from rramalloc.room import Room

ROOM = Room(
    name="explain",
    panel="Allocate",
    order=170,
    title="What holds it back",
    command="command:command",
    calls=(
        "explain:explain",
        "explanation:Explanation",
    ),
    records={
        "explanation": "explanation:Explanation",
    },
    views={
        "explanation": "view:explanation_view",
    },
    reads={"explain": "case limits objective interval placed"},
)
