"""`rramalloc convert`: any readable network to network JSON."""

from __future__ import annotations

from typing import Unpack

from rramalloc.choices import NetworkArguments, NodeNames
from rramalloc.cli.output import note, warn
from rramalloc.cli.parameters import Help, Value, described, passed

CONVERT: Help = {
    "out": (Value("OUT", writes="file"), "The network JSON to write."),
    "names": (None, "Name ONNX nodes after PyTorch's modules, or as in the file."),
}


@described(CONVERT, problem="names")
def command(
    network: str,
    out: str,
    *,
    names: NodeNames = "module",
    quiet: bool = False,
    **shared: Unpack[NetworkArguments],
) -> None:
    """Write a network (ONNX, PIMCOMP/PIMSYN JSON, layer table, shipped) as network JSON.

    Example: rramalloc convert resnet18 resnet18.json
    """
    given = locals()
    from rramalloc import api

    converted = api.convert(**passed(given, api.convert), path=out)
    warn(converted.warnings, quiet=quiet)
    note(f"{out}: {len(converted.nodes)} nodes, {len(converted.stages)} weight layers", quiet=quiet)
