"""Views of an export: remarks on a tool, and the tools that take an allocation."""

from __future__ import annotations

from rramalloc.commands.export.bundle import Export, ExportCheck
from rramalloc.view.view import View, table


def remarks_view(made: Export) -> View:
    """Return the view of an export: its remarks."""
    remarks = table(
        "Remarks",
        made.remarks,
        "layer, kind, what=text",
        spare="kind",
        layer=lambda remark: remark.layer or "-",
    )
    notes = tuple(f"warning: {warning}" for warning in made.warnings)
    return View(kind="Export", title=made.target, tables=(remarks,), notes=notes)


def check_view(made: ExportCheck) -> View:
    """Return the view of a check: the tools that take an allocation, and the reasons of the others."""
    tools = table(
        "Tools",
        made.tools,
        "tool=name, takes it=taken, remarks, why not=reason",
        spare="remarks",
        taken=lambda tool: "yes" if tool.taken else "no",
        reason=lambda tool: tool.reason or "-",
    )
    return View(kind="Tools", title=made.network.name, tables=(tools,))
