"""Room of `rramalloc sweep`: its command, calls, view and records."""

from rramalloc.room import Room

ROOM = Room(
    name="sweep",
    panel="Compare and publish",
    order=320,
    title="Sweep design points",
    command="command:command",
    calls=(
        "sweep:sweep",
        "sweep:sweep_status",
    ),
    records={
        "sweep": "rows:SweepDocument",
        "sweep-spec": "spec:Spec",
        "sweep-status": "rows:SweepStatus",
    },
    views={
        "sweep": "view:sweep_view",
        "sweep-status": "view:status_view",
    },
    reads={"sweep": "case limits objective target interval_target interval inputs bits placed method"},
)
