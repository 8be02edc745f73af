"""Load of every link: what XY routing sends over it, edge by edge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.compiled import compiled, compiled_inline
from rramalloc.ndarrays import Ints
from rramalloc.network.geometry import Pair

# Directions of links, the rows of STEPS
EAST = 0  # to the next column
WEST = 1  # to the column before
SOUTH = 2  # to the next row
NORTH = 3  # to the row before
STEPS = ((0, 1), (0, -1), (1, 0), (-1, 0))  # (row, column) to the end of a link, by direction
LinkKey = tuple[int, int] | None  # a chip, whose tiles a link joins; None where it joins chips


class LinkRoute(NamedTuple):
    """A rectangle of links and how many shares of what is sent go over each.

    pairs: int64 (4, rows, columns), by direction, counted in pairs of arrays, or in columns.
    """

    key: LinkKey
    row: int
    column: int
    pairs: Ints

    def of(self, loads: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the same rectangle of the loads of all links."""
        high, wide = self.pairs.shape[1:]
        return loads[:, self.row : self.row + high, self.column : self.column + wide]


_NO_LOADS = np.zeros((4, 0, 0))


@dataclass(frozen=True, eq=False)
class Loads:
    """Load of the links that start at each tile of a chip, and at each chip; float64 (4, rows, columns)."""

    of_key: dict[LinkKey, npt.NDArray[np.float64]] = field(default_factory=dict)

    def add(self, route: LinkRoute, per_pair: float) -> None:
        """Add what every pair of a route sends over its links."""
        own = self._of(route)
        own += route.pairs * per_pair

    def at_least(self, route: LinkRoute, least: float) -> None:
        """Raise the load of all links of a route to `least`."""
        own = self._of(route)
        np.maximum(own, least, out=own, where=route.pairs > 0)

    def _of(self, route: LinkRoute) -> npt.NDArray[np.float64]:
        """Return the loads of the rectangle of a route."""
        _, rows, columns = route.pairs.shape
        high = route.row + rows
        wide = route.column + columns
        here = self.of_key.get(route.key, _NO_LOADS)
        if high > here.shape[1] or wide > here.shape[2]:
            wider = np.zeros((4, max(high, here.shape[1]), max(wide, here.shape[2])))
            wider[:, : here.shape[1], : here.shape[2]] = here
            self.of_key[route.key] = here = wider
        return route.of(here)

    def listed(self) -> list[tuple[float, LinkKey, tuple[int, int], tuple[int, int]]]:
        """Return (load, chip or None, start, end) of every link with a load, the busiest first."""
        links = []
        for key, loads in self.of_key.items():
            for direction, row, column in np.argwhere(loads > 0).tolist():
                down, right = STEPS[direction]
                load = float(loads[direction, row, column])
                links.append((load, key, (row, column), (row + down, column + right)))
        return sorted(links, key=lambda link: (-link[0], link[1] or (-1, -1), link[2:]))


class LinkCaps(NamedTuple):
    """What links may be loaded. of_key: as of `Loads`, its reciprocal, 0 for links with the cap `other`."""

    of_key: dict[LinkKey, npt.NDArray[np.float64]]
    other: float


NO_CAPS = LinkCaps({}, np.inf)


def distinct(places: Ints) -> tuple[Ints, Ints]:
    """Return the different rows of coordinates in rising order, and the number of each row among them.

    np.unique of whole rows takes six times as long, most of it whatever their number.
    """
    if (places == places[:1]).all():
        return places[:1], np.zeros(len(places), dtype=np.int64)
    keys = np.ravel_multi_index(tuple(places.T), (places.max(axis=0, initial=0) + 1).tolist())
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    return places[first], number


class HeldArrays(NamedTuple):
    """Tiles, int64 (k, 4), and how many arrays in each."""

    sites: Ints
    held: Ints


class Readers(NamedTuple):
    """Who reads: units, the arrays of each of which take the same inputs, in one place or several.

    A row for each place of a unit. unit: int64 (k,), its number, rising; place: int64, tiles (k, 4), or of
    one mesh (k, 2); weight: int64 (k,), for how many equal units the row stands.
    """

    unit: Ints
    place: Ints
    weight: Ints

    @property
    def units(self) -> int:
        """Number of units."""
        return int(self.weight[np.diff(self.unit, prepend=-1) > 0].sum())


def _ends(table: Ints, key: list[int]) -> tuple[Ints, Ints]:
    """Return the first and the last row of each run of rows with equal keys."""
    new = (table[1:, key] != table[:-1, key]).any(axis=1)
    some = np.ones(min(1, len(table)), dtype=np.bool_)
    return table[np.concatenate([some, new])], table[np.concatenate([new, some])]


def on_meshes(sites: Ints) -> Iterator[tuple[LinkKey, Ints, Any]]:
    """Yield each mesh with some of the tiles (k, 4), the place of every tile on it, and which are its own.

    Shapes (k, 2) and (k,). Tiles of other chips lie where all enters and leaves a chip, at tile (0, 0). The
    mesh of chips is the last one, if there are several.
    """
    chips, _ = distinct(sites[:, :2])
    for row, column in chips.tolist():
        here = (sites[:, :2] == (row, column)).all(axis=1)
        yield (row, column), np.where(here[:, None], sites[:, 2:], 0), here
    if len(chips) > 1:
        yield None, sites[:, :2], np.ones(len(sites), dtype=np.bool_)


@compiled_inline
def add_leg(start: Pair, end: Pair, amount: float, links: Any) -> None:
    """Add an amount to the links of a mesh, (4, rows, columns), from one place along its row to the column of
    another, and along this to it.
    """
    back = end[1] < start[1]
    for x in range(min(start[1], end[1]) + back, max(start[1], end[1]) + back):
        links[WEST if back else EAST, start[0], x] += amount
    up = end[0] < start[0]
    for y in range(min(start[0], end[0]) + up, max(start[0], end[0]) + up):
        links[NORTH if up else SOUTH, y, end[1]] += amount


@compiled
def add_legs(legs: Ints, carried: Ints, pairs: Ints) -> None:
    """Add what is carried on each leg, a row of start and end, to its links."""
    for k in range(len(legs)):
        add_leg((legs[k, 0], legs[k, 1]), (legs[k, 2], legs[k, 3]), carried[k], pairs)


def routes(sending: HeldArrays, receiving: Readers) -> Iterator[LinkRoute]:
    """Yield the links from arrays that give to units that take, and how many pairs of both use each.

    What a unit receives goes over each link once. Source: `Mesh`: along the row first; between chips by way
    of tile (0, 0) of both.
    """
    sources = len(sending.held)
    for key, place, here in on_meshes(np.concatenate([sending.sites, receiving.place])):
        targets = receiving._replace(place=place[sources:])
        for sends in (here[:sources], ~here[:sources]):
            yield from routes_on_mesh(key, place[:sources][sends], sending.held[sends], targets)


def single_routes(source: Ints, target: Ints, carried: Ints) -> Iterator[LinkRoute]:
    """Yield the links from each source tile to its own target, shape (k, 4) both, and how much goes over
    each."""
    if (source == target).all():
        return
    for key, place, _ in on_meshes(np.concatenate([source, target])):
        low, extent = place.min(axis=0), np.ptp(place, axis=0) + 1
        if extent.max() > 1:
            pairs = np.zeros((4, *extent.tolist()), dtype=np.int64)
            add_legs(np.hstack(np.split(place - low, 2)), carried, pairs)
            yield LinkRoute(key, int(low[0]), int(low[1]), pairs)


def routes_on_mesh(key: LinkKey, source: Ints, held: Ints, targets: Readers) -> Iterator[LinkRoute]:
    """Yield the pairs over each link of the smallest rectangle around both; nothing if there are none.

    source: places of a mesh, shape (k, 2), and how many arrays are `held` in each.
    """
    if not held.sum() or not len(targets.unit):
        return
    place = np.concatenate([source, targets.place])
    low, extent = place.min(axis=0), np.ptp(place, axis=0) + 1
    if extent.max() == 1:
        return
    p, up, down = np.zeros((3, *extent.tolist()), dtype=np.int64)
    left, right = np.zeros((2, int(extent[1])), dtype=np.int64)
    np.add.at(p, tuple((source - low).T), held)
    # ways to the tiles of a unit are a tree: along the row to its outermost columns, then along each column
    # to the outermost rows in it
    row, column = (targets.place - low).T
    table = np.stack([row, column, targets.weight, targets.unit], axis=1)
    for ends, first in zip(_ends(table[np.lexsort((column, targets.unit))], [3]), (left, right), strict=True):
        np.add.at(first, ends[:, 1], ends[:, 2])
    by_column = table[np.lexsort((row, column, targets.unit))]
    for ends, outer in zip(_ends(by_column, [1, 3]), (up, down), strict=True):
        np.add.at(outer, tuple(ends.T[:2]), ends[:, 2])
    before, rows = p.cumsum(axis=1), p.sum(axis=1)
    upper, above = rows.cumsum(), up.cumsum(axis=0)
    east = before * (right.sum() - right.cumsum())
    west = (rows[:, None] - before + p) * (left.cumsum() - left)
    south = upper[:, None] * (down.sum(axis=0) - down.cumsum(axis=0))
    north = (rows.sum() - upper + rows)[:, None] * (above - up)
    yield LinkRoute(key, int(low[0]), int(low[1]), np.stack([east, west, south, north]))
