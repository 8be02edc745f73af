"""Objectives energy and edp against every allocation of small networks, and their bounds."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from laws.strategies import ANY, Enumerated, enumerate_all, random_network, randoms

import rramalloc
from rramalloc.allocation.case import Case
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.modes import largest_block
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.network import Network
from rramalloc.search.objective import OBJECTIVES, LeastEdp, LeastEnergy
from rramalloc.search.work import Work
from rramalloc.timing.simulate import simulate

CHIP = {"arrays_per_tile": 40, "straddle": True, "tiles": [5, 50], "chips": [1, 1]}


def machine(random: Random, **more: Any) -> Hardware:
    """Power of an array from nothing to far more than its reads."""
    tables: dict[str, Any] = {
        "name": "small", "source": "made up",
        "crossbar": {"wordlines": 6, "bitlines": 2, "cell_bits": 1},
        "precision": {"weight_bits": 1, "input_bits": 4, "output_bits": 8, "signed": "offset"},
        "timing": {"read_ns": 2.5, "dac_bits": 1},
        "energy": {"read_pj": random.choice((0.0, 1.0, 30.0)), "pj_per_byte": 0.5,
                   "leakage_mw": random.choice((0.0, 0.01, 0.3, 5.0))},
    }  # fmt: skip
    return Hardware.model_validate(tables | more)


def case_of(random: Random, hardware: Hardware) -> Enumerated:
    """A random network of two to four stages and a budget that leaves a choice."""
    while True:
        network = random_network(random, 8, 5, ANY)
        problem = Case(network, hardware).problem(1000)
        budget = problem.minimum + random.randint(3, 40)
        choices = np.minimum(problem.graph.windows, 1 + 40 // problem.demand)
        if 2 <= len(problem.demand) <= 4 and 20 < choices.prod() <= 5_000:
            return enumerate_all(Case(network, hardware).problem(budget))


def energies(case: Enumerated, hardware: Hardware) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """(energy, latency) of every allocation by the formula: reads of W windows, four slots each."""
    problem, energy = case.problem, hardware.energy
    assert energy is not None
    graph = problem.graph
    reads = int((graph.windows * problem.demand).sum()) * 4
    sent = sum(
        (edge.last_pixel(graph.grids[edge.producer].width) + 1)
        * graph.network.shapes[graph.names[edge.producer]].channels
        for edge in graph.edges
    )
    dynamic = reads * (energy.read_pj or 0) + sent * (energy.pj_per_byte or 0)
    steps = np.array([problem.step_time.step_ns(row) for row in case.allocations])  # type: ignore[union-attr]
    latency = case.makespans * steps
    arrays = case.allocations @ problem.demand if hardware.chip is None else hardware.chip.arrays
    return dynamic + (energy.leakage_mw or 0) * arrays * latency, latency


@pytest.mark.parametrize("objective", ["energy", "edp"])
@pytest.mark.parametrize(
    "more",
    [
        pytest.param({}, id="used arrays leak"),
        pytest.param({"chip": CHIP}, id="a chip leaks"),
        pytest.param({"memory": {"bandwidth_gb_s": 0.8, "reuse": "row", "scope": "per_layer"}}, id="memory"),
        pytest.param(
            {"memory": {"bandwidth_gb_s": 3.0, "reuse": "row", "scope": "shared"}}, id="shared memory"
        ),
    ],
)
@settings(max_examples=10)
@given(random=randoms)
def test_against_every_allocation(more: dict[str, Any], objective: Any, random: Random) -> None:
    hardware = machine(random, **more)
    case = case_of(random, hardware)
    energy, latency = energies(case, hardware)
    values = energy * latency if objective == "edp" else energy
    found = rramalloc.optimize(
        case.problem.graph.network, case.problem.budget, hardware=hardware, objective=objective, work=60
    )
    best = float(values.min())
    assert found.objective_value == pytest.approx(found.edp if objective == "edp" else found.energy_pj)
    assert found.lower_bound <= best * (1 + 1e-9)
    assert found.objective_value == pytest.approx(best, rel=1e-3)
    if found.gap == 0:
        assert found.objective_value == pytest.approx(best, rel=1e-9)
    assert found.objective_unit == ("pJ ns" if objective == "edp" else "pJ")


@pytest.mark.parametrize("kind", [LeastEnergy, LeastEdp])
@settings(max_examples=15)
@given(random=randoms)
def test_the_floor_of_arrays_and_latency_holds(kind: Any, random: Random) -> None:
    """No allocation is below the floor of its own arrays and latency, or the bound of a search."""
    hardware = machine(random)
    case = case_of(random, hardware)
    objective = kind(case.problem)
    energy, latency = energies(case, hardware)
    values = energy * latency if kind is LeastEdp else energy
    arrays = case.allocations @ case.problem.demand
    for value, used, time in zip(values, arrays.tolist(), latency.tolist(), strict=True):
        assert objective.least(used, time) <= value * (1 + 1e-9)
    found = objective.solve(Work(work=1), 0)
    assert found.objective_bound <= values.min() * (1 + 1e-9)


def tiny(random: Random) -> Network:
    """Two convolutions of a few windows each."""
    nodes: list[dict[str, Any]] = [{"name": "in", "op": "input", "shape": [random.randint(1, 2), 3, 3]}]
    for name, last in (("a", "in"), ("b", "a")):
        nodes.append(
            {"name": name, "op": "conv", "inputs": [last], "out_channels": random.randint(1, 2),
             "kernel": random.randint(1, 2), "stride": random.randint(1, 2), "pads": [0, 0, 1, 1]}
        )  # fmt: skip
    return Network.build("tiny", nodes)


@pytest.mark.parametrize("objective", ["energy", "edp"])
@pytest.mark.parametrize("clock", ["shared", "own"])
@settings(max_examples=4)
@given(random=randoms)
def test_against_every_mode(clock: str, objective: Any, random: Random) -> None:
    """Blocks of every shape, any copies: reads differ from mode to mode."""
    timing = {"read_ns": 2.5, "dac_bits": 1, "rows_per_read": random.randint(1, 8), "clock": clock}
    hardware = machine(
        random, timing=timing, crossbar={"wordlines": 8, "bitlines": 4, "cell_bits": 1},
        energy={"read_pj": 3.0, "leakage_mw": random.choice((0.01, 0.3, 5.0))},
    )  # fmt: skip
    network = tiny(random)
    options = MappingOptions(mapping="sdk")
    least = Case(network, hardware, options).problem(1000).minimum
    budget = least + random.randint(1, 12)
    problem = Case(network, hardware, options).problem(budget)
    values = []
    shapes = []
    for stage in problem.graph.stages:
        height, width = largest_block(stage, network.shapes[stage.name])
        shapes.append(product(range(1, height + 1), range(1, width + 1)))
    judge = OBJECTIVES[objective](problem)
    for blocks in product(*shapes):
        graph = problem.in_blocks(blocks).graph
        for each in product(*(range(1, grid.total + 1) for grid in graph.grids)):
            copies = np.array(each)
            if problem.arrays(copies, blocks) <= budget:
                values.append(judge.value_of(simulate(graph, copies)))
    found = rramalloc.optimize(network, budget, hardware=hardware, objective=objective, mapping="sdk", work=2)
    assert found.lower_bound <= min(values) * (1 + 1e-9)
    assert found.objective_value >= min(values) * (1 - 1e-9)
    if found.gap == 0:
        assert found.objective_value == pytest.approx(min(values), rel=1e-9)


@pytest.mark.parametrize(
    "pair",
    [
        ("arrays", "energy"), ("arrays", "edp"), ("latency_ns", "energy"), ("energy", "latency_ns"),
        ("area", "edp"), ("interval", "energy"), ("energy", "interval"), ("interval", "latency_ns"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "more",
    [
        pytest.param({}, id="one step"),
        pytest.param({"memory": {"bandwidth_gb_s": 0.8, "reuse": "row", "scope": "per_layer"}}, id="memory"),
    ],
)
@settings(max_examples=4)
@given(random=randoms)
def test_front_of_any_two(pair: tuple[Any, Any], more: dict[str, Any], random: Random) -> None:
    """Every point is an allocation's, none dominates another, and no allocation is below a bound."""
    energy = {"read_pj": 1.0, "leakage_mw": random.choice((0.01, 0.3, 5.0)), "area_um2": 10.0}
    hardware = machine(random, energy=energy, **more)
    case = case_of(random, hardware)
    joules, latency = energies(case, hardware)
    arrays = case.allocations @ case.problem.demand
    interval = (-(-case.problem.graph.windows // case.allocations)).max(axis=1)
    steps = np.array([case.problem.step_time.step_ns(row) for row in case.allocations])  # type: ignore[union-attr]
    table: dict[str, Any] = {
        "arrays": arrays, "latency_ns": latency, "energy": joules, "edp": joules * latency,
        "area": 10.0 * arrays,
        "interval": interval * steps if more else interval,
    }  # fmt: skip
    x, y = (table[name] for name in pair)
    front = rramalloc.pareto(
        case.problem.graph.network, case.problem.budget, hardware=hardware, objective=pair[1],
        against=pair[0],
        work=60, progress=False,
    )  # fmt: skip
    points = front.points
    ends = [*(point.across for point in points[1:]), float("inf")]
    for point, end in zip(points, ends, strict=True):
        assert (np.isclose(x, point.across) & np.isclose(y, point.value)).any()
        assert point.lower_bound <= y[x < end * (1 - 1e-9)].min() * (1 + 1e-9)
        if point.gap == 0:
            assert not ((x < end * (1 - 1e-9)) & (y < point.value * (1 - 1e-9))).any()
    values = [point.value for point in points]
    assert values == sorted(values, reverse=True)
    assert [point.across for point in points] == sorted(point.across for point in points)
