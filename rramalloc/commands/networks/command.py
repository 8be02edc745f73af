"""`rramalloc networks`: the networks that ship."""

from __future__ import annotations

from rramalloc.cli.output import print_json, print_view_as
from rramalloc.cli.parameters import Format, described
from rramalloc.view.view import View, table


@described({})
def command(*, output_format: Format = "table") -> None:
    """List the networks of the package, each with its source.

    Example: rramalloc networks --format json
    """
    from rramalloc.importers.shipped import ShippedNetwork, shipped_networks

    rows = shipped_networks()
    if output_format == "json":
        print_json([row._asdict() for row in rows])
        return
    shipped = table("Networks", rows, ", ".join(ShippedNetwork._fields), spare="weight_layers weights macs")
    print_view_as(View(kind="Networks", title="Networks", tables=(shipped,)), output_format)
