"""Checks of the answers of methods from outside: only an allocation of the problem is accepted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rramalloc.errors import PluginError, SpecError
from rramalloc.mapping.mode import Mode, ModeOfEach
from rramalloc.mapping.modes import BlockGrid
from rramalloc.ndarrays import Ints
from rramalloc.records import brief
from rramalloc.search.problem import Answer, Choice, Problem
from rramalloc.status import Stopped


def accepted_answer(found: object, problem: Problem, what: str, *, repaired: bool) -> Answer:
    """Return the answer of a method as an allocation of `problem` that is not timed yet.

    what: whose answer it is, in words; repaired: whether it may take more arrays than there are.
    Raises PluginError for anything that is no answer to the problem.
    """
    try:
        return _accepted(found, problem, repaired=repaired)
    except (TypeError, ValueError) as error:
        raise PluginError(f"{what} gave no allocation of this problem: {error}") from None


def _accepted(found: object, problem: Problem, *, repaired: bool) -> Answer:
    if not isinstance(found, Answer) or not isinstance(found.choice, Choice):
        got = type(found.choice if isinstance(found, Answer) else found).__name__
        raise TypeError(f"it returned a {got}, needed is Answer(problem.choice(copies), 1, 'in words why')")
    bound = found.lower_bound
    if isinstance(bound, bool) or not isinstance(bound, int | np.integer):
        raise TypeError(f"its lower_bound must be a whole number of steps, got {brief(bound)}")
    if not isinstance(found.proof, str):
        raise TypeError(f"its proof must be a text, got {brief(found.proof)}")
    if found.stopped is not None and not isinstance(found.stopped, Stopped):
        raise TypeError(f"its stopped must be a Stopped or None, got {brief(found.stopped)}")
    modes = _modes(found.choice.modes, problem)
    copies = _copies(found.choice.copies, modes, problem)
    if not repaired and not problem.holds(copies, modes):
        used = problem.arrays(copies, modes)
        raise ValueError(f"it takes {used} arrays, the budget is {problem.budget}")
    return replace(found, choice=problem.choice(copies, modes), lower_bound=int(bound))


def _modes(given: object, problem: Problem) -> ModeOfEach:
    """Return the mode of every stage."""
    graph = problem.graph
    if not isinstance(given, tuple) or len(given) != len(graph.names):
        got = brief(given)
        raise ValueError(f"its modes must be a tuple of {len(graph.names)}, one a stage, got {got}")
    for stage, (mode, of_graph) in enumerate(zip(given, graph.modes, strict=True)):
        name = graph.names[stage][:60]
        if not isinstance(mode, Mode) or not all(isinstance(value, int) for value in mode):
            raise TypeError(f"the mode of {name!r} must be a Mode of whole numbers, got {brief(mode)}")
        if mode == of_graph:
            continue
        if not problem.chooses_blocks or mode.in_block(of_graph.block) != of_graph:
            words = f"the mode of {name!r} is {tuple(mode)}, the problem has {tuple(of_graph)} alone"
            raise ValueError(f"{words}: blocks are chosen with mapping 'sdk'")
        try:
            BlockGrid.of(graph.stages[stage], graph.network.shapes[graph.names[stage]], mode.block)
        except SpecError as error:
            raise ValueError(str(error)) from None
    return given


def _copies(given: object, modes: ModeOfEach, problem: Problem) -> Ints:
    """Return the copies of every stage, int64."""
    graph, copies = problem.in_modes(modes).graph, np.asarray(given)
    if copies.shape != (len(graph.names),):
        got = len(copies) if copies.ndim == 1 else f"an array of shape {copies.shape}"
        raise ValueError(f"it returned {got} numbers of copies for {len(graph.names)} stages")
    numbers = copies.tolist()
    for name, most, number in zip(graph.names, graph.most_copies.tolist(), numbers, strict=True):
        if isinstance(number, bool) or not isinstance(number, int | float) or number != number // 1:
            raise ValueError(f"copies of {name[:60]!r} must be a whole number, got {brief(number)}")
        if not 1 <= number <= most:
            raise ValueError(f"it gives {number:g} copies of {name[:60]!r}, 1 to {most} are possible")
    return np.array([int(number) for number in numbers], dtype=np.int64)
