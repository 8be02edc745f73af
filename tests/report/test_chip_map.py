"""The map of the chips: tiles as full as they are, the same bytes each time, hostile names harmless."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from placement.machines import chain, chip, machine

import rramalloc
from rramalloc.network.network import Network
from rramalloc.placement.placement import Placement
from rramalloc.report import chip_map, style


@pytest.fixture
def placement() -> Placement:
    hardware = machine(chip(4, (2, 3), (1, 2)), (10, 4))
    return rramalloc.place(chain(2, 5, side=4, kernel=3), {"c1": 3, "c2": 5}, hardware=hardware)


def test_every_chip_in_use_has_its_axes(placement: Placement) -> None:
    drawn = chip_map.draw(placement)
    shown = [axes for axes in drawn.axes if axes.get_visible() and axes.get_title()]
    assert [axes.get_title() for axes in shown] == sorted(
        f"chip {row},{column}" for row, column in {tile.chip for tile in placement.tiles}
    )


def test_filled_area_is_the_arrays_in_use(placement: Placement) -> None:
    filled = 0.0
    for axes in chip_map.draw(placement).axes:
        for collection in axes.collections[:1]:
            for path in collection.get_paths():
                low, high = path.get_extents().min, path.get_extents().max
                filled += float(np.prod(high - low))
    assert filled == pytest.approx(0.92 * 0.92 * len(placement.arrays) / 4)


def test_same_bytes_and_no_formula(tmp_path: Path) -> None:
    nodes = [
        {"name": "in", "op": "input", "shape": [1, 2, 2]},
        {"name": "$\\frac$", "op": "conv", "inputs": ["in"], "out_channels": 2, "kernel": 1},
    ]
    network = Network.build("$x_", nodes)
    placement = rramalloc.place(network, {}, hardware=machine(chip(1, (1, 1))))
    for name in ("a.svg", "b.svg"):
        style.save(chip_map.draw(placement), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
