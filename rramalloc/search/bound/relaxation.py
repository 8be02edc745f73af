"""Linear relaxation of a box of allocations: all stages and all paths share the budget at once.

Every stage has a weight for each of its labels (intervals of copies), 1 in all. Waits, runs, tails and
arrays are linear in the weights, the latest end is minimised. The inequalities are those of kernels/cuts.py.

Source: docs/sources/model.md 4; a linear program solved by HiGHS, with cuts from transport duality.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from rramalloc.ndarrays import Floats, Ints
from rramalloc.search import cost
from rramalloc.search.bound.boxes import Box
from rramalloc.search.bound.lookups import Reach, clock_of, reach
from rramalloc.search.bound.path_program import PathProgram, RecentCuts, Row
from rramalloc.search.kernels import cuts
from rramalloc.search.kernels.clock import Clock
from rramalloc.search.kernels.prices import intervals_of
from rramalloc.search.problem import Problem
from rramalloc.search.work import Work
from rramalloc.timing.simulate import Copies

_LABELS = {"steps": 16, "ticks": 64}
"""Labels of a stage at most, a power of two: with own clocks batches differ in length, and few lose much."""
_HOPS = {"steps": 8, "ticks": 24}
"""Edges between two stages of a pair."""


class Labels(NamedTuple):
    """The intervals of copies into which the relaxation cuts every stage's box.

    Label m of stage i, m < size[i], stands for low[i, m] ... high[i, m] copies; int64 (stages, most).

    ticks[i, m]: of a batch of the fewest of them.
    """

    low: Ints
    high: Ints
    ticks: Ints
    size: Ints

    @classmethod
    def of(cls, windows: Copies, clock: Clock, box: Box, most: int) -> Labels:
        """Cut the box low ... high at breakpoints of ceil(windows / d), or evenly if there are too many."""
        stages = len(windows)
        lows, highs = np.ones((stages, most), dtype=np.int64), np.ones((stages, most), dtype=np.int64)
        count = np.zeros(stages, dtype=np.int64)
        intervals_of(windows, *box, lows, highs, count)
        return cls(lows, highs, clock.of_each(np.arange(stages)[:, None], lows), count)

    def lows(self, stage: int) -> Ints:
        """Return the fewest copies of every label of a stage."""
        fewest: Ints = self.low[stage, : self.size[stage]]
        return fewest

    def highs(self, stage: int) -> Ints:
        """Return the most copies of every label of a stage."""
        most: Ints = self.high[stage, : self.size[stage]]
        return most

    def lengths(self, stage: int) -> Ints:
        """Return the ticks of a batch of every label of a stage."""
        ticks: Ints = self.ticks[stage, : self.size[stage]]
        return ticks


@dataclass(frozen=True, slots=True, eq=False)
class Relaxed:
    """Result of the relaxation of a box and a target.

    bound: every allocation in the box whose makespan is at most the target takes at least so many ticks;
    box: the rest of the box that can meet the target, None if there is none; copies: their weighted means.
    """

    bound: float
    box: Box | None
    copies: Floats


@dataclass(frozen=True, slots=True, order=True)
class _Cut:
    """An inequality that can be asked for: its kind, the pair of Reach, and a window for a middle."""

    kind: str
    pair: int
    window: int = 0


@dataclass(eq=False)
class Relaxation:
    """Relaxations of the boxes of one problem; cuts that mattered are tried first the next time."""

    problem: Problem
    _useful: RecentCuts[_Cut] = field(default_factory=RecentCuts)

    def solve(self, box: Box, start: Copies, rest: Copies, target: int, stop: Work) -> Relaxed:
        """Bound the allocations of `box` whose makespan is at most `target`. Raises OutOfTime.

        start[i]: least start of stage i; rest[i]: least ticks from its finish to the end.
        """
        model = _Model(self, box, start, rest, target)
        rounds = model.run(stop)
        self._useful.solved(model.active(model.cuts))
        stop.charge(model.seconds(cost.PIVOT_ROW) + cost.SEPARATION_PAIR * rounds * len(self.consumer))
        return model.result()

    @cached_property
    def clock(self) -> Clock:
        """Ticks of a batch of every stage."""
        return clock_of(self.problem.graph)

    def labels(self, box: Box) -> Labels:
        """Return the labels of a box."""
        graph = self.problem.graph
        return Labels.of(graph.windows, self.clock, box, _LABELS[graph.unit])

    @cached_property
    def reach(self) -> Reach:
        """Pairs of stages that wait for each other."""
        graph = self.problem.graph
        return reach(graph, _HOPS[graph.unit])

    @cached_property
    def consumer(self) -> Ints:
        """Stage to which every pair belongs."""
        return np.repeat(np.arange(len(self.problem.demand)), np.diff(self.reach.pointer))

    @cached_property
    def corners(self) -> cuts.Corners:
        """For every pair the windows at the corners of its table's upper hull."""
        windows = self.problem.graph.windows
        room = np.empty(int(windows.max()), dtype=np.int64)
        parts, first = [], [0]
        for pair, consumer in enumerate(self.consumer):
            size = cuts.upper_hull(self.reach.need, self.reach.offset[pair], windows[consumer], room)
            parts.append(room[:size].copy())
            first.append(first[-1] + size)
        return cuts.Corners(
            np.array(first, dtype=np.int64), np.concatenate([*parts, np.zeros(1, dtype=np.int64)])
        )


class _Model(PathProgram):
    """The program of one box."""

    def __init__(self, owner: Relaxation, box: Box, start: Copies, rest: Copies, target: int) -> None:
        self.owner, problem = owner, owner.problem
        self.windows = problem.graph.windows
        labels = self.labels = owner.labels(box)
        super().__init__(labels.size, labels.low.shape[1], target, start)
        self.cuts: dict[int, _Cut] = {}
        stages = range(self.stages)
        runs = [-(-self.windows[i] // labels.highs(i)) * labels.lengths(i) for i in stages]
        self.begin(runs, [labels.lows(i) * problem.demand[i] for i in stages], problem.budget, rest)
        direct = np.flatnonzero(owner.reach.direct)
        first = {_Cut(kind, int(pair)) for pair in direct for kind in ("wait", "tail")}
        self._add([(cut, None) for cut in sorted(first | owner._useful.keys)])

    def _add(self, added: list[tuple[_Cut, tuple[Floats, Floats] | None]]) -> bool:
        rows: list[Row] = []
        for cut, potentials in added:
            row = self._row(cut, potentials)
            if row is not None:
                self.cuts[self.program.rows + len(rows)] = cut
                rows.append(row)
        self.program.add(rows)
        return bool(rows)

    def _row(self, cut: _Cut, potentials: tuple[Floats, Floats] | None) -> Row | None:
        wide, pair = self.owner.reach, cut.pair
        p, i, beyond = int(wide.producer[pair]), int(self.owner.consumer[pair]), int(wide.beyond[pair])
        feeding, using = self.labels.highs(p), self.labels.highs(i)
        feeding_ticks, using_ticks = self.labels.lengths(p), self.labels.lengths(i)
        if cut.kind == "tail":
            if wide.user[pair] < 0:
                return None
            left = np.maximum(1, -(-(self.windows[i] - wide.user[pair]) // using)) * using_ticks + beyond
            return self.inequality(self.stages + i, self.stages + p, [(i, left)])
        if cut.kind == "middle":
            need = int(wide.need[wide.offset[pair] + cut.window])
            before = (need // feeding + 1) * feeding_ticks + beyond
            after = ((self.windows[i] - 1 - cut.window) // using + 1) * using_ticks
            return self.inequality(self.stages + i, p, [(p, before), (i, after)])
        if potentials is not None:
            return self.inequality(i, p, [(p, potentials[0]), (i, potentials[1])])
        need = int(wide.need[wide.offset[pair] + self.labels.low[i, 0] - 1])
        wait = (need // feeding + 1) * feeding_ticks + beyond
        return self.inequality(i, p, [(p, wait)]) if need >= 0 else None

    def separate(self) -> bool:
        """Add the cuts that the present solution violates most; False if there are none."""
        owner, n, pairs, most = self.owner, self.stages, len(self.owner.consumer), self.width
        violated = cuts.Violations(
            wait=np.zeros(pairs),
            a=np.zeros((pairs, most)),
            b=np.zeros((pairs, most)),
            tail=np.zeros(pairs),
            middle=np.zeros(pairs),
            most=np.zeros(pairs, dtype=np.int64),
            cost=np.empty((most, most)),
        )
        cuts.separate(
            self.windows, owner.reach, owner.corners, self.labels, self.solution, self.target_ticks, violated
        )
        added: list[tuple[_Cut, tuple[Floats, Floats] | None]] = [
            (_Cut("wait", pair), (violated.a[pair], violated.b[pair]))
            for pair in self.worst(violated.wait, n)
        ]
        added += [(_Cut("tail", pair), None) for pair in self.worst(violated.tail, n)]
        added += [
            (_Cut("middle", pair, int(violated.most[pair])), None) for pair in self.worst(violated.middle, n)
        ]
        return self._add(added)

    def result(self) -> Relaxed:
        """Return the bound that the multipliers prove, and the labels that may still meet the target."""
        bound, kept = self.proven()
        copies = (self.solution.weights * self.labels.low).sum(axis=1)
        if not kept.any(axis=1).all():
            return Relaxed(bound, None, copies)
        stage = np.arange(self.stages)
        lowest, highest = kept.argmax(axis=1), kept.shape[1] - 1 - kept[:, ::-1].argmax(axis=1)
        box = self.labels.low[stage, lowest], self.labels.high[stage, highest]
        return Relaxed(bound, box, copies)
