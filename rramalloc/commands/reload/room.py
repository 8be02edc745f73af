"""Room of `optimize --reload`: its command, calls, view and records."""

from rramalloc.room import Room

ROOM = Room(
    name="reload",
    panel="Larger than the chip",
    order=510,
    title="Reload",
    calls=(
        "reload:optimize_reload",
        "plan:ReloadPlan",
    ),
    records={
        "reload": "plan:ReloadPlan",
    },
    views={
        "reload": "view:reload_view",
    },
    reads={"--reload": "case -counting -first_fit -states -fold -latency_table inputs"},
)
