"""Copies that may not straddle tiles: only allocations that can be placed, and bounds among those."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from laws.packing import placeable
from laws.strategies import ALL_PIXELS, ANY, Enumerated, enumerated, randoms

import rramalloc
from rramalloc.allocation.case import Case
from rramalloc.hardware.hardware import Chip, Hardware
from rramalloc.hardware.loader import load_hardware
from rramalloc.importers import load
from rramalloc.mapping.options import MappingOptions
from rramalloc.mapping.tiles import Tiles
from rramalloc.methods.registry import method_named
from rramalloc.network.network import Network
from rramalloc.search import auto, fewest, interval, repair, sequential
from rramalloc.search.improve import Improver
from rramalloc.search.menu import Menu
from rramalloc.search.problem import Problem
from rramalloc.search.work import Work
from rramalloc.timing.simulate import makespan_of


def tiled(case: Enumerated, random: Random) -> tuple[Problem, Enumerated] | None:
    """The case on a chip with hardly more room than its budget, and those allocations that fit."""
    arrays = random.randint(int(case.problem.demand.max()), int(case.problem.demand.max()) + 4)
    count = -(-random.randint(case.problem.minimum, case.problem.budget) // arrays)
    tiles = Tiles(count, arrays)
    if tiles.pack(case.problem.demand, np.ones_like(case.problem.demand)).fit != "fits":
        return None
    problem = replace(case.problem, tiles=tiles)
    fitting = np.array([placeable(tiles, case.problem.demand, row) for row in case.allocations])
    return problem, Enumerated(problem, case.allocations[fitting], case.makespans[fitting])


SMALL = enumerated(nodes=6, extent=4, ops=ANY + ALL_PIXELS, stages=4)


@settings(max_examples=50)
@given(case=SMALL, random=randoms)
def test_searches_keep_to_the_tiles(case: Enumerated, random: Random) -> None:
    """What they find can be placed, and no bound is above the best that can."""
    assume(len(case.allocations) <= 1000)
    found = tiled(case, random)
    assume(found is not None)
    assert found is not None
    problem, fitting = found
    best = auto.solve(problem, Work(work=2), 0)
    even = interval.solve(problem, Work(), 0)
    fewer = fewest.solve(problem, Work(work=2), 0, int(fitting.makespans.max()))
    in_turn = sequential.solve_in_turn(problem, Work(), None)
    greedy = method_named("recurrence").solve(replace(problem, tiles=None), Work(), 0).choice.copies
    for copies in (
        *(each.choice.copies for each in (best, even, fewer, in_turn)),
        repair.fitting(problem, greedy),
    ):
        assert (fitting.allocations == copies).all(axis=1).any(), "cannot be placed"
    reached = makespan_of(problem.graph, best.choice.copies)
    assert max(best.lower_bound, even.lower_bound) <= fitting.optimum <= reached
    assert reached == fitting.optimum or not best.proof.startswith("proven optimal")
    assert makespan_of(problem.graph, fewer.choice.copies) <= fitting.makespans.max()
    batches = -(-problem.graph.windows // np.vstack([fitting.allocations, in_turn.choice.copies]))
    *every, least = batches.sum(axis=1).tolist()
    assert in_turn.objective_bound is not None
    assert in_turn.objective_bound <= min(every) <= least


def cores(count: int, arrays: int, *, straddle: bool = False) -> Hardware:
    chip = Chip(arrays_per_tile=arrays, straddle=straddle, tiles=(1, count), chips=(1, 1))
    return load_hardware("plain").model_copy(update={"chip": chip})


@pytest.mark.parametrize("name", ["auto", "interval", "recurrence", "milp", "published"])
def test_every_method_returns_what_can_be_placed(name: str) -> None:
    hardware = cores(10, 150)
    allocation = rramalloc.optimize("vgg16", 1500, hardware=hardware, method=name, work=4)
    copies = np.array([layer.replication for layer in allocation.layers])
    demand = np.array([layer.demand for layer in allocation.layers])
    assert placeable(Tiles(10, 150), demand, copies)
    free = rramalloc.optimize("vgg16", 1500, method="auto", work=4)
    assert allocation.makespan >= free.lower_bound


def test_beams_whose_finds_cannot_be_placed_leave_work_for_annealing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A beam finds the same again as long as its guide stays, so it must not be tried for ever."""
    hardware = load_hardware("plain").with_crossbar(256, 256)
    problem = Case(load("resnet18"), hardware, MappingOptions(mapping="sdk")).problem(386)
    menu = Menu.of(problem)
    improver = Improver(problem, menu, 0)
    best = menu.choice(problem, menu.cheapest(menu.smallest_interval(problem))[0])
    annealed = []
    anneal = Improver._anneal
    monkeypatch.setattr(Improver, "_anneal", lambda *given: annealed.append(1) or anneal(*given))
    monkeypatch.setattr(Problem, "holds", lambda *_: False)
    same = improver.run(best, 1, 3.0, Work())
    assert same is best
    assert len(annealed) > 5


def test_the_bound_of_an_interval_holds_where_tiles_refuse_the_cheapest_modes() -> None:
    """The cheapest modes with an interval of 2 need arrays of three in tiles of two; others have it too.

    Copies 3 3 2 2 2 of single windows take 12 arrays, 2 batches and steps of 19 ns.
    """
    conv = {"op": "conv", "kernel": 3, "pads": 1}
    nodes: list[dict[str, Any]] = [
        {"name": "in", "op": "input", "shape": [1, 1, 3]},
        {"name": "a", "inputs": ["in"], "out_channels": 1} | conv,
        {"name": "b", "op": "linear", "inputs": ["a"], "out_features": 2},
        {"name": "c", "op": "linear", "inputs": ["b"], "out_features": 3},
        {"name": "d", "inputs": ["c"], "out_channels": 1} | conv,
        {"name": "e", "op": "conv", "inputs": ["d"], "out_channels": 2, "kernel": 1},
    ]
    hardware = Hardware.model_validate({
        "crossbar": {"wordlines": 16, "bitlines": 8, "cell_bits": 4},
        "precision": {"weight_bits": 8, "input_bits": 8, "output_bits": 8, "signed": "offset"},
        "timing": {"read_ns": 1.0, "dac_bits": 1, "adc_ns": 0.5, "columns_per_adc": 4},
        "memory": {"bandwidth_gb_s": 3.0, "reuse": "row", "scope": "shared"},
        "chip": {"arrays_per_tile": 2, "straddle": False, "tiles": [3, 3], "chips": [1, 1]},
    })  # fmt: skip
    network = Network.build("five", nodes)
    options: dict[str, Any] = {"hardware": hardware, "mapping": "sdk", "objective": "interval", "work": 20}
    held = dict(zip("abcde", (3, 3, 2, 2, 2), strict=True))
    one = rramalloc.optimize(network, 14, copies=held, **options)
    assert (one.objective_value, one.interval, one.step_ns) == (38.0, 2, 19.0)
    assert rramalloc.optimize(network, 14, copies={"a": 3, "b": 3}, **options).lower_bound <= 38.0
