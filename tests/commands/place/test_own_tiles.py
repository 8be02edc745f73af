"""Tiles that hold one layer only: what `optimize` returns, `place` places (docs/sources/model.md 15)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from commands.place.machines import chain, chip, machine
from hypothesis import given, settings
from laws.strategies import random_network, randoms

import rramalloc
from rramalloc.commands.place.check import check_placement
from rramalloc.commands.place.placement import Placement
from rramalloc.errors import BudgetError, CapacityError, MisplacedError, SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.tables import Counting
from rramalloc.mapping.modes import ArrayCount


def own(arrays: int, tiles: int, lines: tuple[int, int] = (16, 16)) -> Hardware:
    """A chip of `tiles` tiles in a row, each of one layer."""
    return machine(chip(arrays, (1, tiles), sharing="layer"), lines)


def test_by_hand() -> None:
    """Tiles of 8, three copies of 5 arrays: 15 arrays, two tiles."""
    assert ArrayCount(1, 0, 5).in_own_tiles(chip(8, (1, 9))).arrays(3) == 16


@settings(max_examples=200)
@given(random=randoms)
def test_whole_tiles_hold_all_arrays_and_the_most_copies(random: Random) -> None:
    groups, sharing, spread = random.randint(1, 4), random.choice((0, 0, 1, 2, 3)), random.randint(1, 6)
    room, copies = random.randint(1, 9), random.randint(1, 12)
    arrays = -(-copies * groups // sharing) * spread if sharing else copies * groups * spread
    tiles = -(-arrays // room)
    count = ArrayCount(groups, sharing, spread).in_own_tiles(chip(room, (9, 9)))
    assert count.arrays(copies) == tiles * room
    most = count.most_copies(tiles * room)
    assert count.arrays(most) <= tiles * room < count.arrays(most + 1)


@settings(max_examples=40)
@given(random=randoms)
def test_what_optimize_returns_is_placed(random: Random) -> None:
    """Every layer lies in as many tiles of its own as its arrays say, also after moves of pieces."""
    network = random_network(random, nodes=5, extent=5)
    hardware = own(random.randint(1, 6), 10, (8, 8))
    given: dict[str, Any] = {
        "hardware": hardware,
        "mapping": random.choice(("im2col", "kernel_split", "sdk")),
    }
    try:
        found = rramalloc.optimize(network, f"x{random.choice((1, 1.5, 2))}", work=2, **given)
    except (BudgetError, SpecError):
        return
    placed = rramalloc.place(network, found, work=random.choice((0, 1)))
    room = hardware.chip.arrays_per_tile  # type: ignore[union-attr]
    assert {layer.name: layer.tiles * room for layer in placed.layers} == {
        layer.name: layer.arrays for layer in found.layers
    }
    assert rramalloc.simulate(network, found).arrays == found.arrays.used <= found.arrays.budget


def test_a_tile_of_two_layers_is_refused() -> None:
    network = chain(3, 5)
    free = machine(chip(4, (1, 1)))
    placed = rramalloc.place(network, {}, hardware=free)
    hardware = own(4, 1, (128, 128))
    moved = Placement.model_validate(placed.model_dump() | {"hardware": hardware})
    with pytest.raises(MisplacedError, match=r'is in tile .* with arrays of .c1., but sharing = "layer"'):
        check_placement(moved, network, {})
    with pytest.raises(CapacityError, match="every layer takes tiles of its own"):
        rramalloc.place(network, {}, hardware=hardware)
    with pytest.raises(BudgetError, match="the chips have 4 arrays, 8 are needed"):
        rramalloc.optimize(network, 4, hardware=hardware)


def test_energy_is_of_the_arrays_that_are_read() -> None:
    """One array in a tile of four: one read a window, 16 windows; the area is of the whole tile."""
    energy = {"read_pj": 2.0, "area_um2": 3.0}
    hardware = Hardware.model_validate(own(4, 2).model_dump() | {"energy": energy})
    found = rramalloc.optimize(chain(3), 4, hardware=hardware)
    assert (found.dynamic_pj, found.area_um2, found.arrays.used) == (16 * 2.0, 4 * 3.0, 4)
    assert [(layer.arrays_per_copy, layer.arrays) for layer in found.layers] == [(1, 4)]


def test_it_contradicts_tiles_that_are_filled_first_fit() -> None:
    counting = Counting(groups="diagonal", classifiers="host", row_blocks="first_fit")
    with pytest.raises(ValueError, match="gives each layer its own"):
        Hardware.model_validate(own(4, 2).model_dump() | {"counting": counting})


def test_the_minimum_is_in_whole_tiles() -> None:
    hardware = own(4, 9)
    assert rramalloc.inspect(chain(3, 5), hardware=hardware).minimum == 8
    assert rramalloc.optimize(chain(3, 5), "x2", hardware=hardware).arrays.budget == 16
