"""`sequential`: the least sum of batches, by hand, by trying everything and by a plain dynamic program."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from laws.strategies import ALL_PIXELS, ANY, Enumerated, enumerated, randoms
from methods.small import conv, copies, problem

from rramalloc.mapping.demand import Storage
from rramalloc.search import sequential
from rramalloc.search.problem import Problem
from rramalloc.search.work import Work

pytestmark = pytest.mark.quick


def side_by_side(windows: list[int], demand: list[int], budget: int) -> Problem:
    """Stages of so many windows, without edges."""
    nodes = []
    for index, count in enumerate(windows):
        nodes.append({"name": f"i{index}", "op": "input", "shape": [1, 1, count]})
        nodes.append(conv(f"c{index}", f"i{index}"))
    return problem(1, nodes, demand, budget)


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        pytest.param(3, [1, 1], id="the minimum"),
        pytest.param(4, [2, 1], id="2 + 6; 1 + 2 * 2 does not fit"),
        pytest.param(5, [1, 2], id="4 + 3 = 7; [3, 1] has 2 + 6"),
        pytest.param(6, [2, 2], id="2 + 3 = 5; [4, 1] has 1 + 6"),
        pytest.param(7, [2, 2], id="[3, 2] and [1, 3] are no better: the sixth array is enough"),
        pytest.param(16, [4, 6], id="every window"),
    ],
)
def test_by_hand(budget: int, expected: list[int]) -> None:
    """4 and 6 windows, demand 1 and 2."""
    assert copies(sequential, side_by_side([4, 6], [1, 2], budget)) == expected


@settings(max_examples=100)
@given(case=enumerated(ops=ANY + ALL_PIXELS))
def test_least_sum_then_fewest_arrays(case: Enumerated) -> None:
    sums = (-(-case.problem.graph.windows // case.allocations)).sum(axis=1)
    answer = sequential.solve(case.problem, Work(), 0)
    found = answer.choice.copies
    assert "the fewest there are" in answer.proof
    assert int((-(-case.problem.graph.windows // found)).sum()) == sums.min()
    assert int(found @ case.problem.demand) == case.arrays[sums == sums.min()].min()


def least_sum(windows: list[int], demand: list[int], budget: int) -> int:
    """Array by array: least[a] is the least sum of the stages so far within a arrays."""
    least = np.zeros(budget + 1)
    for count, each in zip(windows, demand, strict=True):
        following = np.full(budget + 1, np.inf)
        for d in range(1, min(count, budget // each) + 1):
            following[d * each :] = np.minimum(
                following[d * each :], least[: budget + 1 - d * each] + -(-count // d)
            )
        least = following
    return int(least[budget])


@settings(max_examples=40)
@given(random=randoms)
def test_plain_dynamic_program(random: Random) -> None:
    stages = random.randint(1, 14)
    windows = [random.choice((1, random.randint(1, 20), random.randint(50, 400))) for _ in range(stages)]
    demand = [random.choice((1, random.randint(1, 9), random.randint(10, 60))) for _ in range(stages)]
    budget = sum(demand) + random.randint(0, 900)
    case = side_by_side(windows, demand, budget)
    position = [case.graph.names.index(f"c{index}") for index in range(stages)]
    ordered = np.zeros(stages, dtype=np.int64)
    ordered[position] = demand
    case = Problem(case.graph, ordered, budget, Storage.of_copies(ordered))
    found = sequential.solve(case, Work(), 0).choice.copies
    assert case.is_allowed(found)
    assert int((-(-case.graph.windows // found)).sum()) == least_sum(windows, demand, budget)
