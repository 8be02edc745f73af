"""Searches on shipped networks: known values, the same answer every time, and every way to stop."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from laws.figures import PUBLISHED_STEPS
from laws.strategies import by_name, random_network, randoms

from rramalloc.allocation.case import Case
from rramalloc.allocation.check import recheck
from rramalloc.api import optimize
from rramalloc.errors import BudgetError, SpecError, TargetError, UnknownNameError
from rramalloc.hardware.loader import load_hardware
from rramalloc.hardware.tables import Chip
from rramalloc.importers import load
from rramalloc.mapping.demand import Storage
from rramalloc.methods.registry import method_named
from rramalloc.network.network import Network
from rramalloc.search import auto
from rramalloc.search.bound.boxes import Bounder, bounder_of
from rramalloc.search.objective import root_bound
from rramalloc.search.problem import Problem
from rramalloc.search.resources import Cost
from rramalloc.search.work import SECONDS_PER_WORK, Work
from rramalloc.status import Stopped
from rramalloc.timing.simulate import simulate
from rramalloc.timing.stage_graph import StageGraph


def problem(name: str, arrays: int) -> Problem:
    return Case(load(name), load_hardware("plain")).problem(arrays)


@pytest.mark.quick
def test_vgg16_on_1024_arrays() -> None:
    """The 122 arrays beyond the 902 of docs/sources/model.md 3 go to the first four layers, and end there.

    By hand: windows 50176 50176 12544 12544 3136 ..., demand 1 5 5 9 18 .... With 15 copies of conv1_2 the
    interval can fall below 3584 = 50176 / 14 only if all batches do: conv1_1 >= 15, conv2_1 and conv2_2 >= 4
    (12544 / 3 = 4182), which takes 15 + 75 + 20 + 36 = 146 arrays where 20 + 122 = 142 are there. So no
    allocation takes fewer than 3584 steps; the filling and the tail of the pipeline make it 4009.
    """
    allocation = optimize("vgg16", 1024)
    assert allocation.arrays.minimum == 902
    assert allocation.arrays.used <= 1024
    assert allocation.interval >= 3584
    assert allocation.makespan == 4009
    assert allocation.lower_bound == 4009
    assert allocation.proof.startswith("proven optimal")
    assert allocation.gap == 0


@cache
def long_chain(stages: int) -> StageGraph:
    nodes: list[dict[str, Any]] = [{"name": "input", "op": "input", "shape": [16, 16, 16]}]
    for stage in range(stages):
        layer = {"op": "conv", "inputs": [nodes[-1]["name"]], "out_channels": 16, "kernel": 3, "pads": 1}
        nodes.append({"name": f"c{stage}"} | layer)
    return StageGraph.build(Network.build("chain", nodes, source="generated"))


@pytest.mark.parametrize("copies", [5.0, 50.0])
def test_the_work_allowed_holds_at_every_budget(copies: float) -> None:
    """A long chain of equal stages, where every one of the many moves times almost the whole chain.

    3,000 stages at 5 copies each once took 9.9 s where 1 s was allowed, 10,000 stages 104 s.
    """
    demand = np.full(3000, 2, dtype=np.int64)
    chain = Problem(long_chain(3000), demand, int(copies * demand.sum()), Storage.of_copies(demand))
    work = Work(work=20, cores=1)  # first bounds take half of it
    auto.solve(chain, work, 0)
    assert 0 < work.spent_s <= 2 * 20 * SECONDS_PER_WORK


@pytest.mark.parametrize(
    ("network", "arrays", "published"),
    PUBLISHED_STEPS,
)
def test_published_budgets_are_met_or_beaten(network: str, arrays: int, published: int) -> None:
    """docs/sources/model.md 9, column P: steps by the published method, which hands pixels on within a step.

    The search minimises exact steps with the default handoff, so another allocation may win under "same".
    """
    allocation = optimize(network, arrays, work=10)
    source = problem(network, arrays)
    copies = [allocation.copies[name] for name in source.graph.names]
    assert simulate(source.graph, copies, "same").makespan <= published * 1.05
    assert allocation.lower_bound <= allocation.makespan


@pytest.mark.parametrize(
    ("network", "arrays", "best"),
    [
        pytest.param("vgg16", 2048, 989, id="VGG-16"),
        pytest.param("inception_v1", 1024, 391, id="Inception-v1"),
        pytest.param("shufflenet", 4096, 114, id="ShuffleNet"),
    ],
)
def test_the_trap_is_avoided(network: str, arrays: int, best: int) -> None:
    """docs/sources/model.md 6: best known exact makespan, within 2 % after a tenth of the default work."""
    source = problem(network, arrays)
    candidate = auto.solve(source, Work(work=10), 0)
    timing = simulate(source.graph, candidate.choice.copies)
    recheck(timing, source.arrays_of_stages(timing.copies).tolist(), arrays, "auto")
    assert timing.makespan <= 1.02 * best
    assert candidate.lower_bound <= best


@pytest.mark.quick
def test_too_small_a_budget_lists_every_layer() -> None:
    with pytest.raises(BudgetError) as caught:
        optimize("vgg16", 901)
    error = caught.value
    assert (error.need, error.have) == (902, 901)
    assert [arrays for _, arrays in error.demands] == [1, 5, 5, 9, 18, 36, 36, 72, 144, 144, 144, 144, 144]
    assert error.largest == error.demands[8][0]
    assert "902" in str(error)
    assert "901" in str(error)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (again.need, again.have, again.demands) == (error.need, error.have, error.demands)
    assert optimize("vgg16", 902, work=1).copies == dict.fromkeys(dict(error.demands), 1)


def shuffled(network: Network, random: Random) -> Network:
    nodes = list(network.nodes)
    random.shuffle(nodes)
    return Network.build(network.name, nodes, source=network.source)


def test_order_of_nodes_in_the_file_does_not_matter() -> None:
    network = load("shufflenet")
    other = shuffled(network, Random(7))
    assert other.nodes != network.nodes
    one, two = (optimize(item, 600, work=4).to_dict() for item in (network, other))
    assert {k: v for k, v in one.items() if k != "layers"} == {k: v for k, v in two.items() if k != "layers"}
    assert sorted(one["layers"], key=str) == sorted(two["layers"], key=str)


@settings(max_examples=25)
@given(random=randoms)
def test_order_does_not_matter_for_random_networks(random: Random) -> None:
    network = random_network(random, 12)
    other = shuffled(network, random)
    assert other.sha256 == network.sha256
    hardware = load_hardware("plain").with_crossbar(4, 2)
    found = []
    for item in (network, other):
        least = Case(item, hardware).problem(10**6).minimum
        one = Case(item, hardware).problem(least + 20)
        candidate = auto.solve(one, Work(work=1), 3)
        found.append((by_name(one.graph, candidate.choice.copies), candidate.lower_bound, candidate.proof))
    assert found[0] == found[1]


def finished() -> Work:
    stop = Work()
    stop.interrupted = True
    return stop


@pytest.mark.parametrize("name", ["auto", "interval", "recurrence"])
@pytest.mark.parametrize(
    "stop",
    [
        pytest.param(Work(work=0), id="no work"),
        pytest.param(Work(work=1), id="little work"),
        pytest.param(Work(gap=0.5), id="half is good enough"),
        pytest.param(Work(gap=1.0), id="anything is good enough"),
        pytest.param(Work(time_limit_s=0.0), id="no time"),
        pytest.param(finished(), id="interrupted"),
    ],
)
def test_every_way_to_stop_gives_an_allocation_that_holds(name: str, stop: Work) -> None:
    source = problem("inception_v1", 900)
    candidate = method_named(name).solve(source, stop, 0)
    timing = simulate(source.graph, candidate.choice.copies)
    recheck(timing, source.arrays_of_stages(timing.copies).tolist(), 900, name)
    assert candidate.lower_bound <= timing.makespan


def test_progress_only_improves() -> None:
    seen: list[tuple[int, int]] = []
    source = problem("inception_v1", 900)
    candidate = auto.solve(
        source, Work(work=5, on_progress=lambda best, bound: seen.append((best, bound))), 0
    )
    assert all(
        after[0] <= before[0] and after[1] >= before[1] and after != before
        for before, after in pairwise(seen)
    )
    assert seen[-1] == (simulate(source.graph, candidate.choice.copies).makespan, candidate.lower_bound)


@pytest.mark.parametrize(("name", "arrays"), [("squeezenet", 400), ("vgg16", 1500)])
def test_what_a_search_asked_changes_no_bound(name: str, arrays: int) -> None:
    """The check of a result asks only what the search has not, and gets the bound of asking everything."""
    alone, searched = Bounder(problem(name, arrays)).root_bound(Work()), problem(name, arrays)
    auto.solve(searched, Work(work=1), 0)
    for known in (1, alone // 2, alone - 1, alone, alone + 1, 2 * alone):
        assert root_bound(searched, Work(), known) == max(known, alone)
        assert root_bound(problem(name, arrays), Work(), known) == max(known, alone)
    fewer = Bounder(problem(name, arrays * 9 // 10)).root_bound(Work())
    assert bounder_of(searched).with_budget(arrays * 9 // 10).root_bound(Work()) == fewer


@pytest.mark.parametrize(
    ("arrays", "options", "error", "message"),
    [
        pytest.param(0, {}, SpecError, "arrays.*got 0", id="no arrays"),
        pytest.param(2**41, {}, SpecError, "arrays", id="absurdly many"),
        pytest.param(1024, {"method": "qqq"}, UnknownNameError, "qqq.*auto", id="unknown method"),
        pytest.param(1024, {"objective": "arrays"}, SpecError, "--target", id="no target"),
        pytest.param(
            1024, {"objective": "arrays", "target_ns": 5.0}, SpecError, "timing", id="ns without timing"
        ),
        pytest.param(1024, {"objective": "arrays", "target": 100}, TargetError, "100 steps", id="too fast"),
    ],
)
def test_impossible_requests_are_refused(
    arrays: int, options: dict[str, Any], error: Any, message: str
) -> None:
    with pytest.raises(error, match=message):
        optimize("vgg16", arrays, work=4, **options)


@pytest.mark.parametrize(
    ("arrays", "limit"),
    [
        pytest.param(None, "the 200 arrays of the chips", id="all of the chip"),
        pytest.param(1000, "the 200 arrays of the chips", id="more than the chip has"),
        pytest.param(180, "the budget", id="less than the chip has"),
    ],
)
def test_a_target_out_of_reach_says_what_the_limit_is(arrays: int | None, limit: str) -> None:
    """AlexNet has 3025 windows in its first layer, of 3 arrays: more than 40 steps with 200 arrays."""
    chip = Chip(arrays_per_tile=50, tiles=(1, 4), chips=(1, 1))
    hardware = load_hardware("plain").model_copy(update={"chip": chip})
    words = rf"target of 40 steps cannot be met.*within {limit} .*; \d+ arrays are enough: \[chip\] chips = "
    with pytest.raises(TargetError, match=words):
        optimize("alexnet", arrays, hardware=hardware, objective="arrays", target=40, work=4)


@pytest.mark.parametrize(("network", "arrays"), [("squeezenet", 432), ("vgg16", 14432)])
def test_one_core_and_two_give_the_same(network: str, arrays: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sides of the search see only what was known before their turn."""
    answers = []
    for count in (2, 1):
        monkeypatch.setattr(auto, "cores", lambda _, count=count: count)
        work = Work(work=8)
        answers.append((auto.solve(problem(network, arrays), work, 3), work.spent_s))
    (first, first_s), (second, second_s) = answers
    assert first.choice.copies.tolist() == second.choice.copies.tolist()
    assert (first.lower_bound, first.proof, first_s) == (second.lower_bound, second.proof, second_s)


def test_nested_searches_share_clock_and_token() -> None:
    stop = Work(work=100, time_limit_s=1e6, gap=0.5, history=[(0.0, 3, 2)])
    inner = stop.nested(7).nested(3, gap=0.0, cores=1)
    assert (inner.work, inner.gap, inner.cores, inner.history) == (3, 0.0, 1, [])
    assert not inner.out_of_time
    stop.interrupted = True
    assert inner.out_of_time
    assert Work(time_limit_s=0.0).nested(5).out_of_time


class StopAtLook(Work):
    """Ends everything at the n-th look at the clock."""

    left = 0

    @property
    def out_of_time(self) -> bool:
        self.left -= 1
        self.interrupted = self.interrupted or self.left < 0
        return self.interrupted


@pytest.mark.parametrize("looks", [0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144])
def test_an_interrupt_at_any_moment_leaves_an_allocation(looks: int) -> None:
    source = problem("squeezenet", 432)
    stop = StopAtLook(work=30)
    stop.left = looks
    candidate = auto.solve(source, stop, 0)
    assert source.is_allowed(candidate.choice.copies)
    assert candidate.lower_bound <= 255, "a known makespan"
    assert "interrupted" in candidate.proof or stop.counts


def test_a_search_that_stands_still_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much work is allowed; it says so, and one that uses up its work does not."""
    known = Case(load("resnet18"), load_hardware("plain")).problem(2**30)
    problem = replace(known, budget=Cost(4 * known.minimum))
    monkeypatch.setattr(auto, "_STILL_S", 0.2)
    monkeypatch.setattr(auto, "_STILL", 0.2)
    stop = Work(work=10**6)
    answer = auto.solve(problem, stop, 0)
    assert "bound and answer stood still" in answer.proof
    assert stop.stopped(1 - answer.lower_bound / answer.choice.makespan) is Stopped.EXHAUSTED
    moved_s = stop.history[-1][0]
    assert stop.spent_s < 4 * moved_s + 4
    short = Work(work=2)
    auto.solve(problem, short, 0)
    assert short.cut is Stopped.WORK
