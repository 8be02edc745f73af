"""`gain` on cases worked by hand."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from laws.strategies import ALL_PIXELS, ANY, random_copies, random_problem, randoms
from methods.small import conv, copies, node, problem

from rramalloc.allocation.case import Case
from rramalloc.hardware.loader import load_hardware
from rramalloc.importers import load
from rramalloc.methods import gain
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
def test_every_turn_takes_the_largest_drop_per_array(random: Random) -> None:
    """Against all moves of single stages and that of all slowest ones; where none helps, the way ends or
    goes on without a faster allocation."""
    case = random_problem(random, 5, 5, ANY + ALL_PIXELS, 5).problem
    windows, demand = case.graph.windows, case.demand
    current = case.smallest
    while True:
        batches = -(-windows // current)
        more = -(-windows // np.maximum(batches - 1, 1))
        raised = [*np.eye(len(windows), dtype=bool), batches == batches.max()]
        moves = [np.where(each, more, current) for each in raised]
        fitting = [new for new in moves if (new != current).any() and case.is_allowed(new)]
        before = makespan_of(case.graph, current)
        saved = [(before - makespan_of(case.graph, new)) / int(demand @ (new - current)) for new in fitting]
        if max(saved, default=0.0) <= 0:
            break
        best = [new for new, each in zip(fitting, saved, strict=True) if each == max(saved)]
        if len(best) > 1:  # which of equals is taken is our reading
            break
        current = best[0]
    reached = makespan_of(case.graph, gain.solve(case, Work(), 0).choice.copies)
    assert reached <= makespan_of(case.graph, current)


@settings(max_examples=30)
@given(random=randoms)
def test_no_move_saves_more_than_it_promises(random: Random) -> None:
    """A stage alone saves no more than the chain says, and only stages on the chain save anything."""
    case = random_problem(random, 7, 5, ANY + ALL_PIXELS, 5).problem
    current = case.choice(np.minimum(random_copies(random, case.graph), case.largest))
    promised = {copies.tobytes(): (promise, arrays) for promise, arrays, copies in gain._moves(case, current)}
    batches = -(-case.graph.windows // current.copies)
    more = -(-case.graph.windows // np.maximum(batches - 1, 1))
    for stage in range(len(more)):
        copies = np.where(np.arange(len(more)) == stage, more, current.copies)
        if case.is_allowed(copies):
            promise, arrays = promised.get(copies.tobytes(), (0.0, 1))
            assert current.makespan - makespan_of(case.graph, copies) <= promise * arrays + 1e-9
