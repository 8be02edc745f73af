"""Method: the declaration of a search or baseline in this folder, and the limits of all methods.

A method proposes an allocation of a problem; it is timed, checked and repaired by code that is not its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from rramalloc.search.problem import Answer, Problem
from rramalloc.search.work import Work
from rramalloc.timing.simulate import Copies

Solve = Callable[[Problem, Work, int], Answer]
"""Proposes an allocation, and charges its work: same problem, work and seed, same answer."""


@dataclass(frozen=True, slots=True)
class Method:
    """A search or baseline by the name that users call it by.

    minimises: what it makes small; source: paper or tool that it is from; proves: what its lower bound shows;
    seeded: whether the answer depends on the seed beyond ties, so that a comparison shows its spread;
    compared: whether a comparison runs it unless methods are named; sees_digital: whether stages without
    arrays, which take time, are among those it is given. They leave nothing to choose; it is timed with them
    in any case. repaired: whether copies of an answer that takes more arrays than there are are taken away,
    rather than it being an error. reads: features that it goes with (`allocation.goes_with`); needs: one
    without which it has nothing of its own to propose.
    """

    name: str
    solve: Solve
    minimises: str
    source: str = ""
    proves: str = "nothing"
    seeded: bool = False
    compared: bool = True
    sees_digital: bool = False
    repaired: bool = True
    reads: str = "case -kinds limits objective inputs placed method"
    needs: str = ""


def proposed(method: Method, problem: Problem, stop: Work, seed: int) -> Answer:
    """Return the answer of a method, with the stages that it is not given; it need not fit yet."""
    if method.sees_digital or problem.on_arrays is problem:
        return method.solve(problem, stop, seed)
    answer = method.solve(problem.on_arrays, stop, seed)
    return replace(answer, choice=answer.choice.with_digital(problem))


MethodLike = str | Method | Solve
"""The name of a method, a Method, or a function (problem, work, seed) -> Answer."""


def most_copies(problem: Problem) -> Copies:
    """Return the windows of every stage, or the problem's own limit, whatever the budget is."""
    if problem.held.most is None:
        return problem.graph.most_copies
    most: Copies = np.minimum(problem.graph.most_copies, problem.held.most)
    return most


def clipped(problem: Problem, copies: Copies) -> Copies:
    """Return the copies, raised to the fewest allowed and cut to `most_copies`."""
    kept: Copies = np.maximum(np.minimum(copies, most_copies(problem)), problem.smallest)
    return kept
