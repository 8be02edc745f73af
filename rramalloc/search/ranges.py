"""Branch and bound over ranges of one quantity: the length of a step, or the number of arrays.

A range has a bound of the objective for every allocation in it. The range with the smallest bound is cut, or
searched with more work, until the bounds of all reach the best allocation, or the work is used up.

More copies take fewer steps but move more bytes per step: within a range of step lengths a stage has the
modes that the longest step can feed, and every step is at least as long as the shortest one that is possible
(docs/sources/model.md 7 and 8). More arrays take less time, but leak more and take longer to write: an
allocation in a range of arrays has at least its fewest arrays, and is not faster than the bound of the time
with its most arrays (docs/sources/model.md 8, 12 and 13).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, pairwise
from typing import NamedTuple, Protocol

import numpy as np

from rramalloc.errors import BudgetError
from rramalloc.mapping.demand import Storage
from rramalloc.ndarrays import Floats, Ints
from rramalloc.rounding import SAME_PRODUCT, SAME_SUM
from rramalloc.search import cost
from rramalloc.search.menu import StageModes, access_of_modes, all_modes, fed_by, shortest_step_ns
from rramalloc.search.problem import Answer, Choice, Problem
from rramalloc.search.work import Work
from rramalloc.timing.access import StepTime

STEP_RANGES = 8
"""Ranges of step lengths to begin with; 4 and 16 took 5 % more work on AlexNet and VGG-16 with [memory]."""
FIRST_WORK = 4
"""Units of work of the first search in a range; each later one has twice as much."""
FIRST_WORK_OF_LIMIT = 2
"""The same in a range of arrays or intervals, whose searches may be over ranges of step lengths."""
_NARROWEST = 1.0005
"""Ratio of longest to shortest step from which on step lengths that are sums over stages are not cut."""
_PARTS = 2**30
"""Parts in which bandwidth and arrays are counted where both limit the copies together."""


class Range(Protocol):
    """A set of allocations, by one quantity."""

    bound: float
    """No allocation in it has a smaller value."""

    def parts(self) -> Iterable[Range]:
        """Cut the range, or search it with more work; return nothing where more work would be the same."""
        ...


@dataclass(eq=False)
class Incumbent:
    """The best allocation so far: the least value, of equal values the one with the fewest arrays.

    value_of: the objective.
    """

    problem: Problem
    value_of: Callable[[Choice], float]
    value: float = math.inf
    best: Choice | None = None

    def offer(self, found: Choice) -> float:
        """Keep an allocation that is better and keeps to the budgets; return its value."""
        value = self.value_of(found)
        better = value < self.value * (1 - SAME_PRODUCT)
        if not better and self.best is not None and value <= self.value * (1 + SAME_PRODUCT):
            better = found.arrays < self.best.arrays
        if better and self.problem.holds(found.copies, found.modes):
            self.best, self.value = found, value
        return value

    def answer(self, proof: str, bound: float) -> Answer:
        """Return the best allocation with a proof in words and a bound of the objective."""
        if self.best is None:
            raise AssertionError("one copy of every stage fits")
        return Answer(self.best, bound, proof)


def close_ranges(ranges: Iterable[Range], incumbent: Incumbent, stop: Work) -> float:
    """Return a value that no allocation in the ranges undercuts, searching until the best one meets it."""
    number = count()  # of equal bounds the range that came first
    heap = [(each.bound, next(number), each) for each in ranges]
    heapq.heapify(heap)
    closed = math.inf
    while heap and stop.is_open(incumbent.value, min(closed, heap[0][0])):
        bound, _, first = heapq.heappop(heap)
        if bound > incumbent.value or math.isinf(bound):  # no range left holds a better one
            return min(incumbent.value, closed)
        parts = list(first.parts())
        if not parts:
            closed = min(closed, bound)
        for part in parts:
            heapq.heappush(heap, (max(bound, part.bound), next(number), part))
    return min([incumbent.value, closed, *(bound for bound, _, _ in heap[:1])])


class StepBound(NamedTuple):
    """Bounds that a search has proven for some step lengths: of the objective, and of the steps."""

    value: float
    steps: int = 1


class StepModel(Protocol):
    """Objective that is minimised together with the length of a step."""

    @property
    def stop(self) -> Work:
        """Limits of the whole search."""
        ...

    def bound(self, relaxed: Problem, step_ns: float, steps: int) -> float:
        """Return a bound of the objective with steps of at least `step_ns`, at little cost.

        steps: how many any allocation of the problem takes at least.
        """
        ...

    def search(self, relaxed: Problem, step_ns: float, longest_ns: float, work: int) -> StepBound:
        """Offer the incumbent an allocation with steps of at most `longest_ns`; return what was proven."""
        ...


Cut = Callable[[float, float], float | None]
"""Returns where a range of step lengths is cut, None where no half of it is easier than the whole."""


def geometric_mean(shortest_ns: float, longest_ns: float) -> float | None:
    """Return the step length as many times the shortest as the longest is of it."""
    return math.sqrt(shortest_ns * longest_ns)


class ByLength(NamedTuple):
    """Modes of a stage by the length of all batches, the shortest first, and the least access up to each."""

    length: Ints
    access_ns: Floats

    @classmethod
    def of(cls, listed: StageModes, access_ns: Floats) -> ByLength:
        """Sort the modes of a stage. access_ns: of each of them."""
        order = np.argsort(listed.length, kind="stable")
        return cls(listed.length[order], np.minimum.accumulate(access_ns[order]))

    def least_ns(self, longest: int) -> float:
        """Return the least access of the modes that are no longer, infinity if all are."""
        at = int(np.searchsorted(self.length, longest, side="right"))
        return float(self.access_ns[at - 1]) if at else math.inf


@dataclass(eq=False)
class StepLengths:
    """The lengths that a step of a problem can have.

    per_copy, least, most: of every block of every stage, the access time of a copy and its copies;
    stages: modes of each by length, where the step is the sum of their access.
    """

    problem: Problem
    step_time: StepTime
    per_copy: Floats
    least: Ints
    most: Ints
    shortest: float
    longest: float
    stages: tuple[ByLength, ...] = ()

    @classmethod
    def of(cls, problem: Problem) -> StepLengths:
        """Raise ValueError without a step time. On a placement only copies alone are searched."""
        step_time = step_time_of(problem)
        if step_time.transfer is not None:
            none = np.zeros(0)
            ends = step_time.step_ns(problem.smallest), step_time.step_ns(problem.largest)
            return cls(problem, step_time, none, none.astype(np.int64), none.astype(np.int64), *ends)
        stages = all_modes(problem)
        per_copy = [problem.access_ns(stage, each.modes) for stage, each in enumerate(stages)]
        ranges = [each.copies_of_modes() for each in stages]
        together = sum if step_time.shared else max
        end_ns = together(float((ns * own[1]).max()) for ns, own in zip(per_copy, ranges, strict=True))
        least, most = (np.concatenate([each[end] for each in ranges]) for end in (0, 1))
        shortest, longest = shortest_step_ns(problem, stages), max(step_time.compute_ns, end_ns)
        by_length: tuple[ByLength, ...] = ()
        if step_time.shared:
            by_length = tuple(
                ByLength.of(each, access_of_modes(problem, i, each)) for i, each in enumerate(stages)
            )
        every = np.concatenate(per_copy)
        if step_time.by_bits:  # the time that bits compute is one more length, whatever the copies
            listed = [problem.compute_ns(i, each.modes) for i, each in enumerate(stages)]
            lengths = np.unique(np.concatenate(listed))
            every = np.concatenate([every, lengths])
            least, most = (
                np.concatenate([ends, np.ones_like(lengths, dtype=np.int64)]) for ends in (least, most)
            )
            longest = max(longest, float(lengths[-1]))
        return cls(problem, step_time, every, least, most, shortest, longest, by_length)

    def least_interval(self, step_ns: float) -> int:
        """Return an interval that no allocation whose step is at most so long undercuts."""
        low, high = 1, max((int(stage.length[-1]) for stage in self.stages), default=1)
        while low < high:
            middle = (low + high) // 2
            if sum(stage.least_ns(middle) for stage in self.stages) <= step_ns * (1 + SAME_PRODUCT):
                high = middle
            else:
                low = middle + 1
        return low

    @property
    def are_sums(self) -> bool:
        """Whether step lengths are sums over stages, or of a placement: too many to list."""
        return self.step_time.shared or self.step_time.transfer is not None

    def possible(self, low: float, high: float) -> tuple[float, float]:
        """Return the shortest and the longest step above `low` and up to `high`.

        The first is longer than the second where there is none.
        """
        if self.are_sums or high <= self.shortest * (1 + SAME_PRODUCT):
            # What differs from `low` by rounding is not above it, else ranges cut there would not shrink.
            return max(low * (1 + 2 * SAME_PRODUCT), self.shortest), max(high, self.shortest)
        moving = self.per_copy > 0
        per_copy, least, most = self.per_copy[moving], self.least[moving], self.most[moving]
        above = np.maximum(np.floor(low / per_copy * (1 + SAME_PRODUCT)) + 1, least)
        below = np.minimum(np.floor(high / per_copy * (1 + SAME_PRODUCT)), most)
        first = float(np.where(above > most, np.inf, per_copy * above).min(initial=math.inf))
        last = float(np.where(below < least, 0.0, per_copy * below).max(initial=0.0))
        return max(first, self.shortest), min(high, max(last, self.shortest))


@dataclass(eq=False)
class StepRange:
    """Step lengths above `low`: from `first`, the shortest that is possible, to `last`.

    work: units that the last search with steps of at most `last` was given, 0 before the first; steps: what
    it has proven; cut: where it is cut.
    """

    lengths: StepLengths
    model: StepModel
    most_work: int
    low: float
    first: float
    last: float
    bound: float = 0.0
    work: int = 0
    steps: int = 1
    cut: Cut = geometric_mean

    @classmethod
    def all_of(
        cls, problem: Problem, model: StepModel, most_work: int, cut: Cut = geometric_mean
    ) -> list[StepRange]:
        """Return the shortest step by itself, and all others in `STEP_RANGES` ranges of equal ratio."""
        lengths = StepLengths.of(problem)
        edges = [lengths.shortest]
        if lengths.longest > lengths.shortest * (1 + SAME_PRODUCT):
            edges = np.geomspace(lengths.shortest, lengths.longest, STEP_RANGES + 1).tolist()
        whole = cls(lengths, model, most_work, 0.0, 0.0, lengths.longest, cut=cut)
        every = [whole.part(low, high) for low, high in pairwise([0.0, *edges])]
        return [each for each in every if each is not None]

    @property
    def _middle(self) -> float | None:
        """The step length at which it is cut; None for one step length, or nearly one of those not listed."""
        several = self.last > self.first * (_NARROWEST if self.lengths.are_sums else 1 + SAME_SUM)
        return self.cut(self.first, self.last) if several else None

    def part(self, low: float, high: float) -> StepRange | None:
        """Return the steps above `low` and up to `high` with their bound, None where there are none."""
        first, last = self.lengths.possible(low, high)
        if first > last * (1 + SAME_PRODUCT):
            return None
        if self.model.stop.out_of_time:  # no bound of its own
            return replace(self, low=low, first=first, last=last)
        steps = max(self.steps, self.lengths.least_interval(last))
        bounds = [self.model.bound(relaxed, first, steps) for relaxed in self._relaxations(last)]
        if not bounds:
            return None
        work = self.work if high >= self.last else 0
        return replace(self, low=low, first=first, last=last, bound=max(*bounds, self.bound), work=work)

    def parts(self) -> list[StepRange]:
        """Search the range, then cut it in the middle; one that is too narrow is searched with more work."""
        if self.work and (middle := self._middle) is not None:
            self.model.stop.charge(cost.STEP_PIECE)
            halves = self.part(self.low, middle), self.part(middle, self.last)
            return [half for half in halves if half is not None]
        if self.work >= max(FIRST_WORK, self.most_work):
            return []
        work = min(max(FIRST_WORK, 2 * self.work), max(FIRST_WORK, self.most_work))
        found = [
            self.model.search(relaxed, self.first, self.last, work)
            for relaxed in self._relaxations(self.last)
        ]
        bound, steps = (max(each) for each in zip(*found, (self.bound, self.steps), strict=True))
        return [replace(self, work=work, bound=bound, steps=steps)]

    def _relaxations(self, step_ns: float) -> Sequence[Problem]:
        """Return problems that hold every allocation within the budget whose step is at most `step_ns`.

        Each stage alone may have the modes that such a step can feed. With a shared bandwidth the sum counts
        too: for copies alone as a budget of its own, and added to the arrays, each in parts of what there is.
        """
        problem, step_time = self.lengths.problem, self.lengths.step_time
        try:
            fed = fed_by(problem, step_ns)
        except BudgetError:  # no allocation has so short a step
            return []
        relaxed = [fed]
        if step_time.shared and problem.one_block:
            bandwidth = step_time.access_ns_per_copy / step_ns * (1 - SAME_PRODUCT)
            for arrays in (0.0, 1.0):
                parts = bandwidth + arrays * problem.demand / problem.budget
                demand = np.floor(parts * _PARTS).astype(np.int64)
                budget = int((1 + arrays) * _PARTS)
                if (demand > 0).all() and int((demand * problem.smallest).sum()) <= budget:
                    storage = Storage.of_copies(demand)
                    relaxed.append(replace(fed, demand=demand, storage=storage, once=None, budget=budget))
        return relaxed


class FasterThan(NamedTuple):
    """An allocation that takes little time, None for none, and a time that none within a limit undercuts."""

    choice: Choice | None
    bound: float


class LimitModel(Protocol):
    """Objective that rises with a limit, of arrays or of the interval, and with time."""

    def floor(self, limit: int, time: float) -> float:
        """Return a bound of the objective at `limit` or beyond it, where nothing takes less than `time`."""
        ...

    def fastest(self, limit: int, work: int) -> FasterThan:
        """Search for the least time within a limit, for `work` units of work, which are charged."""
        ...

    def keep(self, found: Choice) -> None:
        """Offer the incumbent an allocation, or a better one near it."""
        ...


@dataclass(eq=False)
class KnownTimes:
    """Results of searches within some limits: units of work, and bounds of the time."""

    model: LimitModel
    incumbent: Incumbent
    work: dict[int, int] = field(default_factory=dict)
    bound: dict[int, float] = field(default_factory=dict)

    def search(self, limit: int, work: int) -> None:
        """Search for the least time within a limit; its bound holds within all that are tighter."""
        problem = self.incumbent.problem
        found, bound = self.model.fastest(limit, work)
        self.work[limit] = work
        self.bound[limit] = max(bound, self.bound.get(limit, 0.0))
        if found is not None and problem.holds(found.copies, found.modes):
            self.model.keep(found)


@dataclass(eq=False)
class LimitRange:
    """Numbers of arrays, or of intervals, above `low` and up to `high`, within which was searched."""

    known: KnownTimes
    most_work: int
    low: int
    high: int
    bound: float = 0.0

    def __post_init__(self) -> None:
        self.bound = self._floor(self.low + 1)

    @classmethod
    def of_arrays(cls, known: KnownTimes, most_work: int) -> list[LimitRange]:
        """Return all numbers of arrays in one range, searched once with the whole budget."""
        problem = known.incumbent.problem
        known.search(problem.budget, FIRST_WORK_OF_LIMIT)
        return [cls(known, most_work, problem.minimum - 1, problem.budget)]

    def _floor(self, limit: int) -> float:
        return self.known.model.floor(limit, self.known.bound[self.high])

    def parts(self) -> list[LimitRange]:
        """Cut the range, or search it with more work if a better time would raise its bound more."""
        if self._is_wide:
            middle = math.isqrt((self.low + 1) * self.high)
            middle = min(max(middle, self.low + 1), self.high - 1)
            self.known.search(middle, FIRST_WORK_OF_LIMIT)
            ends = [(self.low, middle), (middle, self.high)]
        elif self.known.work[self.high] >= max(self.most_work, FIRST_WORK_OF_LIMIT):
            return []
        else:
            self.known.search(self.high, 2 * self.known.work[self.high])
            ends = [(self.low, self.high)]
        return [LimitRange(self.known, self.most_work, low, high) for low, high in ends]

    @property
    def _is_wide(self) -> bool:
        """Whether cutting helps: its bound with the most arrays is as good as the best, or better."""
        if self.high <= self.low + 1:
            return False
        most = self._floor(self.high)
        if most <= self.bound * (1 + SAME_SUM):
            return False
        by_width, by_time = most - self.bound, max(0.0, self.known.incumbent.value - most)
        return by_width >= by_time or self.known.work[self.high] >= self.most_work


def step_time_of(problem: Problem) -> StepTime:
    """Return the step time of a problem. Raises ValueError if it has none."""
    if problem.step_time is None:
        raise ValueError("the problem has no step time")
    return problem.step_time
