"""Reader of PyTorch programs: `.pt2` archives without torch, live modules through torch.export."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rramalloc.errors import SpecError
from rramalloc.importers.torch.lowering import network_of
from rramalloc.importers.torch.program import Dims
from rramalloc.importers.torch.pt2_file import read_program
from rramalloc.network.network import Network
from rramalloc.records import brief, is_whole

if TYPE_CHECKING:
    import torch

_MAX_VALUES = 2**40


def read(path: str | os.PathLike[str], *, allow_partial: bool = False) -> Network:
    """The network in a `.pt2` archive (torch.export.save); nothing in it is executed or unpickled.

    allow_partial: take operators whose weights cannot be modelled as barriers.
    Raises FileError, SpecError, NetworkError, UnsupportedError.
    """
    where = os.fspath(path)
    return network_of(read_program(path), where, Path(path).stem or "network", allow_partial=allow_partial)


def from_torch(
    module: torch.nn.Module | torch.export.ExportedProgram,
    example_shape: Sequence[int] | Sequence[Sequence[int]] = (),
    *,
    name: str | None = None,
    allow_partial: bool = False,
) -> Network:
    """Read the network of a live module, traced in inference mode without touching its weights.

    Parameters
    ----------
    module
        A module, or a program that torch.export made of one.
    example_shape
        Shape of the input with batch, such as (1, 3, 224, 224), or one shape for each input; not needed for
        an ExportedProgram.
    name
        Name of the network, by default the module's class.
    allow_partial
        Take operators whose weights cannot be modelled as barriers; every result says how much is missing.

    Raises
    ------
    FileError
        If torch is not installed.
    SpecError, NetworkError, UnsupportedError
        If the module cannot be traced or expressed.
    """
    from rramalloc.importers.torch.live import live_program

    label = type(module).__name__.lower() if name is None else name
    where = f"PyTorch module {label[:60]!r}"
    program = live_program(module, _shapes(example_shape, where), where)
    return network_of(program, where, label, allow_partial=allow_partial)


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
