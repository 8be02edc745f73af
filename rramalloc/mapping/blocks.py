"""Blocks of weights: the content of the arrays of a stage, for every mapping (docs/sources/model.md 3, 10).

The weight matrix of one group has a row per input value of a window and a column per stored slice:

    row    = channel * positions + position    channel: of the group, position = k_y * K_w + k_x
    column = output * slices + slice           output: channel of the group, slice < bitlines of one weight

so rows follow the flattened weights (C_out, C_in / groups, K_h, K_w) of ONNX and PyTorch. Where the
polarities of a weight lie on neighbouring wordlines there are two rows for each of these: 2 * row + polarity,
and with mappings that cut between channels (2 * channel + polarity) * positions + position. Where a copy
computes a block of ph x pw windows in a step, its shifted kernels stand side by side in that matrix:

    position = u_y * U_w + u_x             (u_y, u_x): input pixel that the block reads, U of the model
    output   = (w_y * pw + w_x) * outputs + output             (w_y, w_x): window in its block

Groups stand one after the other on the diagonal of the stage's matrix. Blocks are numbered such that equal
`row_block` means the same inputs and equal `column_block` the same outputs: partial sums are added over the
row blocks of a column block. A unit is a group, or the groups that share an array; a stage without groups is
one unit. Block (i, j) of unit u, of `high` x `wide` blocks, has column_block = u * wide + j and

    im2col, whole_kernel, sdk   row_block = u * high + i
    kernel_split                row_block = (u * positions + position) * high + i

With mapping `sdk`, groups that fit an array share it with those of other copies. Number the pairs (copy,
group) of a stage of G groups by copy * G + group. If p groups fit an array, array n holds the pairs n * p ...
n * p + p - 1 on its diagonal; its row_block and column_block are n.

Where slices or polarities lie in arrays of their own, several arrays hold the same block, each one plane of
it: plane = polarity * slices + slice, of those that lie in arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product
from typing import NamedTuple

from rramalloc.choices import MAPPINGS, Mapping
from rramalloc.hardware.tables import Crossbar
from rramalloc.mapping.demand import WeightMatrix, demand
from rramalloc.mapping.mode import LayerArray
from rramalloc.network.network import Network
from rramalloc.network.node import Stage
from rramalloc.records import check_known


class Part(NamedTuple):
    """A rectangle of one group's weight matrix and where it lies in the array.

    copy: that it belongs to, counted from the first copy in the array; rows, columns: of the group's matrix
    (numbered as above; `rows` has a step under kernel_split); rows[n] is on wordline `wordline` + n and
    columns[n] on bitline `bitline` + n.
    """

    copy: int
    group: int
    wordline: int
    bitline: int
    rows: range
    columns: range


@dataclass(frozen=True, slots=True)
class Block:
    """Content of one array.

    rows, columns: wordlines and bitlines in use; parts: one per group of a copy in it; plane: which of the
    arrays that hold the same block.
    """

    row_block: int
    column_block: int
    rows: int
    columns: int
    parts: tuple[Part, ...]
    plane: int = 0

    @property
    def copies(self) -> int:
        """Copies of which it holds weights."""
        return self.parts[-1].copy + 1


class HeldBlocks(NamedTuple):
    """Content of arrays that lie together: all blocks of a copy, or the parts of copies in one array.

    replica: the copy, the first of them where they are several.
    """

    replica: int
    blocks: Sequence[Block]


@dataclass(frozen=True)
class CopiesApart:
    """Layout in which every copy of a stage has its own arrays; demand: arrays of one copy."""

    copies: int
    weights: WeightMatrix
    crossbar: Crossbar
    mapping: Mapping
    demand: int

    def __len__(self) -> int:
        """Return the number of sets of arrays, one a copy."""
        return self.copies

    @property
    def together(self) -> int:
        """Arrays of one set: those of a copy."""
        return self.demand

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Blocks of one copy."""
        return blocks(self.weights, self.crossbar, self.mapping)

    def __getitem__(self, number: int) -> HeldBlocks:
        """Return the content of the arrays of copy `number`."""
        return HeldBlocks(number, self.blocks)

    @property
    def of_number(self) -> dict[tuple[int, int], Block]:
        """Blocks of plane 0 by (row block, column block), the same in every copy."""
        return {(block.row_block, block.column_block): block for block in self.blocks if block.plane == 0}


@dataclass(frozen=True, slots=True)
class CopiesSharing:
    """Groups of all copies of a stage on the diagonals of arrays, `room` in each.

    Source: docs/sources/model.md 10.
    """

    copies: int
    weights: WeightMatrix
    room: int

    def __len__(self) -> int:
        """Return the number of sets of arrays: the planes of one block, which copies share."""
        return -(-self.copies * self.weights.groups // self.room)

    @property
    def together(self) -> int:
        """Arrays of one set: the planes of a block."""
        return self.weights.arrays_per_block

    @property
    def demand(self) -> int:
        """Arrays of one copy."""
        return -(-self.weights.groups // self.room) * self.together

    def __getitem__(self, number: int) -> HeldBlocks:
        """Return the content of the arrays of set `number`, shared by one or several copies."""
        groups, high, wide = self.weights.groups, self.weights.rows, self.weights.columns
        first, lines = number * self.room, (range(high), range(wide))
        several = range(first, min(first + self.room, self.copies * groups))
        parts = tuple(
            Part(pair // groups - first // groups, pair % groups, at * high, at * wide, *lines)
            for at, pair in enumerate(several)
        )
        block = Block(number, number, len(several) * high, len(several) * wide, parts)
        return HeldBlocks(first // groups, _planes(block, self.together))

    @property
    def of_number(self) -> dict[tuple[int, int], Block]:
        """Blocks of plane 0 by (row block, column block)."""
        return {(number, number): self[number].blocks[0] for number in range(len(self))}


StoredCopies = CopiesApart | CopiesSharing


def stored(
    weights: WeightMatrix, crossbar: Crossbar, mapping: Mapping, copies: int, where: str
) -> StoredCopies:
    """Return the content of the arrays of a stage's copies; `where` names it. Raises as `demand` does."""
    room = min(crossbar.wordlines // weights.rows, crossbar.bitlines // weights.columns)
    if mapping == "sdk" and room:
        return CopiesSharing(copies, weights, room)
    return CopiesApart(copies, weights, crossbar, mapping, demand(weights, crossbar, mapping, where))


def unit_of(network: Network, stage: Stage, own: LayerArray) -> LayerArray:
    """Return the hardware of a digital unit as an array that holds all weights of a layer, a cell for each.

    Groups lie on its diagonal.
    """
    polarities = None if own.precision.signed == "offset" else "cells"
    cell = {"cell_bits": own.precision.weight_bits, "slices": None, "polarities": polarities}
    whole = own.model_copy(update={"crossbar": own.crossbar.model_copy(update=cell)})
    weights = WeightMatrix.of(network, stage, whole)
    lines = {"wordlines": weights.rows * weights.groups, "bitlines": weights.columns * weights.groups}
    return LayerArray(whole.model_copy(update={"crossbar": whole.crossbar.model_copy(update=lines)}))


def _planes(block: Block, count: int) -> tuple[Block, ...]:
    """Return a block once for each of the `count` arrays that hold its planes."""
    return tuple(replace(block, plane=plane) for plane in range(count))


@lru_cache(maxsize=256)
def blocks(weights: WeightMatrix, crossbar: Crossbar, mapping: Mapping) -> tuple[Block, ...]:
    """Return the blocks of one copy, by row block, column block and plane; as many as `demand` says.

    Each weight lies in one place of them, the same in each plane. Raises UnknownNameError; `whole_kernel`
    supposes that a kernel has no more positions than an array has wordlines (`demand` refuses others).

    Source: docs/sources/model.md 3.
    """
    check_known("mapping", mapping, MAPPINGS)
    positions, limit = weights.positions, crossbar.wordlines
    every = range(positions * weights.inputs * weights.wordlines_per_input)
    if mapping == "whole_kernel" and len(every) > limit:
        # Rows are cut between input channels only, so an array holds whole kernels.
        limit = limit // positions * positions
    step = positions if mapping == "kernel_split" else 1
    splits = [every[position::step] for position in range(step)]
    rows = [cut for split in splits for cut in _cut(split, limit)]
    columns = list(_cut(range(weights.columns), crossbar.bitlines))
    together = 1  # groups of a unit; more where a group fits an array, as `demand` counts them
    if weights.groups > 1 and len(rows) == len(splits) and len(columns) == 1:
        together = min(crossbar.wordlines // len(splits[0]), crossbar.bitlines // weights.columns)
    listed = []
    for unit, first in enumerate(range(0, weights.groups, together)):
        groups = range(first, min(first + together, weights.groups))
        for (i, high), (j, wide) in product(enumerate(rows), enumerate(columns)):
            parts = tuple(
                Part(0, group, at * len(high), at * len(wide), high, wide) for at, group in enumerate(groups)
            )
            used = len(high) * len(groups), len(wide) * len(groups)
            listed.append(Block(unit * len(rows) + i, unit * len(columns) + j, *used, parts))
    listed.sort(key=lambda block: (block.row_block, block.column_block))
    return tuple(plane for block in listed for plane in _planes(block, weights.arrays_per_block))


def _cut(lines: range, limit: int) -> Iterator[range]:
    """Yield `whole` in pieces of `limit` numbers, the last of which may be shorter."""
    for start in range(0, len(lines), limit):
        yield lines[start : start + limit]
