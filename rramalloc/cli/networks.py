"""`rramalloc networks`: what ships, with sources."""

from __future__ import annotations

from rramalloc.cli import options
from rramalloc.cli.output import print_csv, print_json, print_table

_COLUMNS = ("name", "weight_layers", "source")


def networks(output_format: options.OutputFormat = options.Format.table) -> None:
    """Networks that ship with the package, each with its source.

    Example: rramalloc networks --format json
    """
    from rramalloc.network.readers import load
    from rramalloc.network.shipped import shipped_names

    found = [load(name) for name in shipped_names()]
    rows = [(network.name, len(network.stages), network.source) for network in found]
    if output_format is options.Format.json:
        print_json([dict(zip(_COLUMNS, row, strict=True)) for row in rows])
    elif output_format is options.Format.csv:
        print_csv(_COLUMNS, rows)
    else:
        print_table(_COLUMNS, rows, texts=("name", "source"))
