"""MILP over the separable recurrence, solved by HiGHS (docs/sources/model.md 5 and 6).

One binary per stage and mode of fewest arrays for its length (docs/sources/model.md 10). Such a choice stands
for all modes with at least its arrays and fewer than the next choice's, none of which is faster, and for the
copies up to the next breakpoint. With kinds of arrays these are choices of each kind, and the arrays of every
kind are limited (docs/sources/model.md 18). Waits and tails are functions of one stage's choice, each the
least of all modes that it stands for, so the optimum is a lower bound of the exact makespan. The allocation
of the optimum can be far from the best and is judged by exact timing like any other.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import highspy
import numpy as np
import pulp

from rramalloc.errors import SolverError
from rramalloc.mapping.mode import ModeTable
from rramalloc.methods.method import Method
from rramalloc.ndarrays import Ints
from rramalloc.network.geometry import Pair
from rramalloc.search import cost
from rramalloc.search.menu import Menu, StageModes
from rramalloc.search.problem import Answer, Problem
from rramalloc.search.work import SECONDS_PER_WORK, Work
from rramalloc.status import Stopped
from rramalloc.timing.dependencies import Edge

_ENTRIES_PER_WORK = 100_000
"""Entries of the matrix times nodes of HiGHS: a node costs in proportion to the model's size."""
_MOST_NODES = 2**31 - 1
"""HiGHS reads the limit as a 32-bit integer."""
CandidateTimes = list[int]
"""A time for every choice of a stage."""


class EdgeCosts(NamedTuple):
    """Bounds of an edge that hold together, for every choice of its producer or of its consumer.

    first: time until the pixels are there that the consumer needs first; reached: until all are there that
    it ever needs, None if that is the end of the producer; tail: time of the consumer from the first batch
    that needs the last of them; lag: of the transfer between the two.
    """

    first: CandidateTimes | None
    reached: CandidateTimes | None
    tail: CandidateTimes
    lag: int


class CopyChoices:
    """The modes of every stage that are chosen from: `modes[stage]`, of rising arrays of each kind."""

    def __init__(self, problem: Problem) -> None:
        self._problem, self._stages = problem, Menu.of(problem).stages
        self.modes = list[StageModes]()
        self._choice = list[Ints]()
        for menu in self._stages:
            kept = np.zeros(0, dtype=np.int64)
            choice = np.zeros(len(menu), dtype=np.int64)
            for rows in menu.alike():
                fewest = rows[menu.take(rows).fewest()]
                after = np.searchsorted(menu.arrays[fewest], menu.arrays[rows], side="right")
                choice[rows] = len(kept) + after - 1
                kept = np.concatenate([kept, fewest])
            self.modes.append(menu.take(kept))
            self._choice.append(choice)

    def delays(self, edge: Edge) -> Iterator[EdgeCosts]:
        """Yield the costs of every extent of an edge."""
        p, i = edge.producer, edge.consumer
        grid = self._problem.graph.grids[p]
        for rows, columns in edge.extents:
            if rows[-1] < 0 or columns[-1] < 0:
                continue
            last = (int(rows[-1]), int(columns[-1]))
            reader = (int(np.searchsorted(rows, last[0])), int(np.searchsorted(columns, last[1])))
            first = (int(rows[0]), int(columns[0]))
            yield EdgeCosts(
                first=self._waits(p, first) if min(first) >= 0 else None,
                reached=None if last == (grid.height - 1, grid.width - 1) else self._waits(p, last),
                tail=self._tails(i, reader),
                lag=self._problem.graph.lag(edge),
            )

    def _waits(self, stage: int, pixel: Pair) -> CandidateTimes:
        """Return the least time until a pixel is computed."""
        modes = self._stages[stage]
        return self._least(stage, (_block_of(modes.each, pixel) // modes.high + 1) * modes.period)

    def _tails(self, stage: int, pixel: Pair) -> CandidateTimes:
        """Return the least time from the batch that computes a pixel to the end."""
        modes = self._stages[stage]
        return self._least(stage, (modes.batches - _block_of(modes.each, pixel) // modes.low) * modes.period)

    def _least(self, stage: int, times: Ints) -> CandidateTimes:
        """Return the least time over the modes that each choice stands for."""
        least = np.full(len(self.modes[stage]), np.iinfo(np.int64).max)
        np.minimum.at(least, self._choice[stage], times)
        return [int(value) for value in least]


def _block_of(modes: ModeTable, pixel: Pair) -> Ints:
    """Return the number of the block that holds a pixel of the output, for the blocks of every mode."""
    image, y = np.divmod(pixel[0], modes.image)
    rows = image * -(-(modes.image + modes.top) // modes.tall) + (y + modes.top) // modes.tall
    numbers: Ints = rows * modes.columns + (pixel[1] + modes.left) // modes.wide
    return numbers


@dataclass(frozen=True, slots=True)
class SeparableModel:
    """The PuLP problem, and for each stage its modes with their binaries."""

    program: pulp.LpProblem
    modes: list[StageModes]
    chosen: list[list[pulp.LpVariable]]


def separable_model(problem: Problem, stop: Work) -> SeparableModel:
    """Return the model: the end of the last stage subject to the budget and the separable recurrence.

    Raises SolverError if the time is up before it is made.
    """
    program, choices = pulp.LpProblem("separable", pulp.LpMinimize), CopyChoices(problem)
    stages = range(len(problem.demand))
    end = program.add_variable("end", lowBound=0)
    pre_op = [program.add_variable(f"pre_{i}", lowBound=0) for i in stages]
    op = [program.add_variable(f"op_{i}", lowBound=0) for i in stages]
    chosen = []
    for i, modes in enumerate(choices.modes):
        _check_time(stop)
        choice = [program.add_variable(f"x_{i}_{k}", cat=pulp.LpBinary) for k in range(len(modes.low))]
        program += pulp.lpSum(choice) == 1
        program += op[i] >= pre_op[i] + _sum(modes.length.tolist(), choice)
        program += end >= op[i]
        chosen.append(choice)
    axes = problem.resources.axes
    smallest = min(problem.resources.weights)
    taken = [modes.taken(axes).T / [[smallest], *([1] for _ in axes)] for modes in choices.modes]
    for number, limit in enumerate([problem.budget / smallest, *(axis.limit for axis in axes)]):
        pairs = zip(taken, chosen, strict=True)
        program += pulp.lpSum(_sum(each[number].tolist(), choice) for each, choice in pairs) <= limit
    for edge in problem.graph.edges:
        _check_time(stop)
        p, i = edge.producer, edge.consumer
        for first, reached, tail, lag in choices.delays(edge):
            if first is not None:
                program += pre_op[i] >= pre_op[p] + _sum(first, chosen[p]) + lag
            available = op[p] if reached is None else pre_op[p] + _sum(reached, chosen[p])
            program += op[i] >= available + _sum(tail, chosen[i]) + lag
    program.setObjective(end)
    return SeparableModel(program, choices.modes, chosen)


def _check_time(stop: Work) -> None:
    if stop.out_of_time:
        raise SolverError(
            "the time was up before the model was made: give it more time, or use --method auto"
        )


def _sum(values: Sequence[int], chosen: Sequence[pulp.LpVariable]) -> pulp.LpAffineExpression:
    return pulp.lpSum(value * x for value, x in zip(values, chosen, strict=True))


@dataclass(frozen=True, slots=True)
class SolverAnswer:
    """Result of a solver, by its name; bound: no solution of the program has a smaller objective."""

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
    model = separable_model(problem, stop)
    _check_time(stop)
    answer = run(model.program, stop, seed)
    if not answer.has_solution:
        raise SolverError(
            f"{answer.solver} found no allocation ({answer.status}): give it more --work or time"
        )
    rows = [int(np.argmax([x.value() or 0.0 for x in chosen])) for chosen in model.chosen]
    made = [modes.take(np.array([row])) for modes, row in zip(model.modes, rows, strict=True)]
    copies = np.concatenate([single.low for single in made])
    choice = problem.choice(copies, tuple(single.mode(0) for single in made))
    if not problem.holds(choice.copies, choice.modes):
        raise SolverError(f"{answer.solver} returned an allocation that does not fit the budget")
    bound = max(1, math.ceil(answer.bound - 1e-6 * max(1.0, abs(answer.bound))))
    what = "solved to optimality" if answer.optimal else f"stopped ({answer.status})"
    words = f"separable MILP by {answer.solver}, {what}"
    words += f": no allocation takes less than {bound} steps in its model"
    cut = Stopped.TIME if "time" in answer.status else stop.cut
    return Answer(choice, bound, words, stopped=Stopped.PROOF if answer.optimal else cut)


MILP = Method(
    "milp",
    solve,
    minimises="the separable recurrence, by HiGHS",
    source="docs/sources/model.md 5 and 6",
    proves="its optimum if the solver finishes; else the solver's bound",
    sees_digital=True,
    reads="case limits objective inputs placed method",
)
