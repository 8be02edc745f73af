"""Blocks: what each array of one copy of a stage holds, for the three mappings (docs/sources/model.md 3).

The weight matrix of one group has a row per input value of a window and a column per stored slice:

    row    = channel * positions + position    channel: of the group, position = k_y * K_w + k_x
    column = output * slices + slice           output: channel of the group, slice < bitlines of one weight

so rows follow the flattened weights (C_out, C_in / groups, K_h, K_w) of ONNX and PyTorch. Groups stand one
after the other on the diagonal of the stage's matrix. Blocks are numbered such that equal `row_block` means
the same inputs and equal `column_block` the same outputs: partial sums are added over the row blocks of a
column block. With `high` x `wide` blocks a unit (a group, or the groups that share an array; the only one
without groups), block (i, j) of unit u has column_block = u * wide + j and

    im2col, whole_kernel   row_block = u * high + i
    kernel_split           row_block = (u * positions + position) * high + i
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from rramalloc.choices import MAPPINGS, Mapping
from rramalloc.hardware.hardware import Crossbar
from rramalloc.mapping.demand import WeightMatrix
from rramalloc.records import check_known


class Part(NamedTuple):
    """A rectangle of one group's weight matrix and where it lies in the array.

    rows, columns: of the group's matrix (numbered as above; `rows` has a step under kernel_split);
    rows[n] is on wordline `wordline` + n and columns[n] on bitline `bitline` + n.
    """

    group: int
    wordline: int
    bitline: int
    rows: range
    columns: range


@dataclass(frozen=True, slots=True)
class Block:
    """What one array holds. rows, columns: wordlines and bitlines in use; parts: one per group in it."""

    row_block: int
    column_block: int
    rows: int
    columns: int
    parts: tuple[Part, ...]


def blocks(weights: WeightMatrix, crossbar: Crossbar, mapping: Mapping) -> list[Block]:
    """The blocks of one copy, by row block and column block; as many as `demand` says.

    Each weight lies in exactly one of them. Raises UnknownNameError; `whole_kernel` supposes that a kernel
    has no more positions than an array has wordlines (`demand` refuses others).

    Source: docs/sources/model.md 3.
    """
    check_known("mapping", mapping, MAPPINGS)
    cuts = _Cuts.of(weights, crossbar, mapping)
    found = [block for unit in range(cuts.units) for block in cuts.of_unit(unit)]
    return sorted(found, key=lambda block: (block.row_block, block.column_block))


@dataclass(frozen=True, slots=True)
class _Cuts:
    """How a stage's matrix is cut. together: groups of a unit; rows: of one group, cut by cut."""

    weights: WeightMatrix
    together: int
    rows: tuple[tuple[range, ...], ...]
    columns: tuple[range, ...]

    @classmethod
    def of(cls, weights: WeightMatrix, crossbar: Crossbar, mapping: Mapping) -> _Cuts:
        positions, inputs = weights.positions, weights.inputs
        all_rows = range(positions * inputs)
        step = positions if mapping == "kernel_split" else 1
        splits = [all_rows[position::step] for position in range(step)]
        limit = crossbar.wordlines
        if mapping == "whole_kernel" and len(all_rows) > limit:
            limit = limit // positions * positions
        rows = tuple(tuple(_cut(split, limit)) for split in splits)
        columns = tuple(_cut(range(weights.columns), crossbar.bitlines))
        together = 1
        if weights.groups > 1 and len(rows[0]) == len(columns) == 1:
            together = min(crossbar.wordlines // len(splits[0]), crossbar.bitlines // weights.columns)
        return cls(weights, together, rows, columns)

    @property
    def units(self) -> int:
        """Groups that share no array with another, or sets of groups that do."""
        return -(-self.weights.groups // self.together)

    def of_unit(self, unit: int) -> Iterator[Block]:
        """Blocks of the groups of one unit."""
        first = unit * self.together
        groups = range(first, min(first + self.together, self.weights.groups))
        rows = [cut for split in self.rows for cut in split]
        for i, high in enumerate(rows):
            for j, wide in enumerate(self.columns):
                parts = tuple(
                    Part(group, (group - first) * len(high), (group - first) * len(wide), high, wide)
                    for group in groups
                )
                yield Block(
                    unit * len(rows) + i, unit * len(self.columns) + j, len(high) * len(groups),
                    len(wide) * len(groups), parts,
                )  # fmt: skip


def _cut(whole: range, limit: int) -> Iterator[range]:
    """Full pieces of `limit` and what is left."""
    for start in range(0, len(whole), limit):
        yield whole[start : start + limit]
