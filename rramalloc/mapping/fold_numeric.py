"""Folding real weights and inputs: what to move where, for a fold that is decided."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from rramalloc.errors import SpecError
from rramalloc.mapping.fold import Fold
from rramalloc.network.geometry import Pads, Pair

MAX_VALUES = 2**28
"""Largest folded filter or input that is made, in values."""


def fold_index(fold: Fold) -> npt.NDArray[np.int64]:
    """Where each value of a folded filter comes from, the same for every output channel.

    Returns (K_h', K_w', channels): places in the original (K_h, K_w, C_i) laid flat, -1 for padding zeros.
    Raises SpecError if it would be too large.

    >>> from rramalloc.mapping.fold import Filter
    >>> fold_index(Fold.of(Filter(outputs=1, kernel=(1, 3), inputs=1), (1, 2))).tolist()
    [[[0, 1], [2, -1]]]
    """
    _check_size(fold.kernel[0] * fold.kernel[1] * fold.channels, "folded filter")
    (high, wide), (n_h, n_w), (k_h, k_w) = fold.kernel, fold.size, fold.filter.kernel
    rows = np.arange(high * n_h).reshape(high, 1, n_h, 1, 1)
    columns = np.arange(wide * n_w).reshape(1, wide, 1, n_w, 1)
    inputs = np.arange(fold.inputs)
    places = (rows * k_w + columns) * fold.filter.inputs + inputs
    inside = (rows < k_h) & (columns < k_w) & (inputs < fold.filter.inputs)
    index: npt.NDArray[np.int64] = np.where(inside, places, -1).astype(np.int64)
    return index.reshape(high, wide, fold.channels)


def fold_weights(weights: npt.NDArray[Any], fold: Fold) -> npt.NDArray[Any]:
    """Weights (C_o, K_h, K_w, C_i) as the folded filter (C_o, K_h', K_w', channels), of the same type.

    Raises SpecError if `weights` do not have the shape of the fold's filter.
    """
    weights = np.asarray(weights)
    if weights.shape != fold.filter.shape:
        raise SpecError("weights", f"have the shape {weights.shape}, the filter has {fold.filter.shape}")
    _check_size(fold.filter.outputs * fold.kernel[0] * fold.kernel[1] * fold.channels, "folded filter")
    index = fold_index(fold)
    flat = weights.reshape(len(weights), -1)
    return np.where(index >= 0, flat[:, np.maximum(index, 0)], np.zeros((), weights.dtype))


def fold_input(
    pixels: npt.NDArray[Any], fold: Fold, pads: tuple[int, int, int, int] = (0, 0, 0, 0)
) -> npt.NDArray[Any]:
    """An input (..., H, W, groups * C_i) as the folded one, of the same type.

    pads: zeros around the original input, top, left, bottom, right; the folded input contains them, so that
    the folded convolution is without padding. Returns (..., J_h, J_w, groups * channels).
    Raises SpecError if channels do not match or the kernel does not fit the padded input.
    """
    pixels, margins = np.asarray(pixels), Pads(*pads)
    groups, inputs = fold.filter.groups, fold.filter.inputs
    if pixels.ndim < 3 or pixels.shape[-1] != groups * inputs:
        reason = f"has the shape {pixels.shape}, needs (..., height, width, {groups * inputs})"
        raise SpecError("input", reason)
    if min(margins) < 0:
        raise SpecError("pads", f"must be at least 0, got {tuple(pads)}")
    lead, extent = pixels.shape[:-3], (pixels.shape[-3], pixels.shape[-2])
    grid = folded_extent(fold, extent, margins)
    whole = [(grid[axis] - 1) * fold.step[axis] + fold.size[axis] for axis in (0, 1)]
    _check_size(grid[0] * grid[1] * groups * fold.channels * prod(lead), "folded input")
    kept = [min(whole[axis] - margins[axis], extent[axis]) for axis in (0, 1)]
    padded = np.zeros((*lead, *whole, groups, fold.inputs), pixels.dtype)
    if min(kept) > 0:
        split = pixels.reshape(*lead, *extent, groups, inputs)[..., : kept[0], : kept[1], :, :]
        top, left = margins[:2]
        padded[..., top : top + kept[0], left : left + kept[1], :, :inputs] = split
    rows = np.arange(grid[0])[:, None] * fold.step[0] + np.arange(fold.size[0])
    columns = np.arange(grid[1])[:, None] * fold.step[1] + np.arange(fold.size[1])
    gathered = padded[..., rows[:, None, :, None], columns[None, :, None, :], :, :]
    by_group = np.moveaxis(gathered, -2, -4)
    return by_group.reshape(*lead, *grid, groups * fold.channels)


def output_extent(fold: Fold, extent: Pair, pads: Pads) -> Pair:
    """Output pixels (height, width) of the convolution. Raises SpecError if the kernel does not fit."""
    found = []
    for axis, side in enumerate(("height", "width")):
        padded, kernel = extent[axis] + sum(pads.along(axis)), fold.filter.kernel[axis]
        if padded < kernel:
            reason = f"the kernel covers {kernel} pixels, the padded input has {padded} in {side}"
            raise SpecError("input", reason)
        found.append((padded - kernel) // fold.filter.stride[axis] + 1)
    return found[0], found[1]


def folded_extent(fold: Fold, extent: Pair, pads: Pads) -> Pair:
    """Folded pixels (height, width) that the output needs of an input of `extent`. Raises SpecError."""
    outputs = output_extent(fold, extent, pads)
    along = zip(outputs, fold.stride, fold.kernel, fold.dilation, strict=True)
    high, wide = ((count - 1) * stride + (k - 1) * dilation + 1 for count, stride, k, dilation in along)
    return high, wide


def _check_size(values: int, what: str) -> None:
    if values > MAX_VALUES:
        raise SpecError("fold", f"the {what} would have {values} values, the limit is {MAX_VALUES}")
