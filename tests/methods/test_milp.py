"""The MILP against every choice of its model, and its end after the work allowed, which it counts."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from laws.kinds import HAND, KindsCase, hardware
from laws.strategies import ALL_PIXELS, ANY, Enumerated, enumerated, randoms
from search.test_modes import solved

import rramalloc
from rramalloc.allocation.case import Case
from rramalloc.allocation.check import check_answer
from rramalloc.choices import MAX_ARRAYS
from rramalloc.hardware.loader import load_hardware
from rramalloc.mapping.modes import breakpoints
from rramalloc.mapping.options import MappingOptions
from rramalloc.methods import milp
from rramalloc.search.problem import Problem
from rramalloc.search.work import Work
from rramalloc.timing.simulate import Copies

ENOUGH = 10**6


def steps(problem: Problem, copies: Copies) -> int:
    """The separable recurrence of docs/sources/model.md 6, edge by edge."""
    graph = problem.graph
    pre, op = [0] * len(graph.windows), [0] * len(graph.windows)
    highest = []
    for count, most, d in zip(graph.windows.tolist(), problem.largest.tolist(), copies.tolist(), strict=True):
        after = [useful for useful in breakpoints(count, most).tolist() if useful > d]
        highest.append(after[0] - 1 if after else most)
    for i, (count, d) in enumerate(zip(graph.windows.tolist(), copies.tolist(), strict=True)):
        incoming = [edge for edge in graph.edges if edge.consumer == i]
        waits = [
            pre[edge.producer] + int(graph.needed(edge)[0]) // highest[edge.producer] + 1
            for edge in incoming
            if graph.needed(edge)[0] >= 0
        ]
        pre[i] = max([0, *waits])
        op[i] = pre[i] + -(-count // d)
        for edge in incoming:
            last = int(graph.needed(edge)[-1])
            tail = -(-count // d) - int(np.flatnonzero(graph.needed(edge) == last)[0]) // d
            ended = op[edge.producer]
            if last < graph.windows[edge.producer] - 1:
                ended = pre[edge.producer] + last // highest[edge.producer] + 1
            op[i] = max(op[i], ended + tail)
    return max(op)


@settings(max_examples=40, deadline=None)
@given(case=enumerated(stages=4, ops=ANY + ALL_PIXELS))
def test_the_optimum_of_the_model_bounds_the_exact_one(case: Enumerated) -> None:
    """Every choice of useful copies within the budget, by the recurrence; HiGHS solves every one of these."""
    problem = case.problem
    useful = [
        breakpoints(count, most).tolist()
        for count, most in zip(problem.graph.windows.tolist(), problem.largest.tolist(), strict=True)
    ]
    choices = (np.array(choice) for choice in product(*useful))
    best = min(steps(problem, choice) for choice in choices if problem.arrays(choice) <= problem.budget)
    candidate = milp.solve(problem, Work(work=ENOUGH), 0)
    assert candidate.lower_bound == best
    assert candidate.lower_bound <= case.optimum


@pytest.mark.parametrize(
    ("network", "arrays", "optimum"), [("alexnet", 644, 121), ("vgg16", 3608, 484), ("resnet18", 1390, 288)]
)
def test_proven_optima(network: str, arrays: int, optimum: int) -> None:
    """Optima that CBC and HiGHS both prove, at 4, 4 and 2 times the minimum."""
    problem = Case(rramalloc.load(network), load_hardware("plain")).problem(arrays)
    candidate = milp.solve(problem, Work(work=ENOUGH), 0)
    assert "solved to optimality" in candidate.proof
    assert candidate.lower_bound == optimum


@settings(max_examples=25, deadline=None)
@given(random=randoms)
def test_its_bound_holds_for_every_mode(random: Random) -> None:
    """docs/sources/model.md 10: blocks of all shapes and all copies of small networks, one by one."""
    case = solved(random)
    assume(case is not None)
    assert case is not None
    candidate = milp.solve(case.problem, Work(work=ENOUGH), 0)
    assert 1 <= candidate.lower_bound <= case.best
    checked = check_answer(case.problem, candidate, case.problem.budget, "milp")
    assert checked.timing.makespan >= case.best


@pytest.mark.parametrize("seed", range(6))
def test_its_bound_holds_for_every_kind(seed: int) -> None:
    """docs/sources/model.md 18: all allocations within the arrays of each kind, simulated one by one."""
    case = KindsCase.drawn(Random(f"milp {seed}"))
    best = min(found.makespan for _, found in case.allocations())
    problem = Case(case.network, case.hardware).problem(MAX_ARRAYS)
    candidate = milp.solve(problem, Work(work=ENOUGH), 0)
    assert 1 <= candidate.lower_bound <= best <= candidate.choice.makespan
    assert problem.holds(candidate.choice.copies, candidate.choice.modes)


def test_kinds_by_hand() -> None:
    """docs/sources/model.md 18: 2 small and 1 large arrays hold a once each and b once on large, 5 steps."""
    problem = Case(HAND, hardware(2, 1)).problem(MAX_ARRAYS)
    found = milp.solve(problem, Work(work=ENOUGH), 0)
    assert found.lower_bound == found.choice.makespan == 5


def test_modes_by_hand() -> None:
    """A 3 x 3 layer of 4 x 4 windows on 16 x 16 arrays, then 1 x 1, with one array for each.

    Blocks of 1 x n windows read 3 * (n + 2) inputs, so at most 3 windows fit; 2 x 2 windows read 16: 4
    blocks, 4 batches. The second layer's 16 windows have 16 copies on the diagonal of its array: 1 batch,
    behind all.
    """
    nodes = [
        {"name": "in", "op": "input", "shape": [1, 6, 6]},
        {"name": "a", "op": "conv", "inputs": ["in"], "out_channels": 1, "kernel": 3},
        {"name": "b", "op": "conv", "inputs": ["a"], "out_channels": 1, "kernel": 1},
    ]
    network = rramalloc.Network.build("two", nodes)
    machine = load_hardware("plain").with_crossbar(16, 16)
    problem = Case(network, machine, MappingOptions(mapping="sdk")).problem(2)
    found = milp.solve(problem, Work(work=ENOUGH), 0)
    assert found.lower_bound == 5
    assert (found.choice.modes[0].block, found.choice.copies[0]) == ((2, 2), 1)
