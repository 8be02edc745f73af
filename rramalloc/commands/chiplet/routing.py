"""Hops between units on a mesh of chiplets, each a mesh of units, by XY routing.

Source: docs/sources/companions.md 2.

The units of all chiplets form one mesh. A step from a unit to its neighbour is a hop between chiplets if it
crosses an edge of a chiplet, else a hop inside one; the way is the shortest, first along the row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

Place = tuple[int, int]
Unit = tuple[Place, Place]
"""((chiplet row, chiplet column), (row, column)), all from 0."""


class Topology(NamedTuple):
    """chiplets: rows and columns of them; units: rows and columns of units in each."""

    chiplets: Place
    units: Place

    def holds(self, unit: Unit) -> bool:
        """Whether there is such a unit."""
        return all(
            0 <= at < extent
            for place, extents in zip(unit, self, strict=True)
            for at, extent in zip(place, extents, strict=True)
        )

    def along(self, unit: Unit, axis: int) -> int:
        """Row (0) or column (1) of a unit in the mesh of all units."""
        return unit[0][axis] * self.units[axis] + unit[1][axis]


class Hops(NamedTuple):
    """Sums over pairs of units. inside, between: hops in and between chiplets; moving: pairs that differ."""

    inside: int
    between: int
    moving: int

    def cycles(self, transfers: int, inside: float, between: float) -> float:
        """h1 * r1 + h2 * r2, h = transfers * hops / pairs that move; 0 if none does."""
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
    """Hops of pairs listed one by one."""
    inside = between = moving = 0
    for start, end in pairs:
        crossed = sum(abs(start[0][axis] - end[0][axis]) for axis in (0, 1))
        steps = sum(abs(topology.along(start, axis) - topology.along(end, axis)) for axis in (0, 1))
        inside, between, moving = inside + steps - crossed, between + crossed, moving + (start != end)
    return Hops(inside, between, moving)


def hops_of_sets(sources: Units, destinations: Units) -> Hops:
    """Hops of all pairs of a source and a destination, without listing them."""
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
