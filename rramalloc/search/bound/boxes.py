"""Lower bound of the makespan by branch and bound over boxes of copies."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from rramalloc.ndarrays import Floats
from rramalloc.search import cost
from rramalloc.search.bound.lookups import Checkpoints, Reach, checkpoints, clock_of, reach
from rramalloc.search.kernels.clock import Clock
from rramalloc.search.kernels.prices import Pricing, ways_to_end
from rramalloc.search.kernels.propagate import Rules, Times, price_of
from rramalloc.search.kernels.refute import FOUND, REFUTED, UNDECIDED, LastBox, OpenBoxes, refute
from rramalloc.search.problem import Problem
from rramalloc.search.resources import Cost
from rramalloc.search.work import Work
from rramalloc.timing.simulate import Copies

_CACHED_STAGES = 200  # stages whose tables stay in the cache
_NODES_PER_SWEEP = 15
"""Nodes that take as long as one in which all prices are tried."""
_REFUTED_PART = 0.4  # of `root_seconds`, of a target that is refuted
_RESISTING_PART = 1.5  # the same of one that resists
_TIMES_OF_TARGET = 2  # propagations of times of a target without intervals
_TIMES_PER_ROOT = 4  # propagations of times in one of the widest box, for all prices together
_INTERVALS = 16  # intervals of copies of a stage, halved until the pairs of all edges fit
_MOST_PAIRS = 2**20  # pairs of intervals of all edges: bounds the time of a node
_HOPS = 4  # edges between two stages of a pair
_STAGES_TIMES_HOPS = 1000  # fewer hops in networks of many stages: pairs grow with both
_NO_TARGET = 2**62
_SECONDS_PER_LOOK = 0.1
"""Work of nodes before the clock is looked at."""
_SLOW_S = 0.01  # time of a node from which on a first bound is coarse
_COARSE = 9  # such a bound is exact to one part in 2**9

Box = tuple[Copies, Copies]


class Outcome(Enum):
    """Result of a search for an allocation that meets a target."""

    REFUTED = REFUTED
    FOUND = FOUND
    UNDECIDED = UNDECIDED


@dataclass(frozen=True, slots=True, eq=False)
class PropagatedBox:
    """A box after propagation: times of its stages, and least ticks from their finish to the end.

    price: number of the price per array that bound best, to begin with in parts of the box.
    """

    box: Box
    times: Times
    rest: Copies
    price: int


class WaysToEnd(NamedTuple):
    """Intervals of copies of every stage, as in Intervals, and least ticks and payments from the start of the
    stage to the end (ahead) and from its finish (after), its own payment left out: float64 (prices, stages,
    intervals).
    """

    low: Copies
    high: Copies
    size: Copies
    ahead: Floats
    after: Floats


@dataclass(eq=False)
class Bounder:
    """Asks of a problem whether any allocation meets a target makespan.

    intervals: pieces per stage for `cut_intervals`, a power of two; more cut deeper, slower;
    0: 16, or fewer where the graph has very many edges.
    Every answer holds under exact timing with handoff "next".
    Source: the rules in kernels/propagate.py and kernels/prices.py.
    """

    problem: Problem
    intervals: int = 0
    _tables: Checkpoints = field(init=False)
    _reach: Reach = field(init=False)
    _clock: Clock = field(init=False)
    _answers: dict[int, tuple[int, int]] = field(default_factory=dict, init=False)
    """For each number of intervals, the longest target refuted and the shortest that was not."""

    def __post_init__(self) -> None:
        self._clock = clock_of(self.problem.graph)
        self._tables = checkpoints(self.problem.graph)
        self._reach = reach(self.problem.graph, max(1, min(_HOPS, _STAGES_TIMES_HOPS // self._stages)))
        if not self.intervals:
            self.intervals = _INTERVALS
            while self.intervals > 1 and len(self._reach.producer) * self.intervals**2 > _MOST_PAIRS:
                self.intervals //= 2

    def with_budget(self, budget: int) -> Bounder:
        """Return the same bounder for fewer arrays; it shares what is known of the graph."""
        other = copy.copy(self)
        other._answers = {}
        other.problem = replace(self.problem, budget=Cost(budget))
        return other

    @property
    def _stages(self) -> int:
        return len(self.problem.demand)

    @property
    def _longest(self) -> int:
        """More than the makespan of the fewest copies."""
        graph = self.problem.graph
        each = graph.windows * graph.batch_ticks(self.problem.smallest)
        return int(each.sum() + graph.flat_binding.lag.sum()) + 1

    @property
    def node_seconds(self) -> float:
        """Estimated seconds per node, the same on every machine."""
        pairs = len(self._reach.producer) * self.intervals**2
        return self._times_seconds + cost.BOX_PAIR * pairs

    @property
    def _times_seconds(self) -> float:
        """The part of `node_seconds` that the times of windows take."""
        entries = self._tables.total + len(self._tables.user)
        beyond = max(0, self._stages - _CACHED_STAGES)
        return cost.BOX_ENTRY * entries + cost.BOX_STAGE_BEYOND * beyond

    @property
    def sweep_seconds(self) -> float:
        """As `node_seconds`, of a node in which all prices are tried."""
        return _NODES_PER_SWEEP * self.node_seconds

    @property
    def root_seconds(self) -> float:
        """As `node_seconds`, of the widest box: prices differ in what intervals say, hardly in times."""
        return self.sweep_seconds - (_NODES_PER_SWEEP - _TIMES_PER_ROOT) * self._times_seconds

    @property
    def widest(self) -> Box:
        """The box of all allocations within the budget."""
        return self.problem.smallest.copy(), self.problem.largest.copy()

    def box(self, target: int) -> Box | None:
        """Return the smallest box known to hold all allocations that meet the target; None if none does."""
        left = self.propagated(target, self.widest)
        return None if left is None else left.box

    def propagated(self, target: int, box: Box, near: int = -1) -> PropagatedBox | None:
        """Return the box after propagation; None if nothing in it meets the target.

        near: number of a price near which to look, -1 to try all.
        """
        return self._propagated(target, box, self.intervals, near)

    def _propagated(self, target: int, box: Box, intervals: int, near: int = -1) -> PropagatedBox | None:
        low, high = box[0].copy(), box[1].copy()
        times = Times.of(self._stages, self._tables.total)
        boxes = self.open_boxes((low, high), 0, near)
        outcome, _, price = self._ask(target, boxes, 0, low, times, intervals, (low, high))
        if outcome == REFUTED:
            return None
        return PropagatedBox((low, high), times, target - times.latest[self._tables.first[1:] - 1], price)

    def _rules(self, intervals: int) -> Rules:
        problem = self.problem
        return Rules(
            problem.graph.flat_binding,
            self._clock,
            self._reach,
            self._tables,
            problem.demand,
            problem.budget,
            intervals,
        )

    def price(self, target: int, number: int) -> float:
        """Return a price, in ticks per array, by its number."""
        return price_of(target, self.problem.budget, number)

    def ways_to_end(self, prices: Floats, left: PropagatedBox) -> WaysToEnd:
        """Return the least time from every stage of a box to the end, at prices in ticks per array."""
        pricing = Pricing.of(self._stages, len(self._reach.producer), self.intervals)
        pricing.rest[:] = left.rest
        ahead, after = np.empty((2, len(prices), self._stages, self.intervals))
        for number, price in enumerate(prices):
            ways_to_end(self._rules(self.intervals), price, *left.box, pricing)
            ahead[number], after[number] = pricing.ways.ahead, pricing.ways.after
        low, high, size = pricing.intervals[:3]
        return WaysToEnd(low, high, size, ahead, after)

    def latest(self, left: PropagatedBox, stage: int, windows: Copies) -> Copies:
        """Return the deadlines of windows of a stage with which a box can still meet its target."""
        points = self._tables.points[self._tables.first[stage] : self._tables.first[stage + 1]]
        after = np.searchsorted(points, windows)
        batches = (points[after] - windows) // left.box[1][stage]
        latest: Copies = left.times.latest[self._tables.first[stage] + after]
        least: Copies = batches * left.times.ticks[stage]
        return latest - least

    def ticks(self, stage: int, copies: Copies) -> Copies:
        """Return the ticks of a batch of a stage with each of these copies."""
        ticks: Copies = self._clock.of_each(np.full(len(copies), stage), copies)
        return ticks

    def root_bound(self, stop: Work, known: int = 1, makespan: int | None = None) -> int:
        """Return the smallest target that propagation does not refute, or a little less if a box takes long.

        stop: ends it with what is refuted by then; known: a lower bound; makespan: of an allocation that
        there is. Between them is where to look.
        """
        low = known
        high = self._longest if makespan is None else max(makespan, low)
        # Propagation without intervals is cheap and finds most of the bound; intervals raise it from there.
        low = self._least(low, high, 0, stop)
        stride = 1
        while low < high and not stop.out_of_time and self.refutes(min(low + stride, high) - 1, stop):
            low, stride = min(low + stride, high), 2 * stride
        return self._least(low, min(low + stride - 1, high), self.intervals, stop)

    def raised(self, known: int, makespan: int, near: int, stop: Work) -> tuple[int, int, int]:
        """Raise a bound from `known` to `makespan` at most by propagation: (bound, price, nodes).

        near: number of the price, -1 to find it; cheaper than `root_bound`, and now and then a little less.
        """
        low, high, stride, nodes = known, makespan, 1, 0
        while low < high and not stop.out_of_time:
            target = min(low + stride, high) - 1
            left = self._propagated(target, self.widest, self.intervals, near)
            nodes += 1 if near >= 0 else _NODES_PER_SWEEP
            if left is None:
                low, stride = target + 1, 2 * stride
                continue
            near, high = left.price, target
            # After the first target that resists, the strides become a bisection of what lies below it.
            stride = max(1, (high - low) // 2)
        return low, near, nodes

    def _least(self, low: int, high: int, intervals: int, stop: Work) -> int:
        """Return the smallest target in low ... high that is not refuted, `high` if all below it are."""
        while high - low > (low >> _COARSE if self.node_seconds >= _SLOW_S else 0) and not stop.out_of_time:
            middle = (low + high) // 2
            if self._refutes(middle, intervals, stop):
                low = middle + 1
            else:
                high = middle
        return low

    def refutes(self, target: int, stop: Work) -> bool:
        """Return True if propagation alone proves that no allocation meets a target."""
        return self._refutes(target, self.intervals, stop)

    def _refutes(self, target: int, intervals: int, stop: Work) -> bool:
        """Return True if propagation with these intervals empties the widest box; asked once."""
        refuted, resisting = self._answers.get(intervals, (0, _NO_TARGET))
        # Refutation is monotone in the target: a box that is empty for one is empty for all shorter ones.
        if refuted < target < resisting:
            if self._propagated(target, self.widest, intervals) is None:
                refuted = target
            else:
                resisting = target
            self._answers[intervals] = refuted, resisting
        is_refuted = target <= refuted
        # Charged each time: how much a search has left does not depend on what asked the same before it.
        part = _REFUTED_PART if is_refuted else _RESISTING_PART
        stop.charge(part * self.root_seconds if intervals else _TIMES_OF_TARGET * self._times_seconds)
        return is_refuted

    def decide(
        self, target: int, most_nodes: int, stop: Work, boxes: OpenBoxes | None = None
    ) -> tuple[Outcome, int, Copies]:
        """Search for an allocation that meets the target: outcome, nodes used, the allocation if found.

        stop: is charged for the nodes and a sweep, and ends it undecided; boxes: that hold every such
        allocation, None for the widest. They are written over with those that stay open.
        """
        most_nodes = max(1, most_nodes)
        found = np.ones(self._stages, dtype=np.int64)
        times = Times.of(self._stages, self._tables.total)
        # Depth first: the lower halves are looked at first, since they leave most of the budget.
        if boxes is None:
            boxes = self.open_boxes(self.widest, most_nodes)
        per_look, nodes, outcome = max(1, int(_SECONDS_PER_LOOK / self.node_seconds)), 0, UNDECIDED
        while outcome == UNDECIDED and nodes < most_nodes and not stop.out_of_time:
            some = min(per_look, most_nodes - nodes)
            outcome, used, _ = self._ask(target, boxes, some, found, times, self.intervals)
            nodes += used
            if used < some:
                break
        stop.charge(nodes * self.node_seconds + self.sweep_seconds)
        return Outcome(outcome), int(nodes), found

    def open_boxes(self, box: Box, most_nodes: int, near: int = -1) -> OpenBoxes:
        """Return a box to begin with, and room for so many nodes. near: as of `propagated`."""
        return OpenBoxes.of(self.problem.graph.windows, *box, near, most_nodes)

    def _ask(
        self,
        target: int,
        boxes: OpenBoxes,
        most_nodes: int,
        found: Copies,
        times: Times,
        intervals: int,
        box: Box | None = None,
    ) -> tuple[int, int, int]:
        """Call the kernel `refute` with the problem in its form and its working memory.

        box: written over with the last one.
        """
        rules = self._rules(intervals)
        low, high = box or (np.empty_like(found), np.empty_like(found))
        pricing = Pricing.of(self._stages, len(self._reach.producer), intervals)
        last = LastBox(low, high, found)
        outcome, nodes, price = refute(rules, target, most_nodes, last, boxes, times, pricing)
        return outcome, nodes, price


@lru_cache(maxsize=4)
def bounder_of(problem: Problem) -> Bounder:
    """Return the bounder of a problem: what a search has asked of it serves the check of its result."""
    return Bounder(problem)
