"""What holds an allocation on several kinds of arrays back: by hand, and against every allocation."""

from __future__ import annotations

from random import Random

import pytest
from commands.place.test_kinds import in_tiles
from laws.kinds import HAND, KindsCase, hardware

import rramalloc
from rramalloc.errors import SpecError

pytestmark = pytest.mark.quick


def test_by_hand() -> None:
    """docs/sources/model.md 18: 2 small and 1 large take 5 steps on 250 um2, 2 and 2 take 3 on 500."""
    made = rramalloc.explain(HAND, hardware=hardware(2, 1))
    assert [(layer.name, layer.kind, layer.arrays) for layer in made.layers] == [
        ("a", "small", 1),
        ("b", "large", 1),
    ]
    assert (made.cheaper.point, made.cheaper.proven) == (None, True)
    point = made.faster.point
    assert point is not None
    assert (point.value, point.area_um2, point.by_kind) == (3, 500.0, {"small": 2, "large": 2})
    assert made.faster.proven
    assert "500 um2 (+250 um2) of 4 arrays (+2), small 2, large 2" in made.faster.words
    assert "more than the 1 large of the chip" in made.faster.words
    assert made.kinds is not None
    assert [(own.kind, own.used, own.arrays, own.more, own.saves) for own in made.kinds] == [
        ("large", 1, 1, 1, 2.0),
        ("small", 1, 2, 1, 0.0),
    ]
    (change,) = [own for own in made.what_if if own.gain]
    assert (change.change, change.have, change.more_um2) == ("kinds.large.arrays=2", "1", 250.0)


def test_without_a_search_of_changes_kinds_have_no_price() -> None:
    made = rramalloc.explain(HAND, hardware=hardware(2, 1), what_if=())
    assert made.what_if == ()
    assert made.kinds is not None
    assert [(own.words, own.saves) for own in made.kinds] == [
        ("small: 1 of 2 arrays", None),
        ("large: 1 of 1 arrays", None),
    ]


def test_a_change_of_one_kind_is_that_of_set() -> None:
    own = hardware(3, 3, timing={"step_ns": 10.0, "clock": "own", "tick_ns": 1.0})
    found = rramalloc.optimize(HAND, hardware=own)
    change = {"kinds.large.timing.step_ns": 5.0}
    made = rramalloc.explain(HAND, allocation=found, what_if=[change])
    (what_if,) = made.what_if
    set_values = ["kinds.large.timing.step_ns=5.0"]
    as_it_is = rramalloc.simulate(HAND, found, set_values=set_values)
    again = rramalloc.optimize(HAND, hardware=own, set_values=set_values, start=found)
    assert what_if.as_it_is is not None
    assert what_if.searched is not None
    assert (what_if.as_it_is.makespan, what_if.searched.makespan) == (as_it_is.makespan, again.makespan)
    assert what_if.searched.makespan <= what_if.as_it_is.makespan < found.makespan
    with pytest.raises(SpecError, match="kinds: small, large"):
        rramalloc.explain(HAND, allocation=found, what_if=["kinds.huge.arrays=3"])


@pytest.mark.parametrize("seed", range(4))
def test_points_beside_it_are_those_of_all_allocations(seed: int) -> None:
    """By area over any number of arrays of each kind; without areas within the numbers of the kinds."""
    random = Random(seed)
    case = KindsCase.drawn(random)
    document, found = random.choice(list(case.allocations()))
    every = list((case.with_numbers(99) if case.by_area else case).allocations())
    costs = [(own.area_um2 if case.by_area else own.arrays, own.makespan) for _, own in every]
    now = found.area_um2 if case.by_area else found.arrays
    assert now is not None
    made = rramalloc.explain(case.network, allocation=document, hardware=case.hardware, what_if=())
    less = [(steps, cost) for cost, steps in costs if cost is not None and cost < now]
    faster = [(cost, steps) for cost, steps in costs if steps < found.makespan]
    for neighbour, point in ((made.cheaper, min(less, default=None)), (made.faster, None)):
        if neighbour is made.faster:
            best = min(faster, default=None)
            point = None if best is None else (best[1], best[0])
        own = neighbour.point
        if own is None or point is None:
            assert own is None
            assert point is None
            continue
        cost = own.area_um2 if case.by_area else own.arrays
        assert (own.makespan, cost) == pytest.approx(point)
        assert neighbour.proven


def test_more_of_a_kind_on_a_chip_are_more_tiles() -> None:
    """A chip of 4 sites has room for a tile more of either kind beside 1 + 1, none beside 2 + 2."""
    for tiles, changes in ((1, {"kinds.small.tiles=2", "kinds.large.tiles=2"}), (2, set())):
        found = rramalloc.optimize(HAND, hardware=in_tiles(tiles, tiles), progress=False)
        explained = rramalloc.explain(HAND, allocation=found)
        assert {each.change for each in explained.what_if if each.change.startswith("kinds.")} == changes
