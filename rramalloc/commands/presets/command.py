"""`rramalloc presets`: the hardware that ships."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Annotated

import typer

from rramalloc.cli import complete
from rramalloc.cli.output import print_json, print_view_as
from rramalloc.cli.parameters import Format, described
from rramalloc.view.view import View, table


@described({})
def command(
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
    loaded = {preset: load_hardware(preset) for preset in preset_names() if name in (None, preset)}
    rows = [
        SimpleNamespace(
            name=name,
            crossbar=hardware.crossbar.size,
            cell_bits=hardware.crossbar.cell_bits,
            weight_bits=hardware.precision.weight_bits,
            columns_per_weight=hardware.columns_per_weight,
            unconfirmed=", ".join(hardware.unconfirmed),
            source=hardware.source,
        )
        for name, hardware in loaded.items()
    ]

    if output_format == "json":
        print_json([{"preset": name} | hardware.to_dict() for name, hardware in loaded.items()])
        return
    spare = "columns_per_weight unconfirmed weight_bits cell_bits crossbar"
    columns = "name, crossbar, cell_bits, weight_bits, columns_per_weight, unconfirmed, source"
    shipped = table("Presets", rows, columns, spare=spare)
    print_view_as(View(kind="Presets", title="Presets", tables=(shipped,)), output_format)
