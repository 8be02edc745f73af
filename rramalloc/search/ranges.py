"""Branch and bound over ranges of arrays, of limits, or of step lengths (`step_search`).

A range has a bound of the objective for every allocation in it. The range with the smallest bound is cut, or
searched with more work, until the bounds of all reach the best allocation, or the work is used up.

More arrays take less time, but leak more and take longer to write: an allocation in a range of arrays has at
least its fewest arrays, and is not faster than the bound of the time with its most arrays
(docs/sources/model.md 8, 12 and 13).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple, Protocol

from rramalloc.choices import DEFAULT_WORK
from rramalloc.rounding import SAME_PRODUCT, SAME_SUM
from rramalloc.search.problem import Answer, Choice, Problem
from rramalloc.search.work import Work
from rramalloc.timing.access import StepTime

FIRST_WORK_OF_LIMIT = 2
"""Units of work of the first search in a range of arrays or intervals, twice as many in each later one."""


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
