"""Folding: geometry, and equality with convolutions written as loops (docs/sources/companions.md 3)."""

from __future__ import annotations

from itertools import product
from math import gcd
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rramalloc.choices import FOLD_RULES
from rramalloc.errors import SpecError
from rramalloc.mapping.fold import (
    Filter,
    Fold,
    equal_on_random_data,
    fold_index,
    fold_input,
    fold_to,
    fold_weights,
)
from rramalloc.network.geometry import Pads

Ints = npt.NDArray[np.int64]


def loops(
    pixels: Ints,
    weights: Ints,
    stride: tuple[int, int],
    dilation: tuple[int, int],
    groups: int = 1,
    pads: tuple[int, int, int, int] = (0, 0, 0, 0),
) -> Ints:
    """A convolution as its definition says, pixel by pixel; (H, W, C) and (C_o, K_h, K_w, C_i)."""
    high, wide, _ = pixels.shape
    outputs, k_h, k_w, inputs = weights.shape
    top, left, bottom, right = pads
    rows = (high + top + bottom - (k_h - 1) * dilation[0] - 1) // stride[0] + 1
    columns = (wide + left + right - (k_w - 1) * dilation[1] - 1) // stride[1] + 1
    result = np.zeros((rows, columns, outputs), dtype=np.int64)
    for y, x, o, i, j, c in product(*map(range, (rows, columns, outputs, k_h, k_w, inputs))):
        row, column = y * stride[0] - top + i * dilation[0], x * stride[1] - left + j * dilation[1]
        if 0 <= row < high and 0 <= column < wide:
            channel = o // (outputs // groups) * inputs + c
            result[y, x, o] += weights[o, i, j, c] * pixels[row, column, channel]
    return result


def drawn(random: Random) -> tuple[Fold, tuple[int, int], tuple[int, int, int, int]]:
    """A fold of any size, more channels than needed at times, an input and pads that the kernel fits."""
    groups, inputs = random.choice((1, 1, 2, 3)), random.randint(1, 2)
    kernel = (random.randint(1, 5), random.randint(1, 5))
    whole = Filter(
        outputs=groups * random.randint(1, 2),
        kernel=kernel,
        inputs=inputs,
        groups=groups,
        stride=(random.randint(1, 4), random.randint(1, 4)),
    )
    pads = (random.randint(0, 3), random.randint(0, 3), random.randint(0, 3), random.randint(0, 3))
    least = [max(1, kernel[axis] - pads[axis] - pads[axis + 2]) for axis in (0, 1)]
    extent = (least[0] + random.randint(0, 7), least[1] + random.randint(0, 7))
    fold = Fold(
        filter=whole,
        size=(random.randint(1, 8), random.randint(1, 8)),
        inputs=inputs + random.choice((0, 0, 1, 2)),
    )
    return fold, extent, pads


def values(random: Random, *shape: int) -> Ints:
    return np.random.default_rng(random.getrandbits(32)).integers(-99, 100, shape, dtype=np.int64)


@settings(max_examples=80, deadline=None)
@given(st.randoms(use_true_random=False))
def test_every_exact_fold_equals_the_direct_convolution(random: Random) -> None:
    """Kernels, strides, pads, sizes, groups and folds of every kind, in integers: not nearly equal, equal."""
    fold, extent, pads = drawn(random)
    whole = fold.filter
    weights, pixels = values(random, *whole.shape), values(random, *extent, whole.groups * whole.inputs)
    folded = loops(
        fold_input(pixels, fold, pads), fold_weights(weights, fold), fold.stride, fold.dilation, whole.groups
    )
    direct = loops(pixels, weights, whole.stride, (1, 1), whole.groups, pads)
    assert folded.tolist() == direct.tolist()
    assert equal_on_random_data(fold, extent, Pads(*pads), random.randrange(99))


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_folded_input_is_what_the_definition_says(random: Random) -> None:
    """With t = gcd(n, s), folded pixel j holds the original pixels j*t ... j*t + n - 1, zeros beyond."""
    fold, extent, pads = drawn(random)
    groups, inputs = fold.filter.groups, fold.filter.inputs
    pixels = values(random, *extent, groups * inputs)
    folded = fold_input(pixels, fold, pads)
    (n_h, n_w), (s_h, s_w) = fold.size, fold.filter.stride
    t_h, t_w = gcd(n_h, s_h), gcd(n_w, s_w)
    for _ in range(200):
        y, x = random.randrange(folded.shape[0]), random.randrange(folded.shape[1])
        g, r, q, c = (random.randrange(n) for n in (groups, n_h, n_w, fold.inputs))
        row, column = y * t_h + r - pads[0], x * t_w + q - pads[1]
        inside = 0 <= row < extent[0] and 0 <= column < extent[1] and c < inputs
        expected = pixels[row, column, g * inputs + c] if inside else 0
        assert folded[y, x, g * fold.channels + (r * n_w + q) * fold.inputs + c] == expected


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(FOLD_RULES))
def test_every_rule_gives_an_exact_fold_that_is_no_more_work(random: Random, rule: Any) -> None:
    fold, extent, pads = drawn(random)
    align = 1 << random.randint(0, 5)
    chosen = fold_to(fold.filter, align, rule).fold
    assert chosen.channels % align == 0
    assert all(after <= before for after, before in zip(chosen.kernel, fold.filter.kernel, strict=True))
    assert equal_on_random_data(chosen, extent, Pads(*pads))


@pytest.mark.parametrize(
    ("kernel", "stride", "size", "step", "folded", "folded_stride", "dilation", "zeros", "overlap"),
    [
        ((3, 3), (1, 1), (1, 1), (1, 1), (3, 3), (1, 1), (1, 1), 0, (0, 0)),
        # stride 1: t = 1, pixels at every place; 3 = 2 * 2 - 1; folded pixels 2 apart, so dilated by 2
        ((3, 3), (1, 1), (2, 2), (1, 1), (2, 2), (1, 1), (2, 2), 7, (1, 1)),
        # space to depth: t = n = s
        ((4, 6), (2, 3), (2, 3), (2, 3), (2, 2), (1, 1), (1, 1), 0, (0, 0)),
        # the whole kernel in one pixel: nothing to dilate
        ((3, 5), (1, 2), (3, 5), (1, 1), (1, 1), (1, 2), (1, 1), 0, (2, 3)),
        # n does not divide s: gcd(4, 6) = 2, gcd(2, 3) = 1; ceil(7 / 4) = 2, ceil(3 / 2) = 2; 8 * 4 - 21
        ((7, 3), (6, 3), (4, 2), (2, 1), (2, 2), (3, 3), (2, 2), 11, (0, 0)),
        # s divides n: gcd(8, 2) = 2; ceil(9 / 8) = 2, 16 * 2 - 18
        ((9, 2), (2, 1), (8, 1), (2, 1), (2, 2), (1, 1), (4, 1), 14, (6, 0)),
    ],
)
def test_geometry(
    kernel: Any,
    stride: Any,
    size: Any,
    step: Any,
    folded: Any,
    folded_stride: Any,
    dilation: Any,
    zeros: int,
    overlap: Any,
) -> None:
    fold = Fold.of(Filter(outputs=4, kernel=kernel, inputs=3, stride=stride), size)
    assert (fold.step, fold.kernel, fold.stride) == (step, folded, folded_stride)
    assert (fold.dilation, fold.padding_added, fold.overlap) == (dilation, zeros, overlap)
    assert fold.shape == (4, *folded, size[0] * size[1] * 3)


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False))
def test_index_map_holds_every_weight_once(random: Random) -> None:
    fold, _, _ = drawn(random)
    index = fold_index(fold)
    kept = sorted(index[index >= 0].tolist())
    assert kept == list(range(fold.filter.kernel[0] * fold.filter.kernel[1] * fold.filter.inputs))
    zeros = fold.padding_added * fold.inputs
    zeros += (fold.inputs - fold.filter.inputs) * fold.filter.kernel[0] * fold.filter.kernel[1]
    assert int((index < 0).sum()) == zeros


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kernel": (0, 3)}, r"filter: .* 1 to .*got 0"),
        ({"inputs": True}, r"filter: .*got True"),
        ({"groups": 3}, r"groups: 3 groups do not divide 4"),
        ({"kernel": (2**31, 1)}, r"filter: .*got 2147483648"),
        ({"kernel": (2**23, 2**23)}, r"filter: has 281474976710656 weights"),
    ],
)
def test_a_filter_that_cannot_be_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        Filter(**({"outputs": 4, "kernel": (3, 3), "inputs": 1} | fields))
