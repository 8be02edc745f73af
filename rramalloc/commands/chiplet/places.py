"""Places: the submeshes for an operator, and the hops between any two of them by XY routing.

The units of all chiplets form one mesh. A step from a unit to its neighbour is a hop between chiplets if it
crosses an edge of a chiplet, else a hop inside one; the way is the shortest, first along the row.
Source: docs/sources/companions.md 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.commands.chiplet.description import ChipletChip, ChipletOperator, ChipUnit, UnitPlace
from rramalloc.commands.place.mesh import Hops
from rramalloc.errors import SpecError
from rramalloc.ndarrays import Bools, Floats, Ints

MOST_UNITS = 4096
"""Units at most of a chip whose places are listed: each place takes a bit for each unit."""
MOST_PLACES = 2400
"""Listed at most: the hops between any two of them take 8 bytes each."""


@dataclass(frozen=True, eq=False)
class UnitSet:
    """A set of units of a chip; counts that hops are computed from are made once."""

    chip: ChipletChip
    members: frozenset[ChipUnit]

    @cached_property
    def last(self) -> UnitSet:
        """Only the unit with the largest coordinates."""
        return UnitSet(self.chip, frozenset([max(self.members)]))

    @cached_property
    def lines(self) -> LineCounts:
        """Number of units on every line."""
        chip = self.chip
        units = np.array(sorted(self.members), dtype=np.int64).reshape(-1, 4)
        in_mesh = units[:, :2] * chip.units + units[:, 2:]
        extents = (*np.multiply(chip.chiplets, chip.units), *chip.chiplets)
        return tuple(
            np.bincount(line, minlength=extent)[None].astype(np.float64)
            for line, extent in zip((*in_mesh.T, *units[:, :2].T), extents, strict=True)
        )


LineCounts = tuple[Floats, ...]
"""Units on rows and columns of the mesh of all units, then of the mesh of chiplets: shape (sets, lines)."""


def hops_of_pairs(chip: ChipletChip, pairs: Iterable[tuple[ChipUnit, ChipUnit]]) -> Hops:
    """Return the hops of pairs listed one by one."""
    inside = between = moving = 0
    for start, end in pairs:
        crossed = sum(abs(start[0][axis] - end[0][axis]) for axis in (0, 1))
        steps = sum(abs(chip.along(start, axis) - chip.along(end, axis)) for axis in (0, 1))
        inside = inside + steps - crossed
        between = between + crossed
        moving = moving + (start != end)
    return Hops(inside, between, moving)


def hops_of_sets(sources: UnitSet, destinations: UnitSet) -> Hops:
    """Return the hops of all pairs of a source and a destination, without listing them."""
    inside, between = (int(hops[0, 0]) for hops in _hops_of_lines(sources.lines, destinations.lines))
    still = len(sources.members & destinations.members)
    return Hops(inside, between, len(sources.members) * len(destinations.members) - still)


def _hops_of_lines(here: LineCounts, there: LineCounts) -> tuple[Floats, Floats]:
    """Return the hops inside and between chiplets, summed over all pairs of units, for every two sets."""
    rows, columns, chiplet_rows, chiplet_columns = map(_apart, here, there)
    between = chiplet_rows + chiplet_columns
    return rows + columns - between, between


def _apart(here: Floats, there: Floats) -> Floats:
    """Return the sum of |a - b| over all pairs: each cut between lines counts for the pairs on its two sides.

    here, there: shapes (k, lines) and (l, lines); the result has shape (k, l).
    """
    before, after = (np.cumsum(counts, axis=1) for counts in (here, there))
    apart: Floats = before @ (after[:, -1:] - after).T + (before[:, -1:] - before) @ after.T
    return apart


class Submesh(NamedTuple):
    """Chiplets in full and the units of the last of them, from `first` on."""

    chiplets: UnitPlace
    units: UnitPlace
    first: ChipUnit

    @classmethod
    def of(cls, operator: ChipletOperator) -> Submesh | None:
        """Return the submesh on which an operator is described, None if it has no place yet."""
        if operator.submesh is None or operator.first is None:
            return None
        return cls(*operator.submesh, operator.first)

    def size(self, chip: ChipletChip) -> int:
        """Return the number of units."""
        several = self.chiplets[0] * self.chiplets[1] - 1
        return several * chip.units[0] * chip.units[1] + self.units[0] * self.units[1]

    @property
    def last(self) -> ChipUnit:
        """The unit with the largest coordinates."""
        (top, left), (row, column) = self.first
        (tall, wide), (rows, columns) = self.chiplets, self.units
        return ((top + tall - 1, left + wide - 1), (row + rows - 1, column + columns - 1))

    def members(self, chip: ChipletChip) -> UnitSet:
        """Return all units: of the chiplet with the largest coordinates only those of the submesh."""
        last = self.last[0]
        members = [(last, unit) for unit in _cells(self.first[1], self.units)]
        for chiplet in _cells(self.first[0], self.chiplets):
            if chiplet != last:
                members += [(chiplet, unit) for unit in _cells((0, 0), chip.units)]
        return UnitSet(chip, frozenset(members))


def _cells(first: UnitPlace, size: UnitPlace) -> Iterator[UnitPlace]:
    """Return the cells of a rectangle of rows and columns."""
    return product(range(first[0], first[0] + size[0]), range(first[1], first[1] + size[1]))


def submeshes(chip: ChipletChip, count: int) -> list[Submesh]:
    """Return every submesh of `count` units: shapes first, then places of the first unit in raster order.

    The number of chiplets follows from the count, as all but the last are in full; a submesh of several
    begins at unit (0, 0) of its first chiplet.
    """
    per_chiplet = chip.units[0] * chip.units[1]
    several = -(-count // per_chiplet)
    return [
        Submesh(chiplets, units, (corner, start))
        for chiplets in _rectangles(several, chip.chiplets)
        for units in _rectangles(count - (several - 1) * per_chiplet, chip.units)
        for corner in _positions(chiplets, chip.chiplets)
        for start in ([(0, 0)] if several > 1 else _positions(units, chip.units))
    ]


def _rectangles(count: int, within: UnitPlace) -> list[UnitPlace]:
    """Return (rows, columns) of that many cells that fit, the squarest first."""
    shapes = [(rows, count // rows) for rows in range(1, within[0] + 1) if count % rows == 0]
    return sorted((s for s in shapes if s[1] <= within[1]), key=lambda s: (abs(s[0] - s[1]), s))


def _positions(size: UnitPlace, within: UnitPlace) -> Iterator[UnitPlace]:
    return _cells((0, 0), (within[0] - size[0] + 1, within[1] - size[1] + 1))


@dataclass(frozen=True, eq=False)
class ChipletPlaces:
    """Submeshes of a chip with the hops between them; behind them is nowhere, which has no units and no hops.

    left_out: submeshes of the sizes wanted that are not listed, as there are more than MOST_PLACES.
    """

    chip: ChipletChip
    submeshes: tuple[Submesh, ...]
    left_out: int

    @classmethod
    def of(cls, chip: ChipletChip, counts: Iterable[int], needed: Iterable[Submesh]) -> ChipletPlaces:
        """Return all places of some numbers of units, and those needed in any case. Raises SpecError."""
        if chip.count > MOST_UNITS:
            raise SpecError("chip", f"has {chip.count} units, schedules are sought for up to {MOST_UNITS}")
        kept = dict.fromkeys(needed)
        by_count = [submeshes(chip, count) for count in sorted(set(counts)) if count <= chip.count]
        room = MOST_PLACES - len(kept)
        left_out = 0
        for number, some in enumerate(sorted(by_count, key=len)):
            share = max(1, room // (len(by_count) - number))
            chosen = some if len(some) <= share else _spread(some, share)
            room -= len(chosen)
            left_out += len(some) - len(chosen)
            kept |= dict.fromkeys(chosen)
        return cls(chip, tuple(kept), left_out)

    @cached_property
    def index(self) -> dict[Submesh | None, int]:
        """Number of each place; None stands for no place."""
        return {submesh: number for number, submesh in enumerate((*self.submeshes, None))}

    @cached_property
    def members(self) -> npt.NDArray[np.float32]:
        """1 for the units of every place, shape (places, units)."""
        cells = np.zeros((len(self.index), *self.chip.chiplets, *self.chip.units), dtype=np.float32)
        for cell, ((tall, wide), (rows, columns), ((top, left), (row, column))) in zip(
            cells, self.submeshes, strict=False
        ):
            cell[top : top + tall, left : left + wide] = 1
            cell[top + tall - 1, left + wide - 1] = 0
            cell[top + tall - 1, left + wide - 1, row : row + rows, column : column + columns] = 1
        return cells.reshape(len(cells), -1)

    @cached_property
    def sizes(self) -> Ints:
        """Units of every place."""
        sizes: Ints = self.members.sum(axis=1).astype(np.int64)
        return sizes

    @cached_property
    def one_chiplet(self) -> Bools:
        """Whether a place is in a single chiplet, as nowhere is."""
        return np.array([submesh is None or submesh.chiplets == (1, 1) for submesh in self.index])

    @cached_property
    def _hops(self) -> tuple[Floats, Bools]:
        """Hops from all units of every place, and behind these from its last unit alone, to every place.

        The mean cycles that they take in a transfer, and whether all stays in one chiplet.
        """
        behind = np.cumsum(self.members[:, ::-1], axis=1)[:, ::-1]
        last = self.members * (behind == 1)  # units are numbered by chiplet, so the largest is last
        sources = np.concatenate([self.members, last])
        inside, between = _hops_of_lines(self._lines(sources), self._lines(self.members))
        pairs = np.outer(sources.sum(axis=1), self.members.sum(axis=1)) - sources @ self.members.T
        of_inside, of_between = self.chip.hop_cycles
        moving = np.maximum(pairs, 1).astype(np.float64)
        return (inside * of_inside + between * of_between) / moving, between == 0

    @property
    def cycles(self) -> Floats:
        """Mean cycles of hops of a transfer: from places, then from their last units (rows), to places."""
        return self._hops[0]

    @property
    def within(self) -> Bools:
        """Whether all stays in one chiplet, of the same shape as `cycles`."""
        return self._hops[1]

    def _lines(self, sources: npt.NDArray[np.float32]) -> LineCounts:
        cells = sources.reshape(-1, *self.chip.chiplets, *self.chip.units).astype(np.float64)
        sums = ((2, 4), (1, 3), (2, 3, 4), (1, 3, 4))
        return tuple(cells.sum(axes).reshape(len(cells), -1) for axes in sums)


def _spread(some: Sequence[Submesh], count: int) -> list[Submesh]:
    """Return submeshes evenly spread over the list, half of them of the first, squarest shape."""
    first = [submesh for submesh in some if submesh[:2] == some[0][:2]]
    rest = some[len(first) :]
    most = min(len(first), max(count // 2, count - len(rest)))
    left = count - most
    return [first[place * len(first) // most] for place in range(most)] + [
        rest[place * len(rest) // left] for place in range(left)
    ]
