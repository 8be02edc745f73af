"""Laws that every method keeps, searches and baselines alike."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import EntryPoint
from itertools import count
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from laws.strategies import ALL_PIXELS, ANY, Enumerated, enumerate_all, random_problem, randoms
from methods.small import chain, random_chain

from rramalloc import compare, lazy, optimize
from rramalloc.allocation.case import Case
from rramalloc.allocation.optimize import objective_of, propose
from rramalloc.allocation.question import Question
from rramalloc.errors import PluginError, RramallocError
from rramalloc.hardware.loader import load_hardware
from rramalloc.importers import load
from rramalloc.mapping.options import MappingOptions
from rramalloc.methods import registry
from rramalloc.methods.registry import METHODS, method_named
from rramalloc.network.network import Network
from rramalloc.search import work
from rramalloc.search.problem import Answer, Held, Problem
from rramalloc.search.work import Work
from rramalloc.timing.simulate import makespan_of
from rramalloc.timing.stage_graph import StageGraph

MODES_ONLY = ("sdk", "vw-sdk")
"""For mapping `sdk` alone: test_windows.py."""
KINDS_ONLY = ("single-kind", "fullest-kind")
"""For several kinds of arrays: tests/commands/compare/test_kinds.py."""

SLOW = ("milp",)
"""A solver for every example; tested on its own."""
SEARCHES = ("auto", "interval", "recurrence", "milp")
BASELINES = [name for name in METHODS if name not in (*SEARCHES, *MODES_ONLY, *KINDS_ONLY)]
CHAINS_ONLY = ("published",)
EVERY = pytest.mark.parametrize("name", [name for name in METHODS if name not in (*SLOW, *MODES_ONLY)])
LITTLE = 2


def small_case(random: Random, name: str) -> Enumerated:
    """A problem that the method takes, with all its allocations."""
    return random_chain(random) if name in CHAINS_ONLY else random_problem(random, 7, 5, ANY + ALL_PIXELS, 5)


def proposed(problem: Problem, name: str, seed: int = 0) -> Answer:
    """What `optimize` returns."""
    return propose(
        objective_of(problem, Question(method=name, seed=seed)),
        Question(method=name, seed=seed),
        Work(work=LITTLE),
    )


def test_every_method_describes_itself() -> None:
    """The name in the file is that of the method, and `compare`, help and documentation have their words."""
    assert len(BASELINES) >= 13
    assert METHODS["auto"] == "rramalloc.methods.searches:AUTO"
    for name in METHODS:
        found = method_named(name)
        assert found.name == name
        assert found.minimises
        assert found.source
    assert [name for name in METHODS if method_named(name).seeded] == ["annealing", "genetic"]


@pytest.mark.parametrize("name", [name for name in METHODS if name not in SLOW])
def test_it_ends_soon_after_its_time(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the clock is a second later; `published` went on for 2 s of work after the last one."""
    mapping = MappingOptions(mapping="sdk" if name in MODES_ONLY else "im2col")
    problem = Case(chain(150), load_hardware("plain"), mapping).problem(16 * 150)
    looks = count(0.0, 1.0)
    monkeypatch.setattr(work.time, "monotonic", lambda: next(looks))
    stop = Work(work=10**7, time_limit_s=3.0, _started=0.0)
    method_named(name).solve(problem, stop, 0)
    assert stop.spent_s < 0.3


@EVERY
@settings(max_examples=15)
@given(random=randoms)
def test_within_the_problem_and_never_better_than_the_best(name: str, random: Random) -> None:
    case = small_case(random, name)
    seed = random.randrange(4)
    candidate = proposed(case.problem, name, seed)
    assert (case.allocations == candidate.choice.copies).all(axis=1).any(), "outside the problem"
    reached = makespan_of(case.problem.graph, candidate.choice.copies)
    assert candidate.lower_bound <= case.optimum <= reached
    if name in BASELINES:
        alone = method_named(name).solve(case.problem, Work(work=LITTLE), seed)
        assert alone.lower_bound == 1
        assert alone.choice.copies.dtype == np.int64
        assert ((alone.choice.copies >= 1) & (alone.choice.copies <= case.problem.graph.windows)).all()
        assert candidate.repaired == (case.problem.arrays(alone.choice.copies) > case.problem.budget)


@EVERY
@settings(max_examples=6)
@given(random=randoms)
def test_same_seed_same_answer_in_any_order_of_nodes(name: str, random: Random) -> None:
    case = small_case(random, name)
    graph = case.problem.graph
    nodes = [node.model_dump(mode="json") for node in graph.network.nodes]
    random.shuffle(nodes)
    shuffled = StageGraph.build(Network.build("random", nodes))
    assert shuffled.names == graph.names
    first, second = (
        proposed(source, name, 3) for source in (case.problem, replace(case.problem, graph=shuffled))
    )
    assert first.choice.copies.tolist() == second.choice.copies.tolist()
    assert first.proof == second.proof


@pytest.mark.parametrize("name", BASELINES)
@settings(max_examples=10)
@given(random=randoms)
def test_bounds_on_copies_are_kept(name: str, random: Random) -> None:
    case = small_case(random, name)
    row = case.allocations[random.randrange(len(case.allocations))]
    most = random.choice((row, case.problem.graph.windows))
    small = enumerate_all(replace(case.problem, held=Held(np.minimum(row, 2), most)))
    candidate = proposed(small.problem, name)
    assert (small.allocations == candidate.choice.copies).all(axis=1).any()


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("spare", [0, 1, 10**9])
def test_from_the_minimum_to_every_window(name: str, spare: int) -> None:
    """Fully connected layers as stages too: they have one window and one copy."""
    network = load("alexnet")
    needed = Case(network, load_hardware("plain"), MappingOptions(fc="crossbar")).problem(2**40).minimum
    problem = Case(network, load_hardware("plain"), MappingOptions(fc="crossbar")).problem(needed + spare)
    candidate = propose(
        objective_of(problem, Question(method=name)), Question(method=name), Work(work=LITTLE)
    )
    assert problem.is_allowed(candidate.choice.copies)
    if spare == 0:
        assert candidate.choice.copies.tolist() == [1] * len(problem.demand)
    if spare == 10**9 and name in ("uniform", "proportional", "bottleneck", "lagrange", "sequential", "gain"):
        assert candidate.choice.copies.tolist() == problem.graph.windows.tolist()


def test_methods_of_other_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry point of the group `rramalloc.methods` is a method of its name, imported when it is used."""
    points = {
        "mine": EntryPoint("mine", "methods.fakes:slow", registry.METHOD_GROUP),
        "broken": EntryPoint("broken", "no_such_module:solve", registry.METHOD_GROUP),
    }
    monkeypatch.setattr(lazy, "foreign", lambda _: points)
    monkeypatch.setattr(registry, "foreign", lambda _: points)
    assert registry.method_names()[-2:] == ("broken", "mine")
    problem = Case(load("alexnet"), load_hardware("plain")).problem(1000)
    assert (
        propose(objective_of(problem, Question(method="mine")), Question(method="mine"), Work()).proof
        == "told by a fake"
    )
    assert not method_named("mine").compared
    with pytest.raises(
        PluginError, match=r"method 'broken', the entry point 'no_such_module:solve' .* failed: Module"
    ):
        method_named("broken")


@pytest.mark.parametrize(
    ("home", "reason"),
    [
        ("methods.fakes:crashing", "ZeroDivisionError: no such luck"),
        ("methods.fakes:silent", "it returned a NoneType, needed is Answer("),
        ("methods.fakes:short", "returned 1 numbers of copies for 5 stages"),
        ("methods.fakes:boastful", "claims no less than 1000000"),
    ],
)
def test_a_fault_in_a_method_of_another_package_names_it(
    home: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone it is the error; a comparison keeps the rows of the other methods."""
    points = {"theirs": EntryPoint("theirs", home, registry.METHOD_GROUP)}
    monkeypatch.setattr(lazy, "foreign", lambda _: points)
    monkeypatch.setattr(registry, "foreign", lambda _: points)
    with pytest.raises(RramallocError, match="theirs") as caught:
        optimize("alexnet", 400, method="theirs")
    assert reason in str(caught.value)
    compared = compare("alexnet", 400, methods=["none", "theirs"], seeds=1)
    assert [row.method for row in compared.rows] == ["none"]
    assert [left.method for left in compared.skipped] == ["theirs"]
