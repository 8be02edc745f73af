"""StepSearch: branch and bound over the length of a step, or over intervals, of a value that has a bound.

More copies take fewer steps but move more bytes per step: within a range of step lengths a stage has the
modes that the longest step can feed, and every step is at least as long as the shortest one that is possible
(docs/sources/model.md 7 and 8). With an interval no stage takes longer than that, and for every interval
there is a shortest step.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rramalloc.errors import BudgetError
from rramalloc.mapping.demand import Storage
from rramalloc.ndarrays import Floats, Ints
from rramalloc.rounding import SAME_PRODUCT, SAME_SUM
from rramalloc.search import cost
from rramalloc.search.descent import Descent
from rramalloc.search.menu import (
    Menu,
    StageModes,
    access_of_modes,
    all_modes,
    fed_by,
    shortest_step_ns,
    step_of_modes,
)
from rramalloc.search.problem import Choice, Problem
from rramalloc.search.ranges import Incumbent, Piece, close_ranges, step_time_of
from rramalloc.search.resources import Cost, Option, cheapest_options
from rramalloc.search.work import Work
from rramalloc.timing.access import StepTime

STEP_RANGES = 8
"""Ranges of step lengths to begin with; 4 and 16 took 5 % more work on AlexNet and VGG-16 with [memory]."""
FIRST_WORK = 4
"""Units of work of the first search in a range; each later one has twice as much."""
_NARROWEST = 1.0005
"""Ratio of longest to shortest step from which on step lengths that are sums over stages are not cut."""
_PARTS = 2**30
"""Parts in which bandwidth and arrays are counted where both limit the copies together."""
_DESCENT_SHARE = 0.1
"""Part of the work spent and planned that one descent may take."""


class StepBound(NamedTuple):
    """Bounds that a search has proven for some step lengths: of the objective, and of the steps."""

    value: float
    steps: int = 1


BoundOfRange = Callable[[Problem, float, float, int], float]
"""Called with a relaxed problem, the first and last value of a range, and steps that are taken at least."""
SearchOfRange = Callable[[Problem, float, float, int], StepBound]
"""Called with a relaxed problem, the first and last value of a range, and units of work."""


@dataclass(eq=False)
class StepSearch:
    """Branch and bound over ranges of the length of a step, or of the interval.

    value_of: objective of an allocation; bound_of: lower bound of it in a range, at little cost; search_of:
    proposes an allocation of a range to the incumbent, and returns the bounds that it has proven.
    """

    problem: Problem
    stop: Work
    ranges: StepLengths | IntervalRanges
    value_of: Callable[[Choice], float]
    bound_of: BoundOfRange
    search_of: SearchOfRange

    def __post_init__(self) -> None:
        self.incumbent = Incumbent(self.problem, self.value_of)
        self.descent = Descent(self.problem, Menu.of(self.problem), self.stop)

    def update(self, found: Choice) -> None:
        """Propose an allocation of a relaxed problem to the incumbent, and what a descent from it finds."""
        found = self.problem.choice(found.copies, found.modes)
        if self.problem.holds(found.copies, found.modes):
            self.descent.update(found, self.incumbent, _DESCENT_SHARE * self.stop.plan_s)

    def run(self) -> float:
        """Search; return a value that no allocation undercuts."""
        return close_ranges(self.pieces(), self.parts, self.incumbent, self.stop)

    def pieces(self) -> list[Piece]:
        """Return the pieces to begin with; of step lengths the first holds the shortest one alone."""
        every = [self._piece(Piece(low, high)) for low, high in pairwise([0.0, *self.ranges.edges()])]
        return [each for each in every if each is not None]

    def _piece(self, asked: Piece) -> Piece | None:
        """Return a piece that ends at the last value in it, with its bound; None if it holds none."""
        first, last = self.ranges.possible(asked.low, asked.high)
        if first > last * (1 + SAME_PRODUCT):
            return None
        if self.stop.out_of_time:  # no bound of its own
            return replace(asked, high=last)
        steps = max(int(asked.time), self.ranges.least_steps(last))
        bounds = [self.bound_of(relaxed, first, last, steps) for relaxed in self.ranges.relaxations(last)]
        return replace(asked, high=last, bound=max(*bounds, asked.bound)) if bounds else None

    def parts(self, piece: Piece) -> Sequence[Piece]:
        """Search a piece, then cut it in the middle; one that is too narrow is searched with more work."""
        first, last = self.ranges.possible(piece.low, piece.high)
        middle = self.ranges.middle(first, last)
        if middle is not None and (piece.work or self.ranges.is_listed):
            self.stop.charge(0.0 if self.ranges.is_listed else cost.STEP_PIECE)
            halves = self._piece(replace(piece, high=middle, work=0)), self._piece(replace(piece, low=middle))
            return [half for half in halves if half is not None]
        work = max(FIRST_WORK, 2 * piece.work)
        if piece.work and (self.ranges.is_listed or not self.stop.allows(work)):
            return []
        found = [self.search_of(relaxed, first, last, work) for relaxed in self.ranges.relaxations(last)]
        bound, steps = (max(each) for each in zip(*found, (piece.bound, piece.time), strict=True))
        return [replace(piece, work=work, bound=bound, time=steps)]


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


def geometric_mean(shortest_ns: float, longest_ns: float) -> float | None:
    """Return sqrt(shortest * longest)."""
    return math.sqrt(shortest_ns * longest_ns)


@dataclass(eq=False)
class StepLengths:
    """The lengths that a step of a problem can have.

    per_copy, least, most: of every block of every stage, the access time of a copy and its copies;
    stages: modes of each by length, where the step is the sum of their access; cut: where a range is cut.
    """

    problem: Problem
    step_time: StepTime
    per_copy: Floats
    least: Ints
    most: Ints
    shortest: float
    longest: float
    stages: tuple[ByLength, ...] = ()
    cut: Callable[[float, float], float | None] = geometric_mean
    is_listed = False
    """Ranges are searched before they are cut, and again with more work where they cannot be."""

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

    def edges(self) -> list[float]:
        """Return the shortest step, and the ends of `STEP_RANGES` ranges of equal ratio of all others."""
        if self.longest <= self.shortest * (1 + SAME_PRODUCT):
            return [self.shortest]
        edges: list[float] = np.geomspace(self.shortest, self.longest, STEP_RANGES + 1).tolist()
        return edges

    def middle(self, first: float, last: float) -> float | None:
        """Return where a range is cut, None where it is too narrow or halves of it would be as the whole."""
        several = last > first * (_NARROWEST if self.are_sums else 1 + SAME_SUM)
        return self.cut(first, last) if several else None

    def least_steps(self, last: float) -> int:
        """Return an interval that no allocation whose step is at most `last` ns undercuts."""
        longest = max((int(stage.length[-1]) for stage in self.stages), default=1)
        most_ns = last * (1 + SAME_PRODUCT)

        def reaches(steps: int) -> bool:
            return sum(stage.least_ns(steps) for stage in self.stages) <= most_ns

        return 1 + bisect_left(range(1, longest), True, key=reaches)

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

    def relaxations(self, last: float) -> Sequence[Problem]:
        """Return problems that hold every allocation within the budget whose step is at most `last` ns.

        Each stage alone may have the modes that such a step can feed. With a shared bandwidth the sum counts
        too: for copies alone as a budget of its own, and added to the arrays, each in parts of what there is.
        """
        problem, step_time = self.problem, self.step_time
        try:
            fed = fed_by(problem, last)
        except BudgetError:  # no allocation has so short a step
            return []
        relaxed = [fed]
        if step_time.shared and problem.one_block:
            bandwidth = step_time.access_ns_per_copy / last * (1 - SAME_PRODUCT)
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


@dataclass(eq=False)
class IntervalRanges:
    """The intervals that allocations of a problem can have, which a StepSearch cuts.

    most_ns: of interval * step, whose intervals with even the shortest step are longer are left out.
    """

    problem: Problem
    most_ns: float = math.inf
    is_listed = True
    """Each interval is searched alone, once and to the end."""

    def __post_init__(self) -> None:
        self.menu = Menu.of(self.problem)

    @cached_property
    def lengths(self) -> Ints:
        """Every length of a stage that can be the interval, the shortest first."""
        every = self.menu.intervals(self.problem)
        return every[every * step_time_of(self.problem).compute_ns <= self.most_ns]

    @cached_property
    def access_ns(self) -> list[Floats]:
        """Access of every mode of every stage, or the step that it needs where the memory is its own."""
        needed = access_of_modes if step_time_of(self.problem).shared else step_of_modes
        return [needed(self.problem, i, own) for i, own in enumerate(self.menu.stages)]

    @cached_property
    def _stages(self) -> list[ByLength]:
        return [ByLength.of(*each) for each in zip(self.menu.stages, self.access_ns, strict=True)]

    def edges(self) -> list[float]:
        """Return the longest interval, none where there is none."""
        return [float(length) for length in self.lengths[-1:]]

    def possible(self, low: float, high: float) -> tuple[float, float]:
        """Return the shortest and the longest interval above `low` and up to `high`."""
        held = self.lengths[(self.lengths > low) & (self.lengths <= high)]
        return (float(held[0]), float(held[-1])) if len(held) else (math.inf, 0.0)

    def middle(self, first: float, last: float) -> float | None:
        """Return the interval in the middle of all from a first to a last one, None of a single one."""
        held = self.lengths[(self.lengths >= first) & (self.lengths <= last)]
        return float(held[(len(held) - 1) // 2]) if len(held) > 1 else None

    def least_steps(self, last: float) -> int:
        """Return 1: the interval itself is what is cut."""
        return 1

    def relaxations(self, last: float) -> Sequence[Problem]:
        """Return the problem itself, whose modes are looked up by their length."""
        return (self.problem,)

    def shortest_step_ns(self, longest: float) -> float:
        """Return a step length that no allocation with such an interval undercuts, whatever its arrays."""
        step_time = step_time_of(self.problem)
        each = [stage.least_ns(int(longest)) for stage in self._stages]
        return max(step_time.compute_ns, float(sum(each)) if step_time.shared else max(each))

    def fewest(self, longest: float, step_ns: float) -> tuple[Choice | None, float]:
        """Return the modes with the least cost within a length and an access, and a bound of that cost.

        All stages together keep to every limit. None, and infinity, where none do.
        """
        options, every, axes = list[list[Option]](), list[list[int]](), self.problem.resources.axes
        for own, access_ns in zip(self.menu.stages, self.access_ns, strict=True):
            rows = np.flatnonzero((own.length <= longest) & (access_ns <= step_ns))
            order = rows[np.lexsort((own.length[rows], access_ns[rows], own.arrays[rows]))]
            pairs = np.stack([own.each.kind[order], own.each.sensitivity[order]], axis=1)
            best = order[np.sort(np.unique(pairs, axis=0, return_index=True)[1])].tolist()
            every.append(best)
            options.append(own.options(best, axes))
        chosen, least = cheapest_options(options, axes)
        if not chosen:
            return None, least if least < 2**60 else math.inf
        rows_of_stages = [some[at] for some, at in zip(every, chosen, strict=True)]
        taken = list(zip(self.menu.stages, rows_of_stages, strict=True))
        copies = np.array([int(own.low[row]) for own, row in taken])
        return self.problem.choice(copies, tuple(own.mode(row) for own, row in taken)), least
