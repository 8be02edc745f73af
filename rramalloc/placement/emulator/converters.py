"""What real arrays add: noise of programmed cells, inputs bit by bit, and converters with few bits.

noise   a programmed cell v becomes v * (1 + sigma * z), z normal, drawn once for each physical array; rounded
        to a binary fraction so fine that all sums stay exact, which makes results the same on every machine
inputs  enter `dac_bits` at a time from the lowest bits up, the sign bit in a read of its own (its weight is
        negative): with one bit at a time that is input_bits reads
ADC     of B bits: F is the most that a column of the array can sum up to in one read, with all cells of its
        weights and all their inputs at their largest; codes are 2**s apart, from 0, with the smallest s for
        which F / 2**s has B bits; values go to the nearest code, ties to even; where an array subtracts
        polarities itself, one of the bits is the sign
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rramalloc.placement.emulator.cells import Cells
from rramalloc.placement.emulator.integers import EXACT_BITS

Real = npt.NDArray[np.floating[Any]]
_MOST_FRACTION = 12


@dataclass(frozen=True, slots=True)
class Converters:
    """adc_bits: None for converters that lose nothing; noise: sigma; dac_bits, width: of the inputs."""

    adc_bits: int | None
    noise: float
    dac_bits: int
    width: int
    seed: int

    @property
    def exact(self) -> bool:
        """Whether nothing is lost by definition."""
        return self.adc_bits is None and not self.noise

    def conductances(self, cells: Cells, address: tuple[int, ...], bits: int, dtype: Any) -> Real:
        """The cells as they conduct. bits: that sums of the layer take at most."""
        if not self.noise:
            return cells.astype(dtype)
        draw = np.random.default_rng((self.seed, 1, *address)).standard_normal(cells.shape)
        unit = float(1 << max(0, min(_MOST_FRACTION, EXACT_BITS - 2 - bits)))
        noisy: Real = np.rint(cells * (1.0 + self.noise * draw) * unit) / unit
        return noisy

    def multiply(self, inputs: Real, conductances: Real, most: int, *, signed: bool = False) -> Real:
        """Sums on the bitlines, (windows, bitlines), as the converters read them.

        most: what the cells of a column can add up to; signed: or, negative, to as much.
        """
        if self.adc_bits is None:
            return inputs @ conductances
        total = np.zeros((len(inputs), conductances.shape[1]))
        for read, weight, highest in self._reads(inputs):
            full = most * highest
            bits = self.adc_bits - signed
            step = float(1 << max(0, full.bit_length() - bits))
            codes = np.clip(np.rint(read @ conductances / step), -signed * 2.0**bits, 2.0**bits - 1)
            total += codes * (step * weight)
        return total

    def _reads(self, inputs: Real) -> Iterator[tuple[Real, float, int]]:
        """(levels on the wordlines, what a unit is worth, the largest level) of every read."""
        whole = inputs.astype(np.int64)
        for low in range(0, self.width - 1, self.dac_bits):
            bits = min(self.dac_bits, self.width - 1 - low)
            yield ((whole >> low) & ((1 << bits) - 1)).astype(np.float64), float(1 << low), (1 << bits) - 1
        yield (whole < 0).astype(np.float64), -float(1 << (self.width - 1)), 1
