"""The front of arrays and makespan, or interval: for every budget the fastest allocation, and a bound.

Budgets share what is found: a search at one budget keeps what is fastest for every number of arrays it
comes by, and a bound holds for all smaller budgets. Whole searches at budgets far apart come first; then
improving, bounding, branching, and whole searches where the gap is widest take turns over the steps of the
staircase, until all are proven or the work is used up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from rramalloc.search.archive import Archive, FrontStep
from rramalloc.search.auto import WarmStart, solve_to_target
from rramalloc.search.bound import Bounder, Outcome
from rramalloc.search.cores import cores
from rramalloc.search.improve import LEAST_AMBITION, Improver
from rramalloc.search.interval import even_allocations
from rramalloc.search.menu import Menu
from rramalloc.search.problem import SECONDS_PER_WORK, Blocks, Problem, Stop
from rramalloc.search.turns import TimedAllocation
from rramalloc.timing.access import StepTime
from rramalloc.timing.simulate import Replication, makespan_of

_PRIMES = 7919, 104729
"""Spread the seeds of rounds and budgets."""


class Effort(NamedTuple):
    """What each step gets: seconds of improving, nodes of branching, units of work of a whole search."""

    improve_s: float
    nodes: int
    work: int


class Done(NamedTuple):
    """Seconds of work counted; steps that were tried, and those that were improved."""

    seconds: float
    tried: int = 0
    succeeded: int = 0


Task = Callable[[Archive, Sequence[int], float], Done]


@dataclass(frozen=True, eq=False)
class Tasks:
    """The tasks of one round.

    menu, bounder: of the whole problem; effort: what each step gets; seed: differs from round to round.
    """

    problem: Problem
    menu: Menu
    bounder: Bounder
    stop: Stop
    effort: Effort
    seed: int

    @classmethod
    def of_round(
        cls, number: int, menu: Menu, bounder: Bounder, stop: Stop, effort: Effort, seed: int
    ) -> Tasks:
        """The tasks of the round with that number."""
        return cls(bounder.problem, menu, bounder, stop, effort, seed + _PRIMES[0] * number)

    def improve(self, archive: Archive, budgets: Sequence[int], limit_s: float) -> Done:
        """Anneal steps' allocations, each for a smaller makespan and for more steps before the next one."""
        spent = 0.0
        for step in self._open(archive, budgets):
            if spent >= limit_s:
                break
            within, seed = self._within(step.until), self._seed(step.until)
            improver = Improver(within, self.menu, seed, archive.slots, LEAST_AMBITION, rebalancing=0.0)
            each_s = self.effort.improve_s / 2
            improved, took = improver.run(self._timed(archive, step), archive.bound(step), each_s, self.stop)
            archive.offer(improved.copies, improved.makespan)
            spent += took
            step = archive.at(step.until)
            faster = archive.faster(step)
            if faster is None:
                continue
            least = max(archive.bound(step), faster.makespan)
            if least < step.makespan:
                target, start = least + seed % (step.makespan - least), self._timed(archive, faster)
                fewer, took = improver.fewer_arrays(start, target, step.arrays, each_s, self.stop)
                archive.offer(fewer.copies, fewer.makespan)
                spent += took
        return Done(spent)

    def bound(self, archive: Archive, budgets: Sequence[int], limit_s: float) -> Done:
        """Raise bounds by propagation; budgets from the largest to the smallest, as bounds pass on."""
        spent, price = 0.0, -1
        for step in self._open(archive, budgets):
            if spent >= limit_s:
                break
            bounder = self.bounder.within(step.until)
            bound, price, nodes = bounder.raised(archive.bound(step), step.makespan, price, self.stop)
            archive.raise_bound(step.until, bound)
            spent += nodes * bounder.node_seconds
        return Done(spent)

    def branch(self, archive: Archive, budgets: Sequence[int], limit_s: float) -> Done:
        """Refute what would be faster by a step, or find it; else try half of the gap."""
        spent, tried, succeeded = 0.0, 0, 0
        for step in self._open(archive, budgets):
            if spent >= limit_s:
                break
            tried += 1
            bounder = self.bounder.within(step.until)
            targets = {step.makespan - 1, (step.makespan + archive.bound(step)) // 2 - 1}
            for target in sorted(targets - {archive.bound(step) - 1}, reverse=True):
                outcome, nodes, copies = bounder.decide(target, self.effort.nodes)
                spent += nodes * bounder.node_seconds + bounder.sweep_seconds
                if outcome is Outcome.REFUTED:
                    archive.raise_bound(step.until, target + 1)
                elif outcome is Outcome.FOUND:
                    archive.offer(copies, makespan_of(self.problem.graph, copies))
                if outcome is not Outcome.UNDECIDED:
                    succeeded += 1
                    break
        return Done(spent, tried, succeeded)

    def search(self, archive: Archive, budgets: Sequence[int], limit_s: float) -> Done:
        """Whole searches, each with the best allocation and bound of its budget as a warm start."""
        spent = 0.0
        for step in self._open(archive, budgets):
            if spent >= limit_s:
                break
            work = min(self.effort.work, math.ceil((limit_s - spent) / SECONDS_PER_WORK))
            stop = self.stop.nested(work, cores=1)
            warm_start = WarmStart(archive.replication(step), archive.bound(step), archive.slots)
            within, seed = self._within(step.until), self._seed(step.until)
            candidate = solve_to_target(within, stop, seed, 0, menu=self.menu, warm_start=warm_start)
            archive.offer(candidate.replication, makespan_of(self.problem.graph, candidate.replication))
            archive.raise_bound(step.until, candidate.lower_bound)
            spent += candidate.seconds or 0.0
        return Done(spent)

    def _open(self, archive: Archive, budgets: Sequence[int]) -> Iterator[FrontStep]:
        """The steps at these budgets that are not proven by the time it is their turn."""
        for budget in budgets:
            step = archive.at(budget)
            if archive.bound(step) < step.makespan and not self.stop.out_of_time:
                yield step

    def _timed(self, archive: Archive, step: FrontStep) -> TimedAllocation:
        return TimedAllocation.of_copies(self.problem, archive.replication(step), step.makespan)

    def _within(self, budget: int) -> Problem:
        return replace(self.problem, budget=budget)

    def _seed(self, budget: int) -> int:
        return self.seed + _PRIMES[1] * budget


DEFAULT_WORK = 800
_FIRST_BUDGETS, _FIRST_SHARE = (4, 16), 0.3
"""Fewest and most budgets that are searched first, and the part of all work for them."""
_LATER_BUDGETS, _LATER_SHARE = (2, 8), 0.12
"""As above, for the searches where the gap is widest that end a round."""
_LEAST_WORK, _WORK_PER_PAIR = 12, 4.5e-3
"""Units of work of one search, and per pair of stages: with less no relaxation can be afforded."""
_IMPROVE_S, _NODES = 0.004, 32
"""What a step gets in the first round; twice as much in every next one."""
_IMPROVE_SHARE, _LAST_SHARE = 0.5, 0.1
"""Parts of the work left for a round of improving, and of all work for the bounds at the very end."""
_NARROW, _HOPELESS = 0.03, 0.02
"""Gap up to which a step is branched on, and the part of steps that must succeed for it to go on."""
_APART = 32
"""Steps searched in one round are this part of all steps apart."""
_SAME = 1e-12
"""Values closer than this, relatively, are one."""


class Point(NamedTuple):
    """An allocation on the front.

    value: what is minimised, makespan in steps unless said otherwise; lower_bound: nothing with fewer arrays
    than the next point is below it; blocks: of its modes with mapping `sdk`.
    """

    replication: Replication
    value: float
    lower_bound: float
    blocks: Blocks | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Front:
    """Points with rising arrays and falling value.

    resolution: arrays within which only one point is kept, 1 unless the range is very wide; seconds: counted.
    """

    points: tuple[Point, ...]
    resolution: int
    seconds: float


Progress = Callable[[int, float], None]
"""Called with (points so far, part of the work done)."""


class Explored(NamedTuple):
    """All that was found, and the seconds of work counted."""

    archive: Archive
    seconds: float


def solve(problem: Problem, stop: Stop, seed: int, on_progress: Progress | None = None) -> Front:
    """All (arrays, makespan) points up to the budget. Same problem, work and seed give the same front.

    Source: docs/sources/model.md 8, objective `pareto`.
    """
    archive, seconds = explore(problem, stop, seed, on_progress)
    points = tuple(
        Point(archive.replication(step), step.makespan, archive.bound(step)) for step in archive.steps
    )
    return Front(points, archive.slots.width, seconds)


def explore(problem: Problem, stop: Stop, seed: int, on_progress: Progress | None = None) -> Explored:
    """Search the whole range of budgets."""
    search = _FrontSearch(problem, stop, seed, on_progress)
    search.run()
    return Explored(search.archive, search.spent_s)


@dataclass(eq=False)
class _FrontSearch:
    problem: Problem
    stop: Stop
    seed: int
    on_progress: Progress | None = None
    spent_s: float = 0.0
    archive: Archive = field(init=False)
    _branches: bool = True

    def run(self) -> None:
        self.archive = Archive(self.problem)
        for replication in even_allocations(self.problem):
            self.archive.offer(replication, makespan_of(self.problem.graph, replication))
        menu, bounder, number = Menu.of(self.problem), Bounder(self.problem), 0
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

    def _do(self, task: Task, budgets: Sequence[int], limit_s: float | None = None) -> Done:
        """Split the budgets between two archives, side by side where there are two cores.

        limit_s: seconds of work that the task may take, None for all that are left.
        """
        parts = [part for part in (budgets[0::2], budgets[1::2]) if part]
        archives = [self.archive.copy() for _ in parts]
        allowed_s = max(0.0, self._left_s) if limit_s is None else limit_s
        limits = [allowed_s / max(1, len(parts))] * len(parts)
        with ThreadPoolExecutor(min(2, cores(self.stop.cores))) as pool:
            done = list(pool.map(task, archives, parts, limits))
        for archive in archives:
            self.archive.merge(archive)
        self.spent_s += sum(part.seconds for part in done)
        if self.on_progress is not None:
            self.on_progress(len(self.archive.steps), min(1.0, self.spent_s / self._all_s))
        return Done(0.0, sum(part.tried for part in done), sum(part.succeeded for part in done))

    @property
    def _all_s(self) -> float:
        return max(1, self.stop.work) * SECONDS_PER_WORK

    @property
    def _left_s(self) -> float:
        return 0.0 if self.stop.out_of_time else self._all_s - self.spent_s

    def _open(self) -> list[FrontStep]:
        """Steps not proven within the gap that is good enough, most arrays first."""
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
        """Budgets in equal ratios, most arrays first; fewer of them where a search takes long."""
        affordable = int(_FIRST_SHARE * self.stop.work / self._effort(0).work)
        count = min(max(affordable, _FIRST_BUDGETS[0]), _FIRST_BUDGETS[1])
        least, most = self.problem.arrays(self.problem.smallest), self.problem.budget
        between = [int(least * (most / least) ** (place / (count - 1))) for place in range(count)]
        return sorted({least, most, *between}, reverse=True)

    def _widest(self) -> list[FrontStep]:
        """Steps with the widest gaps, not too close to each other."""
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


def solve_interval(problem: Problem, step_time: StepTime | None = None) -> Front:
    """Exact front of arrays and interval between streaming inputs, by trying every interval there is.

    All (arrays, interval) points up to the budget; with a step time (arrays, interval * step_ns) ones.
    Fewer copies move fewer bytes, so the allocation with the fewest copies for an interval has the
    shortest step as well, and every point is proven.
    """
    allocations = sorted(
        even_allocations(problem), key=lambda copies: (problem.arrays(copies), -int(copies.sum()))
    )
    points = list[Point]()
    for copies in allocations:
        value = float((-(-problem.graph.windows // copies)).max())
        value *= 1.0 if step_time is None else step_time.step_ns(copies)
        if points and value >= points[-1].value * (1 - _SAME):
            continue
        if points and problem.arrays(points[-1].replication) == problem.arrays(copies):
            points.pop()
        points.append(Point(copies, value, value))
    return Front(tuple(points), 1, 0.0)
