"""Which axes of a PyTorch tensor run over the pixel grid; all other axes count as channels.

Source: docs/sources/model.md 2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from rramalloc.importers.torch.graph import Dims
from rramalloc.network.geometry import Shape


class Layout(NamedTuple):
    """Axes over the height and over the width of the grid, outermost first (usually one each)."""

    rows: Dims = ()
    cols: Dims = ()

    def moved(self, places: Mapping[int, int]) -> Layout:
        """Axes renumbered; an axis without a new place (it had one element) is dropped."""
        return Layout(*(tuple(places[axis] for axis in group if axis in places) for group in self))

    def shifted(self, by: int) -> Layout:
        """Axes of a tensor that gets `by` leading axes more."""
        return Layout(*(tuple(axis + by for axis in group) for group in self))


class ContradictionError(ValueError):
    """The stated shapes of a call's operands and results do not belong together."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A PyTorch tensor in the network. node: the node that computes it; dims: its PyTorch dimensions.

    Raises ContradictionError if the layout names an axis that it does not have.
    """

    node: str
    dims: Dims
    layout: Layout

    def __post_init__(self) -> None:
        if not all(0 <= axis < len(self.dims) for group in self.layout for axis in group):
            raise ContradictionError(self.node)

    @property
    def shape(self) -> Shape:
        """Channels, height and width."""
        height, width = (math.prod(self.dims[axis] for axis in group) for group in self.layout)
        return Shape(math.prod(self.dims) // (height * width), height, width)

    @property
    def essential(self) -> Layout:
        """The layout without axes of one element."""
        return Layout(*(tuple(axis for axis in group if self.dims[axis] > 1) for group in self.layout))

    @property
    def grid_axes(self) -> frozenset[int]:
        """Axes with more than one element that run over the grid."""
        return frozenset(axis for group in self.essential for axis in group)

    def lies(self, layout: Layout) -> bool:
        """Would `layout` order the pixels in the same way?"""
        return replace(self, layout=layout).essential == self.essential

    def axis(self, axis: int) -> int:
        """A possibly negative axis, counted from 0."""
        return axis % len(self.dims) if self.dims else 0


def image_layout(rank: int) -> Layout:
    """The last two axes are height and width."""
    return Layout((rank - 2,), (rank - 1,))


def signal_layout(rank: int) -> Layout:
    """The last axis is the height: a 1-D signal is an L x 1 grid."""
    return Layout((rank - 1,))


def token_layout(dims: Dims, channel_axis: int) -> Layout:
    """Every axis but one counts pixels: one axis is the height, with more the last one is the width."""
    axes = tuple(axis for axis, extent in enumerate(dims) if extent > 1 and axis != channel_axis)
    return Layout(axes) if len(axes) < 2 else Layout(axes[:-1], axes[-1:])


def default_layout(dims: Dims) -> Layout:
    """1 x C vectors, 1 x T x C tokens, N x C x H x W images."""
    if len(dims) >= 4:
        return image_layout(len(dims))
    return Layout((1,)) if len(dims) == 3 else Layout()


def viewed(tensor: Tensor, dims: Dims) -> tuple[Layout, bool]:
    """The layout after a reshape to `dims`, and whether it keeps every pixel where it is.

    Axes are matched in the smallest groups with equal products. A group within the height, within the width
    or within the channels stays there. Otherwise a group made of grid axes alone stays grid, any other one
    turns into channels, and pixels move.
    """
    essential = tensor.essential
    grid = tensor.grid_axes
    replaced: dict[int, Dims] = {}
    free: list[int] = []
    still = True
    for old, new in _groups(tensor.dims, dims):
        home = next((group for group in essential if _consecutive(old, group)), None)
        if home is not None:
            replaced |= {old[0]: new} | dict.fromkeys(old[1:], ())
        elif grid.intersection(old):
            still = False
            free += new if grid.issuperset(old) else ()
    if still:
        rows, cols = (tuple(new for axis in group for new in replaced[axis]) for group in essential)
        return Layout(rows, cols), True
    axes = sorted({axis for new in replaced.values() for axis in new} | set(free))
    return (Layout(tuple(axes)) if len(axes) < 2 else Layout(tuple(axes[:-1]), (axes[-1],))), False


def _consecutive(axes: Dims, group: Dims) -> bool:
    """Do `axes` appear in `group` next to each other in this order?"""
    return any(group[start : start + len(axes)] == axes for start in range(len(group) - len(axes) + 1))


def _groups(old: Sequence[int], new: Sequence[int]) -> Iterator[tuple[Dims, Dims]]:
    """Smallest runs of axes (of more than one element) with equal products, old and new."""
    left = [axis for axis, extent in enumerate(old) if extent > 1]
    right = [axis for axis, extent in enumerate(new) if extent > 1]
    i = j = 0
    while i < len(left) and j < len(right):
        first, second = i, j
        a, b = old[left[i]], new[right[j]]
        i, j = i + 1, j + 1
        while a != b:
            if a < b and i < len(left):
                a, i = a * old[left[i]], i + 1
            elif b < a and j < len(right):
                b, j = b * new[right[j]], j + 1
            else:
                break
        if a != b:
            i, j = len(left), len(right)
        yield tuple(left[first:i]), tuple(right[second:j])
