"""`rramalloc export`: an allocation as files for other mappers and simulators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rramalloc.cli import complete, parameters
from rramalloc.cli.output import note, print_table
from rramalloc.errors import UnknownNameError

if TYPE_CHECKING:
    from rramalloc.export.bundle import Export


def _is_target(name: str) -> str:
    from rramalloc.export.discovery import target_names

    if name not in target_names():
        raise typer.BadParameter(str(UnknownNameError("tool", name, target_names())))
    return name


To = Annotated[
    str,
    typer.Option(
        "--to", metavar="TOOL", callback=_is_target, autocompletion=complete.targets,
        help="The tool to write for; a name that does not exist lists all.",
    ),
]  # fmt: skip
Destination = Annotated[
    str | None,
    typer.Option("-o", "--output", metavar="FILE|DIR", help="A folder where the tool takes several files."),
]
Check = Annotated[
    bool, typer.Option("--check", help="Only list what the tool rounds, ignores or counts otherwise.")
]
PlacementFile = Annotated[
    str | None, typer.Option("--placement", metavar="FILE", help="Placement to add, for csv and json.")
]


def export(
    network: parameters.NetworkArgument,
    allocation: parameters.AllocationFile,
    *,
    to: To,
    output: Destination = None,
    check: Check = False,
    placement: PlacementFile = None,
    hardware: parameters.OwnHardware = None,
    mapping: parameters.OwnMapping = None,
    fc: parameters.OwnFc = None,
    input_shape: parameters.InputShape = None,
    allow_partial: parameters.AllowPartial = False,
    quiet: parameters.Quiet = False,
) -> None:
    """Write an allocation for PIMCOMP, PIMSYN, MNSIM, NeuroSim, or as CSV or JSON for any other tool.

    Example: rramalloc export vgg16 --allocation a.json --to pimsyn -o pimsyn
    """
    from rramalloc import api

    made = api.export(
        network, allocation, to, placement=placement, hardware=hardware,
        mapping=mapping, fc=fc,
        input_shapes=parameters.parse_input_shapes(input_shape), allow_partial=allow_partial,
    )  # fmt: skip
    if check:
        _print_remarks(made, quiet=quiet)
        return
    if output is None:
        typer.echo(made.single_text(), nl=False)
    else:
        for path in made.save(output):
            note(f"wrote {path}", quiet=quiet)
    _tell(made, quiet=quiet)


def _print_remarks(made: Export, *, quiet: bool) -> None:
    if not made.remarks:
        typer.echo(f"{made.target}: nothing is rounded, ignored or counted otherwise")
        return
    rows = [(remark.layer or "-", remark.kind, remark.text) for remark in made.remarks]
    names = ("layer", "kind", "what")
    print_table(names, rows, names, spare=names[1:2], whole="a pipe", quiet=quiet)


def _tell(made: Export, *, quiet: bool) -> None:
    """Remarks on all layers, and the number of those on single layers."""
    for remark in made.remarks:
        if remark.layer is None:
            note(f"note: {remark.text}", quiet=quiet)
    single = sum(remark.layer is not None for remark in made.remarks)
    if single:
        note(f"note: {single} remarks on single layers; --check lists them", quiet=quiet)
