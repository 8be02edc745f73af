"""Objectives of docs/sources/model.md 8 through `optimize`, against every allocation."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws.strategies import ANY, Enumerated, enumerate_all, random_network, random_problem, randoms

from rramalloc.allocation.case import Case
from rramalloc.api import optimize
from rramalloc.commands.evaluate.evaluate import evaluate
from rramalloc.errors import BudgetError, SpecError, TargetError, UnsupportedError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import load_hardware
from rramalloc.hardware.performance import ChipPerformance
from rramalloc.network.network import Network
from rramalloc.search import fewest
from rramalloc.search.objective import Latency, steps_within
from rramalloc.search.step_search import StepLengths
from rramalloc.search.target import Target
from rramalloc.search.work import Work
from rramalloc.timing.access import StepTime

STEP_NS = 10.0


def machine(memory: dict[str, Any] | None) -> Hardware:
    tables: dict[str, Any] = {
        "name": "small",
        "source": "made up",
        "crossbar": {"wordlines": 6, "bitlines": 2, "cell_bits": 1},
        "precision": {"weight_bits": 1, "input_bits": 8, "output_bits": 8, "signed": "offset"},
        "timing": {"step_ns": STEP_NS},
    }
    return Hardware(**(tables if memory is None else tables | {"memory": memory}))


MEMORIES = pytest.mark.parametrize(
    "memory",
    [
        pytest.param(None, id="no memory"),
        pytest.param({"bandwidth_gb_s": 0.8, "reuse": "row", "scope": "per_layer"}, id="per layer"),
        pytest.param({"bandwidth_gb_s": 3.0, "reuse": "row", "scope": "shared"}, id="shared"),
    ],
)


def case_of(random: Random, hardware: Hardware) -> Enumerated:
    """A random network with between two and four stages and a budget that leaves a choice."""
    while True:
        network = random_network(random, 8, 5, ANY)
        problem = Case(network, hardware).problem(10**9)
        budget = problem.minimum + random.randint(3, 40)
        choices = np.minimum(problem.graph.windows, 1 + 40 // problem.demand)
        if 2 <= len(problem.demand) <= 4 and 20 < choices.prod() <= 20_000:
            return enumerate_all(Case(network, hardware).problem(budget))


def step_times(case: Enumerated) -> npt.NDArray[np.float64]:
    """Step time of each allocation; the access time itself is checked in timing/test_access.py."""
    assert case.problem.step_time is not None
    return np.array([case.problem.step_time.step_ns(row) for row in case.allocations])


METHODS = ("none", "proportional", "bottleneck", "interval", "recurrence", "gain", "published", "milp")


@MEMORIES
@settings(max_examples=5)
@given(random=randoms)
def test_a_bound_is_of_the_objective_whatever_the_method_minimises(
    memory: dict[str, Any] | None, random: Random
) -> None:
    """No allocation within the budget is below the bound, and the gap is of what the result is judged by."""
    case = case_of(random, machine(memory))
    network, budget = case.problem.graph.network, case.problem.budget
    best = float((case.makespans * (1.0 if memory is None else step_times(case))).min())
    for method in random.sample(METHODS, 3):
        try:
            found = optimize(network, budget, hardware=machine(memory), method=method, work=2)
        except UnsupportedError:
            continue
        assert found.objective == "latency"
        assert found.lower_bound <= best * (1 + 1e-9), method
        assert found.objective_value >= best * (1 - 1e-9), method
        assert found.gap == (found.objective_value - found.lower_bound) / found.objective_value


def with_memory(
    random: Random, case: Enumerated, *, shared: bool
) -> tuple[Enumerated, npt.NDArray[np.float64]]:
    """The case with a step time, and the step of each allocation computed from docs/sources/model.md 7."""
    compute = random.choice((1.0, 10.0, 30.0))
    access = np.array([random.choice((0.5, 2.0, 4.0, 7.3)) for _ in case.problem.demand])
    each = case.allocations * access
    steps_ns = np.maximum(compute, each.sum(axis=1) if shared else each.max(axis=1))
    return replace(case, problem=replace(case.problem, step_time=StepTime(compute, access, shared))), steps_ns


@pytest.mark.parametrize("shared", [False, True], ids=["per layer", "shared"])
@settings(max_examples=8)
@given(random=randoms)
def test_latency_where_memory_lengthens_the_step(shared: bool, random: Random) -> None:
    """Ranges hold the step of every allocation; of all these the search finds the least latency."""
    case, steps_ns = with_memory(random, random_problem(random, 8, 5, ANY, 3), shared=shared)
    problem, optimum = case.problem, float((case.makespans * steps_ns).min())
    lengths = StepLengths.of(problem)
    ends = [lengths.possible(low, high) for low, high in pairwise([0.0, *lengths.edges()])]
    held = [(steps_ns >= first * (1 - 1e-9)) & (steps_ns <= last * (1 + 1e-9)) for first, last in ends]
    assert np.any(held, axis=0).all()
    answer = Latency(problem).solve(Work(work=10), 0)
    number = int(np.flatnonzero((case.allocations == answer.choice.copies).all(axis=1))[0])
    assert case.makespans[number] * steps_ns[number] == pytest.approx(optimum, rel=1e-3)
    assert answer.lower_bound <= optimum * (1 + 1e-9)
    root_ns = Latency(problem).bound(1, Work())
    assert 0 < root_ns <= optimum * (1 + 1e-9)


@MEMORIES
@settings(max_examples=20)
@given(random=randoms)
def test_sequential(memory: dict[str, Any] | None, random: Random) -> None:
    """Least sum of batches; with memory a batch takes the step of its layer alone; fewest arrays."""
    case = case_of(random, machine(memory))
    network, budget = case.problem.graph.network, case.problem.budget
    found = optimize(network, budget, hardware=machine(memory), objective="sequential")
    batches = -(-case.problem.graph.windows // case.allocations)
    times: npt.NDArray[Any] = batches
    if memory is not None:
        assert case.problem.step_time is not None
        access = case.problem.step_time.access_ns_per_copy * case.allocations
        times = batches * np.maximum(access, STEP_NS)
    sums = times.sum(axis=1)
    assert found.objective_unit == ("steps" if memory is None else "ns")
    assert found.objective_value == pytest.approx(float(sums.min()), rel=1e-9)
    assert found.gap == pytest.approx(0, abs=1e-9)
    assert found.arrays.used == int(case.arrays[sums <= sums.min() * (1 + 1e-12)].min())
    assert "there are" in found.proof or "there is" in found.proof


def test_sequential_is_what_evaluate_proposes_where_transfers_are_free() -> None:
    """Both minimise the sum of ceil(W / d) steps of one length; no access of a layer is as long as a step."""
    free = {"bandwidth_in_gb_s": 1e15, "bandwidth_out_gb_s": 1e15}
    chip = {"processors": 1024, "storage_units": 1024, "unit_bytes": 2**40} | free
    hardware = load_hardware("isaac-todaes")
    tables = {"units": ChipPerformance(**chip), "memory": None, "unconfirmed": ()}
    hardware = hardware.model_copy(update=tables)
    found = optimize("alexnet_todaes", 1024, hardware=hardware, objective="sequential")
    proposal = evaluate("alexnet_todaes", hardware, arrays=1024).document.proposal
    assert proposal is not None
    assert found.step_ns is not None
    assert proposal.time_ns == pytest.approx(found.objective_value * found.step_ns)
    assert [row.copies for row in proposal.layers] == [row.copies for row in found.layers]
    assert found.lower_bound == found.objective_value == sum(row.batches for row in found.layers)


def test_fewest_arrays_for_an_interval_by_hand() -> None:
    """MobileNet-v1: sum of demand * ceil(windows / 1000) is 667 arrays (docs/sources/model.md 8)."""
    found = optimize("mobilenet_v1", 1000, target_interval=1000)
    assert (found.arrays.used, found.lower_bound, found.gap) == (667, 667, 0)
    assert found.interval <= 1000
    assert found.options.target_interval == 1000
    with pytest.raises(TargetError, match="667 arrays are enough"):
        optimize("mobilenet_v1", 666, target_interval="1000")
    words = "'conv1' alone takes 1513 steps with all the copies that it can have"
    with pytest.raises(TargetError, match=words):
        optimize("alexnet", 1000, target_interval=1000, copies={"conv1": "..2"})


@pytest.mark.parametrize(
    ("network", "arrays", "mapping"),
    [("alexnet", 400, "im2col"), ("squeezenet", 800, "sdk")],
)
def test_inputs_that_stream(network: str, arrays: int, mapping: Any) -> None:
    """Neither the answer for the latency nor that for the interval is better; on chains it is proven."""
    options: dict[str, Any] = {"mapping": mapping, "work": 2}
    found = optimize(network, arrays, inputs=100, **options)
    others = [optimize(network, arrays, objective=name, **options) for name in ("latency", "interval")]
    assert found.objective_value == found.makespan + 99 * found.interval
    assert found.objective_value <= min(other.makespan + 99 * other.interval for other in others)
    assert (found.gap == 0) == (network != "squeezenet")


def test_inputs_are_of_the_latency() -> None:
    with pytest.raises(SpecError, match="several inputs, which objective 'energy' does not take"):
        optimize("alexnet", 400, objective="energy", inputs=2)


@pytest.mark.parametrize("wish", [0, "0.5", "us", "1e999us", "-1us", "10 inputs"])
def test_an_interval_is_a_number_of_steps_or_a_time(wish: Any) -> None:
    with pytest.raises(SpecError, match="target_interval"):
        optimize("alexnet", 1000, target_interval=wish)


@settings(max_examples=500)
@given(interval_ns=st.floats(1e-100, 1e100))
def test_a_throughput_is_a_target_of_its_interval(interval_ns: float) -> None:
    longest_ns = Target(target_throughput=1e9 / interval_ns).longest_ns
    assert longest_ns is not None
    assert interval_ns <= longest_ns
    assert 1e9 / longest_ns >= 1e9 / interval_ns > 1e9 / math.nextafter(longest_ns, math.inf)


@settings(max_examples=500)
@given(steps=st.integers(1, 2**45), step_ns=st.floats(1e-200, 1e200))
def test_a_latency_is_a_target_of_as_many_steps(steps: int, step_ns: float) -> None:
    """And the float below it is one of a step less: a quotient may round to either side."""
    latency_ns = steps * step_ns
    assert steps_within(latency_ns, step_ns) == steps
    assert steps_within(math.nextafter(latency_ns, 0), step_ns) == steps - 1


@settings(max_examples=20)
@given(random=randoms)
def test_budget_below_the_minimum(random: Random) -> None:
    """Infeasible exactly when one copy of everything does not fit. docs/sources/model.md 3."""
    case = case_of(random, machine(None))
    network, least = case.problem.graph.network, case.problem.minimum
    assert optimize(network, least, hardware=machine(None), work=1).arrays.used == least
    if least > 1:
        with pytest.raises(BudgetError) as caught:
            optimize(network, least - 1, hardware=machine(None))
        assert (caught.value.need, caught.value.have) == (least, least - 1)
        assert [name for name, _ in caught.value.demands] == [
            case.problem.graph.names[stage] for stage in case.problem.graph.network_order
        ]


def test_a_target_in_ns_is_met_by_the_step_that_just_meets_it() -> None:
    """8 arrays: 5 steps of exactly 140 ns (docs/sources/model.md 8); a range of steps beyond allows only 4.

    A copy of n0, n1 and n2 takes the shared memory 17.5, 40 and 65 ns: 2 * 17.5 + 40 + 65 = 140.
    """
    nodes = [
        {"name": "in", "op": "input", "shape": [2, 2, 4]},
        {"name": "n0", "op": "conv", "inputs": ["in"], "out_channels": 2, "kernel": [3, 2],
         "pads": [1, 0, 0, 0], "groups": 2},
        {"name": "n1", "op": "conv", "inputs": ["n0"], "out_channels": 4, "kernel": [2, 2],
         "pads": [1, 0, 0, 1], "dilation": [1, 2], "groups": 2, "input_bits": 4},
        {"name": "n2", "op": "conv_transpose", "inputs": ["n1"], "out_channels": 5, "kernel": [3, 3],
         "stride": [1, 2], "pads": [1, 0, 1, 1]},
    ]  # fmt: skip
    hardware = Hardware.model_validate(
        {
            "name": "h",
            "source": "by hand",
            "crossbar": {"wordlines": 8, "bitlines": 32, "cell_bits": 4},
            "precision": {"weight_bits": 2, "input_bits": 1, "output_bits": 4, "signed": "offset"},
            "timing": {"read_ns": 7.5, "dac_bits": 2, "adc_ns": 1.0, "columns_per_adc": 8},
            "memory": {"bandwidth_gb_s": 0.1, "reuse": "row", "scope": "shared"},
        }
    )
    problem = Case(Network.build("n", nodes, source="by hand"), hardware).problem(14)
    answer = fewest.solve_ns(problem, Work(), 0, 700.0)
    assert (answer.choice.copies.tolist(), answer.choice.arrays) == ([2, 1, 1], 8)
    assert (answer.choice.makespan, answer.lower_bound) == (5, 8)
    assert fewest.solve_ns(problem, Work(), 0, 630.0).choice.arrays == 10  # 4 steps of 157.5 ns
    with pytest.raises(TargetError) as caught:
        fewest.solve_ns(problem, Work(), 0, 629.9)
    assert caught.value.proven
