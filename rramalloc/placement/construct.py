"""The constructive placement: tiles filled layer after layer, along a curve over the mesh.

A copy is one piece if it fits a tile, else pieces that fill whole tiles and one for what is left. A piece
goes to the latest tile with room for it, or opens the next tile; where copies may straddle and no tile is
left, pieces are cut to fill what room there is. Pieces that would not fit in this order get a packing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from rramalloc.mapping.tiles import Tiles
from rramalloc.placement.mesh import Ints
from rramalloc.placement.placement import MAX_PLACED

_LOOK_BACK = 64


class Pieces(NamedTuple):
    """`copies` equal pieces of a stage, of `arrays` arrays each."""

    stage: int
    arrays: int
    copies: int


@dataclass(frozen=True, eq=False)
class Filled:
    """Pieces in tiles, one row per piece: stage, arrays, and the number of its tile along the curve."""

    stage: Ints
    arrays: Ints
    tile: Ints
    tiles: int

    @classmethod
    def of(cls, tiles: Iterable[Iterable[Pieces]]) -> Filled:
        """From the content of each tile, in order."""
        rows = [
            (pieces.stage, pieces.arrays, number, pieces.copies)
            for number, content in enumerate(tiles)
            for pieces in content
        ]
        table = np.array(rows, dtype=np.int64).reshape(-1, 4)
        stage, arrays, tile = table[:, :3].repeat(table[:, 3], axis=0).T
        return cls(stage.copy(), arrays.copy(), tile.copy(), int(tile.max(initial=-1)) + 1)


@dataclass(frozen=True, slots=True)
class Misfit:
    """The copies do not fit; proven: rather than no way was found."""

    proven: bool


def construct(demand: Ints, replication: Ints, tiles: Tiles, *, straddle: bool) -> Filled | Misfit:
    """Copies of every stage in tiles, along a curve.

    demand, replication: int64, in canonical order; tiles: of all chips, `count` of them, each with `arrays`.
    """
    too_many = int((demand * replication).sum()) > tiles.count * tiles.arrays
    if too_many or (not straddle and (demand > tiles.arrays).any()):
        return Misfit(proven=True)
    pieces = _pieces(demand, replication, tiles.arrays)
    filling = _Filling(Tiles(min(tiles.count, MAX_PLACED), tiles.arrays))
    for each in pieces:
        filling.add(each, cut=False)
    if not filling.left:
        return Filled.of(filling.contents)
    whole = [each for each in pieces if each.arrays == tiles.arrays]
    packed, proven = _packed(whole, [each for each in pieces if each.arrays < tiles.arrays], tiles)
    if packed is not None:
        return Filled.of(packed)
    if not straddle:
        return Misfit(proven)
    for each in filling.left:
        filling.add(each, cut=True)
    return Filled.of(filling.contents)


def _pieces(demand: Ints, replication: Ints, most: int) -> list[Pieces]:
    """The pieces of all stages in canonical order, of a stage those that do not fill a tile first."""
    found = []
    for stage, (arrays, copies) in enumerate(zip(demand.tolist(), replication.tolist(), strict=True)):
        whole, rest = divmod(arrays, most)
        found += [Pieces(stage, rest, copies)] if rest else []
        found += [Pieces(stage, most, whole * copies)] if whole else []
    return found


@dataclass(eq=False)
class _Filling:
    """Tiles that are filled one after the other. left: pieces for which no tile had room."""

    tiles: Tiles
    contents: list[list[Pieces]] = field(default_factory=list)
    room: list[int] = field(default_factory=list)
    open: list[int] = field(default_factory=list)
    left: list[Pieces] = field(default_factory=list)

    def add(self, pieces: Pieces, *, cut: bool) -> None:
        """Place pieces one after the other; those without room are left, or cut."""
        stage, arrays, count = pieces
        count = self._to_open(stage, arrays, count, _LOOK_BACK)
        while count and len(self.contents) < self.tiles.count:
            here = min(count, self.tiles.arrays // arrays)
            self.contents.append([])
            self.room.append(self.tiles.arrays)
            self.open.append(len(self.contents) - 1)
            self._put(self.open[-1], Pieces(stage, arrays, here))
            count -= here
        count = self._to_open(stage, arrays, count, len(self.open))
        if not count:
            return
        if not cut:
            self.left.append(Pieces(stage, arrays, count))
            return
        for _ in range(count):
            rest = arrays
            while rest:
                tile = self.open[-1]
                part = min(rest, self.room[tile])
                self._put(tile, Pieces(stage, part, 1))
                rest -= part

    def _to_open(self, stage: int, arrays: int, count: int, most: int) -> int:
        """Fill room in the latest `most` open tiles; pieces that remain."""
        for tile in self.open[: -most - 1 : -1] if count else ():
            here = min(count, self.room[tile] // arrays)
            if here:
                self._put(tile, Pieces(stage, arrays, here))
                count -= here
        return count

    def _put(self, tile: int, pieces: Pieces) -> None:
        self.contents[tile].append(pieces)
        self.room[tile] -= pieces.arrays * pieces.copies
        if not self.room[tile]:
            self.open.remove(tile)


def _packed(
    whole: list[Pieces], smaller: list[Pieces], tiles: Tiles
) -> tuple[list[list[Pieces]] | None, bool]:
    """A packing in the order of the stages in it, None if there is none; whether that is proven."""
    spare = Tiles(tiles.count - sum(each.copies for each in whole), tiles.arrays)
    if spare.count < 1 or not smaller:
        return None, True
    arrays = np.array([each.arrays for each in smaller], dtype=np.int64)
    packing = spare.pack(arrays, np.array([each.copies for each in smaller], dtype=np.int64))
    if packing.fit != "fits":
        return None, packing.fit == "does not fit"
    contents = [[Pieces(each.stage, each.arrays, 1)] for each in whole for _ in range(each.copies)]
    for filling in packing.fillings:
        held = [Pieces(smaller[at].stage, smaller[at].arrays, copies) for at, copies in filling.copies]
        contents += [held] * filling.tiles
    return sorted(contents, key=_middle), True


def _middle(content: list[Pieces]) -> tuple[float, list[Pieces]]:
    """Mean stage of the arrays in a tile."""
    arrays = [each.arrays * each.copies for each in content]
    mean = sum(each.stage * n for each, n in zip(content, arrays, strict=True)) / sum(arrays)
    return mean, content
