"""Room of `rramalloc export`: its command, calls, view and records."""

from rramalloc.room import Room

ROOM = Room(
    name="export",
    panel="Hand over to a tool",
    order=410,
    title="Export",
    command="command:command",
    calls=(
        "export:export",
        "export:export_check",
    ),
    records={
        "export": "targets.json:ExportDocument",
        "exported": "bundle:Export",
        "export-check": "bundle:ExportCheck",
    },
    needs=("place",),
    reads={"export": "case limits", "--to TOOL": "case -kinds -images -layer_bits -sdk -host limits"},
)
