"""Pixels that a node needs (docs/sources/model.md 2).

`last_needed` maps a table of a node's input rows or columns to its output: every output row or column gets
the maximum over those it needs, -1 for none. `last_user` is the adjoint: it maps an int32 table over the
pixels (height, width) of the output to the input. A transposed convolution exchanges the two functions of the
convolution that it transposes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rramalloc.ndarrays import Ints
from rramalloc.network.geometry import Geometry, Pair, Shape
from rramalloc.network.node import ConvTranspose, Node, Ranged, Regrid, Whole, Windowed

PixelTable = npt.NDArray[np.int32]
MOST_PIECES = 256
"""Width over width of grids up to which pixels that keep their order on another one are traced exactly."""


def last_needed(
    node: Node, axis: int, table: PixelTable, source: Shape, output: Shape, images: Sequence[Pair] = ()
) -> PixelTable:
    """Return for each output row (axis 0) or column (1) the maximum of `table` over the inputs that it needs.

    table: a value per input row of all images, or per column; images: the first and the last image of the
    input that each of the output needs, left out where each needs its own. An output pixel needs a product of
    rows and columns, so each axis is handled separately.
    """
    if _is_joined(node, source, output):
        source, output = source.joined, output.joined
    grids = source.images if axis == 0 else 1
    reached = _in_image(node, axis, table.reshape(grids, -1).T, source, output)
    if images and axis == 0:
        first, last = np.array(images, dtype=np.int64).T
        reached = _range_maximum(reached, 1, first, last, 1)
    return np.ascontiguousarray(reached.T).ravel()


def _in_image(node: Node, axis: int, table: PixelTable, source: Shape, output: Shape) -> PixelTable:
    """Return `last_needed` within images: a row per input row or column, a column per image."""
    extent = output.grid[axis]
    if isinstance(node, Windowed):
        first, last = _inputs_of_outputs(node.geometry, axis, len(table), extent)
        return _range_maximum(table, 0, first, last, node.geometry.dilation[axis])
    if isinstance(node, ConvTranspose):
        first, last, step = _outputs_of_inputs(node.geometry, axis, extent, len(table))
        return _range_maximum(table, 0, first, last, step)
    if isinstance(node, Ranged):
        first, last = np.array(node.needed(axis, source), dtype=np.int64).T
        return _range_maximum(table, 0, first, last, 1)
    if isinstance(node, Whole) or source.grid != output.grid:  # 1 x 1 is broadcast
        return np.repeat(table.max(axis=0, keepdims=True), extent, axis=0)
    return table


def last_user(
    node: Node, table: PixelTable, source: Shape, output: Shape, images: Sequence[Pair] = ()
) -> PixelTable:
    """Return for each input pixel the maximum of `table` over the output pixels that need it.

    table: (rows of all images, width); images: as for `last_needed`.
    """
    if parts := pieces(node, source, output):
        users = np.empty((source.rows, source.width), dtype=np.int32)
        for rows, columns in parts:
            read = np.ix_(rows[rows >= 0], columns[columns >= 0])
            users[read] = table[np.ix_(rows >= 0, columns >= 0)]
        return users
    if _is_joined(node, source, output):
        source, output = source.joined, output.joined
    if images:
        users = np.full((source.images, table.size // output.images), -1, dtype=np.int32)
        by_image = table.reshape(output.images, -1)
        for first, last in dict.fromkeys(images):
            latest = by_image[[need == (first, last) for need in images]].max(axis=0)
            users[first : last + 1] = np.maximum(users[first : last + 1], latest)
        table = users
    stacked = np.moveaxis(table.reshape(source.images, *output.grid), 0, 2).reshape(*output.grid, -1)
    pushed = _users_in_image(node, stacked, source, output)
    return np.ascontiguousarray(np.moveaxis(pushed, 2, 0)).reshape(source.rows, source.width)


def _users_in_image(node: Node, table: PixelTable, source: Shape, output: Shape) -> PixelTable:
    """Return `last_user` within images: (height, width, images)."""
    if isinstance(node, Windowed | ConvTranspose):
        for axis, extent in enumerate(source.grid):
            if isinstance(node, ConvTranspose):
                first, last = _inputs_of_outputs(node.geometry, axis, table.shape[axis], extent)
                step = node.geometry.dilation[axis]
            else:
                first, last, step = _outputs_of_inputs(node.geometry, axis, extent, table.shape[axis])
            table = _range_maximum(table, axis, first, last, step)
        return table
    if isinstance(node, Ranged):
        for axis, extent in enumerate(source.grid):
            table = np.moveaxis(table, axis, 0)
            result = np.full((extent, *table.shape[1:]), -1, dtype=np.int32)
            pixel, last = np.array(node.needed(axis, source), dtype=np.int64).T
            while (users := np.flatnonzero(pixel <= last)).size:  # a turn for each row of a range
                np.maximum.at(result, pixel[users], table[users])
                pixel = pixel + 1
            table = np.ascontiguousarray(np.moveaxis(result, 0, axis))
        return table
    if isinstance(node, Whole) or source.grid != output.grid:
        return np.broadcast_to(table.max(axis=(0, 1)), (*source.grid, table.shape[2]))
    return table


def image_ranges(node: Node, inputs: list[Shape], position: int, output: Shape) -> tuple[Pair, ...]:
    """Return the first and the last image of an input that each image of the output needs.

    () where each needs its own, and where pixels move to images of another size.
    """
    if isinstance(node, Regrid):
        return ()
    needed = node.images_needed(inputs, position, output.images)
    return () if needed == [(image, image) for image in range(inputs[position].images)] else tuple(needed)


def pieces(node: Node, source: Shape, output: Shape) -> list[tuple[PixelTable, PixelTable]]:
    """Return the exact map of a node that moves pixels between grids of other sizes, [] for other nodes.

    The row of all images that each output row takes, and the column that each output column takes, -1 for
    none: one pair for each column of windows. Every output pixel takes its pixel by one of them.
    """
    if not isinstance(node, Regrid) or (node.order == "raster" and source.images == output.images):
        return []
    large, small = sorted((source, output), key=lambda shape: shape.grid[::-1], reverse=True)
    high, images, height = small.height, large.images, large.height
    if node.order == "raster":  # a row of the wider grid is cut into rows of the other one
        high, images, height = 1, 1, large.rows
        if large.width % small.width or large.width > MOST_PIECES * small.width:
            return []
    (window_row, row), (window_column, column) = (
        divmod(np.arange(extent, dtype=np.int32), extent // part if node.order == "strided" else part)[
            :: -1 if node.order == "strided" else 1
        ]
        for extent, part in ((height, high), (large.width, small.width))
    )
    above = np.arange(images, dtype=np.int32)[:, None] * (height // high) + window_row
    beside = large.width // small.width
    maps = []
    for number in range(beside):
        rows = (
            (above * beside + number) * high + row
        ).ravel()  # of the small grid, for each of the large one
        held = window_column == number
        columns = np.where(held, column, np.int32(-1))
        if large is source:
            taken = np.full(small.rows, -1, dtype=np.int32)
            taken[rows] = np.arange(large.rows, dtype=np.int32)
            rows, columns = taken, np.flatnonzero(held).astype(np.int32)
        maps.append((rows, columns))
    return maps


def _is_joined(node: Node, source: Shape, output: Shape) -> bool:
    """Return True if pixels keep their order from images of one size to images of another one."""
    return isinstance(node, Regrid) and source.images != output.images


def _inputs_of_outputs(geometry: Geometry, axis: int, source: int, output: int) -> tuple[Ints, Ints]:
    """Return the first and the last input that each output reads along an axis, `dilation` apart."""
    dilation = geometry.dilation[axis]
    start = np.arange(output, dtype=np.int64) * geometry.stride[axis] - geometry.pads.along(axis)[0]
    first = np.maximum(0, -(start // dilation))
    last = np.minimum(geometry.kernel[axis] - 1, (source - 1 - start) // dilation)
    return start + first * dilation, start + last * dilation


def _outputs_of_inputs(geometry: Geometry, axis: int, source: int, output: int) -> tuple[Ints, Ints, int]:
    """Return the first and the last output that read each input along an axis, and the step between them.

    Output o reads input x if o * stride = x + pad - k * dilation for a kernel position k.
    """
    stride, dilation = geometry.stride[axis], geometry.dilation[axis]
    end = np.arange(source, dtype=np.int64) + geometry.pads.along(axis)[0]
    last = np.minimum(output - 1, end // stride)
    reach = (geometry.kernel[axis] - 1) * dilation
    first = np.maximum(0, -((reach - end) // stride))
    common = math.gcd(stride, dilation)
    step = dilation // common
    phase = (end // common) % step * pow(stride // common, -1, step) % step if step > 1 else 0 * end
    first, last = first + (phase - first) % step, last - (last - phase) % step
    return first, np.where(end % common == 0, last, first - 1), step


def _range_maximum(table: PixelTable, axis: int, first: Ints, last: Ints, step: int) -> PixelTable:
    """Return the maximum over first, first + step, ..., last along an axis, -1 where last < first.

    A range of n entries is covered by two overlapping ranges of 2**k <= n entries (a sparse table).
    """
    table = np.moveaxis(table, axis, 0)
    result = np.full((len(first), *table.shape[1:]), -1, dtype=np.int32)
    count = (last - first) // step + 1
    level, width = table, 1
    while count.max(initial=0) >= width:
        chosen = np.flatnonzero((count >= width) & (count < 2 * width))
        if len(chosen):
            low, high = first[chosen], last[chosen] - (width - 1) * step
            result[chosen] = np.maximum(level[low], level[high])
        shift = width * step
        if shift >= len(level):
            break
        level = np.maximum(level[:-shift], level[shift:])
        width *= 2
    return np.ascontiguousarray(np.moveaxis(result, 0, axis))
