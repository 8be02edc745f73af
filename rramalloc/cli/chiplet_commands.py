"""`rramalloc chiplet`: inference cost on a topology of chiplets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rramalloc.cli import complete, parameters
from rramalloc.cli.group import Command, Group
from rramalloc.cli.output import print_csv, print_json, print_lines, print_table, warn

if TYPE_CHECKING:
    from rramalloc.studies.chiplet.cost import ChipletCost

app = typer.Typer(cls=Group, no_args_is_help=True)

Source = Annotated[
    str,
    typer.Argument(
        metavar="FILE|NETWORK", autocompletion=complete.networks,
        help="A description, or a network with both options below.",
    ),
]  # fmt: skip
AllocationFile = Annotated[
    str | None, typer.Option("--allocation", metavar="FILE", help="Allocation of NETWORK.")
]
PlacementFile = Annotated[
    str | None, typer.Option("--placement", metavar="FILE", help="Placement of that allocation.")
]
_COLUMNS = ("group", "operator", "compute", "communication", "routing", "cost")
_SPARE = ("routing", "communication", "compute")


@app.callback()
def _chiplet() -> None:
    """Inference cost on a topology of chiplets.

    Example: rramalloc chiplet cost resnext_block.json
    """


@app.command("cost", cls=Command)
def cost(
    source: Source,
    allocation: AllocationFile = None,
    placement: PlacementFile = None,
    input_shape: parameters.InputShape = None,
    output_format: parameters.OutputFormat = "table",
    output: parameters.Output = None,
    quiet: parameters.Quiet = False,
) -> None:
    """Cost of a description, or of an allocation as it is placed: groups, what lies between them, total.

    Example: rramalloc chiplet cost resnext_block.json
    """
    from rramalloc import api
    from rramalloc.files import write_json

    shapes = parameters.parse_input_shapes(input_shape)
    found = api.chiplet_cost(source, allocation, placement, input_shapes=shapes)
    if output is not None:
        write_json(output, found.to_dict())
    rows = [
        (index, name, operator.compute, operator.communication, operator.routing, operator.cost)
        for index, group in enumerate(found.groups)
        for name, operator in group.operators.items()
    ]
    match output_format:
        case "json":
            print_json(found.to_dict())
        case "csv":
            print_csv(_COLUMNS, rows)
        case "table":
            cells = [(*row[:2], *map(_shown, row[2:])) for row in rows]
            print_table(_COLUMNS, cells, ("operator",), spare=_SPARE, quiet=quiet)
            _summary(found, quiet=quiet)
    warn(found.warnings, quiet=quiet)


def _summary(found: ChipletCost, *, quiet: bool) -> None:
    if found.edges:
        typer.echo()
        rows = [
            (edge.source, edge.to, _shown(edge.communication), _shown(edge.routing), _shown(edge.cost))
            for edge in found.edges
        ]
        names = ("from", "to", "communication", "routing", "cost")
        print_table(names, rows, names[:2], spare=_SPARE, whole="--format json", quiet=quiet)
    typer.echo()
    groups, between = sum(group.cost for group in found.groups), sum(found.between)
    print_lines(
        [
            ("groups", f"{_shown(groups)} {found.unit} in {len(found.groups)} groups"),
            ("between", f"{_shown(between)} {found.unit}"),
            ("total", f"{_shown(found.total)} {found.unit}"),
        ]
    )


def _shown(value: float) -> str:
    """Whole costs in full, others to six digits."""
    return str(int(value)) if float(value).is_integer() and value < 1e15 else f"{value:.6g}"
