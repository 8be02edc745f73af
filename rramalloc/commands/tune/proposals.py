"""Allocations to be simulated: near-optimal ones first, then those of highest expected improvement."""

from __future__ import annotations

import math
import random
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import mul

import numpy as np

from rramalloc.allocation.optimize import objective_of, propose
from rramalloc.allocation.question import Question
from rramalloc.choices import shown_by
from rramalloc.commands.tune.calibration import Calibration
from rramalloc.errors import RramallocError
from rramalloc.mapping.modes import breakpoints
from rramalloc.search.problem import Problem
from rramalloc.search.resources import Cost
from rramalloc.search.work import Work
from rramalloc.timing.simulate import Copies

Start = tuple[str, Copies]
"""Origin of an allocation, and its copies in canonical order."""

_SHARES = (0.85, 0.6)
"""Shares of the budget to search with: simulators that charge for transfer may be faster with fewer copies.
"""
_CAPS = (0.5, 0.25)  # most copies of a stage, as shares of the most that the fastest allocation gives to any
_BASELINES = ("proportional", "balance", "lagrange")
_MOVES = (1, 1, 2, 3, 5)  # stages that one step raises or lowers; drawn evenly
P_FILL = 0.6  # probability that a step spends all free arrays
P_LOWER = 0.2  # probability that a step only frees arrays
P_DOWN = 0.3  # probability that any other step takes copies from a stage instead of adding them
P_MIXED = 0.5  # probability that a child has two parents
P_MOVED = 0.7  # probability that a child of two parents also takes a step
_PARENTS = 10  # best candidates that have children; more are too slow to have good ones
_SIMULATED_WINDOWS = 2e7  # of a generation in all
_FEWEST = 60  # fewest allocations of a generation
_MOST = 300  # most allocations of a generation
_EXPLORATION = 0.1  # share of proposals that go where least is sure
_HOPE = 1e-5  # least expected improvement, relative to the best figure, by which a model may choose


def starting_allocations(problem: Problem, stop: Callable[[], Work], seed: int) -> Iterator[Start]:
    """Yield near-optimal allocations of several objectives, budgets and limits of copies, and of
    baselines."""

    def found(origin: str, within: Problem, request: Question) -> Iterator[Start]:
        try:
            copies = propose(objective_of(within, request), request, stop()).choice.copies
        except RramallocError:  # a baseline that does not apply
            return
        if within.is_allowed(copies):
            yield origin, copies

    fastest: Copies | None = None
    for objective in shown_by("tune"):
        for start in found(objective, problem, Question(objective=objective, seed=seed)):
            fastest = start[1] if fastest is None else fastest
            yield start
    for share in _SHARES:
        fewer = replace(problem, budget=Cost(max(problem.minimum, int(share * problem.budget))))
        yield from found(f"latency with {share:.0%} of the arrays", fewer, Question(seed=seed))
    for share in _CAPS:
        if fastest is None:
            break
        most = np.minimum(problem.graph.windows, max(1, int(share * int(fastest.max()))))
        capped = problem.with_most(most)
        yield from found(f"latency with at most {int(most.max())} copies", capped, Question(seed=seed))
    for method in _BASELINES if problem.alternatives is None else ():
        yield from found(method, problem, Question(method=method, seed=seed))


@dataclass(eq=False)
class Neighbourhood:
    """Draws allocations near others, all within the budget, from one stream of random numbers."""

    problem: Problem
    seed: int

    def __post_init__(self) -> None:
        self._draw = random.Random(self.seed)  # noqa: S311
        limits = zip(self.problem.graph.windows.tolist(), self.problem.largest.tolist(), strict=True)
        self._useful: list[list[int]] = [breakpoints(windows, most).tolist() for windows, most in limits]
        self._least: list[int] = self.problem.smallest.tolist()
        resources, modes = self.problem.resources, self.problem.graph.modes
        kinds = np.array([mode.kind for mode in modes])
        # What a copy of every stage takes of the budget and of each axis, and the limits of these.
        every = [(resources.weights, int(self.problem.budget))]
        every += [(axis.per_array, axis.limit) for axis in resources.axes]
        self._takes = [(np.array(each)[kinds] * self.problem.demand).tolist() for each, _ in every]
        self._limits = [limit for _, limit in every]

    @property
    def size(self) -> int:
        """Number of allocations of a generation: fewer for networks that take long to time."""
        return int(np.clip(_SIMULATED_WINDOWS / float(self.problem.graph.windows.sum()), _FEWEST, _MOST))

    def near(self, start: Copies) -> Copies:
        """Return a neighbour: a few stages with more or fewer copies, others with fewer so that it fits."""
        copies, draw = start.tolist(), self._draw
        lower_only = draw.random() < P_LOWER
        stages = draw.sample(range(len(copies)), min(draw.choice(_MOVES), len(copies)))
        for stage in stages:
            self._step(copies, stage, -1 if lower_only or draw.random() < P_DOWN else 1)
        return self._fitted(copies, stages, fill=not lower_only and draw.random() < P_FILL)

    def mixed(self, first: Copies, second: Copies) -> Copies:
        """Return a crossover of two allocations, stage by stage, lowered to fit the budget."""
        pairs = zip(first.tolist(), second.tolist(), strict=True)
        return self._fitted([self._draw.choice(pair) for pair in pairs], (), fill=True)

    def child(self, parents: Sequence[Copies]) -> Copies:
        """Return a child of one parent or of two; parents at the front are drawn more often."""
        one = parents[self.choose(len(parents))]
        if not self.chance(P_MIXED):
            return self.near(one)
        child = self.mixed(one, parents[self.choose(len(parents))])
        return self.near(child) if self.chance(P_MOVED) else child

    def unseen(self, parents: Sequence[Copies], seen: Mapping[tuple[int, ...], object]) -> list[Copies]:
        """Return a generation of different children, without those that were judged."""
        children = (self.child(parents) for _ in range(self.size))
        born = {key: child for child in children if (key := tuple(child.tolist())) not in seen}
        return list(born.values())

    def fitted(self, copies: Copies) -> Copies:
        """Return the copies, lowered until they fit the budget."""
        return self._fitted(copies.tolist(), (), fill=False)

    def choose(self, count: int) -> int:
        """Draw a number below `count`, smaller ones more often."""
        return int(count * self._draw.random() ** 2)

    def draw(self, count: int) -> int:
        """Draw a number below `count`, all equally often."""
        return self._draw.randrange(count)

    def chance(self, probability: float) -> bool:
        """Return a Bernoulli draw: True with this probability."""
        return self._draw.random() < probability

    def _step(self, copies: list[int], stage: int, direction: int) -> None:
        """Move the copies of a stage by one breakpoint up or down, or by up to a quarter of all."""
        useful, draw = self._useful[stage], self._draw
        reach = 1 if draw.random() < 0.5 else 1 + draw.randrange(max(1, len(useful) // 4))
        place = (
            bisect_right(useful, copies[stage]) - 1 if direction > 0 else bisect_left(useful, copies[stage])
        )
        to = min(max(place + direction * reach, 0), len(useful) - 1)
        copies[stage] = max(useful[to], self._least[stage])

    def _fitted(self, copies: list[int], kept: Collection[int], *, fill: bool) -> Copies:
        """Return the copies lowered until they fit, stages in `kept` last; fill: then raised again."""
        pairs = zip(self._takes, self._limits, strict=True)
        spare = [limit - sum(map(mul, copies, takes)) for takes, limit in pairs]
        others = [stage for stage in range(len(copies)) if stage not in kept]
        for group in (others, list(kept)):
            while min(spare) < 0 and self._lower(copies, group, spare):
                pass
        while not self.problem.holds(np.array(copies)):  # copies that take whole tiles take more
            if not self._lower(copies, others, spare):
                self._lower(copies, kept, spare)
        fitted = np.array(copies)
        if not fill:
            return fitted
        self._fill(copies, spare)
        filled = np.array(copies)
        return filled if self.problem.holds(filled) else fitted

    def _lower(self, copies: list[int], group: Collection[int], spare: list[int]) -> bool:
        """Lower one stage of a group by one number of batches, and free what it takes; False if none can go.

        Stages are drawn in proportion to their arrays: one that has many loses few of its copies. Where a
        limit is exceeded, of those that take some of it.
        """
        over = [takes for takes, left in zip(self._takes, spare, strict=True) if left < 0] or self._takes[:1]
        able = [
            stage
            for stage in group
            if copies[stage] > self._least[stage] and any(takes[stage] for takes in over)
        ]
        if not able:
            return False
        (stage,) = self._draw.choices(able, [copies[stage] * self._takes[0][stage] for stage in able])
        useful = self._useful[stage]
        to = max(useful[bisect_left(useful, copies[stage]) - 1], self._least[stage])
        spare[:] = self._left(spare, stage, to - copies[stage])
        copies[stage] = to
        return True

    def _left(self, spare: Sequence[int], stage: int, more: int) -> list[int]:
        """Return what is left of every limit with more copies of a stage."""
        return [left - more * takes[stage] for left, takes in zip(spare, self._takes, strict=True)]

    def _fill(self, copies: list[int], spare: list[int]) -> None:
        """Raise stages in random order as long as something fits the budget."""
        able = self._draw.sample(range(len(copies)), len(copies))
        while able:
            left = []
            for stage in able:
                useful = self._useful[stage]
                place = bisect_right(useful, copies[stage])
                if place < len(useful):
                    after = self._left(spare, stage, useful[place] - copies[stage])
                    if min(after) >= 0:
                        copies[stage] = useful[place]
                        spare = after
                        left.append(stage)
            able = left


def proposals(
    calibration: Calibration, near: Neighbourhood, ranked: Sequence[Copies], best: float,
    seen: Mapping[tuple[int, ...], object], count: int,
) -> list[tuple[Copies, float]]:  # fmt: skip
    """Return the allocations with the highest expected improvement, each with its predicted figure.

    ranked: allocations that have a figure, the best first; best: the logarithm of the best figure; seen:
    allocations that are not proposed again. Candidates are one generation of children of the best alone, as
    predictions far from known answers are poor. If the model expects no improvement from any of them,
    children of all known allocations are drawn at random.
    """
    expected = _expected(calibration, near.unseen(ranked[:_PARENTS], seen))
    gains = [expected_improvement(best, mean, deviation) for _, mean, deviation in expected]
    draws_anywhere = max(gains, default=0.0) < _HOPE
    if draws_anywhere:
        expected = _expected(calibration, near.unseen(ranked, seen))
    left = list(range(len(expected)))
    chosen: list[tuple[Copies, float]] = []
    while left and len(chosen) < count:
        if draws_anywhere:
            at = left[near.draw(len(left))]
        elif near.chance(_EXPLORATION):
            at = max(left, key=lambda at: expected[at][2] - 0.5 * expected[at][1])
        else:
            at = max(left, key=lambda at: (gains[at], -expected[at][1]))
        left.remove(at)
        chosen.append((expected[at][0], math.exp(expected[at][1])))
    return chosen


def _expected(calibration: Calibration, children: Sequence[Copies]) -> list[tuple[Copies, float, float]]:
    """Return each child with mean and deviation of the logarithm of its figure."""
    if not children:
        return []
    means, deviations = calibration.expect(children)
    return list(zip(children, means.tolist(), deviations.tolist(), strict=True))


def expected_improvement(best: float, mean: float, deviation: float) -> float:
    """Return the expected improvement E[max(best - X, 0)] of a normal variable X.

    Source: Jones 1998, doi:10.1023/A:1008306431147.
    """
    deviation = max(deviation, 1e-12)
    score = (best - mean) / deviation
    density = math.exp(-0.5 * score**2) / math.sqrt(2 * math.pi)
    below = 0.5 * math.erfc(-score / math.sqrt(2))
    return deviation * (score * below + density)
