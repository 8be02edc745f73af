"""HiGHS behind a small face: minimise a linear cost, rows join later, bounds are worked out anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import highspy
import numpy as np
import numpy.typing as npt

_MOST_PIVOTS = 50_000
_PIVOTS_PER_CALL = 20

Floats = npt.NDArray[np.float64]
Row = tuple[npt.NDArray[Any], npt.NDArray[Any], float]
"""Columns, coefficients and right-hand side: coefficients @ columns >= right-hand side."""


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
