"""`rramalloc networks`: the networks that ship."""

from __future__ import annotations

from rramalloc.cli.output import TableLayout, print_result
from rramalloc.cli.parameters import Format, described
from rramalloc.columns import Column


@described({})
def networks(*, output_format: Format = "table") -> None:
    """List the networks of the package, each with its source.

    Example: rramalloc networks --format json
    """
    from rramalloc.importers.shipped import ShippedNetwork, shipped_networks

    rows = shipped_networks()
    table = TableLayout(
        [*map(Column, ShippedNetwork._fields)], ("name", "source"), ("weight_layers", "weights", "macs")
    )
    print_result(lambda: [row._asdict() for row in rows], table, rows, output_format)
