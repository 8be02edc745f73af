"""Integers of the emulated accelerator: their width, and how sums are brought back to it.

Every tensor holds signed integers of `width` bits, the narrower of inputs and outputs of the hardware, so
that each layer's inputs fit its converters. Sums (and products) are shifted right by a number of bits of
their layer, rounding down, and saturate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rramalloc.hardware.hardware import Precision

Ints = npt.NDArray[np.int64]
EXACT_BITS = 53
"""Whole numbers below 2**53 are exact in double precision, whatever the order of their sums."""
EXACT_SINGLE_BITS = 24


@dataclass(frozen=True, slots=True)
class Width:
    """Signed integers of `bits` bits, two's complement."""

    bits: int

    @classmethod
    def of(cls, precision: Precision) -> Width:
        """The width of all tensors."""
        return cls(min(precision.input_bits, precision.output_bits))

    @property
    def low(self) -> int:
        """The least of them."""
        return -(1 << (self.bits - 1))

    @property
    def high(self) -> int:
        """The largest of them."""
        return (1 << (self.bits - 1)) - 1

    def shift_for(self, sums: Ints) -> int:
        """The smallest right shift after which all of `sums` are of this width."""
        most = max(int(sums.max(initial=0)), -1 - int(sums.min(initial=0)))
        return max(0, most.bit_length() - (self.bits - 1))
