"""How a fold is chosen: the worked values of docs/sources/companions.md 3, and what the rules promise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rramalloc.choices import FOLD_RULES
from rramalloc.commands.fold.filter_folding import fold as fold_network
from rramalloc.commands.fold.filter_folding import fold_filter
from rramalloc.errors import SpecError, UnknownNameError
from rramalloc.mapping.fold import MAX_ALIGN, Filter, Fold, aligned_inputs, fold_input, fold_to


@pytest.mark.parametrize(
    ("inputs", "align", "raised", "n_total"),
    [
        pytest.param(4, 64, 4, 16, id="worked: 4"),
        pytest.param(3, 64, 4, 16, id="worked: 3 -> 4"),
        pytest.param(5, 64, 8, 8, id="worked: 5 -> 8"),
        pytest.param(1, 128, 1, 128, id="one channel"),
        pytest.param(33, 64, 64, 1, id="more than half"),
        pytest.param(64, 64, 64, 1, id="full"),
        pytest.param(65, 64, 128, 1, id="over: raised to a multiple, as the hardware does"),
        pytest.param(2, 48, 3, 16, id="48 is halved to 3, then odd"),
        pytest.param(1, 1, 1, 1, id="no alignment"),
        pytest.param(2, 7, 7, 1, id="odd"),
    ],
)
def test_channels_are_raised(inputs: int, align: int, raised: int, n_total: int) -> None:
    assert aligned_inputs(inputs, align) == (raised, n_total)


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_raised_channels_are_the_smallest_that_fit(inputs: int, align: int) -> None:
    """C_ia = the smallest A / 2^n >= C_i, n_total = A / C_ia."""
    raised, n_total = aligned_inputs(inputs, align)
    halves = [align // 2**n for n in range(14) if align % 2**n == 0 and align // 2**n >= inputs]
    if halves:
        assert (raised, n_total) == (min(halves), align // min(halves))
    else:
        assert n_total == 1
        assert raised - align < inputs <= raised
        assert raised % align == 0


def fold(shape: tuple[int, int, int, int], stride: tuple[int, int], align: int, rule: Any = "source") -> Fold:
    outputs, high, wide, inputs = shape
    return fold_to(
        Filter(outputs=outputs, kernel=(high, wide), inputs=inputs, stride=stride), align, rule
    ).fold


def test_worked_steps_of_the_source() -> None:
    """n_w 4 -> K_w' 2, S_x' 1, useful 2 -> n_h = 8, n_w = 2 -> K_w' 3, S_x' 1, K_h' 1, S_y' 1."""
    found = fold((64, 6, 6, 4), (2, 2), 64)
    assert found.size == (8, 2)
    assert found.kernel == (1, 3)
    assert found.stride == (1, 1)
    assert found.shape == (64, 1, 3, 64)
    assert found.dilation == (1, 1)
    assert found.overlap == (6, 0)
    assert found.padding_added == 12  # 8 x 6 against 6 x 6


def test_worked_fold_of_a_whole_kernel() -> None:
    found = fold((64, 4, 4, 4), (4, 4), 64)
    assert found.shape == (64, 1, 1, 64)
    assert found.stride == (1, 1)


@pytest.mark.parametrize(
    ("rule", "size", "zeros"),
    [
        pytest.param("balanced", (4, 4), 26, id="4 x 4: 4 * 8 - 6"),
        pytest.param("width_first", (2, 8), 10, id="2 x 8: 2 * 8 - 6"),
        pytest.param("least_padding", (1, 16), 10, id="1 x 16: 16 - 6, more on width"),
        # n_w 4 against stride 1: windows overlap, useful 1 / 1, so all on height: 16 * 6 - 6
        pytest.param("source", (16, 1), 90, id="source: stride 1 leaves width alone"),
    ],
)
def test_worked_padding_of_a_flat_kernel(rule: Any, size: tuple[int, int], zeros: int) -> None:
    """Kernel 1 x 6, n_total 16."""
    found = fold((64, 1, 6, 4), (1, 1), 64, rule)
    assert found.size == size
    assert found.padding_added == zeros


@pytest.mark.parametrize(
    ("kernel", "stride", "align", "rule", "size"),
    [
        # n_total 8: exponent 3, half raised 2: n_w 4; stride 4 does not overlap
        pytest.param((8, 8), (4, 4), 8, "source", (2, 4), id="odd exponent: more on width"),
        # n_total 16: n_w 4, at most 2 for a kernel of 2; stride 2
        pytest.param((5, 2), (1, 2), 16, "source", (8, 2), id="at most the kernel"),
        # at most 4 for a kernel of 3: raised to a power of two
        pytest.param((3, 3), (4, 4), 64, "source", (16, 4), id="kernel raised to a power of two"),
        # n_w 4 over stride 3: gcd 1 is useful
        pytest.param((3, 5), (3, 3), 16, "source", (16, 1), id="stride not divided"),
        # n_w 4 over stride 6: no overlap, kept
        pytest.param((3, 7), (6, 6), 16, "source", (4, 4), id="fold below the stride"),
        pytest.param((5, 5), (1, 1), 32, "width_first", (4, 8), id="width first"),
        pytest.param((1, 9), (1, 1), 8, "width_first", (1, 8), id="all on width"),
        pytest.param((3, 3), (1, 1), 8, "balanced", (2, 4), id="balanced"),
        # 8 = 1 x 8: 3 * 8; 2 x 4: 4 * 4; 4 x 2: 4 * 4; 8 x 1: 8 * 3 -> 16 twice, more on width
        pytest.param((3, 3), (1, 1), 8, "least_padding", (2, 4), id="least padding, tie"),
        # 4 = 1 x 4: 4 * 4; 2 x 2: 4 * 2; 4 x 1: 4 * 1
        pytest.param((4, 1), (1, 1), 4, "least_padding", (4, 1), id="least padding on height"),
        pytest.param((3, 3), (1, 1), 1, "balanced", (1, 1), id="nothing to fill"),
    ],
)
def test_rules(kernel: Any, stride: Any, align: int, rule: Any, size: Any) -> None:
    assert fold((2, *kernel, 1), stride, align, rule).size == size


@given(
    st.tuples(st.integers(1, 12), st.integers(1, 12)),
    st.tuples(st.integers(1, 6), st.integers(1, 6)),
    st.integers(0, 10),
    st.sampled_from(FOLD_RULES[1:]),
)
def test_rules_split_all_of_n_total(kernel: Any, stride: Any, exponent: int, rule: Any) -> None:
    found = fold((1, *kernel, 1), stride, 2**exponent, rule)
    assert found.size[0] * found.size[1] == 2**exponent
    if rule == "least_padding":
        for other in FOLD_RULES[1:]:  # the first leaves a filter unfolded where that saves no work
            assert found.padding_added <= fold((1, *kernel, 1), stride, 2**exponent, other).padding_added


@pytest.mark.parametrize("align", [0, -4, MAX_ALIGN + 1, True, 64.0])
def test_an_alignment_that_cannot_be_is_refused(align: Any) -> None:
    with pytest.raises(SpecError, match=r"align: must be a whole number from 1"):
        fold((1, 3, 3, 1), (1, 1), align)


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"no rule named 'widthfirst'; did you mean width_first"):
        fold((1, 3, 3, 1), (1, 1), 8, "widthfirst")


@pytest.mark.parametrize(
    ("shape", "stride", "saving", "chosen"),
    [
        pytest.param((64, 3, 3, 3), (1, 1), 1 - 1 / 9, "least_padding", id="source saves 66.7 %"),
        pytest.param((64, 1, 6, 4), (1, 1), 1 - 1 / 6, "least_padding", id="source saves nothing"),
        pytest.param((64, 6, 6, 4), (2, 2), 1 - 3 / 36, "source", id="source is as good as any"),
        pytest.param((64, 1, 1, 4), (1, 1), 0, "unfolded", id="one pixel has nothing to fold"),
        pytest.param((64, 3, 3, 64), (1, 1), 0, "unfolded", id="the channels are filled"),
    ],
)
def test_the_rule_of_least_work(shape: Any, stride: Any, saving: float, chosen: str) -> None:
    found = fold_filter(shape, stride=stride, align=64, check=True)
    assert (found.saving, found.chosen, found.checked) == (pytest.approx(saving), chosen, True)
    if chosen == "unfolded":
        assert (found.n_h, found.n_w, found.filter) == (1, 1, shape)
    every = [fold_filter(shape, stride=stride, align=64, rule=rule).saving for rule in FOLD_RULES]
    assert found.saving == max(0.0, *every)


def test_source_on_the_worked_filter_saves_two_thirds() -> None:
    """3 x 3 over 3 channels: n_w 4 -> overlap, useful 1, so 16 high: 1 x 3 pixels of 64 channels are left."""
    assert fold_filter((64, 3, 3, 3), align=64, rule="source").saving == pytest.approx(1 - 3 / 9)


def test_height_first_is_the_source_of_the_transposed_filter() -> None:
    for kernel, stride in (((6, 3), (2, 1)), ((1, 6), (1, 1)), ((5, 7), (3, 2))):
        turned = fold((8, *kernel[::-1], 4), stride[::-1], 64, "source").size
        assert fold((8, *kernel, 4), stride, 64, "height_first").size == turned[::-1]


def test_thresholds_and_output_alignment() -> None:
    """Filters above the threshold stay; 100 outputs raised to 128 take 128 / 192 of the work of 192."""
    assert fold_filter((64, 3, 3, 16), align=64, th1=8).chosen == "unfolded"
    assert fold_filter((64, 3, 3, 8), align=64, th1=8).chosen != "unfolded"
    wide, narrow = (fold_filter((100, 3, 3, 3), align=64, align_outputs=to) for to in (96, 64))
    assert (wide.align_outputs, narrow.align_outputs) == (96, 64)
    assert narrow.work_after / wide.work_after == 128 / 192
    for wrong in ({"th1": 0}, {"align_outputs": 0}, {"align_outputs": 2**31}):
        with pytest.raises(SpecError, match="must be"):
            fold_filter((4, 3, 3, 3), align=8, **wrong)


def test_the_folded_input_is_reported() -> None:
    """224 x 224 with pads 1, 3 x 3 folded 4 x 4: an output row a folded row, 16 * 4 channels."""
    found = fold_filter((64, 3, 3, 3), align=64, input_size=(224, 224), padding=(1,))
    assert found.folded_input == (224, 224, 64)
    layer = fold_network("vgg16").layers[0]
    assert (layer.folded_input, layer.size) == ((224, 224, 27), (3, 3))
    assert layer.fold is not None
    pixels = fold_input(np.zeros((224, 224, 3)), layer.fold, pads=(1, 1, 1, 1))
    assert pixels.shape == layer.folded_input
