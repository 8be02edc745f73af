"""Methods that misbehave in a known way, for tests to register."""

from __future__ import annotations

import numpy as np

from rramalloc.errors import SolverError, UnsupportedError
from rramalloc.methods.method import Method
from rramalloc.search.problem import Answer, Problem
from rramalloc.search.work import Work


def _same(problem: Problem, copies: int, bound: int = 1) -> Answer:
    return Answer(problem.choice(np.full_like(problem.demand, copies)), bound, "told by a fake")


def by_seed(problem: Problem, stop: Work, seed: int) -> Answer:
    """Copies of every stage by seed, the same on every call."""
    stop.charge(seed)
    return _same(problem, (1, 4, 2, 3, 2)[seed % 5])


def greedy(problem: Problem, stop: Work, seed: int) -> Answer:
    """More than any budget holds."""
    return _same(problem, 10)


def slow(problem: Problem, stop: Work, seed: int) -> Answer:
    """One copy of everything."""
    return _same(problem, 1)


def boastful(problem: Problem, stop: Work, seed: int) -> Answer:
    """A bound above its own makespan."""
    return _same(problem, 1, bound=10**6)


def wrong(problem: Problem, stop: Work, seed: int) -> Answer:
    """A bound that holds for its own allocation, but not for others."""
    return _same(problem, 1, bound=17)


def failing(problem: Problem, stop: Work, seed: int) -> Answer:
    raise SolverError("no allocation found: give it more --work")


def crashing(problem: Problem, stop: Work, seed: int) -> Answer:
    raise ZeroDivisionError("no such luck")


def silent(problem: Problem, stop: Work, seed: int) -> None:
    """No answer at all."""


def short(problem: Problem, stop: Work, seed: int) -> Answer:
    """Copies of the first stage alone."""
    return Answer(problem.choice(np.ones(1, dtype=np.int64)), 1, "told by a fake")


def chains_only(problem: Problem, stop: Work, seed: int) -> Answer:
    raise UnsupportedError("here", "covers chains only")


BY_SEED = Method("by_seed", by_seed, "nothing", seeded=True)
GREEDY = Method("greedy", greedy, "nothing")
SLOW = Method("slow", slow, "nothing")
BOASTFUL = Method("boastful", boastful, "nothing")
WRONG = Method("wrong", wrong, "nothing")
FAILING = Method("failing", failing, "nothing")
CHAINS_ONLY = Method("chains_only", chains_only, "nothing")
