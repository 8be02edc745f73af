"""Transfer time, worked by hand, and the optimisation that counts it."""

from __future__ import annotations

import itertools
import json
import math
import os
import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from commands.place.machines import chain, chip, machine, memory
from hypothesis import given, settings
from laws.strategies import ANY, random_problem, randoms

import rramalloc
from rramalloc.allocation.allocation import Allocation
from rramalloc.allocation.case import Case
from rramalloc.allocation.optimize import objective_of
from rramalloc.allocation.question import Question
from rramalloc.commands.place import placer
from rramalloc.commands.place.layout import Flows
from rramalloc.commands.place.mesh import Mesh
from rramalloc.commands.place.placement import PlacedArray
from rramalloc.commands.place.transfer import TileRoutes, transfer
from rramalloc.errors import BudgetError, LimitError, SpecError, TargetError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import as_hardware
from rramalloc.hardware.tables import Energy, Timing
from rramalloc.network.network import Network
from rramalloc.search import links
from rramalloc.search.objective import Latency
from rramalloc.search.target import Target
from rramalloc.search.work import Work
from rramalloc.timing.access import StepTime, Transfer
from rramalloc.timing.stage_graph import StageGraph

STEP = Timing(step_ns=100.0)


def transferred(
    hardware: Hardware, network: Network, copies: list[int], *held: tuple[int, int, int]
) -> Transfer:
    """held: (stage, arrays, tile), where every array holds all rows of its columns: no partial sums."""
    assert hardware.chip is not None
    sites, graph = Mesh.of(hardware.chip).all_sites(), StageGraph.build(network)
    arrays = [
        PlacedArray(
            chip=tuple(sites[at, :2].tolist()),
            tile=tuple(sites[at, 2:].tolist()),
            index=0,
            rows=1,
            columns=1,
            layer=graph.names[stage],
            replica=replica,
            row_block=0,
            column_block=0,
        )
        for stage, count, at in held
        for replica in range(count)
    ]
    routes = TileRoutes.of(arrays, graph.names, Flows.of(graph, hardware), np.array(copies))
    return transfer(routes, hardware)


def test_transfer_by_hand() -> None:
    """c1 (2 copies, 8 bytes a pixel) in tile 0, c2 (1 copy, 4 bytes) in tile 2, c3 in tile 3.

    Links 0-1 and 1-2 carry 16 bytes a step, 8 ns at 2 bytes a ns, after 2 hops of 3 ns; link 2-3 carries 4.
    """
    hardware = machine(chip(4, (1, 4), hop_ns_tile=3.0, bandwidth_tile_gb_s=2.0), timing=STEP)
    told = transferred(hardware, chain(8, 4, 2), [2, 1, 1], (0, 2, 0), (1, 1, 2), (2, 1, 3))
    assert told.fixed_ns.tolist() == [6.0, 3.0, 0.0]
    assert told.ns_per_copy.tolist() == [4.0, 2.0, 0.0]
    assert told.of_stages(np.array([2, 1, 1])).tolist() == [14.0, 5.0, 0.0]


def test_partial_sums_travel_before_results() -> None:
    """c1's blocks of rows lie in tiles 0 and 2 of a row, 4 columns each: sums of 4 bytes go to tile 2.

    The tile 0 holds two such blocks of rows, and adds them up before it sends. c2 in tile 3 reads from there
    alone: 2 hops of 3 ns and 4 bytes at 2 bytes a ns, then 1 hop and 8 bytes.
    c2, the last stage, adds up nothing. With two columns a weight the sums are half as large.
    """
    hardware = machine(chip(4, (1, 4), hop_ns_tile=3.0, bandwidth_tile_gb_s=2.0), timing=STEP)
    blocks = [("c1", 0, 0), ("c1", 1, 0), ("c1", 2, 2), ("c2", 0, 3)]
    arrays = [
        PlacedArray(
            chip=(0, 0),
            tile=(0, tile),
            index=0,
            layer=layer,
            replica=0,
            row_block=row,
            column_block=0,
            rows=8,
            columns=4,
        )
        for layer, row, tile in blocks
    ]
    graph, copies = StageGraph.build(chain(8, 4)), np.array([1, 1])
    for slices, sent_ns in ((1, 2), (2, 1)):
        crossbar = hardware.crossbar.model_copy(update={"cell_bits": 8 // slices})
        sliced = hardware.model_copy(update={"crossbar": crossbar})
        routes = TileRoutes.of(arrays, graph.names, Flows.of(graph, sliced), copies)
        assert transfer(routes, sliced).of_stages(copies).tolist() == [6 + sent_ns + 3 + 4, 0]
    backwards = [each.model_copy(update={"layer": {"c1": "c2", "c2": "c1"}[each.layer]}) for each in arrays]
    last = transfer(TileRoutes.of(backwards, graph.names, Flows.of(graph, hardware), copies), hardware)
    assert last.fixed_ns.tolist() == [9.0, 6.0]


@settings(max_examples=20)
@given(random=randoms)
def test_searches_bound_and_reach_the_least_latency_with_transfer(random: Random) -> None:
    """The latency of every allocation is worked out here: makespan * max(compute, memory, transfer)."""
    case = random_problem(random, 8, 5, ANY, 4)
    compute, stages = random.choice((1.0, 10.0, 30.0)), range(len(case.problem.demand))
    memory_ns = [random.choice((0.0, 0.5, 2.0)) for _ in stages]
    fixed, each = ([random.choice((0.0, 1.0, 4.0, 7.3)) for _ in stages] for _ in range(2))
    latencies = [
        steps * max(compute, *(max(memory_ns[i] * row[i], fixed[i] + each[i] * row[i]) for i in stages))
        for row, steps in zip(case.allocations.tolist(), case.makespans.tolist(), strict=True)
    ]
    known = Transfer(np.array(fixed), np.array(each))
    step_time = StepTime(compute, np.array(memory_ns), shared=False, transfer=known)
    problem = replace(case.problem, step_time=step_time)
    candidate = Latency(problem).solve(Work(work=10), 0)
    chosen = (case.allocations == candidate.choice.copies).all(axis=1)
    step_ns = step_time.step_ns(candidate.choice.copies)
    assert candidate.lower_bound <= min(latencies) * (1 + 1e-9)
    assert np.array(latencies)[chosen][0] == pytest.approx(case.makespans[chosen][0] * step_ns)
    assert np.array(latencies)[chosen][0] == pytest.approx(min(latencies), rel=1e-3)


SLOW = {"hop_ns_tile": 2.0, "bandwidth_tile_gb_s": 0.05}
NETWORK = chain(16, 16, 16, side=8, kernel=3)
OWN = Timing(step_ns=100.0, clock="own", tick_ns=1.0)
WIDE = chip(1, (3, 3), hop_ns_tile=3.0, bandwidth_tile_gb_s=0.02)
WRITTEN: dict[str, tuple[Network, Hardware]] = {
    "shared clock": (NETWORK, machine(chip(8, (3, 3), **SLOW), (64, 16), STEP)),
    "memory": (NETWORK, machine(chip(8, (3, 3), **SLOW), (64, 16), STEP, memory=memory(50.0))),
    "own clocks": (NETWORK, machine(chip(8, (3, 3), **SLOW), (64, 16), OWN)),
    # the partial sums of one layer in several tiles slow its batches down, and no edge is delayed
    "own clock of one layer": (chain(32, side=8, kernel=3), machine(WIDE, (4, 16), OWN)),
}


@cache
def written(name: str) -> Allocation:
    """The allocation of one of these, placed."""
    network, hardware = WRITTEN[name]
    return rramalloc.optimize(network, hardware=hardware, placed=True, work=4)


@pytest.mark.parametrize("name", WRITTEN)
def test_a_file_that_counts_transfers_is_timed_with_them_again(name: str, tmp_path: Path) -> None:
    """Whatever reads the file; on other hardware the transfers are not known, which is said."""
    network, hardware = WRITTEN[name]
    allocation = written(name)
    plain = rramalloc.simulate(
        network, {layer.name: layer.copies for layer in allocation.layers}, hardware=hardware
    )
    assert plain.latency_ns is not None
    assert allocation.latency_ns is not None
    assert allocation.latency_ns > plain.latency_ns
    allocation.save(tmp_path / "a.json")
    for again in (
        rramalloc.simulate(network, tmp_path / "a.json"),
        rramalloc.simulate(network, allocation, hardware=hardware),
        rramalloc.explain(network, allocation=tmp_path / "a.json", what_if=[], work=1),
    ):
        assert (again.makespan, again.interval) == (allocation.makespan, allocation.interval)
        assert (again.step_ns, again.latency_ns) == (allocation.step_ns, allocation.latency_ns)
    again = rramalloc.place(network, allocation)  # the places of the file, not others
    assert again.latency_ns == pytest.approx(allocation.latency_ns)
    assert again.interval_ns == pytest.approx(allocation.interval * (allocation.step_ns or hardware.tick_ns))
    other = hardware.with_values({"crossbar.wordlines": 65})
    without = rramalloc.simulate(network, allocation, hardware=other)
    assert sum("transfer between tiles" in warning for warning in without.warnings) == 1
    note = rramalloc.explain(network, allocation=allocation, hardware=other, what_if=[], work=1).warnings
    assert any("is left out" in words for words in note)


@pytest.mark.parametrize("name", WRITTEN)
def test_other_links_are_timed_between_the_same_places(name: str) -> None:
    """As `place` times them, which reads the places of the file; without a limit links take no time."""
    network, hardware = WRITTEN[name]
    allocation = written(name)
    for changed in ({"chip.bandwidth_tile_gb_s": 0.1}, {"chip.hop_ns_tile": 40.0}):
        simulated = rramalloc.simulate(network, allocation, set_values=changed)
        placed = rramalloc.place(network, allocation, set_values=changed)
        assert simulated.latency_ns == pytest.approx(placed.latency_ns)
    free = {"chip.bandwidth_tile_gb_s": 1e9, "chip.hop_ns_tile": 0.0}
    copies = {layer.name: layer.copies for layer in allocation.layers}
    alone = rramalloc.simulate(network, copies, hardware=hardware)
    assert rramalloc.simulate(network, allocation, set_values=free).latency_ns == pytest.approx(
        alone.latency_ns, abs=3.0 * hardware.tick_ns
    )


@pytest.mark.parametrize(
    ("column", "value", "words"), [(5, 99, "the file places"), (3, 99, "a tile does not hold")]
)
def test_places_that_do_not_hold_the_allocation_are_refused(
    column: int, value: int, words: str, tmp_path: Path
) -> None:
    network, document = NETWORK, written("shared clock").to_dict()
    document["places"][0]["pieces"][0][column] = value
    (tmp_path / "a.json").write_text(json.dumps(document))
    with pytest.raises(SpecError, match=words):
        rramalloc.place(network, tmp_path / "a.json")


LINKS = """
name = "slow links"
source = "made for a test"
crossbar = { wordlines = 256, bitlines = 256, cell_bits = 4 }
precision = { weight_bits = 8, input_bits = 8, output_bits = 8, signed = "offset" }
timing = { step_ns = 80.0 }
chip = { arrays_per_tile = 32, tiles = [6, 6], hop_ns_tile = 2.0, bandwidth_tile_gb_s = 0.02 }
"""


def test_more_arrays_are_never_slower(tmp_path: Path) -> None:
    """One copy a layer takes 89.76 us; what 20 arrays reach, more reach, however slow the links."""
    (tmp_path / "links.toml").write_text(LINKS)
    found = [
        rramalloc.optimize("resnet8", arrays, hardware=tmp_path / "links.toml", placed=True, work=5)
        for arrays in (13, 20, 60)
    ]
    latencies = [each.latency_ns or 0.0 for each in found]
    assert latencies[0] == pytest.approx(89_760.0)
    assert latencies[1] <= 32_240.0 * (1 + 1e-9)
    assert latencies[2] <= latencies[1]


def drawn_with_slow_links(random: Random) -> tuple[Network, Hardware]:
    """Up to six convolutions, some side by side, and tiles whose links take longer than a step."""
    side = random.choice((4, 6, 8, 12))
    nodes: list[dict[str, Any]] = [
        {"name": "c", "op": "input", "shape": [random.choice((1, 3, 8)), side, side]}
    ]
    for number in range(random.randint(2, 6)):
        before = nodes[-1] if random.random() < 0.8 else random.choice(nodes)
        kernel = random.choice((1, 3))
        conv = {"name": f"c{number}", "op": "conv", "inputs": [before["name"]], "kernel": kernel}
        nodes.append(conv | {"out_channels": random.choice((4, 8, 16, 32)), "pads": kernel // 2})
    own: Any = {"clock": "own", "tick_ns": 1.0} if random.random() < 0.4 else {}
    timing = Timing(step_ns=random.choice((10.0, 50.0, 100.0)), **own)
    hop_ns, gb_s = random.choice((0.0, 1.0, 5.0)), random.choice((0.02, 0.1, 0.3, 1.0))
    tiles = chip(
        random.choice((2, 4, 8)), (random.choice((4, 6, 8)), 8), hop_ns_tile=hop_ns, bandwidth_tile_gb_s=gb_s
    )
    lines = random.choice(((32, 16), (64, 16), (16, 16)))
    return Network.build("drawn", nodes), machine(tiles, lines, timing)


SOAK = int(os.environ.get("RRAMALLOC_SOAK_PLACED", "0"))


def only_first_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the search for better places of an allocation, which takes most of the time."""
    arrange = placer.arrange
    monkeypatch.setattr(placer, "arrange", lambda *given, **more: arrange(*given, **{**more, "work": 0}))


@pytest.mark.parametrize("seed", range(SOAK) if SOAK else (11,))
def test_no_value_rises_with_the_arrays(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow links, where the best has few arrays and a larger budget must find it, too."""
    if not SOAK:
        only_first_places(monkeypatch)
    network, hardware = drawn_with_slow_links(Random(seed))
    least, latest = Case.of(network, {"hardware": hardware}).minimum, math.inf
    work = 5 if SOAK else 1  # of which the walk is done long before the last number of arrays
    for factor in (1.0, 1.15, 1.4, 1.6, 2.3, 3.0, 5.0) if SOAK else (5.0, 6.0):
        found = rramalloc.optimize(network, int(factor * least), hardware=hardware, placed=True, work=work)
        assert found.latency_ns is not None
        assert found.latency_ns <= latest * (1 + 1e-9)
        latest = found.latency_ns


def test_a_quick_placement_does_not_depend_on_what_was_placed_again() -> None:
    """Else a larger budget, which has other allocations placed again, finds less on its walk."""
    network, hardware = drawn_with_slow_links(Random(0))
    problem = Case.of(network, {"hardware": hardware}, placed=True).problem(24)
    found = problem.choice(np.array([3, 2]), problem.graph.modes)
    assert problem.placer is not None
    latencies = []
    for asked in ({"quick": True}, {"again": True}, {"quick": True}, {}):
        choice = problem.placer.placed(found, **asked).choice
        latencies.append(choice.makespan * choice.problem.time.step_ns(choice.copies, choice.modes))
    assert latencies[1] < latencies[0] == latencies[2]
    assert latencies[3] == latencies[1]


@pytest.mark.parametrize(
    ("walk", "much"), [(links._WALK, links._MUCH), (1e-6, links._MUCH), (1e-6, math.inf)]
)
def test_a_few_arrays_more_than_the_fewest_are_used(
    walk: float, much: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifteen arrays more than 194: seven copies more of the first layer, 2 arrays each and 64 of 65 pixels.

    One copy takes 64 steps for them, eight copies 8, each with its hops of 50 ns. The fastest point of the
    front is as fast. A walk without work is not worth what the search without links finds, placed; without
    that it still takes long steps, to 1, 2, 4, 8 arrays more.
    """
    only_first_places(monkeypatch)
    monkeypatch.setattr(links, "_WALK", walk)
    monkeypatch.setattr(links, "_MUCH", much)
    monkeypatch.setattr(links, "_MOST_TIMED", 0)  # no enumeration
    nodes = [
        {"name": "image", "op": "input", "shape": [16, 8, 8]},
        {"name": "first", "op": "conv", "inputs": ["image"], "kernel": 1, "out_channels": 32},
        {"name": "last", "op": "conv", "inputs": ["first"], "kernel": 8, "out_channels": 36},
    ]
    asked: dict[str, Any] = {"hardware": machine(chip(8, (6, 6), hop_ns_tile=50.0), (32, 16), STEP)}
    network = Network.build("few", nodes)
    least = Case.of(network, asked).minimum
    one = rramalloc.optimize(network, least, placed=True, work=1, **asked).latency_ns
    more = rramalloc.optimize(network, least + 15, placed=True, work=1, **asked).latency_ns
    front = rramalloc.pareto(network, least + 15, placed=True, work=1, **asked)
    assert one is not None
    assert more is not None
    assert least == 2 + 64 * 3
    assert more < one / 3
    assert min(point.latency_ns or math.inf for point in front.points) <= more * (1 + 1e-9)


BY_HAND = Hardware.model_validate(
    {
        "name": "by hand",
        "source": "by hand",
        "crossbar": {"wordlines": 16, "bitlines": 16, "cell_bits": 1},
        "precision": {"weight_bits": 1, "input_bits": 1, "output_bits": 8, "signed": "offset"},
        "timing": {"step_ns": 10.0},
        "energy": {"read_pj": 10.0, "leakage_mw": 0.0},
        "chip": {"arrays_per_tile": 1, "tiles": 12, "hop_ns_tile": 1.0, "bandwidth_tile_gb_s": 0.65},
    }
)
AB = Network.build(
    "ab",
    [
        {"name": "in", "op": "input", "shape": [16, 2, 2]},
        {"name": "a", "op": "conv", "inputs": ["in"], "out_channels": 16, "kernel": 1},
        {"name": "b", "op": "conv", "inputs": ["a"], "out_channels": 32, "kernel": 1},
    ],
    source="by hand",
)


def test_a_limit_of_power_is_left_out_of_the_bound() -> None:
    """By hand in docs/sources/model.md 21: 3 steps of 2 hops and 8 bytes at 0.65 bytes a ns, 120 pJ."""
    limited: dict[str, Any] = {"hardware": BY_HAND, "at_most": {"power_mw": 2.9}, "progress": False}
    assert rramalloc.optimize(AB, 6, **limited).latency_ns == 50.0
    found = rramalloc.optimize(AB, 6, placed=True, **limited)
    assert found.latency_ns == pytest.approx(3 * (2 + 8 / 0.65), rel=1e-3)
    assert (found.lower_bound, found.energy_pj) == (30.0, 120.0)
    assert [layer.copies for layer in found.layers] == [2, 2]


def test_a_what_if_that_moves_tiles_places_the_allocation_anew() -> None:
    """Two layers of one array, a tile each: 4 bytes at 0.05 bytes/ns and a hop of 1 ns, in each of 5 steps.

    A tile more changes nothing: theirs are neighbours, as before.
    """
    slow = chip(1, (1, 4), hop_ns_tile=1.0, bandwidth_tile_gb_s=0.05)
    hardware, network = machine(slow, (16, 16), Timing(step_ns=10.0)), chain(4, 4, side=2)
    found = rramalloc.optimize(network, 2, hardware=hardware, placed=True)
    assert found.latency_ns == pytest.approx(5 * 81)
    explained = rramalloc.explain(network, allocation=found, what_if=["chip.tiles=[1, 5]"], work=1)
    (what_if,) = explained.what_if
    assert what_if.as_it_is is not None
    assert what_if.as_it_is.latency_ns == pytest.approx(5 * 81)
    assert what_if.gain == 0.0


def test_a_front_with_links_is_of_the_time_they_take() -> None:
    """More arrays may take fewer, longer steps: such points are dominated, though not in steps."""
    front = rramalloc.pareto(
        chain(16, 8, 8, side=3),
        hardware=machine(chip(4, (2, 3), **SLOW), (16, 32), STEP),
        placed=True,
        work=1,
    )
    values = [(point.arrays, point.latency_ns) for point in front.points]
    assert len(values) > 1
    for fewer, more in itertools.pairwise(values):
        assert fewer[0] < more[0]
        assert (fewer[1] or 0.0) > (more[1] or 0.0)


def test_kinds_that_some_budgets_of_the_walk_do_not_hold_are_placed() -> None:
    """a takes 9 arrays of 16 rows, of which the chip has 6: it lies on digital units, whatever the budget."""
    nodes: list[dict[str, Any]] = [
        {"name": "in", "op": "input", "shape": [16, 4, 4]},
        {"name": "a", "op": "conv", "inputs": ["in"], "out_channels": 8, "kernel": 3, "pads": 1},
        {"name": "b", "op": "conv", "inputs": ["a"], "out_channels": 8, "kernel": 1},
        {"name": "c", "op": "conv", "inputs": ["a"], "out_channels": 8, "kernel": 1},
        {"name": "sum", "op": "add", "inputs": ["b", "c"]},
    ]
    hardware = as_hardware(
        {
            "name": "units",
            "crossbar": {"wordlines": 16, "bitlines": 16, "cell_bits": 4},
            "precision": {"weight_bits": 4, "input_bits": 4, "output_bits": 8, "signed": "offset"},
            "timing": {"step_ns": 10.0, "clock": "own", "tick_ns": 1.0},
            "chip": {"arrays_per_tile": 2, "tiles": 6, "hop_ns_tile": 0.5, "bandwidth_tile_gb_s": 0.2},
            "kinds": [
                {"name": "small", "tiles": 3, "energy": {"area_um2": 3.0}},
                {"name": "digital", "tiles": 2, "processor": {"macs_per_ns": 64.0, "area_um2": 90.0}},
            ],
        }
    )
    found = rramalloc.optimize(Network.build("units", nodes), hardware=hardware, placed=True, work=1)
    assert [layer.kind for layer in found.layers if layer.name == "a"] == ["digital"]
    assert found.lower_bound <= (found.latency_ns or 0.0)


@pytest.mark.parametrize(
    ("asked", "error"),
    [({"target_interval": "300ns", "sequences": 3}, LimitError), ({"target_ns": 200.0}, TargetError)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_links_keep_from_a_target_is_said_where_the_chip_is_full(
    asked: dict[str, Any], error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """c1 takes 5 arrays of 16 rows for its 72 rows, c2 one: all 6; more have no places there."""
    only_first_places(monkeypatch)
    network = chain(8, 8, side=4, kernel=3)
    hardware = machine(chip(1, (2, 3), bandwidth_tile_gb_s=0.65), (16, 32), Timing(step_ns=10.0))
    with pytest.raises(error, match=r"target|interval_ns"):
        rramalloc.optimize(
            network, hardware=hardware, placed=True, feeds_back="sequences" in asked, work=1, **asked
        )


@pytest.mark.parametrize("method", ["milp", "bottleneck", "auto"])
def test_no_method_is_slower_than_one_copy_a_layer(method: Any) -> None:
    """One copy of each has its three arrays in one tile: 5 steps of 10 ns, and nothing goes over a link."""
    tiles = {"chip.arrays_per_tile": 3, "chip.tiles": 4, "chip.bandwidth_tile_gb_s": 0.1}
    found = rramalloc.optimize(AB, 9, hardware=BY_HAND.with_values(tiles), placed=True, method=method, work=2)
    assert found.latency_ns == pytest.approx(50.0)


@pytest.mark.parametrize(
    "asked",
    [
        Question(),
        Question(inputs=3),
        Question(objective="interval"),
        Question(objective="energy"),
        Question(objective="edp"),
        Question(objective="sequential"),
        Question(objective="arrays", target=Target(target_ns=200.0)),
        Question(objective="arrays", target=Target(target_interval_ns=100.0)),
    ],
)
def test_no_placed_allocation_is_below_a_bound(asked: Question, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every allocation of drawn problems, placed, against the walk and the search of small problems.

    As a soak of so many problems for each question, of up to 300 allocations, it prints how far the values
    of both are above the least.
    """
    enumerated, random = links.every_choice, Random(f"{asked.objective}")
    only_first_places(monkeypatch)
    most, spare = (300, 7) if SOAK else (25, 2)
    compared, gaps = 0, list[tuple[bool, float]]()
    wanted = 2 * SOAK or 6
    for _ in range(20 * wanted):
        if compared >= wanted:
            break
        of_tiles = chip(
            random.choice((2, 3)),
            (2, random.choice((2, 3))),
            hop_ns_tile=1.0,
            bandwidth_tile_gb_s=random.choice((0.2, 2.0)),
        )
        clock: Any = random.choice(({}, {"clock": "own", "tick_ns": 1.0}))
        energy = Energy(read_pj=1.0, leakage_mw=0.5, area_um2=10.0)
        hardware = machine(of_tiles, (64, 16), Timing(step_ns=10.0, **clock), energy=energy)
        network = chain(*(random.choice((4, 8, 16)) for _ in range(3)), side=3, kernel=random.choice((1, 3)))
        mapping: Any = random.choice(("im2col", "sdk"))
        case = Case.of(network, {"hardware": hardware, "mapping": mapping}, placed=True)
        try:
            objective = objective_of(case.problem(case.minimum + random.randint(1, spare)), asked)
        except BudgetError:
            continue
        assert isinstance(objective, links.WithLinks)
        every = enumerated(objective.alone.problem, Work())
        if every is None or len(every) > most:
            continue
        values = [objective.value(found) for found in every if objective.allows(found)]
        best = min(values, default=math.inf)
        for search in (enumerated, lambda *_: None):
            monkeypatch.setattr(links, "every_choice", search)
            try:
                answer = objective.solve(Work(work=10), 0)
            except TargetError as error:
                if error.proven and values:
                    pytest.fail(f"{values} are reached: {error}")
                compared += SOAK > 0
                continue
            value = objective.value(answer.choice)
            assert objective.allows(answer.choice)
            assert answer.lower_bound <= best * (1 + 1e-9)
            assert value == best or search is not enumerated or SOAK
            gaps.append((search is enumerated, value / best - 1))
            compared += 1
    assert compared >= wanted
    for is_enumerated in (True, False):
        own = [gap for search, gap in gaps if search is is_enumerated] or [0.0]
        print(asked.objective, len(own), f"mean {np.mean(own):.2%}, largest {max(own):.2%}")


def copies_and_transfer_ns(
    allocation: Allocation, hardware: Hardware
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """An allocation of NETWORK, placed here: copies and transfer time of every stage."""
    copies = np.array([layer.copies for layer in allocation.layers])
    graph = StageGraph.build(NETWORK)
    arrays = rramalloc.place(NETWORK, allocation, hardware=hardware).arrays
    routes = TileRoutes.of(arrays, graph.names, Flows.of(graph, hardware), copies)
    return copies, transfer(routes, hardware).of_stages(copies)


@pytest.mark.parametrize("bandwidth", [None, 1.0], ids=["no memory", "memory"])
def test_placed_latency_is_that_of_its_own_placement(bandwidth: float | None) -> None:
    more = {} if bandwidth is None else {"memory": memory(bandwidth)}
    hardware = machine(chip(8, (3, 3), **SLOW), (64, 16), STEP, **more)
    allocation = rramalloc.optimize(NETWORK, 64, hardware=hardware, placed=True, work=4)
    assert allocation.placed is not None
    copies, transfer_ns = copies_and_transfer_ns(allocation, hardware)
    assert list(allocation.placed.transfer_ns.values()) == pytest.approx(transfer_ns.tolist())
    step_time = StepTime.of(StageGraph.build(NETWORK), hardware)
    assert step_time is not None
    step_ns = max(step_time.step_ns(copies), float(transfer_ns.max()))
    assert allocation.step_ns == pytest.approx(step_ns)
    assert allocation.latency_ns == pytest.approx(allocation.makespan * step_ns)
    plain = rramalloc.optimize(
        NETWORK, 64, hardware=hardware, work=3
    )  # its first search has 70 % of the work
    assert plain.latency_ns is not None
    assert plain.step_ns is not None
    bound_ns = plain.lower_bound * (1.0 if plain.objective_unit == "ns" else plain.step_ns)
    assert allocation.objective_unit == "ns"
    assert bound_ns * (1 - 1e-9) <= allocation.lower_bound <= allocation.latency_ns


def test_a_limit_of_time_holds_for_placements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where placing takes 6,000 s each: within 15,000 s two, within 11,000 s one."""
    now, place = [0.0], placer.arrange

    def slow(*given: Any, **more: Any) -> Any:
        now[0] += 6e3
        return place(*given, **{**more, "work": 0})

    monkeypatch.setattr(placer, "arrange", slow)
    monkeypatch.setattr(links, "every_choice", lambda *_: None)
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + now[0])
    monkeypatch.setattr("rramalloc.search.work.time", clock)
    hardware = rramalloc.load_hardware("isaac").with_values(
        {"chip.hop_ns_tile": 500.0, "chip.bandwidth_tile_gb_s": 0.05}
    )
    asked: dict[str, Any] = {"hardware": hardware, "placed": True, "work": 20, "progress": False}
    for limit_s, placements in ((None, 3), (15e3, 2), (11e3, 1)):
        now[0] = 0.0
        rramalloc.optimize("alexnet", 1500, time_limit_s=limit_s, **asked)
        made = round(now[0] / 6e3)
        assert made == placements if limit_s is not None else made >= placements
