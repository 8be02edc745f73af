"""Array groups of PIMCOMP: the row blocks of copies, each of which lies in one core, and in which core.

The tool itself fills core after core in the order of the layers, so that a few cores hold all copies of the
layers with the most reads, and these wait for each other: a core starts one read after another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

TOGETHER = 8
"""Copies of a layer that share a core where they can, as neighbours read many inputs in common: of 1 to 64,
4 and 8 were the fastest in the tool (results/peers.md)."""


class ArrayGroups(NamedTuple):
    """Groups of arrays of a layer: each copy has `blocks` groups of `width` arrays; windows: of the layer."""

    copies: int
    blocks: int
    width: int
    windows: int

    @property
    def number(self) -> int:
        """Groups of all copies."""
        return self.copies * self.blocks

    @property
    def reads(self) -> float:
        """Reads of each group."""
        return self.windows / self.copies

    @property
    def arrays(self) -> int:
        """Arrays of all copies."""
        return self.number * self.width

    def next_chunk(self, placed: int) -> int:
        """Return the number of groups to lay together after `placed` ones: the rest of a parted copy, or
        TOGETHER copies."""
        if parted := placed % self.blocks:
            return self.blocks - parted
        return min(TOGETHER * self.blocks, self.number - placed)


def first_fit(groups: Iterable[tuple[int, int]], cores: int, arrays: int) -> list[int] | None:
    """Return the arrays left in each core when groups (count, width) are placed in order; None if one has no
    place."""
    left = [arrays] * cores
    first: dict[int, int] = {}
    for count, width in groups:
        core = first.get(width, 0)
        for _ in range(count):
            while core < cores and left[core] < width:
                core += 1
            if core == cores:
                return None
            left[core] -= width
        first[width] = core
    return left


def spread(layers: Sequence[ArrayGroups], cores: int, arrays: int) -> list[list[int]] | None:
    """Return the core of every group of every layer, copy after copy, so that cores start about as many
    reads.

    TOGETHER copies of a layer go to the core with the fewest reads so far that has room for them; fewer
    where none has, and a copy is parted only where it must be. Layers whose copies have the most reads come
    first (Graham 1969, doi:10.1137/0117039), or those with the largest copies where that leaves a group
    without a place. None if that does too.
    """
    by_reads = sorted(range(len(layers)), key=lambda at: -layers[at].reads)
    by_size = sorted(range(len(layers)), key=lambda at: -layers[at].blocks * layers[at].width)
    return _spread(layers, by_reads, cores, arrays) or _spread(layers, by_size, cores, arrays)


def _spread(
    layers: Sequence[ArrayGroups], order: Sequence[int], cores: int, arrays: int
) -> list[list[int]] | None:
    """Return the core of every group with layers placed in this order, None if they do not fit."""
    left, reads = np.full(cores, arrays), np.zeros(cores)
    laid: list[list[int]] = [[] for _ in layers]
    for at in order:
        layer, placed = layers[at], laid[at]
        while len(placed) < layer.number:
            room = int(left.max()) // layer.width
            count = min(room, layer.next_chunk(len(placed)))
            if count > layer.blocks:
                count -= count % layer.blocks
            if not count:
                return None
            core = int(np.where(left >= count * layer.width, reads, np.inf).argmin())
            placed += [core] * count
            left[core] -= count * layer.width
            reads[core] += count * layer.reads
    return laid
