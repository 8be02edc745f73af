"""[counting]: how a target counts arrays (dense groups, stored classifiers, tiles filled first fit)."""

from __future__ import annotations

from random import Random

import pytest
from commands.export.nets import conv, network, of
from hypothesis import given, settings
from laws.strategies import randoms

import rramalloc
from rramalloc.commands.export.targets.pimcomp import first_fit
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import load_hardware
from rramalloc.hardware.tables import Chip
from rramalloc.importers import load
from rramalloc.mapping.tiles import Tiles
from rramalloc.network.network import Network

pytestmark = pytest.mark.quick

PIMCOMP = load_hardware("pimcomp")


def small(cores: int, arrays: int) -> Hardware:
    chip = Chip(arrays_per_tile=arrays, tiles=(1, cores), chips=(1, 1))
    return PIMCOMP.model_copy(update={"chip": chip})


def grouped() -> Network:
    """On 128 x 128: conv dense 9 * 256 x 512, 18 row blocks of 4; fc 512 x 1000, 4 row blocks of 8."""
    return network(
        conv("c", "x", 512, groups=32),
        of("global_avgpool", "g", "c"),
        of("flatten", "f", "g"),
        of("linear", "fc", "f", out_features=1000),
        shape=(256, 8, 8),
    )


def test_grouped_convolutions_are_dense_and_classifiers_stored() -> None:
    """72 arrays a copy and 32 of the classifier: 3 copies in 248 = 3 * 72 + 32 arrays, 2 in one fewer."""
    allocation = rramalloc.optimize(grouped(), arrays=248, hardware=PIMCOMP)
    assert (allocation.copies["c"], allocation.arrays.used) == (3, 216)
    assert any("32 arrays of the budget are for layers left" in text for text in allocation.warnings)
    assert rramalloc.optimize(grouped(), arrays=247, hardware=PIMCOMP).copies["c"] == 2
    timed = rramalloc.optimize(grouped(), arrays=248, hardware=PIMCOMP, fc="crossbar")
    assert timed.copies == {"c": 3, "fc": 1}
    assert timed.arrays.used == 248


def test_certain_arrays_by_hand() -> None:
    """Tiles of 8. Widths 1, 2, 4, 8: a group of 8 without a place leaves 1 + 2 + 4 in three tiles at most.

    Widths 3 and 1: a 3 without a place, so at most 2 left; tiles of 3 and 3 leave 2, and so may all of them.
    """
    assert Tiles(10, 8).certain([1, 2, 4, 8]) == 80 - 7
    assert Tiles(10, 8).certain([1, 3]) == 80 - 20
    assert Tiles(10, 8).certain([1]) == 80
    assert Tiles(10, 8).certain([2, 4]) == 80 - 2  # a 2 alone in a tile of 4, then only 4s: 2 left in one


@given(randoms)
@settings(max_examples=200, deadline=None)
def test_so_many_arrays_always_find_a_place(random: Random) -> None:
    """Whatever the widths, their order and their number, as long as there are no more arrays in all."""
    arrays, tiles = random.randint(1, 20), random.randint(1, 12)
    widths = random.sample(range(1, arrays + 1), random.randint(1, min(5, arrays)))
    left, groups = Tiles(tiles, arrays).certain(widths), []
    while fitting := [width for width in widths if width <= left]:
        width = random.choice(fitting)
        number = random.randint(1, left // width)
        groups.append((number, width))
        left -= number * width
    assert first_fit(groups, tiles, arrays) is not None


@pytest.mark.parametrize("name", ["resnet50", "shufflenet"])
@pytest.mark.parametrize("method", ["proportional", "balance"])
def test_what_fits_the_preset_fits_the_tool(name: str, method: str) -> None:
    """On all arrays of the chip: these overflowed it when groups and classifiers were counted otherwise."""
    allocation = rramalloc.optimize(name, arrays=9216, hardware="pimcomp", method=method)
    exported = rramalloc.export(load(name), allocation, "pimcomp")
    assert exported.target == "pimcomp"
