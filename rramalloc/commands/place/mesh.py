"""Tiles and chips as meshes: where tiles are, how far apart, and curves that visit neighbours in turn.

A value goes along the row of its tile first, then along the column (XY routing). Between chips it goes to
tile (0, 0) of its chip, through the mesh of chips (XY too) to tile (0, 0) of the other, and on from there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rramalloc.errors import SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.tables import Chip, mesh_of
from rramalloc.ndarrays import Ints

_WHOLE = 4096  # tiles of a mesh up to which curves go over all of it, however few are needed


def chip_of(hardware: Hardware) -> Chip:
    """Return the chips of a hardware. Raises SpecError if it describes none."""
    if hardware.chip is None:
        raise SpecError(
            f"hardware {hardware.name[:60]!r}",
            "has no [chip]: to place arrays, give arrays_per_tile, tiles and chips there, or use a preset "
            "that has them (`rramalloc presets`)",
        )
    return hardware.chip


@dataclass(frozen=True, slots=True)
class Mesh:
    """Meshes of sites, of which the last ones are empty where there are fewer tiles or chips than sites.

    tiles: (rows, columns) of a chip; chips: likewise; chip_hop: tile hops a hop between chips costs;
    tiles_of_chip, chip_count: that there are.
    """

    tiles: tuple[int, int]
    chips: tuple[int, int]
    chip_hop: float
    tiles_of_chip: int
    chip_count: int

    @classmethod
    def of(cls, chip: Chip) -> Mesh:
        """Return the meshes of a hardware. A hop between chips costs 1 where the two times are not both
        given."""
        known = chip.hop_ns_chip and chip.hop_ns_tile
        ratio = chip.hop_ns_chip / chip.hop_ns_tile if known else 1.0  # type: ignore[operator]
        meshes = mesh_of(chip.tiles), mesh_of(chip.chips)
        return cls(*meshes, ratio, chip.tiles_per_chip, chip.chip_count)

    @property
    def count(self) -> int:
        """Tiles of all chips."""
        return self.tiles_of_chip * self.chip_count

    def curves(self, needed: int) -> Iterator[Ints]:
        """Yield orders of at least `needed` tiles, shape (k, 4), in which neighbours follow each other.

        Chip after chip, the chips in a snake. Within a chip: snakes and a space-filling curve over the whole
        mesh unless it is much too large, and over near-square parts of it that are large enough.
        """
        inside = min(needed, self.tiles_of_chip)
        parts = {_square(inside, self.tiles), _square(inside, self.tiles, tall=False)}
        if self.tiles_of_chip <= max(_WHOLE, 4 * inside):
            parts.add(self.tiles)
        chips = _square(-(-needed // self.tiles_of_chip), self.chips)
        if math.prod(chips) > self.chip_count:  # a part with empty sites
            chips = self.chips
        for high, wide in sorted(parts):
            for walk in (_snake(high, wide), _snake(wide, high)[:, ::-1], _filling(high, wide)):
                there = walk[walk[:, 0] * self.tiles[1] + walk[:, 1] < self.tiles_of_chip]
                if len(there) >= inside:
                    yield self._chip_by_chip(there, chips, needed)

    def _chip_by_chip(self, walk: Ints, chips: tuple[int, int], needed: int) -> Ints:
        every = _snake(*chips)
        there = every[every[:, 0] * self.chips[1] + every[:, 1] < self.chip_count]
        visited = there[: -(-needed // len(walk))]
        return np.hstack([visited.repeat(len(walk), axis=0), np.tile(walk, (len(visited), 1))])

    def all_sites(self) -> Ints:
        """Return every tile of every chip, shape (count, 4)."""
        chips, tiles = (
            np.stack(np.divmod(np.arange(count, dtype=np.int64), mesh[1]), axis=1)
            for count, mesh in ((self.chip_count, self.chips), (self.tiles_of_chip, self.tiles))
        )
        return np.hstack([chips.repeat(len(tiles), axis=0), np.tile(tiles, (len(chips), 1))])


class Hops(NamedTuple):
    """Sums over pairs of places. inside, between: hops in and between chips; moving: pairs that differ."""

    inside: int
    between: int
    moving: int

    def mean(self, inside: float, between: float, transfers: int = 1) -> float:
        """Return what hops of transfers take by what a hop takes, on average over the pairs that differ."""
        return transfers * (self.inside * inside + self.between * between) / max(self.moving, 1)


def hops_apart(one: Ints, other: Ints) -> tuple[Ints, Ints]:
    """Return the hops within chips and between chips from sites to others; shapes (..., 4) that broadcast to
    (...)."""
    gap = np.abs(one - other)
    between = gap[..., 0] + gap[..., 1]
    by_gates = one[..., 2] + one[..., 3] + other[..., 2] + other[..., 3]
    return np.where(between == 0, gap[..., 2] + gap[..., 3], by_gates), between


def _square(needed: int, extent: tuple[int, int], *, tall: bool = True) -> tuple[int, int]:
    """Return the rows and columns of a near-square part of a mesh with room for `needed`, taller or wider."""
    side = max(1, math.isqrt(needed - 1) + 1)
    if tall:
        wide = min(extent[1], max(-(-needed // side), -(-needed // extent[0])))
        return -(-needed // wide), wide
    high = min(extent[0], max(-(-needed // side), -(-needed // extent[1])))
    return high, -(-needed // high)


def _snake(rows: int, columns: int) -> Ints:
    """Return a mesh row by row, every second one backwards; shape (rows * columns, 2)."""
    row, column = np.divmod(np.arange(rows * columns, dtype=np.int64), columns)
    return np.stack([row, np.where(row % 2, columns - 1 - column, column)], axis=1)


def _filling(rows: int, columns: int) -> Ints:
    """Return a space-filling curve over any rectangle: halves of the longer side, each visited in turn.

    Source: the generalised Hilbert curve; every step but few leads to a neighbour.
    """
    order, sides = list[complex](), (complex(columns), complex(0, rows))  # columns are real, rows imaginary
    pending = [(0j, *(sides if columns >= rows else sides[::-1]))]
    while pending:
        at, along, across = pending.pop()
        length, width = int(abs(along)), int(abs(across))
        ahead, aside = along / length, across / width
        if width == 1 or length == 1:
            order += [at + (ahead if width == 1 else aside) * step for step in range(length * width)]
            continue
        half, part = length // 2, width // 2
        if 2 * length > 3 * width:
            half += half % 2 if length > 2 else 0
            pending.append((at + half * ahead, (length - half) * ahead, across))
            pending.append((at, half * ahead, across))
            continue
        part += part % 2 if width > 2 else 0
        end = at + (length - 1) * ahead + (part - 1) * aside
        pending.append((end, -part * aside, (half - length) * ahead))
        pending.append((at + part * aside, along, (width - part) * aside))
        pending.append((at, part * aside, half * ahead))
    return np.array([(place.imag, place.real) for place in order], dtype=np.int64)
