"""How many pixels to fold into one so that the input channels fill a hardware's channel alignment.

Source: SYSTEMS.md 3; what the source leaves open is marked as a choice.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Literal, get_args

from rramalloc.errors import SpecError
from rramalloc.mapping.fold import Filter, Fold, folded_kernel
from rramalloc.network.geometry import Pair
from rramalloc.records import brief, check_known, is_whole

Rule = Literal["source", "width_first", "least_padding", "balanced"]
RULES: tuple[Rule, ...] = get_args(Rule)
MAX_ALIGN = 2**31 - 1


def fold_to(filter_: Filter, align: int, rule: Rule = "source") -> Fold:
    """The fold that fills `align` input channels, split over height and width by a rule.

    Raises SpecError for a dilated kernel and for an alignment out of range; UnknownNameError.

    >>> fold_to(Filter(outputs=64, kernel=(6, 6), inputs=4, stride=(2, 2)), align=64).shape
    (64, 1, 3, 64)
    """
    check_known("rule", rule, RULES)
    inputs, n_total = aligned_inputs(filter_.inputs, align)
    return Fold(filter=filter_, size=_SPLITS[rule](filter_, n_total), inputs=inputs)


def aligned_inputs(inputs: int, align: int) -> Pair:
    """(C_ia, n_total): channels raised to the smallest align / 2^n that holds them, and how often that fits.

    Choice: an alignment is halved only while it is even; channels above it are raised to a multiple of it
    and not folded. Raises SpecError.

    >>> aligned_inputs(3, 64), aligned_inputs(5, 64)
    ((4, 16), (8, 8))
    """
    if not is_whole(align, 1, MAX_ALIGN):
        raise SpecError("align", f"must be a whole number from 1 to {MAX_ALIGN}, got {brief(align)}")
    if inputs > align:
        return raised(inputs, align), 1
    part = align
    while part % 2 == 0 and part // 2 >= inputs:
        part //= 2
    return part, align // part


def raised(count: int, multiple: int) -> int:
    """The smallest multiple that is not below `count`."""
    return -(-count // multiple) * multiple


def _source(filter_: Filter, n_total: int) -> Pair:
    """Half of the exponent on width, at most the kernel; where windows overlap, only the useful part of it.

    The useful fold S_x / S_x' is gcd(n_w, S_x) with the exact S_x'; that is the source's wherever one of
    n_w and S_x divides the other, and a choice elsewhere.
    """
    width = min(_half(n_total), _power_of_two(filter_.kernel[1]))
    stride = filter_.stride[1]
    if width > stride:
        width = gcd(width, stride)
    return n_total // width, width


def _width_first(filter_: Filter, n_total: int) -> Pair:
    """As much on width as its kernel, raised to a power of two, can use; the rest on height."""
    width = min(n_total, _power_of_two(filter_.kernel[1]))
    return n_total // width, width


def _least_padding(filter_: Filter, n_total: int) -> Pair:
    """The split that adds the fewest zeros to the kernel; of equals the one with most on width."""

    def padded(size: Pair) -> tuple[int, int]:
        kernel = folded_kernel(filter_.kernel, size)
        return kernel[0] * size[0] * kernel[1] * size[1], size[0]

    powers = [1 << exponent for exponent in range(n_total.bit_length())]
    return min(((height, n_total // height) for height in powers), key=padded)


def _balanced(filter_: Filter, n_total: int) -> Pair:  # noqa: ARG001 - every rule is given the filter
    """Height and width alike; an odd exponent gives width one more."""
    width = _half(n_total)
    return n_total // width, width


def _half(n_total: int) -> int:
    """2^ceil(log2(n_total) / 2) of a power of two."""
    return 1 << (n_total.bit_length() // 2)


def _power_of_two(size: int) -> int:
    """The smallest power of two that is not below `size`."""
    return 1 << (size - 1).bit_length()


_SPLITS: dict[Rule, Callable[[Filter, int], Pair]] = {
    "source": _source,
    "width_first": _width_first,
    "least_padding": _least_padding,
    "balanced": _balanced,
}
