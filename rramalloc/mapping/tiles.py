"""Whether the copies of all stages fit the tiles of a chip when no copy may straddle tiles, and how.

A copy is a group of `demand` arrays in one tile: bin packing with few sizes and many groups of each. The
answer is a packing, a proof that there is none, or (rarely, see `Tiles.pack`) neither.
A budget of arrays limits what is used, not which tiles: an allocation is feasible if
sum of copies * demand <= budget and its groups fit the tiles that the chip has.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rramalloc.hardware.hardware import Chip
from rramalloc.mapping.packing_kernel import cannot_fit, packing_scratch
from rramalloc.mapping.patterns import Fit, Instance, Ints, Patterns

_MOST_SUMS = 2**16


@dataclass(frozen=True, slots=True)
class Filling:
    """`tiles` tiles that all hold the same: (stage, copies of it in each of these tiles)."""

    tiles: int
    copies: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Packing:
    """fillings: of the tiles in use, empty unless it fits; proof: what shows the answer, in words."""

    fit: Fit
    fillings: tuple[Filling, ...]
    proof: str

    @property
    def tiles(self) -> int:
        """Tiles in use."""
        return sum(filling.tiles for filling in self.fillings)


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """Stages of equal demand. sizes: int64, the demands, falling; kind: int64, class of each stage."""

    sizes: Ints
    kind: Ints

    @classmethod
    def of(cls, demand: Ints) -> Classes:
        """The classes of stages with these demands."""
        sizes, kind = np.unique(-np.asarray(demand, dtype=np.int64), return_inverse=True)
        return cls(-sizes, kind.astype(np.int64))

    def counts(self, replication: Ints) -> Ints:
        """Groups of each size."""
        counts = np.zeros(len(self.sizes), dtype=np.int64)
        np.add.at(counts, self.kind, replication)
        return counts

    def scratch(self) -> Ints:
        """Working memory of the compiled tests."""
        memory: Ints = packing_scratch(self.sizes)
        return memory


@dataclass(frozen=True, slots=True)
class Tiles:
    """`count` equal tiles of `arrays` arrays; a group of arrays lies in one of them."""

    count: int
    arrays: int

    @classmethod
    def of(cls, chip: Chip) -> Tiles:
        """Tiles of all chips together; where copies may straddle, all arrays are one tile."""
        if chip.straddle:
            return cls(1, chip.arrays)
        return cls(chip.tile_count, chip.arrays_per_tile)

    def too_large(self, demand: Ints) -> tuple[int, ...]:
        """Stages of which not even one copy fits a tile, in the order given."""
        return tuple(int(stage) for stage in np.flatnonzero(np.asarray(demand) > self.arrays))

    def usable(self, demand: Ints) -> int:
        """Arrays that groups of these demands fill at most: no allocation that fits uses more."""
        if self.arrays > _MOST_SUMS:
            unit = math.gcd(*np.asarray(demand).tolist())
            return self.count * (self.arrays // unit * unit)
        sums = self._sums({int(each) for each in demand})
        return self.count * (sums.bit_length() - 1)

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
        """What groups of these widths can leave of a tile, if it is below a limit."""
        sums = self._sums(widths)
        return [left for left in range(min(below, self.arrays + 1)) if sums >> (self.arrays - left) & 1]

    def _sums(self, sizes: Collection[int]) -> int:
        """Bit n: some groups of these sizes take n arrays of a tile."""
        sums, every = 1, 2 ** (self.arrays + 1) - 1
        for size in sizes:
            for shift in (size << power for power in range((self.arrays // size).bit_length())):
                sums |= sums << shift & every
        return sums

    def pack(self, demand: Ints, replication: Ints) -> Packing:
        """A packing of `replication` copies of every stage, or a proof that there is none.

        Best fit and fullest tiles first, then bounds, then an integer program (arc flow). Only where none
        of them decides, because the program is too large or too hard, the answer is "unknown": that takes
        tiles of thousands of arrays, dozens of different demands and almost no slack.
        demand, replication: int64, one per stage, at least 1.
        "fits" survived `faults`; a refutation is exact integer arithmetic except where its proof names HiGHS.
        """
        classes, copies = Classes.of(demand), np.asarray(replication, dtype=np.int64)
        if cannot_fit(classes.sizes, classes.kind, copies, self.count, self.arrays, classes.scratch()):
            return Packing("does not fit", (), "a lower bound on the tiles needed exceeds those there are")
        unit = math.gcd(*classes.sizes.tolist())
        instance = Instance(classes.sizes // unit, classes.counts(copies), self.count, self.arrays // unit)
        fit, patterns, proof = instance.decide()
        packing = Packing(fit, tuple(_assigned(patterns, classes, copies)), proof)
        if fit == "fits" and faults(packing.fillings, demand, copies, self):
            return Packing("unknown", (), "the integer program rounds to no packing")
        return packing


def faults(fillings: Sequence[Filling], demand: Ints, replication: Ints, tiles: Tiles) -> tuple[str, ...]:
    """What is wrong with a packing, nothing if it holds; it relies on nothing that made it."""
    found = []
    placed = dict.fromkeys(range(len(demand)), 0)
    for filling in fillings:
        held = 0
        for stage, copies in filling.copies:
            if filling.tiles < 1 or copies < 1 or stage not in placed:
                found.append(f"{filling.tiles} tiles hold {copies} copies of stage {stage}")
                continue
            placed[stage] += filling.tiles * copies
            held += copies * int(demand[stage])
        if held > tiles.arrays:
            found.append(f"a tile holds {held} arrays, it has {tiles.arrays}")
    for stage, copies in placed.items():
        if copies != int(replication[stage]):
            found.append(f"stage {stage}: {copies} copies placed of {int(replication[stage])}")
    used = sum(filling.tiles for filling in fillings)
    if used > tiles.count:
        found.append(f"{used} tiles are used, there are {tiles.count}")
    return tuple(found)


def _assigned(patterns: Patterns, classes: Classes, copies: Ints) -> Iterator[Filling]:
    """Give the groups of each size to its stages, one stage after the other."""
    left = copies.tolist()
    for tiles, pattern in patterns:
        while tiles > 0:
            held: dict[int, int] = {}
            for stage, j in enumerate(classes.kind.tolist()):
                room = pattern[j] - sum(held[other] for other in held if classes.kind[other] == j)
                if min(room, left[stage]) > 0:
                    held[stage] = min(room, left[stage])
            if not held:
                break
            alike = min(tiles, *(left[stage] // each for stage, each in held.items()))
            for stage, each in held.items():
                left[stage] -= alike * each
            tiles -= alike
            yield Filling(alike, tuple(held.items()))
