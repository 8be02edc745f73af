"""`cim-mlc` by hand and against all allocations of its rule; its sum of batches is not below `sequential`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from laws.strategies import ALL_PIXELS, ANY, Enumerated, enumerated
from methods.small import conv, copies, problem

from rramalloc.methods import cim_mlc
from rramalloc.search import sequential
from rramalloc.search.problem import Held, Problem
from rramalloc.search.work import Work
from rramalloc.timing.simulate import Copies


def two(budget: int) -> Problem:
    """Outputs of 4 x 4 and 6 x 1 (height x width), arrays of a copy 1 and 2."""
    nodes = [
        {"name": "a", "op": "input", "shape": [1, 4, 4]},
        {"name": "b", "op": "input", "shape": [1, 6, 1]},
        conv("c1", "a"), conv("c2", "b"),
    ]  # fmt: skip
    return problem(1, nodes, [1, 2], budget)


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        pytest.param(3, [1, 1], id="the minimum"),
        pytest.param(5, [2, 1], id="3 does not divide 4: 8 + 6"),
        pytest.param(6, [4, 1], id="4 + 6"),
        pytest.param(
            1000, [4, 1], id="8 and 16 divide the windows, but not the width; the second has width 1"
        ),
    ],
)
def test_by_hand(budget: int, expected: list[int]) -> None:
    assert copies(cim_mlc, two(budget)) == expected


def test_the_fewest_copies_allowed_remain_a_choice() -> None:
    limited = replace(two(20), held=Held(np.array([3, 5]), np.array([3, 6])))
    assert copies(cim_mlc, limited) == [3, 5]


@settings(max_examples=60)
@given(case=enumerated(ops=ANY + ALL_PIXELS))
def test_against_every_allocation_of_the_rule(case: Enumerated) -> None:
    """Least sum of windows / copies, then fewest arrays."""
    graph = case.problem.graph
    widths = np.array([graph.network.shapes[name].width for name in graph.names])
    lawful = case.allocations[(widths % case.allocations == 0).all(axis=1)]
    sums = (graph.windows / lawful).sum(axis=1)
    found = cim_mlc.solve(case.problem, Work(), 0).choice.copies
    assert (widths % found == 0).all()
    least = np.isclose(sums, sums.min(), rtol=1e-12)
    assert batches(case.problem, found) == round(float(sums.min()))
    assert int(found @ case.problem.demand) == int((lawful[least] @ case.problem.demand).min())


@settings(max_examples=30)
@given(case=enumerated(ops=ANY + ALL_PIXELS))
def test_never_faster_one_layer_after_the_other(case: Enumerated) -> None:
    ours, least = (each.solve(case.problem, Work(), 0).choice.copies for each in (cim_mlc, sequential))
    assert batches(case.problem, ours) >= batches(case.problem, least)


def batches(case: Problem, found: Copies) -> int:
    """Sum of the batches of all layers."""
    return int((-(-case.graph.windows // found)).sum())
