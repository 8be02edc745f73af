"""Schedules on chiplets: values worked by hand, every schedule of small cases, bounds, hostile input."""

from __future__ import annotations

import json
from itertools import combinations, product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

import rramalloc
from rramalloc.commands.chiplet.chiplet_optimize import ChipletSchedule, chiplet_optimize, describe_network
from rramalloc.commands.chiplet.cost import described_cost
from rramalloc.commands.chiplet.description import ChipletChip, Description
from rramalloc.commands.chiplet.places import ChipletPlaces, hops_of_sets
from rramalloc.commands.chiplet.schedule_problem import ScheduleProblem
from rramalloc.commands.chiplet.schedule_search import ScheduleSearch, schedule_lower_bound
from rramalloc.errors import RramallocError, SpecError
from rramalloc.hardware.loader import as_hardware
from rramalloc.mapping.options import DEFAULT_MAPPING
from rramalloc.records import parse
from rramalloc.search.work import Work

Json = dict[str, Any]
EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "resnext_block.json"


def document(operators: Json, edges: list[Json], chiplets: list[int], units: list[int]) -> Json:
    chip = {
        "chiplets": chiplets,
        "units": units,
        "hop_cycles_inside": 1,
        "hop_cycles_between": 5,
        "bandwidth_inside": 8,
        "bandwidth_between": 2,
    }
    return {"chip": chip, "groups": [[name] for name in operators], "operators": operators, "edges": edges}


def described(given: Json) -> Description:
    return parse(TypeAdapter(Description), given, "d")


def best(operators: Json, edges: list[Json], chiplets: list[int], units: list[int]) -> ChipletSchedule:
    return chiplet_optimize(described(document(operators, edges, chiplets, units)), work=40)


def drawn(seed: int, count: int, chiplets: list[int], units: list[int], parts: list[int]) -> Json:
    """A random description: operators that can be split, edges from earlier to later ones."""
    random = Random(seed)
    operators = {}
    for number in range(count):
        work = random.randint(50, 400)
        operators[f"o{number}"] = {
            "compute": [work // part for part in parts],
            "units": parts,
            "bytes": [0, *(random.randint(0, 200) for _ in parts[1:])],
            "transfers": [random.randint(0, 9) for _ in parts],
            "reduce_to": ["none", *(random.choice(["none", "last"]) for _ in parts[1:])],
        }
    edges = [
        {
            "from": f"o{source}",
            "to": f"o{to}",
            "transfers": random.randint(0, 20),
            "bytes": [[random.randint(0, 500) for _ in parts] for _ in parts],
        }
        for source, to in combinations(range(count), 2)
        if random.random() < 0.4
    ]
    return document(operators, edges, chiplets, units)


def test_a_chain_stays_where_it_is() -> None:
    """Operators that run one after the other share a unit, so nothing moves: 10 + 20."""
    operators = {"v": {"compute": 10, "units": 1}, "u": {"compute": 20, "units": 1}}
    found = best(operators, [{"from": "v", "to": "u", "transfers": 100}], [1, 2], [1, 1])
    assert (found.total, found.lower_bound, found.gap) == (30, 30, 0)
    assert found.proof.startswith("proven optimal")


def every_submesh(chip: Json) -> list[tuple[int, Json]]:
    """(units, submesh and first) of everything that the format allows."""
    (tall, wide), (high, broad) = chip["chiplets"], chip["units"]
    found = []
    ranges = [range(1, tall + 1), range(1, wide + 1), range(1, high + 1), range(1, broad + 1)]
    for m1, n1, m2, n2 in product(*ranges):
        for top, left, row, column in product(range(tall), range(wide), range(high), range(broad)):
            fits = top + m1 <= tall and left + n1 <= wide and row + m2 <= high and column + n2 <= broad
            if fits and (m1 * n1 == 1 or (row, column) == (0, 0)):
                place = {"submesh": [[m1, n1], [m2, n2]], "first": [[top, left], [row, column]]}
                found.append(((m1 * n1 - 1) * high * broad + m2 * n2, place))
    return found


def every_grouping(names: list[str]) -> list[list[list[str]]]:
    """All ordered lists of groups."""
    found = []
    for numbers in product(range(len(names)), repeat=len(names)):
        if set(numbers) == set(range(max(numbers) + 1)):
            groups = [
                [n for n, at in zip(names, numbers, strict=True) if at == group] for group in set(numbers)
            ]
            found.append(groups)
    return found


def cheapest(given: Json) -> float:
    """The least cost of all schedules, one by one, by the code of `chiplet cost`."""
    names, places = list(given["operators"]), every_submesh(given["chip"])
    ways = [
        [
            {"strategy": strategy} | place
            for strategy, units in enumerate(given["operators"][name]["units"])
            for size, place in places
            if size == units
        ]
        for name in names
    ]
    groupings = []
    for groups in every_grouping(names):
        try:
            described(given | {"groups": groups})
        except RramallocError:
            continue
        groupings.append(groups)
    least = float("inf")
    for chosen in product(*ways):
        operators = {name: given["operators"][name] | way for name, way in zip(names, chosen, strict=True)}
        for groups in groupings:
            cost = described_cost(described(given | {"groups": groups, "operators": operators}), "d")
            if not cost.warnings:  # which say that operators of a group share a unit
                least = min(least, cost.total)
    return least


@pytest.mark.parametrize("seed", [0, 1, 3, 4])
def test_small_cases_equal_all_schedules(seed: int) -> None:
    given = drawn(seed, 3, [1, 2], [1, 2], [1, 2])
    found = chiplet_optimize(described(given), seed=seed, work=100)
    assert found.total == pytest.approx(cheapest(given))
    assert found.lower_bound <= found.total
    assert found.total <= min(baseline.total for baseline in found.baselines) + 1e-9


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
def test_bounds_hold_and_costs_agree(seed: int) -> None:
    """No random schedule is below the bound, and each costs what `chiplet cost` says."""
    problem = ScheduleProblem.of(described(drawn(seed, 7, [2, 2], [2, 2], [1, 2, 4, 8])), "d")
    search, bound = ScheduleSearch(problem, Work(), seed), schedule_lower_bound(problem)
    for schedule in (search.greedy(), search.random_schedule(), search.random_schedule()):
        total = search.total(schedule)
        cost = described_cost(problem.described(schedule.groups, schedule.chosen), "d")
        assert cost.total == pytest.approx(total)
        assert cost.warnings == ()
        assert bound <= total + 1e-6
    improved = search.improve([search.greedy()], 0.1, bound)
    cost = described_cost(problem.described(improved.groups, improved.chosen), "d")
    assert cost.warnings == ()
    assert bound - 1e-6 <= cost.total <= search.total(search.greedy()) + 1e-6


def test_hops_between_places_are_those_of_routing() -> None:
    chip = ChipletChip(chiplets=(2, 2), units=(2, 3), hop_cycles_inside=1.0, hop_cycles_between=5.0)
    places = ChipletPlaces.of(chip, range(1, 25), ())
    random = np.random.default_rng(0)
    units = [submesh.members(chip) for submesh in places.submeshes]
    assert len(units) == len(set(places.submeshes)) == 4 * 3 * 6 + (4 + 1) * 6
    for here, there in random.integers(len(units), size=(200, 2)).tolist():
        hops = hops_of_sets(units[here], units[there])
        assert places.cycles[here, there] == pytest.approx(hops.mean(*chip.hop_cycles))
        assert places.within[here, there] == (hops.between == 0)
        last = hops_of_sets(units[here].last, units[there])
        assert places.cycles[len(places.index) + here, there] == pytest.approx(last.mean(*chip.hop_cycles))


def test_the_resnext_block() -> None:
    """A hill climb over places alone comes from 139,539 to 97,348 cycles."""
    found = rramalloc.chiplet_optimize(EXAMPLE, work=20)
    assert found.lower_bound <= found.total <= 97_348
    assert {one.name: round(one.total) for one in found.baselines}["as described"] == 139_539
    assert len(found.to_frame()) == len(found.description.operators)
    assert "lower" not in str(found)
    assert "<table" in found._repr_html_()


def test_the_same_seed_gives_the_same_schedule(tmp_path: Path) -> None:
    given = described(drawn(5, 9, [2, 2], [2, 2], [1, 2, 4]))
    first, second = (chiplet_optimize(given, seed=3, work=4) for _ in range(2))
    assert first == second
    first.save(tmp_path / "s.json")
    assert rramalloc.chiplet_cost(tmp_path / "s.json").total == first.total


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"units": [1, 99]}, None),
        ({"units": [99, 99]}, "no submesh of the chip has so many units"),
        ({"units": [1, 2, 4]}, "entries, there are 3 strategies"),
        ({"strategy": 2}, "there are 2 from 0"),
        ({"strategy": [1, 1]}, "a single 1"),
        ({"compute": [1, -1]}, "compute"),
    ],
)
def test_hostile_operators(change: Json, reason: str | None) -> None:
    given = drawn(1, 2, [1, 2], [1, 2], [1, 2])
    given["operators"]["o0"] |= change
    if reason is None:
        assert chiplet_optimize(described(given), work=1).gap >= 0
        return
    with pytest.raises(SpecError, match=reason):
        chiplet_optimize(described(given), work=1)


def test_a_strategy_in_use_has_an_entry_in_every_table() -> None:
    operators = {"v": {"compute": 1, "units": 1, "strategy": 3}, "u": {"compute": 2, "units": 1}}
    edges = [{"from": "v", "to": "u", "latency": [[10], [75]]}]
    with pytest.raises(SpecError, match=r"edges\[0\]: its table is 2 x 1, 4 x 1 strategies are in use"):
        best(operators, edges, [1, 2], [1, 1])


NET: Json = {
    "format": "rramalloc-network/1",
    "name": "net",
    "nodes": [
        {"name": "input", "op": "input", "shape": [16, 8, 8]},
        {"name": "a", "op": "conv", "inputs": ["input"], "out_channels": 32, "kernel": 3, "pads": 1},
        {"name": "b", "op": "conv", "inputs": ["a"], "out_channels": 16, "kernel": 3, "pads": 1},
    ],
}
CHIP = """
name = "four"
source = "test"
crossbar = {wordlines = 128, bitlines = 128, cell_bits = 16}
precision = {weight_bits = 16, input_bits = 16, output_bits = 16, signed = "offset"}
timing = {step_ns = 100.0}
[chip]
arrays_per_tile = 4
tiles = [1, 2]
chips = [1, 1]
hop_ns_tile = 1.0
bandwidth_tile_gb_s = 32.0
"""


@pytest.fixture
def hardware(tmp_path: Path) -> Path:
    path = tmp_path / "four.toml"
    path.write_text(CHIP)
    return path


def test_a_network_on_tiles(tmp_path: Path, hardware: Path) -> None:
    """a: 144 rows, 32 columns: 2 arrays, 2 copies in a tile: 64 windows / 2 * 100 ns = 3200 ns.

    Outputs in two: 2 arrays each, as before, reading everything twice. Windows in two: 4 of 8 rows each,
    1600 ns, reading 4 - 1 + 3 = 6 of 8 rows twice: 1.5. Inputs in two: 72 rows, 1 array, 4 copies: 1600 ns,
    and 4096 bytes of partial sums. a -> b: 32 * 64 values of 2 bytes.
    """
    path = tmp_path / "net.json"
    path.write_text(json.dumps(NET))
    made, _ = describe_network(rramalloc.load(path), as_hardware(hardware), DEFAULT_MAPPING)
    operator = made.operators["a"]
    assert operator.strategies == ("whole", "outputs / 2", "windows / 2", "inputs / 2")
    assert operator.compute == (3200, 3200, 1600, 1600)
    assert operator.bytes == (0, 0, 0, 4096)
    assert operator.reduce_to == ("none", "none", "none", "last")
    (edge,) = made.edges
    assert edge.bytes is not None
    # b reads 32 channels: 288 rows, 3 arrays, one copy; in two: 144 rows, 2 arrays, 2 copies
    assert made.operators["b"].compute == (6400, 6400, 3200, 3200)
    assert edge.bytes[0] == (4096, 8192, 6144, 4096)
    assert edge.transfers == 8
    found = rramalloc.chiplet_optimize(path, hardware=hardware)
    assert (found.description.unit, found.cost.unit) == ("ns", "ns")
    # windows / 2 of a (1600), then inputs / 2 of b: 3200 + 2048 / 32 + 8 hops, and 4096 / 32 + 8 between them
    # (of 4 pairs 2 move, by one hop each); or windows / 2 of b: 3200, and 6144 / 32 + 8 between them
    assert found.total == 1600 + min(3200 + 64 + 8 + 128 + 8, 3200 + 192 + 8)
    assert any("writing them is not counted" in warning for warning in found.warnings)


def test_what_a_network_needs(hardware: Path) -> None:
    with pytest.raises(SpecError, match="needs a hardware with"):
        rramalloc.chiplet_optimize(rramalloc.load("alexnet"))
    with pytest.raises(SpecError, match=r"needs \[chip\]"):
        rramalloc.chiplet_optimize("alexnet", hardware="plain")
    with pytest.raises(SpecError, match="blocks of windows, which chiplet optimize does not take"):
        rramalloc.chiplet_optimize("alexnet", hardware=hardware, mapping="sdk")
    with pytest.raises(SpecError, match="no split over up to 2 tiles"):
        rramalloc.chiplet_optimize("vgg16", hardware=hardware)
    with pytest.raises(SpecError, match="give no hardware"):
        rramalloc.chiplet_optimize(described(drawn(0, 2, [1, 1], [1, 2], [1, 2])), hardware=hardware)
