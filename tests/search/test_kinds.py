"""Several kinds of arrays in the search: begun with the answers of every kind alone."""

from __future__ import annotations

from laws.kinds import hardware

from rramalloc.allocation.case import Case
from rramalloc.importers import load
from rramalloc.search import auto
from rramalloc.search.menu import on_each_kind
from rramalloc.search.work import Work

LITTLE, SMALL, LARGE = 2, 60_000, 16_000


def test_two_kinds_are_never_behind_one() -> None:
    """Each alone is the problem of a hardware with that kind; with the same work two are no slower."""
    machine = hardware(SMALL, LARGE, areas=False)
    problem = Case(load("alexnet"), machine).problem(SMALL + LARGE)
    both = auto.solve(problem, Work(work=LITTLE), 0).choice.makespan
    each = dict(on_each_kind(problem))
    assert list(each) == [0, 1]
    for kind, alone in each.items():
        one = Case(load("alexnet"), machine.each_kind[kind]).problem((SMALL, LARGE)[kind])
        assert (alone.budget, alone.demand.tolist()) == (one.budget, one.demand.tolist())
        found, expected = (auto.solve(own, Work(work=LITTLE), 0).choice for own in (alone, one))
        assert (found.makespan, found.copies.tolist()) == (expected.makespan, expected.copies.tolist())
        assert {mode.kind for mode in found.modes} == {kind}
        assert both <= found.makespan
