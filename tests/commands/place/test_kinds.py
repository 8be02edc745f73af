"""Kinds of arrays and digital units on the tiles of a chip, by hand (docs/sources/model.md 18)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from laws.kinds import HAND

import rramalloc
from rramalloc.commands.place.check import check_placement
from rramalloc.commands.place.chip_map import chip_map
from rramalloc.errors import CapacityError, MisplacedError, SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import as_hardware
from rramalloc.network.network import Network

pytestmark = pytest.mark.quick
UNIT = {"macs_per_ns": 64.0, "pj_per_mac": 0.5, "area_um2": 900.0, "leakage_mw": 0.02}


def in_tiles(small: int, large: int, **more: Any) -> Hardware:
    """Return 2 x 2 tiles of 2 arrays, some of 16 x 16 and some of 32 x 32."""
    document = {
        "name": "two sizes in tiles",
        "source": "docs/sources/model.md 18",
        "crossbar": {"wordlines": 16, "bitlines": 16, "cell_bits": 1},
        "precision": {"weight_bits": 1, "input_bits": 1, "output_bits": 8, "signed": "offset"},
        "chip": {"arrays_per_tile": 2, "tiles": [2, 2]},
        "kinds": [
            {"name": "small", "tiles": small},
            {"name": "large", "tiles": large, "crossbar": {"wordlines": 32, "bitlines": 32}},
        ],
    }
    return as_hardware(document | more, None, None)


@pytest.mark.parametrize(
    ("tiles", "steps", "arrays", "byte_hops"), [((2, 2), 2, 8, 96), ((1, 1), 3, 4, 64), ((3, 1), 3, 4, 64)]
)
def test_hand_values(tiles: tuple[int, int], steps: int, arrays: int, byte_hops: int) -> None:
    found = rramalloc.optimize(HAND, hardware=in_tiles(*tiles), progress=False)
    assert (found.makespan, found.arrays.used) == (steps, arrays)
    placement = rramalloc.place(HAND, found)
    assert placement.traffic.cost == byte_hops
    assert {layer.name: layer.kind for layer in placement.layers} == {"a": "small", "b": "large"}
    raster = [2 * array.tile[0] + array.tile[1] for array in placement.arrays if array.layer == "a"]
    assert max(raster) < tiles[0]


@pytest.mark.parametrize("given", ["timing.read_ns=12", "chip.tiles=[2, 2]", "kinds.small.tiles=2"])
def test_slow_links_are_told_of_kinds_whose_hardware_was_set(given: str, tmp_path: Path) -> None:
    """A byte takes 100 ns over a link of 0.01 bytes/ns, and a batch of windows 12 ns at most.

    The file, whose hardware has kinds in tiles and set values, is read as it was written.
    """
    links = {"arrays_per_tile": 2, "tiles": [2, 2], "bandwidth_tile_gb_s": 0.01}
    timing = {"read_ns": 10.0, "dac_bits": 1, "clock": "own", "tick_ns": 1.0}
    hardware = in_tiles(2, 2, timing=timing, chip=links).to_dict()
    found = rramalloc.optimize(HAND, hardware=hardware, set_values=[given], progress=False)
    assert found.hardware.set_values == (given.replace(" = ", "="),)
    found.save(tmp_path / "a.json")
    placement = rramalloc.place(HAND, tmp_path / "a.json")
    (warning,) = (text for text in placement.warnings if text.startswith("transfers make"))
    wider = re.search(r"bandwidth_tile_gb_s = ([\d.]+) in \[chip\] \(now 0.01\)", warning)
    assert wider is not None
    machine = placement.hardware.with_values({"chip.bandwidth_tile_gb_s": float(wider[1])})
    again = rramalloc.place(HAND, tmp_path / "a.json", hardware=machine)
    assert placement.latency_ns is not None
    assert again.latency_ns is not None
    assert again.latency_ns < placement.latency_ns


def test_a_layer_lies_on_tiles_of_its_kind_alone() -> None:
    """16 -> 48 channels take 3 small arrays: on both small tiles once, twice on none."""
    nodes = [node.model_dump(exclude_none=True) for node in HAND.nodes[:2]]
    network = Network.build("wide", [nodes[0], nodes[1] | {"out_channels": 48}])
    machine = in_tiles(2, 2)
    once = rramalloc.place(network, {"copies": {"a": 1}, "kind": {"a": "small"}}, hardware=machine)
    assert {array.tile for array in once.arrays} == {(0, 0), (0, 1)}
    with pytest.raises(CapacityError, match="needs 6 arrays, the chips have 4"):
        rramalloc.place(network, {"copies": {"a": 2}, "kind": {"a": "small"}}, hardware=machine)


def test_the_judge_sees_a_tile_of_another_kind() -> None:
    placement = rramalloc.place(HAND, rramalloc.optimize(HAND, hardware=in_tiles(1, 1), progress=False))
    first, *others = placement.arrays
    moved = placement.model_copy(update={"arrays": (first.model_copy(update={"tile": (1, 1)}), *others)})
    with pytest.raises(MisplacedError, match="has no arrays of the kind of 'a'"):
        check_placement(moved, HAND, placement.copies)


def test_units_have_tiles_of_their_own_and_count_in_area_and_leakage() -> None:
    """a on the unit, b on 8 arrays of 2 tiles; 3 tiles in use of 50 um2 each; all arrays leak for 26 ns."""
    kinds = [
        {"name": "analog", "tiles": 2, "chip": {"arrays_per_tile": 5}},
        {"name": "digital", "tiles": 1, "chip": {"arrays_per_tile": 1}, "processor": UNIT},
    ]
    energy = {"read_pj": 2.0, "leakage_mw": 0.01, "area_um2": 100.0, "periphery_um2": 50.0}
    timing = {"step_ns": 10.0, "clock": "own", "tick_ns": 1.0}
    machine = in_tiles(1, 1, kinds=kinds, energy=energy, timing=timing)
    found = rramalloc.optimize(HAND, hardware=machine, progress=False)
    assert (found.makespan, found.area_um2) == (26, 8 * 100 + 900 + 3 * 50)
    assert found.chip_area_um2 == 10 * 100 + 900 + 3 * 50
    assert found.static_pj == pytest.approx((10 * 0.01 + 0.02) * 26)
    gated = in_tiles(1, 1, kinds=kinds, energy=energy | {"idle": "gated"}, timing=timing)
    least = rramalloc.optimize(HAND, hardware=gated, objective="energy", progress=False)
    assert least.makespan == 50  # 3 arrays of one tile, of which all 5 leak
    assert least.static_pj == pytest.approx(5 * 0.01 * 50)
    placement = rramalloc.place(HAND, found)
    assert [array.tile for array in placement.arrays if array.layer == "a"] == [(1, 0)]
    (unit,) = (array for array in placement.arrays if array.layer == "a")
    assert (unit.rows, unit.columns) == (16, 16)
    limited = rramalloc.optimize(HAND, hardware=machine, at_most={"area_um2": 1849.0}, progress=False)
    assert limited.area_um2 is not None
    assert limited.area_um2 <= 1849
    assert limited.makespan == 28  # b has 2 copies: 4 arrays in one tile


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"chip": {"arrays_per_tile": 2, "tiles": [1, 2]}},
            "have 4 tiles of each chip together, which has 2",
        ),
        ({"kinds": [{"name": "a", "tiles": 1}, {"name": "b"}]}, "'b' needs tiles"),
        (
            {"kinds": [{"name": "a", "tiles": 1}, {"name": "b", "tiles": 1, "arrays": 3}]},
            "not the 2 of its tiles",
        ),
        ({"chip": {"arrays_per_tile": 2, "tiles": [2, 2], "sharing": "layer"}}, "not modelled with kinds"),
    ],
)
def test_tiles_that_do_not_fit(change: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        in_tiles(2, 2, **change)


def test_tiles_of_a_kind_are_set_by_name() -> None:
    machine = in_tiles(1, 1).with_values({"kinds.small.tiles": 2, "kinds.large.tiles": 2})
    assert rramalloc.optimize(HAND, hardware=machine, progress=False).makespan == 2
    again = as_hardware(machine.to_dict(), None, None)
    assert again == machine


def test_the_cost_of_a_placement_counts_units() -> None:
    """a takes 16 ns on the unit, b 10 ns on 8 arrays; a byte takes 2 ns a hop at most between their tiles."""
    kinds = [{"name": "analog", "tiles": 2}, {"name": "digital", "tiles": 1, "processor": UNIT}]
    chip = {"arrays_per_tile": 4, "tiles": [2, 2], "hop_ns_tile": 1.0, "bandwidth_tile_gb_s": 0.5}
    machine = in_tiles(1, 1, kinds=kinds, chip=chip, timing={"step_ns": 10.0, "clock": "own"})
    allocation = {"copies": {"a": 1, "b": 4}, "kind": {"a": "digital", "b": "analog"}}
    placement = rramalloc.place(HAND, allocation, hardware=machine)
    cost = rramalloc.chiplet_cost(HAND, allocation, placement)
    assert [operator.compute for group in cost.groups for operator in group.operators.values()] == [
        16.0,
        10.0,
    ]
    with pytest.raises(MisplacedError, match="kind is digital, the allocation has analog"):
        rramalloc.verify(HAND, allocation | {"kind": {"a": "analog", "b": "analog"}}, placement=placement)


def test_the_map_draws_a_tile_as_its_kind_has_room_and_names_kinds() -> None:
    """Two arrays lie side by side in a tile of `small`; the only one of a tile of `large` fills it."""
    large = {"arrays_per_tile": 1}
    document = in_tiles(2, 2).to_dict()
    document["kinds"][1]["chip"] = large
    hardware = as_hardware(document, None, None)
    chart = chip_map(rramalloc.place(HAND, rramalloc.optimize(HAND, hardware=hardware, progress=False)))
    assert chart is not None
    assert "Row by row, a chip has 2 tiles of kind small, then 2 tiles of kind large." in chart.note
    boxes = chart.panels[0].layers[1].data
    sides = {"small": (0.47 * 0.92 / 2, 0.47 * 0.92), "large": (0.47 * 0.92, 0.47 * 0.92)}
    assert set(boxes["kind"]) == set(sides)
    for kind, across, down in zip(boxes["kind"], boxes["across"], boxes["down"], strict=True):
        assert (across, down) == pytest.approx(sides[kind], abs=1e-4)
