"""`pareto`: what every number of arrays can buy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rramalloc.errors import SolverError, SpecError, UnsupportedError
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.options import DEFAULT_MAPPING, MappingOptions
from rramalloc.network.network import Network
from rramalloc.results.allocation import NetworkId
from rramalloc.results.check import recheck, recheck_placement
from rramalloc.results.optimize import Request, counting_warnings, hardware_warnings, make_problem, propose
from rramalloc.search import front, interval_front, latency_front
from rramalloc.search.front import Front, Point, Progress
from rramalloc.search.problem import Problem, Stop
from rramalloc.studies.pareto_front import (
    BaselinePoint,
    FrontObjective,
    FrontPoint,
    ParetoFront,
    ParetoOptions,
)
from rramalloc.timing.access import Absolute, StepTime
from rramalloc.timing.simulate import Timing, simulate
from rramalloc.version import __version__

DEFAULT_BASELINES = ("uniform", "proportional", "bottleneck", "lagrange", "gain")
"""Quick ones that people use: drawn beside the front."""
_BASELINE_BUDGETS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Quest:
    """Which front is wanted; baselines: methods to put beside it."""

    mapping: MappingOptions = DEFAULT_MAPPING
    objective: FrontObjective = "makespan"
    seed: int = 0
    baselines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class _Measure:
    """What an allocation is worth. moves: whether the length of a step depends on the allocation."""

    objective: FrontObjective
    step_time: StepTime | None
    moves: bool

    @classmethod
    def of(cls, objective: FrontObjective, step_time: StepTime | None) -> _Measure:
        """Raises SpecError."""
        if objective == "latency_ns" and step_time is None:
            raise SpecError(
                "objective", "'latency_ns' needs hardware with [timing]; use 'makespan' for steps"
            )
        return cls(objective, step_time, step_time is not None and bool(step_time.access_ns_per_copy.any()))

    @property
    def in_steps(self) -> bool:
        """Whether values are whole steps; ns if not."""
        return self.objective == "makespan" or (self.objective == "interval" and not self.moves)

    def value(self, timing: Timing) -> int | float:
        """The objective of an allocation."""
        steps = timing.interval if self.objective == "interval" else timing.makespan
        if self.in_steps or self.step_time is None:
            return steps
        return steps * self.step_time.step_ns(timing.replication)

    def bound(self, point: Point, value: int | float) -> int | float:
        """The bound of a point in the unit of values."""
        if self.in_steps:
            return int(point.lower_bound)
        return min(float(value), value * (point.lower_bound / point.value))


def pareto(
    network: Network, hardware: Hardware, arrays: int, quest: Quest, stop: Stop,
    on_progress: Progress | None = None,
) -> ParetoFront:  # fmt: skip
    """All non-dominated points of (arrays, objective) up to `arrays`, each with a bound.

    Raises BudgetError, SpecError, UnknownNameError; SolverError if a point does not survive the check.
    Source: MODEL.md 8, objective `pareto`.
    """
    problem = make_problem(network, hardware, arrays, quest.mapping)
    measure = _Measure.of(quest.objective, problem.step_time)
    found = _solve(problem, measure, quest.seed, stop, on_progress)
    points = tuple(_checked(problem, measure, point) for point in found.points)
    return ParetoFront(
        rramalloc_version=__version__,
        network=NetworkId.of(network),
        hardware=hardware,
        options=ParetoOptions(
            **dict(quest.mapping), work=stop.work, time_limit_s=stop.time_limit_s, gap=stop.gap,
        ),
        objective=quest.objective,
        unit="steps" if measure.in_steps else "ns",
        seed=quest.seed,
        budget=arrays,
        minimum=problem.minimum,
        proven=sum(point.gap == 0 for point in points),
        resolution=found.resolution,
        seconds=round(found.seconds, 6),
        points=points,
        baselines=tuple(_beside(problem, measure, quest, points)),
        warnings=(*network.warnings, *hardware_warnings(hardware, arrays),
            *counting_warnings(network, problem.graph, hardware, quest.mapping, arrays), *_warnings(found)),
    )  # fmt: skip


def _solve(problem: Problem, measure: _Measure, seed: int, stop: Stop, on_progress: Progress | None) -> Front:
    """The front of the objective; in steps wherever steps all have one length."""
    if measure.objective == "interval":
        return interval_front.solve(problem, measure.step_time if measure.moves else None)
    if measure.objective == "latency_ns" and measure.moves and measure.step_time is not None:
        return latency_front.solve(problem, measure.step_time, stop, seed, on_progress)
    return front.solve(problem, stop, seed, on_progress)


def _checked(problem: Problem, measure: _Measure, point: Point) -> FrontPoint:
    """Simulate a point anew and judge it with code that no search shares."""
    graph = problem.graph
    timing = simulate(graph, point.replication)
    bound_steps = int(point.lower_bound) if measure.objective == "makespan" else 1
    recheck(timing, problem.demand.tolist(), problem.budget, bound_steps, "pareto")
    if problem.tiles is not None:
        recheck_placement(problem.tiles, problem.demand, timing.replication, "pareto")
    value, absolute = measure.value(timing), Absolute.of(problem.step_time, timing)
    bound = measure.bound(point, value)
    return FrontPoint(
        arrays=problem.arrays(timing.replication),
        makespan=timing.makespan,
        interval=timing.interval,
        step_ns=absolute.step_ns,
        latency_ns=absolute.latency_ns,
        value=value,
        lower_bound=bound,
        gap=(value - bound) / value,
        replication={graph.names[stage]: int(timing.replication[stage]) for stage in graph.network_order},
    )


def _beside(
    problem: Problem, measure: _Measure, quest: Quest, points: Sequence[FrontPoint]
) -> Iterator[BaselinePoint]:
    """What other methods come to at some of the front's budgets; left out where they do not apply."""
    chosen = sorted({round(place) for place in np.linspace(0, len(points) - 1, _BASELINE_BUDGETS)})
    for method in quest.baselines:
        for place in chosen:
            budget = points[place].arrays
            request = Request(mapping=quest.mapping, method=method, seed=quest.seed)
            try:
                found = propose(replace(problem, budget=budget), request, Stop())
            except (SolverError, UnsupportedError):
                continue
            timing = simulate(problem.graph, found.replication)
            yield BaselinePoint(
                method=method, budget=budget, arrays=problem.arrays(found.replication),
                makespan=timing.makespan, value=measure.value(timing),
            )  # fmt: skip


def _warnings(found: Front) -> Iterator[str]:
    if found.resolution > 1:
        yield f"the range of budgets is wide: of {found.resolution} numbers of arrays one point is kept"
