"""Search over modes against exhaustive search: every block and number of copies of small random networks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws.reference import windows_of
from laws.strategies import Clocks, random_network, random_problem, randoms

from rramalloc.allocation.case import Case
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import load_hardware
from rramalloc.importers import load
from rramalloc.mapping import mode as mapping_mode
from rramalloc.mapping.demand import Storage
from rramalloc.mapping.modes import largest_block, smallest_block
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.network import Network
from rramalloc.search import auto, sequential
from rramalloc.search.bound.labels import ModeBounder
from rramalloc.search.bound.mode_prover import ModeProver
from rramalloc.search.improve import Improver
from rramalloc.search.menu import Menu, all_modes, copies_by_batches, limited_to
from rramalloc.search.objective import root_bound
from rramalloc.search.problem import Problem
from rramalloc.search.work import Work
from rramalloc.timing.kernel import NEXT_STEP, Shapes, batch_starts
from rramalloc.timing.simulate import makespan_of

OPS = ("conv", "conv", "conv", "add", "maxpool", "concat", "relu", "upsample", "conv_transpose")
IMAGE_OPS = (*OPS, "raster", "windows", "merge", "strided", "reduce", "frames", "take", "stack")
MOST_WAYS = 4000


class Mode(NamedTuple):
    """How a stage uses its arrays: each copy computes one `block` (height, width) of windows a step."""

    block: tuple[int, int]
    copies: int


@dataclass(frozen=True)
class Solved:
    """A problem and the least makespan of all its modes for every number of arrays."""

    problem: Problem
    best: int
    ways: list[tuple[int, int, tuple[Mode, ...]]]
    """(makespan, arrays, modes) of every allocation within the budget."""
    clocks: Clocks | None = None


def makespan_with_clocks(problem: Problem, modes: tuple[Mode, ...], clocks: Clocks) -> int:
    """docs/sources/model.md 11, word for word: every batch waits for every pixel that its windows need."""
    graph = problem.graph
    available: list[dict[tuple[int, int], int]] = []
    makespan = 0
    for i, mode in enumerate(modes):
        blocks = windows_of(graph.grids[i].recut(mode.block))
        period = clocks.length(i, mode.block, mode.copies)
        pixels: dict[tuple[int, int], int] = {}
        start = -period
        edges = [(edge, clocks.lag(edge.producer, i)) for edge in graph.edges if edge.consumer == i]
        for first in range(0, len(blocks), mode.copies):
            windows = [window for block in blocks[first : first + mode.copies] for window in block]
            start = max(start + period, 0)
            for edge, lag in edges:
                for extent in edge.extents:
                    for y, x in windows:
                        pixel = int(extent.rows[y]), int(extent.columns[x])
                        if min(pixel) >= 0:
                            start = max(start, available[edge.producer][pixel] + lag)
            pixels |= dict.fromkeys(windows, start + period)
        available.append(pixels)
        makespan = max(makespan, start + period)
    return makespan


def modes_of(problem: Problem, stage: int, most: int) -> Iterator[tuple[Mode, int]]:
    """docs/sources/model.md 10: every mode of a stage with at most so many arrays."""
    assert isinstance(problem.storage, Storage)
    node, grid = problem.graph.stages[stage], problem.graph.grids[stage]
    unit, largest = smallest_block(node), largest_block(node, problem.graph.network.shapes[node.name])
    for tall, wide in product(*(range(u, m + 1, u) for u, m in zip(unit, largest, strict=True))):
        arrays = problem.storage.of(stage, mapping_mode.Mode(tall, wide))
        for copies in range(1, grid.recut((tall, wide)).total + 1):
            if arrays.arrays(copies) <= most:
                yield Mode((tall, wide), copies), arrays.arrays(copies)


def solved(random: Random, tick: int = 0, most_ways: int = MOST_WAYS, images: int = 1) -> Solved | None:
    """All allocations of a small random problem; None if there are too many or too few of them.

    tick: periods and lags of random multiples of it; 0: stages step together.
    """
    network = random_network(random, 5, 5, OPS)
    if images > 1:
        network = random_network(random, 5, 4, IMAGE_OPS, images)
    lines = random.choice((8, 16, 32, 64))
    hardware = load_hardware("plain").with_crossbar(lines, lines)
    options = MappingOptions(mapping="sdk")
    try:
        least = Case(network, hardware, options).problem(2**20).minimum
    except Exception:  # noqa: BLE001
        return None
    problem = Case(network, hardware, options).problem(least + random.choice((0, 1, 2, 3, 5, 8)))
    if len(problem.demand) > 4:
        return None
    spare = problem.budget - problem.minimum
    choices = [list(modes_of(problem, i, int(problem.demand[i]) + spare)) for i in range(len(problem.demand))]
    if not 2 <= np.prod([float(len(choice)) for choice in choices]) <= 200_000:
        return None
    edges, grids = problem.graph.flat_extents, problem.graph.grids
    room = np.empty(sum(grid.height * grid.width for grid in grids), dtype=np.int64)
    first = np.empty(len(grids) + 1, dtype=np.int64)
    ways: list[tuple[int, int, tuple[Mode, ...]]] = []
    clocks = Clocks(random.randrange(2**30), tick) if tick else None
    problem = problem if clocks is None else clocks.of(problem)
    for chosen in product(*choices):
        arrays = sum(taken for _, taken in chosen)
        if arrays > problem.budget:
            continue
        modes = tuple(mode for mode, _ in chosen)
        if len(ways) > most_ways:
            return None
        if clocks is not None:
            ways.append((makespan_with_clocks(problem, modes, clocks), arrays, modes))
            continue
        shapes = Shapes.of([grid.recut(mode.block) for grid, mode in zip(grids, modes, strict=True)])
        copies = np.array([mode.copies for mode in modes], dtype=np.int64)
        steps = np.ones_like(copies)
        ways.append((int(batch_starts(edges, shapes, steps, copies, NEXT_STEP, room, first)), arrays, modes))
    return Solved(problem, min(ways)[0], ways, clocks)


def examples(
    seed: int, count: int, tick: int = 0, most_ways: int = MOST_WAYS, images: int = 1
) -> Iterator[Solved]:
    random = Random(seed)
    while count:
        case = solved(random, tick, most_ways, images)
        if case is not None:
            count -= 1
            yield case


@pytest.mark.parametrize(("seed", "images"), [*((seed, 1) for seed in range(6)), (30, 4), (31, 4), (32, 6)])
def test_bounds_hold_and_the_best_modes_are_found(seed: int, images: int) -> None:
    missed = 0
    for case in examples(seed, 8, images=images):
        check_bounds(case)
        answer = auto.solve(case.problem, Work(work=6, cores=1), 0)
        assert case.problem.arrays(answer.choice.copies, answer.choice.modes) <= case.problem.budget
        reached = makespan_of(case.problem.in_modes(answer.choice.modes).graph, answer.choice.copies)
        assert answer.lower_bound <= case.best <= reached
        missed += reached > case.best
    assert missed == 0


@pytest.mark.parametrize(
    ("seed", "tick", "images"), [(20, 1, 1), (21, 1, 1), (22, 7, 1), (23, 10**9, 1), (33, 7, 4)]
)
def test_bounds_hold_with_own_clocks(seed: int, tick: int, images: int) -> None:
    missed = 0
    for case in examples(seed, 8, tick, 300, images):
        check_bounds(case)
        answer = auto.solve(case.problem, Work(work=6, cores=1), 0)
        reached = makespan_of(case.problem.in_modes(answer.choice.modes).graph, answer.choice.copies)
        assert answer.lower_bound <= case.best <= reached
        missed += reached > case.best
    assert missed == 0


@pytest.mark.parametrize("fine", [False, True])
def test_targets_lie_between_bound_and_incumbent(fine: bool) -> None:
    """Also where only the bound itself is left: to refute the incumbent's makespan would prove nothing."""
    case = next(examples(3, 1))
    prover = ModeProver(case.problem, Menu.of(case.problem))
    prover._fine = fine
    for makespan in (2, 3, 8, 100, 5000):
        for bound in {1, makespan // 2, makespan - 2, makespan - 1} - {0}:
            target = prover._target(bound, makespan)
            assert target is not None
            assert bound <= target < makespan


def test_no_bound_is_above_an_allocation_that_its_own_turn_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the last box that was open held it: only boxes of single modes are timed here."""
    monkeypatch.setattr(ModeProver, "_look", lambda *_: None)
    found = 0
    for case in examples(24, 60, 10**9, 300):
        prover, longest = ModeProver(case.problem, Menu.of(case.problem)), max(case.ways)[0] + 1
        bound = 1
        for _ in range(60):
            turn = prover.run(bound, longest, 0.5, 5.0, Work(cores=1))
            if turn.found:
                found += 1
                assert turn.bound <= min(choice.makespan for choice in turn.found)
                break
            bound = max(bound, turn.bound)
            if bound >= longest:
                break
    assert found > 3


def check_bounds(case: Solved) -> None:
    """No bound is above the optimum, and no mode of an allocation that meets a target is left out."""
    problem = case.problem
    check_modes_left(case, Menu.of(problem))
    assert root_bound(problem, Work()) <= case.best
    intervals = [
        max(
            -(-grid.recut(mode.block).total // mode.copies)
            * (1 if case.clocks is None else case.clocks.length(i, mode.block, mode.copies))
            for i, (grid, mode) in enumerate(zip(problem.graph.grids, modes, strict=True))
        )
        for _, _, modes in case.ways
    ]
    assert Menu.of(problem).smallest_interval(problem) == min(intervals)


def check_modes_left(case: Solved, menu: Menu) -> None:
    """Targets below, at and above the optimum: no bound refutes what an allocation meets."""
    bounder = ModeBounder(case.problem, menu)
    tick = case.clocks.tick if case.clocks is not None else 1
    for target in (case.best - 1, case.best, case.best + 2 * tick):
        if target < 1:
            continue
        left = bounder.tighten(bounder.everything, target, Work())
        good = [way for way in case.ways if way[0] <= target]
        if good:
            assert left is not None
        for _, _, modes in good:
            for stage, mode in enumerate(modes):
                own = menu.stages[stage].take(left[stage])  # type: ignore[index]
                held = (own.each.tall == mode.block[0]) & (own.each.wide == mode.block[1])
                assert (held & (own.low <= mode.copies) & (mode.copies <= own.high)).any()


def test_the_least_sum_of_batches() -> None:
    """And of those the fewest arrays, as with every mode tried."""
    for case in examples(98, 20):
        sums = [
            (
                sum(
                    -(-grid.recut(mode.block).total // mode.copies)
                    for grid, mode in zip(case.problem.graph.grids, modes, strict=True)
                ),
                arrays,
            )
            for _, arrays, modes in case.ways
        ]
        answer = sequential.solve_in_turn(case.problem, Work(), None)
        assert answer.choice.modes is not None
        batches = -(-case.problem.in_modes(answer.choice.modes).graph.windows // answer.choice.copies)
        arrays = case.problem.arrays(answer.choice.copies, answer.choice.modes)
        assert (int(batches.sum()), arrays) == min(sums)
        assert answer.lower_bound == min(sums)[0]


@settings(max_examples=25, deadline=None)
@given(random=randoms)
def test_a_menu_lists_the_fewest_arrays_for_every_number_of_batches(random: Random) -> None:
    case: Any = None
    while case is None:
        case = solved(random)
    problem = case.problem
    menu = Menu.of(problem)
    spare = problem.budget - problem.minimum
    stages = len(problem.demand)
    for number in range(2 * stages):  # all staircases, then those of the lowest blocks
        stage = number % stages
        grid = problem.graph.grids[stage]
        stairs = slice(int(menu.stairs.first[number]), int(menu.stairs.first[number + 1]))
        fewest: dict[int, int] = {}
        for mode, arrays in modes_of(problem, stage, int(problem.demand[stage]) + spare):
            if number < stages or mode.block[0] == grid.block[0]:
                batches = -(-grid.recut(mode.block).total // mode.copies)
                fewest[batches] = min(fewest.get(batches, arrays), arrays)
        for batches in fewest:
            steps = [
                int(a)
                for a, b in zip(menu.stairs.arrays[stairs], menu.stairs.length[stairs], strict=True)
                if b <= batches
            ]
            assert min(steps) == min(a for b, a in fewest.items() if b <= batches)


@settings(max_examples=40)
@given(random=randoms, tick=st.sampled_from((0, 1)))
def test_modes_within_an_interval_keep_it_with_every_number_of_copies(random: Random, tick: int) -> None:
    """A batch of more copies may take longer, so that the copies left of a block need not be a range."""
    case = random_problem(random, 6, 5, OPS, 3, tick)
    problem, blocks = case.problem, case.problem.graph.modes
    longest = random.choice([problem.time.interval(row, blocks) for row in case.allocations[:50]])
    limited = limited_to(problem, longest)
    for i, each in enumerate(all_modes(limited)):
        every = range(1, int(limited.largest[i]) + 1)
        ends = zip(*(end.tolist() for end in each.copies_of_modes()), strict=True)
        left = {n for low, high in ends for n in range(low, high + 1)}
        total = problem.time.total(i, blocks[i])
        lengths = {n: -(-total // n) * problem.ticks(i, blocks[i], n) for n in every}
        assert left.intersection(every) == {n for n, length in lengths.items() if length <= longest}


def test_a_mode_outside_of_the_menu_has_one_that_stands_in_for_it() -> None:
    """Provers look at all modes, so an incumbent may have one that the menu did not keep.

    A kernel of 2 x 3 on 8 x 8 arrays: block 2 x 1 is dearer by far than others as fast.
    """
    nodes = [
        {"name": "in", "op": "input", "shape": [1, 2, 4]},
        {"name": "n0", "op": "conv", "inputs": ["in"], "out_channels": 4, "kernel": [2, 3],
         "stride": [2, 1], "pads": [1, 1, 1, 0]},
        {"name": "n1", "op": "conv", "inputs": ["n0"], "out_channels": 6, "kernel": [2, 3],
         "pads": [1, 1, 0, 1], "input_bits": 2},
    ]  # fmt: skip
    hardware = Hardware.model_validate(
        {
            "name": "h",
            "source": "by hand",
            "crossbar": {"wordlines": 8, "bitlines": 8, "cell_bits": 4, "slices": "arrays"},
            "precision": {"weight_bits": 4, "input_bits": 1, "output_bits": 4, "signed": "differential"},
            "timing": {"read_ns": 1.0, "dac_bits": 2, "adc_ns": 1.0, "columns_per_adc": 8,
                       "clock": "own", "tick_ns": 2.5},
            "memory": {"bandwidth_gb_s": 0.5, "reuse": "none", "scope": "per_layer"},
        }
    )  # fmt: skip
    network = Network.build("n", nodes, source="by hand")
    problem = Case(network, hardware, MappingOptions(mapping="sdk")).problem(20)
    menu, outside = Menu.of(problem), 0
    start = menu.choice(problem, menu.smallest)
    for i, each in enumerate(menu.stages):
        for row in range(len(each)):
            blocks, copies = list(start.modes), start.copies.copy()
            blocks[i], copies[i] = each.mode(row), each.low[row]
            found = problem.choice(copies, tuple(blocks))
            state = menu.choice(problem, menu.state(found))
            if menu.numbers[i][each.row[row]] >= 0:
                assert state.identity == found.identity
                continue
            outside += 1
            assert state.arrays <= found.arrays
            assert (
                problem.time.lengths(state.copies, state.modes)
                <= problem.time.lengths(found.copies, found.modes)
            ).all()
    assert outside
    assert auto.solve(problem, Work(), 0).choice.makespan == 46


def test_beams_whose_finds_pass_a_limit_leave_work_for_annealing(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_copies_of_each_number_of_batches() -> None:
    """10 blocks take 10, 5, 4, 3, 2 or 1 batches: 4 copies are the fewest for 3, and up to 9 take 2."""
    low, high = copies_by_batches(10)
    assert low.tolist() == [1, 2, 3, 4, 5, 10]
    assert high.tolist() == [1, 2, 3, 4, 9, 10]
