"""`pareto`: what every number of arrays can buy."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from rramalloc.allocation.allocation import NetworkId
from rramalloc.allocation.budgets import budget, minimum_arrays
from rramalloc.allocation.check import check_candidate, recheck_bound
from rramalloc.allocation.optimize import Request, input_warnings, make_problem, propose
from rramalloc.choices import (
    FRONT_AGAINST,
    FRONT_OBJECTIVES,
    FrontAgainst,
    FrontObjective,
    FullyConnected,
    Mapping,
)
from rramalloc.commands.pareto.pareto_front import BaselinePoint, FrontPoint, ParetoFront, ParetoOptions
from rramalloc.errors import SolverError, SpecError, UnsupportedError
from rramalloc.hardware.loader import DEFAULT_PRESET, CrossbarLike, HardwareLike, as_hardware
from rramalloc.importers import InputShapes, NetworkLike, as_network
from rramalloc.mapping.options import DEFAULT_MAPPING
from rramalloc.methods.registry import method_names
from rramalloc.network.coverage import Coverage
from rramalloc.progress import followed, of_front
from rramalloc.records import check_effort, check_known
from rramalloc.search.front import DEFAULT_WORK, Front, Point, Progress
from rramalloc.search.objective import (
    FRONTS,
    Interval,
    LatencyNs,
    LeastEdp,
    LeastEnergy,
    Makespan,
    Objective,
    gap_of,
    within,
)
from rramalloc.search.problem import Candidate, Problem, Stop
from rramalloc.timing.access import Absolute
from rramalloc.timing.measured_steps import LatencyTableLike, measured_steps
from rramalloc.timing.metrics import totals
from rramalloc.units import Unit
from rramalloc.version import __version__

DEFAULT_BASELINES = ("uniform", "proportional", "bottleneck", "lagrange", "gain")
"""Quick methods in common use, drawn next to the front."""
_BASELINE_BUDGETS = 16


def pareto(
    network: NetworkLike,
    arrays: int | str,
    *,
    objective: FrontObjective = "makespan",
    against: FrontAgainst = "arrays",
    hardware: HardwareLike = DEFAULT_PRESET,
    crossbar: CrossbarLike | None = None,
    mapping: Mapping = "im2col",
    fold: bool = False,
    fc: FullyConnected = "host",
    baselines: Sequence[str] = (),
    seed: int = 0,
    work: int = DEFAULT_WORK,
    time_limit_s: float | None = None,
    latency_table: LatencyTableLike | None = None,
    input_shapes: InputShapes | None = None,
    allow_partial: bool = False,
    on_progress: Progress | None = None,
    progress: bool = True,
    stop: Stop | None = None,
) -> ParetoFront:
    """All non-dominated points of (arrays, objective) up to a budget such as 2048 or "x2", each with a bound.

    objective: makespan or interval in steps, latency_ns, which needs [timing], or energy, edp or area, which
    need [energy]; against: arrays, or another of these; baselines: methods to put beside the front; work:
    units of search for the whole front; latency_table: measured step times, or their file; progress: show a
    line in a notebook; stop: replaces work and time_limit_s.
    Raises RramallocError: BudgetError, FileError, SpecError, UnknownNameError; SolverError if a point does
    not survive the check.
    Source: docs/sources/model.md 8, objective `pareto`.
    """
    mapped = DEFAULT_MAPPING.changed(mapping=mapping, fc=fc, fold=fold)
    check_known("objective", objective, FRONT_OBJECTIVES)
    check_known("against", against, FRONT_AGAINST)
    for method in baselines:
        check_known("method", method, method_names())
    check_effort(seed, work, time_limit_s)
    ending = stop or Stop(work=work, time_limit_s=time_limit_s)
    source = as_network(network, input_shapes, allow_partial=allow_partial)
    machine = as_hardware(hardware, crossbar)
    measured = measured_steps(latency_table, source, fc, machine)
    with followed(on_progress, progress, of_front) as callback:
        most = budget(arrays, minimum_arrays(source, machine, mapped))
        problem = make_problem(source, machine, most, mapped, measured=measured)
        against_unit: Unit = "arrays"
        beside: tuple[BaselinePoint, ...] = ()
        if against == "arrays" and objective in FRONTS:
            along = FRONTS[objective](problem)
            front = along.front(ending, seed, callback)
            points, unit = tuple(_checked(along, point) for point in front.points), along.unit
            asked = [Request(mapping=mapped, method=method, seed=seed) for method in baselines]
            beside = tuple(_beside(along, asked, points, ending))
        else:
            pair = QuantityPair.of(problem, against, objective, ending)
            front, points = pair.front(ending, seed, callback)
            unit, against_unit = pair.along.unit, pair.across.unit
            if baselines:
                raise SpecError(
                    "baselines", "are put beside fronts of arrays and makespan, interval or latency_ns"
                )
    return ParetoFront(
        rramalloc_version=__version__,
        network=NetworkId.of(source),
        hardware=machine,
        options=ParetoOptions(
            **dict(mapped),
            work=ending.work,
            time_limit_s=ending.time_limit_s,
            gap=ending.gap,
            latency_table=measured,
        ),
        objective=objective,
        unit=unit,
        against=against,
        against_unit=against_unit,
        seed=seed,
        budget=most,
        minimum=problem.minimum,
        proven=sum(point.gap == 0 for point in points),
        resolution=front.resolution,
        seconds=round(front.seconds, 6),
        points=points,
        baselines=beside,
        coverage=Coverage.of(source, problem.graph.names),
        warnings=(
            *input_warnings(problem.graph, machine, mapped, most, measured),
            *_warnings(front),
        ),
    )


def _checked(objective: Objective, point: Point) -> FrontPoint:
    """Simulate a point again and check it with code that no search shares."""
    problem = objective.problem
    checked = check_candidate(
        problem, Candidate(point.replication, 1, "", blocks=point.blocks), problem.budget, "pareto"
    )
    timing = checked.timing
    value, absolute = objective.value(timing), Absolute.of(checked.problem.step_time, timing)
    bound = objective.bound_of_point(point, value)
    recheck_bound(value, bound, objective.unit, "pareto")
    return FrontPoint.gather(
        absolute,
        checked,
        timing,
        **totals(checked.problem.metrics(timing)),
        arrays=checked.used,
        value=value,
        lower_bound=bound,
        gap=gap_of(value, bound),
        block=checked.blocks,
    )


class Quantity(NamedTuple):
    """One axis of a front. of: its value at a point, None where it is not given; floor: what no allocation
    undercuts that has at least so many arrays, at most so many, and takes at least so many ns.
    """

    unit: Unit
    of: Callable[[FrontPoint], float | None]
    floor: Callable[[int, int, float], float]


@dataclass(frozen=True, eq=False)
class QuantityPair:
    """The front of any two quantities that rise with arrays and latency, and the interval.

    An allocation that is dominated in arrays and latency is dominated in every such pair: the front of a pair
    is a part of the front of arrays and latency. Its bounds follow from those of the ranges of arrays.
    """

    problem: Problem
    latency: Objective
    across: Quantity
    along: Quantity
    interval: Front | None

    @classmethod
    def of(cls, problem: Problem, across: str, along: str, stop: Stop) -> QuantityPair:
        """Raises SpecError for the same quantity twice, or one that the hardware does not give."""
        if across == along:
            raise SpecError("against", f"is the objective itself, {along!r}: put it against another quantity")
        latency: Objective = (Makespan if problem.step_time is None else LatencyNs)(problem)
        interval = Interval(problem) if "interval" in (across, along) else None
        least = None if interval is None else interval.front(stop.nested(stop.work), 0, None)
        first, second = (_quantity(problem, name, latency, interval, least) for name in (across, along))
        return cls(problem, latency, first, second, least)

    def front(
        self, stop: Stop, seed: int, on_progress: Progress | None
    ) -> tuple[Front, tuple[FrontPoint, ...]]:
        """The front of arrays and latency that was searched for, and the points of the pair."""
        front = self.latency.front(stop, seed, on_progress)
        timed = [_checked(self.latency, point) for point in front.points]
        untils = [point.arrays - 1 for point in timed[1:]] + [self.problem.budget]
        lows = [self.problem.minimum, *(until + 1 for until in untils)]
        cells = [
            (low, until, point.lower_bound) for low, until, point in zip(lows, untils, timed, strict=False)
        ]
        more = [] if self.interval is None else self.interval.points
        every = timed + [_checked(self.latency, point._replace(lower_bound=0)) for point in more]
        kept: list[tuple[float, float, FrontPoint]] = []
        for x, y, point in sorted(self._values(every), key=lambda value: (*value[:2], value[2].arrays)):
            if not kept or y < kept[-1][1] * (1 - 1e-9):
                kept.append((x, y, point))
        floors = sorted((self.across.floor(*cell), self.along.floor(*cell)) for cell in cells)
        ends = [x for x, _, _ in kept[1:]] + [math.inf]
        points = [
            self._bounded(point, x, y, min((low for at, low in floors if at < end), default=y))
            for (x, y, point), end in zip(kept, ends, strict=True)
        ]
        return front, tuple(points)

    def _values(self, points: Sequence[FrontPoint]) -> Iterator[tuple[float, float, FrontPoint]]:
        for point in points:
            x, y = self.across.of(point), self.along.of(point)
            if x is not None and y is not None:
                yield x, y, point

    def _bounded(self, point: FrontPoint, x: float, y: float, bound: float) -> FrontPoint:
        least = within(y, math.ceil(bound * (1 - 1e-9)) if isinstance(y, int) else bound)
        least = min(y, least)
        changed = {"value": y, "lower_bound": least, "gap": gap_of(y, least)}
        against = {} if self.across.unit == "arrays" else {"against_value": x}
        return point.model_copy(update=changed | against)


def _quantity(
    problem: Problem, name: str, latency: Objective, interval: Objective | None, least: Front | None
) -> Quantity:
    """An axis by its name. Raises SpecError for what the hardware does not give."""
    model, step_time = problem.energy, problem.step_time
    if name == "arrays":
        return Quantity("arrays", lambda point: point.arrays, lambda few, many, ns: few)
    if name == "makespan" and step_time is not None:
        longest_ns = step_time.compute_ns if not step_time.depends_on_copies else math.inf
        return Quantity(
            problem.time_unit, lambda point: point.makespan, lambda few, many, ns: ns / longest_ns
        )
    if name in ("makespan", "latency_ns") and latency.name == name:
        taken = "makespan" if problem.step_time is None else "latency_ns"
        return Quantity(latency.unit, lambda point: getattr(point, taken), lambda few, many, ns: ns)
    if name == "interval" and interval is not None and least is not None:
        bounds = [interval.bound_of_point(point, point.value) for point in least.points]
        used = [problem.arrays(point.replication, point.blocks) for point in least.points]
        in_ns = interval.unit == "ns"
        return Quantity(
            interval.unit,
            lambda point: point.interval * (point.step_ns or 0.0) if in_ns else point.interval,
            lambda few, many, ns: bounds[max(bisect_right(used, many) - 1, 0)],
        )
    given = model is not None and model.energy.area_um2 is not None
    if name == "area" and model is not None and given:
        return Quantity("um2", lambda point: point.area_um2, lambda few, many, ns: model.area_um2(few) or 0.0)
    if name in ("energy", "edp"):
        kind = LeastEnergy if name == "energy" else LeastEdp
        floor = kind(problem).floor
        field = "energy_pj" if name == "energy" else "edp"
        return Quantity(kind.unit, lambda point: getattr(point, field), lambda few, many, ns: floor(few, ns))
    needed = "area_um2 in [energy]" if name == "area" else "[timing] or a latency table"
    raise SpecError("objective", f"{name!r} needs a hardware with {needed}")


def _beside(
    objective: Objective, requests: Sequence[Request], points: Sequence[FrontPoint], stop: Stop
) -> Iterator[BaselinePoint]:
    """Results of other methods at some of the front's budgets; methods that do not apply are left out."""
    problem = objective.problem
    chosen = sorted({round(place) for place in np.linspace(0, len(points) - 1, _BASELINE_BUDGETS)})
    for request in requests:
        for place in chosen:
            most = points[place].arrays
            try:
                candidate = propose(replace(problem, budget=most), request, stop.nested(DEFAULT_WORK))
            except (SolverError, UnsupportedError):
                continue
            checked = check_candidate(problem, candidate, problem.budget, request.method)
            yield BaselinePoint(
                method=request.method,
                budget=most,
                arrays=checked.used,
                makespan=checked.timing.makespan,
                value=objective.value(checked.timing),
            )


def _warnings(front: Front) -> Iterator[str]:
    if front.resolution > 1:
        yield f"the range of budgets is wide: of {front.resolution} numbers of arrays one point is kept"
