"""Every compiled part of the search against a plain Python twin that is written from the definitions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from laws.strategies import Clocks, random_copies, random_network, random_problem, randoms

import rramalloc
from rramalloc.allocation.case import Case
from rramalloc.hardware.loader import load_hardware
from rramalloc.mapping.demand import Storage
from rramalloc.mapping.mode import ModeOfEach
from rramalloc.mapping.modes import breakpoints
from rramalloc.mapping.options import MappingOptions
from rramalloc.search.archive import Archive
from rramalloc.search.beam import BeamSearch
from rramalloc.search.bound.boxes import Bounder
from rramalloc.search.bound.diagram import Diagram, Diagrams
from rramalloc.search.bound.lookups import checkpoints, reach
from rramalloc.search.kernels import (
    deadlines,
    diagram,
    draws,
    limits,
    moves,
    prices,
    propagate,
    schedule,
)
from rramalloc.search.kernels.slots import Slots, update
from rramalloc.search.menu import Menu
from rramalloc.search.problem import Problem
from rramalloc.search.work import Work
from rramalloc.timing.kernel import NEVER, Shapes
from rramalloc.timing.simulate import makespan_of, simulate

OPS = ("conv", "conv", "add", "maxpool", "concat", "flatten")
MODE_OPS = ("conv", "conv", "conv", "add", "maxpool", "concat", "relu", "upsample", "conv_transpose")


def called(part: Callable[..., Any]) -> Callable[..., Any]:
    """A part that only compiled code calls, made callable from here."""

    def call(*arguments: Any) -> Any:
        return part(*arguments)

    return numba.njit(call)  # type: ignore[no-any-return]


RETIME, TIME_ALL, UNDO, ACCEPT = map(
    called, (schedule.retime, schedule.time_all, schedule.undo, schedule.accept)
)
DEADLINES, MEETS, RENEW = map(called, (deadlines.set_deadlines, deadlines.meets, deadlines.renew))
NEXT, WITH_BATCHES, KEEP = called(limits.next_breakpoint), called(limits.with_batches), called(update)
DRAW, CHEAPEST, INTERVALS = map(called, (draws.draw, prices._cheapest, prices.intervals_of))
FORWARD, BACKWARD = called(propagate.forward), called(propagate.backward)


def small(random: Random) -> Problem:
    return random_problem(random, 8, 6, OPS, 6).problem


@settings(max_examples=40, deadline=None)
@given(random=randoms)
def test_retiming_is_exact(random: Random) -> None:
    """What depends on a change is timed again; a change that is undone leaves no trace."""
    graph = small(random).graph
    copies = random_copies(random, graph)
    edges, shapes, ticks = graph.flat_extents, Shapes.of(graph.grids), np.ones_like(copies)
    same_blocks = np.zeros(len(copies), dtype=np.bool_)
    held = schedule.Schedule.of_modes(edges)
    TIME_ALL(edges, shapes, ticks, copies, held)
    for stage in range(len(copies)):
        timing = simulate(graph, copies)
        assert held.finish.tolist() == timing.finish.tolist()
        for i, batches in enumerate(timing.batches.tolist()):
            begin = held.begin[i]
            assert held.starts[begin : begin + batches].tolist() == timing.of_stage(i).tolist()
        more = copies.copy()
        more[stage] = random.randint(1, int(graph.windows[stage]))
        exact = makespan_of(graph, more)
        change = edges, shapes, ticks, same_blocks, copies, more
        reached, _ = RETIME(*change, np.int64(exact - 1), held)
        assert reached == NEVER
        reached, _ = RETIME(*change, NEVER, held)
        assert reached == exact
        if random.random() < 0.5:
            UNDO(held)
        else:
            ACCEPT(held)
            copies = more


@dataclass(eq=False)
class DrawnModes:
    """A problem with modes, and a random mode of every stage in the form that kernels change."""

    random: Random
    tick: int = 0
    copies_only: bool = False
    problem: Problem = field(init=False)

    def __post_init__(self) -> None:
        network = random_network(self.random, 8, 7, MODE_OPS)
        hardware = load_hardware("plain").with_crossbar(16, 16)
        options = MappingOptions(mapping="sdk")
        least = Case(network, hardware, options).problem(2**20).minimum
        self.problem = Case(network, hardware, options).problem(least + self.random.choice((2, 8, 40)))
        if self.copies_only:
            self.problem = replace(self.problem, storage=Storage.of_copies(self.problem.demand))
        if self.tick:
            self.problem = Clocks(self.random.randrange(2**30), self.tick).of(self.problem)
        self.menu = Menu.of(self.problem)
        self.tables = self.menu.tables(self.problem)
        stages = range(len(self.problem.demand))
        self.state = moves.State(*np.array([self.mode(i) for i in stages], dtype=np.int64).T.copy())

    def mode(self, stage: int) -> tuple[int, int]:
        """A random block of the menu, and copies of it."""
        blocks, first = self.menu.blocks, self.menu.first
        block = self.random.randrange(int(first[stage]), int(first[stage + 1]))
        return block, self.random.randint(int(blocks.least[block]), int(blocks.most[block]))

    @property
    def shown(self) -> tuple[Shapes, Any]:
        """Blocks and ticks of every stage, as timing reads them; ones where all stages step together."""
        graph = self.problem.in_modes(self.blocks).graph
        ticks = graph.batch_ticks(self.state.copies)
        return Shapes.of(graph.grids), np.ones_like(self.state.copies) if ticks is None else ticks

    @property
    def copied(self) -> moves.State:
        return moves.State(self.state.block.copy(), self.state.copies.copy())

    @property
    def makespan(self) -> int:
        """By simulation, which shares no code with what keeps schedules."""
        return simulate(self.problem.in_modes(self.blocks).graph, self.state.copies).makespan

    @property
    def blocks(self) -> ModeOfEach:
        return self.menu.choice(self.problem, self.state).modes

    @property
    def arrays(self) -> int:
        return self.problem.arrays(self.state.copies, self.blocks)

    def latest(self, target: int) -> list[list[int]]:
        """Of every stage: when each batch must have ended so that no stage ends after the target."""
        graph = self.problem.in_modes(self.blocks).graph
        flat = graph.flat_edges if graph.lags else graph.flat_binding
        copies, windows = self.state.copies.tolist(), graph.windows.tolist()
        ticks = graph.batch_ticks(self.state.copies, self.blocks)
        lasts = [1] * len(copies) if ticks is None else ticks.tolist()
        latest = [[target] * -(-count // d) for count, d in zip(windows, copies, strict=True)]
        for i in range(len(copies) - 1, -1, -1):
            for batch in range(len(latest[i]) - 1, -1, -1):
                start = latest[i][batch] - lasts[i]
                if batch:
                    latest[i][batch - 1] = min(latest[i][batch - 1], start)
                last = min((batch + 1) * copies[i], windows[i]) - 1
                for edge in range(flat.pointer[i], flat.pointer[i + 1]):
                    p, needed = int(flat.producer[edge]), int(flat.need[flat.offset[edge] + last])
                    if needed >= 0:
                        at = needed // copies[p]
                        latest[p][at] = min(latest[p][at], start - int(flat.lag[edge]))
        return latest


@pytest.mark.parametrize("tick", [0, 5])
@settings(max_examples=25, deadline=None)
@given(random=randoms)
def test_a_change_is_judged_by_the_deadlines_of_its_consumers(tick: int, random: Random) -> None:
    """As by simulating all stages; and what is kept from change to change is as if it were made anew."""
    drawn = DrawnModes(random, tick)
    edges, state = drawn.problem.graph.flat_extents, drawn.state
    target = drawn.makespan + random.choice((0, 0, 1, drawn.makespan // 3))
    held, latest = schedule.Schedule.of_modes(edges), deadlines.Deadlines.of(edges)
    shapes, ticks = drawn.shown
    TIME_ALL(edges, shapes, ticks, state.copies, held)
    DEADLINES(edges, shapes, ticks, state.copies, held.needs, target, latest)
    for _ in range(12):
        stage = random.randrange(len(state.copies))
        before = state.block[stage], state.copies[stage], state.copies.copy()
        state.block[stage], state.copies[stage] = drawn.mode(stage)
        shapes, ticks = drawn.shown
        met, _ = MEETS(edges, shapes, ticks, state.copies, target, stage, held, latest)
        assert met == (drawn.makespan <= target)
        if not met:
            state.block[stage], state.copies[stage] = before[:2]
            continue
        reshaped = np.arange(len(state.copies)) == stage
        reached, _ = RETIME(edges, shapes, ticks, reshaped, before[2], state.copies, np.int64(target), held)
        assert reached == drawn.makespan
        ACCEPT(held)
        RENEW(edges, shapes, ticks, state.copies, held.needs, target, stage, latest)
        exact = simulate(drawn.problem.in_modes(drawn.blocks).graph, state.copies)
        for i, expected in enumerate(drawn.latest(target)):
            begin, own = latest.begin[i], held.begin[i]
            assert latest.finish[begin : begin + len(expected)].tolist() == expected
            assert held.starts[own : own + len(expected)].tolist() == exact.of_stage(i).tolist()


@pytest.mark.parametrize(("tick", "copies_only"), [(0, False), (0, True), (5, False), (5, True)])
def test_annealed_arrays_meet_the_target(tick: int, copies_only: bool) -> None:
    """Shortened and annealed states are what simulation and the count of arrays say; some fit the budget."""
    random, fitted, kept = Random(3), 0, 0
    for number in range(50):  # of 25 with clocks that rise with the copies only three fit
        drawn = DrawnModes(random, tick, copies_only)
        archive = Archive(replace(drawn.problem, budget=2**10)) if copies_only else None
        if archive is not None:
            drawn.tables = drawn.menu.tables(drawn.problem, archive.slots)
        edges, blocks = drawn.problem.graph.flat_extents, drawn.menu.blocks
        scratch = moves.Scratch.of(edges)
        wanted = max(1, int(drawn.makespan * random.choice((0.5, 0.9, 1.0))))
        unlimited, shortest, generator = (
            drawn.tables._replace(budget=2**60),
            drawn.copied,
            draws.generator(number),
        )
        search = moves.SHORTEN if random.random() < 0.5 else moves.CLIMB
        run = moves.Run(search, wanted, most_work=10**9)
        makespan, _ = moves.search(edges, unlimited, run, generator, drawn.state, shortest, scratch)
        assert makespan == drawn.makespan
        target = makespan if makespan > wanted else wanted
        before, best = drawn.arrays, drawn.copied
        run = moves.Run(moves.ANNEAL, target, 3000, hot=2.0, cold=0.1)
        moves.search(edges, drawn.tables, run, generator, drawn.state, best, scratch)
        assert drawn.makespan <= target
        drawn.state = best
        assert drawn.makespan <= target
        assert drawn.arrays <= before
        assert (blocks.least[best.block] <= best.copies).all()
        assert (best.copies <= blocks.most[best.block]).all()
        fitted += drawn.arrays <= drawn.problem.budget < before
        for slot in [] if archive is None else np.flatnonzero(archive.slots.makespan < NEVER).tolist():
            copies = archive.slots.copies[slot].astype(np.int64)
            assert archive.slots.arrays[slot] == drawn.problem.arrays(copies)
            assert archive.slots.makespan[slot] == simulate(drawn.problem.graph, copies).makespan
            kept += 1
    assert fitted >= 5
    assert kept >= 25 * copies_only


def guided(drawn: DrawnModes) -> BeamSearch:
    """A beam search whose modes hold those of the state, which become random ones of them."""
    edges = drawn.problem.graph.flat_extents
    scratch = moves.Scratch.of(edges)
    search = BeamSearch(edges, drawn.menu, drawn.tables, scratch, 2**40, 0.15)
    for i in range(len(drawn.state.block)):
        row = drawn.random.randrange(int(search._modes.first[i]), int(search._modes.first[i + 1]))
        drawn.state.block[i], drawn.state.copies[i] = search._modes.block[row], search._modes.copies[row]
    return search


@pytest.mark.parametrize("tick", [0, 5])
@settings(max_examples=20, deadline=None)
@given(random=randoms)
def test_modes_of_a_beam_are_nearly_the_cheapest(tick: int, random: Random) -> None:
    """Each takes hardly more arrays than any that is as fast and no taller; none such is left out."""
    drawn = DrawnModes(random, tick)
    near, longest = random.choice((0.0, 0.1, 0.5)), random.choice((drawn.makespan, 2**40))
    search = BeamSearch(drawn.problem.graph.flat_extents, drawn.menu, drawn.tables, None, longest, near)  # type: ignore[arg-type]
    for i, each in enumerate(drawn.menu.stages):
        kept = {drawn.menu.mode(b).block for b in range(*drawn.menu.first[i : i + 2].tolist())}
        every = [
            (tall, wide, copies, arrays, length)
            for tall, wide, copies, arrays, length in zip(
                *(column.tolist() for column in (each.each.tall, each.each.wide, each.low)),
                *(column.tolist() for column in (each.arrays, each.length)),
                strict=True,
            )
            if (tall, wide) in kept and length <= longest
        ]
        expected = {
            (tall, wide, copies)
            for tall, wide, copies, arrays, length in every
            if all(arrays <= (1 + near) * a for t, _, _, a, other in every if t <= tall and other <= length)
        }
        rows = range(*search._modes.first[i : i + 2].tolist())
        block, copies, arrays = (column.tolist() for column in search._modes[1:4])
        assert {(*drawn.menu.mode(block[row]).block, copies[row]) for row in rows} == expected
        assert [arrays[row] for row in rows] == sorted(arrays[row] for row in rows)
        assert search._modes.rest[i] == sum(arrays[first] for first in search._modes.first[i + 1 : -1])


@pytest.mark.parametrize("tick", [0, 5])
@settings(max_examples=40, deadline=None)
@given(random=randoms)
def test_a_beam_never_loses_its_guide(tick: int, random: Random) -> None:
    """What it finds meets the target with no more arrays than a guide that meets it, whatever the units."""
    drawn = DrawnModes(random, tick)
    search = guided(drawn)
    target, before = drawn.makespan + random.choice((0, 0, 1, 7)), drawn.arrays
    arrays = search.run(drawn.state, target, before + random.choice((0, 2, 9)), Work())
    assert arrays == drawn.arrays <= before
    assert drawn.makespan <= target


@settings(max_examples=60, deadline=None)
@given(random=randoms)
def test_cheapest_modes(random: Random) -> None:
    """Of every stage the fewest arrays for at most a length, looked for in all its modes."""
    drawn = DrawnModes(random, random.choice((0, 5)))
    lengths = [random.randint(1, int(each.length.max()) + 1) for each in drawn.menu.stages]
    drawn.state = drawn.menu.with_length(np.array(lengths))
    taken = drawn.problem.arrays_of_stages(drawn.state.copies, drawn.blocks).tolist()
    for each, length, arrays in zip(drawn.menu.stages, lengths, taken, strict=True):
        fits = each.length <= max(length, each.length.min())
        assert arrays == each.arrays[fits].min()


@pytest.mark.parametrize("windows", [1, 2, 7, 49, 224, 3025])
def test_breakpoints(windows: int) -> None:
    """Fewest copies with a number of batches, tried one by one."""
    batches = [-(-windows // d) for d in range(1, windows + 1)]
    useful = [d for d in range(1, windows + 1) if d == 1 or batches[d - 1] < batches[d - 2]]
    for largest in {1, max(1, windows - 1), windows, windows + 9}:
        assert breakpoints(windows, largest).tolist() == [d for d in useful if d <= max(1, largest)]
    for d in {1, 2, windows // 2, windows} - {0}:
        if d <= windows:
            fewer = [e for e in range(d, windows + 1) if batches[e - 1] < batches[d - 1]]
            assert NEXT(windows, d) == (fewer[0] if fewer else d)
    for number in (-1, 0, 1, 2, windows, windows + 3):
        wanted = min(max(number, 1), windows)
        assert WITH_BATCHES(windows, number) == next(d for d in useful if batches[d - 1] <= wanted)


@settings(max_examples=200, deadline=None)
@given(random=randoms)
def test_intervals_cover_the_box(random: Random) -> None:
    windows = np.array([random.randint(1, 400) for _ in range(4)])
    lowest = np.array([random.randint(1, count) for count in windows.tolist()])
    highest = np.array([random.randint(int(d), int(count)) for d, count in zip(lowest, windows, strict=True)])
    most = random.choice((1, 4, 16))
    low, high = np.zeros((2, 4, most), dtype=np.int64)
    size = np.zeros(4, dtype=np.int64)
    INTERVALS(windows, lowest, highest, low, high, size)
    for i in range(4):
        covered = [d for m in range(size[i]) for d in range(low[i, m], high[i, m] + 1)]
        assert covered == list(range(lowest[i], highest[i] + 1))
        batches = -(-int(windows[i]) // np.array(covered))
        if len(np.unique(batches)) <= most:
            assert size[i] == len(np.unique(batches)), "one for every number of batches"


@settings(max_examples=200, deadline=None)
@given(random=randoms)
def test_the_cheapest_copies(random: Random) -> None:
    """Never above the minimum over whole copies; equal to it where there are few."""
    work, low = random.randint(1, 5000), random.randint(1, 50)
    high = low + random.choice((0, 3, 16, 17, 400))
    price = random.choice((0.0, 0.01, 0.5, 3.0))
    exact = min(-(-work // d) + price * (d - low) for d in range(low, high + 1))
    least = CHEAPEST(work, price, low, high)
    assert least <= exact + 1e-9
    if high - low <= 16:
        assert least == pytest.approx(exact)


def test_the_generator() -> None:
    """xorshift64* (Vigna 2016, doi 10.1145/2845077) in whole numbers of Python."""
    state, x = np.array([12345], dtype=np.uint64), 12345
    for _ in range(200):
        x ^= x >> 12
        x = (x ^ (x << 25)) % 2**64
        x ^= x >> 27
        assert DRAW(state) == ((x * 0x2545F4914F6CDD1D % 2**64 >> 11) + 1) / 2**53
        assert int(state[0]) == x


@settings(max_examples=60, deadline=None)
@given(random=randoms)
def test_times_of_checkpoints_hold_for_every_allocation_in_the_box(random: Random) -> None:
    """Least finishes are reached by none earlier; latest finishes by all that meet the target."""
    graph = small(random).graph
    one, two = (random_copies(random, graph) for _ in range(2))
    low, high, table = np.minimum(one, two), np.maximum(one, two), checkpoints(graph)
    times = propagate.Times(
        np.zeros_like(low), *np.zeros((2, table.total), dtype=np.int64), ticks=np.ones_like(low)
    )
    FORWARD(graph.flat_binding, table, low, high, times)
    for copies in (one, two, low, high):
        timing = simulate(graph, copies)
        BACKWARD(graph.flat_binding, table, np.int64(timing.makespan), high, times)
        assert (times.start <= timing.start).all()
        for i in range(len(copies)):
            for at in range(table.first[i], table.first[i + 1]):
                finish = timing.of_stage(i)[table.points[at] // copies[i]] + 1
                assert times.finish[at] <= finish <= times.latest[at]


@settings(max_examples=60, deadline=None)
@given(random=randoms)
def test_reach_is_composed_of_edges(random: Random) -> None:
    """A window of an ancestor that is needed through other stages has finished so many steps before."""
    graph = small(random).graph
    pairs = reach(graph, 4)
    copies = random_copies(random, graph)
    timing = simulate(graph, copies)
    for i in range(len(copies)):
        for e in range(pairs.pointer[i], pairs.pointer[i + 1]):
            p = int(pairs.producer[e])
            need = pairs.need[pairs.offset[e] : pairs.offset[e] + graph.windows[i]]
            for window, needed in enumerate(need.tolist()):
                if needed >= 0:
                    before = timing.of_stage(p)[needed // copies[p]]
                    assert timing.of_stage(i)[window // copies[i]] >= before + 1 + pairs.delay[e]


def test_keeping_the_fastest() -> None:
    """A slot for every two numbers of arrays: faster wins, of equals fewer arrays; nothing beyond the end."""
    slots = Slots(10, 2, np.full(3, NEVER), np.zeros(3, dtype=np.int64), np.zeros((3, 2), dtype=np.int32))
    for arrays, makespan, copies, kept in (
        (11, 50, [1, 2], [1, 2]), (10, 51, [9, 9], [1, 2]), (10, 50, [3, 4], [3, 4]),
        (11, 49, [5, 6], [5, 6]), (16, 1, [7, 7], [5, 6]),
    ):  # fmt: skip
        KEEP(slots, np.int64(arrays), np.int64(makespan), np.array(copies))
        assert slots.copies[0].tolist() == kept


def random_states(draw: np.random.Generator) -> diagram.States:
    """Of up to two groups, many of them alike."""
    count, width, groups = (int(draw.integers(1, most)) for most in (60, 9, 3))
    finish = np.sort(draw.integers(0, 12, (count, width)), axis=1)
    return diagram.States(
        draw.integers(1, 9, count), finish, draw.random((count, groups)), draw.integers(1, 5, (count, groups))
    )


@settings(max_examples=100, deadline=None)
@given(random=randoms)
def test_states_are_covered_and_merged(random: Random) -> None:
    """By the first centre, in the order of arrays, that is no later than a slack allows; merged to minima."""
    draw = np.random.default_rng(random.getrandbits(32))
    states, slack, room = random_states(draw), random.randint(0, 3), random.randint(1, 60)
    count, width = states.finish.shape
    order = np.argsort(states.arrays, kind="stable")
    telling = draw.integers(0, width, 3 * random.randint(1, 2))
    expected, first = list[int](), list[int]()
    for j in order.tolist():
        covering = [k for k, c in enumerate(expected) if (states.finish[c] <= states.finish[j] + slack).all()]
        if not covering:
            expected.append(j)
        first.append(covering[0] if covering else len(expected) - 1)
    near = np.empty((3, room + diagram.LANES), dtype=np.int64)
    centres, centre, work = np.empty(room, np.int64), np.empty(count, np.int64), np.zeros(3, dtype=np.int64)
    kept = diagram.cover(states, order, telling, slack, near, centres, centre, work)
    assert work[2] > 0 or count == 1
    if len(expected) > room:
        assert kept == room + 1
        return
    assert centres[:kept].tolist() == expected
    assert centre[order].tolist() == first
    merged = diagram.States(*(own[centres[:kept]] for own in states))
    diagram.merge(states, centre, merged)
    for k in range(kept):
        for own, all_of_them in zip(merged, states, strict=True):
            assert (own[k] == all_of_them[centre == k].min(axis=0)).all()


def test_targets_of_diagrams_are_above_the_bound() -> None:
    """A target that resisted diagrams may be refuted by other proofs: then it bounds the next one no more."""
    problem = Case(rramalloc.load("squeezenet"), load_hardware("plain")).problem(216)
    bounder, bound, makespan = Bounder(problem), 400, 600
    diagrams = Diagrams(bounder)
    for target in (520, 520):  # optimal are 499 steps; the first diagram is a trial
        bound = diagrams.raised(target, bounder.widest, bound, makespan, 10.0, Work())
    assert bound == 400
    for higher in range(bound, makespan):
        assert higher <= diagrams.target(higher, makespan) < makespan


def test_a_diagram_gives_up() -> None:
    """After the first stage past the seconds it may take, without a claim."""
    problem = Case(rramalloc.load("squeezenet"), load_hardware("plain")).problem(216)
    bounder = Bounder(problem)
    target = bounder.root_bound(Work()) + 20
    left = bounder.propagated(target, bounder.widest)
    assert left is not None
    whole, short = Work(), Work()
    Diagram(bounder, 64).refute(target, left, 100, math.inf, whole)
    assert not Diagram(bounder, 64).refute(target, left, 100, 0.0, short)
    assert 0 < short.spent_s < whole.spent_s
