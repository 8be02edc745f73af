"""MILP over the separable recurrence, solved by HiGHS (docs/sources/model.md 5 and 6).

One binary per stage and useful replication, with mapping `sdk` per stage and mode of fewest arrays
(docs/sources/model.md 10). Waits and tails are taken as functions of one stage's choice, each at its most
favourable, so the optimum is a lower bound of the exact makespan; the allocation it belongs to can be far
from the best and is judged by exact timing like any other.
"""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import highspy
import numpy as np
import numpy.typing as npt
import pulp
from typing_extensions import override

from rramalloc.errors import SolverError
from rramalloc.mapping.modes import breakpoints
from rramalloc.methods.method import Method
from rramalloc.network.geometry import Pair
from rramalloc.search import cost
from rramalloc.search.menu import Menu, Modes
from rramalloc.search.problem import Answer, Problem
from rramalloc.search.work import SECONDS_PER_WORK, Work
from rramalloc.timing.dependencies import Edge

_ENTRIES_PER_WORK = 100_000
"""Entries of the matrix times nodes of HiGHS: a node costs in proportion to the model's size."""
_MOST_NODES = 2**31 - 1
"""HiGHS reads the limit as a 32-bit integer."""


class ModeChoice(NamedTuple):
    """One way to run a stage: its arrays and the time of its batches; block: None for the graph's own."""

    copies: int
    block: Pair | None
    arrays: int
    length: int


class EdgeCosts(NamedTuple):
    """Cost of an edge for every choice of its producer (first, reached) and of its consumer (tail).

    first: time until the pixels are there that the consumer needs first; reached: until all are there that
    it ever needs, None if that is the end of the producer; tail: time of the consumer from the first batch
    that needs the last of them; lag: of the transfer between the two.
    """

    first: list[int] | None
    reached: list[int] | None
    tail: list[int]
    lag: int = 0


class Choices(ABC):
    """The choices of every stage, each with the least delays of all allocations that it stands for."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    @abstractmethod
    def of(self, stage: int) -> list[ModeChoice]:
        """One binary each."""

    @abstractmethod
    def delays(self, edge: Edge) -> Iterator[EdgeCosts]:
        """Bounds that hold together."""


class CopiesAlone(Choices):
    """Useful copies: those between two breakpoints take as many batches as the lower one, and to keep the
    bound valid for them what is divided by a producer's copies uses the upper end.
    """

    @override
    def of(self, stage: int) -> list[ModeChoice]:
        windows, demand = int(self.problem.graph.windows[stage]), int(self.problem.demand[stage])
        return [ModeChoice(d, None, demand * d, -(-windows // d)) for d in self._useful(stage)]

    @override
    def delays(self, edge: Edge) -> Iterator[EdgeCosts]:
        p, i = edge.producer, edge.consumer
        highest = [after - 1 for after in self._useful(p)[1:]] + [int(self.problem.largest[p])]
        need, windows = self.problem.graph.needed(edge), self.problem.graph.windows
        first, last = int(need[0]), int(need[-1])
        user, count = int(np.searchsorted(need, last)), int(windows[i])
        yield EdgeCosts(
            first=[first // d + 1 for d in highest] if first >= 0 else None,
            reached=None if last == int(windows[p]) - 1 else [last // d + 1 for d in highest],
            tail=[-(-count // d) - user // d for d in self._useful(i)],
        )

    def _useful(self, stage: int) -> list[int]:
        useful: list[int] = breakpoints(
            int(self.problem.graph.windows[stage]), int(self.problem.largest[stage])
        ).tolist()
        return useful


class ModesOfFewestArrays(Choices):
    """Modes with the fewest arrays for every length, over blocks of all shapes and all copies.

    Every other mode stands behind the one with most arrays that are no more than its own, which takes no
    longer. What an edge costs is the least of all modes that a choice stands for, so the optimum bounds the
    problem.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self._stages = Menu.of(problem).stages
        self._kept = [each.fewest() for each in self._stages]

    @override
    def of(self, stage: int) -> list[ModeChoice]:
        kept = self._stages[stage].modes.take(self._kept[stage])
        rows = zip(kept.low, kept.tall, kept.wide, kept.arrays, kept.length, strict=True)
        return [
            ModeChoice(int(d), (int(h), int(w)), int(arrays), int(time)) for d, h, w, arrays, time in rows
        ]

    @override
    def delays(self, edge: Edge) -> Iterator[EdgeCosts]:
        p, i = edge.producer, edge.consumer
        grid = self.problem.graph.grids[p]
        for extent in edge.extents:
            rows, columns = extent
            if rows[-1] < 0 or columns[-1] < 0:
                continue
            last = (int(rows[-1]), int(columns[-1]))
            user = (int(np.searchsorted(rows, last[0])), int(np.searchsorted(columns, last[1])))
            first = (int(rows[0]), int(columns[0]))
            yield EdgeCosts(
                first=self._waits(p, first) if min(first) >= 0 else None,
                reached=None if last == (grid.height - 1, grid.width - 1) else self._waits(p, last),
                tail=self._tails(i, user),
                lag=self.problem.graph.lag(edge),
            )

    def _waits(self, stage: int, pixel: Pair) -> list[int]:
        """Least time until a pixel is computed."""
        modes = self._stages[stage].modes
        return self._least(stage, (_block_of(modes, pixel) // modes.high + 1) * modes.period)

    def _tails(self, stage: int, pixel: Pair) -> list[int]:
        """Least time from the batch that computes a pixel to the end."""
        modes = self._stages[stage].modes
        return self._least(stage, (modes.batches - _block_of(modes, pixel) // modes.low) * modes.period)

    def _least(self, stage: int, times: npt.NDArray[np.int64]) -> list[int]:
        """Return the least time over the modes that each choice stands for."""
        arrays = self._stages[stage].modes.arrays
        choice = np.searchsorted(arrays[self._kept[stage]], arrays, side="right") - 1
        least = np.full(len(self._kept[stage]), np.iinfo(np.int64).max)
        np.minimum.at(least, choice, times)
        return [int(value) for value in least]


def _block_of(modes: Modes, pixel: Pair) -> npt.NDArray[np.int64]:
    """Return the number of the block that holds a pixel of the output, for the blocks of every mode."""
    row, column = (pixel[0] + modes.top) // modes.tall, (pixel[1] + modes.left) // modes.wide
    numbers: npt.NDArray[np.int64] = row * modes.columns + column
    return numbers


@dataclass(frozen=True, slots=True)
class SeparableModel:
    """The PuLP problem, and for each stage its choices with their binaries."""

    program: pulp.LpProblem
    choices: list[list[ModeChoice]]
    chosen: list[list[pulp.LpVariable]]


def build(problem: Problem, stop: Work) -> SeparableModel:
    """Return the model: the end of the last stage subject to the budget and the separable recurrence.

    Raises SolverError if the time is up before it is made.
    """
    program = pulp.LpProblem("separable", pulp.LpMinimize)
    stages = range(len(problem.demand))
    made: Choices = (
        CopiesAlone(problem)
        if problem.one_block and problem.time_unit == "steps"
        else ModesOfFewestArrays(problem)
    )
    end = program.add_variable("end", lowBound=0)
    pre_op = [program.add_variable(f"pre_{i}", lowBound=0) for i in stages]
    op = [program.add_variable(f"op_{i}", lowBound=0) for i in stages]
    choices = [made.of(i) for i in stages]
    chosen = []
    for i in stages:
        _check_time(stop)
        names = [str(each.copies) if each.block is None else f"m{k}" for k, each in enumerate(choices[i])]
        choice = [program.add_variable(f"x_{i}_{name}", cat=pulp.LpBinary) for name in names]
        program += pulp.lpSum(choice) == 1
        program += op[i] >= pre_op[i] + _sum([each.length for each in choices[i]], choice)
        program += end >= op[i]
        chosen.append(choice)
    program += (
        pulp.lpSum(
            each.arrays * x
            for own, choice in zip(choices, chosen, strict=True)
            for each, x in zip(own, choice, strict=True)
        )
        <= problem.budget
    )
    for edge in problem.graph.edges:
        _check_time(stop)
        p, i = edge.producer, edge.consumer
        for delays in made.delays(edge):
            if delays.first is not None:
                program += pre_op[i] >= pre_op[p] + _sum(delays.first, chosen[p]) + delays.lag
            tail = _sum(delays.tail, chosen[i]) + delays.lag
            if delays.reached is None:
                program += op[i] >= op[p] + tail
            else:
                program += op[i] >= pre_op[p] + _sum(delays.reached, chosen[p]) + tail
    program.setObjective(end)
    return SeparableModel(program, choices, chosen)


def _check_time(stop: Work) -> None:
    if stop.out_of_time:
        raise SolverError(
            "the time was up before the model was made: give it more time, or use --method auto"
        )


def _sum(values: Sequence[int], chosen: Sequence[pulp.LpVariable]) -> pulp.LpAffineExpression:
    return pulp.lpSum(value * x for value, x in zip(values, chosen, strict=True))


@dataclass(frozen=True, slots=True)
class SolverAnswer:
    """Result of a solver.

    solver: its name; bound: no solution of the program has a smaller objective.
    """

    solver: str
    has_solution: bool
    optimal: bool
    bound: float
    status: str


def run_highs(program: pulp.LpProblem, stop: Work, seed: int) -> SolverAnswer:
    """Solve with HiGHS in this process, on one thread so that equal runs give equal answers.

    All calls are ones that PuLP 3 and 4 have. PuLP calls an incumbent at a limit "Optimal" and does not hand
    on the bound, so both are read from HiGHS. Without presolve: with it, HiGHS 1.14 calls solutions optimal
    that are not.
    """
    entries, rows = sum(map(len, program.constraints())), len(program.constraints())
    nodes = min(max(1, stop.work * _ENTRIES_PER_WORK // max(1, entries)), _MOST_NODES)
    left_s = None if stop.time_limit_s is None else max(0.01, stop.time_limit_s - stop.seconds)
    most_pivots = 1 + int(max(1, stop.work) * SECONDS_PER_WORK / (cost.SOLVER_ROW * rows))
    if most_pivots < rows:  # no limit of HiGHS holds in the root relaxation of a mixed-integer program
        root = {"simplex_iteration_limit": most_pivots, "presolve": "off", "solver": "simplex"}
        with contextlib.suppress(KeyError):
            program.solve(pulp.HiGHS(mip=False, msg=False, threads=1, timeLimit=left_s, **root))
        status = program.solverModel.modelStatusToString(program.solverModel.getModelStatus())
        if status != "Optimal":
            return SolverAnswer("HiGHS", False, False, 0.0, f"{status.lower()} in the root relaxation")

    def look(kind: int, text: str, out: Any, answer: Any, data: Any) -> None:  # noqa: ARG001
        answer.user_interrupt = stop.out_of_time

    options = {"presolve": "off", "random_seed": seed % 2**31, "mip_max_nodes": nodes}
    solver = pulp.HiGHS(
        msg=False,
        threads=1,
        timeLimit=left_s,
        gapRel=stop.gap,
        callbackTuple=(look, None),
        callbacksToActivate=[highspy.cb.HighsCallbackType.kCallbackMipInterrupt],
        **options,
    )
    with contextlib.suppress(KeyError):  # PuLP has no name for some limits; the solution is in place by then
        program.solve(solver)
    info = program.solverModel.getInfo()
    status = program.solverModel.modelStatusToString(program.solverModel.getModelStatus())
    feasible = int(info.primal_solution_status) == 2
    bound = float(info.mip_dual_bound)
    stop.charge(int(info.simplex_iteration_count) * entries * cost.SOLVER_ENTRY)
    bound = bound if bound > -1e20 else 0.0
    return SolverAnswer("HiGHS", feasible, status == "Optimal", bound, status.lower())


def solve(
    problem: Problem, stop: Work, seed: int, run: Callable[[Any, Work, int], SolverAnswer] = run_highs
) -> Answer:
    """Return the allocation that solves the model, and the solver's bound.

    run: the solver, given the program. Raises SolverError if it finds no allocation in time.
    """
    model = build(problem, stop)
    _check_time(stop)
    answer = run(model.program, stop, seed)
    if not answer.has_solution:
        raise SolverError(
            f"{answer.solver} found no allocation ({answer.status}): give it more --work or time"
        )
    made = [
        choices[int(np.argmax([x.value() or 0.0 for x in chosen]))]
        for choices, chosen in zip(model.choices, model.chosen, strict=True)
    ]
    replication = np.array([each.copies for each in made], dtype=np.int64)
    blocks = tuple(each.block for each in made if each.block is not None) or None
    fits = problem.fits(replication) if blocks is None else problem.holds(replication, blocks)
    if not fits:
        raise SolverError(f"{answer.solver} returned an allocation that does not fit the budget")
    bound = math.ceil(answer.bound - 1e-6 * max(1.0, abs(answer.bound)))
    words = _words(answer, bound)
    return Answer(problem.choice(replication, blocks), max(1, bound), words)


def _words(answer: SolverAnswer, bound: int) -> str:
    what = "solved to optimality" if answer.optimal else f"stopped ({answer.status})"
    return (
        f"separable MILP by {answer.solver}, {what}: no allocation takes less than {bound} steps in its model"
    )


MILP = Method(
    "milp",
    solve,
    minimises="the separable recurrence, by HiGHS",
    source="docs/sources/model.md 5 and 6",
    proves="its optimum if the solver finishes; else the solver's bound",
    sees_digital=True,
)
