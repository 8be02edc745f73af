"""PuLP's CBC on the model of `milp`: solved in a process of its own, its bound and status read from its log.

PuLP 3 brings CBC, PuLP 4 does not.
"""

from __future__ import annotations

import importlib.util
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rramalloc.methods.milp import SolverAnswer
    from rramalloc.search.work import Work

NODES_PER_WORK = 100
HAS_CBC = importlib.util.find_spec("pulp.apis.coin_api") is not None


def run_cbc(program: Any, stop: Work, seed: int) -> SolverAnswer:
    """Solve on one thread within the work and time of `stop`. Raises ImportError without PuLP's CBC."""
    import pulp
    from pulp.apis.coin_api import pulp_cbc_path

    from rramalloc.methods.milp import SolverAnswer

    with tempfile.TemporaryDirectory(prefix="rramalloc-") as folder:
        log = Path(folder) / "cbc.log"
        seeds = ("randomSeed", "randomCbcSeed")
        solver = pulp.COIN_CMD(
            path=pulp_cbc_path,
            logPath=str(log),
            msg=False,
            threads=1,
            timeLimit=stop.time_limit_s,
            gapRel=stop.gap,
            maxNodes=max(1, stop.work * NODES_PER_WORK),
            options=[f"{name} {seed % 2**31}" for name in seeds],
        )
        program.solve(solver)
        text = log.read_text(errors="replace") if log.exists() else ""
    optimal = "Result - Optimal solution found" in text
    feasible = program.sol_status in (pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible)
    bounds = re.findall(r"^(?:Lower bound|Objective value):\s+(-?[0-9.eE+]+)", text, re.MULTILINE)
    limits = re.findall(r"^Lower bound:\s+(-?[0-9.eE+]+)", text, re.MULTILINE)
    bound = float(limits[-1]) if limits else float(bounds[-1]) if optimal and bounds else 0.0
    stopped = re.findall(r"^Result - (.+)$", text, re.MULTILINE)
    return SolverAnswer("CBC", feasible, optimal, bound, stopped[-1].lower() if stopped else "no result")
