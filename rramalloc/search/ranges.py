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
from dataclasses import dataclass, replace
from itertools import count, pairwise
from typing import NamedTuple, Protocol

import numpy as np

from rramalloc.choices import DEFAULT_WORK
from rramalloc.errors import BudgetError
from rramalloc.mapping.demand import Storage
from rramalloc.ndarrays import Floats, Ints
from rramalloc.rounding import SAME_PRODUCT, SAME_SUM
from rramalloc.search import cost
from rramalloc.search.menu import StageModes, access_of_modes, all_modes, fed_by, shortest_step_ns
from rramalloc.search.problem import Answer, Choice, Problem
from rramalloc.search.resources import Cost
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


@dataclass(frozen=True, slots=True)
class Piece:
    """Allocations of which one quantity is above `low` and at most `high`.

    bound: no allocation in it has a smaller value; work: units that the last search up to `high` was given, 0
    before the first; time: what it has proven that allocations up to `high` take at least.
    """

    low: float
    high: float
    bound: float = 0.0
    work: int = 0
    time: float = 1


Divide = Callable[[Piece], Sequence[Piece]]
"""Cuts a piece, or searches it with more work; returns none where more work would be the same."""


@dataclass(eq=False)
class Incumbent:
    """The best allocation so far: the least value, of equal values the one with the fewest arrays.

    value_of: the objective.
    """

    problem: Problem
    value_of: Callable[[Choice], float]
    value: float = math.inf
    best: Choice | None = None

    def propose(self, found: Choice) -> float:
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


def close_ranges(pieces: Iterable[Piece], parts: Divide, incumbent: Incumbent, stop: Work) -> float:
    """Return a value that no allocation in the pieces undercuts, searching until the best one meets it."""
    number = count()  # of equal bounds the piece that came first
    heap = [(each.bound, next(number), each) for each in pieces]
    heapq.heapify(heap)
    closed = math.inf
    while heap and stop.is_open(incumbent.value, min(closed, heap[0][0])):
        bound, _, first = heapq.heappop(heap)
        if bound > incumbent.value or math.isinf(bound):  # no piece left holds a better one
            return min(incumbent.value, closed)
        found = parts(first)
        if not found:
            closed = min(closed, bound)
        for part in found:
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
        """Propose an allocation with steps of at most `longest_ns`; return the lower bound proven."""
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
        per_copy = [problem.time.access_ns(stage, each.modes) for stage, each in enumerate(stages)]
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
            listed = [problem.time.compute_ns(i, each.modes) for i, each in enumerate(stages)]
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


@dataclass(frozen=True, eq=False)
class StepSearch:
    """Branch and bound over lengths of a step. cut: where a piece of them is cut."""

    lengths: StepLengths
    model: StepModel
    cut: Cut = geometric_mean

    @classmethod
    def of(cls, problem: Problem, model: StepModel, cut: Cut = geometric_mean) -> StepSearch:
        """Return the search over the steps of a problem."""
        return cls(StepLengths.of(problem), model, cut)

    def run(self, incumbent: Incumbent) -> float:
        """Search; return a value that no allocation undercuts."""
        return close_ranges(self.pieces(), self.parts, incumbent, self.model.stop)

    def pieces(self) -> list[Piece]:
        """Return the shortest step by itself, and all others in `STEP_RANGES` pieces of equal ratio."""
        shortest, longest = self.lengths.shortest, self.lengths.longest
        edges = [shortest]
        if longest > shortest * (1 + SAME_PRODUCT):
            edges = np.geomspace(shortest, longest, STEP_RANGES + 1).tolist()
        every = [self._piece(Piece(low, high)) for low, high in pairwise([0.0, *edges])]
        return [each for each in every if each is not None]

    def _piece(self, asked: Piece) -> Piece | None:
        """Return a piece that ends at the longest step in it, with its bound; None if it holds no step."""
        first, last = self.lengths.possible(asked.low, asked.high)
        if first > last * (1 + SAME_PRODUCT):
            return None
        if self.model.stop.out_of_time:  # no bound of its own
            return replace(asked, high=last)
        steps = max(int(asked.time), self.lengths.least_interval(last))
        bounds = [self.model.bound(relaxed, first, steps) for relaxed in self._relaxations(last)]
        return replace(asked, high=last, bound=max(*bounds, asked.bound)) if bounds else None

    def parts(self, piece: Piece) -> Sequence[Piece]:
        """Search a piece, then cut it in the middle; one that is too narrow is searched with more work."""
        first, last = self.lengths.possible(piece.low, piece.high)
        several = last > first * (_NARROWEST if self.lengths.are_sums else 1 + SAME_SUM)
        middle = self.cut(first, last) if several else None
        if piece.work and middle is not None:
            self.model.stop.charge(cost.STEP_PIECE)
            halves = self._piece(replace(piece, high=middle, work=0)), self._piece(replace(piece, low=middle))
            return [half for half in halves if half is not None]
        work = max(FIRST_WORK, 2 * piece.work)
        if piece.work and not self.model.stop.allows(work):
            return []
        found = [self.model.search(relaxed, first, last, work) for relaxed in self._relaxations(last)]
        bound, steps = (max(each) for each in zip(*found, (piece.bound, piece.time), strict=True))
        return [replace(piece, work=work, bound=bound, time=steps)]

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
                    relaxed.append(
                        replace(fed, demand=demand, storage=storage, once=None, budget=Cost(budget))
                    )
        return relaxed


class FasterThan(NamedTuple):
    """An allocation that takes little time, None for none, and a time that none within a limit undercuts."""

    choice: Choice | None
    bound: float


class LimitModel(Protocol):
    """Objective that rises with a limit, of arrays or of the interval, and with time."""

    def floor(self, first: int, last: int, time: float) -> float:
        """Return a bound of the objective at limits `first` to `last` if nothing takes less than `time`."""
        ...

    def fastest(self, limit: int, work: int) -> FasterThan:
        """Search for the least time within a limit, for `work` units of work, which are charged."""
        ...

    def update(self, found: Choice) -> None:
        """Propose an allocation, or a better one near it, to the incumbent."""
        ...


@dataclass(frozen=True, eq=False)
class LimitSearch:
    """Branch and bound over numbers of arrays, or of intervals."""

    model: LimitModel
    incumbent: Incumbent
    stop: Work

    def searched(self, low: int, high: int, work: int, time: float = 0.0) -> Piece:
        """Search for the least time within a limit; return what is above `low` and keeps to the limit.

        time: known of all allocations within the limit.
        """
        problem = self.incumbent.problem
        found, bound = self.model.fastest(high, work)
        if found is not None and problem.holds(found.copies, found.modes):
            self.model.update(found)
        return self._piece(low, high, work, max(bound, time))

    def _piece(self, low: int, high: int, work: int, time: float) -> Piece:
        return Piece(low, high, self.model.floor(low + 1, high, time), work, time)

    def parts(self, piece: Piece) -> Sequence[Piece]:
        """Cut a piece, or search it with more work if a better time would raise its bound more."""
        low, high = int(piece.low), int(piece.high)
        if self._is_wide(piece):
            middle = math.isqrt((low + 1) * high)
            middle = min(max(middle, low + 1), high - 1)
            below = self.searched(low, middle, FIRST_WORK_OF_LIMIT)
            return [below, self._piece(middle, high, piece.work, piece.time)]
        if not self.stop.allows(2 * piece.work):
            return []
        return [self.searched(low, high, 2 * piece.work, piece.time)]

    def _is_wide(self, piece: Piece) -> bool:
        """Return True if splitting the range can raise its bound more than searching it again."""
        if piece.high <= piece.low + 1:
            return False
        most = self.model.floor(int(piece.high), int(piece.high), piece.time)
        if most <= piece.bound * (1 + SAME_SUM):
            return False
        by_width, by_time = most - piece.bound, max(0.0, self.incumbent.value - most)
        return by_width >= by_time or piece.work >= DEFAULT_WORK


def step_time_of(problem: Problem) -> StepTime:
    """Return the step time of a problem. Raises ValueError if it has none."""
    if problem.step_time is None:
        raise ValueError("the problem has no step time")
    return problem.step_time
