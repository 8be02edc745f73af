"""`rramalloc convert`: any readable network to network JSON."""

from __future__ import annotations

from typing import Any

from rramalloc.cli.output import note, warn
from rramalloc.cli.parameters import Help, OptionValue, described, of_call, passed

CONVERT: Help = {
    "path": (OptionValue("OUT", writes="file"), "The network JSON to write."),
    "names": (None, "Name ONNX nodes after PyTorch's modules, or as in the file."),
}


@described(CONVERT, problem="names")
@of_call(
    "rramalloc.api:convert", outputs="quiet", example="Example: rramalloc convert resnet18 resnet18.json"
)
def command(given: dict[str, Any], path: str, *, quiet: bool) -> None:
    """Run `convert`, and say what was written."""
    from rramalloc import api

    converted = api.convert(**passed(given, api.convert))
    warn(converted.warnings, quiet=quiet)
    note(f"{path}: {len(converted.nodes)} nodes, {len(converted.stages)} weight layers", quiet=quiet)
