"""`rramalloc convert`: any readable network to network JSON."""

from __future__ import annotations

from typing import Annotated

import typer

from rramalloc.choices import NodeNames
from rramalloc.cli import parameters
from rramalloc.cli.output import note, warn


def convert(
    network: parameters.NetworkArgument,
    out: Annotated[str, typer.Argument(metavar="OUT", help="The network JSON to write.")],
    *,
    input_shape: parameters.InputShape = None,
    allow_partial: parameters.AllowPartial = False,
    names: Annotated[
        NodeNames,
        typer.Option("--names", help="Name ONNX nodes after PyTorch's modules, or as in the file."),
    ] = "module",
    quiet: parameters.Quiet = False,
) -> None:
    """Write a network (ONNX, torch.export, PIMCOMP/PIMSYN JSON, layer table, shipped) as network JSON.

    Example: rramalloc convert m.onnx m.json --input-shape images=1,3,320,320
    """
    from rramalloc import api

    shapes = parameters.parse_input_shapes(input_shape)
    converted = api.convert(network, out, shapes, allow_partial=allow_partial, names=names)
    warn(converted.warnings, quiet=quiet)
    note(f"{out}: {len(converted.nodes)} nodes, {len(converted.stages)} weight layers", quiet=quiet)
