"""`place`: whatever is optimised for a chip can be placed on it; the same arguments, the same placement."""

from __future__ import annotations

import re
from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest
from commands.place.machines import chain, chip, machine, place_of, random_chip
from hypothesis import given, settings
from laws.packing import placeable
from laws.strategies import ANY, by_name, random_blocks, random_copies, random_network, randoms

import rramalloc
from rramalloc.choices import MAPPINGS
from rramalloc.commands.place.arrange import construct
from rramalloc.commands.place.check import check_placement
from rramalloc.errors import BudgetError, CapacityError, SpecError
from rramalloc.hardware.preset_files import preset_names
from rramalloc.hardware.tables import Counting, Timing
from rramalloc.mapping.demand import Storage
from rramalloc.mapping.options import MappingOptions
from rramalloc.mapping.tiles import Tiles
from rramalloc.network.network import Network
from rramalloc.timing.stage_graph import StageGraph

FIRST_FIT = Counting(groups="diagonal", classifiers="host", row_blocks="first_fit")


def with_demand(*demand: int) -> Network:
    """A 1 x 1 convolution of one input row and 2 * d columns per demand d, for arrays of 1 x 2 lines."""
    nodes = [{"name": "input", "op": "input", "shape": [1, 3, 3]}]
    nodes += [
        {"name": f"c{number}", "op": "conv", "inputs": ["input"], "out_channels": 2 * arrays, "kernel": 1}
        for number, arrays in enumerate(demand)
    ]
    return Network.build("demands", nodes)


@settings(max_examples=40, deadline=None)
@given(randoms)
def test_what_optimize_returns_can_be_placed(random: Random) -> None:
    """docs/sources/peers.md: with a chip given, `optimize` must return only what `place` can place."""
    network = random_network(random, nodes=6, extent=5)
    timing = random.choice((None, Timing(step_ns=10.0)))
    hardware = machine(random_chip(random), random.choice(((4, 2), (8, 8), (3, 5))), timing)
    mapping = random.choice(MAPPINGS)
    if mapping == "sdk":  # arrays that copies share, and copies of many arrays
        hardware = machine(random_chip(random), random.choice(((16, 12), (40, 30))))
    try:
        allocation = rramalloc.optimize(
            network, random.randint(1, 120), hardware=hardware, fc="crossbar", mapping=mapping, work=1
        )
    except BudgetError:
        return
    except SpecError:
        if mapping == "whole_kernel":
            return  # a kernel has more positions than an array has wordlines
        raise
    placement = rramalloc.place(network, allocation, work=random.choice((0, 1)), seed=random.randint(0, 9))
    check_placement(placement, network, allocation.copies, blocks=allocation.blocks)
    assert len(placement.arrays) == allocation.arrays.used
    per_copy = {
        (array.layer, array.replica + more) for array in placement.arrays for more in range(array.copies)
    }
    assert per_copy == {
        (layer.name, replica) for layer in allocation.layers for replica in range(layer.copies)
    }
    if mapping == "sdk":
        assert rramalloc.verify(network, allocation, placement).verdict == "equal"


@settings(max_examples=100, deadline=None)
@given(randoms)
def test_construction_places_all_arrays_and_cuts_only_where_it_must(random: Random) -> None:
    room, count = random.randint(1, 9), random.randint(1, 8)
    demand = np.array([random.randint(1, 12) for _ in range(random.randint(1, 5))])
    copies = np.array([random.randint(1, 4) for _ in demand])
    filled, proven = construct(demand, copies, Tiles(count, room))
    if filled is None:
        assert proven
        assert int((demand * copies).sum()) > count * room
        return
    assert np.bincount(filled.stage, filled.arrays).tolist() == (demand * copies).tolist()
    assert np.bincount(filled.tile, filled.arrays).max() <= room
    if (demand <= room).all() and copies.sum() <= count:
        assert (filled.arrays == demand[filled.stage]).all()


@settings(max_examples=200, deadline=None)
@given(randoms)
def test_what_may_not_be_cut_lies_whole_in_tiles_or_is_not_found(random: Random) -> None:
    """Against trying every way: nothing is found that does not exist, and little that exists is not found."""
    tiles = Tiles(random.randint(1, 5), random.randint(1, 14))
    demand = np.array([random.randint(1, tiles.arrays + 1) for _ in range(random.randint(1, 4))])
    copies = np.array([random.randint(1, 4) for _ in demand])
    filled, proven = construct(demand, copies, tiles, cut=False)
    if filled is None:
        too_much = int((demand * copies).sum()) > tiles.count * tiles.arrays or demand.max() > tiles.arrays
        assert proven == too_much
        return
    assert placeable(tiles, demand, copies)
    assert sorted(zip(filled.stage.tolist(), filled.arrays.tolist(), strict=True)) == sorted(
        (stage, int(arrays)) for stage, arrays in enumerate(demand) for _ in range(copies[stage])
    )
    assert np.bincount(filled.tile, filled.arrays).max() <= tiles.arrays


def test_row_blocks_stay_in_a_tile_where_the_target_keeps_them() -> None:
    """Copies of 2 row blocks of 3 arrays in tiles of 4: a row block each, though a copy fits no tile."""
    nodes = [
        {"name": "input", "op": "input", "shape": [2, 3, 3]},
        {"name": "c", "op": "conv", "inputs": ["input"], "out_channels": 6, "kernel": 1},
    ]
    network = Network.build("rows", nodes)
    loose = machine(chip(4, (2, 3)), (1, 2))
    kept = loose.model_copy(update={"counting": FIRST_FIT})
    placement = rramalloc.place(network, {"c": 3}, hardware=kept)
    tiles: dict[tuple[int, int], set[Any]] = {}
    for array in placement.arrays:
        tiles.setdefault((array.replica, array.row_block), set()).add(place_of(array))
    assert len(tiles) == 6
    assert all(len(places) == 1 for places in tiles.values())
    assert len(rramalloc.place(network, {"c": 4}, hardware=loose).arrays) == 24
    with pytest.raises(CapacityError, match=r"found no way to keep every row block .* row_blocks = \"any"):
        rramalloc.place(network, {"c": 4}, hardware=kept)


def test_too_many_arrays_are_refused_with_what_is_there() -> None:
    network = with_demand(4)
    with pytest.raises(CapacityError, match=r"needs 12 arrays, the chips have 6 .*'c0' with 3 copies of 4"):
        rramalloc.place(network, {"c0": 3}, hardware=machine(chip(6, (1, 1)), (1, 2)))
    with pytest.raises(SpecError, match=r"has no \[chip\]"):
        rramalloc.place(network, {"c0": 1}, hardware="plain")
    huge = machine(chip(2**20, (1, 1)), (1, 2))
    with pytest.raises(SpecError, match="limit of one placement"):
        rramalloc.place(with_demand(*[65536] * 9), {}, hardware=huge)


@settings(max_examples=35, deadline=None)
@given(randoms)
def test_any_modes_can_be_placed(random: Random) -> None:
    """As many arrays as the model counts."""
    network = random_network(random, nodes=6, extent=5, ops=(*ANY, "conv_transpose"))
    plain = StageGraph.build(network, MappingOptions(fc="crossbar"))
    chosen = random_blocks(random, plain)
    graph = plain.in_blocks(chosen)
    hardware = machine(random_chip(random), random.choice(((16, 12), (40, 30), (64, 20))))
    copies = np.array(random_copies(random, graph))
    needed = Storage(graph.stages, None, network, hardware).costs(graph.modes, copies)
    allocation = {
        "copies": by_name(graph, copies),
        "block": dict(zip(graph.names, map(list, chosen), strict=True)),
    }
    try:
        placement = rramalloc.place(network, allocation, hardware=hardware, fc="crossbar", work=1)
    except CapacityError:
        return
    assert Counter(a.layer for a in placement.arrays) == dict(zip(graph.names, needed.tolist(), strict=True))
    assert placement.blocks == dict(zip(graph.names, chosen, strict=True))
    assert rramalloc.verify(network, allocation, placement).verdict == "equal"


def test_what_modes_cannot_be_is_refused() -> None:
    network, board = chain(4, 6, kernel=3), machine(chip(8, (4, 4)), (32, 32), Timing(step_ns=1.0))
    blocks = {"copies": {"c1": 2}, "block": {"c1": [2, 2]}}
    with pytest.raises(SpecError, match="place them with 'sdk', or leave the blocks out"):
        rramalloc.place(network, blocks, hardware=board, mapping="im2col")
    with pytest.raises(SpecError, match="use 'kernel_split' to fold, or do without"):
        rramalloc.optimize(network, 40, hardware=board, mapping="sdk", fold=True)


@pytest.mark.parametrize("preset", [name for name in preset_names() if rramalloc.load_hardware(name).chip])
def test_what_optimize_returns_is_placed_on_every_preset(preset: str) -> None:
    """A small network on all arrays of the chip, and one on the fewest that hold it."""
    for network, arrays in (("resnet8", None), ("squeezenet", "x1")):
        try:
            found = rramalloc.optimize(network, arrays, hardware=preset, work=1, progress=False)
        except BudgetError:
            assert network == "squeezenet"  # the chip is too small for it, whoever places it
            continue
        placed = rramalloc.place(network, found, work=0)
        stored = Counter(layer for layer, _ in {(array.layer, array.replica) for array in placed.arrays})
        assert stored == found.copies


@pytest.mark.parametrize("clock", ["common", "own"])
def test_slow_links_are_named_with_what_was_tried_and_helps(clock: str) -> None:
    """A bandwidth hides transfers as the warning says, and fewer copies are as fast as it says."""
    own: dict[str, Any] = {"clock": "own", "tick_ns": 1.0} if clock == "own" else {}
    board = chip(2, (2, 3), hop_ns_tile=1.0, bandwidth_tile_gb_s=0.5)
    hardware = machine(board, (16, 16), Timing(step_ns=20.0, **own))
    network, copies = chain(16, 16, 16, 16, side=8), {"c1": 3, "c2": 3, "c3": 3, "c4": 3}
    slow = rramalloc.place(network, copies, hardware=hardware)
    warning = slow.warnings[-1]
    assert warning.startswith(f"transfers make the network {slow.factor:.3g} times as slow")
    assert slow.to_dict()["warnings"][-1] == warning
    busiest = slow.links[0]
    assert "link {},{} to {},{} of chip 0,0".format(*busiest.start, *busiest.end) in warning
    wider, latency = re.findall(
        r"bandwidth_tile_gb_s = ([\d.]+) in \[chip\] \(now 0.5\): ([\d.]+ [a-z]+)", warning
    )[0]
    with_it = hardware.with_values({"chip.bandwidth_tile_gb_s": float(wider)})
    assert (rramalloc.place(network, copies, hardware=with_it).latency_ns or 0) <= ns(latency) * 1.01
    told = re.search(r"fewer copies, (.*?): ([\d.]+ [a-z]+)", warning)
    if told is not None:
        fewer = copies | {name: int(n) for n, name in re.findall(r"(\d+) of (c\d) \(now 3\)", told[1])}
        assert fewer != copies
        assert (rramalloc.place(network, fewer, hardware=hardware).latency_ns or 0) <= ns(told[2]) * 1.01
    assert "optimize --placed, which looks for copies that suit links (not tried here)" in warning


def ns(text: str) -> float:
    """Return the nanoseconds of a duration as a warning gives it."""
    number, unit = text.split()
    return float(number) * {"ns": 1.0, "us": 1e3, "ms": 1e6}[unit]


def test_a_number_of_tiles_leaves_the_last_sites_of_the_mesh_empty() -> None:
    """Five tiles are sites 0,0 to 1,1 of 2 x 3; three chips of 2 x 2 stand in a row."""
    fields = {"crossbar": {"wordlines": 1, "bitlines": 2, "cell_bits": 8}, "name": "five", "source": "hand"}
    fields |= {"precision": {"weight_bits": 8, "input_bits": 8, "output_bits": 8, "signed": "offset"}}
    network = with_demand(1, 1, 1, 1, 1)
    for counted, where in (({"tiles": 5}, "tile"), ({"tiles": 1, "chips": 5}, "chip")):
        hardware = {**fields, "chip": {"arrays_per_tile": 1, **counted}}
        for work in (0, 5):
            placed = rramalloc.place(network, {"copies": {}}, hardware=hardware, work=work)
            used = {getattr(array, where) for array in placed.arrays}
            assert used == {(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)}
        with pytest.raises((BudgetError, CapacityError)):
            rramalloc.place(with_demand(6), {"copies": {}}, hardware=hardware)
        (first, *others) = placed.arrays
        moved = placed.model_copy(
            update={"arrays": (first.model_copy(update={where: (1, 2)}), *others)},
        )
        with pytest.raises(rramalloc.MisplacedError, match=rf"{where} .* is an empty site: there are 5"):
            check_placement(moved, network, {})
