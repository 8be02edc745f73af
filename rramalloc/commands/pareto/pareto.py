"""`pareto`: the front of arrays against an objective, or of two objectives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Unpack

import numpy as np

from rramalloc.allocation.allocation import SearchOptions
from rramalloc.allocation.case import ArraysLike, Case
from rramalloc.allocation.case_arguments import CaseArguments
from rramalloc.allocation.check import check_answer, recheck_bound
from rramalloc.allocation.goes_with import check_command, check_option
from rramalloc.allocation.optimize import objective_of, on_units_of, propose
from rramalloc.allocation.question import Question
from rramalloc.choices import FRONT_WORK, FrontAgainst, FrontObjective, shown_by
from rramalloc.commands.pareto.pareto_front import BaselinePoint, FrontPoint, ParetoFront
from rramalloc.errors import SolverError, SpecError, UnsupportedError
from rramalloc.importers import NetworkLike
from rramalloc.methods.registry import method_names
from rramalloc.progress import followed
from rramalloc.records import check_effort, check_known
from rramalloc.search.front import FrontProgress, Point
from rramalloc.search.links import alone, placed_front, quantity_with_links
from rramalloc.search.objective import QUANTITIES, Objective, Quantity, TimeObjective, capped_bound, gap_of
from rramalloc.search.problem import Answer
from rramalloc.search.work import Work
from rramalloc.timing.access import Absolute
from rramalloc.timing.figures import totals
from rramalloc.units import number_of

DEFAULT_BASELINES = ("uniform", "proportional", "bottleneck", "lagrange", "gain")
"""Quick methods in common use, drawn next to the front."""
_NO_BASELINES = "no methods are put beside a front of several kinds of arrays"
_BASELINE_BUDGETS = 16  # budgets along the front at which the quick methods are evaluated


def pareto(
    network: NetworkLike,
    arrays: ArraysLike | None = None,
    *,
    objective: FrontObjective = "makespan",
    against: FrontAgainst = "arrays",
    placed: bool = False,
    baselines: Sequence[str] = (),
    seed: int = 0,
    work: int = FRONT_WORK,
    time_limit_s: float | None = None,
    on_progress: FrontProgress | None = None,
    progress: bool = True,
    stop: Work | None = None,
    **given: Unpack[CaseArguments],
) -> ParetoFront:
    """Find all non-dominated points of arrays and latency up to a budget, each with its bound.

    Parameters
    ----------
    network
        A Network, a file, or the name of a shipped network.
    arrays
        The budget: 2048, "x2" for twice the minimum, None for those of the chip or of its kinds, or {"small":
        512} of kinds. Points of kinds are of the area where the hardware gives it for every kind, else of the
        arrays in total.
    objective
        "makespan" in steps, "latency" or "interval" as of `optimize`, "latency_ns", which needs [timing], or
        "energy", "edp" or "area", which need [energy].
    against
        "arrays", or another of these.
    placed
        Place the points one by one, and count the transfer between their tiles; those then dominated go. As
        transfers make steps longer, the makespan then is the latency.
    baselines
        Methods to put beside the front.
    seed
        Of what the search draws.
    work
        Units of search for the whole front, 0.05 s each on a reference core.
    time_limit_s
        Seconds by the clock after which the search ends; the result then depends on the machine.
    on_progress
        Called with (points, part of the work).
    progress
        Show a line in a notebook.
    stop
        Replaces work and time_limit_s.

    Returns
    -------
    ParetoFront
        The points, each with its allocation and its bound.

    Raises
    ------
    RramallocError
        BudgetError, FileError, SpecError, UnknownNameError; SolverError if a point does not survive the
        check.

    References
    ----------
    docs/sources/model.md 8 and 18.
    """
    check_known("objective", objective, shown_by("pareto"))
    check_known("against", against, shown_by("against"))
    if against.removesuffix("_ns") == objective.removesuffix("_ns"):
        raise SpecError("against", f"is the objective itself, {objective!r}: put it against another quantity")
    for method in baselines:
        check_known("method", method, method_names())
    check_effort(seed, work, time_limit_s)
    if placed and objective == "makespan":  # in steps, which transfers make longer
        objective = "latency"
    ending = stop or Work(work=work, time_limit_s=time_limit_s)
    case = Case.of(network, given, placed=placed)
    check_command("pareto", "pareto", case, Question(placed=placed))
    if "interval" in (objective, against):
        check_option("interval", case)
    with followed(on_progress, progress, progress_words) as callback:
        case, most = case.with_numbers(arrays)
        case.check_numbers(most)
        if case.network.sequences is not None:
            objective = "latency" if objective == "interval" else objective
            against = "latency" if against == "interval" else against
        problem = case.problem(most)
        across, along = (quantity_with_links(problem, QUANTITIES[name]) for name in (against, objective))
        if against == "arrays" and across.unit == "um2":  # what several kinds of arrays cost
            against = "area"
            if objective == "area":
                raise SpecError("against", "kinds of arrays are counted by their area, the objective itself")
        front = placed_front(across, along, ending, seed, callback)
        pairs = zip(front.points, front.proven, strict=True)
        points = tuple(_checked(across, along, point, most, proven=proven) for point, proven in pairs)
        several = case.hardware.kinds is not None
        asked = [Question(method=method, seed=seed) for method in baselines if not several]
        if asked and (against != "arrays" or not isinstance(alone(along), TimeObjective)):
            raise SpecError("baselines", "are put beside fronts of arrays and a time")
        left_out = [_NO_BASELINES] if several and baselines else []
        beside = tuple[BaselinePoint, ...]()
        if isinstance(along, Objective) and isinstance(alone(along), TimeObjective):
            beside = tuple(_beside(along, asked, points, ending))
    wide = list[str]()
    if front.resolution > 1:
        wide.append(
            f"the range of budgets is wide: of {front.resolution} numbers of arrays one point is kept"
        )
    return ParetoFront(
        **case.about(units=on_units_of(case.hardware, points)),
        options=SearchOptions.gather(ending, **case.options),
        objective=objective,
        unit=along.unit,
        against=against,
        against_unit=across.unit,
        seed=seed,
        budget=case.most_arrays(most),
        minimum=problem.minimum if case.hardware.kinds is None else None,
        proven=sum(point.proven for point in points),
        resolution=front.resolution,
        work_s=round(ending.spent_s, 6),
        points=points,
        baselines=beside,
        warnings=(
            *case.warnings(most),
            *wide,
            *left_out,
        ),
    )


def progress_words(points: int, part: float) -> str:
    """Return the line of `pareto`."""
    return f"{number_of(points, 'point')}, {part:.0%} of the work"


def _checked(across: Quantity, along: Quantity, point: Point, most: int, *, proven: bool) -> FrontPoint:
    """Simulate a point again and check it with code that no search shares. most: arrays allowed."""
    problem, found = along.problem, point.found
    checked = check_answer(problem, Answer(found, 1, ""), most, "pareto")
    timing = checked.timing
    value, absolute = along.value_of(timing), Absolute.of(checked.problem.step_time, timing)
    bound = capped_bound(value, point.lower_bound)
    recheck_bound(value, bound, along.unit, "pareto")
    against = {} if across.unit == "arrays" else {"against_value": across.value_of(timing)}
    return FrontPoint.gather(
        absolute,
        checked,
        timing,
        **totals(checked.problem.metrics(timing), absolute, timing.graph),
        **against,
        arrays=checked.used,
        value=value,
        lower_bound=bound,
        gap=gap_of(value, bound),
        proven=proven,
        block=checked.blocks,
    )


def _beside(
    objective: Objective, requests: Sequence[Question], points: Sequence[FrontPoint], stop: Work
) -> Iterator[BaselinePoint]:
    """Yield the results of other methods at some of the front's budgets; methods that do not apply are left
    out."""
    problem = objective.problem
    chosen = sorted({round(place) for place in np.linspace(0, len(points) - 1, _BASELINE_BUDGETS)})
    for request in requests:
        for place in chosen:
            most = points[place].arrays
            try:
                with_budget = objective_of(replace(problem, budget=most), request)
                answer = propose(with_budget, request, stop.nested(FRONT_WORK))
            except (SolverError, UnsupportedError):
                continue
            checked = check_answer(problem, answer, problem.budget, request.method)
            yield BaselinePoint(
                method=request.method,
                budget=most,
                arrays=checked.used,
                makespan=checked.timing.makespan,
                value=objective.value_of(checked.timing),
            )
