"""Room of `rramalloc fold`: its command, calls, view and records."""

from rramalloc.room import Room

ROOM = Room(
    name="fold",
    panel="Companions",
    order=620,
    title="Fold filters",
    command="command:command",
    calls=(
        "filter_folding:fold",
        "filter_folding:fold_filter",
    ),
    records={
        "fold": "filter_folding:FilterFold",
        "network-fold": "filter_folding:NetworkFold",
    },
    views={
        "fold": "view:filter_view",
        "network-fold": "view:network_view",
    },
)
