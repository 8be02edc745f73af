"""How signed weights become values of cells, and sums over cells become sums over weights.

With n = ceil(weight_bits / cell_bits) slices, slice k of a stored value v is (v >> k * cell_bits) modulo
2**cell_bits. A weight w of weight_bits bits is stored as

    offset         n bitlines with the slices of w + 2**(weight_bits - 1); what the offset adds to a sum,
                   2**(weight_bits - 1) times the sum of the inputs, is subtracted digitally
    differential   n bitlines with the slices of max(w, 0), then n with those of max(-w, 0)

Slices in arrays of their own take no bitlines: each of these arrays, a plane of the block, holds one of them;
so do polarities in arrays. Where polarities lie on neighbouring wordlines or in one unit cell, the array
subtracts them itself: the second wordline of an input, or the cell of a negative weight, counts negative.

Source: Shafiee et al., ISCA 2016 (offset); docs/sources/model.md 3 (where slices and polarities lie).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rramalloc.choices import Mapping
from rramalloc.hardware.hardware import Hardware
from rramalloc.network.node import Stage
from rramalloc.placement.blocks import Block, Part
from rramalloc.placement.emulator.integers import Ints

Cells = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class Storage:
    """How one kind of hardware stores weights.

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
    def of(cls, hardware: Hardware, mapping: Mapping) -> Storage:
        """The storage that a hardware description asks for."""
        return cls(
            hardware.precision.weight_bits,
            hardware.crossbar.cell_bits,
            hardware.slices_per_weight,
            hardware.crossbar.slices == "arrays",
            hardware.polarities,
            mapping in ("kernel_split", "whole_kernel"),
            hardware.dense_groups,
        )

    @classmethod
    def of_layers(cls, hardware: Hardware, stages: Iterable[Stage], mapping: Mapping) -> dict[str, Storage]:
        """The storage of every stage by name, in the precision that it is computed with."""
        return {stage.name: cls.of(hardware.of_layer(stage), mapping) for stage in stages}

    def groups(self, stage: Stage) -> int:
        """Groups of a stage whose weights are stored apart."""
        return 1 if self.dense_groups else stage.groups

    @property
    def offset(self) -> int:
        """What is added to every weight before it is stored."""
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
    def factors(self) -> npt.NDArray[np.float64]:
        """What a unit on each bitline of a weight is worth."""
        return self._worth(in_columns=True)

    def plane_factor(self, plane: int) -> float:
        """What a unit on any bitline of a plane is worth beside that."""
        return float(self._worth(in_columns=False)[plane])

    def _worth(self, *, in_columns: bool) -> npt.NDArray[np.float64]:
        """Of all slices and polarities that lie in columns, or of those in arrays: polarities outside."""
        slices = self.slices if self.slice_arrays != in_columns else 1
        powers = np.exp2(np.arange(slices, dtype=np.float64) * self.cell_bits)
        both = self.polarities == ("columns" if in_columns else "arrays")
        return np.concatenate([powers, -powers]) if both else powers

    def on_wordlines(self, values: npt.NDArray[Any], positions: int) -> npt.NDArray[Any]:
        """Values by row of a matrix, (..., channels * positions), for each wordline of every row."""
        if self.polarities != "rows":
            return values
        apart = values.reshape(*values.shape[:-1], -1, positions)
        return np.repeat(apart, 2, axis=-2 if self.by_channel else -1).reshape(*values.shape[:-1], -1)

    def stored(self, weights: Ints, positions: int) -> Ints:
        """Weights (groups, outputs, rows) for each wordline; of two, each has the weights of its polarity."""
        if self.polarities != "rows":
            return weights
        apart = weights.astype(np.int64).reshape(*weights.shape[:2], -1, positions)
        both = np.stack([np.maximum(apart, 0), np.minimum(apart, 0)], axis=-2 if self.by_channel else -1)
        return both.reshape(*weights.shape[:2], -1)

    def block(self, block: Block, weights: Ints, plane: int) -> Cells:
        """Values of the cells of one array; weights: as `stored` gives them."""
        cells = np.zeros((block.rows, block.columns), dtype=self.cell_type)
        for part in block.parts:
            lines = slice(part.wordline, part.wordline + len(part.rows))
            bits = slice(part.bitline, part.bitline + len(part.columns))
            cells[lines, bits] = self._part(part, weights[part.group], plane)
        return cells

    def _part(self, part: Part, weights: Ints, plane: int) -> Ints:
        """The part's rectangle; column = output * bitlines of a weight + bitline."""
        output, bitline = np.divmod(_indices(part.columns), len(self.factors))
        first, last = int(output[0]), int(output[-1]) + 1
        stored = weights[first:last, part.rows.start : part.rows.stop : part.rows.step].T.astype(np.int64)
        values = (stored + self.offset)[:, output - first]
        worth = self.factors[bitline] * self.plane_factor(plane)
        if self.polarities in ("columns", "arrays"):
            values = np.maximum(values * np.sign(worth).astype(np.int64), 0)
        cells: Ints = np.sign(values) * ((np.abs(values) // np.abs(worth).astype(np.int64)) & self.most)
        return cells


def _indices(lines: range) -> Ints:
    return np.arange(lines.start, lines.stop, lines.step)
