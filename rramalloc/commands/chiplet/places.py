"""Places: every submesh on which an operator may run, and the hops between any two of them by XY routing.

The units of all chiplets form one mesh. A step from a unit to its neighbour is a hop between chiplets if it
crosses an edge of a chiplet, else a hop inside one; the way is the shortest, first along the row.
Source: docs/sources/companions.md 2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.commands.chiplet.description import ChipletChip, ChipletOperator
from rramalloc.errors import SpecError

Place = tuple[int, int]
Unit = tuple[Place, Place]
"""((chiplet row, chiplet column), (row, column)), all from 0."""


class Topology(NamedTuple):
    """chiplets: rows and columns of them; units: rows and columns of units in each."""

    chiplets: Place
    units: Place

    def holds(self, unit: Unit) -> bool:
        """Return True if there is such a unit."""
        return all(
            0 <= at < extent
            for place, extents in zip(unit, self, strict=True)
            for at, extent in zip(place, extents, strict=True)
        )

    def along(self, unit: Unit, axis: int) -> int:
        """Return the row (0) or column (1) of a unit in the mesh of all units."""
        return unit[0][axis] * self.units[axis] + unit[1][axis]


class Hops(NamedTuple):
    """Sums over pairs of units. inside, between: hops in and between chiplets; moving: pairs that differ."""

    inside: int
    between: int
    moving: int

    def cycles(self, transfers: int, inside: float, between: float) -> float:
        """Return h1 * r1 + h2 * r2, h = transfers * hops / pairs that move; 0 if none does."""
        if not self.moving:
            return 0.0
        return transfers * (self.inside * inside + self.between * between) / self.moving


@dataclass(frozen=True)
class Units:
    """A set of units of a topology, with what hops need of it counted once."""

    topology: Topology
    members: frozenset[Unit]

    @cached_property
    def last(self) -> Units:
        """Only the unit with the largest coordinates."""
        return Units(self.topology, frozenset([max(self.members)]))

    @cached_property
    def counts(self) -> tuple[tuple[Mapping[int, int], Mapping[int, int]], ...]:
        """For rows and columns: units by place in the mesh of all units, and by chiplet."""
        return tuple(
            (
                Counter(self.topology.along(unit, axis) for unit in self.members),
                Counter(unit[0][axis] for unit in self.members),
            )
            for axis in (0, 1)
        )


def hops_of_pairs(topology: Topology, pairs: Iterable[tuple[Unit, Unit]]) -> Hops:
    """Return the hops of pairs listed one by one."""
    inside = between = moving = 0
    for start, end in pairs:
        crossed = sum(abs(start[0][axis] - end[0][axis]) for axis in (0, 1))
        steps = sum(abs(topology.along(start, axis) - topology.along(end, axis)) for axis in (0, 1))
        inside, between, moving = inside + steps - crossed, between + crossed, moving + (start != end)
    return Hops(inside, between, moving)


def hops_of_sets(sources: Units, destinations: Units) -> Hops:
    """Return the hops of all pairs of a source and a destination, without listing them."""
    steps = crossed = 0
    for (here, here_chiplet), (there, there_chiplet) in zip(sources.counts, destinations.counts, strict=True):
        steps += _distances(here, there)
        crossed += _distances(here_chiplet, there_chiplet)
    still = len(sources.members & destinations.members)
    return Hops(steps - crossed, crossed, len(sources.members) * len(destinations.members) - still)


def _distances(here: Mapping[int, int], there: Mapping[int, int]) -> int:
    """Sum of |a - b| over all pairs: each gap between places counts for the pairs on its two sides."""
    places = sorted({*here, *there})
    all_here, all_there = sum(here.values()), sum(there.values())
    before_here = before_there = total = 0
    for place, following in pairwise(places):
        before_here += here.get(place, 0)
        before_there += there.get(place, 0)
        apart = before_here * (all_there - before_there) + before_there * (all_here - before_here)
        total += apart * (following - place)
    return total


MOST_UNITS = 4096
"""Units at most of a chip whose places are listed: each place takes a bit for each unit."""
MOST_PLACES = 2400
"""Listed at most: the hops between any two of them take 8 bytes each."""
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Submesh(NamedTuple):
    """Chiplets in full and the units of the last of them, from `first` on."""

    chiplets: Place
    units: Place
    first: Unit

    @classmethod
    def of(cls, operator: ChipletOperator) -> Submesh | None:
        """Return the submesh on which an operator is described, None if it has no place yet."""
        if operator.submesh is None or operator.first is None:
            return None
        return cls(*operator.submesh, operator.first)

    def size(self, units: Place) -> int:
        """Return the number of units; units: rows and columns of a chiplet."""
        several = self.chiplets[0] * self.chiplets[1] - 1
        return several * units[0] * units[1] + self.units[0] * self.units[1]

    @property
    def last(self) -> Unit:
        """The unit with the largest coordinates."""
        (top, left), (row, column) = self.first
        (tall, wide), (rows, columns) = self.chiplets, self.units
        return ((top + tall - 1, left + wide - 1), (row + rows - 1, column + columns - 1))


def submeshes(chip: ChipletChip, count: int) -> Iterator[Submesh]:
    """Yield every submesh of `count` units: shapes first, then places of the first unit in raster order.

    The number of chiplets follows from the count, as all but the last are in full; a submesh of several
    begins at unit (0, 0) of its first chiplet.
    """
    each = chip.units[0] * chip.units[1]
    several = -(-count // each)
    for chiplets in _rectangles(several, chip.chiplets):
        for units in _rectangles(count - (several - 1) * each, chip.units):
            starts = [(0, 0)] if several > 1 else list(_positions(units, chip.units))
            for corner in _positions(chiplets, chip.chiplets):
                for start in starts:
                    yield Submesh(chiplets, units, (corner, start))


def _rectangles(count: int, within: Place) -> Iterator[Place]:
    """Yield (rows, columns) of that many cells that fit, the squarest first."""
    shapes = [(rows, count // rows) for rows in range(1, within[0] + 1) if count % rows == 0]
    return iter(sorted((s for s in shapes if s[1] <= within[1]), key=lambda s: (abs(s[0] - s[1]), s)))


def _positions(size: Place, within: Place) -> Iterator[Place]:
    for row in range(within[0] - size[0] + 1):
        for column in range(within[1] - size[1] + 1):
            yield (row, column)


@dataclass(frozen=True, eq=False)
class Places:
    """Submeshes of a chip with the hops between them.

    The last place is nowhere: it has no units, and no hops lead to it.

    Parameters
    ----------
    submeshes
        All but the last place.
    left_out
        Submeshes of the sizes wanted that are not listed, as there are more than MOST_PLACES.
    """

    chip: ChipletChip
    submeshes: tuple[Submesh, ...]
    left_out: int

    @classmethod
    def of(cls, chip: ChipletChip, counts: Iterable[int], needed: Iterable[Submesh]) -> Places:
        """Return all places of some numbers of units, and those that are needed in any case. Raises
        SpecError."""
        units = chip.chiplets[0] * chip.chiplets[1] * chip.units[0] * chip.units[1]
        if units > MOST_UNITS:
            raise SpecError("chip", f"has {units} units, schedules are sought for up to {MOST_UNITS}")
        kept = dict.fromkeys(needed)
        by_count = [list(submeshes(chip, count)) for count in sorted(set(counts)) if count <= units]
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
    def index(self) -> dict[Submesh, int]:
        """The number of each place."""
        return {submesh: number for number, submesh in enumerate(self.submeshes)}

    @property
    def nowhere(self) -> int:
        """The place of an operator that takes no units."""
        return len(self.submeshes)

    @cached_property
    def sizes(self) -> Ints:
        """Units of every place."""
        sizes: Ints = self.members.sum(axis=1).astype(np.int64)
        return sizes

    @cached_property
    def members(self) -> npt.NDArray[np.float32]:
        """1 for the units of every place, shape (places, units)."""
        cells = np.zeros((len(self.submeshes) + 1, *self.chip.chiplets, *self.chip.units), dtype=np.float32)
        for cell, ((tall, wide), (rows, columns), ((top, left), (row, column))) in zip(
            cells, self.submeshes, strict=False
        ):
            cell[top : top + tall, left : left + wide] = 1
            cell[top + tall - 1, left + wide - 1] = 0
            cell[top + tall - 1, left + wide - 1, row : row + rows, column : column + columns] = 1
        return cells.reshape(len(cells), -1)

    @cached_property
    def last_units(self) -> npt.NDArray[np.float32]:
        """As `members`, of the last unit of every place alone."""
        units = self.members.shape[1]
        after = units - 1 - np.argmax(self._ranked, axis=1)
        last = np.zeros_like(self.members)
        last[np.arange(len(last)), after] = 1
        last[self.nowhere] = 0
        return last

    @property
    def _ranked(self) -> npt.NDArray[np.float32]:
        """Members from the last unit to the first; units are numbered by chiplet, so the largest is last."""
        return self.members[:, ::-1]

    @cached_property
    def between_all(self) -> Hopped:
        """Hops from all units of a place to all units of another one."""
        return self._hopped(self.members)

    @cached_property
    def from_last(self) -> Hopped:
        """Hops from the last unit of a place to all units of another one."""
        return self._hopped(self.last_units)

    def _hopped(self, sources: npt.NDArray[np.float32]) -> Hopped:
        (tall, wide), (rows, columns) = self.chip.chiplets, self.chip.units
        shape = (-1, tall, wide, rows, columns)
        here, there = sources.reshape(shape), self.members.reshape(shape)
        steps = _apart(here.sum((2, 4)), there.sum((2, 4))) + _apart(here.sum((1, 3)), there.sum((1, 3)))
        crossed = _apart(here.sum((2, 3, 4)), there.sum((2, 3, 4)))
        crossed += _apart(here.sum((1, 3, 4)), there.sum((1, 3, 4)))
        pairs = np.outer(sources.sum(axis=1), self.members.sum(axis=1)) - sources @ self.members.T
        moving = np.maximum(pairs, 1).astype(np.float64)
        inside, between = self.chip.hop_cycles_inside, self.chip.hop_cycles_between
        return Hopped(((steps - crossed) * inside + crossed * between) / moving, crossed == 0)


class Hopped(NamedTuple):
    """Between two places: mean cycles of hops a transfer takes, and whether all stays in one chiplet."""

    cycles: Floats
    within: npt.NDArray[np.bool_]


def _apart(here: npt.NDArray[np.float32], there: npt.NDArray[np.float32]) -> Floats:
    """Sum of |a - b| over all pairs of lines; shapes (places, lines) or (places, chiplets, lines in it)."""
    one, other = (each.reshape(len(each), -1).astype(np.float64) for each in (here, there))
    lines = np.arange(one.shape[1])
    distance = np.abs(lines[:, None] - lines).astype(np.float64)
    apart: Floats = one @ distance @ other.T
    return apart


def _spread(some: Sequence[Submesh], count: int) -> list[Submesh]:
    """Return submeshes evenly spread over the list, the squarest shapes first: half of them from the first
    shape."""
    first = [submesh for submesh in some if submesh[:2] == some[0][:2]]
    rest = some[len(first) :]
    most = min(len(first), max(count // 2, count - len(rest)))
    picked = [first[place * len(first) // most] for place in range(most)]
    left = count - most
    return picked + [rest[place * len(rest) // left] for place in range(left)]
