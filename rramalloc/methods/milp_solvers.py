"""CBC and HiGHS behind one adapter that says honestly what was proven.

PuLP reports a time-limited incumbent as "Optimal" and does not hand on the solver's bound; both are
read here from the place where each solver keeps them.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulp
from pulp.apis.coin_api import pulp_cbc_path

from rramalloc.errors import SolverError
from rramalloc.search.problem import Stop

_NODES_PER_WORK = 100
_ENTRIES_PER_WORK = 100_000
"""Entries of the matrix times nodes of HiGHS: a node costs in proportion to the model's size."""
_MOST_NODES = 2**31 - 1
_SECONDS_PER_ENTRY = 5e-8
"""An iteration of HiGHS in seconds of a reference core, per entry of the matrix (measured, within a half)."""


@dataclass(frozen=True, slots=True)
class SolverAnswer:
    """What a solver achieved.

    bound: no solution of the program has a smaller objective; seconds: work counted in seconds of a
    reference core, None if the solver does not report it.
    """

    has_solution: bool
    optimal: bool
    bound: float
    status: str
    seconds: float | None = None


def run_highs(program: pulp.LpProblem, stop: Stop, seed: int) -> SolverAnswer:
    """Solve with HiGHS in this process, on one thread so that equal runs give equal answers.

    Without presolve: with it, HiGHS 1.14 calls solutions optimal that are not.
    """
    entries = sum(map(len, program.constraints()))
    nodes = min(max(1, stop.work * _ENTRIES_PER_WORK // max(1, entries)), _MOST_NODES)
    options = {"presolve": "off", "random_seed": seed % 2**31, "mip_max_nodes": nodes}
    solver = pulp.HiGHS(**_until(stop), **options)
    with contextlib.suppress(KeyError):  # PuLP has no name for some limits; the solution is in place by then
        program.solve(solver)
    info = program.solverModel.getInfo()
    status = program.solverModel.modelStatusToString(program.solverModel.getModelStatus())
    feasible = int(info.primal_solution_status) == 2
    bound = float(info.mip_dual_bound)
    seconds = int(info.simplex_iteration_count) * entries * _SECONDS_PER_ENTRY
    return SolverAnswer(
        feasible, status == "Optimal", bound if bound > -1e20 else 0.0, status.lower(), seconds
    )


def run_cbc(program: pulp.LpProblem, stop: Stop, seed: int) -> SolverAnswer:
    """Solve with the CBC that comes with PuLP; its bound and status are read from its log."""
    with tempfile.TemporaryDirectory(prefix="rramalloc-") as folder:
        log = Path(folder) / "cbc.log"
        nodes, seeds = max(1, stop.work * _NODES_PER_WORK), ("randomSeed", "randomCbcSeed")
        options = [f"{name} {seed % 2**31}" for name in seeds]
        files = {"path": pulp_cbc_path, "logPath": str(log)}
        solver = pulp.COIN_CMD(**files, **_until(stop), maxNodes=nodes, options=options)
        if not solver.available():
            raise SolverError(
                "PuLP has no CBC for this machine: use --method milp, which solves the same model with HiGHS"
            )
        program.solve(solver)
        text = log.read_text(errors="replace") if log.exists() else ""
    optimal = "Result - Optimal solution found" in text
    feasible = program.sol_status in (pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible)
    bounds = re.findall(r"^(?:Lower bound|Objective value):\s+(-?[0-9.eE+]+)", text, re.MULTILINE)
    limits = re.findall(r"^Lower bound:\s+(-?[0-9.eE+]+)", text, re.MULTILINE)
    bound = float(limits[-1]) if limits else float(bounds[-1]) if optimal and bounds else 0.0
    stopped = re.findall(r"^Result - (.+)$", text, re.MULTILINE)
    return SolverAnswer(feasible, optimal, bound, stopped[-1].lower() if stopped else "no result")


SOLVERS: dict[str, Callable[[Any, Stop, int], SolverAnswer]] = {"HiGHS": run_highs, "CBC": run_cbc}


def _until(stop: Stop) -> dict[str, Any]:
    """What both solvers are given: silence, one thread, and when to end."""
    left_s = None if stop.time_limit_s is None else max(0.01, stop.time_limit_s - stop.seconds)
    return {"msg": False, "threads": 1, "timeLimit": left_s, "gapRel": stop.gap}
