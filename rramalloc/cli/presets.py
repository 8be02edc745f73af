"""`rramalloc presets`: hardware that ships, with sources."""

from __future__ import annotations

from typing import NamedTuple

from rramalloc.cli import options
from rramalloc.cli.output import print_result

_TEXTS = ("name", "crossbar", "unconfirmed", "source")
_SPARE = ("columns_per_weight", "unconfirmed", "weight_bits", "cell_bits", "crossbar")


class _Row(NamedTuple):
    name: str
    crossbar: str
    cell_bits: int
    weight_bits: int
    columns_per_weight: int
    unconfirmed: str
    source: str


def presets(output_format: options.OutputFormat = "table") -> None:
    """Hardware presets that ship with the package, each with its source and unconfirmed values.

    Example: rramalloc presets --format json
    """
    from rramalloc.hardware.loader import load_hardware
    from rramalloc.hardware.shipped import preset_names

    found = {name: load_hardware(name) for name in preset_names()}
    rows = [
        _Row(
            name,
            hardware.crossbar.size,
            hardware.crossbar.cell_bits,
            hardware.precision.weight_bits,
            hardware.columns_per_weight,
            ", ".join(hardware.unconfirmed),
            hardware.source,
        )
        for name, hardware in found.items()
    ]

    def document() -> list[dict[str, object]]:
        return [{"preset": name} | hardware.to_dict() for name, hardware in found.items()]

    columns = {field: field for field in _Row._fields}
    print_result(document, columns, rows, output_format, _TEXTS, spare=_SPARE)
