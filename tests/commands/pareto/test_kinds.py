"""Fronts of several kinds of arrays: by hand, and against every allocation, also where searches find them."""

from __future__ import annotations

from random import Random

import pytest
from laws.kinds import HAND, KindsCase, hardware

import rramalloc
from rramalloc.errors import SpecError

pytestmark = pytest.mark.quick


def test_by_hand() -> None:
    """docs/sources/model.md 18: a and b once take 5 steps, twice 3, four times 2; a on small, b on large."""
    front = rramalloc.pareto(HAND, hardware=hardware(9, 9))
    points = [(point.across, point.value, point.by_kind) for point in front.points]
    assert points == [
        (250.0, 5, {"small": 1, "large": 1}),
        (500.0, 3, {"small": 2, "large": 2}),
        (1000.0, 2, {"small": 4, "large": 4}),
    ]
    assert (front.against, front.against_unit, front.proven, front.minimum) == ("area", "um2", 3, None)
    assert front.points[0].kind == {"a": "small", "b": "large"}
    again = rramalloc.simulate(HAND, front.points[1].allocation, hardware=front.hardware)
    assert (again.makespan, again.area_um2) == (3, 500.0)


def test_without_areas_arrays_count_in_total() -> None:
    front = rramalloc.pareto(HAND, {"small": 2, "large": 3}, hardware=hardware(None, None, areas=False))
    assert (front.against, [(point.across, point.value) for point in front.points]) == (
        "arrays",
        [(2, 5), (4, 3)],
    )
    with pytest.raises(SpecError, match="nothing says how many arrays of kind 'small'"):
        rramalloc.pareto(HAND, hardware=hardware(None, None, areas=False))


def test_area_is_the_axis_that_arrays_are_counted_in() -> None:
    with pytest.raises(SpecError, match="counted by their area"):
        rramalloc.pareto(HAND, hardware=hardware(9, 9), objective="area")
    front = rramalloc.pareto(
        HAND, hardware=hardware(None, None), at_most=["area_um2=600"], baselines=["gain"]
    )
    assert [point.across for point in front.points] == [250.0, 500.0]
    assert (front.budget, front.baselines) == (6, ())
    assert "no methods are put beside" in front.warnings[-1]


@pytest.mark.parametrize("searched", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_points_are_those_of_all_allocations(
    seed: int, searched: bool, request: pytest.FixtureRequest
) -> None:
    """Both values of a point are the best of all, and what is said to be proven is, with a search too."""
    random = Random(seed)
    case = KindsCase.drawn(random)
    if searched:
        request.getfixturevalue("no_enumeration")
    objectives = ["makespan", "interval", "latency_ns"] + (["energy", "edp"] if case.by_area else [])
    objective = random.choice(objectives)
    against = "area" if case.by_area else "arrays"
    field = {"energy": "energy_pj"}.get(objective, objective)
    every = []
    for _, found in case.allocations():
        cost = found.area_um2 if case.by_area else found.arrays
        every.append((cost, getattr(found, field)))
    front = rramalloc.pareto(case.network, hardware=case.hardware, objective=objective, work=20)
    assert front.against == against
    points = [(point.across, point.value) for point in front.points]
    best = [own for own in sorted(set(every)) if not any(_dominates(each, own) for each in every)]
    exact = objective in ("makespan", "interval", "latency_ns") or not searched
    if exact:
        assert len(points) == len(best)
        assert [own for point in points for own in point] == pytest.approx(
            [own for one in best for own in one]
        )
    for at, point in enumerate(front.points):
        end = front.points[at + 1].across if at + 1 < len(points) else float("inf")
        assert point.lower_bound <= min(value for cost, value in every if cost < end) * (1 + 1e-9)
        if point.proven:
            assert points[at] in [pytest.approx(own) for own in best]
    if not searched:
        assert front.proven == len(points)


def _dominates(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether one is no worse in both, and better by more than rounding in one of them."""
    no_worse = all(own <= its * (1 + 1e-12) for own, its in zip(one, other, strict=True))
    return no_worse and any(own < its * (1 - 1e-12) for own, its in zip(one, other, strict=True))


def test_little_work_is_kept() -> None:
    """Searches until the work is used up, then the cheapest modes of every budget, with their bound."""
    front = rramalloc.pareto("alexnet", hardware=hardware(60_000, 16_000), work=1)
    assert front.work_s is not None
    assert front.work_s < 0.5  # of 0.05; 48 searches of one unit take five times as much
    assert len(front.points) > 10
    assert all(point.lower_bound <= point.value for point in front.points)
