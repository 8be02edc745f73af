"""The bound by flows: it holds for all allocations after every round, and proves what is proven by hand."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from search.test_places import KINDS, by_hand, cases

from rramalloc.search.bound import places
from rramalloc.search.bound.flows import Flows, run_flows
from rramalloc.search.bound.places import Places
from rramalloc.search.menu import Menu
from rramalloc.search.work import Work


@KINDS
@pytest.mark.parametrize("ranges", [False, True])
def test_the_bound_holds_after_every_round(kind: str, ranges: bool) -> None:
    """Also where candidates are ranges of copies, and whatever makespan is known."""
    random = Random(f"flows {kind} {ranges}")
    with pytest.MonkeyPatch.context() as patched:
        if ranges:
            patched.setattr(places, "_FEWEST_CANDIDATES", 1)
        for case in cases(random, kind, 40):
            flows = Flows(
                case.problem, Menu.of(case.problem), random.choice((case.best, max(case.makespans)))
            )
            for rounds in (1, 2, 4, 30):
                flows.run(rounds, Work())
                assert flows.bound <= case.best


@KINDS
def test_no_flow_is_lost(kind: str) -> None:
    """What enters a stage leaves it, and no walk goes backwards."""
    random = Random(f"lost {kind}")
    for case in cases(random, kind, 10):
        flows = Flows(case.problem, Menu.of(case.problem), case.best)
        flows.run(10, Work())
        entering, leaving = (own / flows._weight for own in flows._mean)
        first = flows._places.first
        for start, end in zip(first[:-1].tolist(), first[1:].tolist(), strict=True):
            walked = np.cumsum(entering[start:end] - leaving[start:end])
            assert abs(walked[-1]) < 1e-12
            assert walked.min() > -1e-12


def test_two_layers_by_hand() -> None:
    """docs/sources/bound.md: three steps are the optimum, of which flows prove more than two."""
    problem = by_hand(4)
    turn = run_flows(Flows(problem, Menu.of(problem), 10), 1, 10, 2**20, Work())
    assert turn.bound == 3
    assert all(problem.holds(found.copies, found.modes) for found in turn.found)


def test_it_ends_where_more_rounds_do_not_pay_or_no_work_is_left() -> None:
    """Nothing is done where no work is left, and no more than 2 ** 10 rounds where the bound stands still."""
    problem, stop = by_hand(4), Work()
    flows = Flows(problem, Menu.of(problem), 10)
    turn = run_flows(flows, 1, 10, 0, stop)
    assert (turn.bound, turn.found, stop.spent_s) == (1, (), 0.0)
    run_flows(flows, 1, 10, 2**40, stop)
    assert flows.rounds <= 2**10


def test_rounds_in_several_turns_are_those_of_one() -> None:
    """A turn goes on where the last one ended."""
    whole, parts = (Flows(by_hand(4), Menu.of(by_hand(4)), 10) for _ in range(2))
    run_flows(whole, 1, 10, 16, Work())
    for rounds in (1, 15):
        run_flows(parts, 1, 10, rounds, Work())
    assert (parts.rounds, parts.bound) == (whole.rounds, whole.bound)


def test_the_program_begins_with_what_flows_use() -> None:
    """Places where a flow enters or leaves are there from the first solution on, which holds."""
    for kind in ("copies", "blocks"):
        random = Random(f"start {kind}")
        for case in cases(random, kind, 10):
            menu = Menu.of(case.problem)
            flows = Flows(case.problem, menu, case.best)
            flows.run(10, Work())
            program = Places(case.problem, menu, case.best, start=flows.start)
            for own, rows in zip(program._stages, flows.start.rows, strict=True):
                assert set(rows.tolist()) <= {y for y, _ in own.place}
            program.round(10.0, Work())
            assert program.bound <= case.best


def test_what_is_proven_when_the_time_ends_stays() -> None:
    """The rounds before the end count, and the program is not begun."""

    class EndsLater(Work):
        left = 3

        @property
        def out_of_time(self) -> bool:
            self.left -= 1
            return self.left < 0

    problem = by_hand(4)
    turn = run_flows(Flows(problem, Menu.of(problem), 10), 1, 10, 2**20, EndsLater())
    assert 1 < turn.bound < 4
