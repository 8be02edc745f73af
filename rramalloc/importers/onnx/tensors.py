"""Tensors of an ONNX graph: constants known by shape, and tensors with the meaning of each axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rramalloc.importers.axes import Dims, Layout, Role, canonical, lettered, shape_of
from rramalloc.network.geometry import Pads, Shape

Array = NDArray[np.generic]
NO_PADS = Pads(0, 0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A tensor that does not depend on the network's input.

    dims: None if its shape is not known; array: values, only where they are few enough to matter for shapes;
    origin: the tensor of the file that holds the same values, perhaps in another order; bits: of its whole
    numbers, where they are few, or of those that it was made of.
    """

    dims: Dims | None
    array: Array | None = None
    origin: str = ""
    bits: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts(Constant):
    """A sequence of tensors, of which operators take one after the other."""

    parts: tuple[Constant | Tensor, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A tensor that depends on the input. Make it with `tensor`.

    node: the network node that yields it; dims: its ONNX shape;
    layout: what each axis runs over;
    pads: zero border, part of dims, that no node adds: the only consumer takes it over;
    bits: of the whole numbers that quantised values are.
    """

    node: str
    dims: Dims
    layout: Layout
    pads: Pads = NO_PADS
    bits: int | None = None

    @property
    def shape(self) -> Shape:
        """Channels and grid."""
        return shape_of(self.dims, self.layout)

    @property
    def grid_axes(self) -> frozenset[int]:
        """Axes that run over the grid."""
        return frozenset(axis for axis, role in enumerate(self.layout) if role)

    def aligned(self, rank: int) -> Tensor:
        """Return the same tensor with leading axes of length 1, as broadcasting sees it."""
        more = rank - len(self.dims)
        return replace(self, dims=(1,) * more + self.dims, layout=((),) * more + self.layout)


Value = Constant | Tensor
V = TypeVar("V", bound=Value)


def arranged(value: V, places: Sequence[int | None]) -> V:
    """Return a tensor with these of its axes, in this order; None: a new one of length 1."""
    if value.dims is None:
        return value
    dims = tuple(1 if at is None else value.dims[at] for at in places)
    if isinstance(value, Constant):
        return replace(value, dims=dims, array=None)
    layout = canonical(dims, [() if at is None else value.layout[at] for at in places])
    return replace(value, dims=dims, layout=layout, pads=NO_PADS)


def tensor(node: str, dims: Sequence[int], layout: Sequence[Role]) -> Tensor:
    """Return a tensor whose axes of length 1 carry no meaning."""
    return Tensor(node=node, dims=tuple(dims), layout=canonical(dims, layout))


def gridded(dims: Sequence[int], channel_axes: Sequence[int]) -> Layout:
    """Return a layout with these channel axes; the others are the grid, the last of several its columns."""
    grid = [axis for axis, size in enumerate(dims) if size != 1 and axis not in channel_axes]
    letters = ["C"] * len(dims)
    for axis in grid:
        letters[axis] = "X" if len(grid) > 1 and axis == grid[-1] else "Y"
    return lettered(dims, "".join(letters))


def usual(dims: Sequence[int]) -> Layout:
    """Return the layout that convolutions use: channels at axis 1, the grid behind; vectors are channels."""
    return gridded(dims, [len(dims) - 1] if len(dims) <= 2 else [1])
