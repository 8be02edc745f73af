"""The parallel window of a block: the input pixels that it reads, and the kernels shifted over them.

A copy computes ph x pw neighbouring windows in a step; the shifted kernels of all of them read one parallel
window of the input. Along each axis, window w of a block meets with kernel position k the pixel

    convolution              w * stride + k * dilation
    transposed convolution   (w - k * dilation) / stride, where that is a whole number

counted from the place of the block's first window; the different ones of these are what the block reads.
One window of a convolution is the block [1, 1], whose parallel window is its receptive field.

Source: docs/sources/model.md 10.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.errors import UnsupportedError
from rramalloc.mapping.fold import Fold
from rramalloc.mapping.modes import BlockGrid, input_step
from rramalloc.network.node import ConvTranspose, Stage
from rramalloc.placement.emulator.integers import Ints
from rramalloc.records import brief

_MOST_MEETINGS = 2**22
"""Windows of a block times kernel positions, along one axis."""


class Line(NamedTuple):
    """Pixels that blocks read along one axis.

    pixels: of one block, rising, from the place of its first window on; meets: of shape (windows, kernel),
    which of them each kernel position meets in each window, -1 for none; origin: place of the first block;
    step: from one block to the next.
    """

    pixels: Ints
    meets: Ints
    origin: int
    step: int

    def of_blocks(self, blocks: Ints, extent: int) -> Ints:
        """Pixels that blocks read, (blocks, pixels of one); `extent` for what lies beyond the input."""
        pixels = self.origin + blocks[:, None] * self.step + self.pixels
        return np.where((pixels >= 0) & (pixels < extent), pixels, extent)


@dataclass(frozen=True, slots=True)
class ParallelWindow:
    """What a block of windows reads of one channel, rows and columns."""

    rows: Line
    columns: Line

    @classmethod
    def of(cls, stage: Stage, grid: BlockGrid, fold: Fold | None = None) -> ParallelWindow:
        """Of the blocks of a stage; folded, of its folded input, which has no border.

        Raises UnsupportedError for blocks of more windows and kernels of more positions than can be shifted.
        """
        if fold is not None:
            axes = zip(fold.kernel, fold.stride, fold.dilation, strict=True)
            rows, columns = (
                _line(np.arange(kernel)[None] * dilation, 0, stride) for kernel, stride, dilation in axes
            )
            return cls(rows, columns)
        return cls(_of_axis(stage, grid, 0), _of_axis(stage, grid, 1))

    @property
    def positions(self) -> int:
        """Pixels that it holds."""
        return len(self.rows.pixels) * len(self.columns.pixels)

    def read(self, tensor: npt.NDArray[Any], blocks: tuple[Ints, Ints]) -> npt.NDArray[Any]:
        """Inputs of blocks, (blocks, channels * positions), 0 beyond the input.

        tensor: (channels, height + 1, width + 1), the last row and column 0; blocks: their rows and columns.
        """
        channels, height, width = tensor.shape
        rows = self.rows.of_blocks(blocks[0], height - 1)
        columns = self.columns.of_blocks(blocks[1], width - 1)
        places = (rows[:, :, None] * width + columns[:, None, :]).reshape(len(rows), -1)
        read: npt.NDArray[Any] = tensor.reshape(channels, -1).take(places, axis=1)
        return np.ascontiguousarray(read.transpose(1, 0, 2)).reshape(len(rows), -1)

    def shifted(self, kernels: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Kernels (groups, outputs, inputs, K_h, K_w) of all windows of a block, 0 where they meet nothing.

        Returns (groups, windows * outputs, inputs * positions).
        """
        groups, outputs, inputs = kernels.shape[:3]
        high, wide = len(self.rows.meets), len(self.columns.meets)
        extents = len(self.rows.pixels), len(self.columns.pixels)
        moved = np.zeros((groups, high, wide, outputs, inputs, *extents), dtype=kernels.dtype)
        for y, met_rows in enumerate(self.rows.meets):
            k_y = np.flatnonzero(met_rows >= 0)
            for x, met_columns in enumerate(self.columns.meets):
                k_x = np.flatnonzero(met_columns >= 0)
                there = (..., met_rows[k_y][:, None], met_columns[k_x])
                moved[:, y, x][there] = kernels[..., k_y[:, None], k_x]
        return moved.reshape(groups, high * wide * outputs, -1)


def _of_axis(stage: Stage, grid: BlockGrid, axis: int) -> Line:
    windows = grid.block[axis]
    kernel, stride, dilation = stage.kernel[axis], stage.stride[axis], stage.dilation[axis]
    if windows * kernel > _MOST_MEETINGS:
        raise UnsupportedError(
            f"node {brief(stage.name)}",
            f"shifts a kernel of {kernel} pixels over {windows} windows along an axis, the limit of their "
            f"product is {_MOST_MEETINGS}: use smaller blocks",
        )
    first, positions = np.arange(windows)[:, None], np.arange(kernel) * dilation
    step = input_step(stage, axis, windows)
    if isinstance(stage, ConvTranspose):
        origin = (stage.pads[axis] - grid.phase[axis]) // stride
        return _line(
            np.where((first - positions) % stride, _NO_PIXEL, (first - positions) // stride), origin, step
        )
    return _line(first * stride + positions, -stage.pads[axis], step)


_NO_PIXEL = np.iinfo(np.int64).min


def _line(met: Ints, origin: int, step: int) -> Line:
    """The line of the pixels that windows meet, (windows, kernel)."""
    pixels = np.unique(met)
    pixels = pixels[pixels != _NO_PIXEL]
    return Line(pixels, np.where(met == _NO_PIXEL, -1, np.searchsorted(pixels, met)), origin, step)
