"""`separable` against the MILP solvers, against every choice, and under every way to stop."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from laws.strategies import ALL_PIXELS, ANY, CHAIN, Enumerated, enumerated, random_network, randoms

from rramalloc.hardware.loader import load_hardware
from rramalloc.importers import load
from rramalloc.methods import milp
from rramalloc.network.network import Network
from rramalloc.results.optimize import make_problem
from rramalloc.search import separable
from rramalloc.search.breakpoints import breakpoints
from rramalloc.search.problem import Candidate, Problem, Stop
from rramalloc.timing.simulate import Replication, makespan_of
from rramalloc.timing.stage_graph import StageGraph

ENOUGH = 10**6


def solved(problem: Problem) -> Candidate:
    candidate = separable.solve(problem, Stop(work=ENOUGH), 0)
    assert "solved to optimality" in candidate.proof
    assert problem.fits(candidate.replication)
    if problem.least is None:
        assert steps(problem, candidate.replication) == candidate.lower_bound
    return candidate


def steps(problem: Problem, replication: Replication) -> int:
    """The separable recurrence of MODEL.md 6, edge by edge."""
    graph = problem.graph
    pre, op = [0] * len(graph.windows), [0] * len(graph.windows)
    highest = []
    for count, most, d in zip(
        graph.windows.tolist(), problem.largest.tolist(), replication.tolist(), strict=True
    ):
        after = [useful for useful in breakpoints(count, most).tolist() if useful > d]
        highest.append(after[0] - 1 if after else most)
    for i, (count, d) in enumerate(zip(graph.windows.tolist(), replication.tolist(), strict=True)):
        incoming = [edge for edge in graph.edges if edge.consumer == i]
        waits = [
            pre[edge.producer] + int(edge.need[0]) // highest[edge.producer] + 1
            for edge in incoming
            if edge.need[0] >= 0
        ]
        pre[i] = max([0, *waits])
        op[i] = pre[i] + -(-count // d)
        for edge in incoming:
            last = int(edge.need[-1])
            tail = -(-count // d) - int(np.flatnonzero(edge.need == last)[0]) // d
            ended = op[edge.producer]
            if last < graph.windows[edge.producer] - 1:
                ended = pre[edge.producer] + last // highest[edge.producer] + 1
            op[i] = max(op[i], ended + tail)
    return max(op)


def problem_of(random: Random, nodes: int, extent: int, ops: tuple[str, ...]) -> Problem:
    graph = StageGraph.build(random_network(random, nodes, extent, ops))
    demand = np.array([random.choice((1, 2, 3, 7, 20)) for _ in graph.stages], dtype=np.int64)
    factor = random.choice((1.0, 1.2, 2.0, 4.0, 16.0))
    return Problem(graph, demand, int(factor * demand.sum()) + random.randint(0, 9))


@settings(max_examples=150, deadline=None)
@given(random=randoms)
def test_the_optimum_of_the_milp(random: Random) -> None:
    problem = problem_of(random, 14, 12, random.choice((ANY, CHAIN)))
    found = solved(problem).lower_bound
    by_highs = milp.solve_highs(problem, Stop(work=ENOUGH), 0)
    if by_highs.lower_bound != found:
        # HiGHS 1.14 with presolve may call 6 steps optimal where 4 are possible; CBC settles it
        assert milp.solve_cbc(problem, Stop(work=ENOUGH), 0).lower_bound == found


@settings(max_examples=40, deadline=None)
@given(random=randoms)
def test_the_optimum_of_cbc(random: Random) -> None:
    problem = problem_of(random, 10, 8, ANY)
    assert solved(problem).lower_bound == milp.solve_cbc(problem, Stop(work=ENOUGH), 0).lower_bound


@settings(max_examples=60, deadline=None)
@given(case=enumerated(stages=4))
def test_no_choice_of_useful_copies_is_better(case: Enumerated) -> None:
    """Every choice within the budget, by the recurrence."""
    problem = case.problem
    useful = [
        breakpoints(count, most).tolist()
        for count, most in zip(problem.graph.windows.tolist(), problem.largest.tolist(), strict=True)
    ]
    choices = [np.array(choice, dtype=np.int64) for choice in product(*useful)]
    best = min(steps(problem, choice) for choice in choices if problem.arrays(choice) <= problem.budget)
    assert solved(problem).lower_bound == best


@settings(max_examples=60, deadline=None)
@given(case=enumerated())
def test_bound_never_exceeds_the_exact_optimum(case: Enumerated) -> None:
    """MODEL.md 6: the optimum of the model is a lower bound of the exact makespan."""
    assert solved(case.problem).lower_bound <= case.optimum


@settings(max_examples=40, deadline=None)
@given(random=randoms)
def test_bounds_on_copies_are_kept(random: Random) -> None:
    free = problem_of(random, 8, 6, ANY)
    least = np.array([random.randint(1, min(3, most)) for most in free.largest.tolist()], dtype=np.int64)
    most = np.maximum(least, free.largest // 2)
    budget = max(free.budget, free.arrays(least))
    bounded = Problem(free.graph, free.demand, budget, least=least, most=most)
    candidate = solved(bounded)
    assert (candidate.replication >= least).all()
    assert candidate.lower_bound >= solved(Problem(free.graph, free.demand, budget)).lower_bound


@pytest.mark.parametrize(
    ("network", "crossbar", "factor", "optimum"),
    [
        # optima proven by CBC
        pytest.param("alexnet", "128x128", 4, 121, id="AlexNet"),
        pytest.param("vgg16", "128x128", 4, 484, id="VGG-16"),
        pytest.param("squeezenet", "128x128", 16, 63, id="SqueezeNet"),
        pytest.param("resnet18", "128x128", 2, 288, id="ResNet-18"),
        pytest.param("inception_v1", "128x128", 2, 335, id="Inception-v1"),
        pytest.param("densenet121", "128x128", 1.2, 2080, id="DenseNet-121"),
        pytest.param("shufflenet", "128x128", 16, 67, id="ShuffleNet"),
        pytest.param("unet", "256x256", 4, 1404, id="U-Net"),
    ],
)
def test_shipped_networks(network: str, crossbar: str, factor: float, optimum: int) -> None:
    assert solved(shipped(network, crossbar, factor)).lower_bound == optimum


def shipped(network: str, crossbar: str, factor: float) -> Problem:
    wordlines, bitlines = (int(part) for part in crossbar.split("x"))
    hardware = load_hardware("plain")
    array = hardware.crossbar.model_copy(update={"wordlines": wordlines, "bitlines": bitlines})
    hardware = hardware.model_copy(update={"crossbar": array})
    source = make_problem(load(network), hardware, 10**9, "im2col", "host")
    return Problem(source.graph, source.demand, int(factor * source.minimum))


def test_the_same_answer_twice() -> None:
    problem = shipped("inception_v1", "128x128", 1.2)
    first, second = (separable.solve(problem, Stop(), seed) for seed in (0, 0))
    assert first.replication.tobytes() == second.replication.tobytes()
    assert (first.lower_bound, first.proof, first.seconds) == (
        second.lower_bound, second.proof, second.seconds,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("stop", "words"),
    [
        pytest.param(Stop(work=0), "stopped after the work allowed", id="no work"),
        pytest.param(Stop(time_limit_s=0.0), "stopped by the time limit", id="no time"),
        pytest.param(Stop(interrupted=True), "interrupted", id="interrupted"),
        pytest.param(Stop(gap=0.9), "within the gap", id="gap"),
    ],
)
def test_a_search_that_ends_early_still_bounds(stop: Stop, words: str) -> None:
    problem = shipped("resnet18", "128x128", 2)
    candidate = separable.solve(problem, stop, 0)
    assert words in candidate.proof
    assert problem.fits(candidate.replication)
    assert 1 <= candidate.lower_bound <= 288
    assert f"less than {candidate.lower_bound} steps" in candidate.proof


def test_highs_is_right_where_its_presolve_is_wrong() -> None:
    """HiGHS 1.14 with presolve calls 6 steps optimal here; 4 are enough, by exact timing."""
    random = Random(2165)
    extent = (random.choice((10, 20, 30)), random.choice((6, 12, 20)))
    network = random_network(random, *extent, random.choice((ANY, ANY + ALL_PIXELS, CHAIN)))
    graph = StageGraph.build(network)
    demand = np.array([random.choice((1, 2, 3, 7, 20, 50)) for _ in graph.stages], dtype=np.int64)
    factor = random.choice((1.0, 1.2, 2, 4, 16))
    problem = Problem(graph, demand, int(factor * demand.sum()) + random.randint(0, 9))
    found = milp.solve_highs(problem, Stop(time_limit_s=60), 0)
    assert found.lower_bound == 4 == makespan_of(graph, solved(problem).replication)


def test_one_stage() -> None:
    """100 windows, 10 arrays of one: ten batches, by hand."""
    network = Network.build(
        "one",
        [
            {"name": "in", "op": "input", "shape": [1, 10, 10]},
            {"name": "conv", "op": "conv", "inputs": ["in"], "out_channels": 1, "kernel": 1},
        ],
        source="made up",
    )
    problem = Problem(StageGraph.build(network), np.array([1], dtype=np.int64), 10)
    candidate = solved(problem)
    assert (candidate.lower_bound, candidate.replication.tolist()) == (10, [10])
