"""Shapes of tensors and receptive fields of windows: plain values, no graph."""

from __future__ import annotations

from typing import NamedTuple

MAX_EXTENT = 2**31 - 1  # of a size in a file: 32 bits, so products of two stay within 64
MAX_PIXELS = 2**24
"""Largest grid of one tensor, 4096 x 4096: bounds the memory that the window tables take."""

Pair = tuple[int, int]
"""Height and width."""


class _Extents(NamedTuple):
    channels: int
    height: int
    width: int


class Shape(_Extents):
    """Channels, height and width of a tensor without batch; images: grids of that size, one after another.

    Pixels are in raster order image by image, so all images together are a grid of `rows` x `width`. The
    shape of one image equals the tuple of its three extents. Source: docs/sources/model.md 2.
    """

    images: int = 1

    def __new__(cls, channels: int, height: int, width: int, images: int = 1) -> Shape:
        """Return the shape of `images` of these extents."""
        shape = super().__new__(cls, channels, height, width)
        shape.images = images
        return shape

    def __eq__(self, other: object) -> bool:
        """Return True for equal extents of as many images; a plain tuple is one image."""
        return tuple.__eq__(self, other) and self.images == getattr(other, "images", 1)

    def __ne__(self, other: object) -> bool:
        """Return True for what is not equal."""
        return not self == other

    def __hash__(self) -> int:
        """Return the hash of the tuple, which equals that of one image."""
        return tuple.__hash__(self)

    def of_images(self, images: int) -> Shape:
        """Return the shape of so many images of the same extents."""
        return Shape(*self, images)

    @property
    def rows(self) -> int:
        """Rows of all images."""
        return self.images * self.height

    @property
    def pixels(self) -> int:
        """Number of pixels of all images."""
        return self.rows * self.width

    @property
    def grid(self) -> Pair:
        """Height and width of an image."""
        return self.height, self.width

    @property
    def extent(self) -> tuple[int, int, int]:
        """Images, and height and width of each."""
        return self.images, self.height, self.width

    @property
    def joined(self) -> Shape:
        """All images as one, row after row."""
        return Shape(self.channels, self.rows, self.width)

    @property
    def array(self) -> tuple[int, int, int]:
        """Shape of an array that holds all images as one: (channels, rows, width)."""
        return self.joined.as_tuple()

    def as_tuple(self) -> tuple[int, int, int]:
        """Return (channels, height, width), for files."""
        return (self.channels, self.height, self.width)

    def __str__(self) -> str:
        images = f"{self.images} images of " if self.images > 1 else ""
        return f"{images}{self.channels} x {self.height} x {self.width}"


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
