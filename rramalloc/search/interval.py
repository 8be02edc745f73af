"""The smallest interval between streaming inputs, times the length of a step where that depends on the modes.

With an interval no stage takes longer than that. For every interval there is a shortest step: of the modes
that are short enough those with the least memory access that the budget allows. Ranges of intervals are cut
until the bounds of all reach the best product, so the result is exact (docs/sources/model.md 8).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from typing_extensions import override

from rramalloc.errors import BudgetError
from rramalloc.ndarrays import Floats, Ints
from rramalloc.rounding import SAME_PRODUCT
from rramalloc.search import cost
from rramalloc.search.menu import (
    Menu,
    access_of_modes,
    all_modes,
    copies_alone,
    fed_by,
    limited_to,
    step_of_modes,
)
from rramalloc.search.problem import Answer, Choice, Problem
from rramalloc.search.ranges import ByLength, Incumbent, Piece, close_ranges, step_time_of
from rramalloc.search.resources import Cost, Option, cheapest_options
from rramalloc.search.sequential import least_access
from rramalloc.search.work import Work
from rramalloc.timing.simulate import Copies


@dataclass(eq=False)
class IntervalSearch:
    """The intervals that allocations of a problem can have, and the search for the shortest step with one."""

    problem: Problem
    incumbent: Incumbent
    stop: Work

    def __post_init__(self) -> None:
        self.menu = Menu.of(self.problem)

    @cached_property
    def lengths(self) -> Ints:
        """Every length of a stage that can be the interval, the shortest first."""
        return self.menu.intervals(self.problem)

    @cached_property
    def _access_ns(self) -> list[Floats]:
        """Access of every mode of every stage, or the step that it needs where the memory is its own."""
        needed = access_of_modes if step_time_of(self.problem).shared else step_of_modes
        return [needed(self.problem, i, own) for i, own in enumerate(self.menu.stages)]

    @cached_property
    def _stages(self) -> list[ByLength]:
        return [ByLength.of(*each) for each in zip(self.menu.stages, self._access_ns, strict=True)]

    def run(self) -> float:
        """Search the intervals, which pieces have by their numbers; return a value that none undercuts."""
        pieces = [self._piece(-1, len(self.lengths) - 1)] if len(self.lengths) else []
        return close_ranges(pieces, self._parts, self.incumbent, self.stop)

    def _piece(self, low: int, high: int) -> Piece:
        return Piece(low, high, self.floor(int(self.lengths[low + 1]), int(self.lengths[high])))

    def _parts(self, piece: Piece) -> Sequence[Piece]:
        """Return the halves of a piece, or a single interval that is worked out, once."""
        low, high = int(piece.low), int(piece.high)
        if math.isinf(piece.bound):  # no allocation is in it
            return []
        if low + 1 < high:
            middle = (low + 1 + high) // 2
            return [self._piece(low, middle), self._piece(middle, high)]
        worked_out = self.work_out(int(self.lengths[high]))
        return [] if worked_out <= piece.bound else [replace(piece, bound=worked_out)]

    def floor(self, first: int, last: int) -> float:
        """Return a value that no allocation with an interval from `first` to `last` undercuts."""
        return first * self.shortest_step_ns(last)

    def work_out(self, length: int) -> float:
        """Propose the best allocation with an interval; return a lower bound of all with that interval."""
        return length * self.search(length)

    def shortest_step_ns(self, longest: int) -> float:
        """Return a step length that no allocation with such an interval undercuts, whatever its arrays."""
        step_time = step_time_of(self.problem)
        each = [stage.least_ns(longest) for stage in self._stages]
        return max(step_time.compute_ns, float(sum(each)) if step_time.shared else max(each))

    def search(self, longest: int) -> float:
        """Propose the allocation with the shortest step for an interval; return a lower bound of its step."""
        self.stop.charge(cost.INTERVAL_STAGE * len(self.problem.demand))
        cheapest = self.menu.choice(self.problem, self.menu.cheapest(longest)[0])
        self.incumbent.propose(cheapest)
        least_ns = self.shortest_step_ns(longest)
        if self.incumbent.value <= longest * least_ns * (1 + SAME_PRODUCT):  # the bound is attained
            return least_ns
        limited = limited_to(self.problem, longest)
        if step_time_of(self.problem).shared:
            fed = least_access(limited, self.stop.nested(self.stop.work))
            self.incumbent.propose(fed.choice)
            return max(least_ns, fed.lower_bound)
        return max(least_ns, self._least_longest_access(limited, least_ns))

    def _least_longest_access(self, problem: Problem, least_ns: float) -> float:
        """Return the shortest step whose modes fit the budget, by bisection over all that there are."""
        per_stage = all_modes(problem)
        every = [step_of_modes(problem, stage, each) for stage, each in enumerate(per_stage)]
        steps = np.unique(np.maximum(np.concatenate(every), least_ns))
        low, high = 0, len(steps) - 1
        while low < high:
            middle = (low + high) // 2
            try:
                fed = fed_by(problem, float(steps[middle]))
            except BudgetError:
                low = middle + 1
                continue
            high = middle
            menu = Menu.of(fed)
            self.incumbent.propose(menu.choice(fed, menu.cheapest(2**60)[0]))
        return float(steps[low])


@dataclass(eq=False)
class ArraysForInterval(IntervalSearch):
    """The fewest arrays with which interval * step_ns is at most a target, stage by stage.

    For every interval the target is a longest step. Where all stages share the bandwidth their access sums
    up to a step: over modes that is a knapsack for each number of arrays.
    """

    target_ns: float = math.inf

    @cached_property
    def lengths(self) -> Ints:
        """Every length of a stage that can be the interval and meets the target with the shortest step."""
        own = self.menu.intervals(self.problem)
        return own[own * step_time_of(self.problem).compute_ns <= self._most_ns]

    @property
    def _most_ns(self) -> float:
        return self.target_ns * (1 + SAME_PRODUCT)

    def value(self, found: Choice) -> float:
        """Return the arrays of an allocation, infinity where its interval is too long."""
        interval = self.problem.time.interval(found.copies, found.modes)
        step_ns = self.problem.time.step_ns(found.copies, found.modes)
        return found.arrays if interval * step_ns <= self._most_ns else math.inf

    @override
    def floor(self, first: int, last: int) -> float:
        if first * self.shortest_step_ns(last) > self._most_ns:
            return math.inf
        return self._fewest(last, self._most_ns / first)[1]

    @override
    def work_out(self, length: int) -> float:
        self.stop.charge(cost.INTERVAL_STAGE * len(self.menu.stages))
        rows, fewest = self._fewest(length, self._most_ns / length)
        if not rows:
            return fewest
        blocks = tuple(own.mode(row) for own, row in zip(self.menu.stages, rows, strict=True))
        copies = [int(own.low[row]) for own, row in zip(self.menu.stages, rows, strict=True)]
        found = self.problem.choice(np.array(copies), blocks)
        self.incumbent.propose(found)
        if math.isfinite(self.value(found)):  # of copies alone always: the fewest have the least access too
            return fewest
        low, high = int(fewest), self.problem.budget + 1
        while low < high:
            middle = (low + high) // 2
            fitting = limited_to(replace(self.problem, budget=Cost(middle)), length)
            share = self.stop.nested(self.stop.work)
            least = least_access(fitting, share)
            self.stop.charge(share.spent_s)
            self.incumbent.propose(least.choice)
            if least.lower_bound * length > self._most_ns:
                low = middle + 1
            else:
                high = middle
        return low if low <= self.problem.budget else math.inf

    def _fewest(self, longest: int, step_ns: float) -> tuple[list[int], float]:
        """Return the entry of every stage with the least cost within a length and an access, and its bound.

        All stages together keep to every limit. No entries, and infinity, where none do.
        """
        options, every, axes = list[list[Option]](), list[list[int]](), self.problem.resources.axes
        for own, access_ns in zip(self.menu.stages, self._access_ns, strict=True):
            rows = np.flatnonzero((own.length <= longest) & (access_ns <= step_ns))
            order = rows[np.lexsort((own.length[rows], access_ns[rows], own.arrays[rows]))]
            pairs = np.stack([own.each.kind[order], own.each.sensitivity[order]], axis=1)
            best = order[np.sort(np.unique(pairs, axis=0, return_index=True)[1])].tolist()
            every.append(best)
            options.append(own.options(best, axes))
        chosen, fewest = cheapest_options(options, axes)
        entries = [some[at] for some, at in zip(every, chosen, strict=True)] if chosen else []
        return entries, fewest if fewest < 2**60 else math.inf


def fewest_arrays(problem: Problem, stop: Work, target_ns: float) -> tuple[Answer | None, bool]:
    """Return the fewest arrays whose interval * step_ns is at most a target; None where none was found.

    Its bound is of the arrays. The second value says whether that is proven.
    """
    intervals = ArraysForInterval(problem, Incumbent(problem, lambda _: math.inf), stop, target_ns)
    incumbent = intervals.incumbent = Incumbent(problem, intervals.value)
    bound = intervals.run()
    if incumbent.best is None:
        return None, math.isinf(bound)
    least = min(math.ceil(bound * (1 - SAME_PRODUCT)), incumbent.best.arrays)
    words = fewest_words(least, incumbent.best.arrays, f"an interval of {target_ns:.10g} ns")
    return incumbent.answer(words, least), least == incumbent.best.arrays


def fewest_words(least: int, found: int, target: str) -> str:
    """Return the proof of the fewest arrays in words."""
    end = ", so this is the fewest" if least >= found else ""
    return f"at least {least} arrays are needed for {target}{end}"


def least_product(problem: Problem, stop: Work) -> tuple[Incumbent, float]:
    """Return the allocation with the smallest interval * step_ns, and a bound of that product."""

    def product(found: Choice) -> float:
        return problem.time.interval(found.copies, found.modes) * problem.time.step_ns(
            found.copies, found.modes
        )

    incumbent = Incumbent(problem, product)
    return incumbent, IntervalSearch(problem, incumbent, stop).run()


def even_copies(problem: Problem) -> Copies:
    """Return the fewest copies of the graph's blocks that reach the smallest interval."""
    found = copies_alone(problem)
    if found is None:
        return problem.smallest
    alone, menu = found
    copies: Copies = menu.cheapest(menu.smallest_interval(alone))[0].copies
    return copies


def solve(problem: Problem, stop: Work, seed: int) -> Answer:  # noqa: ARG001
    """Return the fewest copies with the smallest interval, which is a lower bound of the makespan too."""
    copies = even_copies(problem)
    bound = Menu.of(problem).smallest_interval(problem)
    words = "interval: with this budget some stage needs that many batches"
    looks = int(problem.graph.windows.max()).bit_length()
    stop.charge(cost.INTERVAL_STAGE * looks * len(copies))
    return Answer(problem.choice(copies), bound, words)
