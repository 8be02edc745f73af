"""`gain` on cases worked by hand."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from laws.strategies import ALL_PIXELS, ANY, random_problem, randoms
from methods.small import conv, copies, node, problem

from rramalloc.allocation.case import Case
from rramalloc.hardware.loader import load_hardware
from rramalloc.importers import load
from rramalloc.methods import gain
from rramalloc.search.kernels.climb import Climb, go_on
from rramalloc.search.kernels.schedule import Schedule
from rramalloc.search.problem import Problem
from rramalloc.search.work import Work
from rramalloc.timing.simulate import makespan_of


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        pytest.param(2, [1, 1], id="17 steps: 16, then 1"),
        pytest.param(3, [2, 1], id="8 batches: 9 steps"),
        pytest.param(4, [3, 1], id="6 batches: 7 steps"),
        pytest.param(5, [4, 1], id="4 batches: 5 steps"),
        pytest.param(6, [4, 1], id="3 batches need 6 copies"),
        pytest.param(7, [6, 1], id="3 batches: 4 steps"),
        pytest.param(10**6, [16, 1], id="every window"),
    ],
)
def test_one_stage_feeds_another(budget: int, expected: list[int]) -> None:
    """16 windows, pooled into one."""
    nodes = [conv("c1", "in"), node("p", "maxpool", "c1", kernel=4, stride=4), conv("c2", "p")]
    assert copies(gain, problem(4, nodes, [1, 1], budget)) == expected


@pytest.mark.parametrize(
    ("budget", "expected", "makespan"),
    [
        pytest.param(21, [1, 1], 5, id="one stage alone gains nothing"),
        pytest.param(22, [2, 2], 3, id="both together do"),
        pytest.param(44, [4, 4], 2, id="every window"),
    ],
)
def test_stages_that_wait_for_each_other(budget: int, expected: list[int], makespan: int) -> None:
    """4 windows each, demand 1 and 10. Alone, c1 is not waited for, and c2 waits for c1's batches."""
    case = problem(2, [conv("c1", "in"), conv("c2", "c1")], [1, 10], budget)
    found = gain.solve(case, Work(), 0).choice.copies
    assert found.tolist() == expected
    assert makespan_of(case.graph, found) == makespan


@settings(max_examples=40)
@given(random=randoms)
def test_more_work_is_never_worse(random: Random) -> None:
    case = random_problem(random, 6, 5, ("conv", "conv", "add", "maxpool"), 4).problem
    reached = [makespan_of(case.graph, gain.solve(case, Work(work=w), 0).choice.copies) for w in (0, 1, 100)]
    assert reached == sorted(reached, reverse=True)


def test_no_work_at_all() -> None:
    case: Problem = Case(load("vgg16"), load_hardware("plain")).problem(2048)
    answer = gain.solve(case, Work(work=0), 0)
    assert answer.choice.copies.tolist() == [1] * 13
    assert "stopped after the work allowed" in answer.proof


@settings(max_examples=30)
@given(random=randoms)
def test_a_climb_in_small_steps_is_that_in_one(random: Random) -> None:
    """A look at the clock between any two moves changes nothing."""
    case = random_problem(random, 7, 5, ANY + ALL_PIXELS, 5).problem
    edges, climbs = case.graph.flat_binding, [Climb.of(case.smallest) for _ in range(2)]
    for climb, effort in zip(climbs, (1, 10**9), strict=True):
        schedule = Schedule.of_copies(edges)
        while go_on(edges, case.limits, 10**6, effort, climb, schedule):
            pass
    assert climbs[0].best.tolist() == climbs[1].best.tolist()
    assert climbs[0].at.tolist() == climbs[1].at.tolist()
