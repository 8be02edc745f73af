"""Pixels that a node needs (docs/sources/model.md 2).

`last_needed` maps a table of a node's input rows or columns to its output: every output row or column gets
the maximum over those it needs, -1 for none. `last_user` is the adjoint: it maps an int32 table over the
pixels (height, width) of the output to the input. A transposed convolution exchanges the two functions of the
convolution that it transposes.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from rramalloc.ndarrays import Ints
from rramalloc.network.geometry import Geometry, Shape
from rramalloc.network.node import ConvTranspose, Node, Ranged, Whole, Windowed

PixelTable = npt.NDArray[np.int32]


def last_needed(node: Node, axis: int, table: PixelTable, source: Shape, output: Shape) -> PixelTable:
    """Return for each output row (axis 0) or column (1) the maximum of `table` over the inputs that it needs.

    table: a value per input row or column. An output pixel needs a product of rows and columns, so each axis
    is handled separately.
    """
    extent = (output.height, output.width)[axis]
    if isinstance(node, Windowed):
        first, last = _inputs_of_outputs(node.geometry, axis, len(table), extent)
        return _range_maximum(table[:, None], 0, first, last, node.geometry.dilation[axis])[:, 0]
    if isinstance(node, ConvTranspose):
        first, last, step = _outputs_of_inputs(node.geometry, axis, extent, len(table))
        return _range_maximum(table[:, None], 0, first, last, step)[:, 0]
    if isinstance(node, Ranged):
        first, last = np.array(node.needed(axis, source), dtype=np.int64).T
        return _range_maximum(table[:, None], 0, first, last, 1)[:, 0]
    if isinstance(node, Whole) or source[1:] != output[1:]:  # 1 x 1 is broadcast
        return np.full(extent, table.max(), dtype=np.int32)
    return table


def last_user(node: Node, table: PixelTable, source: Shape) -> PixelTable:
    """Return for each input pixel the maximum of `table` over the output pixels that need it."""
    if isinstance(node, Windowed | ConvTranspose):
        for axis, extent in enumerate((source.height, source.width)):
            if isinstance(node, ConvTranspose):
                first, last = _inputs_of_outputs(node.geometry, axis, table.shape[axis], extent)
                step = node.geometry.dilation[axis]
            else:
                first, last, step = _outputs_of_inputs(node.geometry, axis, extent, table.shape[axis])
            table = _range_maximum(table, axis, first, last, step)
        return table
    if isinstance(node, Ranged):
        for axis, extent in enumerate((source.height, source.width)):
            table = np.moveaxis(table, axis, 0)
            result = np.full((extent, table.shape[1]), -1, dtype=np.int32)
            pixel, last = np.array(node.needed(axis, source), dtype=np.int64).T
            while (users := np.flatnonzero(pixel <= last)).size:  # a turn for each row of a range
                np.maximum.at(result, pixel[users], table[users])
                pixel = pixel + 1
            table = np.ascontiguousarray(np.moveaxis(result, 0, axis))
        return table
    if isinstance(node, Whole) or table.shape != (source.height, source.width):
        return np.full((source.height, source.width), table.max(), dtype=np.int32)
    return table


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
    result = np.full((len(first), table.shape[1]), -1, dtype=np.int32)
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
