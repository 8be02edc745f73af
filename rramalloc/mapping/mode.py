"""Mode: one way in which a stage may use its arrays (docs/sources/model.md 10, 16, 17 and 18)."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, NewType

import numpy as np
import numpy.typing as npt

from rramalloc.hardware.hardware import Hardware
from rramalloc.network.geometry import Pair
from rramalloc.network.node import TimedNode

SINGLE: Pair = (1, 1)
"""The block of `im2col`: one window."""
BlocksByName = MappingOf[str, Pair]
"""Block of windows (height, width) by layer name; layers left out have their smallest."""
NO_BLOCKS: BlocksByName = MappingProxyType({})
LayerArray = NewType("LayerArray", Hardware)
"""The arrays, or digital units, that one layer uses: of its kind, with the bits of its weights and inputs."""


class Mode(NamedTuple):
    """An alternative of a stage, the same for all its copies: block, bits and kind of arrays.

    tall, wide: windows that a copy computes in a step; weight_bits, input_bits: 0 where the layer's own hold;
    kind: number of the kind of arrays, 0 where the hardware has one.
    """

    tall: int
    wide: int
    weight_bits: int = 0
    input_bits: int = 0
    kind: int = 0

    @property
    def block(self) -> Pair:
        """Windows (height, width) that a copy computes in a step."""
        return self.tall, self.wide

    def in_block(self, block: Pair) -> Mode:
        """Return the same mode with another block."""
        return self._replace(tall=block[0], wide=block[1])

    def of_stage(self, stage: TimedNode) -> TimedNode:
        """Return the stage with the bits of this mode."""
        if not self.weight_bits:
            return stage
        return stage.model_copy(update={"weight_bits": self.weight_bits, "input_bits": self.input_bits})


def array_of(hardware: Hardware, stage: TimedNode, mode: Mode) -> LayerArray:
    """Return what a stage uses in a mode: nothing else reads the crossbar of a hardware for a layer."""
    return LayerArray(hardware.each_kind[mode.kind].of_layer(mode.of_stage(stage)))


PLAIN = Mode(*SINGLE)
"""The mode of a stage that has nothing to choose from: one window, its own bits, the first kind."""
ModeOfEach = tuple[Mode, ...]
"""The mode of every stage, in canonical order."""


class ModeTable(NamedTuple):
    """Modes as columns, int64, a row each, as compiled code reads them.

    tall, wide: windows of a block; top, left: pixels by which the first block begins outside of the grid;
    image: pixel rows of one image; columns: blocks in a row of blocks; total: blocks; groups, sharing,
    spread, tile: as in ArrayCount, which give the cost of any number of copies; weight_bits, input_bits,
    kind: as in Mode; sensitivity: to the bits, in parts of its limit; weight: cost of an array; least, most:
    copies that are allowed; price: of an array, its weight plus the prices of the limited axes; bits_price:
    price of the sensitivity of a mode.
    """

    tall: Any
    wide: Any
    top: Any
    left: Any
    image: Any
    columns: Any
    total: Any
    groups: Any
    sharing: Any
    spread: Any
    tile: Any
    weight_bits: Any
    input_bits: Any
    kind: Any
    sensitivity: Any
    weight: Any
    least: Any
    most: Any
    price: Any
    bits_price: Any

    @classmethod
    def of(cls, **columns: Any) -> ModeTable:
        """Return a table of these columns; a number fills its column.

        Columns left out are 0; weight, price and `least` are 1, `most` is the number of blocks.
        """
        # Without kinds an array costs 1, and without prices its price is its cost.
        ones = dict.fromkeys(("weight", "price", "least"), 1)
        filled = dict.fromkeys(cls._fields, 0) | ones | {"most": columns["total"]} | columns
        return cls(*(column.copy() for column in np.broadcast_arrays(*filled.values())))

    @classmethod
    def joined(cls, tables: Sequence[ModeTable]) -> ModeTable:
        """Return one table with the rows of all `tables`, in their order."""
        return cls(*map(np.concatenate, zip(*tables, strict=True)))

    def take(self, rows: npt.NDArray[Any]) -> ModeTable:
        """Return the rows with these numbers, or where a mask is True."""
        return ModeTable(*(column[rows] for column in self))

    def arrays(self, copies: Any) -> npt.NDArray[np.int64]:
        """Return the cost of the arrays that copies of each mode take, as `ArrayCount.arrays`."""
        # Groups that fit no array whole have sharing 0: each of them takes `spread` arrays.
        stored = -(-copies * self.groups // np.maximum(self.sharing, 1)) * self.spread
        taken: npt.NDArray[np.int64] = -(-stored // self.tile) * self.tile
        return taken

    @property
    def rows(self) -> int:
        """Number of modes."""
        return len(self.tall)

    def modes(self) -> list[Mode]:
        """Return the mode of every row."""
        columns = (self.tall, self.wide, self.weight_bits, self.input_bits, self.kind)
        return [Mode(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
