"""Room of `rramalloc chiplet`: its command, calls, view and records."""

from rramalloc.room import Room

ROOM = Room(
    name="chiplet",
    panel="Companions",
    order=640,
    title="Chiplets",
    command="command:app",
    calls=(
        "cost:chiplet_cost",
        "cost:chiplet_compare",
        "chiplet_optimize:chiplet_optimize",
    ),
    records={
        "chiplet": "description:Description",
        "chiplet-cost": "cost:ChipletCost",
        "chiplet-comparison": "cost:ChipletComparison",
        "chiplet-schedule": "chiplet_optimize:ChipletSchedule",
    },
    views={
        "chiplet-cost": "view:cost_view",
        "chiplet-comparison": "view:chiplet_comparison_view",
        "chiplet-schedule": "view:schedule_view",
    },
    needs=("place",),
    reads={
        "chiplet cost": "case -sdk limits",
        "chiplet optimize": "case -kinds -images -turns -sequences -states -sdk -fold -latency_table",
    },
)
