"""Tiles of equal size filled first fit: a lower bound of the arrays that row blocks can use in any order."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

Site = tuple[int, int, int, int]
"""Tile of a chip: chip row, chip column, tile row, tile column."""
_MOST_SUMS = 2**16
"""Arrays of a tile up to which sums of widths are listed, a bit each; larger tiles get a weaker bound."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """`count` equal tiles of `arrays` arrays."""

    count: int
    arrays: int

    def certain(self, widths: Collection[int]) -> int:
        """Return a lower bound of the arrays in use when first fit fails, for groups of these widths.

        Take the moment when a group finds no place. The level of a tile is the largest free room of the tiles
        before it. First fit puts a group into the first tile with room, and room only shrinks, so all groups
        of a tile are wider than its level. The free room of a tile is `arrays` minus a sum of such widths,
        and smaller than the group without a place.
        """
        widest = max(widths)
        # A group without a place is wider than the room of every tile: each has less than `widest` arrays
        # free.
        if self.arrays > _MOST_SUMS:
            return max(0, self.count * (self.arrays - widest + 1))
        lefts = list[
            list[int]
        ]()  # free arrays below `widest` that groups above each level can leave in a tile
        for level in range(widest):
            sums = self._sums([width for width in widths if width > level])
            below = range(min(widest, self.arrays + 1))
            lefts.append([left for left in below if sums >> (self.arrays - left) & 1])
        # Free room of a tile that does not raise the level; any number of tiles may be such.
        staying = max(left for level in range(widest) for left in (0, *lefts[level]) if left <= level)
        # Free room beyond `staying` in all tiles that raise the level, from this level on: each level once.
        rising = [0] * widest
        for level in reversed(range(widest)):
            above = [max(0, left - staying) + rising[left] for left in lefts[level] if left > level]
            rising[level] = max(above, default=0)
        return max(0, self.count * (self.arrays - staying) - rising[0])

    def _sums(self, sizes: Collection[int]) -> int:
        """Return a bit set: bit n is 1 if some groups of these sizes take n arrays of a tile together."""
        sums, every = 1, 2 ** (self.arrays + 1) - 1
        for size in sizes:
            # Adding 1, 2, 4, ... groups of a size reaches every number of them in log2 steps.
            for shift in (size << power for power in range((self.arrays // size).bit_length())):
                sums |= sums << shift & every
        return sums
