"""Array groups in tiles, against trying every way to place them."""

from __future__ import annotations

from random import Random

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from laws.packing import placeable
from laws.strategies import randoms

from rramalloc.commands.place.packing import Classes, Filling, Instance, Patterns, faults, pack
from rramalloc.commands.place.packing_kernel import cannot_fit
from rramalloc.mapping.tiles import Tiles

Ints = npt.NDArray[np.int64]


def small(random: Random) -> tuple[Tiles, Ints, Ints]:
    """Few groups, whose arrays sum to about what the tiles have."""
    tiles = Tiles(random.randint(1, 5), random.randint(1, 14))
    most = random.choice((tiles.arrays + random.randint(0, 1), max(1, tiles.arrays * 2 // 3)))
    demand = [random.randint(1, most) for _ in range(random.randint(1, 5))]
    copies = [1] * len(demand)
    wanted = tiles.count * tiles.arrays - random.choice((0, 0, 1, 2, 4))
    while sum(map(int.__mul__, demand, copies)) < wanted and sum(copies) < 16:
        copies[random.randrange(len(copies))] += 1
    return tiles, np.array(demand), np.array(copies)


def refuted(tiles: Tiles, demand: Ints, copies: Ints) -> bool:
    classes = Classes.of(demand)
    return bool(cannot_fit(classes.sizes, classes.counts(copies), tiles.count, tiles.arrays))


def instance(tiles: Tiles, demand: Ints, copies: Ints) -> Instance:
    classes = Classes.of(demand)
    return Instance(classes.sizes, classes.counts(copies), tiles.count, tiles.arrays)


@pytest.mark.parametrize(
    ("tiles", "demand", "copies", "fits"),
    [
        (Tiles(9, 5), [6], [1], False),
        (Tiles(2, 10), [5, 3, 2], [2, 2, 2], True),
        (Tiles(2, 7), [3, 2], [2, 4], True),
        (Tiles(3, 5), [3, 4], [2, 2], False),
        (Tiles(3, 100), [34], [7], False),
        (Tiles(10_000, 96), [24], [40_000], True),
        (Tiles(10_000, 96), [24], [40_001], False),
        (Tiles(20_000, 10), [7, 3], [20_000, 20_000], True),
    ],
)
def test_by_hand(tiles: Tiles, demand: list[int], copies: list[int], fits: bool) -> None:
    groups = np.array(demand), np.array(copies)
    packing = pack(tiles, *groups)
    assert packing.fit == ("fits" if fits else "does not fit")
    assert fits == (not faults(packing.fillings, *groups, tiles))
    assert not (fits and refuted(tiles, *groups))


@given(randoms)
def test_what_is_refuted_has_no_packing(random: Random) -> None:
    for _ in range(20):
        case = small(random)
        assert not (placeable(*case) and refuted(*case)), case


@given(randoms)
def test_packing_is_exact(random: Random) -> None:
    for _ in range(20):
        tiles, demand, copies = small(random)
        packing = pack(tiles, demand, copies)
        assert packing.fit == ("fits" if placeable(tiles, demand, copies) else "does not fit")
        if packing.fit == "fits":
            assert faults(packing.fillings, demand, copies, tiles) == ()
        assert packing == pack(tiles, demand, copies)


@given(randoms)
def test_integer_program_alone_is_exact(random: Random) -> None:
    """Without heuristics and bounds before it, which decide nearly all small cases."""
    tiles, demand, copies = small(random)
    if demand.max() <= tiles.arrays:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Instance, "heuristic", lambda self: None)
            fit, patterns, _ = instance(tiles, demand, copies).decide()
        assert fit == ("fits" if placeable(tiles, demand, copies) else "does not fit")
        if fit == "fits":
            check(patterns, instance(tiles, demand, copies))


def check(patterns: Patterns, wanted: Instance) -> None:
    assert sum(tiles for tiles, _ in patterns) <= wanted.tiles
    assert all(int(np.array(held) @ wanted.sizes) <= wanted.room for _, held in patterns)
    assert (sum(tiles * np.array(held) for tiles, held in patterns) >= wanted.counts).all()


FITTING = [Filling(1, ((0, 1), (1, 1))), Filling(2, ((1, 2),))]
"""On tiles of 6 arrays: one tile with groups of 4 and 2, two with two of 2 each."""


@pytest.mark.parametrize(
    ("fillings", "count", "found"),
    [
        (FITTING, 3, []),
        (FITTING, 2, ["3 tiles are used, there are 2"]),
        (FITTING[:1], 3, ["stage 1: 1 copies placed of 5"]),
        ([Filling(1, ((0, 1), (1, 5)))], 3, ["a tile holds 14 arrays, it has 6"]),
        ([*FITTING, Filling(1, ((7, 1),))], 4, ["1 tiles hold 1 copies of stage 7"]),
    ],
)
def test_faults_are_found(fillings: list[Filling], count: int, found: list[str]) -> None:
    assert list(faults(fillings, np.array([4, 2]), np.array([1, 5]), Tiles(count, 6))) == found
