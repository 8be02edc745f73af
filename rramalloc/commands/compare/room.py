"""Room of `rramalloc compare`: its command, calls, view and records."""

from rramalloc.room import Room

ROOM = Room(
    name="compare",
    panel="Compare and publish",
    order=310,
    title="Compare methods",
    command="command:command",
    calls=(
        "compare:compare",
        "comparison:Comparison",
    ),
    records={
        "comparison": "comparison:Comparison",
    },
    views={
        "comparison": "view:comparison_view",
    },
    reads={"compare": "case limits objective inputs placed"},
)
