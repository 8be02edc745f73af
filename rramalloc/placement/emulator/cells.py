"""How signed weights become values of cells, and sums over cells become sums over weights.

With n = ceil(weight_bits / cell_bits) slices, slice k of a stored value v is (v >> k * cell_bits) modulo
2**cell_bits. A weight w of weight_bits bits is stored as

    offset         n bitlines with the slices of w + 2**(weight_bits - 1); what the offset adds to a sum,
                   2**(weight_bits - 1) times the sum of the inputs, is subtracted digitally
    differential   n bitlines with the slices of max(w, 0), then n with those of max(-w, 0)

Source: Shafiee et al., ISCA 2016 (offset); docs/sources/model.md 3 (bitlines of one weight).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rramalloc.hardware.hardware import Hardware
from rramalloc.network.node import Stage
from rramalloc.placement.blocks import Block, Part
from rramalloc.placement.emulator.integers import Ints

Cells = npt.NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True, slots=True)
class Storage:
    """How one kind of hardware stores weights.

    slices: of one polarity; dense_groups: a grouped convolution as one without groups, zeros between them.
    """

    weight_bits: int
    cell_bits: int
    slices: int
    differential: bool
    dense_groups: bool = False

    @classmethod
    def of(cls, hardware: Hardware) -> Storage:
        """The storage that a hardware description asks for."""
        weight_bits, cell_bits = hardware.precision.weight_bits, hardware.crossbar.cell_bits
        differential = hardware.precision.signed == "differential"
        return cls(weight_bits, cell_bits, hardware.slices_per_weight, differential, hardware.dense_groups)

    @classmethod
    def of_layers(cls, hardware: Hardware, stages: Iterable[Stage]) -> dict[str, Storage]:
        """The storage of every stage by name, in the precision that it is computed with."""
        return {stage.name: cls.of(hardware.of_layer(stage)) for stage in stages}

    def groups(self, stage: Stage) -> int:
        """Groups of a stage whose weights are stored apart."""
        return 1 if self.dense_groups else stage.groups

    @property
    def offset(self) -> int:
        """What is added to every weight before it is stored."""
        return 0 if self.differential else 1 << (self.weight_bits - 1)

    @property
    def most(self) -> int:
        """The largest value of a cell."""
        return (1 << min(self.cell_bits, self.weight_bits)) - 1

    @property
    def cell_type(self) -> np.dtype[np.unsignedinteger[Any]]:
        """The smallest type that holds a cell."""
        return np.min_scalar_type(self.most)

    @property
    def factors(self) -> npt.NDArray[np.float64]:
        """What a unit on each bitline of a weight is worth."""
        powers = np.exp2(np.arange(self.slices, dtype=np.float64) * self.cell_bits)
        return np.concatenate([powers, -powers]) if self.differential else powers

    def block(self, block: Block, weights: Ints) -> Cells:
        """Values of the cells of one array; weights: (groups, outputs, rows of a group)."""
        cells = np.zeros((block.rows, block.columns), dtype=self.cell_type)
        for part in block.parts:
            lines = slice(part.wordline, part.wordline + len(part.rows))
            bits = slice(part.bitline, part.bitline + len(part.columns))
            cells[lines, bits] = self._part(part, weights[part.group])
        return cells

    def _part(self, part: Part, weights: Ints) -> Ints:
        """The part's rectangle; column = output * bitlines of a weight + bitline."""
        output, bitline = np.divmod(_indices(part.columns), len(self.factors))
        first, last = int(output[0]), int(output[-1]) + 1
        stored = weights[first:last, part.rows.start : part.rows.stop : part.rows.step].T.astype(np.int64)
        if self.differential:
            polarity, level = np.divmod(bitline, self.slices)
            stored = np.maximum(stored[:, output - first] * (1 - 2 * polarity), 0)
        else:
            stored, level = (stored + self.offset)[:, output - first], bitline
        cells: Ints = (stored >> (level * self.cell_bits)) & self.most
        return cells


def _indices(lines: range) -> Ints:
    return np.arange(lines.start, lines.stop, lines.step)
