"""Linear relaxation of a box of allocations: all stages and all paths share the budget at once.

Every stage has a weight for each of its labels (intervals of copies), 1 in all. Waits, runs, tails and
arrays are linear in the weights, the latest end is minimised. Of the inequalities in kernels/cuts.py few
matter, so they join as they are violated. The bound is computed anew from the multipliers
that the solver returns, and holds whatever they are.

Source: docs/sources/model.md 4; a linear program solved by HiGHS, with cuts from transport duality.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import highspy
import numpy as np
import numpy.typing as npt

from rramalloc.search.bound import Box
from rramalloc.search.kernels import cuts
from rramalloc.search.kernels.clock import Clock
from rramalloc.search.kernels.prices import intervals_of
from rramalloc.search.lookups import Reach, Whole, clock_of, reach
from rramalloc.search.problem import Problem
from rramalloc.timing.simulate import Replication
from rramalloc.timing.stage_graph import EXACTLY

Floats = npt.NDArray[np.float64]
Row = tuple[npt.NDArray[Any], npt.NDArray[Any], float]
"""Columns, coefficients and right-hand side: coefficients @ columns >= right-hand side."""

_STEPS, _TICKS = (16, 8), (64, 24)
"""Labels of a stage at most, a power of two, and edges between two stages of a pair: where all stages step
together, and with own clocks, where few labels lose much since batches differ in length."""
_ROUNDS = 12
_VIOLATION = 0.02
_MEMORY = 30
"""Solutions after which a cut that no longer matters is forgotten."""
_WORTHWHILE = 0.02
"""Steps by which another round of cuts must raise the bound."""
_SECONDS_PER_ROW, _SECONDS_PER_PAIR, _NS_PER_PIVOT_AND_ROW = 2e-5, 3e-6, 30.0
_MOST_PIVOTS = 50_000
MARGIN, _UNIT_BITS = 1e-6, 16
"""Of bounds, in units of the relaxation, and bits of a target counted in them."""
_PIVOTS_PER_CALL = 20
"""Pivots that take as long as a call of the solver."""


def unit_of(target: int) -> float:
    """Ticks in which a relaxation counts: a power of two, so that its numbers stay small and exact."""
    return 2.0 ** max(0, target.bit_length() - _UNIT_BITS)


class LinearProgram:
    """Minimise cost @ v over lower <= v <= upper and the rows added so far."""

    def __init__(self, cost: Floats, lower: Floats, upper: Floats) -> None:
        self.cost, self.lower, self.upper = cost, lower, upper
        self.effort = 0.0
        """Pivots times rows, summed: the work done, whatever the machine."""
        self.solution = np.zeros(len(cost))
        self.multipliers = np.zeros(0)
        self._columns: list[npt.NDArray[np.int32]] = []
        self._coefficients: list[Floats] = []
        self._right: list[Floats] = []
        self._lengths: list[int] = []
        self._equal = 0
        self._solver = highspy.Highs()
        for option, setting in (
            ("output_flag", False), ("threads", 1), ("solver", "simplex"), ("presolve", "off"),
            ("simplex_iteration_limit", _MOST_PIVOTS),
        ):  # fmt: skip
            self._solver.setOptionValue(option, setting)
        self._solver.addVars(len(cost), lower, upper)
        self._solver.changeColsCost(len(cost), np.arange(len(cost), dtype=np.int32), cost)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self._lengths)

    def add(self, rows: Sequence[Row], *, equal: bool = False) -> None:
        """Add rows; equations, which must come first, with `equal`."""
        if not rows:
            return
        lengths = [len(row[0]) for row in rows]
        starts = np.concatenate(([0], np.cumsum(lengths)[:-1])).astype(np.int32)
        columns = np.concatenate([row[0] for row in rows]).astype(np.int32)
        coefficients = np.concatenate([row[1] for row in rows]).astype(np.float64)
        right = np.array([row[2] for row in rows], dtype=np.float64)
        above = right if equal else np.full(len(rows), np.inf)
        self._solver.addRows(len(rows), right, above, len(columns), starts, columns, coefficients)
        self._equal += len(rows) if equal else 0
        self._columns.append(columns)
        self._coefficients.append(coefficients)
        self._right.append(right)
        self._lengths += lengths

    def solve(self) -> float:
        """Solve from the last basis; the minimum, or -inf if the solver gave up."""
        self._solver.run()
        info = self._solver.getInfo()
        self.effort += float((max(0, info.simplex_iteration_count) + _PIVOTS_PER_CALL) * self.rows)
        solution = self._solver.getSolution()
        self.solution = np.array(solution.col_value, dtype=np.float64)
        self.multipliers = np.array(solution.row_dual, dtype=np.float64)
        optimal = self._solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
        return float(info.objective_function_value) if optimal else -np.inf

    def dual(self, limit: Floats) -> tuple[float, Floats]:
        """(base, reduced costs): what the multipliers prove, whatever their quality.

        Every v that keeps the rows that are not equations has cost @ v >= base + reduced[k:] @ v[k:] with
        k = len(limit), if lower[:k] <= v[:k] <= limit. Negative multipliers count as 0, those of equations
        too.
        """
        multipliers = np.maximum(self.multipliers, 0.0)
        multipliers[: self._equal] = 0.0
        products = np.concatenate(self._coefficients) * np.repeat(multipliers, self._lengths)
        reduced = self.cost - np.bincount(np.concatenate(self._columns), products, len(self.cost))
        k = len(limit)
        corners = np.minimum(reduced[:k] * self.lower[:k], reduced[:k] * limit)
        return float(multipliers @ np.concatenate(self._right)) + float(corners.sum()), reduced


class Labels(NamedTuple):
    """The intervals of copies into which the relaxation cuts every stage's box.

    Label m of stage i, m < size[i], stands for low[i, m] ... high[i, m] copies; int64 (stages, most)

    ticks[i, m]: of a batch of the fewest of them; first[i]: number of labels of the stages before i, so that
    all weights form one vector.
    """

    low: Whole
    high: Whole
    ticks: Whole
    size: Whole
    first: Whole

    @classmethod
    def of(cls, windows: Replication, clock: Clock, box: Box, most: int) -> Labels:
        """Cut the box low ... high at breakpoints of ceil(windows / d), or evenly if there are too many."""
        stages = len(windows)
        lows, highs = np.ones((stages, most), dtype=np.int64), np.ones((stages, most), dtype=np.int64)
        count = np.zeros(stages, dtype=np.int64)
        intervals_of(windows, *box, lows, highs, count)
        access = np.ceil(clock.per_copy[:, None] * lows * EXACTLY).astype(np.int64)
        ticks = np.maximum(clock.least[:, None], access)
        return cls(lows, highs, ticks, count, np.concatenate(([0], np.cumsum(count))))

    @property
    def total(self) -> int:
        """Number of labels of all stages."""
        return int(self.first[-1])

    def weights(self, stage: int) -> Whole:
        """Numbers of the weights of a stage."""
        return np.arange(self.first[stage], self.first[stage + 1])

    def lows(self, stage: int) -> Whole:
        """Fewest copies of every label of a stage."""
        fewest: Whole = self.low[stage, : self.size[stage]]
        return fewest

    def highs(self, stage: int) -> Whole:
        """Most copies of every label of a stage."""
        most: Whole = self.high[stage, : self.size[stage]]
        return most

    def lengths(self, stage: int) -> Whole:
        """Ticks of a batch of every label of a stage."""
        ticks: Whole = self.ticks[stage, : self.size[stage]]
        return ticks

    def square(self, weights: Floats) -> Floats:
        """The vector of all weights as (stages, most), 0 where a stage has no such label."""
        table = np.zeros(self.low.shape)
        table[np.arange(self.low.shape[1]) < self.size[:, None]] = weights
        return table


@dataclass(frozen=True, slots=True, eq=False)
class Relaxed:
    """What the relaxation says of a box and a target.

    bound: every allocation in the box whose makespan is at most the target takes at least so many ticks;
    box: the rest of the box that can meet the target, None if there is none; copies: their weighted
    means; seconds: of a reference core, counted.
    """

    bound: float
    box: Box | None
    copies: Floats
    seconds: float


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
    _useful: dict[_Cut, int] = field(default_factory=dict)
    _solved: int = 0

    def solve(self, box: Box, start: Replication, rest: Replication, target: int) -> Relaxed:
        """Bound the allocations of `box` whose makespan is at most `target`.

        start[i]: least start of stage i; rest[i]: least ticks from its finish to the end.
        """
        model = _Model(self, box, start, rest, target)
        rounds, value = 0, -np.inf
        while True:
            reached = model.program.solve()
            rounds += 1
            enough = reached > model.target + 0.5 or reached - value < _WORTHWHILE
            if rounds == _ROUNDS or enough or not model.separate():
                break
            value = reached
        self._solved += 1
        self._useful.update(dict.fromkeys(model.active(), self._solved))
        oldest = self._solved - _MEMORY
        self._useful = {cut: last for cut, last in self._useful.items() if last > oldest}
        return model.result(rounds)

    @property
    def effort(self) -> tuple[int, int]:
        """Labels of a stage, and edges between the stages of a pair, at most."""
        return _STEPS if self.problem.graph.clocks is None else _TICKS

    @cached_property
    def reach(self) -> Reach:
        """Pairs of stages that wait for each other."""
        return reach(self.problem.graph, self.effort[1])

    @cached_property
    def consumer(self) -> Whole:
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


class _Model:
    """The program of one box: its variables are start and finish of every stage, the end, the weights.

    Times are counted in units of `unit` ticks.
    """

    def __init__(
        self, owner: Relaxation, box: Box, start: Replication, rest: Replication, target: int
    ) -> None:
        self.unit = unit_of(target)
        self.owner, self.target = owner, target / self.unit
        self.windows = owner.problem.graph.windows
        self.labels = Labels.of(self.windows, clock_of(owner.problem.graph), box, owner.effort[0])
        self.stages = len(self.windows)
        self.end = 2 * self.stages
        self.weight = self.end + 1
        size = self.weight + self.labels.total
        lower, upper = np.zeros(size), np.ones(size)
        lower[: self.stages] = start / self.unit
        upper[: self.weight] = np.inf
        cost = np.zeros(size)
        cost[self.end] = 1.0
        self.program = LinearProgram(cost, lower, upper)
        self.cuts: dict[int, _Cut] = {}
        self._begin(rest)

    def _begin(self, rest: Replication) -> None:
        rows: list[Row] = [self._runs(stage) for stage in range(self.stages)]
        rows += [
            (np.array([self.end, self.stages + stage]), np.array([1.0, -1.0]), float(rest[stage]) / self.unit)
            for stage in range(self.stages)
        ]
        arrays = np.concatenate(
            [self.labels.lows(stage) * self.owner.problem.demand[stage] for stage in range(self.stages)]
        )
        every = self.weight + np.arange(self.labels.total)
        rows.append((every, -arrays.astype(np.float64), -float(self.owner.problem.budget)))
        ones = [
            (self.weight + self.labels.weights(stage), np.ones(int(self.labels.size[stage])), 1.0)
            for stage in range(self.stages)
        ]
        self.program.add(ones, equal=True)
        self.program.add(rows)
        direct = np.flatnonzero(self.owner.reach.direct)
        first = {_Cut(kind, int(pair)) for pair in direct for kind in ("wait", "tail")}
        self._add([(cut, None) for cut in sorted(first | self.owner._useful.keys())])

    def _runs(self, stage: int) -> Row:
        run = -(-self.windows[stage] // self.labels.highs(stage)) * self.labels.lengths(stage)
        return self._inequality([self.stages + stage, stage], self.weight + self.labels.weights(stage), run)

    def _inequality(self, times: list[int], weights: Whole, costs: Whole | Floats) -> Row:
        """times[0] >= times[1] + costs @ weights, with costs in ticks."""
        columns = np.concatenate((times, weights))
        return columns, np.concatenate((np.array([1.0, -1.0]), -costs / self.unit)), 0.0

    def _add(self, wanted: list[tuple[_Cut, tuple[Floats, Floats] | None]]) -> bool:
        rows: list[Row] = []
        for cut, potentials in wanted:
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
        theirs, own = self.weight + self.labels.weights(p), self.weight + self.labels.weights(i)
        if cut.kind == "tail":
            if wide.user[pair] < 0:
                return None
            left = np.maximum(1, -(-(self.windows[i] - wide.user[pair]) // using)) * using_ticks + beyond
            return self._inequality([self.stages + i, self.stages + p], own, left)
        if cut.kind == "middle":
            need = int(wide.need[wide.offset[pair] + cut.window])
            before = (need // feeding + 1) * feeding_ticks + beyond
            after = ((self.windows[i] - 1 - cut.window) // using + 1) * using_ticks
            both = np.concatenate((theirs, own))
            return self._inequality([self.stages + i, p], both, np.concatenate((before, after)))
        if potentials is not None:
            a, b = potentials[0][: len(feeding)], potentials[1][: len(using)]
            return self._inequality([i, p], np.concatenate((theirs, own)), np.concatenate((a, b)))
        need = int(wide.need[wide.offset[pair] + self.labels.low[i, 0] - 1])
        wait = (need // feeding + 1) * feeding_ticks + beyond
        return self._inequality([i, p], theirs, wait) if need >= 0 else None

    def separate(self) -> bool:
        """Add the cuts that the present solution violates most; False if there are none."""
        owner, n, pairs, most = self.owner, self.stages, len(self.owner.consumer), self.labels.low.shape[1]
        values = self.program.solution
        weights = self.labels.square(values[self.weight :])
        solution = cuts.Solution(weights, values[:n] * self.unit, values[n : 2 * n] * self.unit)
        violated = cuts.Violations(
            wait=np.zeros(pairs), a=np.zeros((pairs, most)), b=np.zeros((pairs, most)),
            tail=np.zeros(pairs), middle=np.zeros(pairs), most=np.zeros(pairs, dtype=np.int64),
        )  # fmt: skip
        never = self.target * self.unit
        cuts.separate(self.windows, owner.reach, owner.corners, self.labels, solution, never, violated)
        wanted: list[tuple[_Cut, tuple[Floats, Floats] | None]] = [
            (_Cut("wait", pair), (violated.a[pair], violated.b[pair])) for pair in self._worst(violated.wait)
        ]
        wanted += [(_Cut("tail", pair), None) for pair in self._worst(violated.tail)]
        wanted += [
            (_Cut("middle", pair, int(violated.most[pair])), None) for pair in self._worst(violated.middle)
        ]
        return self._add(wanted)

    def active(self) -> set[_Cut]:
        """Cuts that hold the bound up."""
        multipliers = self.program.multipliers
        return {cut for row, cut in self.cuts.items() if multipliers[row] > 1e-7}

    def result(self, rounds: int) -> Relaxed:
        """The bound that the multipliers prove, and the labels that are left at the target."""
        limit = np.full(self.weight, self.target)
        base, reduced = self.program.dual(limit)
        first = self.labels.first
        least = np.minimum.reduceat(reduced[self.weight :], first[:-1])
        bound = base + float(least.sum()) - MARGIN
        seconds = (
            _SECONDS_PER_ROW * self.program.rows + _SECONDS_PER_PAIR * rounds * len(self.owner.consumer)
            + 1e-9 * _NS_PER_PIVOT_AND_ROW * self.program.effort
        )  # fmt: skip
        x = self.labels.square(self.program.solution[self.weight :])
        copies = (x * self.labels.low).sum(axis=1)
        extra = self.labels.square(reduced[self.weight :] - np.repeat(least, self.labels.size))
        kept = (bound + extra <= self.target) & (self.labels.square(np.ones(first[-1])) > 0)
        if not kept.any(axis=1).all():
            return Relaxed(bound * self.unit, None, copies, seconds)
        stage = np.arange(self.stages)
        lowest, highest = kept.argmax(axis=1), kept.shape[1] - 1 - kept[:, ::-1].argmax(axis=1)
        box = self.labels.low[stage, lowest], self.labels.high[stage, highest]
        return Relaxed(bound * self.unit, box, copies, seconds)

    def _worst(self, excess: Floats) -> list[int]:
        """Pairs with the largest violations, at most one for every stage."""
        chosen = np.flatnonzero(excess > _VIOLATION * self.unit)
        order = chosen[np.argsort(-excess[chosen], kind="stable")]
        worst: list[int] = sorted(order[: self.stages].tolist())
        return worst
