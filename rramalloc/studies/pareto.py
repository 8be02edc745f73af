"""`pareto`: what every number of arrays can buy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rramalloc.choices import FrontObjective
from rramalloc.errors import SolverError, UnsupportedError
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.options import DEFAULT_MAPPING, MappingOptions
from rramalloc.network.coverage import Coverage
from rramalloc.network.network import Network
from rramalloc.results.allocation import NetworkId
from rramalloc.results.optimize import Request, input_warnings, make_problem, propose
from rramalloc.results.pareto_front import (
    BaselinePoint,
    FrontPoint,
    ParetoFront,
    ParetoOptions,
)
from rramalloc.results.recheck import check_candidate, recheck_bound
from rramalloc.search.front import Front, Point, Progress
from rramalloc.search.objective import FRONTS, Objective, gap_of
from rramalloc.search.problem import Candidate, Stop
from rramalloc.timing.access import Absolute
from rramalloc.timing.metrics import totals
from rramalloc.version import __version__

DEFAULT_BASELINES = ("uniform", "proportional", "bottleneck", "lagrange", "gain")
"""Quick ones that people use: drawn beside the front."""
_BASELINE_BUDGETS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ParetoRequest:
    """Which front is wanted; baselines: methods to put beside it."""

    mapping: MappingOptions = DEFAULT_MAPPING
    objective: FrontObjective = "makespan"
    seed: int = 0
    baselines: tuple[str, ...] = ()


def pareto(
    network: Network, hardware: Hardware, arrays: int, request: ParetoRequest, stop: Stop,
    on_progress: Progress | None = None,
) -> ParetoFront:  # fmt: skip
    """All non-dominated points of (arrays, objective) up to `arrays`, each with a bound.

    Raises BudgetError, SpecError, UnknownNameError; SolverError if a point does not survive the check.
    Source: docs/sources/model.md 8, objective `pareto`.
    """
    problem = make_problem(network, hardware, arrays, request.mapping)
    objective = FRONTS[request.objective](problem)
    found = objective.front(stop, request.seed, on_progress)
    points = tuple(_checked(objective, point) for point in found.points)
    return ParetoFront(
        rramalloc_version=__version__,
        network=NetworkId.of(network),
        hardware=hardware,
        options=ParetoOptions(
            **dict(request.mapping), work=stop.work, time_limit_s=stop.time_limit_s, gap=stop.gap,
        ),
        objective=request.objective,
        unit=objective.unit,
        seed=request.seed,
        budget=arrays,
        minimum=problem.minimum,
        proven=sum(point.gap == 0 for point in points),
        resolution=found.resolution,
        seconds=round(found.seconds, 6),
        points=points,
        baselines=tuple(_beside(objective, request, points)),
        coverage=Coverage.of(network, problem.graph.names),
        warnings=(
            *input_warnings(network, problem.graph, hardware, request.mapping, arrays), *_warnings(found),
        ),
    )  # fmt: skip


def _checked(objective: Objective, point: Point) -> FrontPoint:
    """Simulate a point anew and check it with code that no search shares."""
    problem = objective.problem
    checked = check_candidate(
        problem, Candidate(point.replication, 1, "", blocks=point.blocks), problem.budget, "pareto"
    )
    timing = checked.timing
    value, absolute = objective.value(timing), Absolute.of(checked.problem.step_time, timing)
    bound = objective.bound_of_point(point, value)
    recheck_bound(value, bound, objective.unit, "pareto")
    return FrontPoint(
        arrays=checked.used,
        makespan=timing.makespan,
        interval=timing.interval,
        step_ns=absolute.step_ns,
        latency_ns=absolute.latency_ns,
        **totals(checked.problem.metrics(timing)),
        value=value,
        lower_bound=bound,
        gap=gap_of(value, bound),
        replication=checked.replication,
        block=checked.blocks,
    )


def _beside(
    objective: Objective, request: ParetoRequest, points: Sequence[FrontPoint]
) -> Iterator[BaselinePoint]:
    """What other methods come to at some of the front's budgets; left out where they do not apply."""
    problem = objective.problem
    chosen = sorted({round(place) for place in np.linspace(0, len(points) - 1, _BASELINE_BUDGETS)})
    for method in request.baselines:
        for place in chosen:
            budget = points[place].arrays
            wanted = Request(mapping=request.mapping, method=method, seed=request.seed)
            try:
                found = propose(replace(problem, budget=budget), wanted, Stop())
            except (SolverError, UnsupportedError):
                continue
            checked = check_candidate(problem, found, problem.budget, method)
            yield BaselinePoint(
                method=method, budget=budget, arrays=checked.used, makespan=checked.timing.makespan,
                value=objective.value(checked.timing),
            )  # fmt: skip


def _warnings(found: Front) -> Iterator[str]:
    if found.resolution > 1:
        yield f"the range of budgets is wide: of {found.resolution} numbers of arrays one point is kept"
