"""The program over places: its rows hold for exact times, and its bound for all allocations."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from laws.strategies import ALL_PIXELS, ANY, random_problem, randoms
from search.test_modes import solved

from rramalloc.mapping.demand import Storage
from rramalloc.mapping.mode import Mode, ModeOfEach
from rramalloc.network.network import Network
from rramalloc.search.bound import places
from rramalloc.search.bound.box_prover import BoxProver
from rramalloc.search.bound.mode_prover import ModeProver
from rramalloc.search.bound.places import Places
from rramalloc.search.bound.provers import has_boxes
from rramalloc.search.kernels.places import pair_waits
from rramalloc.search.menu import Menu
from rramalloc.search.problem import Problem
from rramalloc.search.work import Work
from rramalloc.timing.simulate import Copies, simulate
from rramalloc.timing.stage_graph import StageGraph

_ROUNDS = 6


class Drawn(NamedTuple):
    """A problem, all of its allocations and their makespans."""

    problem: Problem
    ways: list[tuple[ModeOfEach, Copies]]
    makespans: list[int]
    best: int


def drawn(random: Random, kind: str) -> Drawn | None:
    """kind: copies or blocks, with own clocks and delays where it ends in ticks."""
    tick = random.choice((1, 1, 10**9)) if kind.endswith("ticks") else 0
    if kind.startswith("copies"):
        case = random_problem(random, 9, 6, ANY + ALL_PIXELS, 6, tick)
        modes = case.problem.graph.modes
        return Drawn(
            case.problem, [(modes, row) for row in case.allocations], case.makespans.tolist(), case.optimum
        )
    found = solved(random, tick, 300)
    if found is None:
        return None
    ways = [
        (tuple(Mode(*own.block) for own in modes), np.array([own.copies for own in modes]))
        for _, _, modes in found.ways
    ]
    return Drawn(found.problem, ways, [makespan for makespan, _, _ in found.ways], found.best)


def cases(random: Random, kind: str, count: int) -> Iterator[Drawn]:
    while count:
        case = drawn(random, kind)
        if case is not None:
            count -= 1
            yield case


def check_rows(program: Places, modes: ModeOfEach, copies: Copies) -> None:
    """Every row holds for the exact finish times of an allocation."""
    timing = simulate(program.problem.in_modes(modes).graph, copies)
    time = {places._END: timing.makespan / program._unit}
    chosen = []
    for i, own in enumerate(program._stages):
        grid, first = timing.graph.grids[i], int(timing.first[i])
        for (y, x), number in own.place.items():
            batch = int(grid.numbers()[y, x]) // int(copies[i])
            finish = int(timing.starts[first + batch]) + int(timing.cycles[i])
            time[own.finish[number]] = finish / program._unit
        held = [
            m
            for m, entry in enumerate(own.entry.tolist())
            if program.menu.stages[i].mode(entry) == modes[i]
            and own.candidates.low[m] <= copies[i] <= own.candidates.high[m]
        ]
        assert len(held) == 1, "one candidate stands for every mode and number of copies"
        chosen.append(held[0])
    taken = dict[places._Row, float]()
    for i, own in enumerate(program._stages):
        rows = [row for row in program._rows if i in (row.stage, row.producer)]
        for row, costs in zip(rows, own.costs(rows, i, [chosen[i]])[:, 0].tolist(), strict=True):
            taken[row] = taken.get(row, 0.0) + costs
    for row, costs in taken.items():
        early = 0.0 if row.early < 0 else time[row.early]
        assert time[row.late] >= early + row.lag + costs - 1e-9 * timing.makespan, row


KINDS = pytest.mark.parametrize("kind", ["copies", "copies in ticks", "blocks", "blocks in ticks"])


@KINDS
@pytest.mark.parametrize("ranges", [False, True])
def test_rows_hold_for_exact_times_and_the_bound_for_the_optimum(kind: str, ranges: bool) -> None:
    """Also where candidates are ranges of copies, and after those that cannot be the best are left out."""
    random = Random(f"{kind} {ranges}")
    for case in cases(random, kind, 15):
        longest = max(case.makespans)
        with pytest.MonkeyPatch.context() as patched:
            if ranges:
                patched.setattr(places, "_FEWEST_CANDIDATES", 1)
                patched.setattr(places, "_MOST_CANDIDATES", 0)
            program = Places(case.problem, Menu.of(case.problem), longest)
        some = [random.randrange(len(case.ways)) for _ in range(4)]
        for _ in range(_ROUNDS):
            more = program.round(10.0, Work())
            assert program.bound <= case.best
            for number in some:
                check_rows(program, *case.ways[number])
            if not more:
                program.begin_pairs()
        check_fixing(program, case)


def check_fixing(program: Places, case: Drawn) -> None:
    """No candidate of an allocation within the target is left out, and the bound still holds."""
    program.aim(case.best)
    for _ in range(3):
        program.round(10.0, Work())
        assert program.fix()
        check_left(program, case)
        assert program.bound <= case.best


def check_left(program: Places, case: Drawn) -> None:
    """Rows and candidates hold of the first allocations that meet the target."""
    least, most = program.box
    meeting = [
        way for makespan, way in zip(case.makespans, case.ways, strict=True) if makespan <= program.target
    ]
    for modes, copies in meeting[:6]:
        check_rows(program, modes, copies)
        assert ((copies >= least) & (copies <= most)).all()
        for own, stage, mode in zip(program._stages, program.menu.stages, modes, strict=True):
            assert mode in {stage.mode(entry) for entry in own.entry[own.is_left].tolist()}


@KINDS
def test_targets_up_and_down_with_branch_and_bound(kind: str) -> None:
    """Whatever target it is aimed at, nothing that meets it is left out, and only those below are refuted."""
    random = Random(f"targets {kind}")
    refuted = 0
    for case in cases(random, kind, 12):
        menu, longest = Menu.of(case.problem), max(case.makespans)
        program = Places(case.problem, menu, longest)
        branching = BoxProver(case.problem) if has_boxes(case.problem) else ModeProver(case.problem, menu)
        shortest = 1
        for _ in range(8):
            targets = case.best // 2, case.best - 1, random.choice(case.makespans), longest
            program.aim(random.choice([target for target in targets if target >= shortest]))
            is_left = True
            for _ in range(3):
                program.round(10.0, Work())
                is_left = is_left and program.fix() and branching.exchange(program, Work())
                if not is_left or program.bound > program.target:
                    break
                check_left(program, case)
            if not is_left or program.bound > program.target:
                refuted, shortest = refuted + 1, program.target + 1
                assert program.target < case.best
                continue
            within = [makespan for makespan in case.makespans if makespan <= program.target]
            assert program.bound <= min(within, default=program.target)
    assert refuted > 5


@KINDS
def test_a_cut_holds_for_every_number_of_arrays(kind: str) -> None:
    """Whatever arrays it was solved for; beyond the target, where it says only that it is exceeded."""
    random = Random(f"cuts {kind}")
    for case in cases(random, kind, 15):
        arrays = np.array([case.problem.arrays(copies, modes) for modes, copies in case.ways])
        target = random.choice(case.makespans)
        program = Places(case.problem, Menu.of(case.problem), target)
        for _ in range(_ROUNDS):
            program.limit_arrays(random.randint(case.problem.minimum, case.problem.budget))
            program.round(10.0, Work())
            assert program.cut.per_array >= 0
            least = np.minimum(program.cut.ticks - program.cut.per_array * arrays, target + 1)
            assert (least <= case.makespans).all()


@settings(max_examples=40)
@given(random=randoms)
def test_the_bound_holds_for_any_multipliers(random: Random) -> None:
    """It rests on the multipliers as numbers, not on the solver that found them."""
    case = drawn(random, "copies")
    assert case is not None

    class Distorted(places._Solver):
        def solve(self, most: int, stop: Work) -> int:
            pivots = super().solve(most, stop)
            noise = np.random.default_rng(0).normal(1.0, 0.7, len(self.multipliers))
            self.multipliers = self.multipliers * noise + 0.1 * np.abs(noise)
            return pivots

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(places, "_Solver", Distorted)
        program = Places(case.problem, Menu.of(case.problem), case.best)
    for _ in range(_ROUNDS):
        program.round(10.0, Work())
        assert program.bound <= case.best
        assert program.fix()


def by_hand(budget: int) -> Problem:
    """docs/sources/bound.md: two 1 x 1 convolutions on four pixels in a row, an array a copy."""
    items = [
        {"name": "in", "op": "input", "shape": [1, 1, 4]},
        {"name": "a", "op": "conv", "inputs": ["in"], "out_channels": 1, "kernel": 1},
        {"name": "b", "op": "conv", "inputs": ["a"], "out_channels": 1, "kernel": 1},
    ]
    demand = np.ones(2, dtype=np.int64)
    graph = StageGraph.build(Network.build("hand", items, source="generated"))
    return Problem(graph, demand, budget, Storage.of_copies(demand))


def test_two_layers_by_hand() -> None:
    """The program proves the three steps of two copies each."""
    program = Places(by_hand(4), Menu.of(by_hand(4)), 10)
    while program.round(10.0, Work()):
        pass
    assert 2.999 < program.bound <= 3


def test_every_stage_ends_at_a_place() -> None:
    """Also in the program of the fewest rows: without it no row would say when the stage ends."""
    case = drawn(Random("ends"), "copies")
    assert case is not None
    program = Places(case.problem, Menu.of(case.problem), case.best, 1)
    edges = case.problem.graph.flat_extents
    ends = zip((edges.height - 1).tolist(), (edges.width - 1).tolist(), strict=True)
    assert all(end in own.place for own, end in zip(program._stages, ends, strict=True))


def test_a_batch_waits_for_its_last_window_by_hand() -> None:
    """Four copies of b start when one copy of a has computed pixel 3, three batches later."""
    problem = by_hand(5)
    program = Places(problem, Menu.of(problem), 10)
    hop = next(hop for hop in program._hops.values() if hop.pixel == (0, 0))
    a, b = (own.candidates for own in program._stages)
    waits = np.empty((len(b.low), len(a.low)))
    pair_waits(problem.graph.flat_extents, hop.edge, b, hop.pixel, a, hop.needed, waits)
    # 1 ... 4 copies of b wait for pixels 0 ... 3 of a, of which 1 ... 4 copies compute batch pixel // copies.
    assert waits.tolist() == [[pixel // copies for copies in (1, 2, 3, 4)] for pixel in (0, 1, 2, 3)]
