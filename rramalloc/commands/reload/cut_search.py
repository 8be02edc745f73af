"""The cuts of a network into segments that are written and run one after another, searched with a bound.

The stages in canonical order are cut into segments. The time of a segment is bounded from below without a
search, by the wordlines that it writes and the arrays that its batches read; a search for its allocation
gives a time and a better bound. Dynamic programming over the cuts gives the least time of all segments that
were searched, and a bound of all cuts from the bounds of all segments. Searched next are segments of the plan
that would be fastest if those not searched yet were as fast as their bounds, of the plan with the smallest
bound, and of the best plan so far, with twice the work each time, until the bound reaches the best time or
the work is used up.

Source: docs/sources/model.md 13; the problem is that of COMPASS, arXiv 2501.06780, which searches cuts with a
genetic algorithm.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from rramalloc.allocation.check import recheck_bound
from rramalloc.allocation.optimize import Request, make_problem
from rramalloc.commands.reload.floors import SegmentFloors, Times
from rramalloc.commands.reload.loaded_run import LoadedRun
from rramalloc.commands.reload.segment import segment_network
from rramalloc.commands.reload.writing import Writing
from rramalloc.errors import BudgetError, PlacementError, TileError, UnsupportedError
from rramalloc.hardware.hardware import Hardware, Write
from rramalloc.mapping.demand import ModeArrays, demands
from rramalloc.network.network import Network
from rramalloc.search.objective import within
from rramalloc.search.problem import Candidate, Problem, Stop
from rramalloc.timing.clocks import timed_graph
from rramalloc.timing.stage_graph import StageGraph

_FIRST_WORK = 2
_TURNS = (0, 1, 0, 2)
"""Whose segment is searched in turn: 0 the plan that could be fastest, 1 that of least bound, 2 the best."""
_SECONDS_PER_SEGMENT = 0.01
"""Of making the problem of a segment."""

Cut = tuple[int, int]
"""Number of the first stage of a segment, and of the first one after it."""


@dataclass(eq=False)
class SearchedSegment:
    """A segment that was searched. bound_ns: of all its allocations; work: units of the last search."""

    objective: LoadedRun
    candidate: Candidate
    value_ns: float
    bound_ns: float
    work: int

    @property
    def open_ns(self) -> float:
        """Time that more work might save."""
        return self.value_ns - self.bound_ns


@dataclass(eq=False)
class CutSearch:
    """The cuts of one network.

    graph: of all its stages, with clocks that no segment is faster than once it is made; alone: the same with
    copies alone, where this one is over modes: what it found is tried here too;
    spent_s, plain_s: seconds of work, counted, and those for plain cuts and copies alone.
    """

    graph: StageGraph
    hardware: Hardware
    write: Write
    arrays: int
    request: Request
    stop: Stop
    inputs: int
    alone: CutSearch | None = None
    spent_s: float = 0.0
    plain_s: float = 0.0
    searched: dict[Cut, SearchedSegment] = field(default_factory=dict)

    def __post_init__(self) -> None:
        options, network = self.request.mapping, self.network
        self.graph = graph = timed_graph(network, self._alone_in_segments, options, graph=self.graph)
        demand = np.array(demands(network, graph.stages, self.hardware, options), dtype=np.int64)
        problem = Problem(graph, demand, max(int(demand.sum()), self.arrays))
        if options.mapping == "sdk":
            problem = replace(problem, modes=ModeArrays(network, graph.stages, self.hardware))
        writing = Writing(graph, self.hardware, self.write, options.mapping)
        self.bounds = SegmentFloors(problem, writing, self.arrays, self._step_ns, self.inputs).times()
        if not all(len(each) for each in self.bounds):
            raise AssertionError("layers that do not fit are cut before")
        self.values = [np.full(len(each), math.inf) for each in self.bounds]

    @property
    def _alone_in_segments(self) -> Hardware:
        """The hardware on which no stage is slower than in any segment: alone it has all of the bandwidth."""
        memory = self.hardware.memory
        if memory is None or memory.scope == "per_layer":
            return self.hardware
        alone = memory.model_copy(update={"scope": "per_layer"})
        return self.hardware.model_copy(update={"memory": alone})

    @property
    def _step_ns(self) -> float:
        """The shortest step of any stage, or a tick."""
        if self.hardware.own_clock:
            return self.hardware.tick_ns
        return min(self.hardware.of_layer(stage).compute_ns or 0.0 for stage in self.graph.stages)

    def run(self) -> None:
        """Search the segments of plain cuts, then those that decide the bound and the best plan in turn."""
        before = 0.0 if self.alone is None else self.alone.spent_s + self.alone.plain_s
        for cuts in (self.greedy, self.layers, self.alone.best if self.alone else []):
            for cut in cuts:
                self._search(cut, _FIRST_WORK)
        self.plain_s, self.spent_s = before + self.spent_s, 0.0
        for turn in itertools.count():
            best, least = shortest(self.values), shortest(self.bounds)
            if best.ns < math.inf:
                spent_s = self.plain_s + self.spent_s
                self.stop.report(spent_s, round(best.ns), math.floor(least.ns))
            if not self.stop.is_open(best.ns, least.ns, self.spent_s):
                return
            ways = (self._promising, partial(self._next, least.cuts), partial(self._next, best.cuts))
            chosen = ways[_TURNS[turn % len(_TURNS)]]() or next(filter(None, (way() for way in ways)), None)
            if chosen is None:
                return
            known = self.searched.get(chosen)
            self._search(chosen, _FIRST_WORK if known is None else 2 * known.work)

    def _promising(self) -> Cut | None:
        """A segment of the fastest plan there could be if those not searched were as fast as their bound."""
        times = [
            np.where(values < math.inf, values, bounds)
            for values, bounds in zip(self.values, self.bounds, strict=True)
        ]
        return next((cut for cut in shortest(times).cuts if cut not in self.searched), None)

    def _next(self, cuts: Sequence[Cut]) -> Cut | None:
        """Of the segments of a plan the first that was never searched, or the one whose bound is furthest
        below its time, if it may be searched with more work."""
        for cut in cuts:
            if cut not in self.searched:
                return cut
        open_ = [cut for cut in cuts if self.searched[cut].work < self.stop.work]
        furthest = max(open_, key=lambda cut: self.searched[cut].open_ns, default=None)
        return furthest if furthest and self.searched[furthest].open_ns > 0 else None

    @property
    def network(self) -> Network:
        """What is cut."""
        return self.graph.network

    @property
    def best_ns(self) -> float:
        """Time of the best plan."""
        return shortest(self.values).ns

    @property
    def bound_ns(self) -> float:
        """Time that no plan undercuts."""
        return shortest(self.bounds).ns

    @property
    def best(self) -> list[Cut]:
        """The segments of the best plan."""
        return shortest(self.values).cuts

    @property
    def greedy(self) -> list[Cut]:
        """As many stages as fit with one copy each, then the next ones."""
        cuts, first = [], 0
        while first < len(self.bounds):
            cuts.append((first, first + len(self.bounds[first])))
            first = cuts[-1][1]
        return cuts

    @property
    def layers(self) -> list[Cut]:
        """Each layer alone, with the digital nodes that follow it."""
        begin = [0, *(stage for stage in np.flatnonzero(self.graph.weighted).tolist() if stage)]
        if len(begin) > 1 and not self.graph.weighted[: begin[1]].any():
            begin.pop(1)
        return list(zip(begin, [*begin[1:], len(self.bounds)], strict=True))

    def total_ns(self, cuts: Sequence[Cut]) -> float:
        """Time of segments that were searched."""
        return sum(self.searched[cut].value_ns for cut in cuts)

    def _search(self, cut: Cut, work: int) -> None:
        """Search a segment with so many units of work; one that cannot be placed is never chosen again."""
        first, last = cut
        known = self.searched.get(cut)
        if known is not None and known.work >= work:
            return
        if known is None:
            try:
                objective = self.objective(cut)
            except (BudgetError, TileError, PlacementError, UnsupportedError):
                if last == first + 1 and self.graph.weighted[first]:
                    raise
                self.bounds[first][last - first - 1] = math.inf
                return
        else:
            objective = known.objective
        share = self.stop.nested(work, gap=0.0)
        candidate = objective.solve(share, self.request.seed)
        self.spent_s += (candidate.seconds or 0.0) + _SECONDS_PER_SEGMENT
        bound_ns = max(objective.bound(candidate, share), float(self.bounds[first][last - first - 1]))
        candidates = [candidate]
        if known is not None:
            candidates.append(known.candidate)
            bound_ns = max(bound_ns, known.bound_ns)
        elif self.alone is not None and cut in self.alone.searched:
            copies = self.alone.searched[cut].candidate
            candidates.append(objective.improved(replace(copies, blocks=objective.problem.graph.blocks)))
        values = [objective.value(objective.problem.timing(each)) for each in candidates]
        value_ns = min(values)
        candidate = candidates[values.index(value_ns)]
        bound_ns = within(value_ns, bound_ns)
        recheck_bound(value_ns, bound_ns, "ns", f"the search of a segment of {self.network.name[:60]!r}")
        self.searched[cut] = SearchedSegment(objective, candidate, value_ns, bound_ns, work)
        self.bounds[first][last - first - 1] = bound_ns
        self.values[first][last - first - 1] = value_ns

    def objective(self, cut: Cut) -> LoadedRun:
        """What a segment minimises. Raises BudgetError, TileError, PlacementError, UnsupportedError."""
        names, (first, last) = self.graph.names, cut
        name = f"{self.network.name}/{first + 1}-{last}"
        network = segment_network(self.network, set(names), names[first:last], name)
        problem = make_problem(network, self.hardware, self.arrays, self.request.mapping)
        writing = Writing(problem.graph, self.hardware, self.write, self.request.mapping.mapping)
        return LoadedRun(problem, writing, self.inputs)


class Way(NamedTuple):
    """Segments that hold all stages, and their time; none, and infinite, where there is no way."""

    ns: float
    cuts: list[Cut]


def shortest(times: Times) -> Way:
    """The way with the least time; times[a][b - a - 1]: of segment (a, b)."""
    n = len(times)
    least, before = np.full(n + 1, math.inf), np.zeros(n + 1, dtype=np.int64)
    least[0] = 0.0
    for first, each in enumerate(times):
        reached = least[first] + each
        ends = slice(first + 1, first + 1 + len(each))
        shorter = reached < least[ends]
        least[ends][shorter] = reached[shorter]
        before[ends][shorter] = first
    cuts, end = [], n
    while end and least[n] < math.inf:
        cuts.append((int(before[end]), end))
        end = int(before[end])
    return Way(float(least[n]), cuts[::-1])
