"""Room of `rramalloc tune`: its command, calls, view and records."""

from rramalloc.room import Room

ROOM = Room(
    name="tune",
    panel="Hand over to a tool",
    order=420,
    title="Tune for a simulator",
    command="command:command",
    calls=(
        "tune:tune",
        "tuning:Tuning",
    ),
    records={
        "tuning": "tuning:Tuning",
    },
    views={
        "tuning": "view:tuning_view",
    },
    needs=(
        "export",
        "place",
    ),
    reads={"tune": "case -images -sdk limits placed"},
)
