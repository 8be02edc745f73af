"""Large convolutions and poolings of the reference: sums over kernel positions of shifted images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from rramalloc.network.geometry import Shape
from rramalloc.network.node import Conv, Pool

Reals = npt.NDArray[np.float64]


def convolved(node: Conv, tensor: Reals, weights: npt.NDArray[Any], output: Shape) -> Reals:
    """A convolution, (channels, height, width); weights: (C_out, C_in / groups, K_h, K_w)."""
    groups = node.groups
    taken = len(tensor) // groups
    made = output.channels // groups
    total = np.zeros((groups, made, output.pixels))
    for (y, x), image in _shifted(node, tensor, output, 0.0):
        flat = image.reshape(groups, taken, -1)
        kernel = weights[:, :, y, x].astype(np.float64).reshape(groups, made, taken)
        total += kernel @ flat
    return total.reshape(output)


def pooled(node: Pool, tensor: Reals, output: Shape, low: int) -> Reals:
    """Maximum, or mean over the whole kernel rounded down; low: what the border of a maximum holds."""
    is_max = node.op == "maxpool"
    joined = np.full(output, float(low if is_max else 0))
    for _, image in _shifted(node, tensor, output, float(low if is_max else 0)):
        joined = np.maximum(joined, image) if is_max else joined + image
    return joined if is_max else np.floor(joined / (node.kernel[0] * node.kernel[1]))


def _shifted(
    node: Conv | Pool, tensor: Reals, output: Shape, fill: float
) -> Iterator[tuple[tuple[int, int], Reals]]:
    """For every kernel position the input values that it meets at each output pixel."""
    for y in range(node.kernel[0]):
        for x in range(node.kernel[1]):
            image = np.full((len(tensor), output.height, output.width), fill)
            rows = _met(output.height, node.stride[0], y * node.dilation[0] - node.pads[0], tensor.shape[1])
            columns = _met(output.width, node.stride[1], x * node.dilation[1] - node.pads[1], tensor.shape[2])
            (top, bottom, first_row), (left, right, first_column) = rows, columns
            if top < bottom and left < right:
                image[:, top:bottom, left:right] = tensor[
                    :, first_row :: node.stride[0], first_column :: node.stride[1]
                ][:, : bottom - top, : right - left]
            yield (y, x), image


def _met(outputs: int, stride: int, shift: int, extent: int) -> tuple[int, int, int]:
    """Outputs first ... last - 1 meet inputs within the extent; the input that the first one meets."""
    first = max(0, -(shift // stride))
    last = min(outputs, (extent - 1 - shift) // stride + 1)
    return first, last, first * stride + shift
