"""Digital nodes with a rate: stages without arrays, one pixel a batch (docs/sources/model.md 11)."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from laws.reference import reference
from laws.strategies import random_network, randoms

import rramalloc
from rramalloc.allocation.case import Case
from rramalloc.allocation.check import finish_by_cumulative_maximum
from rramalloc.errors import SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import load_hardware
from rramalloc.mapping.mode import Mode
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.node import KINDS, WEIGHT_OPERATORS
from rramalloc.timing.clocks import timed_graph
from rramalloc.timing.simulate import makespan_of, simulate

DIGITAL = [name for name in KINDS if name not in (*WEIGHT_OPERATORS, "input")]
SMALL = {
    "format": "rramalloc-network/1",
    "name": "small",
    "nodes": [
        {"name": "in", "op": "input", "shape": [3, 4, 4]},
        {"name": "a", "op": "conv", "inputs": ["in"], "out_channels": 4, "kernel": 1},
        {"name": "r", "op": "relu", "inputs": ["a"]},
        {"name": "p", "op": "maxpool", "inputs": ["r"], "kernel": 2, "stride": 2},
        {"name": "b", "op": "conv", "inputs": ["p"], "out_channels": 4, "kernel": 1},
    ],
}


@pytest.fixture
def small(tmp_path: Any) -> Any:
    path = tmp_path / "small.json"
    path.write_text(json.dumps(SMALL))
    return path


def machine(rates: dict[str, float] | None, **more: Any) -> Hardware:
    """Arrays with a step of 10 ns and ticks of 2 ns."""
    document = load_hardware("plain").to_dict()
    document["precision"] |= {"input_bits": 8, "output_bits": 8}
    timing = {"step_ns": 10.0, "clock": "own", "tick_ns": 2.0}
    digital = {"digital": {"ns_per_pixel": rates}} if rates else {}
    return Hardware(**(document | {"timing": timing} | digital | more))


def test_a_pool_by_hand(small: Any) -> None:
    """Batches of a take 5 ticks, a pixel of the pool 7 ns are 4 ticks; relu is free.

    With one copy pixels 0 ... 5 of a are there at 30: the pool starts at 30, its pixels at 30, 40, 70 and 80
    (pixels 7, 13, 15 end at 40, 70, 80) end 4 later. b starts at 34, 44, 74, 84 and ends at 89.
    """
    found = rramalloc.simulate(small, {"a": 1}, hardware=machine({"maxpool": 7.0}))
    layers = {layer.name: layer for layer in found.layers}
    assert [layer.name for layer in found.layers] == ["a", "p", "b"]
    pool = layers["p"]
    assert (pool.windows, pool.arrays_per_copy, pool.copies, pool.arrays, pool.batches) == (4, 0, 1, 0, 4)
    assert (pool.cycles, pool.start, pool.finish) == (4, 30, 84)
    assert (layers["b"].start, layers["b"].finish) == (34, 89)
    assert found.makespan == 89
    assert found.latency_ns == 178.0
    assert found.arrays == 2
    assert found.coverage is not None
    assert (found.coverage.timed_digital, found.coverage.free_digital) == (("p",), ("r",))
    assert "taken as free: r" in found.coverage.summary


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"digital": {"ns_per_pixel": {"conv": 1.0}}}, "is on arrays or on the host"),
        ({"digital": {"ns_per_pixel": {"pool": 1.0}}}, "is no operator that takes time"),
        ({"digital": {"ns_per_pixel": {"input": 1.0}}}, "is no operator that takes time"),
        ({"digital": {"ns_per_pixel": {}}}, "ns_per_pixel"),
        ({"digital": {"ns_per_pixel": {"add": 0.0}}}, "greater than or equal to"),
        ({"digital": {"ns_per_pixel": {"add": 1.0}}, "timing": {"step_ns": 1.0}}, 'clock = "own"'),
        ({"digital": {"ns_per_pixel": {"add": 1.0}}, "timing": None}, 'clock = "own"'),
    ],
)
def test_what_a_rate_needs(document: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        machine(None, **document)


def random_rates(random: Random) -> dict[str, float]:
    return {name: random.choice((0.5, 2.0, 7.0, 30.0)) for name in DIGITAL if random.random() < 0.6}


@given(random=randoms)
@settings(max_examples=150)
def test_timing_is_that_of_the_walk(random: Random) -> None:
    """Own clocks, delays of all edges and digital rates, against the definition taken literally."""
    network = random_network(random)
    hardware = machine(random_rates(random) or {"relu": 2.0}, memory=random.choice((None, MEMORY)))
    graph = timed_graph(network, hardware, MappingOptions())
    edges = [(edge.producer, edge.consumer) for edge in graph.edges]
    if random.random() < 0.7:
        lags = {edge: random.choice((0, 1, 3, 40)) for edge in edges}
        graph = replace(graph, lags=lags, _in_blocks={}, _needed={})
    blocks = {}
    for stage in graph.stages:
        if stage.op == "conv" and random.random() < 0.4:
            shape = network.shapes[stage.name]
            blocks[stage.name] = random.randint(1, shape.height), random.randint(1, shape.width)
    graph = graph.in_blocks(
        [blocks.get(name, grid) for name, grid in zip(graph.names, graph.blocks, strict=True)]
    )
    copies = np.array([random.randint(1, int(most)) for most in graph.most_copies], dtype=np.int64)
    handoff = random.choice(("next", "same"))
    timing = simulate(graph, copies, handoff)
    ticks = dict(zip(graph.names, timing.cycles.tolist(), strict=True))
    expected = reference(
        network, dict(zip(graph.names, copies.tolist(), strict=True)), handoff, "host", blocks, ticks,
        {(graph.names[p], graph.names[c]): lag for (p, c), lag in graph.lags.items()},
    )  # fmt: skip
    assert {name: timing.of_stage(i).tolist() for i, name in enumerate(graph.names)} == expected.starts
    assert timing.makespan == expected.makespan
    assert timing.interval == expected.interval
    assert max(finish_by_cumulative_maximum(graph, copies, timing.cycles, handoff)) == expected.makespan


MEMORY = {"bandwidth_gb_s": 1.0, "reuse": "row", "scope": "shared"}


@pytest.mark.parametrize("mapping", ["im2col", "sdk"])
@pytest.mark.parametrize("seed", range(6))
def test_bounds_hold_and_the_best_is_found(seed: int, mapping: Any) -> None:
    """All allocations of small networks: the optimum is met, and no bound is above it."""
    random, done = Random(seed), 0
    while done < 6:
        network = random_network(random, 5, 5)
        hardware = machine(random_rates(random) or {"relu": 2.0}).with_crossbar(16, 16)
        options = MappingOptions(mapping=mapping)
        try:
            least = Case(network, hardware, options).problem(2**20).minimum
        except SpecError:
            continue
        problem = Case(network, hardware, options).problem(least + random.choice((0, 1, 3, 6)))
        graph = problem.graph
        if graph.weighted.all() or len(graph.stages) > 7:
            continue
        menus: list[list[tuple[tuple[int, int], int]]] = []
        for stage, grid in enumerate(graph.grids):
            sides = [(1, 1)]
            if mapping == "sdk" and graph.stages[stage].op == "conv":
                sides = list(product(range(1, grid.height + 1), range(1, grid.width + 1)))
            menus.append([
                (block, copies)
                for block in sides
                for copies in range(1, min(grid.recut(block).total, int(graph.most_copies[stage])) + 1)
                if _arrays(problem, stage, block, copies) <= problem.budget
            ])  # fmt: skip
        if not 2 <= np.prod([float(len(menu)) for menu in menus]) <= 3000:
            continue
        done += 1
        best = min(
            makespan_of(graph.in_blocks([block for block, _ in way]), np.array([d for _, d in way]))
            for way in product(*menus)
            if sum(_arrays(problem, i, *mode) for i, mode in enumerate(way)) <= problem.budget
        )
        found = rramalloc.optimize(network, problem.budget, hardware=hardware, mapping=mapping, work=40)
        assert found.lower_bound <= best
        assert found.makespan == best


def _arrays(problem: Any, stage: int, block: tuple[int, int], copies: int) -> int:
    if problem.one_block:
        return copies * int(problem.demand[stage])
    return int(problem.storage.of(stage, Mode(*block)).arrays(copies))


CHIP = {
    "arrays_per_tile": 1, "tiles": [3, 3], "chips": [1, 1], "hop_ns_tile": 8.0,
    "bandwidth_tile_gb_s": 4.0,
}  # fmt: skip
