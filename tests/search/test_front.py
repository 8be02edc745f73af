"""Fronts against problems so small that every allocation within the budget is tried."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from laws.strategies import Enumerated, enumerated

from rramalloc.search.archive import Archive
from rramalloc.search.front import Front, front_of
from rramalloc.search.objective import FewestArrays, Makespan
from rramalloc.search.problem import Problem
from rramalloc.search.work import Work


def staircase(arrays: np.ndarray, values: np.ndarray) -> list[tuple[int, float]]:
    """Every non-dominated (arrays, value), fewest arrays first."""
    points: list[tuple[int, float]] = []
    for place in np.lexsort((values, arrays)):
        if not points or values[place] < points[-1][1] * (1 - 1e-9):
            points.append((int(arrays[place]), float(values[place])))
    return points


def front(problem: Problem, stop: Work, seed: int) -> Front:
    """The front of arrays and makespan."""
    return front_of(FewestArrays(problem), Makespan(problem), stop, seed)


def least(case: Enumerated, values: np.ndarray, budget: int) -> float:
    """Smallest value with at most so many arrays."""
    return float(values[case.allocations @ case.problem.demand <= budget].min())


@settings(max_examples=15)
@given(case=enumerated(), seed=st.integers(0, 3), work=st.sampled_from([2, 20, 2000]))
def test_every_point_is_there_and_no_bound_is_above_the_optimum(
    case: Enumerated, seed: int, work: int
) -> None:
    """docs/sources/model.md 8: all non-dominated (arrays, makespan) points up to the budget."""
    problem, arrays = case.problem, case.allocations @ case.problem.demand
    found = front(problem, Work(work=work), seed)
    points = [(problem.arrays(point.found.copies), point.value) for point in found.points]
    assert found.resolution == 1
    untils = [used - 1 for used, _ in points[1:]] + [problem.budget]
    for point, until in zip(found.points, untils, strict=True):
        assert problem.is_allowed(point.found.copies)
        assert point.lower_bound <= least(case, case.makespans, until) <= point.value
    proven = all(point.lower_bound == point.value for point in found.points)
    assert proven or work < 2000
    assert not proven or points == staircase(arrays, case.makespans)


@settings(max_examples=8)
@given(case=enumerated(), seed=st.integers(0, 2))
def test_one_core_and_two_give_the_same_front(case: Enumerated, seed: int) -> None:
    works = [Work(work=10, cores=cores) for cores in (1, 2)]
    one, two = (front(case.problem, work, seed) for work in works)
    assert len(one.points) == len(two.points)
    for first, second in zip(one.points, two.points, strict=True):
        assert (first.found.copies == second.found.copies).all()
        assert first[1:] == second[1:]
    assert works[0].spent_s == works[1].spent_s


@given(case=enumerated(), data=st.data())
def test_archive_keeps_the_fastest_for_every_number_of_arrays(case: Enumerated, data: st.DataObject) -> None:
    """Offered in any order, in one archive or in two that are merged."""
    rows = data.draw(st.permutations(range(min(len(case.allocations), 60))))
    parts = [Archive(case.problem), Archive(case.problem)]
    for place, row in enumerate(rows):
        parts[place % 2].propose(case.allocations[row], int(case.makespans[row]))
    whole = parts[0].copy()
    whole.merge(parts[1])
    arrays = case.allocations[rows] @ case.problem.demand
    shown = [(step.arrays, float(step.makespan)) for step in whole.steps]
    assert shown == staircase(arrays, case.makespans[rows])
    for step in whole.steps:
        assert whole.at(step.until)[:3] == step[:3]
