"""Reader of PyTorch programs: `.pt2` archives without torch, live modules through torch.export."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rramalloc.errors import NetworkError, SpecError
from rramalloc.importers.torch.archive import read_program
from rramalloc.importers.torch.graph import Dims, Program
from rramalloc.importers.torch.lowering import lower
from rramalloc.importers.torch.nodes import NodeList
from rramalloc.importers.torch.operators import RULES
from rramalloc.network.network import Network
from rramalloc.records import brief, is_whole

if TYPE_CHECKING:
    import torch

_MAX_VALUES = 2**40


def read(path: str | os.PathLike[str]) -> Network:
    """The network in a `.pt2` archive (torch.export.save); nothing in it is executed or unpickled.

    Raises FileError, SpecError, UnsupportedError.
    """
    where = os.fspath(path)
    return _network(read_program(path), where, Path(path).stem or "network")


def from_torch(
    module: torch.nn.Module | torch.export.ExportedProgram,
    example_shape: Sequence[int] | Sequence[Sequence[int]] = (),
    *,
    name: str | None = None,
) -> Network:
    """The network of a live module, traced in inference mode without touching its weights.

    example_shape: shape of the input with batch, (1, 3, 224, 224), or one shape for each input; not needed
    for an ExportedProgram. name: the network's name, the module's class by default.
    Raises FileError (torch is not installed), SpecError, UnsupportedError.
    """
    from rramalloc.importers.torch.live import live_program

    label = type(module).__name__.lower() if name is None else name
    where = f"PyTorch module {label[:60]!r}"
    return _network(live_program(module, _shapes(example_shape, where), where), where, label)


def _network(program: Program, where: str, name: str) -> Network:
    nodes = NodeList(where)
    lower(program, nodes, RULES)
    network = Network.build(name, nodes.items, source="torch.export", where=where, warnings=nodes.warnings())
    for node, shape in nodes.expected.items():
        if network.shapes[node] != shape:
            raise NetworkError(
                f"{where}: node {brief(node)}",
                f"is {network.shapes[node]} by the model's rules and {shape} in the exported graph",
            )
    return network


def _shapes(given: Any, where: str) -> tuple[Dims, ...]:
    """One shape or one for each input, as tuples."""
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise SpecError(
            f"{where}: example_shape", f"must be a shape such as (1, 3, 224, 224), got {brief(given)}"
        )
    shapes = (
        tuple(given)
        if any(isinstance(item, Sequence) for item in given)
        else (tuple(given),)
        if given
        else ()
    )
    for shape in shapes:
        if not isinstance(shape, Sequence) or isinstance(shape, str) or not all(_is_extent(n) for n in shape):
            raise SpecError(
                f"{where}: example_shape", f"must hold whole numbers of at least 1, got {brief(shape)}"
            )
    return tuple(tuple(shape) for shape in shapes)


def _is_extent(value: object) -> bool:
    return is_whole(value, 1, _MAX_VALUES)
