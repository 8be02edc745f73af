"""`rramalloc networks`: what ships, with sources."""

from __future__ import annotations

from typing import NamedTuple

from rramalloc.cli import options
from rramalloc.cli.output import print_result


class _Row(NamedTuple):
    name: str
    weight_layers: int
    source: str


def networks(output_format: options.OutputFormat = "table") -> None:
    """Networks that ship with the package, each with its source.

    Example: rramalloc networks --format json
    """
    from rramalloc.importers import load
    from rramalloc.network.shipped import shipped_names

    found = [load(name) for name in shipped_names()]
    rows = [_Row(network.name, len(network.stages), network.source) for network in found]
    columns = {field: field for field in _Row._fields}
    print_result(
        lambda: [row._asdict() for row in rows], columns, rows, output_format, ("name", "source"),
        spare=("weight_layers",),
    )  # fmt: skip
