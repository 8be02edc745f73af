"""The front of arrays and makespan, or interval: for every budget the fastest allocation, and a bound.

Budgets share what is found: a search at one budget keeps what is fastest for every number of arrays it
comes by, and a bound holds for all smaller budgets. Whole searches at budgets far apart come first; then
improving, bounding, branching, and whole searches where the gap is widest take turns over the steps of the
staircase, until all are proven or the work is used up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rramalloc.errors import BudgetError
from rramalloc.rounding import SAME_SUM
from rramalloc.search.archive import Archive, FrontStep
from rramalloc.search.auto import WarmStart, solve_to_target
from rramalloc.search.bound.boxes import Bounder, Outcome
from rramalloc.search.cores import cores
from rramalloc.search.descent import Descent
from rramalloc.search.enumeration import every_choice
from rramalloc.search.improve import LEAST_REDUCTION, Improver
from rramalloc.search.kernels.slots import NEVER
from rramalloc.search.menu import Menu, fed_by
from rramalloc.search.objective import (
    FewestArrays,
    Interval,
    Latency,
    LatencyNs,
    Makespan,
    Objective,
    Quantity,
    TimeObjective,
)
from rramalloc.search.problem import Choice, Problem
from rramalloc.search.ranges import step_time_of
from rramalloc.search.resources import Cost
from rramalloc.search.work import SECONDS_PER_WORK, Work
from rramalloc.timing.access import StepTime

_PRIMES = 7919, 104729
"""Spread the seeds of rounds and budgets."""


class Effort(NamedTuple):
    """Effort for each step: seconds of improving, nodes of branching, units of work of a whole search."""

    improve_s: float
    nodes: int
    work: int


class Done(NamedTuple):
    """Counts of front steps: attempted, improved."""

    tried: int = 0
    succeeded: int = 0


FrontTask = Callable[[Archive, Sequence[int], float, Work], Done]
"""Works on steps until a number of seconds is charged."""


@dataclass(frozen=True, eq=False)
class Tasks:
    """The tasks of one round.

    menu, bounder: of the whole problem; effort: what each step gets; seed: differs from round to round.
    """

    problem: Problem
    menu: Menu
    bounder: Bounder
    stop: Work
    effort: Effort
    seed: int

    @classmethod
    def of_round(
        cls, number: int, menu: Menu, bounder: Bounder, stop: Work, effort: Effort, seed: int
    ) -> Tasks:
        """Return the tasks of the round with that number."""
        return cls(bounder.problem, menu, bounder, stop, effort, seed + _PRIMES[0] * number)

    def improve(self, archive: Archive, budgets: Sequence[int], limit_s: float, account: Work) -> Done:
        """Anneal steps' allocations, each for a smaller makespan and for more steps before the next one."""
        for step in self._open(archive, budgets):
            if account.spent_s >= limit_s:
                break
            within, seed = self._with_budget(step.until), self._seed(step.until)
            improver = Improver(within, self.menu, seed, archive.slots, LEAST_REDUCTION, rebalancing=0.0)
            each_s = self.effort.improve_s / 2
            improved = improver.run(self._timed(archive, step), archive.bound(step), each_s, account)
            archive.propose(improved.copies, improved.makespan)
            step = archive.at(step.until)
            faster = archive.faster(step)
            if faster is None:
                continue
            least = max(archive.bound(step), faster.makespan)
            if least < step.makespan:
                target, start = least + seed % (step.makespan - least), self._timed(archive, faster)
                fewer = improver.fewer_arrays(start, target, step.arrays, each_s, account)
                archive.propose(fewer.copies, fewer.makespan)
        return Done()

    def bound(self, archive: Archive, budgets: Sequence[int], limit_s: float, account: Work) -> Done:
        """Raise bounds by propagation; budgets from the largest to the smallest, as bounds pass on."""
        price = -1
        for step in self._open(archive, budgets):
            if account.spent_s >= limit_s:
                break
            bounder = self.bounder.with_budget(step.until)
            bound, price, nodes = bounder.raised(archive.bound(step), step.makespan, price, self.stop)
            archive.raise_bound(step.until, bound)
            account.charge(nodes * bounder.node_seconds)
        return Done()

    def branch(self, archive: Archive, budgets: Sequence[int], limit_s: float, account: Work) -> Done:
        """Refute the step below the incumbent or find an allocation as fast; else try half of the gap."""
        tried, succeeded = 0, 0
        for step in self._open(archive, budgets):
            if account.spent_s >= limit_s:
                break
            tried += 1
            bounder = self.bounder.with_budget(step.until)
            targets = {step.makespan - 1, (step.makespan + archive.bound(step)) // 2 - 1}
            for target in sorted(targets - {archive.bound(step) - 1}, reverse=True):
                outcome, _, copies = bounder.decide(target, self.effort.nodes, account)
                if outcome is Outcome.REFUTED:
                    archive.raise_bound(step.until, target + 1)
                elif outcome is Outcome.FOUND:
                    archive.propose(copies, self.problem.time.makespan(copies, self.problem.graph.modes))
                if outcome is not Outcome.UNDECIDED:
                    succeeded += 1
                    break
        return Done(tried, succeeded)

    def search(self, archive: Archive, budgets: Sequence[int], limit_s: float, account: Work) -> Done:
        """Run whole searches, each with the best allocation and bound of its budget as a warm start."""
        for step in self._open(archive, budgets):
            if account.spent_s >= limit_s:
                break
            work = min(self.effort.work, math.ceil((limit_s - account.spent_s) / SECONDS_PER_WORK))
            share = self.stop.nested(work, cores=1)
            warm_start = WarmStart(archive.copies(step), archive.bound(step), archive.slots)
            within, seed = self._with_budget(step.until), self._seed(step.until)
            answer = solve_to_target(within, share, seed, 0, menu=self.menu, warm_start=warm_start)
            archive.propose(answer.choice.copies, answer.choice.makespan)
            archive.raise_bound(step.until, int(answer.lower_bound))
            account.charge(share.spent_s)
        return Done()

    def _open(self, archive: Archive, budgets: Sequence[int]) -> Iterator[FrontStep]:
        """Yield the steps at these budgets that are still open when they are reached."""
        for budget in budgets:
            step = archive.at(budget)
            if archive.bound(step) < step.makespan and not self.stop.out_of_time:
                yield step

    def _timed(self, archive: Archive, step: FrontStep) -> Choice:
        return self.problem.choice(archive.copies(step))

    def _with_budget(self, budget: int) -> Problem:
        return replace(self.problem, budget=Cost(budget))

    def _seed(self, budget: int) -> int:
        return self.seed + _PRIMES[1] * budget


_FIRST_BUDGETS = (4, 16)  # fewest and most budgets that are searched first
_FIRST_SHARE = 0.3  # of all work, for these
_LATER_BUDGETS = (2, 8)  # fewest and most budgets of the searches that end a round, where the gap is widest
_LATER_SHARE = 0.12  # of all work, for these
_LEAST_WORK = 12  # units of work of one search at least
_WORK_PER_PAIR = 4.5e-3  # units of work per pair of stages: bounds of many stages take longer
_IMPROVE_S = 0.004  # seconds of improving of a step in the first round, twice as much in every next one
_NODES = 32  # nodes of branching of a step in the first round, twice as many in every next one
_IMPROVE_SHARE = 0.5  # of the remaining work, for a round of improving
_LAST_SHARE = 0.1  # of all work, for the bounds at the end
_NARROW = 0.03  # gap up to which a step is branched on
_HOPELESS = 0.02  # part of these steps that must be closed for branching to go on
_APART = 32
"""Steps searched in one round are this part of all steps apart."""
_LEVELS = 48  # budgets, with equal ratios, at which a front over modes is looked for
_WORK_PER_LEVEL = 2  # units of work for each of them at least
_LEVELS_PART = 0.9  # of the progress shown, when all of them are searched
_LIMITS = 5  # step lengths up to which copies are looked for
_PIECES = 24  # ranges of step lengths for bounds
_BUDGETS = 64  # budgets that are bounded
_SEARCHING = 0.8
"""Part of the work for finding allocations whose steps differ in length; the rest is for bounds."""
_BASE_SHARE = 0.6
"""Part of the work for the front of arrays and latency, of which any other is a part or nearly one."""
_SINGLE_SHARE = 0.1
"""Part of the work for the best allocation in each of the two quantities, where a front ends."""
_LOCAL_SHARE = 0.2
"""Part of the work for neighbours of what is not dominated."""


class Point(NamedTuple):
    """An allocation on a front.

    across, value: the two quantities; lower_bound: nothing with a smaller `across` than the next point has a
    smaller value.
    """

    found: Choice
    across: float
    value: float
    lower_bound: float


@dataclass(frozen=True, slots=True, eq=False)
class Front:
    """Points with rising first and falling second quantity.

    resolution: arrays within which only one point is kept, 1 unless the range is very wide; before: nothing
    with less of the first quantity than the first point has a smaller value, infinity where there is nothing.
    """

    points: tuple[Point, ...]
    resolution: int
    before: float = math.inf

    @property
    def proven(self) -> tuple[bool, ...]:
        """Whether each is proven in both: no value is smaller up to the next, and before it all are larger.

        Source: docs/sources/model.md 8, `pareto`.
        """
        befores = [self.before, *(point.lower_bound for point in self.points)]
        return tuple(
            point.lower_bound >= point.value * (1 - SAME_SUM) and before > point.value * (1 + SAME_SUM)
            for point, before in zip(self.points, befores, strict=False)
        )


FrontProgress = Callable[[int, float], None]
"""Called with (points so far, part of the work done)."""


def front_of(
    across: Quantity, along: Quantity, stop: Work, seed: int, on_progress: FrontProgress | None = None
) -> Front:
    """Return all non-dominated points of two quantities of a problem, each with a bound of the second.

    Same problem, work and seed give the same front, and more work no worse one: searches of rising work
    follow each other. Source: docs/sources/model.md 8, `pareto`.
    """
    every = every_choice(across.problem, stop)
    if every is not None:
        points = [
            Point(found, across.value(found), value, value)
            for found in every
            for value in [along.value(found)]
        ]
        return Front(tuple(undominated(points)), 1)
    fronts = list[Front]()
    for share in stop.rungs():
        fronts.append(_front_of(across, along, share, seed, _part_of(on_progress, share, stop)))
        front = _merged(fronts)
        is_closed = all(stop.close_enough(point.value, point.lower_bound) for point in front.points)
        if is_closed or not share.counts:  # what counts no work finds the same with more of it
            break
    return front


def _part_of(on_progress: FrontProgress | None, share: Work, stop: Work) -> FrontProgress | None:
    """Return the callback of one search among those of the front."""
    if on_progress is None:
        return None
    begun_s = stop.spent_s
    return lambda points, part: on_progress(
        points, (begun_s + part * share.work_s) / (begun_s + max(stop.work_s, share.work_s))
    )


def _merged(fronts: Sequence[Front]) -> Front:
    """Return what no point of any front of the same two quantities dominates, with their highest bounds."""
    kept = undominated(point for front in fronts for point in front.points)
    bounds = list[float]()
    for end in [*(point.across for point in kept[1:]), math.inf]:
        # Of each front the bound that holds up to `end`, or beyond it.
        each = (
            next(
                point.lower_bound
                for point, after in zip(front.points, [*front.points[1:], None], strict=True)
                if after is None or after.across >= end
            )
            for front in fronts
        )
        bounds.append(max(each))
    points = (
        point._replace(lower_bound=min(point.value, bound)) for point, bound in zip(kept, bounds, strict=True)
    )
    return Front(tuple(points), fronts[-1].resolution, max(front.before for front in fronts))


def _front_of(
    across: Quantity, along: Quantity, stop: Work, seed: int, on_progress: FrontProgress | None
) -> Front:
    """Search the front once."""
    if isinstance(across, FewestArrays) and isinstance(along, TimeObjective):
        front = of_arrays(along, stop, seed, on_progress)
        each = (
            point._replace(across=across.problem.resources.in_unit(point.across)) for point in front.points
        )
        return replace(front, points=tuple(each))
    return _PairFront(across, along, stop, seed).run(on_progress)


def of_arrays(along: TimeObjective, stop: Work, seed: int, on_progress: FrontProgress | None = None) -> Front:
    """Return the front of arrays and a time; of several kinds of arrays `across` is their cost."""
    problem, moves = along.problem, along.unit == "ns" and along.by_step is not None
    if not problem.one_block and (moves or not isinstance(along, Interval)):
        return _of_budgets(along, stop, seed, on_progress)
    if isinstance(along, Interval):
        return _of_intervals(along)
    if moves:
        return _of_step_lengths(along, stop, seed, on_progress)
    archive = explore(problem, stop, seed, on_progress)
    length = along.in_unit(1)
    points = [
        Point(
            problem.choice(archive.copies(step)),
            step.arrays,
            step.makespan * length,
            archive.bound(step) * length,
        )
        for step in archive.steps
    ]
    return Front(tuple(points), archive.slots.width)


def _of_intervals(along: Interval) -> Front:
    """Try every interval: the cheapest modes for it, which with copies alone have the shortest step too."""
    problem, menu = along.problem, Menu.of(along.problem)
    points, bounds = list[Point](), list[tuple[int, float]]()
    for length in menu.lengths[::-1].tolist():
        state, least = menu.cheapest(length)
        if least > problem.budget:
            continue
        found = menu.choice(problem, state)
        value, fits = along.value(found), problem.holds(found.copies, found.modes)
        is_least = fits and found.arrays <= least
        bounds.append((least, value if is_least else along.in_unit(length)))
        if fits:
            points.append(Point(found, found.arrays, value, 0.0))
    kept = undominated(points)
    ends = [point.across for point in kept[1:]] + [math.inf]
    bounded = [
        point._replace(lower_bound=min(point.value, min(low for least, low in bounds if least < end)))
        for point, end in zip(kept, ends, strict=True)
    ]
    return Front(tuple(bounded), 1)


def _of_budgets(along: TimeObjective, stop: Work, seed: int, on_progress: FrontProgress | None) -> Front:
    """Search at budgets of equal ratios, then just below the points found until the work is used up.

    A point is bounded by the searches with a budget as large as the next point's less one, or larger.
    """
    problem, front = along.problem, _ByBudgets(along, stop, seed)
    least, most = problem.minimum, problem.budget
    levels = sorted({round(level) for level in np.geomspace(least, most, _LEVELS).tolist()} | {least, most})
    is_short = stop.work < _WORK_PER_LEVEL * len(levels)
    for number, budget in enumerate(reversed(levels)):
        if is_short and stop.spent_s >= stop.work_s:
            front.begin(budget)
        else:
            front.search(budget, max(_WORK_PER_LEVEL, stop.work // len(levels)))
        if on_progress is not None:
            on_progress(len(front.points), _LEVELS_PART * (number + 1) / len(levels))
        if stop.out_of_time:
            break
    while (open_budgets := front.open_budgets()) and stop.spent_s < stop.work_s and not stop.out_of_time:
        for budget in open_budgets:
            left = math.ceil((stop.work_s - stop.spent_s) / SECONDS_PER_WORK)
            if left <= 0 or stop.out_of_time:
                break
            front.search(budget, min(left, max(_WORK_PER_LEVEL, stop.work // len(levels))))
        if on_progress is not None:
            on_progress(len(front.points), max(_LEVELS_PART, min(1.0, stop.spent_s / stop.work_s)))
    return Front(tuple(front.bounded()), 1)


@dataclass(eq=False)
class _ByBudgets:
    """Allocations and bounds found by searches at single budgets."""

    along: TimeObjective
    stop: Work
    seed: int
    points: list[Point] = field(default_factory=list)
    bounds: dict[int, float] = field(default_factory=dict)

    @cached_property
    def _menu(self) -> Menu:
        return Menu.of(self.along.problem, self.stop)

    def begin(self, budget: int) -> None:
        """Take the cheapest modes for the smallest interval within a budget, where no work is left."""
        within = replace(self.along.problem, budget=Cost(budget))
        interval = self._menu.smallest_interval(within, self.stop)
        self.bounds[budget] = self.along.in_unit(interval)
        found = self._menu.choice(within, self._menu.cheapest(interval, self.stop)[0])
        if within.holds(found.copies, found.modes):
            self.points.append(Point(found, found.arrays, self.along.value(found), 0.0))

    def search(self, budget: int, work: int) -> None:
        """Search the least value within a budget."""
        share = self.stop.nested(work)
        try:
            within = type(self.along)(replace(self.along.problem, budget=Cost(budget)))
            answer = within.solve(share, self.seed)
        except BudgetError:  # of what is limited beside the budget more is needed
            self.bounds[budget] = math.inf
            return
        self.stop.charge(share.spent_s)
        found = answer.choice
        self.points.append(Point(found, found.arrays, self.along.value(found), 0.0))
        self.bounds[budget] = answer.lower_bound

    def bounded(self) -> list[Point]:
        """Return the points that no other one dominates, rising, each with its bound."""
        kept = undominated(self.points)
        untils = [round(point.across) - 1 for point in kept[1:]] + [self.along.problem.budget]
        return [
            point._replace(
                lower_bound=min(
                    point.value, max(bound for budget, bound in self.bounds.items() if budget >= until)
                )
            )
            for point, until in zip(kept, untils, strict=True)
        ]

    def open_budgets(self) -> list[int]:
        """Return the budgets just below the next point of points that are not proven, the largest first.

        Where one was searched already, more work is not given to it.
        """
        kept = self.bounded()
        untils = [round(point.across) - 1 for point in kept[1:]]
        each = zip(kept, untils, strict=False)
        return [
            until
            for point, until in each
            if point.lower_bound < point.value * (1 - SAME_SUM) and until not in self.bounds
        ][::-1]


def undominated(points: Iterable[Point]) -> list[Point]:
    """Return the points that no other one dominates; of equal ones that with the fewest arrays."""
    kept = list[Point]()
    for point in sorted(points, key=lambda point: (point.across, point.value, point.found.arrays)):
        if kept and point.value >= kept[-1].value * (1 - SAME_SUM):
            continue
        if kept and point.across <= kept[-1].across * (1 + SAME_SUM):
            kept.pop()
        kept.append(point)
    return kept


@dataclass(eq=False)
class _PairFront:
    """The front of any two quantities that rise with arrays and latency, or of the interval.

    It begins with the front of arrays and latency, and the best allocation in each quantity; neighbours of
    all that is not dominated are tried until nothing new is found (Pareto local search: Paquete, Chiarandini
    and Stuetzle, LNEMS 535, 2004). Bounds follow from those of the ranges of arrays.
    """

    across: Quantity
    along: Quantity
    stop: Work
    seed: int

    def run(self, on_progress: FrontProgress | None) -> Front:
        """Search both, and bound every point."""
        problem, stop = self.across.problem, self.stop
        latency: Latency = (Makespan if problem.step_time is None else LatencyNs)(problem)
        base = of_arrays(
            latency, share := stop.nested(round(_BASE_SHARE * stop.work)), self.seed, on_progress
        )
        stop.charge(share.spent_s)
        found = [point.found for point in base.points]
        for quantity in (self.across, self.along):
            share = stop.nested(round(_SINGLE_SHARE * stop.work))
            if isinstance(quantity, TimeObjective) and quantity.name != latency.name:
                found += [point.found for point in of_arrays(quantity, share, self.seed).points]
            elif isinstance(quantity, Objective) and not isinstance(quantity, FewestArrays):
                found.append(quantity.solve(share, self.seed).choice)
            stop.charge(share.spent_s)
        points, floors = self._improved(found), self._floors(base)
        before = _least_below(floors, points[0].across * (1 - SAME_SUM))
        return Front(tuple(self._bounded(points, floors)), base.resolution, before)

    def _point(self, found: Choice) -> Point:
        return Point(found, self.across.value(found), self.along.value(found), 0.0)

    def _improved(self, found: Sequence[Choice]) -> list[Point]:
        """Return the points that no neighbour of any of them dominates."""
        problem, seen, stop = self.across.problem, set[bytes](), self.stop
        end_s = stop.spent_s + _LOCAL_SHARE * stop.work_s
        descent = Descent(problem, Menu.of(problem), self.stop)
        kept = undominated(map(self._point, found))
        while True:
            fresh = [point for point in kept if point.found.identity not in seen]
            if not fresh or stop.spent_s >= end_s or stop.out_of_time:
                return kept
            start = fresh[0]
            seen.add(start.found.identity)
            near = [
                each for each in descent.neighbours(start.found) if problem.holds(each.copies, each.modes)
            ]
            stop.charge(sum(descent.seconds(each, start.found) for each in near))
            kept = undominated([*kept, *map(self._point, near)])

    def _floors(self, base: Front) -> list[tuple[float, float]]:
        """Return what the ranges of arrays between the points of `base` allow at least in both quantities."""
        problem = self.across.problem
        untils = [round(point.across) - 1 for point in base.points[1:]] + [problem.budget]
        lows = [problem.minimum, *(until + 1 for until in untils)]
        cells = list(zip(lows, untils, (point.lower_bound for point in base.points), strict=False))
        return [(self.across.floor(*cell, self.stop), self.along.floor(*cell, self.stop)) for cell in cells]

    def _bounded(self, points: Sequence[Point], floors: Sequence[tuple[float, float]]) -> Iterator[Point]:
        """Return the points with the least value that ranges of arrays allow before the next one."""
        ends = [point.across for point in points[1:]] + [math.inf]
        for point, end in zip(points, ends, strict=True):
            bound = min(point.value, _least_below(floors, end))
            if isinstance(point.value, int):
                bound = math.ceil(bound * (1 - SAME_SUM))
            yield point._replace(lower_bound=min(point.value, bound))


def _least_below(floors: Sequence[tuple[float, float]], across: float) -> float:
    """Return the least value of what may have less than `across`, infinity where nothing has."""
    return min((low for at, low in floors if at < across), default=math.inf)


def explore(problem: Problem, stop: Work, seed: int, on_progress: FrontProgress | None = None) -> Archive:
    """Search the whole range of budgets; return all that was found."""
    search = _FrontSearch(problem, stop, seed, on_progress)
    search.run()
    return search.archive


@dataclass(eq=False)
class _FrontSearch:
    problem: Problem
    stop: Work
    seed: int
    on_progress: FrontProgress | None = None
    archive: Archive = field(init=False)
    _branches: bool = True

    def run(self) -> None:
        self.archive = Archive(self.problem)
        menu, bounder, number = Menu.of(self.problem), Bounder(self.problem), 0
        for length in menu.lengths.tolist():
            copies = menu.cheapest(length)[0].copies
            if self.problem.is_allowed(copies):
                self.archive.propose(copies, self.problem.time.makespan(copies, self.problem.graph.modes))
        tasks = Tasks.of_round(0, menu, bounder, self.stop, self._effort(0), self.seed)
        self._do(tasks.search, self._first_budgets())
        while self._left_s > 0 and self._open():
            number += 1
            tasks = Tasks.of_round(number, menu, bounder, self.stop, self._effort(number - 1), self.seed)
            self._round(tasks)
        self._do(tasks.bound, _budgets(self._open()), _LAST_SHARE * self._all_s)

    def _round(self, tasks: Tasks) -> None:
        self._do(tasks.bound, _budgets(self._open()))
        self._do(tasks.improve, _budgets(self._open()), _IMPROVE_SHARE * self._left_s)
        self._do(tasks.bound, _budgets(self._open()))
        if self._branches:
            narrow = [step for step in self._open() if self.archive.gap(step) <= _NARROW]
            done = self._do(tasks.branch, _budgets(narrow))
            self._branches = done.succeeded >= _HOPELESS * done.tried
        self._do(tasks.search, _budgets(self._widest()))

    def _do(self, task: FrontTask, budgets: Sequence[int], limit_s: float | None = None) -> Done:
        """Split the budgets between two archives, side by side where there are two cores.

        limit_s: seconds of work that the task may take, None for all that are left.
        """
        parts = [part for part in (budgets[0::2], budgets[1::2]) if part]
        archives = [self.archive.copy() for _ in parts]
        allowed_s = max(0.0, self._left_s) if limit_s is None else limit_s
        limits = [allowed_s / max(1, len(parts))] * len(parts)
        with ThreadPoolExecutor(min(2, cores(self.stop.cores))) as pool:
            accounts = [self.stop.nested(self.stop.work) for _ in parts]
            done = list(pool.map(task, archives, parts, limits, accounts))
        for archive in archives:
            self.archive.merge(archive)
        self.stop.charge(sum(account.spent_s for account in accounts))
        if self.on_progress is not None:
            self.on_progress(len(self.archive.steps), min(1.0, self.stop.spent_s / self._all_s))
        return Done(sum(part.tried for part in done), sum(part.succeeded for part in done))

    @property
    def _all_s(self) -> float:
        return max(1, self.stop.work) * SECONDS_PER_WORK

    @property
    def _left_s(self) -> float:
        return 0.0 if self.stop.out_of_time else self._all_s - self.stop.spent_s

    def _open(self) -> list[FrontStep]:
        """Return the steps not proven within the gap that is good enough, most arrays first."""
        close = self.stop.close_enough
        return [step for step in self.archive.steps if not close(step.makespan, self.archive.bound(step))][
            ::-1
        ]

    def _effort(self, doublings: int) -> Effort:
        pairs = len(self.problem.demand) ** 2
        most = self.stop.work * _LATER_SHARE / _LATER_BUDGETS[0]
        work = max(_LEAST_WORK << doublings, min(most, _WORK_PER_PAIR * pairs))
        return Effort(_IMPROVE_S * 2**doublings, _NODES << doublings, int(work))

    def _first_budgets(self) -> list[int]:
        """Return budgets in equal ratios, most arrays first; fewer of them if a search takes long."""
        affordable = int(_FIRST_SHARE * self.stop.work / self._effort(0).work)
        count = min(max(affordable, _FIRST_BUDGETS[0]), _FIRST_BUDGETS[1])
        least, most = self.problem.arrays(self.problem.smallest), self.problem.budget
        between = [int(least * (most / least) ** (place / (count - 1))) for place in range(count)]
        return sorted({least, most, *between}, reverse=True)

    def _widest(self) -> list[FrontStep]:
        """Return steps with the widest gaps, not too close to each other."""
        steps, effort = self._open(), self._effort(0)
        affordable = int(_LATER_SHARE * self.stop.work / effort.work)
        count = min(max(affordable, _LATER_BUDGETS[0]), _LATER_BUDGETS[1])
        apart, chosen = max(1, len(steps) // _APART), list[int]()
        for place in sorted(range(len(steps)), key=lambda place: -self.archive.gap(steps[place])):
            if len(chosen) == count or self.archive.gap(steps[place]) <= _NARROW:
                break
            if all(abs(place - other) >= apart for other in chosen):
                chosen.append(place)
        return [steps[place] for place in sorted(chosen)]


def _budgets(steps: Sequence[FrontStep]) -> list[int]:
    return [step.until for step in steps]


def _of_step_lengths(along: TimeObjective, stop: Work, seed: int, on_progress: FrontProgress | None) -> Front:
    """Return the front of arrays and latency in ns of copies that lengthen the step.

    Allocations are looked for with all steps allowed, and with the copies that shorter and shorter steps can
    feed. For the bounds the range of step times is cut into pieces: what a piece's longest step can feed
    takes so many steps at least, and each of them is at least as long as the piece's shortest.
    """
    problem, step_time = along.problem, step_time_of(along.problem)
    archives = _explored(problem, step_time, stop, seed, on_progress)
    reached = list[Point]()
    for slots in (archive.slots for archive in archives):
        rows = slots.copies[slots.makespan < NEVER].astype(np.int64)
        for found in problem.choices(rows, problem.graph.modes):
            reached.append(Point(found, found.arrays, along.value(found), 0.0))
    kept = undominated(reached)
    untils = [round(point.across) - 1 for point in kept[1:]] + [problem.budget]
    bounds_ns = _bounds_ns(problem, step_time, untils, [point.value for point in kept], stop)
    points = tuple(
        point._replace(lower_bound=min(point.value, bound_ns))
        for point, bound_ns in zip(kept, bounds_ns, strict=True)
    )
    return Front(points, max(archive.slots.width for archive in archives))


def _explored(
    problem: Problem, step_time: StepTime, stop: Work, seed: int, on_progress: FrontProgress | None
) -> list[Archive]:
    """Search with copies limited to what steps of several lengths can feed."""
    shortest, longest = step_time.step_ns(problem.smallest), step_time.step_ns(problem.largest)
    limits_ns = np.geomspace(shortest, longest, _LIMITS).tolist() if longest > shortest else [longest]
    work, archives = max(1, int(_SEARCHING * stop.work / len(limits_ns))), list[Archive]()
    for limit_ns in limits_ns:
        share = stop.nested(work)
        archive = explore(fed_by(problem, limit_ns), share, seed)
        stop.charge(share.spent_s)
        archives.append(archive)
        if on_progress is not None:
            on_progress(len(archive.steps), _SEARCHING * len(archives) / len(limits_ns))
    return archives


def _bounds_ns(
    problem: Problem, step_time: StepTime, budgets: list[int], latency_ns: list[float], stop: Work
) -> list[float]:
    """Return a lower bound in ns for each budget, computed for some and valid for all smaller ones.

    latency_ns: known for each budget, beyond which no bound is looked for.
    """
    shortest, longest = step_time.step_ns(problem.smallest), step_time.step_ns(problem.largest)
    edges = np.geomspace(shortest, longest, _PIECES + 1).tolist() if longest > shortest else [shortest] * 2
    bounders = [Bounder(fed_by(problem, high_ns)) for _, high_ns in pairwise(edges)]
    steps, prices = [1] * len(bounders), [-1] * len(bounders)
    bounds_ns, stride = [0.0] * len(budgets), -(-len(budgets) // _BUDGETS)
    for place in range(len(budgets) - 1, -1, -1):
        looked_at = (len(budgets) - 1 - place) % stride == 0 and not stop.out_of_time
        for piece, (bounder, low_ns) in enumerate(zip(bounders, edges, strict=False)):
            enough = math.ceil(latency_ns[place] / low_ns * (1 - SAME_SUM))
            if looked_at and steps[piece] < enough:
                within = bounder.with_budget(budgets[place])
                steps[piece], prices[piece], nodes = within.raised(steps[piece], enough, prices[piece], stop)
                stop.charge(nodes * bounder.node_seconds)
        bounds_ns[place] = min(bound * low_ns for bound, low_ns in zip(steps, edges, strict=False))
    return bounds_ns
