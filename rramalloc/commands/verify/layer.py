"""One layer on its arrays: blocks of windows to copies, sums over row blocks, slices shifted and added.

A copy computes a block of ph x pw neighbouring windows in a step; the shifted kernels of all of them read one
parallel window of the input. Along each axis, window w of a block meets with kernel position k the pixel

    convolution              w * stride + k * dilation
    transposed convolution   (w - k * dilation) / stride, where that is a whole number.

Pixels count from the place of the block's first window. The block reads the different ones of them.
One window of a convolution is the block [1, 1], whose parallel window is its receptive field. A layer whose
filters were folded first reads its input with pixels folded into channels.

Source: docs/sources/model.md 10; docs/sources/companions.md 3 (folding).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.commands.place.placement import PlacedArray
from rramalloc.commands.verify.crossbars import (
    Converters,
    CrossbarStorage,
    ProgrammedArray,
    Real,
    address_of,
)
from rramalloc.errors import UnsupportedError
from rramalloc.mapping.blocks import StoredCopies
from rramalloc.mapping.fold import Fold, fold_input, fold_weights
from rramalloc.mapping.modes import BlockGrid, input_step
from rramalloc.ndarrays import Ints
from rramalloc.network.geometry import Pads
from rramalloc.network.node import Conv, ConvTranspose, Stage
from rramalloc.records import brief

EXACT_SINGLE_BITS = 24  # whole numbers below 2**24 are exact in single precision
_MOST_MEETINGS = 2**22  # windows of a block times kernel positions, along one axis
_CHUNK = 2**22  # values that the working memory of one matrix product holds


class Line(NamedTuple):
    """Pixels that blocks read along one axis.

    pixels: of one block, rising, from the place of its first window on; meets: of shape (windows, kernel),
    which of them each kernel position meets in each window, -1 for none; origin: place of the first block;
    step: from one block to the next; images: that lie one behind the other; blocks: of an image.
    """

    pixels: Ints
    meets: Ints
    origin: int
    step: int
    images: int
    blocks: int

    def of_blocks(self, blocks: Ints, extent: int) -> Ints:
        """Return the pixels that blocks read, (blocks, pixels of one); `extent` for what lies beyond the
        input."""
        image, number = np.divmod(blocks[:, None], self.blocks)
        in_image = extent // self.images
        pixels = self.origin + number * self.step + self.pixels
        return np.where((pixels >= 0) & (pixels < in_image), image * in_image + pixels, extent)


@dataclass(frozen=True, slots=True)
class ParallelWindow:
    """Rows and columns of one channel that a block of windows reads."""

    rows: Line
    columns: Line

    @classmethod
    def of(cls, stage: Stage, grid: BlockGrid, fold: Fold | None = None) -> ParallelWindow:
        """Return the window of the blocks of a stage; folded, of its folded input, which has no border.

        Raises UnsupportedError for blocks of more windows and kernels of more positions than can be shifted.
        """
        if fold is not None:
            axes = zip(fold.kernel, fold.stride, fold.dilation, strict=True)
            rows, columns = (
                _line(np.arange(kernel)[None] * dilation, 0, stride, *_images(grid, axis))
                for axis, (kernel, stride, dilation) in enumerate(axes)
            )
            return cls(rows, columns)
        return cls(_of_axis(stage, grid, 0), _of_axis(stage, grid, 1))

    @property
    def positions(self) -> int:
        """Pixels that it holds."""
        return len(self.rows.pixels) * len(self.columns.pixels)

    def read(self, tensor: npt.NDArray[Any], blocks: tuple[Ints, Ints]) -> npt.NDArray[Any]:
        """Return the inputs of blocks, (blocks, channels * positions), 0 beyond the input.

        tensor: (channels, height + 1, width + 1), the last row and column 0; blocks: their rows and columns.
        """
        channels, height, width = tensor.shape
        rows = self.rows.of_blocks(blocks[0], height - 1)
        columns = self.columns.of_blocks(blocks[1], width - 1)
        places = (rows[:, :, None] * width + columns[:, None, :]).reshape(len(rows), -1)
        read: npt.NDArray[Any] = tensor.reshape(channels, -1).take(places, axis=1)
        return np.ascontiguousarray(read.transpose(1, 0, 2)).reshape(len(rows), -1)

    def shifted(self, kernels: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the kernels (groups, outputs, inputs, K_h, K_w) of all windows of a block, 0 where they meet
        nothing.

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
        met = np.where((first - positions) % stride, _NO_PIXEL, (first - positions) // stride)
        return _line(met, origin, step, *_images(grid, axis))
    return _line(first * stride + positions, -stage.pads[axis], step, *_images(grid, axis))


def _images(grid: BlockGrid, axis: int) -> tuple[int, int]:
    """Return the images along an axis, and the rows or columns of blocks of each."""
    return (1, grid.columns) if axis else (grid.images, grid.rows // grid.images)


_NO_PIXEL = np.iinfo(np.int64).min


def _line(met: Ints, origin: int, step: int, images: int, blocks: int) -> Line:
    """Return the line of the pixels that windows meet, (windows, kernel)."""
    pixels = np.unique(met)
    pixels = pixels[pixels != _NO_PIXEL]
    meets = np.where(met == _NO_PIXEL, -1, np.searchsorted(pixels, met))
    return Line(pixels, meets, origin, step, images, blocks)


@dataclass(frozen=True, slots=True)
class EmulatedLayer:
    """A stage as its copies compute it, each a block of windows a step; window: input of a block.

    channels: of the output; copies: of the allocation; arrays: those programmed, whose cells are all that it
    has of its weights.
    """

    stage: Stage
    channels: int
    storage: CrossbarStorage
    converters: Converters
    copies: int
    grid: BlockGrid
    window: ParallelWindow
    fold: Fold | None = None
    arrays: list[ProgrammedArray] = field(default_factory=list)

    @property
    def groups(self) -> int:
        """Groups of channels whose weights are stored apart."""
        return self.storage.groups(self.stage)

    def stored(self, weights: npt.NDArray[Any]) -> Ints:
        """Return weights as arrays hold them, (groups stored apart, columns of weights, wordlines).

        weights: (C_out, C_in / groups, K_h, K_w). A column is an output of one window of the block, a
        wordline an input value of the parallel window, or one of its two polarities.
        """
        if self.fold is not None:
            weights = np.moveaxis(fold_weights(np.moveaxis(weights, 1, -1), self.fold), -1, 1)
        kernels = weights.reshape(self.stage.groups, -1, *weights.shape[1:])
        if self.groups != len(kernels):
            count, outputs, inputs, *kernel = kernels.shape
            together = np.zeros((count, outputs, count, inputs, *kernel), dtype=kernels.dtype)
            together[range(count), :, range(count)] = kernels
            kernels = together.reshape(self.groups, count * outputs, count * inputs, *kernel)
        return self.storage.stored(self.window.shifted(kernels), self.window.positions)

    def program(self, arrays: Iterable[PlacedArray], held: StoredCopies, weights: npt.NDArray[Any]) -> None:
        """Program arrays with the blocks that their entries name; weights: (C_out, C_in / groups, K_h, K_w).

        These cells are the only weights that the emulated accelerator has.
        """
        stored, blocks = self.stored(weights), held.of_number
        for array in arrays:
            block = blocks[array.row_block, array.column_block]
            cells = self.storage.block(block, stored, array.plane)
            self.arrays.append(ProgrammedArray(array, block, cells))

    def sums(self, tensor: Ints) -> Ints:
        """Return the sums of products of every window; tensor: (channels, height, width), so is the result.

        Batch b holds blocks b * copies ... (b + 1) * copies - 1, one for each copy; windows of a block that
        lie beyond the output are not read out.
        """
        grid = self.grid
        folded = tensor if self.fold is None else self._folded(tensor, self.fold)
        source = np.pad(folded.astype(self._type()), ((0, 0), (0, 1), (0, 1)))
        (high, wide), (down, across) = grid.block, grid.phase
        result = np.zeros((grid.rows, high, grid.columns, wide, self.channels), dtype=np.int64)
        for copies, arrays in self._teams():
            for blocks in self._batches(copies, len(folded)):
                at = np.divmod(blocks.ravel(), grid.columns)
                sums = self._weighted(*self._read(source, blocks, copies, arrays))
                there = blocks.ravel() < grid.total
                result[at[0][there], :, at[1][there]] = sums[there]
        images = result.reshape(grid.images, -1, grid.columns * wide, self.channels)
        cut = images[:, down : down + grid.image_height, across : across + grid.width]
        return cut.reshape(grid.height, grid.width, -1).transpose(2, 0, 1).copy()

    def _folded(self, tensor: Ints, fold: Fold) -> Ints:
        """Return the pixels folded into channels, the border of a convolution included."""
        pads = self.stage.pads if isinstance(self.stage, Conv) else Pads(0, 0, 0, 0)
        images = np.moveaxis(tensor, 0, -1).reshape(self.grid.images, -1, tensor.shape[2], len(tensor))
        pixels = fold_input(images, fold, (pads[0], pads[1], pads[2], pads[3]))
        return np.moveaxis(pixels.reshape(-1, *pixels.shape[2:]), -1, 0)

    def _teams(self) -> list[tuple[range, list[ProgrammedArray]]]:
        """Return the copies that share arrays, which are read together; a copy alone where it shares none."""
        teams: list[tuple[range, list[ProgrammedArray]]] = []
        for array in sorted(self.arrays, key=lambda array: array.placed.replica):
            first, team = array.placed.replica, list[ProgrammedArray]()
            end = first + array.block.copies
            if teams and first < teams[-1][0].stop:
                copies, team = teams.pop()
                first, end = copies.start, max(end, copies.stop)
            team.append(array)
            teams.append((range(first, end), team))
        return teams

    def _batches(self, copies: range, channels: int) -> Iterator[Ints]:
        """Yield the numbers of the blocks that copies compute, (batches, copies), a few batches at a time.

        A number past the last block stands for none.
        """
        values = channels * self.window.positions + self._columns
        chunk = max(1, _CHUNK // (values * len(copies)))
        team = np.array(copies)
        for first in range(0, -(-self.grid.total // self.copies), chunk):
            batches = np.arange(first, min(first + chunk, -(-self.grid.total // self.copies)))
            blocks = batches[:, None] * self.copies + team
            yield np.where(team < self.copies, blocks, self.grid.total)

    @property
    def _columns(self) -> int:
        """Bitlines of all groups of a copy."""
        return self.grid.block[0] * self.grid.block[1] * self.channels * len(self.storage.factors)

    def _type(self) -> type[np.floating[Any]]:
        """Return single precision where the sums of an array are exact in it."""
        most = max((array.block.rows for array in self.arrays), default=1).bit_length()
        bits = most + self.storage.most.bit_length() + self.converters.width - 1
        return np.float32 if bits <= EXACT_SINGLE_BITS and self.converters.exact else np.float64

    def _read(
        self, source: Real, blocks: Ints, copies: range, arrays: list[ProgrammedArray]
    ) -> tuple[npt.NDArray[np.float64], Real]:
        """Return the bitlines of all groups and the inputs they come from, one row per block in `blocks`.

        Partial sums are added over the row blocks of a copy. All copies in an array are read at once.
        """
        there = blocks < self.grid.total
        at = np.divmod(np.where(there, blocks, 0).ravel(), self.grid.columns)
        read = self.storage.on_wordlines(self.window.read(source, at), self.window.positions)
        inputs = read.reshape(*blocks.shape, -1)
        inputs[~there] = 0
        total = np.zeros((*blocks.shape, self._columns))
        for array in arrays:
            self._add(array, array.placed.replica - copies.start, inputs, total)
        return total.reshape(blocks.size, -1), inputs.reshape(blocks.size, -1)

    def _add(self, array: ProgrammedArray, first: int, inputs: Real, total: npt.NDArray[np.float64]) -> None:
        """Read an array and add its bitlines; first: place of its first copy among those of `inputs`."""
        parts, address = array.block.parts, address_of(array.placed)
        rows, group_columns = inputs.shape[2] // self.groups, total.shape[2] // self.groups
        bits = rows.bit_length() + self.storage.weight_bits + self.converters.width - 1
        conductances = self.converters.conductances(array.cells, address, bits, inputs.dtype)
        driven = [inputs[:, first + part.copy, part.group * rows :][:, _slice(part.rows)] for part in parts]
        wordlines = driven[0] if len(driven) == 1 else np.concatenate(driven, axis=1)
        longest = max(len(part.rows) for part in parts)
        most = self.storage.most * (-(-longest // 2) if self.storage.polarities == "rows" else longest)
        bitlines = self.converters.multiply(wordlines, conductances, most, signed=self.storage.signed_sums)
        worth = self.storage.plane_factor(array.placed.plane)
        for part in parts:
            of_part = total[:, first + part.copy, part.group * group_columns :]
            read = bitlines[:, part.bitline : part.bitline + len(part.columns)]
            of_part[:, _slice(part.columns)] += read * worth

    def _weighted(self, bitlines: npt.NDArray[np.float64], inputs: Real) -> Ints:
        """Add the shifted slices and subtract the offset; (blocks, height, width, channels)."""
        factors, count = self.storage.factors, len(bitlines)
        sums = (bitlines.reshape(-1, len(factors)) @ factors).reshape(count, self.groups, -1)
        if self.storage.offset:
            driven = inputs.reshape(count, self.groups, -1).sum(axis=2, dtype=np.float64)
            sums -= float(self.storage.offset) * driven[:, :, None]
        integers: Ints = np.rint(sums).astype(np.int64)
        windows = integers.reshape(count, self.groups, *self.grid.block, -1)
        return windows.transpose(0, 2, 3, 1, 4).reshape(count, *self.grid.block, -1)


def _slice(lines: range) -> slice:
    return slice(lines.start, lines.stop, lines.step)
