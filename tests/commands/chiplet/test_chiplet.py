"""Cost on chiplets: worked values of docs/sources/companions.md 2, brute force, hostile descriptions."""

from __future__ import annotations

import contextlib
import copy
import json
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from rramalloc.commands.chiplet.cost import (
    ChipletCost,
    OperatorWork,
    chiplet_cost,
    described_cost,
    systolic_cycles,
)
from rramalloc.commands.chiplet.description import ChipletChip, ChipUnit, Description
from rramalloc.commands.chiplet.places import UnitSet, hops_of_pairs, hops_of_sets
from rramalloc.commands.place.mesh import Hops
from rramalloc.errors import RramallocError, SpecError
from rramalloc.records import parse

pytestmark = pytest.mark.quick

Json = dict[str, Any]
EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "resnext_block.json"


def chip(**fields: Any) -> Json:
    return {"chiplets": [1, 2], "units": [1, 4], "hop_cycles_inside": 1, "hop_cycles_between": 5} | fields


def cost(tmp_path: Path, document: Json) -> ChipletCost:
    path = tmp_path / "description.json"
    path.write_text(json.dumps(document))
    return chiplet_cost(path)


def one(tmp_path: Path, operator: Json, **fields: Any) -> Any:
    found = cost(tmp_path, {"chip": chip(**fields), "groups": [["v"]], "operators": {"v": operator}})
    return found.groups[0].operators["v"]


def row(**fields: Any) -> Json:
    """All four units of the first chiplet."""
    return {"compute": 0, "submesh": [[1, 1], [1, 4]], "first": [[0, 0], [0, 0]]} | fields


@pytest.mark.parametrize(
    ("work", "side", "cycles"),
    [
        (OperatorWork(3, 3, 3), 4, 8),
        (OperatorWork(4, 9, 4), 4, 16),
        (OperatorWork(5, 3, 1), 4, 5 * 3 / 16 + 6),
        (OperatorWork(1, 3, 5), 4, 5 * 3 / 16 + 6),
        (OperatorWork(1, 1, 1), 1, 2),
        (OperatorWork(2, 2, 2), 1, 8),
    ],
)
def test_systolic_cycles(work: OperatorWork, side: int, cycles: float) -> None:
    assert systolic_cycles(work, side) == cycles


def test_worked_communication(tmp_path: Path) -> None:
    """s = (0, 1), R = (10, 25) -> 25."""
    found = one(tmp_path, {"compute": 0, "strategy": 1, "latency": [10, 25]})
    assert (found.communication, found.routing, found.cost) == (25, 0, 25)


def test_worked_reduction_of_a_row(tmp_path: Path) -> None:
    """Hops 3, 2, 1 to the last unit, 100 transfers: 100 * 6 / 3 = 200; 25 + 200 = 225."""
    found = one(tmp_path, row(strategy=1, latency=[10, 25], transfers=100, reduce_to="last"))
    assert (found.communication, found.routing, found.cost) == (25, 200, 225)


def between(**edge: Any) -> Json:
    """v on unit 1 of the first chiplet, u on the four of the second: hops 2, 3, 4, 5 inside and 1 between."""
    operators = {
        "v": {"compute": 1, "strategy": 1, "submesh": [[1, 1], [1, 1]], "first": [[0, 0], [0, 1]]},
        "u": {"compute": 2, "submesh": [[1, 1], [1, 4]], "first": [[0, 1], [0, 0]]},
    }
    edges = [{"from": "v", "to": "u", "latency": [[10], [75]], "transfers": 100} | edge]
    return {"chip": chip(), "groups": [["v"], ["u"]], "operators": operators, "edges": edges}


def test_worked_cost_between_operators(tmp_path: Path) -> None:
    """h1 = 100 * 14 / 4 = 350, h2 = 100 * 4 / 4 = 100; 75 + 350 * 1 + 100 * 5 = 925."""
    found = cost(tmp_path, between())
    assert found.between == (925,)
    assert (found.edges[0].communication, found.edges[0].routing) == (75, 850)
    assert found.total == 1 + 925 + 2


def test_worked_total(tmp_path: Path) -> None:
    """Groups 114, what lies between 3375: 3489."""
    operators = {"a": {"compute": 50}, "b": {"compute": 64}, "c": {"compute": 10, "latency": [20]}}
    edges = [{"from": "a", "to": "b", "latency": [[3000]]}, {"from": "c", "to": "b", "latency": [[375]]}]
    document = {"chip": chip(), "groups": [["a", "c"], ["b"]], "operators": operators, "edges": edges}
    found = cost(tmp_path, document)
    assert [group.cost for group in found.groups] == [50, 64]
    assert found.between == (3375,)
    assert found.total == 3489


@given(st.integers(0, 2**32))
def test_hops_agree_with_walking(seed: int) -> None:
    """Every step of the XY way is counted where it is taken."""
    random = Random(seed)
    grid = (random.randint(1, 3), random.randint(1, 3)), (random.randint(1, 3), random.randint(1, 3))
    board = ChipletChip(chiplets=grid[0], units=grid[1], hop_cycles_inside=1.0, hop_cycles_between=1.0)
    units: list[ChipUnit] = [
        ((chiplet[0], chiplet[1]), (at[0], at[1]))
        for chiplet in product(*map(range, board.chiplets))
        for at in product(*map(range, board.units))
    ]
    sources, ends = (random.sample(units, random.randint(1, len(units))) for _ in range(2))
    walked = Hops(
        *(
            sum(counts)
            for counts in zip(*(walk(board, *pair) for pair in product(sources, ends)), strict=True)
        )
    )
    assert hops_of_pairs(board, product(sources, ends)) == walked
    assert hops_of_sets(UnitSet(board, frozenset(sources)), UnitSet(board, frozenset(ends))) == walked


def walk(board: ChipletChip, start: ChipUnit, end: ChipUnit) -> tuple[int, int, int]:
    here = [board.along(start, axis) for axis in (0, 1)]
    there = [board.along(end, axis) for axis in (0, 1)]
    inside = crossed = 0
    for axis in (1, 0):
        while here[axis] != there[axis]:
            before = here[axis] // board.units[axis]
            here[axis] += 1 if there[axis] > here[axis] else -1
            crosses = here[axis] // board.units[axis] != before
            inside, crossed = inside + (not crosses), crossed + crosses
    return inside, crossed, int(start != end)


def test_the_shipped_resnext_block() -> None:
    """One unit a path: 3136 * 36 * 4 / 256 + 30; 1 x 1 layers: 196 * 256 * 128 / 256 + 30; the sum 3136."""
    found = chiplet_cost(EXAMPLE)
    assert len(found.groups[2].operators) == 32
    assert [group.cost for group in found.groups] == [0, 25118, 1794, 25118, 3136]
    assert found.total == 55166 + sum(found.between)
    assert sum(edge.cost for edge in found.edges) == pytest.approx(sum(found.between))
    assert {edge.communication for edge in found.edges if edge.to.startswith("path")} == {3136 * 4 / 32}


WRONG: list[tuple[tuple[Any, ...], Any, str]] = [
    (("chip", "units"), [0, 4], "units"),
    (("chip", "units"), [60000, 60000], "units, the limit is 65536"),
    (("chip", "hop_cycles_inside"), -1, "hop_cycles_inside"),
    (("chip", "hop_cycles_between"), 10**400, "hop_cycles_between"),
    (("groups",), [["v"]], "'u' is in no group"),
    (("groups",), [["v"], ["u", "v"]], "'v' is in groups"),
    (("groups",), [["u"], ["v"]], "groups run one after the other"),
    (("operators", "v", "strategy"), 2, "no entry for strategy 2"),
    (("operators", "v", "compute"), None, "either work or compute"),
    (("operators", "v", "submesh"), None, "belong together"),
    (("operators", "v", "first"), [[0, 0], [0, 4]], "which the chip does not have"),
    (("operators", "v", "submesh"), [[1, 3], [1, 1]], "must be unit"),
    (("operators", "u", "last"), [[0, 1], [0, 2]], "is .* of this submesh"),
    (("operators", "v", "bytes"), [1, 2], "needs chip.bandwidth_inside"),
    (("edges", 0, "latency"), [[1]], "no entry for strategy 1"),
    (("edges", 0, "pairs"), [[[[0, 0], [0, 0]], [[5, 5], [0, 0]]]], "the chip has no unit"),
    (("edges", 0, "bytes"), [[1], [1]], "exclude each other"),
]


@pytest.mark.parametrize(("at", "value", "reason"), WRONG, ids=[f"{w[0]}={str(w[1])[:20]}" for w in WRONG])
def test_what_is_wrong_is_named(at: tuple[Any, ...], value: Any, reason: str, tmp_path: Path) -> None:
    document: Any = copy.deepcopy(between())
    place = document
    for step in at[:-1]:
        place = place[step]
    place[at[-1]] = value
    with pytest.raises(SpecError, match=reason):
        cost(tmp_path, document)


@given(st.integers(0, 2**32))
def test_a_broken_description_is_an_error_or_a_cost(seed: int) -> None:
    """Any value of the example replaced by any other: never anything but a cost or a typed error."""
    random = Random(seed)
    document: Any = json.loads(json.dumps(between()))
    place = document
    while isinstance(place, dict | list) and place:
        key = random.choice(list(place) if isinstance(place, dict) else range(len(place)))
        if random.random() < 0.4 or not isinstance(place[key], dict | list):
            place[key] = random.choice([None, -1, 0, 10**30, 1.5, "x", [], {}, [[]], True])
            break
        place = place[key]
    with contextlib.suppress(RramallocError):
        assert described_cost(parse(TypeAdapter(Description), document, "d"), "d").total >= 0
