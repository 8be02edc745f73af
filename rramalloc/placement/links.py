"""Load of every link: what XY routing sends over it, edge by edge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.placement.mesh import Ints

EAST, WEST, SOUTH, NORTH = range(4)
STEPS = ((0, 1), (0, -1), (1, 0), (-1, 0))
"""(row, column) to the end of a link, by direction."""
Key = tuple[int, int] | None
"""A chip, whose tiles a link joins; None where it joins chips."""


class LinkRoute(NamedTuple):
    """A rectangle of links and how many shares of what is sent go over each.

    pairs: int64 (4, rows, columns), by direction, counted in pairs of arrays, or in columns.
    """

    key: Key
    row: int
    column: int
    pairs: Ints

    def of(self, loads: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The same rectangle of the loads of all links."""
        high, wide = self.pairs.shape[1:]
        return loads[:, self.row : self.row + high, self.column : self.column + wide]


@dataclass(frozen=True, eq=False)
class Loads:
    """Load of the links that start at each tile of a chip, and at each chip; float64 (4, rows, columns)."""

    of_key: dict[Key, npt.NDArray[np.float64]] = field(default_factory=dict)

    def add(self, route: LinkRoute, per_pair: float) -> None:
        """Add what every pair of a route sends over its links."""
        _, rows, columns = route.pairs.shape
        room = (4, route.row + rows, route.column + columns)
        here = self.of_key.get(route.key, np.zeros(room))
        if (wider := tuple(max(pair) for pair in zip(room, here.shape, strict=True))) != here.shape:
            here = np.pad(here, [(0, most - own) for most, own in zip(wider, here.shape, strict=True)])
        self.of_key[route.key] = here
        own = route.of(here)
        own += route.pairs * per_pair

    def listed(self) -> list[tuple[float, Key, tuple[int, int], tuple[int, int]]]:
        """(load, chip or None, start, end) of every link with a load, the busiest first."""
        links = []
        for key, loads in self.of_key.items():
            for direction, row, column in np.argwhere(loads > 0).tolist():
                down, right = STEPS[direction]
                load = float(loads[direction, row, column])
                links.append((load, key, (row, column), (row + down, column + right)))
        return sorted(links, key=lambda link: (-link[0], link[1] or (-1, -1), link[2:]))


class HeldArrays(NamedTuple):
    """Tiles, int64 (k, 4), and how many arrays in each."""

    sites: Ints
    held: Ints


def routes(giving: HeldArrays, taking: HeldArrays) -> Iterator[LinkRoute]:
    """The links between arrays that give and others that take, and how many of the array pairs use each.

    Source: `Mesh`: along the row first; between chips by way of tile (0, 0) of both.
    """
    source, target = _by_chip(*giving), _by_chip(*taking)
    sent, taken = (sum(int(n.sum()) for _, n in part.values()) for part in (source, target))
    nothing = _Grid(np.zeros((0, 2), dtype=np.int64), np.zeros(0, dtype=np.int64))
    for chip in sorted({*source, *target}):
        here, there = source.get(chip, nothing), target.get(chip, nothing)
        out, into = taken - int(there.arrays.sum()), sent - int(here.arrays.sum())
        for one, other in ((here, there), (here, _gate(out)), (_gate(into), there)):
            yield from _routes(chip, one, other)
    if len({*source, *target}) > 1:
        yield from _routes(None, _chips(source), _chips(target))


def single_routes(source: Ints, target: Ints, carried: Ints) -> Iterator[LinkRoute]:
    """The links from each source tile to its own target, shape (k, 4) both, and how much goes over each."""
    inside, corner = (source[:, :2] == target[:, :2]).all(axis=1), np.zeros_like(source[:, 2:])
    legs: dict[Key, list[Ints]] = {}
    for site, start, end, rows in (
        (source, source[:, 2:], target[:, 2:], inside),
        (source, source[:, 2:], corner, ~inside),
        (target, corner, target[:, 2:], ~inside),
    ):
        leg = np.column_stack([start, end, carried])
        for row, column in np.unique(site[rows, :2], axis=0).tolist():
            own = rows & (site[:, 0] == row) & (site[:, 1] == column)
            legs.setdefault((row, column), []).append(leg[own])
    if not inside.all():
        legs[None] = [np.column_stack([source[:, :2], target[:, :2], carried])[~inside]]
    for key, parts in legs.items():
        yield from _legs(key, np.concatenate(parts))


def _legs(key: Key, legs: Ints) -> Iterator[LinkRoute]:
    """legs: rows of start, end and what is carried; nothing if none of them moves."""
    places = legs[:, :4].reshape(-1, 2)
    low, extent = places.min(axis=0), np.ptp(places, axis=0) + 1
    if extent.max() == 1:
        return
    row, column, to_row, to_column = (legs[:, :4] - np.tile(low, 2)).T
    over = np.zeros((4, *(extent + 1).tolist()), dtype=np.int64)
    for direction, line, first, last in (
        (EAST, row, column, np.maximum(column, to_column)),
        (WEST, row, np.minimum(column, to_column) + 1, column + 1),
    ):
        np.add.at(over, (direction, line, first), legs[:, 4])
        np.subtract.at(over, (direction, line, last), legs[:, 4])
    for direction, first, last in (
        (SOUTH, row, np.maximum(row, to_row)),
        (NORTH, np.minimum(row, to_row) + 1, row + 1),
    ):
        np.add.at(over, (direction, first, to_column), legs[:, 4])
        np.subtract.at(over, (direction, last, to_column), legs[:, 4])
    over[:SOUTH] = over[:SOUTH].cumsum(axis=2)
    over[SOUTH:] = over[SOUTH:].cumsum(axis=1)
    yield LinkRoute(key, int(low[0]), int(low[1]), over[:, :-1, :-1])


class _Grid(NamedTuple):
    """Arrays at places of a mesh. place: int64 (k, 2); arrays: int64 (k,)."""

    place: Ints
    arrays: Ints


def _by_chip(sites: Ints, arrays: Ints) -> dict[tuple[int, int], _Grid]:
    chips = sorted(set(map(tuple, sites[:, :2].tolist())))
    if len(chips) == 1:
        return {chips[0]: _Grid(sites[:, 2:], arrays)}
    loads = {}
    for chip in chips:
        inside = (sites[:, :2] == chip).all(axis=1)
        loads[chip] = _Grid(sites[inside, 2:], arrays[inside])
    return loads


def _gate(arrays: int) -> _Grid:
    return _Grid(np.zeros((1, 2), dtype=np.int64), np.array([arrays], dtype=np.int64))


def _chips(parts: dict[tuple[int, int], _Grid]) -> _Grid:
    place = np.array(sorted(parts), dtype=np.int64)
    return _Grid(place, np.array([int(parts[chip].arrays.sum()) for chip in sorted(parts)], dtype=np.int64))


def _routes(key: Key, source: _Grid, target: _Grid) -> Iterator[LinkRoute]:
    """Array pairs over each link of the smallest rectangle around both; nothing if there are none."""
    if not source.arrays.sum() or not target.arrays.sum():
        return
    place = np.concatenate([source.place, target.place])
    low, extent = place.min(axis=0), np.ptp(place, axis=0) + 1
    if extent.max() == 1:
        return
    p, q = np.zeros((2, *extent.tolist()), dtype=np.int64)
    np.add.at(p, tuple((source.place - low).T), source.arrays)
    np.add.at(q, tuple((target.place - low).T), target.arrays)
    left, columns, rows = p.cumsum(axis=1), q.sum(axis=0), p.sum(axis=1)
    upper, above = rows.cumsum(), q.cumsum(axis=0)
    east = left * (columns.sum() - columns.cumsum())
    west = (rows[:, None] - left + p) * (columns.cumsum() - columns)
    south = upper[:, None] * (columns - above)
    north = (rows.sum() - upper + rows)[:, None] * (above - q)
    yield LinkRoute(key, int(low[0]), int(low[1]), np.stack([east, west, south, north]))
