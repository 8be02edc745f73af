"""Latency in ns when memory access lengthens the step, against every allocation (docs/sources/model.md 7
and 8)."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from laws.strategies import ANY, Enumerated, random_problem, randoms

from rramalloc.search.objective import Latency
from rramalloc.search.problem import Answer
from rramalloc.search.work import Work
from rramalloc.timing.access import StepTime
from rramalloc.timing.simulate import makespan_of_each

TOLERANCE = 1e-9


def with_memory(
    random: Random, case: Enumerated, *, shared: bool
) -> tuple[Enumerated, npt.NDArray[np.float64]]:
    """The case with a step time, and the latency of each allocation computed from docs/sources/model.md 7."""
    compute = random.choice((1.0, 10.0, 30.0))
    access = [random.choice((0.5, 2.0, 4.0, 7.3)) for _ in case.problem.demand]
    latencies = []
    for row, steps in zip(case.allocations.tolist(), case.makespans.tolist(), strict=True):
        each = [copies * per_copy for copies, per_copy in zip(row, access, strict=True)]
        latencies.append(steps * max(compute, sum(each) if shared else max(each)))
    step_time = StepTime(compute, np.array(access), shared)
    problem = replace(case.problem, step_time=step_time)
    return replace(case, problem=problem), np.array(latencies)


@pytest.mark.parametrize("shared", [pytest.param(False, id="per layer"), pytest.param(True, id="shared")])
@settings(max_examples=30)
@given(random=randoms)
def test_bound_is_never_above_the_optimum(shared: bool, random: Random) -> None:
    """Neither that of the search nor that of its relaxations alone."""
    case, latencies = with_memory(random, random_problem(random, 8, 5, ANY, 5), shared=shared)
    answer = Latency(case.problem).solve(Work(work=8), 0)
    assert (case.allocations == answer.choice.copies).all(axis=1).any()
    assert case.problem.step_time is not None
    step_ns = case.problem.step_time.step_ns(answer.choice.copies)
    steps = int(makespan_of_each(case.problem.graph, answer.choice.copies[None, :])[0])
    optimum = latencies.min()
    assert answer.objective_bound is not None
    assert answer.objective_bound <= optimum * (1 + TOLERANCE)
    root_ns = Latency(case.problem).bound(Answer(case.problem.smallest, 1, ""), Work())
    assert 0 < root_ns <= optimum * (1 + TOLERANCE)
    assert steps * step_ns >= optimum * (1 - TOLERANCE)


@pytest.mark.parametrize("shared", [pytest.param(False, id="per layer"), pytest.param(True, id="shared")])
@settings(max_examples=12)
@given(random=randoms)
def test_a_little_work_finds_the_optimum(shared: bool, random: Random) -> None:
    case, latencies = with_memory(random, random_problem(random, 8, 5, ANY, 4), shared=shared)
    answer = Latency(case.problem).solve(Work(work=30), 0)
    assert case.problem.step_time is not None
    step_ns = case.problem.step_time.step_ns(answer.choice.copies)
    steps = int(makespan_of_each(case.problem.graph, answer.choice.copies[None, :])[0])
    assert steps * step_ns == pytest.approx(latencies.min(), rel=1e-3)
    if not shared:
        assert answer.objective_bound == pytest.approx(latencies.min(), rel=1e-2)
