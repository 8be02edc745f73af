"""Equal tiles of arrays, and how many arrays row blocks are sure to find in them, filled first fit."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

_MOST_SUMS = 2**16
"""Arrays of a tile up to which sums of widths are listed."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """`count` equal tiles of `arrays` arrays."""

    count: int
    arrays: int

    def certain(self, widths: Collection[int]) -> int:
        """Arrays that groups of these widths can always fill, first fit, in any order and number.

        Take the moment when a group finds no place, and call `level` of a tile the most that one of the tiles
        before it has left then. First fit puts a group into the first tile with room, and room only shrinks:
        all groups of a tile are wider than its level. What the tile has left is `arrays` less a sum of such
        widths, and less than the group without a place.
        """
        widest = max(widths)
        if self.arrays > _MOST_SUMS:
            return max(0, self.count * (self.arrays - widest + 1))
        lefts = [self._lefts([width for width in widths if width > level], widest) for level in range(widest)]
        staying = max(left for level in range(widest) for left in (0, *lefts[level]) if left <= level)
        rising = [0] * widest  # most that tiles which raise the level leave beyond that, from this level on
        for level in reversed(range(widest)):
            above = [max(0, left - staying) + rising[left] for left in lefts[level] if left > level]
            rising[level] = max(above, default=0)
        return max(0, self.count * (self.arrays - staying) - rising[0])

    def _lefts(self, widths: Collection[int], below: int) -> list[int]:
        """Return the free arrays that groups of these widths can leave in a tile, where below a limit."""
        sums = self._sums(widths)
        return [left for left in range(min(below, self.arrays + 1)) if sums >> (self.arrays - left) & 1]

    def _sums(self, sizes: Collection[int]) -> int:
        """Bit n: some groups of these sizes take n arrays of a tile."""
        sums, every = 1, 2 ** (self.arrays + 1) - 1
        for size in sizes:
            for shift in (size << power for power in range((self.arrays // size).bit_length())):
                sums |= sums << shift & every
        return sums
