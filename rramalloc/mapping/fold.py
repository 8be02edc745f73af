"""Filter folding: kernel height and width moved into input channels, without changing the result.

Along one direction with kernel K, stride s and n pixels folded into one, let t = gcd(n, s): folded pixel j
holds the original pixels j*t ... j*t + n - 1, the folded stride is s / t, the folded kernel has
K' = ceil(K / n) pixels dilated by n / t. Source: SYSTEMS.md 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import gcd

from rramalloc.errors import SpecError
from rramalloc.network.geometry import MAX_EXTENT, Pair
from rramalloc.network.network import MAX_WEIGHTS
from rramalloc.records import brief, is_whole

UNFOLDED: Pair = (1, 1)


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
    """n_h x n_w pixels of a filter's input, and of its kernel, made channels of one.

    size: (n_h, n_w); inputs: channels of one group before folding, raised by zeros if above the filter's.
    Channel (r_h * n_w + r_w) * inputs + c of a folded pixel is channel c of its pixel (r_h, r_w).
    Groups are folded each for itself and stay one after the other.
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
        """A fold that adds no channels of zeros. Raises SpecError."""
        return cls(filter=filter_, size=size, inputs=filter_.inputs)

    @cached_property
    def step(self) -> Pair:
        """Original pixels from one folded pixel to the next: t = gcd(n, s)."""
        return _pair(gcd(n, s) for n, s in zip(self.size, self.filter.stride, strict=True))

    @cached_property
    def kernel(self) -> Pair:
        """Folded kernel K' = ceil(K / n)."""
        return folded_kernel(self.filter.kernel, self.size)

    @cached_property
    def stride(self) -> Pair:
        """Folded stride s / t."""
        return _pair(s // t for s, t in zip(self.filter.stride, self.step, strict=True))

    @cached_property
    def dilation(self) -> Pair:
        """Dilation of the folded kernel n / t; 1 where it has one pixel, as there is nothing to dilate."""
        parts = zip(self.size, self.step, self.kernel, strict=True)
        return _pair(n // t if kernel > 1 else 1 for n, t, kernel in parts)

    @property
    def channels(self) -> int:
        """Input channels of one group after folding."""
        return self.size[0] * self.size[1] * self.inputs

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Folded filter (C_o, K_h', K_w', n_h * n_w * inputs)."""
        return (self.filter.outputs, *self.kernel, self.channels)

    @property
    def padding_added(self) -> int:
        """Zeros added to the kernel of one pair of input and output channel."""
        before, after = self.filter.kernel, self.padded_kernel
        return after[0] * after[1] - before[0] * before[1]

    @property
    def padded_kernel(self) -> Pair:
        """The kernel raised to multiples of n, K' * n."""
        return _pair(kernel * n for kernel, n in zip(self.kernel, self.size, strict=True))

    @property
    def overlap(self) -> Pair:
        """Original pixels that neighbouring windows of n pixels share, n - s, at least 0."""
        return _pair(max(0, n - s) for n, s in zip(self.size, self.filter.stride, strict=True))

    @property
    def exact(self) -> bool:
        """Whether the folded convolution provably equals the original one: every pixel is where it was."""
        rows = zip(
            self.size, self.step, self.kernel, self.stride, self.dilation,
            self.filter.kernel, self.filter.stride, strict=True,
        )  # fmt: skip
        return all(
            folded_stride * t == stride and kernel * n >= whole and (kernel == 1 or dilation * t == n)
            for n, t, kernel, folded_stride, dilation, whole, stride in rows
        )


def folded_kernel(kernel: Pair, size: Pair) -> Pair:
    """ceil(K / n) along height and width."""
    return _pair(-(-k // n) for k, n in zip(kernel, size, strict=True))


def useful_sizes(kernel: int) -> Iterator[int]:
    """The smallest n for every ceil(kernel / n) there is, rising from 1 to `kernel`.

    Any other n takes more channels for a folded kernel of the same length.
    """
    size = 1
    while True:
        yield size
        folded = -(-kernel // size)
        if folded == 1:
            return
        size = -(-kernel // (folded - 1))


def _pair(values: Iterator[int]) -> Pair:
    height, width = values
    return height, width
