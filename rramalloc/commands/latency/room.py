"""Room of `rramalloc latency`: its command, calls, view and records."""

from rramalloc.room import Room

ROOM = Room(
    name="latency",
    panel="Companions",
    order=630,
    title="Measure latencies",
    command="command:app",
    calls=(
        "device:open_device",
        "estimate:estimate_latency",
        "fit:fit_latency",
        "measure:measure_latency",
    ),
    records={
        "latency-estimate": "estimate:LatencyEstimate",
    },
    views={
        "latency": "view:table_view",
        "latency-estimate": "view:estimate_view",
    },
)
