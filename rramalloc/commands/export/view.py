"""Views of an export: what a tool does in another way, and which tools take an allocation."""

from __future__ import annotations

from rramalloc.commands.export.bundle import Export, ExportCheck
from rramalloc.view.view import View, table


def remarks_view(made: Export) -> View:
    """Return the view of an export: what its tool rounds, ignores or counts otherwise."""
    remarks = table(
        "Remarks",
        made.remarks,
        "layer, kind, what=text",
        spare="kind",
        layer=lambda remark: remark.layer or "-",
    )
    return View(kind="Export", title=made.target, tables=(remarks,))


def check_view(made: ExportCheck) -> View:
    """Return the view of a check: the tools that take an allocation, and why others do not."""
    tools = table(
        "Tools",
        made.tools,
        "tool=name, takes it=taken, remarks, why not=reason",
        spare="remarks",
        taken=lambda tool: "yes" if tool.taken else "no",
        reason=lambda tool: tool.reason or "-",
    )
    return View(kind="Tools", title=made.network.name, tables=(tools,))
