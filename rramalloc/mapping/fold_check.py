"""Proof by trial: a folded convolution on random integers against a direct one that knows no folding."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rramalloc.errors import UnsupportedError
from rramalloc.mapping.fold import Filter, Fold
from rramalloc.mapping.fold_numeric import fold_input, fold_weights, folded_extent, output_extent
from rramalloc.network.geometry import Pads, Pair

Integers = npt.NDArray[np.int64]
_MOST_VALUES = 2**22
_MOST_WORK = 2**27
_CHANNELS, _GROUPS, _OUTPUTS = 8, 3, 4
"""Of a check: channels and groups are alike, so a few of them show what all do."""


def equal_on_random_data(fold: Fold, extent: Pair, pads: Pads, seed: int = 0) -> bool:
    """Whether folded and direct convolution agree exactly on random integers.

    extent: height and width of the input. Channels, groups and the input are cut to what is quick: at most
    8 channels of each side a group, 3 groups, and an input of about 4 x 4 windows; kernel, stride, pads and
    fold are kept. Raises SpecError if the kernel does not fit, UnsupportedError if even that is too large.
    """
    output_extent(fold, extent, pads)  # the kernel fits
    small, cut = _reduced(fold), _cut(fold.filter, extent, pads)
    _check_effort(small, cut, pads)
    random = np.random.default_rng(seed)
    filter_ = small.filter
    weights = random.integers(-8, 8, filter_.shape, dtype=np.int64)
    pixels = random.integers(-8, 8, (*cut, filter_.groups * filter_.inputs), dtype=np.int64)
    direct = correlate(pixels, weights, filter_, pads)
    folded = convolve(
        fold_input(pixels, small, pads), fold_weights(weights, small),
        stride=small.stride, dilation=small.dilation, groups=filter_.groups,
    )  # fmt: skip
    return direct.shape == folded.shape and bool((direct == folded).all())


def correlate(pixels: Integers, weights: Integers, filter_: Filter, pads: Pads) -> Integers:
    """The convolution of a layer by its definition: every window, of which the strides keep some.

    pixels: (H, W, groups * C_i); weights: (C_o, K_h, K_w, C_i). Returns (H_o, W_o, C_o).
    """
    padded = np.pad(pixels, (pads.along(0), pads.along(1), (0, 0)))
    each = filter_.outputs // filter_.groups
    planes = []
    for output, kernel in enumerate(weights):
        first = output // each * filter_.inputs
        part = padded[:, :, first : first + filter_.inputs]
        windows = np.lib.stride_tricks.sliding_window_view(part, kernel.shape)[:, :, 0]
        every = np.einsum("yxhwc,hwc->yx", windows, kernel)
        planes.append(every[:: filter_.stride[0], :: filter_.stride[1]])
    return np.stack(planes, axis=-1)


def convolve(pixels: Integers, weights: Integers, *, stride: Pair, dilation: Pair, groups: int) -> Integers:
    """A convolution without padding by NumPy: a product of matrices for each pixel of the kernel.

    pixels: (H, W, groups * C_i); weights: (C_o, K_h, K_w, C_i). Returns (H_o, W_o, C_o).
    """
    outputs, high, wide, inputs = weights.shape
    span = (high - 1) * dilation[0], (wide - 1) * dilation[1]
    rows = range(0, pixels.shape[0] - span[0], stride[0])
    columns = range(0, pixels.shape[1] - span[1], stride[1])
    result = np.zeros((len(rows), len(columns), outputs), dtype=np.int64)
    each = outputs // groups
    for group in range(groups):
        own, kernels = slice(group * each, (group + 1) * each), weights[group * each : (group + 1) * each]
        part = pixels[:, :, group * inputs : (group + 1) * inputs]
        for row in range(high):
            for column in range(wide):
                top, left = row * dilation[0], column * dilation[1]
                window = part[top : top + rows.stop : stride[0], left : left + columns.stop : stride[1]]
                result[:, :, own] += window[: len(rows), : len(columns)] @ kernels[:, row, column].T
    return result


def _reduced(fold: Fold) -> Fold:
    """The same fold of fewer channels and groups; where it adds channels, it still does."""
    whole = fold.filter
    groups, inputs = min(whole.groups, _GROUPS), min(whole.inputs, _CHANNELS)
    each = min(whole.outputs // whole.groups, _OUTPUTS)
    small = Filter(
        outputs=groups * each, kernel=whole.kernel, inputs=inputs, stride=whole.stride, groups=groups
    )
    return Fold(filter=small, size=fold.size, inputs=inputs + min(1, fold.inputs - whole.inputs))


def _cut(filter_: Filter, extent: Pair, pads: Pads) -> Pair:
    """An input of at most 4 x 4 windows and part of another one, with the same pads."""
    sizes = []
    for axis in (0, 1):
        kernel, stride, margin = filter_.kernel[axis], filter_.stride[axis], sum(pads.along(axis))
        sizes.append(min(extent[axis], max(1, kernel + 3 * stride + stride // 2 - margin)))
    return sizes[0], sizes[1]


def _check_effort(fold: Fold, extent: Pair, pads: Pads) -> None:
    filter_ = fold.filter
    area = (extent[0] + sum(pads.along(0))) * (extent[1] + sum(pads.along(1)))
    grid = folded_extent(fold, extent, pads)
    values = max(area * fold.inputs, grid[0] * grid[1] * fold.channels) * filter_.groups
    folded = fold.kernel[0] * fold.kernel[1] * fold.channels * filter_.outputs
    work = area * filter_.kernel[0] * filter_.kernel[1] * filter_.inputs * filter_.outputs
    if values > _MOST_VALUES or folded > _MOST_VALUES or work > _MOST_WORK:
        raise UnsupportedError(
            "check", "kernel, stride, pads or fold are too large to try on random data; leave --check out"
        )
