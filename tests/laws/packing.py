"""A second answer to whether groups of arrays fit into tiles: every way to put them, and no shared code."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from rramalloc.mapping.tiles import Tiles


def placeable(tiles: Tiles, demand: npt.NDArray[np.int64], copies: npt.NDArray[np.int64]) -> bool:
    """Whether the groups of all copies fit into tiles."""
    return _fit(tuple(sorted(np.repeat(demand, copies).tolist())), (tiles.arrays,) * tiles.count)


@lru_cache(maxsize=2**20)
def _fit(groups: tuple[int, ...], rooms: tuple[int, ...]) -> bool:
    """Put the largest group into each kind of room in turn; both rise, and are shared between many cases."""
    if not groups or sum(groups) > sum(rooms):
        return not groups
    *rest, largest = groups
    return any(
        room >= largest
        and _fit(tuple(rest), tuple(sorted((*rooms[:tile], room - largest, *rooms[tile + 1 :]))))
        for tile, room in enumerate(rooms)
        if tile == 0 or room != rooms[tile - 1]
    )
