"""`rramalloc schema`: JSON Schemas of file formats."""

from __future__ import annotations

from typing import Annotated

import typer

from rramalloc.cli import complete
from rramalloc.cli.output import print_json
from rramalloc.cli.parameters import described


@described({})
def command(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            autocompletion=complete.schemas,
            help="network, hardware, allocation, bare-allocation, simulation, inspection, pareto, ...",
        ),
    ] = None,
) -> None:
    """Print the JSON Schema of a file format, or the names of all formats.

    Example: rramalloc schema allocation
    """
    from rramalloc.schemas import json_schema, schema_names

    if name is None:
        typer.echo("\n".join(schema_names()))
        return
    print_json(json_schema(name))
