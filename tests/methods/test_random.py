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


@settings(max_examples=30)
@given(case=enumerated(), random=randoms)
def test_genetic_is_no_worse_than_its_founders(case: Enumerated, random: Random) -> None:
    source = case.problem
    found = genetic.solve(source, Work(), random.randrange(5)).choice.copies
    search = genetic._Evolution(source, Work(), np.random.Generator(np.random.PCG64(0)))
    founders = search.founders()
    assert source.is_allowed(found)
    assert makespan_of(source.graph, found) <= makespan_of(source.graph, founders[0])
    margins = balance.with_margins(source, range(90, 9, -1), Work())
    fitting = [row for row in margins if source.is_allowed(row)]
    assert founders.tolist() == [row.tolist() for row in fitting] or not fitting


def test_populations_survive_in_part() -> None:
    """30 of 100 by fitness, one in five of the others by chance."""
    source = two(60)
    search = genetic._Evolution(source, Work(), np.random.Generator(np.random.PCG64(3)))
    ordered = np.tile(source.smallest, (100, 1))
    ordered[:, 0] = np.arange(1, 101) % 50 + 1
    survivors = search.survivors(ordered)
    assert survivors[:30].tolist() == ordered[:30].tolist()
    assert 30 + 4 <= len(survivors) <= 30 + 30
