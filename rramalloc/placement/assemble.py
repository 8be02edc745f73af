"""From copies in tiles to physical arrays and the blocks they hold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rramalloc.placement.blocks import Block
from rramalloc.placement.improve import Layout
from rramalloc.placement.mesh import Ints
from rramalloc.placement.placement import PlacedArray

Run = tuple[int, int]
"""(piece, arrays of it) of one copy."""


def assembled(
    layout: Layout, demand: Ints, names: Sequence[str], blocks: Sequence[Sequence[Block]]
) -> tuple[PlacedArray, ...]:
    """One record per array in use, by chip, tile and index; blocks: of one copy of every stage.

    Copies are numbered in the order of their tiles; a copy's blocks fill its pieces one after the other, and
    the arrays of a tile are filled stage after stage, copy after copy.
    """
    found = []
    order = _tile_order(layout)
    used = dict.fromkeys(range(len(layout.sites)), 0)
    members = _members(layout, order)
    for stage, pieces in enumerate(members):
        for replica, runs in enumerate(_copies(layout, pieces, int(demand[stage]))):
            at = 0
            for piece, arrays in runs:
                site = int(layout.site[piece])
                place = layout.sites[site].tolist()
                for block in blocks[stage][at : at + arrays]:
                    found.append(
                        PlacedArray(
                            chip=(place[0], place[1]), tile=(place[2], place[3]), index=used[site],
                            layer=names[stage], replica=replica, row_block=block.row_block,
                            column_block=block.column_block, rows=block.rows, columns=block.columns,
                        )
                    )  # fmt: skip
                    used[site] += 1
                at += arrays
    return tuple(sorted(found, key=lambda array: (array.chip, array.tile, array.index)))


def _tile_order(layout: Layout) -> Ints:
    """Rank of every site by chip and tile."""
    rank = np.empty(len(layout.sites), dtype=np.int64)
    rank[np.lexsort(layout.sites.T[::-1])] = np.arange(len(layout.sites))
    return rank


def _members(layout: Layout, order: Ints) -> list[list[int]]:
    """Pieces of every stage in the order of their tiles, the largest of a tile first."""
    members: list[list[int]] = [[] for _ in range(layout.stages)]
    for piece in np.lexsort((-layout.arrays, order[layout.site], layout.stage)).tolist():
        members[int(layout.stage[piece])].append(piece)
    return members


def _copies(layout: Layout, pieces: list[int], demand: int) -> list[list[Run]]:
    """The pieces of each copy: whole pieces stay whole where all are, else arrays are dealt in order."""
    sizes = {piece: int(layout.arrays[piece]) for piece in pieces}
    most = max(sizes.values())
    whole = [piece for piece in pieces if sizes[piece] == most]
    rest = [piece for piece in pieces if sizes[piece] != most]
    copies = sum(sizes.values()) // demand
    each, left = divmod(demand, most)
    alike = len(rest) == (copies if left else 0) and all(sizes[piece] == left for piece in rest)
    if len(whole) == copies * each and alike:
        return [
            [(piece, sizes[piece]) for piece in (*whole[k * each : (k + 1) * each], *rest[k : k + 1])]
            for k in range(copies)
        ]
    entire = [[(piece, demand)] for piece in pieces if sizes[piece] == demand]
    return entire + _dealt([(piece, sizes[piece]) for piece in pieces if sizes[piece] != demand], demand)


def _dealt(runs: list[Run], demand: int) -> list[list[Run]]:
    copies: list[list[Run]] = []
    short = 0
    for piece, arrays in runs:
        left = arrays
        while left:
            if not short:
                copies.append([])
                short = demand
            here = min(left, short)
            copies[-1].append((piece, here))
            left, short = left - here, short - here
    return copies
