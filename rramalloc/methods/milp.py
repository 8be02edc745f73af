"""MILP over the separable recurrence: the model, whoever solves it (docs/sources/model.md 5 and 6).

One binary per stage and useful replication. Waits and tails are taken as functions of one stage's
copies, each at its most favourable, so the optimum is a lower bound of the exact makespan; the
allocation it belongs to can be far from the best and is judged by exact timing like any other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pulp

from rramalloc.errors import SolverError
from rramalloc.methods import milp_solvers
from rramalloc.methods.method import Method
from rramalloc.methods.milp_solvers import Answer
from rramalloc.search.breakpoints import breakpoints
from rramalloc.search.problem import Candidate, Problem, Stop
from rramalloc.timing.dependencies import Edge


def solve_highs(problem: Problem, stop: Stop, seed: int) -> Candidate:
    """Solve with HiGHS. Raises SolverError if it finds no allocation in time."""
    return _solve(problem, stop, seed, "HiGHS")


def solve_cbc(problem: Problem, stop: Stop, seed: int) -> Candidate:
    """Solve with CBC, which comes with PuLP. Raises SolverError if it finds no allocation in time."""
    return _solve(problem, stop, seed, "CBC")


@dataclass(frozen=True, slots=True)
class SeparableModel:
    """The PuLP problem, and for each stage the useful copies with their binaries."""

    program: pulp.LpProblem
    copies: list[list[int]]
    chosen: list[list[pulp.LpVariable]]


def build(problem: Problem) -> SeparableModel:
    """Minimise the end of the last stage subject to the budget and the separable recurrence.

    Copies between two breakpoints take as many batches as the lower one; to keep the bound valid for
    them, what is divided by a producer's copies uses the upper end.
    """
    program = pulp.LpProblem("separable", pulp.LpMinimize)
    windows = problem.graph.windows
    end = program.add_variable("end", lowBound=0)
    pre_op = [program.add_variable(f"pre_{i}", lowBound=0) for i in range(len(windows))]
    op = [program.add_variable(f"op_{i}", lowBound=0) for i in range(len(windows))]
    copies, chosen = [], []
    for i, (count, most) in enumerate(zip(windows.tolist(), problem.largest.tolist(), strict=True)):
        useful = breakpoints(count, most).tolist()
        choice = [program.add_variable(f"x_{i}_{d}", cat=pulp.LpBinary) for d in useful]
        program += pulp.lpSum(choice) == 1
        program += op[i] >= pre_op[i] + pulp.lpSum(
            -(-count // d) * x for d, x in zip(useful, choice, strict=True)
        )
        program += end >= op[i]
        copies.append(useful)
        chosen.append(choice)
    program += (
        pulp.lpSum(
            int(problem.demand[i]) * d * x
            for i in range(len(windows))
            for d, x in zip(copies[i], chosen[i], strict=True)
        )
        <= problem.budget
    )
    for edge in problem.graph.edges:
        _add_edge(program, problem, edge, copies, chosen, pre_op, op)
    program.setObjective(end)
    return SeparableModel(program, copies, chosen)


def _add_edge(
    program: pulp.LpProblem, problem: Problem, edge: Edge, copies: list[list[int]],
    chosen: list[list[pulp.LpVariable]], pre_op: list[pulp.LpVariable], op: list[pulp.LpVariable],
) -> None:  # fmt: skip
    """Wait of the consumer for its first window, and its tail after the producer's last needed pixel."""
    p, i = edge.producer, edge.consumer
    highest = [after - 1 for after in copies[p][1:]] + [int(problem.largest[p])]
    need = problem.graph.needed(edge)
    first, last = int(need[0]), int(need[-1])
    if first >= 0:
        wait = [(first // d + 1) * x for d, x in zip(highest, chosen[p], strict=True)]
        program += pre_op[i] >= pre_op[p] + pulp.lpSum(wait)
    user = int(np.searchsorted(need, last))
    count = int(problem.graph.windows[i])
    tail = [(-(-count // d) - user // d) * x for d, x in zip(copies[i], chosen[i], strict=True)]
    if last == int(problem.graph.windows[p]) - 1:
        program += op[i] >= op[p] + pulp.lpSum(tail)
    else:
        reached = [(last // d + 1) * x for d, x in zip(highest, chosen[p], strict=True)]
        program += op[i] >= pre_op[p] + pulp.lpSum(reached) + pulp.lpSum(tail)


def _solve(problem: Problem, stop: Stop, seed: int, solver: str) -> Candidate:
    model = build(problem)
    answer = milp_solvers.SOLVERS[solver](model.program, stop, seed)
    if not answer.has_solution:
        raise SolverError(f"{solver} found no allocation ({answer.status}): give it more --work or time")
    replication = np.array(
        [useful[int(np.argmax([x.value() or 0.0 for x in choice]))]
         for useful, choice in zip(model.copies, model.chosen, strict=True)],
        dtype=np.int64,
    )  # fmt: skip
    if not problem.fits(replication):
        raise SolverError(f"{solver} returned an allocation that does not fit the budget")
    bound = math.ceil(answer.bound - 1e-6 * max(1.0, abs(answer.bound)))
    return Candidate(replication, max(1, bound), _words(solver, answer, bound), answer.seconds)


def _words(solver: str, answer: Answer, bound: int) -> str:
    what = "solved to optimality" if answer.optimal else f"stopped ({answer.status})"
    return f"separable MILP by {solver}, {what}: no allocation takes less than {bound} steps in its model"


HIGHS = Method(
    "milp",
    solve_highs,
    minimises="the separable recurrence, by HiGHS",
    source="docs/sources/model.md 5 and 6",
    proves="its optimum if the solver finishes; else the solver's bound",
)
CBC = Method(
    "milp-cbc",
    solve_cbc,
    minimises="the separable recurrence, by CBC",
    source="docs/sources/model.md 5 and 6",
    proves="its optimum if the solver finishes; else the solver's bound",
    compared=False,
)
