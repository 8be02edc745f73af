"""`rramalloc networks`, `presets` and `schema`: what ships with the package."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import typer

from rramalloc.cli import complete
from rramalloc.cli.output import TableLayout, print_json, print_result
from rramalloc.cli.parameters import Format
from rramalloc.columns import Column


class ShippedNetwork(NamedTuple):
    """weights: as `Coverage` counts them; macs: those of products of computed tensors among them."""

    name: str
    weight_layers: int
    weights: int
    macs: int
    source: str


class _PresetRow(NamedTuple):
    name: str
    crossbar: str
    cell_bits: int
    weight_bits: int
    columns_per_weight: int
    unconfirmed: str
    source: str


def shipped_networks() -> list[ShippedNetwork]:
    """Return what is known of every shipped network, by name."""
    from rramalloc.importers import load
    from rramalloc.network.coverage import Coverage
    from rramalloc.network.shipped import shipped_names

    rows = []
    for name in shipped_names():
        network = load(name)
        coverage = Coverage.of(network, [stage.name for stage in network.stages])
        macs = coverage.macs.on_arrays
        if coverage.dynamic is not None:
            macs += coverage.dynamic.macs
        weights = coverage.weights.on_arrays
        rows.append(ShippedNetwork(name, len(network.stages), weights, macs, network.source))
    return rows


def networks(*, output_format: Format = "table") -> None:
    """List the networks of the package, each with its source.

    Example: rramalloc networks --format json
    """
    rows = shipped_networks()
    table = TableLayout(
        [*map(Column, ShippedNetwork._fields)], ("name", "source"), ("weight_layers", "weights", "macs")
    )
    print_result(lambda: [row._asdict() for row in rows], table, rows, output_format)


def presets(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[PRESET]",
            autocompletion=complete.presets,
            help="Print its TOML, to start a file from.",
        ),
    ] = None,
    *,
    output_format: Format = "table",
) -> None:
    """List the hardware presets of the package, each with its source and unconfirmed values.

    Example: rramalloc presets isaac > my.toml
    """
    from rramalloc.hardware.loader import load_hardware
    from rramalloc.hardware.preset_files import preset_names, preset_text

    if name is not None and output_format == "table":
        typer.echo(preset_text(name), nl=False)
        return
    loaded = {each: load_hardware(each) for each in preset_names() if name in (None, each)}
    rows = [
        _PresetRow(
            name,
            hardware.crossbar.size,
            hardware.crossbar.cell_bits,
            hardware.precision.weight_bits,
            hardware.columns_per_weight,
            ", ".join(hardware.unconfirmed),
            hardware.source,
        )
        for name, hardware in loaded.items()
    ]

    def document() -> list[dict[str, object]]:
        return [{"preset": name} | hardware.to_dict() for name, hardware in loaded.items()]

    texts = ("name", "crossbar", "unconfirmed", "source")
    spare = ("columns_per_weight", "unconfirmed", "weight_bits", "cell_bits", "crossbar")
    table = TableLayout([*map(Column, _PresetRow._fields)], texts, spare)
    print_result(document, table, rows, output_format)


def schema(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            autocompletion=complete.schemas,
            help="network, hardware, allocation, replication, simulation, inspection, pareto, ...",
        ),
    ],
) -> None:
    """Print the JSON Schema of a file format.

    Example: rramalloc schema allocation
    """
    from rramalloc.schemas import json_schema

    print_json(json_schema(name))
