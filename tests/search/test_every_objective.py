"""Every objective and every front against all allocations of tiny problems.

Copies and modes, common steps and own clocks, with and without memory and chip. Other tests hold what times
an allocation against a walk; objectives are those of docs/sources/model.md 8 and 12.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from itertools import pairwise, permutations, product
from random import Random
from typing import Any, NamedTuple

import laws.strategies
import numpy as np
import pytest

import rramalloc
from rramalloc.allocation.case import Case
from rramalloc.choices import ObjectiveName
from rramalloc.errors import BudgetError, LimitError, SpecError, TargetError
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.mode import Mode
from rramalloc.mapping.modes import BlockGrid, largest_block, smallest_block
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.network import Network
from rramalloc.search.descent import Descent
from rramalloc.search.menu import Menu
from rramalloc.search.objective import OBJECTIVES, LeastEnergy, TimeObjective, _ByArrays
from rramalloc.search.problem import Problem
from rramalloc.search.ranges import Incumbent, Piece
from rramalloc.search.work import Work
from rramalloc.timing.simulate import makespan_of_each
from rramalloc.timing.stage_graph import StageGraph

MOST_ALLOCATIONS = 1500
SAME = 1e-9
QUANTITIES = ("arrays", "makespan", "latency_ns", "interval", "energy", "edp", "area")


class Enumerated(NamedTuple):
    """A problem, and the quantities of each of its allocations."""

    network: Network
    hardware: Hardware
    mapping: Any
    budget: int
    ways: list[dict[str, float]]
    copies: dict[str, tuple[int, int]]
    divide: Any = None

    def options(self) -> dict[str, Any]:
        return {
            "hardware": self.hardware,
            "mapping": self.mapping,
            "copies": self.copies,
            "copies_divide": self.divide,
        }


OPS = ("conv", "conv", "conv", "conv_transpose", "add", "concat", "maxpool", "upsample", "linear", "flatten")


def random_network(random: Random) -> Network:
    """A chain, or a graph of any operators; some layers with bits of their own."""
    if random.random() < 0.5:
        nodes = laws.strategies.random_network(random, 5, 4, OPS).to_dict()["nodes"]
    else:
        nodes = random_chain(random)
    for node in nodes:
        if node["op"] in ("conv", "conv_transpose", "linear") and random.random() < 0.2:
            node["weight_bits"], node["input_bits"] = random.choice((2, 4)), random.choice((2, 8))
    return Network.build("tiny", nodes, source="generated")


def random_chain(random: Random) -> list[dict[str, Any]]:
    shape = [random.choice((1, 2, 3)), random.choice((1, 1, 2, 3, 4)), random.choice((1, 2, 3, 4, 5))]
    nodes: list[dict[str, Any]] = [{"name": "in", "op": "input", "shape": shape}]
    for number in range(random.randint(1, 4)):
        op = random.choice(("conv", "conv", "conv", "linear", "relu", "maxpool"))
        node = {"name": f"n{number}", "op": op, "inputs": [nodes[-1]["name"]]}
        if op == "conv":
            kernels = {"kernel": 1}, {"kernel": [1, 3], "pads": [0, 1, 0, 1]}, {"kernel": 3, "pads": 1}
            node |= random.choice(kernels) | {"out_channels": random.randint(1, 6)}
        elif op == "linear":
            node["out_features"] = random.randint(1, 6)
        elif op == "maxpool":
            node |= {"kernel": [1, 2], "pads": [0, 0, 0, 1]}
        nodes.append(node)
    return [
        *nodes,
        {"name": "z", "op": "conv", "inputs": [nodes[-1]["name"]], "kernel": 1, "out_channels": 2},
    ]


def random_hardware(random: Random) -> Hardware:
    tables: dict[str, Any] = {
        "name": "tiny", "source": "generated",
        "crossbar": {"wordlines": random.choice((8, 16)), "bitlines": random.choice((8, 16)), "cell_bits": 4,
                     "slices": random.choice(("columns", "columns", "arrays"))},
        "precision": {"weight_bits": random.choice((2, 4, 8)), "input_bits": random.choice((4, 8)),
                      "output_bits": 8, "signed": random.choice(("offset", "offset", "differential"))},
        "timing": {"read_ns": random.choice((1.0, 5.0)), "dac_bits": random.choice((1, 4)), "adc_ns": 0.5,
                   "columns_per_adc": random.choice((1, 4))},
        "energy": {"read_pj": random.choice((0.0, 0.5, 5.0)), "pj_per_byte": random.choice((0.0, 0.5)),
                   "leakage_mw": random.choice((0.0, 0.01, 0.3)), "area_um2": 10.0},
    }  # fmt: skip
    if random.random() < 0.3:
        tables["timing"]["rows_per_read"] = 4
    if random.random() < 0.4:
        tables["timing"] |= {"clock": "own", "tick_ns": random.choice((1.0, 2.5))}
    if random.random() < 0.6:
        tables["memory"] = {
            "bandwidth_gb_s": random.choice((0.1, 1.0, 3.0)),
            "reuse": random.choice(("none", "row", "full")),
            "scope": random.choice(("per_layer", "shared")),
        }
    if random.random() < 0.4:
        tables["chip"] = {"arrays_per_tile": random.choice((2, 4)), "tiles": [3, 3], "chips": [1, 1]}
        if random.random() < 0.6:
            tables["chip"] |= {"arrays_per_tile": random.choice((2, 3, 4)), "sharing": "layer"}
    return Hardware.model_validate(tables)


def random_case(random: Random) -> Enumerated:
    """Draw until there is a choice, but not of too many allocations."""
    while True:
        network, hardware = random_network(random), random_hardware(random)
        mapping = random.choice(("im2col", "sdk"))
        try:
            options = MappingOptions(mapping=mapping)
            case = Case(network, hardware, options)
            least = case.problem(36).minimum
            limits = random_limits(case.graph, random) if random.random() < 0.5 else {}
            divide = random.choice((None, None, "width", "windows"))
            budget = least + random.randint(0, 6) + len(limits)
            ways = all_ways(case.problem(budget), budget, limits, divide)
        except (BudgetError, SpecError):
            continue
        if len(ways) >= 3:
            return Enumerated(network, hardware, mapping, budget, ways, limits, divide)


def random_limits(graph: StageGraph, random: Random) -> dict[str, tuple[int, int]]:
    """The fewest and the most copies of some layers."""
    limits = {}
    for name, most, weighted in zip(graph.names, graph.most_copies.tolist(), graph.weighted, strict=True):
        if weighted and random.random() < 0.6:
            low = random.randint(1, min(most, 3))
            limits[name] = (low, random.randint(low, min(most, low + 3)))
    return limits


def all_ways(
    problem: Problem, budget: int, limits: dict[str, tuple[int, int]], divide: str | None = None
) -> list[dict[str, float]]:
    """The quantities of all allocations within a budget and limits, none where there are too many."""
    graph, modes = problem.graph, list[dict[tuple[int, int], list[int]]]()
    for stage, node in enumerate(graph.stages):
        unit, most = smallest_block(node), largest_block(node, graph.network.shapes[node.name])
        sides = [range(unit[axis], most[axis] + 1, unit[axis]) for axis in (0, 1)]
        blocks = list(product(*sides)) if problem.chooses_blocks else [graph.blocks[stage]]
        low, high = limits.get(node.name, (1, 2**40))
        totals = [(block, graph.grids[stage].recut(block).total) for block in blocks]
        every = [(b, d, total) for b, total in totals for d in range(low, min(high, total) + 1)]
        if divide is not None:
            every = [each for each in every if divides(graph.grids[stage], divide, *each)]
        modes.append({block: [count for other, count, _ in every if other == block] for block, _, _ in every})
    if math.prod(sum(map(len, each.values())) for each in modes) > MOST_ALLOCATIONS:
        return []
    return [way for blocks in product(*modes) for way in ways_in(problem, blocks, modes)]


def ways_in(
    problem: Problem, blocks: tuple[tuple[int, int], ...], modes: list[dict[tuple[int, int], list[int]]]
) -> Iterator[dict[str, float]]:
    """Yield the quantities of all allocations in these blocks, timed in one call."""
    each = product(*(own[block] for own, block in zip(modes, blocks, strict=True)))
    chosen = tuple(Mode(*block) for block in blocks)
    taken = {copies: arrays_taken(problem, blocks, np.array(copies)) for copies in each}
    rows = np.array([copies for copies, arrays in taken.items() if arrays <= problem.budget], dtype=np.int64)
    if not len(rows):
        return
    fixed = problem.in_modes(chosen)
    for copies, makespan in zip(rows, makespan_of_each(fixed.graph, rows).tolist(), strict=True):
        assert fixed.step_time is not None
        step_ns, total = fixed.step_time.step_ns(copies), problem.measured(makespan, copies, chosen).total
        interval = problem.time.interval(copies, chosen)
        yield {
            "arrays": taken[tuple(copies.tolist())], "makespan": makespan, "latency_ns": makespan * step_ns,
            "interval": interval, "interval_ns": interval * step_ns,
            "energy": total.energy_pj or 0.0, "edp": total.edp or 0.0, "area": total.area_um2 or 0.0,
        }  # fmt: skip


def divides(grid: BlockGrid, divide: str, block: tuple[int, int], copies: int, total: int) -> bool:
    """Whether copies divide the blocks of a row, or all (docs/sources/model.md 15)."""
    return (-(-(grid.width + grid.phase[1]) // block[1]) if divide == "width" else total) % copies == 0


def arrays_taken(problem: Problem, blocks: tuple[tuple[int, int], ...], copies: Any) -> int:
    """Arrays of an allocation: whole tiles where each is of one layer (docs/sources/model.md 15)."""
    stored = problem.storage.stored([Mode(*block) for block in blocks], copies).tolist()
    hardware = problem.storage.hardware
    chip = None if hardware is None else hardware.own_tiles
    room = 1 if chip is None else chip.arrays_per_tile
    return sum(room * -(-arrays // room) for arrays in stored)


def best_of(ways: list[dict[str, float]], *quantities: str) -> dict[str, float]:
    """The way with the least first quantity, of equals that with the least second one, and so on."""
    for quantity in quantities:
        least = min(way[quantity] for way in ways)
        ways = [way for way in ways if way[quantity] <= least * (1 + SAME)]
    return ways[0]


@cache
def case_of(number: int) -> Enumerated:
    """One of the cases that all tests here share: most of the time goes into timing every allocation."""
    return random_case(Random(number))


EACH_CASE = pytest.mark.parametrize("number", range(10))
VALUES = {"latency": "latency_ns", "interval": "interval_ns", "energy": "energy", "edp": "edp"}
"""Objectives, and what they minimise."""
NOT_FOUND = {(5, "energy"): 1.02, (5, "edp"): 1.07}
"""With so little work the best is not found; its gap says that it is not proven."""


def in_ns(found: rramalloc.Allocation) -> tuple[float, float]:
    """Objective and bound, in ns where they are of time."""
    step_ns = found.step_ns or found.tick_ns or 0.0
    factor = step_ns if found.objective_unit in ("steps", "ticks") else 1.0
    return found.objective_value * factor, found.lower_bound * factor


@EACH_CASE
def test_the_best_allocation_is_found_and_no_bound_is_above_it(number: int) -> None:
    """Ties: of equal intervals the least latency, whatever the step; of all else the fewest arrays."""
    case = case_of(number)
    for objective, named in VALUES.items():
        found = rramalloc.optimize(case.network, case.budget, objective=objective, work=5, **case.options())
        value, bound = in_ns(found)
        best = best_of(case.ways, named)[named]
        assert bound <= best * (1 + SAME), objective
        if (missed := NOT_FOUND.get((number, objective))) is not None:
            assert value <= missed * best
            continue
        assert value == pytest.approx(best, rel=SAME), objective
        ties = ("latency_ns", "arrays") if objective == "interval" else ("arrays",)
        tie = best_of(case.ways, named, *ties)
        assert found.arrays.used == tie["arrays"], objective
        if objective == "interval":
            assert found.latency_ns == pytest.approx(tie["latency_ns"], rel=SAME)


@EACH_CASE
def test_bounds_that_are_known_without_a_search(number: int) -> None:
    """Relaxations alone; and what arrays and a latency leave of the energy."""
    case = case_of(number)
    options, limits = MappingOptions(mapping=case.mapping), {"copies": case.copies, "divide": case.divide}
    problem = Case(case.network, case.hardware, options, **limits).problem(case.budget)
    for objective, named in VALUES.items():
        judge = OBJECTIVES[objective](problem)
        bound = judge.bound(1, Work())
        bound = judge.in_ns(bound) if isinstance(judge, TimeObjective) else bound
        assert 0 <= bound <= best_of(case.ways, named)[named] * (1 + SAME), objective
        if isinstance(judge, LeastEnergy):
            for way in case.ways:
                floor = judge.least(int(way["arrays"]), way["latency_ns"])
                assert floor <= way[named] * (1 + SAME), objective


@EACH_CASE
@pytest.mark.parametrize("objective", ["energy", "edp"])
def test_floors_by_cuts_hold_for_every_range_of_arrays(number: int, objective: ObjectiveName) -> None:
    """Of copies and modes, with own clocks, memory and whole tiles."""
    case = case_of(number)
    options, limits = MappingOptions(mapping=case.mapping), {"copies": case.copies, "divide": case.divide}
    problem = Case(case.network, case.hardware, options, **limits).problem(case.budget)
    judge, stop = OBJECTIVES[objective](problem), Work()
    assert isinstance(judge, LeastEnergy)
    menu = Menu.of(problem)
    model = _ByArrays(judge, Incumbent(problem, judge.measure), Descent(problem, menu, stop), stop, 0)
    model.add_cuts(Piece(problem.minimum - 1, case.budget, -1.0))
    slowest_ns = menu.choice(problem, menu.smallest).makespan * model._step_ns
    ends = {judge.least(arrays, slowest_ns) for arrays in (problem.minimum, case.budget)}
    assert bool(model.cuts) == (len(ends) > 1), "no cuts only where the number of arrays costs nothing"
    for way in case.ways:
        arrays, most = int(way["arrays"]), way[objective] * (1 + SAME)
        for first, last in ((arrays, arrays), (problem.minimum, arrays), (arrays, case.budget)):
            assert model.floor(first, last, 0.0) <= most


@EACH_CASE
def test_the_time_of_inputs_that_stream(number: int) -> None:
    """makespan + (N - 1) * interval: the least of all is found, of equals the fewest arrays."""
    case, inputs = case_of(number), (2, 3, 10, 100)[number % 4]
    found = rramalloc.optimize(case.network, case.budget, inputs=inputs, work=5, **case.options())
    streams = [way | {"stream": way["latency_ns"] + (inputs - 1) * way["interval_ns"]} for way in case.ways]
    best = best_of(streams, "stream")["stream"]
    value, bound = in_ns(found)
    step_ns = found.step_ns or found.tick_ns or 0.0
    assert bound <= best * (1 + SAME)
    assert value == pytest.approx(best, rel=SAME)
    assert (found.makespan + (inputs - 1) * found.interval) * step_ns == pytest.approx(best, rel=SAME)
    assert found.arrays.used == best_of(streams, "stream", "arrays")["arrays"]


LIMITED = {
    "area_um2": "area",
    "energy_pj": "energy",
    "latency_ns": "latency_ns",
    "interval_ns": "interval_ns",
    "power_mw": "power_mw",
}


@EACH_CASE
def test_limits_of_quantities_are_kept_and_bounds_hold_under_them(number: int) -> None:
    """No bound is above the best of the allocations that keep to all; what is proven to be empty is empty."""
    case, random = case_of(number), Random(number)
    for way in case.ways:
        way["power_mw"] = way["energy"] / way["latency_ns"]
    for objective, named in (VALUES | {"arrays": "arrays"}).items():
        limits = {}
        for name in random.sample(list(LIMITED), random.randint(1, 2)):
            values = sorted({way[LIMITED[name]] for way in case.ways if way[LIMITED[name]]})
            limits[name] = random.choice(values or [1.0]) * random.choice((1.0, 1.0, 1.0, 0.999))
        kept = [w for w in case.ways if all(w[LIMITED[n]] <= x * (1 + SAME) for n, x in limits.items())]
        options = case.options() | {"at_most": limits, "objective": objective, "work": 5}
        found, proven = None, False
        try:
            found = rramalloc.optimize(case.network, case.budget, **options)
        except (LimitError, TargetError) as error:
            proven = error.proven
        if found is None:
            assert not (proven and kept), (objective, limits)
            continue
        (value, bound), best = in_ns(found), best_of(kept, named)[named]
        assert bound <= best * (1 + SAME), (objective, limits)
        assert best * (1 - SAME) <= value <= best * 1.5, (objective, limits)  # tiny: searched to its end


@EACH_CASE
def test_fewest_arrays_for_a_latency(number: int) -> None:
    """A latency that an allocation has is a target that is accepted, also where steps differ in length."""
    case = case_of(number)
    target_ns = Random(number).choice(case.ways)["latency_ns"]
    fewest = best_of([w for w in case.ways if w["latency_ns"] <= target_ns * (1 + SAME)], "arrays")["arrays"]
    options = case.options() | {"objective": "arrays", "target_ns": target_ns, "work": 5}
    found = rramalloc.optimize(case.network, case.budget, **options)
    assert found.latency_ns is not None
    assert found.latency_ns <= target_ns * (1 + SAME)
    assert (found.arrays.used, found.lower_bound <= fewest) == (fewest, True)


@EACH_CASE
def test_fewest_arrays_for_an_interval_or_a_throughput_are_proven(number: int) -> None:
    """Stage by stage, so exact; a value of a result is accepted."""
    case, random = case_of(number), Random(number)
    asked = random.choice(case.ways)
    longest_ns = asked["interval_ns"] * (1 + SAME)
    own = random.choice(("target_interval", "target_throughput"))
    wish = {"target_interval": f"{asked['interval_ns']!r}ns", "target_throughput": 1e9 / asked["interval_ns"]}
    fewest = best_of([way for way in case.ways if way["interval_ns"] <= longest_ns], "arrays")["arrays"]
    found = rramalloc.optimize(case.network, case.budget, **case.options(), **{own: wish[own]})
    assert found.throughput_per_s is not None
    assert 1e9 / found.throughput_per_s <= longest_ns
    assert found.lower_bound <= fewest
    assert (found.objective, found.arrays.used, found.gap) == ("arrays", fewest, 0)
    least_ns = min(way["interval_ns"] for way in case.ways)
    with pytest.raises(TargetError) as caught:
        rramalloc.optimize(case.network, case.budget, **case.options(), target_throughput=1.001e9 / least_ns)
    assert caught.value.proven
    assert caught.value.bound == pytest.approx(1e9 / least_ns)
    if (need := caught.value.need) is not None and caught.value.chip is None:
        more = case.options() | {"target_throughput": 1.001e9 / least_ns}
        assert case.budget < rramalloc.optimize(case.network, need, **more).arrays.used <= need


def staircase(ways: list[dict[str, float]], across: str, along: str) -> list[tuple[float, float]]:
    """All points that no way dominates."""
    points = list[tuple[float, float]]()
    for way in sorted(ways, key=lambda way: (way[across], way[along])):
        if points and way[along] >= points[-1][1] * (1 - SAME):
            continue
        if points and way[across] <= points[-1][0] * (1 + SAME):
            points.pop()
        points.append((way[across], way[along]))
    return points


@EACH_CASE
@pytest.mark.parametrize("turn", range(2))
def test_fronts_of_any_two_quantities(number: int, turn: int) -> None:
    """Points are those of all allocations, none dominated, and each is bounded by what is below the next."""
    case = case_of(number)
    across, along = Random(2 * number + turn).choice(
        [pair for pair in permutations(QUANTITIES, 2) if pair[1] != "arrays" and pair[0] != "makespan"]
    )
    front = rramalloc.pareto(
        case.network, case.budget, objective=along, against=across, work=25, **case.options()
    )
    units = {across: front.against_unit, along: front.unit}
    named = {q: "interval_ns" if q == "interval" and unit == "ns" else q for q, unit in units.items()}
    right = staircase(case.ways, named[across], named[along])
    found = [(p.arrays if across == "arrays" else p.against_value, p.value) for p in front.points]
    for point, after in pairwise(found):
        assert point[0] < after[0]
        assert point[1] > after[1]
    if front.proven == len(found) or across == "arrays":
        assert np.array(found, dtype=float) == pytest.approx(np.array(right), rel=SAME)
    ends = [x for x, _ in found[1:]] + [math.inf]
    for point, end in zip(front.points, ends, strict=True):
        least = min(way[named[along]] for way in case.ways if way[named[across]] < end * (1 - SAME))
        assert point.lower_bound <= least * (1 + SAME)
        assert point.value >= least * (1 - SAME)
