"""How a fold is chosen: the worked values of docs/sources/companions.md 3, and what the rules promise."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rramalloc.choices import FOLD_RULES
from rramalloc.commands.fold.filter_folding import fold_filter
from rramalloc.errors import SpecError
from rramalloc.mapping.fold import Filter, Fold, aligned_inputs, fold_to


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


@pytest.mark.parametrize(
    ("kernel", "stride", "align", "rule", "size"),
    [
        # n_total 8: exponent 3, half raised 2: n_w 4; stride 4 does not overlap
        ((8, 8), (4, 4), 8, "source", (2, 4)),
        ((5, 2), (1, 2), 16, "source", (8, 2)),
        ((3, 3), (4, 4), 64, "source", (16, 4)),
        ((3, 5), (3, 3), 16, "source", (16, 1)),
        ((3, 7), (6, 6), 16, "source", (4, 4)),
        ((5, 5), (1, 1), 32, "width_first", (4, 8)),
        ((3, 3), (1, 1), 8, "least_padding", (2, 4)),
        ((4, 1), (1, 1), 4, "least_padding", (4, 1)),
        ((3, 3), (1, 1), 1, "balanced", (1, 1)),
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


@pytest.mark.parametrize("align", [0, True, 64.0])
def test_an_alignment_that_cannot_be_is_refused(align: Any) -> None:
    with pytest.raises(SpecError, match=r"align: must be a whole number from 1"):
        fold((1, 3, 3, 1), (1, 1), align)


@pytest.mark.parametrize(
    ("shape", "stride", "saving", "chosen"),
    [
        ((64, 3, 3, 3), (1, 1), 1 - 1 / 9, "least_padding"),
        ((64, 1, 6, 4), (1, 1), 1 - 1 / 6, "least_padding"),
        ((64, 6, 6, 4), (2, 2), 1 - 3 / 36, "source"),
        ((64, 1, 1, 4), (1, 1), 0, "unfolded"),
    ],
)
def test_the_rule_of_least_work(shape: Any, stride: Any, saving: float, chosen: str) -> None:
    found = fold_filter(shape, stride=stride, align=64, check=True)
    assert (found.saving, found.chosen, found.checked) == (pytest.approx(saving), chosen, True)
    if chosen == "unfolded":
        assert (found.n_h, found.n_w, found.filter) == (1, 1, shape)
    every = [fold_filter(shape, stride=stride, align=64, rule=rule).saving for rule in FOLD_RULES]
    assert found.saving == max(0.0, *every)
