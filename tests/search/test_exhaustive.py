"""Searches against problems so small that every allocation within the budget is tried."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from laws.reference import reference
from laws.strategies import ALL_PIXELS, ANY, CHAIN, Enumerated, by_name, enumerated

from rramalloc.errors import TargetError
from rramalloc.search import auto, fewest, interval
from rramalloc.search.bound import diagram
from rramalloc.search.bound.boxes import Bounder, Outcome
from rramalloc.search.menu import Menu
from rramalloc.search.problem import Answer
from rramalloc.search.work import Work
from rramalloc.timing.simulate import makespan_of, makespan_of_each
from rramalloc.timing.stage_graph import BatchTicks

LITTLE = 2
GRAPHS = ANY + ALL_PIXELS
_KINDS = [
    pytest.param(CHAIN, 0, id="chains"), pytest.param(GRAPHS, 0, id="graphs"),
    pytest.param(GRAPHS, 1, id="own clocks"),
]  # fmt: skip
PROBLEMS = pytest.mark.parametrize(("ops", "tick"), _KINDS)
AND_LONG_TIMES = pytest.mark.parametrize(
    ("ops", "tick"), [*_KINDS, pytest.param(GRAPHS, 10**9, id="long batches")]
)


def makespan(case: Enumerated, answer: Answer) -> int:
    """Exact makespan of a answer that must keep to budget and bounds."""
    rows = case.allocations
    assert (rows == answer.choice.copies).all(axis=1).any(), "outside the problem"
    return int(makespan_of_each(case.problem.graph, answer.choice.copies[None, :])[0])


@pytest.mark.parametrize("tick", [pytest.param(0, id="one step"), pytest.param(1, id="own clocks")])
@given(data=st.data())
def test_fast_makespans_are_those_of_the_walk(tick: int, data: st.DataObject) -> None:
    """What the other tests here enumerate with is right where it matters: at the best and the worst."""
    case = data.draw(enumerated(tick=tick))
    graph = case.problem.graph
    delays = {(graph.names[p], graph.names[c]): lag for (p, c), lag in graph.lags.items()}
    for row in (int(case.makespans.argmin()), int(case.makespans.argmax())):
        copies, cycles = by_name(graph, case.allocations[row]), {}
        for stage, (name, block) in enumerate(zip(graph.names, graph.blocks, strict=True)):
            ticks = graph.clocks(stage, block) if graph.clocks else BatchTicks((1,), 0.0)
            compute = ticks.compute[min(copies[name], len(ticks.compute)) - 1]
            cycles[name] = max(compute, math.ceil(Fraction(ticks.per_copy) * copies[name]))
        walked = reference(graph.network, copies, cycles=cycles, delays=delays)
        assert walked.makespan == case.makespans[row]


@PROBLEMS
@settings(max_examples=25)
@given(data=st.data())
def test_auto_meets_the_optimum(ops: tuple[str, ...], tick: int, data: st.DataObject) -> None:
    case = data.draw(enumerated(ops=ops, tick=tick))
    answer = auto.solve(case.problem, Work(work=LITTLE), data.draw(st.integers(0, 3)))
    reached = makespan(case, answer)
    assert answer.lower_bound <= case.optimum
    claims = answer.proof.startswith("proven optimal")
    assert claims == (answer.lower_bound >= reached)
    if claims:
        assert reached == case.optimum


@AND_LONG_TIMES
@settings(max_examples=25)
@given(data=st.data())
def test_bounder_never_excludes_what_exists(ops: tuple[str, ...], tick: int, data: st.DataObject) -> None:
    """The box of a target holds every allocation that meets it; none meets a target without a box."""
    case = data.draw(enumerated(ops=ops, tick=tick))
    bounder = Bounder(case.problem)
    assert bounder.root_bound(Work()) <= case.optimum
    for target in sorted(
        {1, case.optimum - 1, *np.unique(case.makespans)[:8].tolist(), int(case.makespans.max())}
    ):
        meeting = case.allocations[case.makespans <= target]
        box = bounder.box(target)
        if box is None:
            assert len(meeting) == 0
        else:
            assert ((meeting >= box[0]) & (meeting <= box[1])).all()


@PROBLEMS
@settings(max_examples=25)
@given(data=st.data())
def test_branch_and_bound_decides_every_target(ops: tuple[str, ...], tick: int, data: st.DataObject) -> None:
    case = data.draw(enumerated(ops=ops, tick=tick))
    bounder = Bounder(case.problem)
    for target in range(max(1, case.optimum - 4), case.optimum + 4):
        outcome, nodes, found = bounder.decide(target, 1_000_000, Work())
        assert nodes >= 1
        assert outcome is (Outcome.FOUND if target >= case.optimum else Outcome.REFUTED)
        if outcome is Outcome.FOUND:
            assert (case.allocations == found).all(axis=1).any(), "outside the problem"
            assert makespan_of(case.problem.graph, found) <= target
        outcome, nodes, _ = bounder.decide(target, 1, Work())
        assert nodes <= 1
        assert outcome is not (Outcome.REFUTED if target >= case.optimum else Outcome.FOUND)


@AND_LONG_TIMES
@settings(max_examples=20)
@given(data=st.data())
def test_diagrams_never_refute_what_exists(ops: tuple[str, ...], tick: int, data: st.DataObject) -> None:
    """Of any width, with any points and choices, of any box: a target that an allocation meets resists."""
    case = data.draw(enumerated(ops=ops, tick=tick))
    bounder = Bounder(case.problem)
    one, two = (case.allocations[data.draw(st.integers(0, len(case.allocations) - 1))] for _ in range(2))
    some = np.minimum(one, two), np.maximum(one, two)
    one_of_them = diagram.Diagram(bounder, data.draw(st.sampled_from((1, 3, 256))))
    for box, most_choices in product((bounder.widest, some), (1, 3, 100)):
        inside = ((case.allocations >= box[0]) & (case.allocations <= box[1])).all(axis=1)
        best = int(case.makespans[inside].min())
        for target, width in product({max(1, best - 1), best}, (1, 4, 300)):
            left = bounder.propagated(target, box)
            if left is None:
                assert target < best
                continue
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(diagram, "_MOST_CHOICES", most_choices)
                refuted = one_of_them.refute(target, left, width, math.inf, stop := Work())
            assert stop.spent_s > 0
            assert not refuted or target < best


@PROBLEMS
@settings(max_examples=25)
@given(data=st.data())
def test_diagrams_of_single_allocations_are_exact(
    ops: tuple[str, ...], tick: int, data: st.DataObject
) -> None:
    """With a point at every window nothing is lost where nothing is to be chosen."""
    case = data.draw(enumerated(ops=ops, tick=tick))
    number = data.draw(st.integers(0, len(case.allocations) - 1))
    row, makespan_of_row = case.allocations[number], int(case.makespans[number])
    bounder = Bounder(case.problem)
    exact = diagram.Diagram(bounder, int(case.problem.graph.windows.max()))
    for target in {makespan_of_row, max(1, makespan_of_row - 1)}:
        left = bounder.propagated(target, (row, row))
        refuted = left is None or exact.refute(target, left, 1, math.inf, Work())
        assert refuted == (target < makespan_of_row)


@settings(max_examples=60)
@given(case=enumerated(ops=ANY + ALL_PIXELS))
def test_interval_is_the_smallest(case: Enumerated) -> None:
    batches = -(-case.problem.graph.windows // case.allocations)
    smallest = int(batches.max(axis=1).min())
    assert Menu.of(case.problem).smallest_interval(case.problem) == smallest
    answer = interval.solve(case.problem, Work(), 0)
    assert int((-(-case.problem.graph.windows // answer.choice.copies)).max()) == smallest
    used = int(answer.choice.copies @ case.problem.demand)
    assert used == int(case.arrays[batches.max(axis=1) == smallest].min()), "fewest arrays that reach it"
    assert answer.lower_bound <= case.optimum <= makespan(case, answer)


@PROBLEMS
@settings(max_examples=25)
@given(data=st.data())
def test_fewest_arrays_for_a_target(ops: tuple[str, ...], tick: int, data: st.DataObject) -> None:
    """docs/sources/model.md 8, objective `arrays`."""
    case = data.draw(enumerated(ops=ops, tick=tick))
    target = data.draw(st.integers(case.optimum - 1, int(case.makespans.max()) + 1))
    assume(target >= 1)
    if target < case.optimum:
        with pytest.raises(TargetError) as caught:
            fewest.solve(case.problem, Work(work=40), 0, target)
        assert caught.value.bound <= case.optimum
        assert caught.value.proven
        return
    answer = fewest.solve(case.problem, Work(work=10), 0, target)
    least = int(case.arrays[case.makespans <= target].min())
    used = int(answer.choice.copies @ case.problem.demand)
    stated = re.search(r"at least (\d+) arrays", answer.proof)
    assert stated is not None
    assert makespan(case, answer) <= target
    assert int(stated[1]) <= least <= used
    assert answer.lower_bound <= used
    if "this is the fewest" in answer.proof:
        assert used == least
