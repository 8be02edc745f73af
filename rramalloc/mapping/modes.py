"""Modes: how a stage uses its arrays - which block of windows a copy computes in a step, and how many copies.

A copy may hold ph x pw shifted kernels side by side: they all read one parallel window of the input, and the
copy computes a block of ph x pw neighbouring windows in one step. `im2col` is the block [1, 1].

Source: docs/sources/model.md 10; SDK: Zhang et al., IEEE TCAD 39(11), 2020; VW-SDK: Rhe, Moon and Ko,
DATE 2022, arXiv 2112.11282.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.errors import SpecError
from rramalloc.hardware.tables import Chip, Crossbar
from rramalloc.mapping.mode import SINGLE
from rramalloc.ndarrays import Ints
from rramalloc.network.geometry import Pair, Shape
from rramalloc.network.node import Conv, ConvTranspose, Stage, TimedNode


class BlockGrid(NamedTuple):
    """A stage's output, `height` x `width` pixels, cut into blocks in raster order; the last may be smaller.

    images: of equal height, one below the other, `height` rows in all. Blocks end with their image, and rows
    of blocks are counted over all images.
    phase: pixels by which the first block begins above and left of the grid, so that blocks of transposed
    convolutions are aligned to their stride.
    """

    height: int
    width: int
    block: Pair = SINGLE
    phase: Pair = (0, 0)
    images: int = 1

    @classmethod
    def of(cls, stage: TimedNode, shape: Shape, block: Pair) -> BlockGrid:
        """Return the output of a stage cut into blocks. Raises SpecError for a block that it cannot have."""
        unit = smallest_block(stage)
        phase = (0, 0)
        # Blocks start where (row + top pad) is a multiple of the stride: all their pixels then read the same
        # input pixels (docs/sources/model.md 3).
        if isinstance(stage, ConvTranspose):
            phase = (stage.pads[0] % stage.stride[0], stage.pads[1] % stage.stride[1])
        grid = cls(shape.rows, shape.width, (block[0], block[1]), phase, shape.images)
        where = f"block of {stage.name[:60]!r}"
        if not isinstance(stage, Conv | ConvTranspose) and block != SINGLE:
            why = "the windows of a linear layer share no input"
            if not isinstance(stage, Stage):
                why = "a digital node yields one pixel after the other"
            raise SpecError(where, f"must be [1, 1], got [{block[0]}, {block[1]}]: {why}")
        if block[0] % unit[0] or block[1] % unit[1]:
            raise SpecError(
                where,
                f"must be a multiple of [{unit[0]}, {unit[1]}], the stride of a transposed convolution, "
                f"got [{block[0]}, {block[1]}]",
            )
        most = largest_block(stage, shape)
        if block[0] > most[0] or block[1] > most[1]:
            raise SpecError(
                where,
                f"must be from [{unit[0]}, {unit[1]}] to [{most[0]}, {most[1]}], which covers its output of "
                f"{shape.height} x {shape.width} windows, got [{block[0]}, {block[1]}]",
            )
        return grid

    def recut(self, block: Pair) -> BlockGrid:
        """Return the same output cut into other blocks, unchecked: the stage must allow them."""
        return self._replace(block=block)

    @property
    def image_height(self) -> int:
        """Pixel rows of an image."""
        return self.height // self.images

    @property
    def rows(self) -> int:
        """Rows of blocks of all images."""
        return self.images * -(-(self.image_height + self.phase[0]) // self.block[0])

    @property
    def columns(self) -> int:
        """Blocks in one row of blocks."""
        return -(-(self.width + self.phase[1]) // self.block[1])

    @property
    def total(self) -> int:
        """Number of blocks."""
        return self.rows * self.columns

    def last_pixels(self, axis: int) -> Ints:
        """Return the last pixel row of each row of blocks (axis 0), or pixel column of each column (1)."""
        images, extent = (1, self.width) if axis else (self.images, self.image_height)
        number = np.arange(1, (self.columns if axis else self.rows // images) + 1, dtype=np.int64)
        ends = np.minimum(number * self.block[axis] - self.phase[axis], extent) - 1
        pixels: Ints = (np.arange(images, dtype=np.int64)[:, None] * extent + ends).ravel()
        return pixels

    def block_of(self, axis: int, pixels: npt.NDArray[np.int32]) -> Ints:
        """Return the row (axis 0) or column (1) of blocks that each pixel row or column lies in."""
        extent, count = (self.width, 0) if axis else (self.image_height, self.rows // self.images)
        image, pixel = np.divmod(pixels.astype(np.int64), extent)
        numbers: Ints = image * count + (pixel + self.phase[axis]) // self.block[axis]
        return numbers

    def numbers(self) -> Ints:
        """Return the number of the block that computes each pixel, shape (height, width)."""
        rows = self.block_of(0, np.arange(self.height, dtype=np.int32))
        columns = self.block_of(1, np.arange(self.width, dtype=np.int32))
        numbers: Ints = rows[:, None] * self.columns + columns
        return numbers


def smallest_block(stage: TimedNode) -> Pair:
    """Return the block without shifted kernels: the stride of a transposed convolution, else [1, 1]."""
    return stage.stride if isinstance(stage, ConvTranspose) else SINGLE


def largest_block(stage: TimedNode, shape: Shape) -> Pair:
    """Return the smallest block that covers the whole output; a larger one computes no window more."""
    if not isinstance(stage, Conv | ConvTranspose):
        return SINGLE
    if not isinstance(stage, ConvTranspose):
        return shape.height, shape.width
    extents = zip((shape.height, shape.width), stage.stride, stage.pads, strict=False)
    high, wide = (-(-(extent + pad % stride) // stride) * stride for extent, stride, pad in extents)
    return high, wide


class ArrayCount(NamedTuple):
    """Arrays that copies of a block take: ceil(ceil(copies * groups / sharing) * spread / tile) * tile.

    groups: of a copy; sharing: groups that share the same `spread` arrays, 0 if a group does not fit one
    array; tile: arrays are taken in multiples of it. Each is an integer, or int64 with one row a block.
    """

    groups: Any
    sharing: Any
    spread: Any
    tile: Any = 1

    def arrays(self, copies: int) -> int:
        """Return the arrays that `copies` take, whole tiles of them."""
        stored = -(-copies * self.groups // max(self.sharing, 1)) * self.spread
        return int(-(-stored // self.tile) * self.tile)

    def most_copies(self, arrays: int) -> int:
        """Return the most copies that fit `arrays`; 2**40 for a stage that takes none."""
        blocks = arrays // self.tile * self.tile // self.spread
        return int(blocks * max(self.sharing, 1) // self.groups) if self.groups else 2**40

    def weighted(self, weight: int) -> ArrayCount:
        """Return the count in units of cost, with `weight` units for an array."""
        return self._replace(spread=self.spread * weight, tile=self.tile * weight)

    def in_own_tiles(self, chip: Chip) -> ArrayCount:
        """Return the count rounded up to whole tiles, each of one stage (docs/sources/model.md 15)."""
        return self._replace(tile=chip.arrays_per_tile)


@dataclass(frozen=True, slots=True)
class BlockArrays:
    """Arrays of a stage with blocks of one shape: wordlines and bitlines that one group of a copy takes.

    arrays_per_block: that hold what lies on the same lines (S_a). A digital node has no group.
    Source: docs/sources/model.md 3 and 10.
    """

    rows: int
    columns: int
    groups: int
    crossbar: Crossbar
    arrays_per_block: int = 1

    @property
    def sharing(self) -> int:
        """Groups, of one copy or several, that fit the diagonal of one array; 0 if a group does not fit."""
        return min(self.crossbar.wordlines // self.rows, self.crossbar.bitlines // self.columns)

    @property
    def spread(self) -> int:
        """Arrays that one group takes, or that the groups on one diagonal share."""
        high, wide = -(-self.rows // self.crossbar.wordlines), -(-self.columns // self.crossbar.bitlines)
        return high * wide * self.arrays_per_block

    @property
    def count(self) -> ArrayCount:
        """Arrays of any number of copies; copies and groups share an array where they fit."""
        return ArrayCount(self.groups, self.sharing, self.spread)

    def arrays(self, copies: int) -> int:
        """Return the arrays that hold the weights of these copies."""
        return self.count.arrays(copies)


def input_extent(stage: Stage, axis: int, count: int) -> int:
    """Return the number of input rows (axis 0) or columns (1) that `count` neighbouring windows read, U."""
    if not isinstance(stage, Conv):
        return int(input_extents(stage, axis, count)[-1])
    fresh, more = _fresh_rows(stage, axis)
    return min(count, fresh) * stage.kernel[axis] + max(0, count - fresh) * more


def input_extents(stage: TimedNode, axis: int, most: int) -> Ints:
    """Return U, the number of input rows (axis 0) or columns (1) read, of 1, 2 ... `most` windows; int64."""
    if not isinstance(stage, Conv | ConvTranspose):
        return np.ones(most, dtype=np.int64)
    kernel, stride, dilation = stage.kernel[axis], stage.stride[axis], stage.dilation[axis]
    if isinstance(stage, ConvTranspose):
        # Window w reads input pixel h through kernel position k if w = h * stride + k * dilation. A pixel is
        # counted at the first window that reads it; the least k >= 0 with w >= 0 gives that one.
        pixels = np.arange(-((kernel - 1) * dilation // stride), (most - 1) // stride + 1, dtype=np.int64)
        tap = np.maximum(-(pixels * stride // dilation), 0)
        first = (pixels * stride + tap * dilation)[tap < kernel]
        return np.cumsum(np.bincount(first[first < most], minlength=most))
    (windows, more), counts = _fresh_rows(stage, axis), np.arange(1, most + 1, dtype=np.int64)
    fresh = np.minimum(counts, windows)
    extents: Ints = fresh * kernel + (counts - fresh) * more
    return extents


def _fresh_rows(stage: Conv, axis: int) -> Pair:
    """Return (windows before their inputs begin to repeat, new input rows of each later window)."""
    kernel, stride, dilation = stage.kernel[axis], stage.stride[axis], stage.dilation[axis]
    # y * stride + k * dilation repeats after dilation / gcd windows and stride / gcd kernel positions.
    common = gcd(stride, dilation)
    return dilation // common, min(kernel, stride // common)


def input_step(stage: Stage, axis: int, count: int) -> int:
    """Return the input rows (axis 0) or columns (1) between a block of `count` windows and the next one."""
    if not isinstance(stage, Conv | ConvTranspose):
        return 1
    stride = stage.stride[axis]
    return count // stride if isinstance(stage, ConvTranspose) else count * stride


@lru_cache(maxsize=4096)
def divisors(number: int) -> tuple[int, ...]:
    """Return the divisors of a number in rising order."""
    return tuple((np.flatnonzero(number % np.arange(1, number + 1) == 0) + 1).tolist())


def breakpoints(windows: int, largest: int) -> Ints:
    """Return the smallest d for each value of ceil(windows / d), d <= largest, in rising order; int64.

    Copies between two of them save no batch (docs/sources/model.md 4).
    """
    useful = []
    copies = 1
    while copies <= largest:
        useful.append(copies)
        batches = -(-windows // copies)
        if batches == 1:
            break
        copies = -(-windows // (batches - 1))  # the fewest that need one batch less
    return np.array(useful, dtype=np.int64)
