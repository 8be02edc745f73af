"""Filter folding: kernel height and width moved into input channels, without changing the result.

Along one direction with kernel K, stride s and n pixels folded into one, let t = gcd(n, s): folded pixel j
holds the original pixels j*t ... j*t + n - 1, the folded stride is s / t, the folded kernel has
K' = ceil(K / n) pixels dilated by n / t. The rules that choose n, the folding of real weights and inputs,
and a check on random data follow.
Source: docs/sources/companions.md 3; what it leaves open is marked as a choice.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd, prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.choices import FOLD_RULES, FoldRule
from rramalloc.errors import SpecError, UnsupportedError
from rramalloc.ndarrays import Ints
from rramalloc.network.geometry import MAX_EXTENT, Pads, Pair
from rramalloc.network.network import MAX_WEIGHTS
from rramalloc.records import brief, check_known, is_whole

UNFOLDED: Pair = (1, 1)
"""Pixels folded into one where nothing is folded."""


@dataclass(frozen=True, kw_only=True)
class Filter:
    """The weights of a convolution, (outputs, kernel height, kernel width, inputs), and how they move.

    outputs: output channels of all groups; inputs: input channels of one group; kernel, stride, dilation:
    (height, width). Dilation matters only along directions where the kernel has more than one pixel.
    Raises SpecError for sizes below 1 or above those of networks.
    """

    outputs: int
    kernel: Pair
    inputs: int
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    groups: int = 1

    def __post_init__(self) -> None:
        sizes = {"filter": self.shape, "stride": self.stride, "dilation": self.dilation}
        for where, values in (sizes | {"groups": (self.groups,)}).items():
            for value in values:
                if not is_whole(value, 1, MAX_EXTENT):
                    reason = f"sizes must be whole numbers from 1 to {MAX_EXTENT}, got {brief(value)}"
                    raise SpecError(where, reason)
        if self.outputs % self.groups:
            raise SpecError("groups", f"{self.groups} groups do not divide {self.outputs} output channels")
        count = self.outputs * self.kernel[0] * self.kernel[1] * self.inputs
        if count > MAX_WEIGHTS:
            raise SpecError("filter", f"has {count} weights, the limit is {MAX_WEIGHTS}")

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(C_o, K_h, K_w, C_i), C_i of one group."""
        return (self.outputs, *self.kernel, self.inputs)

    @property
    def refusal(self) -> str | None:
        """Why this filter cannot be folded, None if it can."""
        for axis, side in enumerate(("height", "width")):
            if self.kernel[axis] > 1 and self.dilation[axis] > 1:
                return (
                    f"the kernel is dilated by {self.dilation[axis]} in {side}: its pixels are not "
                    f"neighbours, so no folded pixel holds them; only undilated kernels are folded"
                )
        return None


@dataclass(frozen=True, kw_only=True)
class Fold:
    """A fold: n_h x n_w pixels of a filter's input and kernel become the channels of one folded pixel.

    size: (n_h, n_w); inputs: channels of one group before folding; those above the filter's hold zeros.
    Channel (r_h * n_w + r_w) * inputs + c of a folded pixel is channel c of its pixel (r_h, r_w).
    Every group is folded separately; folded groups keep their order.
    Raises SpecError for a dilated kernel, for sizes below 1, and for fewer inputs than the filter has.
    """

    filter: Filter
    size: Pair
    inputs: int

    def __post_init__(self) -> None:
        if self.filter.refusal is not None:
            raise SpecError("dilation", self.filter.refusal)
        if min(self.size) < 1 or max(self.size) > MAX_EXTENT:
            raise SpecError("fold", f"n_h and n_w must be from 1 to {MAX_EXTENT}, got {self.size}")
        if self.inputs < self.filter.inputs:
            raise SpecError("fold", f"{self.inputs} channels cannot hold those of {self.filter.inputs}")

    @classmethod
    def of(cls, filter_: Filter, size: Pair) -> Fold:
        """Return the fold that keeps the filter's input channels. Raises SpecError."""
        return cls(filter=filter_, size=size, inputs=filter_.inputs)

    @cached_property
    def step(self) -> Pair:
        """Original pixels from one folded pixel to the next: t = gcd(n, s)."""
        return _by_axis(gcd, self.size, self.filter.stride)

    @cached_property
    def kernel(self) -> Pair:
        """Folded kernel K' = ceil(K / n)."""
        return folded_kernel(self.filter.kernel, self.size)

    @cached_property
    def stride(self) -> Pair:
        """Folded stride s / t."""
        return _by_axis(operator.floordiv, self.filter.stride, self.step)

    @cached_property
    def dilation(self) -> Pair:
        """Dilation of the folded kernel n / t; 1 where it has one pixel, as there is nothing to dilate."""
        return _by_axis(lambda n, t, kernel: n // t if kernel > 1 else 1, self.size, self.step, self.kernel)

    @property
    def channels(self) -> int:
        """Input channels of one group after folding."""
        return prod(self.size) * self.inputs

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Folded filter (C_o, K_h', K_w', n_h * n_w * inputs)."""
        return (self.filter.outputs, *self.kernel, self.channels)

    @property
    def padding_added(self) -> int:
        """Zeros added to the kernel of one pair of input and output channel."""
        return prod(self.kernel) * prod(self.size) - prod(self.filter.kernel)

    @property
    def overlap(self) -> Pair:
        """Original pixels that neighbouring windows of n pixels share, n - s, at least 0."""
        return _by_axis(lambda n, s: max(0, n - s), self.size, self.filter.stride)


def folded_kernel(kernel: Pair, size: Pair) -> Pair:
    """Return the folded kernel K' = ceil(K / n) along height and width."""
    return _by_axis(lambda k, n: -(-k // n), kernel, size)


def _by_axis(along: Callable[..., int], *pairs: Pair) -> Pair:
    """Return (along(heights), along(widths)) of one or more pairs."""
    height, width = map(along, *pairs)
    return height, width


MAX_ALIGN = 2**31 - 1
"""Largest alignment and threshold: the largest signed number of 32 bits, far above any layer's channels."""


class ChosenFold(NamedTuple):
    """Fold and the rule that made it, "unfolded" if the filter keeps its shape."""

    fold: Fold
    rule: str


def fold_to(filter_: Filter, align: int, rule: FoldRule = "least_work", th1: int | None = None) -> ChosenFold:
    """Return the fold that fills `align` input channels, split over height and width by a rule.

    rule: "least_work" tries all other rules and keeps the smallest kernel, of equal ones the one with the
    fewest added zeros, then the fewest folded pixels; if none makes the kernel smaller, the filter stays
    unfolded; th1: filters of more input channels than this stay unfolded.
    Raises UnknownNameError; SpecError for a dilated kernel, and an alignment or a threshold out of range.

    >>> fold_to(Filter(outputs=64, kernel=(6, 6), inputs=4, stride=(2, 2)), align=64).fold.shape
    (64, 1, 3, 64)
    """
    check_known("rule", rule, FOLD_RULES)
    if th1 is not None and not is_whole(th1, 1, MAX_ALIGN):
        raise SpecError("th1", f"must be a whole number from 1 to {MAX_ALIGN}, got {brief(th1)}")
    inputs, n_total = aligned_inputs(filter_.inputs, align)
    unfolded = ChosenFold(Fold.of(filter_, UNFOLDED), "unfolded")
    if th1 is not None and filter_.inputs > th1:
        return unfolded
    folds = [
        ChosenFold(Fold(filter=filter_, size=_split(filter_, n_total, name), inputs=inputs), name)
        for name in FOLD_RULES[1:]
        if rule in (name, "least_work")
    ]
    if rule != "least_work":
        return folds[0]
    return min(
        [unfolded, *folds],
        key=lambda chosen: (prod(chosen.fold.kernel), chosen.fold.padding_added, prod(chosen.fold.size)),
    )


def aligned_inputs(inputs: int, align: int) -> Pair:
    """Return (C_ia, n_total): channels raised to the smallest align / 2^n that holds them, and 2^n.

    Choice: an alignment is halved only while it is even; channels above it are raised to a multiple of it
    and not folded. Raises SpecError.

    >>> aligned_inputs(3, 64), aligned_inputs(5, 64)
    ((4, 16), (8, 8))
    """
    if not is_whole(align, 1, MAX_ALIGN):
        raise SpecError("align", f"must be a whole number from 1 to {MAX_ALIGN}, got {brief(align)}")
    if inputs > align:
        return raised_to_multiple(inputs, align), 1
    part = align
    # A smaller part holds fewer channels of zeros and leaves room for more folded pixels.
    while part % 2 == 0 and part // 2 >= inputs:
        part //= 2
    return part, align // part


def raised_to_multiple(count: int, multiple: int) -> int:
    """Return the smallest multiple that is not below `count`."""
    return -(-count // multiple) * multiple


def _source(filter_: Filter, n_total: int) -> Pair:
    """Return the source's split: half of the exponent on width, at most the kernel, the rest on height.

    Where folded windows would overlap, width keeps only the useful fold S_x / S_x' = gcd(n_w, S_x). That is
    the source's rule where one of n_w and S_x divides the other, and our choice elsewhere.
    """
    half = 1 << (n_total.bit_length() // 2)
    width = min(half, _power_of_two(filter_.kernel[1]))
    stride = filter_.stride[1]
    if width > stride:  # windows of more pixels than the stride overlap
        width = gcd(width, stride)
    return n_total // width, width


def _split(filter_: Filter, n_total: int, rule: str) -> Pair:
    """Return the pixels (height, width) that a rule folds into one; n_total: their product, a power of 2."""
    match rule:
        case "source":
            return _source(filter_, n_total)
        case "height_first":  # the source's split of the transposed filter
            turned = replace(filter_, kernel=filter_.kernel[::-1], stride=filter_.stride[::-1])
            return _source(turned, n_total)[::-1]
        case "width_first":  # as much on width as its kernel can use
            width = min(n_total, _power_of_two(filter_.kernel[1]))
        case "least_padding":  # the fewest zeros added to the kernel; of equals the one with most on width
            heights = (1 << exponent for exponent in range(n_total.bit_length()))
            splits = ((height, n_total // height) for height in heights)
            kernel = filter_.kernel
            return min(splits, key=lambda size: (prod(folded_kernel(kernel, size)) * prod(size), size[0]))
        case _:  # "balanced": an odd exponent gives width one more
            width = 1 << (n_total.bit_length() // 2)
    return n_total // width, width


def _power_of_two(size: int) -> int:
    """Return the smallest power of two that is not below `size`."""
    return 1 << (size - 1).bit_length()


MAX_VALUES = 2**28
"""Limit of values of a folded filter or input: 2 GiB at 64 bits each."""


def fold_index(fold: Fold) -> Ints:
    """Return which original weight each value of a folded filter is, for any output channel.

    Parameters
    ----------
    fold
        A fold, such as that of `fold_filter`.

    Returns
    -------
    ndarray of int64, shape (K_h', K_w', channels)
        Index into the original (K_h, K_w, C_i) laid flat, -1 for a padding zero.

    Raises
    ------
    SpecError
        It would be too large.

    Examples
    --------
    >>> fold_index(Fold.of(Filter(outputs=1, kernel=(1, 3), inputs=1), (1, 2))).tolist()
    [[[0, 1], [2, -1]]]
    """
    _check_values(fold.kernel[0] * fold.kernel[1] * fold.channels, "folded filter")
    (high, wide), (n_h, n_w), (k_h, k_w) = fold.kernel, fold.size, fold.filter.kernel
    rows = np.arange(high * n_h).reshape(high, 1, n_h, 1, 1)
    columns = np.arange(wide * n_w).reshape(1, wide, 1, n_w, 1)
    inputs = np.arange(fold.inputs)
    places = (rows * k_w + columns) * fold.filter.inputs + inputs
    inside = (rows < k_h) & (columns < k_w) & (inputs < fold.filter.inputs)
    index: Ints = np.where(inside, places, -1).astype(np.int64)
    return index.reshape(high, wide, fold.channels)


def fold_weights(weights: npt.NDArray[Any], fold: Fold) -> npt.NDArray[Any]:
    """Return weights as the folded filter, of their type.

    Parameters
    ----------
    weights
        Array of shape (C_o, K_h, K_w, C_i).
    fold
        A fold, such as that of `fold_filter`.

    Returns
    -------
    ndarray, shape (C_o, K_h', K_w', channels)
        The weights, and zeros where the fold pads.

    Raises
    ------
    SpecError
        `weights` do not have the shape of the fold's filter.
    """
    weights = np.asarray(weights)
    if weights.shape != fold.filter.shape:
        raise SpecError("weights", f"have the shape {weights.shape}, the filter has {fold.filter.shape}")
    _check_values(fold.filter.outputs * fold.kernel[0] * fold.kernel[1] * fold.channels, "folded filter")
    index = fold_index(fold)
    flat = weights.reshape(len(weights), -1)
    return np.where(index >= 0, flat[:, np.maximum(index, 0)], np.zeros((), weights.dtype))


def fold_input(
    pixels: npt.NDArray[Any], fold: Fold, pads: tuple[int, int, int, int] = (0, 0, 0, 0)
) -> npt.NDArray[Any]:
    """Return an input as the folded one, of the same type.

    Parameters
    ----------
    pixels
        Array of shape (..., H, W, groups * C_i).
    fold
        A fold, such as that of `fold_filter`.
    pads
        Zeros around the original input, top, left, bottom, right. The folded input contains them, so that the
        folded convolution is without padding.

    Returns
    -------
    ndarray, shape (..., J_h, J_w, groups * channels)
        Pixels that lie under one folded position side by side in its channels.

    Raises
    ------
    SpecError
        Channels do not match, or the kernel does not fit the padded input.
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
    covered = [(grid[axis] - 1) * fold.step[axis] + fold.size[axis] for axis in (0, 1)]
    _check_values(grid[0] * grid[1] * groups * fold.channels * prod(lead), "folded input")
    kept = [min(covered[axis] - margins[axis], extent[axis]) for axis in (0, 1)]
    padded = np.zeros((*lead, *covered, groups, fold.inputs), pixels.dtype)
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
    """Return the output pixels (height, width). Raises SpecError if the kernel exceeds the padded input."""
    outputs = []
    for axis, side in enumerate(("height", "width")):
        padded, kernel = extent[axis] + sum(pads.along(axis)), fold.filter.kernel[axis]
        if padded < kernel:
            reason = f"the kernel covers {kernel} pixels, the padded input has {padded} in {side}"
            raise SpecError("input", reason)
        outputs.append((padded - kernel) // fold.filter.stride[axis] + 1)
    return outputs[0], outputs[1]


def folded_extent(fold: Fold, extent: Pair, pads: Pads) -> Pair:
    """Return the folded pixels (height, width) that an input of `extent` pixels becomes. Raises SpecError."""
    outputs = output_extent(fold, extent, pads)
    along = zip(outputs, fold.stride, fold.kernel, fold.dilation, strict=True)
    high, wide = ((count - 1) * stride + (k - 1) * dilation + 1 for count, stride, k, dilation in along)
    return high, wide


def _check_values(values: int, what: str) -> None:
    """Raise SpecError if a folded filter or input is too large to be made."""
    if values > MAX_VALUES:
        raise SpecError("fold", f"the {what} would have {values} values, the limit is {MAX_VALUES}")


_MOST_VALUES = 2**22  # values of an input or filter of a check: 32 MiB at 64 bits
_MOST_WORK = 2**27  # multiplications of a check by the direct convolution of SciPy: about a second
_CHANNELS = 8  # input channels of a check: channels do not differ, so a few of them show what all do
_GROUPS = 3  # groups of a check: the first, one between and the last
_OUTPUTS = 4  # output channels of a group of a check: they do not differ either


def equal_on_random_data(fold: Fold, extent: Pair, pads: Pads, seed: int = 0) -> bool:
    """Return True if the folded and the direct convolution agree exactly on random integers.

    extent: height and width of the input. Channels, groups and the input are cut to what is quick: at most
    8 channels of each side a group, 3 groups, and an input of about 4 x 4 windows; kernel, stride, pads and
    fold are kept. Raises SpecError if the kernel does not fit, UnsupportedError if even that is too large.
    """
    output_extent(fold, extent, pads)  # the kernel fits
    random, small = np.random.default_rng(seed), _reduced(fold)
    filter_, padding = small.filter, (sum(pads.along(0)), sum(pads.along(1)))
    cut = _by_axis(
        lambda most, kernel, stride, added: min(most, max(1, kernel + 3 * stride + stride // 2 - added)),
        *(extent, filter_.kernel, filter_.stride, padding),
    )
    _check_effort(small, cut, pads)
    weights = random.integers(-8, 8, filter_.shape, dtype=np.int64)
    pixels = random.integers(-8, 8, (*cut, filter_.groups * filter_.inputs), dtype=np.int64)
    padded = np.pad(pixels, (pads.along(0), pads.along(1), (0, 0)))
    direct = correlate(padded, weights, stride=filter_.stride, groups=filter_.groups)
    folded = correlate(
        fold_input(pixels, small, pads),
        fold_weights(weights, small),
        stride=small.stride,
        dilation=small.dilation,
        groups=filter_.groups,
    )
    return direct.shape == folded.shape and bool((direct == folded).all())


def correlate(pixels: Ints, weights: Ints, *, stride: Pair, dilation: Pair = (1, 1), groups: int = 1) -> Ints:
    """Return a convolution without padding, by SciPy at stride 1, of which the strides keep some windows.

    pixels: (H, W, groups * C_i); weights: (C_o, K_h, K_w, C_i). Returns (H_o, W_o, C_o).
    """
    from scipy import signal  # type: ignore[import-untyped]

    outputs, high, wide, inputs = weights.shape
    spread = np.zeros(
        (outputs, (high - 1) * dilation[0] + 1, (wide - 1) * dilation[1] + 1, inputs), weights.dtype
    )
    spread[:, :: dilation[0], :: dilation[1]] = weights
    planes = []
    for output, kernel in enumerate(spread):
        first = output // (outputs // groups) * inputs
        part = pixels[:, :, first : first + inputs]
        every = signal.correlate(part, kernel, mode="valid", method="direct")[:, :, 0]
        planes.append(every[:: stride[0], :: stride[1]])
    return np.stack(planes, axis=-1)


def _reduced(fold: Fold) -> Fold:
    """Return the same fold with fewer channels and groups; it adds channels of zeros if `fold` does."""
    filter_ = fold.filter
    groups, inputs = min(filter_.groups, _GROUPS), min(filter_.inputs, _CHANNELS)
    outputs = min(filter_.outputs // filter_.groups, _OUTPUTS)
    small = Filter(
        outputs=groups * outputs, kernel=filter_.kernel, inputs=inputs, stride=filter_.stride, groups=groups
    )
    return Fold(filter=small, size=fold.size, inputs=inputs + min(1, fold.inputs - filter_.inputs))


def _check_effort(fold: Fold, extent: Pair, pads: Pads) -> None:
    """Raise UnsupportedError if a check on random data takes too much memory or time."""
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
