"""`annealing` and `genetic`: parts worked by hand, and what holds for every seed."""

from __future__ import annotations

import math
import statistics
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from laws.strategies import Enumerated, enumerated, randoms
from methods.small import conv, copies, problem

from rramalloc.allocation.case import Case
from rramalloc.allocation.optimize import Request, propose
from rramalloc.hardware.loader import load_hardware
from rramalloc.importers import load
from rramalloc.methods import annealing, balance, genetic
from rramalloc.search.problem import Problem
from rramalloc.search.work import Work
from rramalloc.timing.simulate import makespan_of


def two(budget: int) -> Problem:
    """64 and 16 windows, demand 1 and 4: equal shares of arrays are equal batches."""
    nodes = [
        {"name": "a", "op": "input", "shape": [1, 1, 64]}, {"name": "b", "op": "input", "shape": [1, 1, 16]},
        conv("c1", "a"), conv("c2", "b"),
    ]  # fmt: skip
    return problem(1, nodes, [1, 4], budget)


def test_annealing_starts_in_proportion() -> None:
    """16 arrays: 8 each, 8 batches each: no deviation to lower. 15 arrays round up to the same."""
    assert copies(annealing, two(16)) == [8, 2]
    assert copies(annealing, two(15)) == [8, 2]
    answer = propose(two(15), Request(method="annealing"), Work())
    assert answer.repaired
    assert two(15).fits(answer.choice.copies)


def test_annealing_lowers_its_start_to_the_budget() -> None:
    """9 arrays: 4.5 and 1.125 round up to 5 and 2, 13 arrays; one less each: 4 and 1, 8 arrays."""
    assert annealing.initial(two(9)).tolist() == [4, 1]


@pytest.mark.parametrize(
    ("copies_now", "value"),
    [
        pytest.param([8, 2], 0.0, id="8 and 8 batches"),
        pytest.param([16, 2], math.sqrt(8), id="4 and 8 batches: mean 6, (4 + 4) / 1"),
        pytest.param([3, 5], 22 / math.sqrt(2) - 4 / math.sqrt(2), id="3 = 0.6 * 5 is allowed: 22, 4"),
        pytest.param([2, 4], math.inf, id="2 < 0.6 * 4"),
    ],
)
def test_annealing_value(copies_now: list[int], value: float) -> None:
    found = annealing.value_of(two(100).graph.windows, np.array(copies_now))
    assert found == pytest.approx(value)


def test_annealing_value_of_a_single_stage() -> None:
    assert annealing.value_of(np.array([10]), np.array([3])) == 0.0


@pytest.mark.parametrize(
    ("value", "power"), [(207.5, 100.0), (1.0, 1.0), (0.5, 0.1), (9.99, 1.0), (1e4, 1e4), (0.01, 0.01)]
)
def test_first_temperature(value: float, power: float) -> None:
    assert annealing._power_of_ten(value) == pytest.approx(power)


@pytest.mark.parametrize("x", [0.0, 1e-9, 0.1, 1.0, 5.0, 20.0, 300.0, 800.0])
def test_own_exponential(x: float) -> None:
    assert annealing._decay(x) == pytest.approx(math.exp(-x), rel=1e-5, abs=1e-300)


@settings(max_examples=30)
@given(case=enumerated(), random=randoms)
def test_annealing_keeps_to_its_rules(case: Enumerated, random: Random) -> None:
    """Within the mean demand of the budget, and no worse than the start by its own objective.

    Batches in another order round to another sum, so deviations are compared within rounding.
    """
    source = case.problem
    found = annealing.solve(source, Work(work=1), random.randrange(5)).choice.copies
    start = annealing.initial(source)
    windows = source.graph.windows
    assert source.arrays(found) <= source.budget + source.demand.mean()
    assert ((found >= 1) & (found <= windows)).all()
    before = annealing.value_of(windows, start)
    after = annealing.value_of(windows, found)
    assert after <= before * (1 + 1e-12) or found.tolist() == start.tolist()
    if math.isfinite(after) and len(windows) > 1:
        assert after == pytest.approx(statistics.stdev((-(-windows // found)).tolist()))


def test_annealing_equalises_vgg16() -> None:
    source = Case(load("vgg16"), load_hardware("plain")).problem(4096)
    windows = source.graph.windows
    before = annealing.value_of(windows, annealing.initial(source))
    values = {seed: np.array(copies(annealing, source, seed)) for seed in range(3)}
    assert all(annealing.value_of(windows, found) <= min(before, 1e4) for found in values.values())


def test_genetic_on_a_single_stage() -> None:
    """4 windows, 4 arrays: without a margin 3 copies are added, and 1 step is the least there is."""
    nodes = [{"name": "a", "op": "input", "shape": [1, 1, 4]}, conv("c", "a")]
    assert copies(genetic, problem(1, nodes, [1], 4)) == [4]


def test_genetic_founders_are_those_that_fit() -> None:
    """5 arrays, demand 1 and 4: one copy of each takes them all, so no founder has more."""
    search = genetic._Evolution(two(5), Work(), np.random.Generator(np.random.PCG64(0)))
    assert search.founders().tolist() == [[1, 1]]
    assert copies(genetic, two(5)) == [1, 1]


@settings(max_examples=30)
@given(case=enumerated(), random=randoms)
def test_genetic_is_no_worse_than_its_founders(case: Enumerated, random: Random) -> None:
    source = case.problem
    found = genetic.solve(source, Work(), random.randrange(5)).choice.copies
    search = genetic._Evolution(source, Work(), np.random.Generator(np.random.PCG64(0)))
    founders = search.founders()
    assert source.fits(found)
    assert makespan_of(source.graph, found) <= makespan_of(source.graph, founders[0])
    fitting = [row for row in balance.with_margins(source, range(90, 9, -1)).allocations if source.fits(row)]
    assert founders.tolist() == [row.tolist() for row in fitting] or not fitting


def test_populations_survive_in_part() -> None:
    """30 of 100 by fitness, one in five of the others by chance."""
    source = two(60)
    search = genetic._Evolution(source, Work(), np.random.Generator(np.random.PCG64(3)))
    ordered = np.tile(source.smallest, (100, 1))
    ordered[:, 0] = np.arange(1, 101) % 50 + 1
    survivors = search._survivors(ordered)
    assert survivors[:30].tolist() == ordered[:30].tolist()
    assert 30 + 4 <= len(survivors) <= 30 + 30
