"""The MILP ends after the work allowed, with what HiGHS has by then, and counts it."""

from __future__ import annotations

import pytest

import rramalloc
from rramalloc.hardware.loader import load_hardware
from rramalloc.methods import milp
from rramalloc.results.optimize import make_problem
from rramalloc.search import separable
from rramalloc.search.problem import Stop


@pytest.mark.parametrize("work", [0, 2])
def test_out_of_work(work: int) -> None:
    """ResNet-18 at twice its minimum takes HiGHS some 160 nodes; 2 units of work are 28 of them.

    What is found by then fits, its bound is no larger than the optimum of the model.
    """
    problem = make_problem(rramalloc.load("resnet18"), load_hardware("plain"), 1390, "im2col", "host")
    found, again = (milp.solve_highs(problem, Stop(work=work), 0) for _ in range(2))
    assert "stopped (" in found.proof
    assert problem.fits(found.replication)
    assert 1 <= found.lower_bound <= separable.solve(problem, Stop(), 0).lower_bound
    assert found.seconds is not None
    assert found.seconds > 0
    assert (found.replication == again.replication).all()
    assert (found.lower_bound, found.seconds, found.proof) == (again.lower_bound, again.seconds, again.proof)


def test_enough_work() -> None:
    problem = make_problem(rramalloc.load("alexnet"), load_hardware("plain"), 322, "im2col", "host")
    assert "solved to optimality" in milp.solve_highs(problem, Stop(), 0).proof
