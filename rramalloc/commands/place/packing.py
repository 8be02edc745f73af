"""Whether groups of arrays that must each lie in one tile fit the tiles of a chip, and how.

A group is a row block of a copy where tiles are filled first fit, else a copy or what is left of one beside
whole tiles: bin packing with few sizes and many groups of each. The answer is a packing, a proof that there
is none, or (rarely, see `pack`) neither.

Best fit decreasing comes first, then the arc-flow program with which the answer is exact: its linear
relaxation refutes (checked in integers) or is rounded down to patterns, and the rest is small enough.
Source: J. M. Valerio de Carvalho, Annals of Operations Research 86, 629-659 (1999),
doi 10.1023/A:1018952112615.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rramalloc.commands.place.packing_kernel import best_fit, cannot_fit, heaviest
from rramalloc.mapping.tiles import Tiles
from rramalloc.ndarrays import Ints

FitVerdict = Literal["fits", "does not fit", "unknown"]
Patterns = list[tuple[int, list[int]]]
"""(tiles, groups of each size in each of them); together they may have room for more than there are."""
Arc = tuple[int, int, int]
"""(arrays before, arrays after, size class): a way to add a group to a tile."""

_MOST_ROOM = 4096
"""Arrays of a tile up to which sums are listed."""
_MOST_ARCS = 40_000
"""Variables of the integer program: above this it is not tried and the answer can be "unknown"."""
_MOST_NODES = 300  # of HiGHS's branch and bound: a count, so that no clock changes the answer
_UNROUNDED = (0, 1, 3)
"""Tiles of each pattern of the relaxation that the integer program may change, from few to many."""
_WEIGHT_SCALE = 2**24  # duals become integers by this, so that the bound they give is exact
_NO_FLOW = 1e-5  # flow below this is none: above the tolerance of HiGHS (1e-6), far below a whole tile


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """`tiles` tiles of `room` arrays, counts[j] groups of sizes[j] arrays each; sizes fall."""

    sizes: Ints
    counts: Ints
    tiles: int
    room: int

    def decide(self) -> tuple[FitVerdict, Patterns, str]:
        """Return (whether all groups fit, patterns if they do, proof)."""
        if (patterns := self.heuristic()) is not None:
            return "fits", patterns, "best fit decreasing"
        arcs = self.arcs() if self.room <= _MOST_ROOM else None
        if arcs is None:
            return "unknown", [], "the heuristic finds no packing; too large for the integer program"
        program = _ArcFlow(self, arcs)
        weights, relaxed = program.relax()
        if self._refuted_by(weights):
            return "does not fit", [], "groups weigh more than all tiles can hold (dual of the arc flow)"
        for unrounded in _UNROUNDED:
            whole = [(tiles - unrounded, held) for tiles, held in relaxed if tiles > unrounded]
            rest = self._without(whole)
            if rest.tiles < 0:
                continue
            if (completed := rest.heuristic()) is None:
                completed = _ArcFlow(rest, arcs).solve()[1]
            if completed is not None:
                return "fits", whole + completed, "arc flow, rounded down and completed"
        fit, patterns = program.solve()
        return fit, patterns or [], "integer program (arc flow by HiGHS)"

    def heuristic(self) -> Patterns | None:
        """Return patterns for all groups, None if best fit decreasing does not find them."""
        classes = len(self.sizes)
        number, order, residual = np.zeros((3, 16 * classes + 64), dtype=np.int64)
        held = np.zeros((len(number), classes), dtype=np.int64)
        rows = best_fit(self.sizes, self.counts, self.tiles, self.room, order, residual, number, held)
        if rows < 0:
            return None
        return [(int(number[row]), held[row].tolist()) for row in range(rows) if held[row].any()]

    def _refuted_by(self, weights: Ints) -> bool:
        """Return True if groups of these weights weigh more than tiles can hold, in exact arithmetic."""
        best = np.zeros(self.room + 1, dtype=np.int64)
        most = int(heaviest(self.sizes, self.counts, weights, self.room, best))
        weight: int = sum(map(operator.mul, self.counts.tolist(), weights.tolist()))
        return weight > self.tiles * most

    def _without(self, patterns: Patterns) -> Instance:
        """Return the rest of the instance when some tiles are filled."""
        held = sum((tiles * np.array(groups) for tiles, groups in patterns), np.zeros_like(self.counts))
        tiles = self.tiles - sum(tiles for tiles, _ in patterns)
        return Instance(self.sizes, np.maximum(self.counts - held, 0), tiles, self.room)

    def arcs(self) -> list[Arc] | None:
        """Return arcs (arrays before, arrays after, size class) that add a group to a tile; None if too many.

        Groups enter a tile from the largest to the smallest, which leaves few sums to consider.
        """
        arcs, reached = [], {0}
        for j, (size, count) in enumerate(zip(self.sizes.tolist(), self.counts.tolist(), strict=True)):
            used = dict.fromkeys(reached, 0)
            for before in range(self.room - size + 1):
                if used.get(before, count) < count:
                    after = before + size
                    arcs.append((before, after, j))
                    used[after] = min(used.get(after, count), used[before] + 1)
            reached |= set(used)
            if len(arcs) > _MOST_ARCS:
                return None
        return arcs


class _ArcFlow:
    """Tiles as paths through the sums they can hold; as many groups of each size as there are.

    Row j: groups of size j; then one row per sum, which no more flow leaves than enters, so that a path
    may end anywhere; the last row: tiles in use.
    """

    def __init__(self, instance: Instance, arcs: list[Arc]) -> None:
        import highspy

        self._highspy, self._instance, self._arcs = highspy, instance, arcs
        classes, endless = len(instance.sizes), highspy.kHighsInf
        last = classes + instance.room
        self._model = model = highspy.HighsLp()
        model.num_col_, model.num_row_ = len(arcs), last + 1
        model.col_cost_ = np.array([float(before == 0) for before, _, _ in arcs])
        model.col_lower_, model.col_upper_ = np.zeros(len(arcs)), np.full(len(arcs), endless)
        model.row_lower_ = np.concatenate([instance.counts.astype(np.float64), np.zeros(instance.room + 1)])
        model.row_upper_ = np.full(last + 1, endless)
        leaving = [(classes + before - 1, -1.0) if before else (last, 1.0) for before, _, _ in arcs]
        rows = [(j, classes + after - 1, out) for (_, after, j), (out, _) in zip(arcs, leaving, strict=True)]
        matrix = model.a_matrix_
        matrix.format_ = highspy.MatrixFormat.kColwise
        matrix.start_ = np.arange(0, 3 * len(arcs) + 1, 3)
        matrix.index_ = np.array(rows).ravel()
        matrix.value_ = np.array([(1.0, 1.0, sign) for _, sign in leaving]).ravel()

    def relax(self) -> tuple[Ints, Patterns]:
        """Return the linear relaxation: weights of the sizes (duals, in 2^-24), patterns rounded down."""
        solution = self._run().getSolution()
        duals = np.array(solution.row_dual)[: len(self._instance.sizes)]
        weights = np.rint(np.clip(duals, 0.0, 1.0) * _WEIGHT_SCALE).astype(np.int64)
        return weights, self._patterns(solution.col_value)

    def solve(self) -> tuple[FitVerdict, Patterns | None]:
        """Return (whether the tiles suffice, patterns if they do)."""
        kinds, model = self._highspy.HighsModelStatus, self._model
        model.row_upper_ = np.append(np.array(model.row_upper_)[:-1], float(self._instance.tiles))
        model.integrality_ = [self._highspy.HighsVarType.kInteger] * model.num_col_
        solver = self._run()
        if int(solver.getInfo().primal_solution_status) == 2:
            return "fits", self._patterns(solver.getSolution().col_value)
        return ("does not fit" if solver.getModelStatus() == kinds.kInfeasible else "unknown"), None

    def _run(self) -> Any:
        solver = self._highspy.Highs()
        options = {"output_flag": False, "threads": 1, "random_seed": 0, "mip_max_nodes": _MOST_NODES}
        for option, value in (options | {"objective_target": float(self._instance.tiles)}).items():
            solver.setOptionValue(option, value)
        solver.passModel(self._model)
        solver.run()
        return solver

    def _patterns(self, values: Sequence[float]) -> Patterns:
        """Return a flow as paths, how many of each rounded down to whole tiles."""
        flow, out = np.array(values), dict[int, list[int]]()
        for arc in np.flatnonzero(flow > _NO_FLOW).tolist():
            out.setdefault(self._arcs[arc][0], []).append(arc)
        patterns: Patterns = []
        while out.get(0):
            path, at = [], 0
            while out.get(at):
                path.append(out[at][-1])
                at = self._arcs[path[-1]][1]
            alike = flow[path].min()
            flow[path] -= alike
            for arc in path:
                if flow[arc] <= _NO_FLOW:
                    out[self._arcs[arc][0]].pop()
            groups = np.bincount([self._arcs[arc][2] for arc in path], minlength=len(self._instance.sizes))
            if alike + _NO_FLOW >= 1:
                patterns.append((int(alike + _NO_FLOW), groups.tolist()))
        return patterns


@dataclass(frozen=True, slots=True)
class Filling:
    """`tiles` tiles that all hold the same: (stage, copies of it in each of these tiles)."""

    tiles: int
    copies: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Packing:
    """fillings: of the tiles in use, empty unless it fits; proof: what shows the answer, in words."""

    fit: FitVerdict
    fillings: tuple[Filling, ...]
    proof: str


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """Stages of equal demand. sizes: int64, the demands, falling; kind: int64, class of each stage."""

    sizes: Ints
    kind: Ints

    @classmethod
    def of(cls, demand: Ints) -> Classes:
        """Return the classes of stages with these demands."""
        sizes, kind = np.unique(-np.asarray(demand, dtype=np.int64), return_inverse=True)
        return cls(-sizes, kind.astype(np.int64))

    def counts(self, copies: Ints) -> Ints:
        """Return the groups of each size."""
        counts = np.zeros(len(self.sizes), dtype=np.int64)
        np.add.at(counts, self.kind, copies)
        return counts


def pack(tiles: Tiles, demand: Ints, copies: Ints) -> Packing:
    """Return a packing of `copies` groups of every stage, or a proof that there is none.

    Best fit decreasing first, then bounds, then an integer program (arc flow). Only where none of them
    decides, because the program is too large or too hard, the answer is "unknown": that takes tiles of
    thousands of arrays, dozens of different demands and almost no slack.
    demand, copies: int64, arrays of a group and number of groups, one per stage, at least 1.
    "fits" survived `faults`; a refutation is exact integer arithmetic except where its proof names HiGHS.
    """
    classes, copies = Classes.of(demand), np.asarray(copies, dtype=np.int64)
    counts = classes.counts(copies)
    if cannot_fit(classes.sizes, counts, tiles.count, tiles.arrays):
        return Packing("does not fit", (), "a lower bound on the tiles needed exceeds those there are")
    unit = math.gcd(*classes.sizes.tolist())
    instance = Instance(classes.sizes // unit, counts, tiles.count, tiles.arrays // unit)
    fit, patterns, proof = instance.decide()
    packing = Packing(fit, tuple(_assigned(patterns, classes, copies)), proof)
    if fit == "fits" and faults(packing.fillings, demand, copies, tiles):
        return Packing("unknown", (), "the integer program rounds to no packing")
    return packing


def faults(fillings: Sequence[Filling], demand: Ints, copies: Ints, tiles: Tiles) -> tuple[str, ...]:
    """Return the faults of a packing, none if it is valid; the check relies on nothing that made it."""
    faults = []
    placed = dict.fromkeys(range(len(demand)), 0)
    for filling in fillings:
        held = 0
        for stage, count in filling.copies:
            if filling.tiles < 1 or count < 1 or stage not in placed:
                faults.append(f"{filling.tiles} tiles hold {count} copies of stage {stage}")
                continue
            placed[stage] += filling.tiles * count
            held += count * int(demand[stage])
        if held > tiles.arrays:
            faults.append(f"a tile holds {held} arrays, it has {tiles.arrays}")
    wanted = enumerate(zip(placed.values(), map(int, copies), strict=True))
    faults += [
        f"stage {stage}: {got} copies placed of {all_}" for stage, (got, all_) in wanted if got != all_
    ]
    if (used := sum(filling.tiles for filling in fillings)) > tiles.count:
        faults.append(f"{used} tiles are used, there are {tiles.count}")
    return tuple(faults)


def _assigned(patterns: Patterns, classes: Classes, copies: Ints) -> Iterator[Filling]:
    """Give the groups of each size to its stages, one stage after the other."""
    left = copies.tolist()
    for tiles, pattern in patterns:
        while tiles > 0:
            held: dict[int, int] = {}
            for stage, j in enumerate(classes.kind.tolist()):
                room = pattern[j] - sum(held[other] for other in held if classes.kind[other] == j)
                if min(room, left[stage]) > 0:
                    held[stage] = min(room, left[stage])
            if not held:
                break
            alike = min(tiles, *(left[stage] // each for stage, each in held.items()))
            for stage, each in held.items():
                left[stage] -= alike * each
            tiles -= alike
            yield Filling(alike, tuple(held.items()))
