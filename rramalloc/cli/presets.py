"""`rramalloc presets`: hardware that ships, with sources."""

from __future__ import annotations

from rramalloc.cli import options
from rramalloc.cli.output import print_csv, print_json, print_table

_COLUMNS = ("name", "crossbar", "cell_bits", "weight_bits", "columns_per_weight", "unconfirmed", "source")


def presets(output_format: options.OutputFormat = options.Format.table) -> None:
    """Hardware presets that ship with the package, each with its source and unconfirmed values.

    Example: rramalloc presets --format json
    """
    from rramalloc.hardware.loader import load_hardware, preset_names

    found = {name: load_hardware(name) for name in preset_names()}
    if output_format is options.Format.json:
        print_json([{"preset": name} | hardware.to_dict() for name, hardware in found.items()])
        return
    rows = [
        (
            name,
            f"{hardware.crossbar.wordlines}x{hardware.crossbar.bitlines}",
            hardware.crossbar.cell_bits,
            hardware.precision.weight_bits,
            hardware.columns_per_weight,
            ", ".join(hardware.unconfirmed),
            hardware.source,
        )
        for name, hardware in found.items()
    ]
    if output_format is options.Format.csv:
        print_csv(_COLUMNS, rows)
    else:
        print_table(_COLUMNS, rows, texts=("name", "crossbar", "unconfirmed", "source"))
