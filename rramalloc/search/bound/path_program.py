"""A linear program over labels: start and finish of every stage, the end, and a weight for every label.

`LinearProgram` gives bounds that hold whatever multipliers the solver returns. `PathProgram` is what the
relaxations over copies and over modes have in common; of their many inequalities few matter, so these join
as they are violated.

Source: docs/sources/model.md 4; solved by HiGHS.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from rramalloc.ndarrays import Bools, Floats, Ints
from rramalloc.search import cost
from rramalloc.search.kernels.cuts import Solution
from rramalloc.search.work import Work

Row = tuple[npt.NDArray[Any], npt.NDArray[Any], float]
"""Columns, coefficients and right-hand side: coefficients @ columns >= right-hand side."""

Key = TypeVar("Key")

_MEMORY = 30
"""Solutions after which an inequality that no longer matters is forgotten."""
_MARGIN = 1e-6  # taken off a bound, in units of a program, for the rounding of its sums
_UNIT_BITS = 16  # bits of a target counted in units
_ROUNDS = 12  # solutions at most
_VIOLATION = 0.02  # violation from which an inequality joins, in units
_WORTHWHILE = 0.02  # rise of the bound by which another solution is worth its time, in units
_ACTIVE = 1e-7  # multiplier from which on a cut is kept: the tolerance of the solver
_MOST_PIVOTS = 50_000  # pivots of one solution: any multipliers prove a bound, so ending early is valid
_PIVOTS_PER_CALL = 20
"""Pivots that take as long as a call of the solver."""
_LONG_ROWS = 1000
"""Rows from which on the clock is looked at after every pivot: one of a program with fewer is as fast as a
look, and all of them take less than a second."""


@dataclass(eq=False)
class RecentCuts(Generic[Key]):
    """Cuts of the linear program; a cut that was slack in the last solutions is dropped."""

    _last: dict[Key, int] = field(default_factory=dict)
    _solved: int = 0

    @property
    def keys(self) -> set[Key]:
        """All that is remembered."""
        return set(self._last)

    def solved(self, active: Iterable[Key]) -> None:
        """Note the cuts that are tight in a new solution."""
        self._solved += 1
        self._last |= dict.fromkeys(active, self._solved)
        oldest = self._solved - _MEMORY
        self._last = {key: last for key, last in self._last.items() if last > oldest}


def _unit_of(target: int) -> float:
    """Return the unit of a relaxation in ticks: a power of two, so that its numbers stay small and exact."""
    return 2.0 ** max(0, target.bit_length() - _UNIT_BITS)


class LinearProgram:
    """Minimise cost @ v over lower <= v <= upper and the rows added so far."""

    def __init__(self, cost: Floats, lower: Floats, upper: Floats) -> None:
        self.cost, self.lower, self.upper = cost, lower, upper
        self.effort = 0.0
        """Pivots times rows, summed: the work done, whatever the machine."""
        self.value, self.solution = -np.inf, np.zeros(len(cost))
        self.multipliers = np.zeros(0)
        self._columns: list[npt.NDArray[np.int32]] = []
        self._coefficients: list[Floats] = []
        self._right: list[Floats] = []
        self._lengths: list[int] = []
        self._equal = 0
        import highspy  # only here: small networks are proven without a linear program

        self._highspy = highspy
        self._solver = highspy.Highs()
        for option, setting in (
            ("output_flag", False),
            ("threads", 1),
            ("solver", "simplex"),
            ("presolve", "off"),
            ("simplex_iteration_limit", _MOST_PIVOTS),
        ):
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

    def solve(self, stop: Work) -> float:
        """Solve from the last basis; the minimum, or -inf if the solver gave up. Raises OutOfTime."""

        def look(kind: int, text: str, out: Any, answer: Any, data: Any) -> None:  # noqa: ARG001
            answer.user_interrupt = stop.out_of_time

        if self.rows >= _LONG_ROWS:
            self._solver.setCallback(look, None)
            self._solver.startCallback(self._highspy.cb.HighsCallbackType.kCallbackSimplexInterrupt)
        self._solver.run()
        stop.check()
        info = self._solver.getInfo()
        self.effort += float((max(0, info.simplex_iteration_count) + _PIVOTS_PER_CALL) * self.rows)
        solution = self._solver.getSolution()
        self.solution = np.array(solution.col_value, dtype=np.float64)
        self.multipliers = np.array(solution.row_dual, dtype=np.float64)
        optimal = self._solver.getModelStatus() == self._highspy.HighsModelStatus.kOptimal
        self.value = float(info.objective_function_value) if optimal else -np.inf
        return self.value

    def dual(self, limit: Floats) -> tuple[float, Floats]:
        """Return (base, reduced costs) that the multipliers prove, whatever their quality.

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


class PathProgram(ABC):
    """The relaxation of one set of labels; times are counted in units of `unit` ticks.

    size: labels of every stage; width: of the most; start: least start of every stage, in ticks.
    """

    def __init__(self, size: Ints, width: int, target: int, start: Ints) -> None:
        self.size, self.width = size, width
        self.unit = _unit_of(target)
        self.target_ticks, self.target = target, target / self.unit
        self.worthwhile = _WORTHWHILE
        n = self.stages = len(size)
        self.first = np.concatenate(([0], np.cumsum(size)))
        self.end, self.weight = 2 * n, 2 * n + 1
        count = self.weight + int(self.first[-1])
        lower, upper, cost = np.zeros(count), np.ones(count), np.zeros(count)
        lower[:n] = start / self.unit
        upper[: self.weight] = np.inf
        cost[self.end] = 1.0
        self.program = LinearProgram(cost, lower, upper)

    def begin(self, runs: Sequence[Any] | Floats, arrays: Sequence[Any], budget: int, rest: Ints) -> None:
        """Add the rows of single stages, of the end and of the budget.

        runs, arrays: of every stage, ticks from start to finish and arrays of every label; rest: least ticks
        from its finish to the end.
        """
        n = self.stages
        ones = [(self.weights(i), np.ones(int(self.size[i])), 1.0) for i in range(n)]
        self.program.add(ones, equal=True)
        rows = [self.inequality(n + i, i, [(i, runs[i])]) for i in range(n)]
        rows += [
            (np.array([self.end, n + i]), np.array([1.0, -1.0]), float(rest[i]) / self.unit) for i in range(n)
        ]
        self.program.add(rows)
        self.add_budget(arrays, budget)

    def add_budget(self, taken: Sequence[Any], budget: int) -> None:
        """Add the row of a budget; taken: of it by every label of every stage."""
        every = self.weight + np.arange(int(self.first[-1]))
        self.program.add([(every, -np.concatenate(taken).astype(np.float64), -float(budget))])

    def weights(self, stage: int) -> Ints:
        """Return the columns of the weights of a stage."""
        columns: Ints = self.weight + np.arange(self.first[stage], self.first[stage + 1])
        return columns

    def inequality(self, late: int, early: int, parts: Sequence[tuple[int, Any]], lag: int = 0) -> Row:
        """Add the inequality column late >= column early + costs of labels of some stages + lag, in ticks."""
        columns = np.concatenate([[late, early], *(self.weights(i) for i, _ in parts)])
        costs = np.concatenate([[1.0, -1.0], *(-costs[: self.size[i]] / self.unit for i, costs in parts)])
        return columns, costs, lag / self.unit

    def square(self, values: Floats) -> Floats:
        """Return a value for every label as (stages, width), 0 where a stage has no such label."""
        table = np.zeros((self.stages, self.width))
        table[np.arange(self.width) < self.size[:, None]] = values
        return table

    @property
    def solution(self) -> Solution:
        """Weights, and times in ticks."""
        values, n = self.program.solution, self.stages
        return Solution(
            self.square(values[self.weight :]), values[:n] * self.unit, values[n : 2 * n] * self.unit
        )

    def worst(self, excess: Floats, most: int) -> list[int]:
        """Return the numbers of the largest violations, in ticks, at most `most`."""
        chosen = np.flatnonzero(excess > _VIOLATION * self.unit)
        worst: list[int] = np.sort(chosen[np.argsort(-excess[chosen], kind="stable")][:most]).tolist()
        return worst

    def active(self, cuts: Mapping[int, Key]) -> set[Key]:
        """Return the keys of cuts that are tight in the solution, of those that are known by their row."""
        multipliers = self.program.multipliers
        return {cut for row, cut in cuts.items() if multipliers[row] > _ACTIVE}

    @abstractmethod
    def separate(self) -> bool:
        """Add the inequalities that the solution violates most; False if there are none."""

    def run(self, stop: Work) -> int:
        """Solve and separate as long as the bound rises, and return the number of solutions.

        Raises OutOfTime.
        """
        rounds, value = 0, -np.inf
        while True:
            reached = self.program.solve(stop)
            rounds += 1
            enough = self.refuted or reached - value < self.worthwhile
            if rounds == _ROUNDS or enough or not self.separate():
                return rounds
            value = reached

    @property
    def refuted(self) -> bool:
        """Whether the last solution says that nothing meets the target; `proven` decides."""
        return self.program.value > self.target + 0.5

    def proven(self) -> tuple[float, Bools]:
        """Return the proof of the multipliers: a bound in ticks, and which labels may meet the target."""
        base, reduced = self.program.dual(np.full(self.weight, self.target))
        least = np.minimum.reduceat(reduced[self.weight :], self.first[:-1])
        bound = base + float(least.sum()) - _MARGIN
        extra = self.square(reduced[self.weight :] - np.repeat(least, self.size))
        exists = np.arange(self.width) < self.size[:, None]
        return bound * self.unit, (bound + extra <= self.target) & exists

    def seconds(self, pivot_s: float) -> float:
        """Return the counted work of rows and pivots; pivot_s: of a pivot and row."""
        return cost.PROGRAM_ROW * self.program.rows + pivot_s * self.program.effort
