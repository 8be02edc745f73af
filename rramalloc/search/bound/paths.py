"""Whole paths of stages that wait for each other: the longest ones of a fractional solution, and what labels
take for them.

Source: docs/sources/model.md 4; the kernels are those of kernels/paths.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rramalloc.ndarrays import Floats, Ints
from rramalloc.search.bound.path_program import RecentCuts
from rramalloc.search.kernels import paths as kernels
from rramalloc.search.kernels.cuts import Solution
from rramalloc.search.kernels.mode_tables import LabelledModes
from rramalloc.search.kernels.paths import LongestPaths, PathPoints
from rramalloc.timing.stage_graph import StageGraph

Path = tuple[tuple[int, ...], ...]
"""The fields of a Leg for each of its stages, the last one first."""

_MOST_ROWS = 36  # rows at whose ends paths enter a stage: bounds the size of the tables
_EDGE_ROWS = 4  # of these, the first rows of a stage, and as many last ones


@dataclass(eq=False)
class Paths:
    """The paths of one graph. useful: those that held up the last bounds, which are tried first next time."""

    graph: StageGraph
    useful: RecentCuts[Path] = field(default_factory=RecentCuts)

    def __post_init__(self) -> None:
        self._edges = edges = self.graph.flat_extents
        stages = range(len(edges.height))
        rows = [_entry_rows(int(height)) for height in edges.height]
        leaves: list[dict[tuple[int, int], int]] = [
            {(int(edges.height[i]) - 1, int(edges.width[i]) - 1): 0} for i in stages
        ]
        at, awaited = [0], list[tuple[int, int]]()
        for i in stages:
            for e in range(edges.pointer[i], edges.pointer[i + 1]):
                producer, column = (
                    int(edges.producer[e]),
                    int(edges.table[edges.column[e] + edges.width[i] - 1]),
                )
                own = leaves[producer]
                for row in edges.table[edges.row[e] + rows[i]].tolist():
                    used = row >= 0 and column >= 0
                    awaited.append((producer, own.setdefault((row, column), len(own)) if used else -1))
                at.append(len(awaited))
        leave = np.concatenate(([0], np.cumsum([len(own) for own in leaves])))
        pixels = np.array([pixel for own in leaves for pixel in own], dtype=np.int64)
        self._points = PathPoints(
            enter=np.concatenate(([0], np.cumsum([len(own) for own in rows]))),
            row=np.concatenate(rows),
            leave=leave,
            leave_row=pixels[:, 0].copy(),
            leave_column=pixels[:, 1].copy(),
            at=np.array(at, dtype=np.int64),
            awaited=np.array([leave[p] + q if q >= 0 else -1 for p, q in awaited] + [-1], dtype=np.int64),
        )
        self._longest = LongestPaths(
            np.empty(len(pixels)),
            np.empty(len(pixels), dtype=np.int64),
            np.empty(len(self._points.row), dtype=np.int64),
        )
        self._legs = np.empty((len(edges.height), len(kernels.Leg._fields)), dtype=np.int64)

    def excess(self, modes: LabelledModes, target: int, solution: Solution) -> Floats:
        """Return the excess of the longest path to each stage's finish over a fractional solution."""
        kernels.longest_paths(self._edges, self._points, modes, target, solution, self._longest)
        ends: Floats = self._longest.value[self._points.leave[:-1]] - solution.end
        return ends

    def legs(self, modes: LabelledModes) -> float:
        """Return the legs that a search for longest paths visits, with one label of each stage on average."""
        each = np.diff(self._points.enter) * np.diff(self._points.leave)
        return float((each * np.diff(modes.first) / modes.size).sum())

    def to(self, stage: int) -> Path:
        """Return the longest path to the finish of a stage, as `excess` found it last."""
        count = kernels.trace(self._edges, self._points, self._longest, stage, self._legs)
        return tuple(map(tuple, self._legs[:count].tolist()))

    def costs(self, path: Path, modes: LabelledModes, width: int, target: int) -> Floats:
        """Return the least ticks of every label for each leg of a path, float64 (legs, width)."""
        costs = np.empty((len(path), width))
        kernels.leg_costs(modes, np.array(path, dtype=np.int64), target, costs)
        return costs

    def lag(self, path: Path) -> int:
        """Return the ticks that a path spends between stages."""
        return sum(int(self._edges.lag[leg[4]]) for leg in path if leg[4] >= 0)


def _entry_rows(height: int) -> Ints:
    """Return the rows at whose ends paths enter a stage: all, or the first, the last and some between."""
    if height <= _MOST_ROWS:
        return np.arange(height)
    between = np.linspace(0, height - 1, _MOST_ROWS - 2 * _EDGE_ROWS).astype(np.int64)
    return np.unique(np.concatenate((np.arange(_EDGE_ROWS), between, height - 1 - np.arange(_EDGE_ROWS))))
