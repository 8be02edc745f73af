"""A function as `method=`: timed and judged as every method, and refused where it answers nonsense."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from methods.fakes import boastful, crashing, greedy, short, silent, slow

import rramalloc
from rramalloc.errors import PluginError, RramallocError, SolverError, SpecError, UnsupportedError
from rramalloc.mapping.mode import Mode
from rramalloc.methods.method import Method
from rramalloc.search.problem import Answer, Problem
from rramalloc.search.work import Work

Solve = Callable[[Problem, Work, int], Answer]


def twice(problem: Problem, work: Work, seed: int) -> Answer:
    """Two copies of the first stage."""
    copies = problem.smallest
    copies[0] = 2  # of its own problem: nobody else sees it
    work.charge(0.25)
    return Answer(problem.choice(copies), 1, "two copies of the first layer")


def test_a_function_is_a_method_of_its_name() -> None:
    """Its allocation is timed as any other: two copies halve the 3,025 steps of the first layer."""
    allocation = rramalloc.optimize("alexnet", 400, method=twice)
    assert allocation.method == "twice"
    assert allocation.layers[0].batches == -(-3025 // 2)
    assert allocation.proof.startswith("two copies of the first layer")
    assert allocation.makespan == rramalloc.simulate("alexnet", allocation).makespan
    assert 1 < allocation.lower_bound < allocation.makespan
    assert allocation == rramalloc.optimize("alexnet", 400, method=twice)


def test_other_forms_of_a_function() -> None:
    class Caller:
        def __call__(self, problem: Problem, work: Work, seed: int) -> Answer:
            return twice(problem, work, seed)

    declared = Method("mine", twice, minimises="nothing")
    forms: list[Any] = [functools.partial(twice), Caller(), declared, lambda *given: twice(*given)]
    names = [rramalloc.optimize("alexnet", 400, method=form, work=0).method for form in forms]
    assert names == ["twice", "Caller", "mine", "<lambda>"]


def changed(**fields: Any) -> Solve:
    """One copy of every stage, with an answer that is changed."""

    def odd(problem: Problem, work: Work, seed: int) -> Answer:
        return replace(slow(problem, work, seed), **fields)

    return odd


def of(copies: Any, modes: Any = None) -> Solve:
    def odd(problem: Problem, work: Work, seed: int) -> Answer:
        own = copies(problem) if callable(copies) else copies
        return Answer(problem.choice(own, modes), 1, "odd")

    return odd


@pytest.mark.parametrize(
    ("solve", "error", "told"),
    [
        (
            crashing,
            PluginError,
            "method 'crashing', which was given as a function, failed: ZeroDivisionError",
        ),
        (silent, PluginError, "it returned a NoneType, needed is Answer"),
        (short, PluginError, "it returned 1 numbers of copies for 5 stages"),
        (greedy, PluginError, r"it takes \d+ arrays, the budget is 400"),
        (boastful, SolverError, "boastful claims no less than 1000000 steps"),
        (changed(choice=7), PluginError, "it returned a int, needed is Answer"),
        (changed(lower_bound=1.5), PluginError, "lower_bound must be a whole number of steps, got 1.5"),
        (changed(lower_bound=None), PluginError, "lower_bound must be a whole number of steps, got None"),
        (changed(proof=b"x"), PluginError, "proof must be a text"),
        (of(None), PluginError, "numbers of copies for 5 stages"),
        (of("abcde"), PluginError, "numbers of copies for 5 stages"),
        (of(["1"] * 5), PluginError, "copies of 'conv1' must be a whole number, got '1'"),
        (of([1, 1, 1, 1, 1.5]), PluginError, "must be a whole number, got 1.5"),
        (of([1, 1, 1, 1, np.inf]), PluginError, "must be a whole number|are possible"),
        (of([1, 1, 1, 1, np.nan]), PluginError, "must be a whole number, got nan"),
        (of([True] * 5), PluginError, "must be a whole number, got True"),
        (of([0, 1, 1, 1, 1]), PluginError, "it gives 0 copies of 'conv1', 1 to 3025 are possible"),
        (of([1, 1, 1, 1, -1]), PluginError, "it gives -1 copies of 'conv5', 1 to 169 are possible"),
        (of([2**70, 1, 1, 1, 1]), PluginError, "1 to 3025 are possible"),
        (of([[1] * 5]), PluginError, r"an array of shape \(1, 5\)"),
        (of([1] * 5, "abc"), PluginError, "its modes must be a tuple of 5"),
        (of([1] * 5, (Mode(1, 1),)), PluginError, "its modes must be a tuple of 5, one a stage"),
        (of([1] * 5, ((1, 1),) * 5), PluginError, "must be a Mode of whole numbers"),
        (of([1] * 5, (Mode(2, 2),) * 5), PluginError, "the problem has .* alone"),
        (of([1] * 5, (Mode(1, 1, kind=3),) * 5), PluginError, "the problem has .* alone"),
    ],
)
def test_nonsense_is_refused(solve: Solve, error: type[RramallocError], told: str) -> None:
    with pytest.raises(error, match=told):
        rramalloc.optimize("alexnet", 400, method=solve, work=1)


def test_modes_of_a_function() -> None:
    """With mapping sdk a function may choose blocks that the layers can have."""

    def blocks(problem: Problem, work: Work, seed: int) -> Answer:
        modes = tuple(mode._replace(tall=tall, wide=1) for mode in problem.graph.modes)
        return Answer(problem.choice(np.ones_like(problem.demand), modes), 1, "blocks")

    tall = 2
    allocation = rramalloc.optimize("alexnet", 4000, method=blocks, mapping="sdk", work=1)
    assert {layer.block for layer in allocation.layers} == {(2, 1)}
    tall = 10**6
    with pytest.raises(PluginError, match="which covers its output"):
        rramalloc.optimize("alexnet", 4000, method=blocks, mapping="sdk", work=1)


def test_what_a_function_cannot_be_used_for() -> None:
    with pytest.raises(SpecError, match="method: is not 'auto', which objective 'interval' does not take"):
        rramalloc.optimize("alexnet", 400, method=twice, objective="interval")
    with pytest.raises(SpecError, match="is called 'gain', as a method of this program is"):
        rramalloc.optimize("alexnet", 400, method=Method("gain", twice, minimises="nothing"))
    with pytest.raises(UnsupportedError, match=r"'slow'.* does not keep to the limits"):
        rramalloc.optimize("alexnet", 400, method=slow, copies={"conv2": 3})
    for wrong in (7, None, b"x"):
        with pytest.raises(SpecError, match="method: must be a text, a Method or a function, got"):
            rramalloc.optimize("alexnet", 400, method=wrong)  # type: ignore[arg-type]
