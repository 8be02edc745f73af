"""Programmed arrays: the values of their cells, and the effect of noisy cells and coarse converters.

With n = ceil(weight_bits / cell_bits) slices, slice k of a stored value v is (v >> k * cell_bits) modulo
2**cell_bits. A weight w of weight_bits bits is stored as

    offset         n bitlines with the slices of w + 2**(weight_bits - 1); digital logic subtracts the share
                   of the offset in a sum, 2**(weight_bits - 1) times the sum of the inputs.
    differential   n bitlines with the slices of max(w, 0), then n with those of max(-w, 0)

Slices in arrays of their own take no bitlines: each of these arrays, a plane of the block, holds one of them;
so do polarities in arrays. Where polarities lie on neighbouring wordlines or in one unit cell, the array
subtracts them itself: the second wordline of an input, or the cell of a negative weight, counts negative.

    noise   a programmed cell v becomes v * (1 + sigma * z), z normal, drawn once for each physical array.
            It is rounded to a binary fraction so fine that all sums stay exact: results are the same on
            every machine.
    inputs  enter `dac_bits` at a time from the lowest bits up, the sign bit in a read of its own (its weight
            is negative): with one bit at a time that is input_bits reads
    ADC     of B bits: F is the most that a column of the array can sum up to in one read, with all cells of
            its weights and all their inputs at their largest; codes are 2**s apart, from 0, with the smallest
            s for which F / 2**s has B bits; values go to the nearest code, ties to even; where an array
            subtracts polarities itself, one of the bits is the sign

Source: Shafiee et al., ISCA 2016 (offset); docs/sources/model.md 3 (where slices and polarities lie).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.choices import Mapping as MappingName
from rramalloc.commands.place.placement import PlacedArray
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.blocks import Block, Part
from rramalloc.ndarrays import Ints
from rramalloc.network.node import Stage

Real = npt.NDArray[np.floating[Any]]
CellValues = npt.NDArray[np.integer[Any]]
EXACT_BITS = 53  # whole numbers below 2**53 are exact in double precision, whatever the order of their sums
_MOST_FRACTION = 12  # binary digits of a noisy cell behind the point, 0.02 % of a unit


@dataclass(frozen=True, slots=True)
class CrossbarStorage:
    """Layout of weights in cells by one kind of hardware.

    slices: of one polarity; slice_arrays: each in an array of its own; polarities: where they lie, None for
    an offset; by_channel: two wordlines of an input are two channels of a kernel, as mappings need that cut
    between channels; dense_groups: a grouped convolution as one without groups, zeros between them.
    """

    weight_bits: int
    cell_bits: int
    slices: int
    slice_arrays: bool
    polarities: str | None
    by_channel: bool
    dense_groups: bool = False

    @classmethod
    def of(cls, hardware: Hardware, mapping: MappingName) -> CrossbarStorage:
        """Return the storage that a hardware description asks for."""
        return cls(
            hardware.precision.weight_bits,
            hardware.crossbar.cell_bits,
            hardware.slices_per_weight,
            hardware.crossbar.slices == "arrays",
            hardware.polarities,
            mapping in ("kernel_split", "whole_kernel"),
            hardware.dense_groups,
        )

    def groups(self, stage: Stage) -> int:
        """Return the number of groups of a stage whose weights are stored apart."""
        return 1 if self.dense_groups else stage.groups

    @property
    def offset(self) -> int:
        """Value that is added to every weight before it is stored."""
        return 1 << (self.weight_bits - 1) if self.polarities is None else 0

    @property
    def most(self) -> int:
        """The largest value of a cell."""
        return (1 << min(self.cell_bits, self.weight_bits)) - 1

    @property
    def signed_sums(self) -> bool:
        """Whether an array subtracts one polarity from the other."""
        return self.polarities in ("rows", "cells")

    @property
    def cell_type(self) -> np.dtype[np.integer[Any]]:
        """The smallest type that holds a cell."""
        return np.min_scalar_type(-self.most if self.signed_sums else self.most)

    @property
    def bytes(self) -> int:
        """Bytes of a cell."""
        return self.cell_type.itemsize

    @property
    def factors(self) -> npt.NDArray[np.float64]:
        """Factors of a unit on each bitline of a weight."""
        return self._worth(in_columns=True)

    def plane_factor(self, plane: int) -> float:
        """Return the factor of a unit on any bitline of a plane, beside those of bitlines."""
        return float(self._worth(in_columns=False)[plane])

    def _worth(self, *, in_columns: bool) -> npt.NDArray[np.float64]:
        """Return the factors of all slices and polarities in columns, or of those in arrays: polarities
        outside."""
        slices = self.slices if self.slice_arrays != in_columns else 1
        powers = np.exp2(np.arange(slices, dtype=np.float64) * self.cell_bits)
        both = self.polarities == ("columns" if in_columns else "arrays")
        return np.concatenate([powers, -powers]) if both else powers

    def on_wordlines(self, values: npt.NDArray[Any], positions: int) -> npt.NDArray[Any]:
        """Return the values by row of a matrix, (..., channels * positions), for each wordline of
        every row."""
        if self.polarities != "rows":
            return values
        apart = values.reshape(*values.shape[:-1], -1, positions)
        return np.repeat(apart, 2, axis=-2 if self.by_channel else -1).reshape(*values.shape[:-1], -1)

    def stored(self, weights: Ints, positions: int) -> Ints:
        """Return the weights (groups, outputs, rows) for each wordline; of two, each has the weights of its
        polarity."""
        if self.polarities != "rows":
            return weights
        apart = weights.astype(np.int64).reshape(*weights.shape[:2], -1, positions)
        both = np.stack([np.maximum(apart, 0), np.minimum(apart, 0)], axis=-2 if self.by_channel else -1)
        return both.reshape(*weights.shape[:2], -1)

    def block(self, block: Block, weights: Ints, plane: int) -> CellValues:
        """Return the values of the cells of one array; weights: as `stored` gives them."""
        cells = np.zeros((block.rows, block.columns), dtype=self.cell_type)
        for part in block.parts:
            lines = slice(part.wordline, part.wordline + len(part.rows))
            bits = slice(part.bitline, part.bitline + len(part.columns))
            cells[lines, bits] = self._part(part, weights[part.group], plane)
        return cells

    def _part(self, part: Part, weights: Ints, plane: int) -> Ints:
        """Return the cells of the part's rectangle; column = output * bitlines of a weight + bitline."""
        output, bitline = np.divmod(np.array(part.columns), len(self.factors))
        first, last = int(output[0]), int(output[-1]) + 1
        stored = weights[first:last, part.rows.start : part.rows.stop : part.rows.step].T.astype(np.int64)
        values = (stored + self.offset)[:, output - first]
        worth = self.factors[bitline] * self.plane_factor(plane)
        if self.polarities in ("columns", "arrays"):
            values = np.maximum(values * np.sign(worth).astype(np.int64), 0)
        cells: Ints = np.sign(values) * ((np.abs(values) // np.abs(worth).astype(np.int64)) & self.most)
        return cells


class ProgrammedArray(NamedTuple):
    """A physical array and its cells, on the lines that its block has in use."""

    placed: PlacedArray
    block: Block
    cells: CellValues


def address_of(array: PlacedArray) -> tuple[int, ...]:
    """Return where a physical array is: chip, tile, index in the tile."""
    return (*array.chip, *array.tile, array.index)


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

    def conductances(self, cells: CellValues, address: tuple[int, ...], bits: int, dtype: Any) -> Real:
        """Return the cells as they conduct. bits: those that sums of the layer take at most."""
        if not self.noise:
            return cells.astype(dtype)
        draw = np.random.default_rng((self.seed, 1, *address)).standard_normal(cells.shape)
        unit = float(1 << max(0, min(_MOST_FRACTION, EXACT_BITS - 2 - bits)))
        noisy: Real = np.rint(cells * (1.0 + self.noise * draw) * unit) / unit
        return noisy

    def multiply(self, inputs: Real, conductances: Real, most: int, *, signed: bool = False) -> Real:
        """Return the sums on the bitlines, (windows, bitlines), as the converters read them.

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
        """Yield (levels on the wordlines, weight of a level, the largest level) of every read."""
        integers = inputs.astype(np.int64)
        for low in range(0, self.width - 1, self.dac_bits):
            bits = min(self.dac_bits, self.width - 1 - low)
            yield ((integers >> low) & ((1 << bits) - 1)).astype(np.float64), float(1 << low), (1 << bits) - 1
        yield (integers < 0).astype(np.float64), -float(1 << (self.width - 1)), 1
