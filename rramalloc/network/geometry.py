"""Shapes of tensors and receptive fields of windows: plain values, no graph."""

from __future__ import annotations

from typing import NamedTuple

MAX_EXTENT = 2**31 - 1  # of a size in a file: 32 bits, so products of two stay within 64
MAX_PIXELS = 2**24
"""Largest grid of one tensor, 4096 x 4096: bounds the memory that the window tables take."""

Pair = tuple[int, int]
"""Height and width."""


class Shape(NamedTuple):
    """Channels, height and width of a tensor without batch."""

    channels: int
    height: int
    width: int

    @property
    def pixels(self) -> int:
        """Number of pixels of the grid."""
        return self.height * self.width

    def as_tuple(self) -> tuple[int, int, int]:
        """Return (channels, height, width), for files."""
        return (self.channels, self.height, self.width)

    def __str__(self) -> str:
        return f"{self.channels} x {self.height} x {self.width}"


class Pads(NamedTuple):
    """Zero rows and columns around the input."""

    top: int
    left: int
    bottom: int
    right: int

    def along(self, axis: int) -> Pair:
        """Return (before, after) along height (0) or width (1)."""
        return (self[axis], self[axis + 2])


class Geometry(NamedTuple):
    """Receptive field: output (y, x) needs rows y*stride - pad + k*dilation, k < kernel; columns alike."""

    kernel: Pair
    stride: Pair
    pads: Pads
    dilation: Pair

    def span(self, axis: int) -> int:
        """Return the input pixels from the first to the last one of a window along an axis."""
        return (self.kernel[axis] - 1) * self.dilation[axis] + 1

    def windows(self, axis: int, extent: int, *, ceil_mode: bool = False) -> int:
        """Return the output pixels along an axis for an input of `extent` pixels."""
        return pooled_extent(
            extent, self.span(axis), self.stride[axis], self.pads.along(axis), ceil_mode=ceil_mode
        )


def pooled_extent(extent: int, span: int, stride: int, pads: Pair, *, ceil_mode: bool) -> int:
    """Return the output pixels along an axis; ceil_mode drops a window that starts in the trailing padding.

    Source: docs/sources/interface.md, network JSON.
    """
    room = extent + pads[0] + pads[1] - span
    if not ceil_mode:
        return room // stride + 1
    count = -(-room // stride) + 1
    return count - 1 if (count - 1) * stride >= extent + pads[0] else count
