"""Windows: what a receptive field reads of a tensor, and when the last of it was written."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rramalloc.network.geometry import Geometry, Pads, Shape
from rramalloc.network.node import Conv, Linear, Pool

Steps = npt.NDArray[np.int64]
"""Step from which each pixel of a tensor can be read; shape (height, width)."""
NEVER = -1
_ONE_PIXEL = Geometry((1, 1), (1, 1), Pads(0, 0, 0, 0), (1, 1))


def geometry_of(node: Conv | Pool | Linear) -> Geometry:
    """The receptive field of one output pixel."""
    return _ONE_PIXEL if isinstance(node, Linear) else node.geometry


def padded(tensor: npt.NDArray[Any], geometry: Geometry, output: Shape, fill: int) -> npt.NDArray[Any]:
    """A tensor (..., height, width) with a border of `fill`, exactly as large as all windows reach."""
    for axis, count in ((-2, output.height), (-1, output.width)):
        before, _ = geometry.pads.along(axis + 2)
        reach = (count - 1) * geometry.stride[axis] + geometry.span(axis)
        after = max(0, reach - before - tensor.shape[axis])
        border = [(0, 0)] * tensor.ndim
        border[axis] = (before, after)
        tensor = np.pad(tensor, border, constant_values=fill)
        tensor = tensor[..., :reach, :] if axis == -2 else tensor[..., :reach]
    return tensor


def field(tensor: npt.NDArray[Any], geometry: Geometry) -> npt.NDArray[Any]:
    """View of a padded tensor (channels, height, width): (rows, columns, channels, k_y, k_x)."""
    spans = (geometry.span(0), geometry.span(1))
    view = np.lib.stride_tricks.sliding_window_view(tensor, spans, axis=(1, 2))
    (high, wide), (down, across) = geometry.stride, geometry.dilation
    return view[:, ::high, ::wide, ::down, ::across].transpose(1, 2, 0, 3, 4)


def last_written(written: Steps, geometry: Geometry, output: Shape) -> Steps:
    """Step from which each window can be read: the latest of its pixels; shape of the output grid."""
    for axis, count in enumerate((output.height, output.width)):
        along = padded(written, _along(geometry, axis), _extent(output, written, axis), NEVER)
        stride, latest = geometry.stride[axis], None
        for position in range(geometry.kernel[axis]):
            start = position * geometry.dilation[axis]
            chosen = slice(start, start + (count - 1) * stride + 1, stride)
            taken = along[chosen] if axis == 0 else along[:, chosen]
            latest = taken if latest is None else np.maximum(latest, taken)
        written = written if latest is None else latest
    return written


def _along(geometry: Geometry, axis: int) -> Geometry:
    """The receptive field along one axis, a single pixel along the other."""
    kernel, stride, dilation, pads = [1, 1], [1, 1], [1, 1], [0, 0, 0, 0]
    kernel[axis], stride[axis], dilation[axis] = (
        geometry.kernel[axis], geometry.stride[axis], geometry.dilation[axis],
    )  # fmt: skip
    pads[axis], pads[axis + 2] = geometry.pads.along(axis)
    return Geometry((kernel[0], kernel[1]), (stride[0], stride[1]), Pads(*pads), (dilation[0], dilation[1]))


def _extent(output: Shape, written: Steps, axis: int) -> Shape:
    height, width = written.shape
    return Shape(1, output.height, width) if axis == 0 else Shape(1, height, output.width)
