"""Objective: what is minimised over a problem, in which unit, how it is searched for, and what bounds it.

One class per objective; `optimize`, `compare`, `pareto`, sweeps and the report use what it says of itself.
"""

from __future__ import annotations

import heapq
import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import ClassVar, cast

import numpy as np
from typing_extensions import override

from rramalloc.choices import DEFAULT_WORK, shown_by
from rramalloc.errors import BudgetError, LimitError, RramallocError, SpecError, TargetError
from rramalloc.rounding import SAME_SUM
from rramalloc.search import fewest, interval, sequential, stream
from rramalloc.search.auto import AutoSearch, solve_with_ties
from rramalloc.search.bound.boxes import bounder_of
from rramalloc.search.bound.places import BudgetCut, Places
from rramalloc.search.bound.provers import has_boxes, quick_bound
from rramalloc.search.descent import Descent
from rramalloc.search.energy import EnergyFloor
from rramalloc.search.enumeration import MOST_ALLOCATIONS, MOST_AT_ONCE, every_choice
from rramalloc.search.kind_starts import kind_starts
from rramalloc.search.menu import Menu, all_modes, check_budget, limited_to, shortest_step_ns
from rramalloc.search.problem import Answer, Choice, Problem
from rramalloc.search.ranges import (
    FIRST_WORK_OF_LIMIT,
    FasterThan,
    Incumbent,
    LimitSearch,
    Piece,
    close_ranges,
    step_time_of,
)
from rramalloc.search.resources import Cost
from rramalloc.search.step_search import StepBound, StepLengths, StepSearch
from rramalloc.search.target import NO_TARGET, Target
from rramalloc.search.work import SECONDS_PER_WORK, OutOfTime, Work
from rramalloc.timing.access import StepTime
from rramalloc.timing.metrics import Metrics
from rramalloc.timing.simulate import ExactTiming
from rramalloc.units import Unit, duration

_MOST_STEPS = 2**53 - 2
"""Largest target in ns: more than any makespan, and exact as a float."""
_ROOT_WORK = 12
"""Most units of search for a bound that no search was made for, and no more than a run is allowed."""
_DESCENT_SHARE = 0.1
"""Part of the work spent and planned that one descent may take."""
_CUT_SHARE = 0.3
"""Part of the work spent and planned that cuts may take."""
_CUT_ROUNDS = 10
"""Rounds of the program over places that must together raise the floor."""
_CUT_RISE = 1e-3
"""Part of the floor by which these rounds must raise it."""
_MOST_BISECTIONS = 200
"""Bisections of a range of arrays for its floor by cuts: of thousands some are not told apart."""


class Quantity(ABC):
    """Quantity by which an allocation of one problem is measured.

    name: in options and files, where `choices.SHOWN_BY` says which commands show it; label: what it
    measures, for axes and headings; unit: of its value and of every bound of it.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    unit: Unit

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    @abstractmethod
    def value(self, found: Choice) -> float:
        """Return the quantity of an allocation of the problem."""

    def value_of(self, timing: ExactTiming) -> float:
        """Return the quantity of an allocation that was simulated."""
        return self.value(self.problem.choice(timing.copies, timing.graph.modes, timing.makespan))

    def floor(self, fewest_arrays: int, most_arrays: int, latency_ns: float, stop: Work) -> float:
        """Return a lower bound of the quantity over a range of allocations.

        They use `fewest_arrays` to `most_arrays` arrays and take at least `latency_ns`. stop: of the search
        that it belongs to, whose clock and token end it too.
        """
        raise NotImplementedError


class Objective(Quantity):
    """A quantity that is minimised.

    reads: features that it goes with (`allocation.goes_with`), among them "method" if others than `auto`
    are judged by it; words: what a result says behind its value, "" if the result shows that value among its
    other figures.
    """

    reads = ""
    words = ""

    @property
    def most_at_once(self) -> int:
        """Allocations up to which all are timed before a search: more where few searches end with a proof."""
        step_time = self.problem.step_time
        return MOST_ALLOCATIONS if step_time is not None and step_time.moves else MOST_AT_ONCE

    def solve(self, stop: Work, seed: int) -> Answer:
        """Return the best of all allocations of a small problem, of another one that of a search.

        As `auto` does. Raises TargetError, LimitError, SpecError.
        """
        unmet, answer = None, self._best_of_all(stop, seed, self.most_at_once)
        if answer is not None:
            return answer
        try:
            answer = self.search(stop, seed)
            if gap_of(self.value(answer.choice), answer.lower_bound) <= max(stop.gap, SAME_SUM):
                return answer
        except (TargetError, LimitError) as error:
            if error.proven:
                raise
            unmet = error
        answer = self._best_of_all(stop, seed, MOST_ALLOCATIONS) or answer
        if answer is None:
            raise unmet or AssertionError("a search ends with an answer or an error")
        return answer

    def bound_by(self, name: str, solve: Callable[[Work, int], Answer], stop: Work) -> float:
        """Return the bound that a search with little work proves, which is kept under a name."""
        known = self.problem.root_bounds
        work = max(1, min(_ROOT_WORK, stop.work))
        key = f"{name} {work}"
        if key not in known:  # the same for every method tried on a problem
            known[key] = solve(stop.nested(work, gap=0.0, cores=1), 0).lower_bound
        return known[key]

    def _best_of_all(self, stop: Work, seed: int, most: int) -> Answer | None:
        """Return the best of all allocations, None if they are more than `most` or time runs out.

        Raises TargetError, LimitError where none is allowed.
        """
        every = every_choice(self.problem, stop, most)
        if every is None:
            return None
        if not every and not stop.out_of_time:  # of kinds that are limited one by one
            check_budget(self.problem, all_modes(self.problem))
            raise BudgetError(self.problem.minimum, self.problem.budget, [])
        allowed = [found for found in every if not stop.out_of_time and self.allows(found)]
        if not allowed and not stop.out_of_time:
            raise self.refusal(every, stop, seed)
        for measure in (self.value, self.tie, attrgetter("arrays")):
            allowed = _least(allowed, measure, stop)
        if not allowed:
            return None
        best = allowed[0]
        words = f"proven optimal: all {len(every)} allocations timed; no other is as good with fewer arrays"
        stop.report(stop.spent_s, best.makespan, min(found.makespan for found in every))
        return Answer(best, self.value(best), words)

    @abstractmethod
    def search(self, stop: Work, seed: int) -> Answer:
        """Search for the best allocation. Raises TargetError, LimitError, SpecError."""

    def allows(self, found: Choice) -> bool:
        """Return whether an allocation within the budget is one that is asked for."""
        return True

    def tie(self, found: Choice) -> float:
        """Return what is the least of allocations of equal value, before the fewest arrays."""
        return 0.0

    def refusal(self, every: Sequence[Choice], stop: Work, seed: int) -> RramallocError:
        """Return the error that says that none of all allocations is allowed."""
        raise AssertionError(f"{self.name} allows every allocation within the budget")

    def at_least(self, arrays: int, latency_ns: float) -> float:
        """Return a bound at no cost, of allocations with at least these arrays and this time."""
        return 0.0

    @abstractmethod
    def bound(self, steps: int, stop: Work) -> float:
        """Return a value that no allocation within the budget undercuts, of which no search is known.

        steps: that every allocation is known to take at least; stop: whose clock and token end this too.
        """


class TimeObjective(Objective):
    """A time: in steps or ticks, or in ns where the length of a step depends on the allocation."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.unit = self.problem.time_unit if self.by_step is None else "ns"

    @property
    def by_step(self) -> StepTime | None:
        """The step time where its length depends on the allocation, None where all steps are as long."""
        step_time = self.problem.step_time
        return step_time if step_time is not None and step_time.depends_on_copies else None

    def in_ns(self, value: float) -> float:
        """Return a value or a bound of it in ns. Only where a time of a step is given."""
        step_time = self.problem.step_time
        return value if self.unit == "ns" or step_time is None else value * step_time.compute_ns

    def in_unit(self, steps: int) -> float:
        """Return `steps` of the shortest steps in the unit of the objective."""
        step_time = self.problem.step_time
        if step_time is None or self.unit != "ns":
            return steps
        return steps * step_time.step_ns(self.problem.smallest)

    def length_of(self, found: Choice) -> float:
        """Return the length of a step in ns, 1 where steps or ticks are counted."""
        return self.problem.time.step_ns(found.copies, found.modes) if self.unit == "ns" else 1


class Latency(TimeObjective):
    """Time for one input, or for several that stream."""

    name, label = "latency", "latency"
    reads = "case limits inputs start partial_start bits placed method"

    def __init__(self, problem: Problem, inputs: int = 1) -> None:
        super().__init__(problem)
        self.inputs = inputs

    @override
    def value(self, found: Choice) -> float:
        return stream.steps_of(found, self.inputs) * self.length_of(found)

    @override
    def floor(self, fewest_arrays: int, most_arrays: int, latency_ns: float, stop: Work) -> float:
        return latency_ns

    @override
    def at_least(self, arrays: int, latency_ns: float) -> float:
        step_time = self.problem.step_time
        return latency_ns if self.unit == "ns" or step_time is None else latency_ns / step_time.compute_ns

    @override
    def search(self, stop: Work, seed: int) -> Answer:
        if self.by_step is None or not self.by_step.moves:
            if self.inputs == 1:
                return self.of_steps(solve_with_ties(self.problem, stop, seed))
            return self.of_steps(stream.solve(self.problem, stop, seed, self.inputs))
        return self.solve_by_step(stop, seed)

    def of_steps(self, answer: Answer) -> Answer:
        """Return an answer in steps with its bound in the unit of the objective."""
        return replace(answer, lower_bound=self.in_unit(round(answer.lower_bound)))

    def solve_by_step(self, stop: Work, seed: int) -> Answer:
        """Search over all step lengths for the least latency in ns."""
        search, bound_ns = _latency_by_step(self.problem, stop, seed, inputs=self.inputs), 0.0
        elsewhere_s = 0.0  # work of other searches, which does not count as that of this one
        run_ns = max(search.run(), step_time_of(self.problem).compute_ns)
        if self.inputs > 1:  # the answer is no worse than those for the latency and for the interval
            for times, objective in ((1, Latency(self.problem)), (self.inputs - 1, Interval(self.problem))):
                share = stop.nested(stop.work)
                answer = objective.solve(share, seed)
                bound_ns += times * answer.lower_bound
                search.incumbent.propose(self.problem.choice(answer.choice.copies, answer.choice.modes))
                elsewhere_s += share.spent_s
        bound_ns = max(bound_ns, run_ns)
        stop.charge(elsewhere_s)
        words = f"latency bound {duration(bound_ns)} over all step times, by branch and bound on each range"
        return search.incumbent.answer(words, bound_ns)

    @override
    def bound(self, steps: int, stop: Work) -> float:
        if self.inputs > 1:
            least, interval = (kind(self.problem).bound(steps, stop) for kind in (Latency, Interval))
            return least + (self.inputs - 1) * interval
        steps = root_bound(self.problem, stop, steps)
        if self.unit != "ns" or self.by_step is None or not self.by_step.moves:
            return self.in_unit(steps)
        return self.bound_by("ns", self.solve_by_step, stop)


class Makespan(Latency):
    """Time for one input in steps, however long they are."""

    name, label = "makespan", "makespan"

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.unit = self.problem.time_unit

    @override
    def search(self, stop: Work, seed: int) -> Answer:
        return self.of_steps(solve_with_ties(self.problem, stop, seed))

    @override
    def floor(self, fewest_arrays: int, most_arrays: int, latency_ns: float, stop: Work) -> float:
        step_time = self.problem.step_time
        if step_time is None:
            return latency_ns
        return 0.0 if step_time.depends_on_copies else latency_ns / step_time.compute_ns


class RepeatedLatency(Latency):
    """Time of several inputs, each of which needs the output of the one before."""

    def __init__(self, problem: Problem, inputs: int) -> None:
        super().__init__(problem)
        self.times = inputs

    @override
    def value(self, found: Choice) -> float:
        return self.times * super().value(found)

    @override
    def search(self, stop: Work, seed: int) -> Answer:
        answer = super().search(stop, seed)
        return replace(answer, lower_bound=self.times * answer.lower_bound)

    @override
    def bound(self, steps: int, stop: Work) -> float:
        return self.times * super().bound(steps, stop)


class LatencyNs(Latency):
    """Time for one input in ns."""

    name = "latency_ns"

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.unit = "ns"
        if problem.step_time is None:
            raise SpecError(
                "objective", "'latency_ns' needs hardware with [timing]; use 'makespan' for steps"
            )


def _latency_by_step(
    problem: Problem, stop: Work, seed: int, most_interval_ns: float = math.inf, inputs: int = 1
) -> StepSearch:
    """Return the search over step lengths for the least latency in ns, begun with the fewest arrays.

    most_interval_ns: that no allocation may exceed; inputs: that stream.
    """
    menu = Menu.of(problem)

    def value_of(found: Choice) -> float:
        step_ns = problem.time.step_ns(found.copies, found.modes)
        too_long = math.isfinite(most_interval_ns) and (
            problem.time.interval(found.copies, found.modes) * step_ns > most_interval_ns
        )
        return math.inf if too_long else stream.steps_of(found, inputs) * step_ns

    def allowed(relaxed: Problem, step_ns: float) -> Problem | None:
        """Return the problem with stages short enough for the interval; None if no allocation is."""
        if math.isinf(most_interval_ns):
            return relaxed
        try:
            return limited_to(relaxed, int(most_interval_ns / step_ns))
        except BudgetError:
            return None

    def bound_of(relaxed: Problem, first_ns: float, last_ns: float, steps: int) -> float:  # noqa: ARG001
        """Return the steps of a bound that takes no search, times the length of a step."""
        short = allowed(relaxed, first_ns)
        if short is None:
            return math.inf
        if not stop.out_of_time:  # the cheapest modes for the smallest interval cost little to find
            of_range = Menu.of(short)
            state, _ = of_range.cheapest(of_range.smallest_interval(short))
            for start in (state, of_range.smallest):
                search.incumbent.propose(of_range.choice(problem, start))
        least = quick_bound(short, stop)
        if inputs > 1:
            least += (inputs - 1) * Menu.of(short).smallest_interval(short)
        return max(least, steps) * first_ns

    def search_of(relaxed: Problem, first_ns: float, last_ns: float, work: int) -> StepBound:  # noqa: ARG001
        """Search the least steps with what the longest step can feed."""
        short = allowed(relaxed, first_ns)
        if short is None:
            return StepBound(math.inf)
        share = stop.nested(work)
        answer = stream.solve(short, share, seed, inputs)
        stop.charge(max(share.spent_s, SECONDS_PER_WORK))
        search.update(answer.choice)
        least = round(answer.lower_bound)
        return StepBound(least * first_ns, least)

    search = StepSearch(problem, stop, StepLengths.of(problem), value_of, bound_of, search_of)
    search.update(menu.choice(problem, menu.smallest))
    for start in problem.starts(stop):
        search.incumbent.propose(start)
    if search.incumbent.best is not None:
        search.update(search.incumbent.best)
    return search


class Interval(TimeObjective):
    """Time between inputs that stream."""

    name, label = "interval", "interval"
    reads = "case limits objective interval start partial_start bits placed"

    @property
    @override
    def most_at_once(self) -> int:
        return MOST_ALLOCATIONS  # its bound says nothing of the latency, which breaks ties

    @override
    def value(self, found: Choice) -> float:
        return self.problem.time.interval(found.copies, found.modes) * self.length_of(found)

    @override
    def tie(self, found: Choice) -> float:
        return found.makespan * self.length_of(found)

    @override
    def search(self, stop: Work, seed: int) -> Answer:
        """Search the smallest interval * step_ns, then the least latency among allocations that reach it."""
        problem = self.problem
        if self.by_step is None or not self.by_step.moves:
            menu = Menu.of(problem, stop)
            steps = menu.smallest_interval(problem, stop)
            if stop.out_of_time:  # whether the interval can be reached is open
                return Answer(menu.choice(problem, menu.smallest), self.in_unit(steps), "no time was left")
            limited, bound = limited_to(problem, steps), steps if self.by_step is None else self._least(stop)
            answer = solve_with_ties(limited, stop, seed)
            copies, blocks = answer.choice.copies, answer.choice.modes
            makespan = f"at least {answer.lower_bound} {problem.time_unit}: {answer.proof}"
            if problem.time.interval(copies, blocks) > steps or not problem.holds(copies, blocks):
                answer = replace(answer, choice=menu.choice(problem, menu.cheapest(steps)[0]))
                makespan = f"at least {answer.lower_bound} {problem.time_unit}, the cheapest modes"
            tried = f"interval {steps} proven best" if steps <= bound else f"interval at least {bound}"
            words = f"{tried} by trying every one; makespan at that interval, {makespan}"
            return replace(answer, lower_bound=bound, proof=words)
        incumbent, bound_ns = interval.least_product(problem, stop)
        reached_ns = incumbent.value * (1 + SAME_SUM)
        search = _latency_by_step(problem, stop, seed, reached_ns)
        if incumbent.best is not None:
            search.update(incumbent.best)
        latency_ns = search.run()
        words = (
            f"interval bound {duration(bound_ns)} over all step times, by trying every interval; "
            f"latency at that interval at least {duration(latency_ns)}"
        )
        return search.incumbent.answer(words, bound_ns)

    @override
    def floor(self, fewest_arrays: int, most_arrays: int, latency_ns: float, stop: Work) -> float:
        problem = replace(self.problem, budget=Cost(most_arrays))
        if self.by_step is None:
            return Menu.of(problem).smallest_interval(problem)
        return interval.least_product(problem, stop.nested(DEFAULT_WORK, gap=0.0))[1]

    @override
    def bound(self, steps: int, stop: Work) -> float:
        return self._least(stop)

    def _least(self, stop: Work) -> float:
        """Return the smallest value by trying every interval."""
        known = self.problem.root_bounds
        if self.name not in known:
            if self.by_step is None:
                known[self.name] = Menu.of(self.problem).smallest_interval(self.problem)
            else:
                known[self.name] = interval.least_product(self.problem, stop.nested(stop.work, gap=0.0))[1]
        bound = known[self.name]
        return bound if self.unit == "ns" else round(bound)


class FewestArrays(Objective):
    """Arrays used, of the allocations that meet a target of latency, interval or throughput."""

    name, label = "arrays", "arrays"
    reads = "case limits target interval_target interval start partial_start bits placed"

    def __init__(self, problem: Problem, target: Target = NO_TARGET) -> None:
        super().__init__(problem)
        self.target, self.unit = target, problem.resources.unit

    def check_cost(self) -> None:
        """Raise SpecError where arrays of several kinds cost another thing than is minimised."""
        resources, energy = self.problem.resources, self.problem.energy
        if self.unit == "um2" and energy is not None and energy.counts_periphery:
            words = "the area of kinds of arrays is minimised without their tiles, which periphery_um2 adds"
            raise SpecError("objective", f"{words}: leave periphery_um2 out, or limit --at-most area_um2=X")
        if len(resources.weights) > 1 and resources.unit == "arrays" and not resources.limits_arrays:
            words = (
                "objective 'arrays' minimises the area where kinds of arrays are free: give area_um2 of each"
            )
            raise SpecError("objective", f"{words} in [energy], or the arrays of each kind")

    @override
    def at_least(self, arrays: int, latency_ns: float) -> float:
        return self.problem.resources.in_unit(arrays)

    @override
    def value(self, found: Choice) -> float:
        return self.problem.resources.in_unit(found.arrays)

    @override
    def floor(self, fewest_arrays: int, most_arrays: int, latency_ns: float, stop: Work) -> float:
        return self.problem.resources.in_unit(fewest_arrays)

    @override
    def solve(self, stop: Work, seed: int) -> Answer:
        given = self.target.given
        if len(given) > 1 or (not given and self.problem.limits.at_most is None):
            words = "needs one target: --target, --target-ns, --target-interval or --target-throughput"
            raise SpecError("target", f"objective 'arrays' {words}")
        self.check_cost()
        if self.problem.step_time is None and not {"target_steps", "target_interval"}.issuperset(given):
            words = "the hardware has no [timing], so give --target or --target-interval in steps"
            raise SpecError(given[0], f"{words}, or --latency-table")
        return super().solve(stop, seed)

    @override
    def allows(self, found: Choice) -> bool:
        return self.target.is_met_by(found)

    @override
    def refusal(self, every: Sequence[Choice], stop: Work, seed: int) -> RramallocError:
        steps, longest_ns = self.target.target_steps, self.target.target_ns
        if steps is not None:
            least = min(found.makespan for found in every)
            return TargetError(steps, least, self.problem.time_unit, reached=least)
        if longest_ns is not None:
            least_ns = min(map(LatencyNs(self.problem).value, every))
            return TargetError(longest_ns, least_ns, "ns", reached=least_ns)
        try:
            self.search(stop, seed)  # says what can be met, and how many arrays would be enough
        except TargetError as error:
            error.proven = True
            return error
        raise AssertionError("a target is met by an allocation that is none of all")

    @override
    def search(self, stop: Work, seed: int) -> Answer:
        answer, resources = self._search(stop, seed), self.problem.resources
        if resources.per_unit == 1:
            return answer
        bound = self.problem.resources.in_unit(answer.lower_bound)
        end = ", so this is the least" if bound >= self.value(answer.choice) else ""
        return replace(answer, lower_bound=bound, proof=f"at least {bound:.10g} {resources.unit}{end}")

    def _search(self, stop: Work, seed: int) -> Answer:
        """Search as `search`, with a bound of the cost."""
        target, step_time = self.target, self.problem.step_time
        if not target.given:
            menu = Menu.of(self.problem)
            found = menu.choice(self.problem, menu.smallest)
            return Answer(found, self.problem.minimum, "the fewest there are")
        if target.target_steps is not None:
            return fewest.solve(self.problem, stop, seed, target.target_steps)
        if target.target_interval is not None:
            return fewest.for_interval(self.problem, target.target_interval)
        if step_time is None:
            raise AssertionError("checked before")
        if target.target_ns is None:
            return self._for_interval_ns(step_time, target.longest_ns or 0.0, stop)
        compute_ns = step_time.compute_ns
        if not step_time.depends_on_copies:
            try:
                steps = steps_within(target.target_ns, compute_ns)
                return fewest.solve(self.problem, stop, seed, steps)
            except TargetError as error:
                raise error.in_unit(
                    lambda value: value * compute_ns, "ns", target.target_ns, "latency"
                ) from None
        try:
            return fewest.solve_ns(self.problem, stop, seed, target.target_ns)
        except TargetError as error:
            latency, share = LatencyNs(self.problem), stop.nested(_ROOT_WORK, gap=0.0, cores=1)
            nearest = latency.solve(share, seed)
            least_ns, reached_ns = nearest.lower_bound, latency.value(nearest.choice)
            proven = error.proven or least_ns > target.target_ns
            raise TargetError(target.target_ns, least_ns, "ns", proven=proven, reached=reached_ns) from None

    def _for_interval_ns(self, step_time: StepTime, target_ns: float, stop: Work) -> Answer:
        """Return the fewest arrays for an interval in ns, or for a throughput. Raises TargetError."""
        length_ns, throughput = 1.0, self.target.target_throughput
        try:
            if step_time.depends_on_copies:
                return fewest.for_interval_ns(self.problem, stop, target_ns)
            length_ns = step_time.compute_ns
            return fewest.for_interval(self.problem, steps_within(target_ns, length_ns))
        except TargetError as error:
            if throughput is None:
                raise error.in_unit(lambda value: value * length_ns, "ns", target_ns, "interval") from None
            raise error.in_unit(
                lambda value: 1e9 / (value * length_ns), "inputs/s", throughput, "throughput"
            ) from None

    @override
    def bound(self, steps: int, stop: Work) -> float:
        return self.problem.resources.in_unit(self.problem.minimum)


def steps_within(target_ns: float, step_ns: float) -> int:
    """Return the most steps that take at most a time, exact where the quotient rounds up."""
    steps = int(min(target_ns, _MOST_STEPS * step_ns) / step_ns) if step_ns else _MOST_STEPS
    return next(some for some in (steps + 1, steps, steps - 1) if some * step_ns <= target_ns)


class Sequential(TimeObjective):
    """Sum of layer times, as if one layer ran after the other while all copies keep their arrays.

    In ns each layer takes the step that it needs with the memory to itself.
    """

    name, label = "sequential", "sum of layer times"
    reads = "case limits objective start partial_start placed"
    words = "in sum"

    @override
    def value(self, found: Choice) -> float:
        problem, stages = self.problem, np.arange(len(found.copies))
        lengths = problem.time.lengths(found.copies, found.modes)
        if self.by_step is None or self.unit != "ns":
            return int(lengths.sum())
        alone_ns = problem.time.step_time_in(found.modes).alone_ns(stages, found.copies)
        return math.fsum((lengths * alone_ns).tolist())

    @override
    def search(self, stop: Work, seed: int) -> Answer:
        answer = sequential.solve_in_turn(self.problem, stop, self.by_step)
        return answer if self.unit == "ns" else replace(answer, lower_bound=round(answer.lower_bound))

    @override
    def bound(self, steps: int, stop: Work) -> float:
        return self.solve(stop.nested(stop.work, gap=0.0), 0).lower_bound


class RangedByArrays(Objective):
    """Objective that rises with arrays and with time, so that ranges of arrays bound it."""

    @property
    @override
    def most_at_once(self) -> int:
        return MOST_ALLOCATIONS

    @abstractmethod
    def least(self, arrays: int, latency_ns: float) -> float:
        """Return a value that no allocation undercuts with at least `arrays` and `latency_ns`."""

    def fastest(self, problem: Problem, stop: Work, seed: int) -> FasterThan:
        """Search for the least time of a problem with fewer arrays."""
        latency = Latency(problem)
        answer = latency.solve(stop, seed)
        return FasterThan(answer.choice, latency.in_ns(answer.lower_bound))

    @override
    def at_least(self, arrays: int, latency_ns: float) -> float:
        return self.least(arrays, latency_ns)

    def starts(self, stop: Work) -> list[Choice]:
        """Return allocations to begin with, of modes that a search for the least time leaves out."""
        return []

    def measure(self, found: Choice) -> float:
        """Return what a search minimises: the value of an allocation, or more."""
        return self.value(found)

    @override
    def floor(self, fewest_arrays: int, most_arrays: int, latency_ns: float, stop: Work) -> float:
        return self.least(fewest_arrays, latency_ns)

    @override
    def search(self, stop: Work, seed: int) -> Answer:
        return self.search_from((), stop, seed)

    def search_from(self, starts: Sequence[Choice], stop: Work, seed: int) -> Answer:
        """Search all ranges of arrays, beginning with some allocations and the fewest arrays."""
        menu = Menu.of(self.problem)
        incumbent, descent = Incumbent(self.problem, self.measure), Descent(self.problem, menu, stop)
        model = _ByArrays(self, incumbent, descent, stop, seed)
        # Of modes that take the same whole tiles, the one with the fewest copies reads the fewest arrays.
        for start in [menu.smallest, *([menu.fewest_copies] if self.problem.in_whole_tiles else [])]:
            model.update(menu.choice(self.problem, start))
        for found in self.problem.starts(stop):
            incumbent.propose(found)
        for given in (incumbent.best, *self.starts(stop), *kind_starts(self.problem, stop), *starts):
            if given is not None:
                model.update(given)
        bound = 0.0
        if not stop.out_of_time:  # else nothing is known of any range
            search, most = LimitSearch(model, incumbent, stop), self.problem.budget
            whole = search.searched(self.problem.minimum - 1, most, FIRST_WORK_OF_LIMIT)
            if arrays := 0 if stop.is_used_up else model.add_cuts(whole):
                search.searched(int(whole.low), arrays, FIRST_WORK_OF_LIMIT)  # where the best one may be
                whole = replace(whole, bound=model.floor(int(whole.low) + 1, most, whole.time))
            bound = close_ranges([whole], search.parts, incumbent, stop)
        return incumbent.answer(
            "bound over all numbers of arrays, by branch and bound on ranges of them", bound
        )


@dataclass(eq=False)
class _ByArrays:
    """The `LimitModel` of an objective over numbers of arrays.

    cuts: of the makespan in ticks; target: up to which they hold.
    """

    objective: RangedByArrays
    incumbent: Incumbent
    descent: Descent
    stop: Work
    seed: int
    cuts: list[BudgetCut] = field(default_factory=list)
    target: int = 0

    def floor(self, first: int, last: int, time: float) -> float:
        """Return the floor, as `LimitModel.floor`; times are in ns."""
        return self._lowest(first, last, time)[0]

    def add_cuts(self, whole: Piece) -> int:
        """Add cuts where the floor of all arrays is lowest; return these arrays, 0 if there are no cuts.

        Kelley's method: each round of the program over places is for the arrays at which the cuts so far
        leave the lowest floor. It ends when that rises no more, at the incumbent, or with its share of work.
        """
        menu, stop, floor = self.descent.menu, self.stop, whole.bound
        first, last = int(whole.low) + 1, int(whole.high)
        smallest = menu.choice(self.incumbent.problem, menu.smallest)
        likely_ns = (self.incumbent.best or smallest).makespan * self._step_ns
        fewest, most = (
            [self.objective.least(end, ns) for ns in (whole.time, likely_ns)] for end in (first, last)
        )
        if fewest == most:  # as where the whole chip leaks: the last number has the lowest floor of all
            return 0
        end_s = stop.spent_s + _CUT_SHARE * stop.plan_s
        self.target = smallest.makespan
        left_s = end_s - stop.spent_s
        program = Places.affordable(self.incumbent.problem, menu, self.target, left_s, stop, for_cuts=True)
        if program is None:
            return 0
        arrays = 0
        before = deque([-math.inf], _CUT_ROUNDS)
        with suppress(OutOfTime):
            while before[0] * (1 + _CUT_RISE) < floor < self.incumbent.value and stop.spent_s < end_s:
                before.append(floor)
                program.round(end_s - stop.spent_s, stop)
                self.cuts.append(program.cut)
                floor, arrays = self._lowest(first, last, whole.time)
                program.limit_arrays(arrays)
        return arrays

    def _lowest(self, first: int, last: int, time: float) -> tuple[float, int]:
        """Return a bound of the floors of `first` to `last` arrays, by bisection, and where it is lowest."""
        if not self.cuts:
            return self.objective.least(first, time), first
        ticks, per_array = np.array(self.cuts).T

        def at(low: int, high: int) -> tuple[float, int, int]:
            # Fewer arrays than `high` take longer by the cuts, and more than `low` cost more.
            least = math.ceil(min(float((ticks - per_array * high).max()), self.target + 1.0))
            return self.objective.least(low, max(time, least * self._step_ns)), low, high

        pieces = [at(first, last)]
        for _ in range(_MOST_BISECTIONS):
            _, low, high = pieces[0]
            if low == high:
                break
            middle = (low + high) // 2
            heapq.heapreplace(pieces, at(low, middle))
            heapq.heappush(pieces, at(middle + 1, high))
        bound, low, high = pieces[0]
        return bound, (low + high) // 2

    @cached_property
    def _step_ns(self) -> float:
        """Shortest step or tick of all allocations."""
        problem = self.incumbent.problem
        return shortest_step_ns(problem, all_modes(problem))

    def fastest(self, limit: int, work: int) -> FasterThan:
        """Return the fastest allocation, as `LimitModel.fastest`."""
        share = self.stop.nested(work)
        try:
            found = self.objective.fastest(
                replace(self.incumbent.problem, budget=Cost(limit)), share, self.seed
            )
        except BudgetError:  # modes within the limit of an interval, or of sensitivities, need more arrays
            found = FasterThan(None, math.inf)
        self.stop.charge(max(share.spent_s, SECONDS_PER_WORK))
        return found

    def update(self, found: Choice) -> None:
        """Update the incumbent with an allocation and with those that a descent from it finds."""
        self.incumbent.propose(found)
        self.descent.improve(found, self.incumbent, _DESCENT_SHARE * self.stop.plan_s)


class LeastEnergy(RangedByArrays):
    """Energy for one input: static energy grows with the arrays and with the latency."""

    name, label = "energy", "energy"
    reads = "case limits objective start partial_start bits placed method"
    unit: Unit = "pJ"

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        model, step_time = problem.energy, problem.step_time
        given = model is not None and model.gives_energy
        if model is None or step_time is None or not given:
            raise SpecError(
                "objective",
                f"{self.name!r} needs a hardware with read_pj and leakage_mw in [energy], and the time of a "
                f"step in [timing] or a latency table{problem.lacking('read_pj', 'leakage_mw')}",
            )
        self._floor = EnergyFloor(problem, model)

    @override
    def value(self, found: Choice) -> float:
        value = self._of(self.problem.measured(found.makespan, found.copies, found.modes))
        if value is None:
            raise AssertionError("checked when the objective was made")
        return value

    @override
    def bound(self, steps: int, stop: Work) -> float:
        return self.bound_by(self.name, self.solve, stop)

    @override
    def starts(self, stop: Work) -> list[Choice]:
        return [] if stop.out_of_time else [self._floor.frugal(stop)]

    @override
    def least(self, arrays: int, latency_ns: float) -> float:
        return self._floor.energy_pj(arrays, latency_ns)

    def _of(self, metrics: Metrics) -> float | None:
        return metrics.energy_pj


class LeastEdp(LeastEnergy):
    """Energy times latency."""

    name, label = "edp", "energy * latency"
    unit = "pJ ns"

    @override
    def least(self, arrays: int, latency_ns: float) -> float:
        return self._floor.energy_pj(arrays, latency_ns) * latency_ns

    def _of(self, metrics: Metrics) -> float | None:
        return metrics.edp


class Area(Quantity):
    """Area of the arrays in use, and of the fewest tiles that hold them."""

    name, label = "area", "area"
    unit = "um2"

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        if problem.energy is None or problem.energy.array_nm2 is None:
            words = f"'area' needs a hardware with area_um2 in [energy]{problem.lacking('area_um2')}"
            raise SpecError("objective", words)
        self._model, self._resources = problem.energy, problem.resources

    @override
    def value(self, found: Choice) -> float:
        return self._of_cost(found.arrays)

    @override
    def floor(self, fewest_arrays: int, most_arrays: int, latency_ns: float, stop: Work) -> float:
        return self._of_cost(fewest_arrays)

    def _of_cost(self, cost: int) -> float:
        """Return the area of arrays of a cost, which is an area itself where there are several kinds."""
        if len(self._resources.weights) > 1:
            return self._resources.in_unit(cost)
        return self._model.area_um2(cost) or 0.0


def _least(choices: Sequence[Choice], measure: Callable[[Choice], float], stop: Work) -> list[Choice]:
    """Return the allocations that measure the least, or as much but for rounding; none if time runs out."""
    values = list[float]()
    for found in choices:
        if stop.out_of_time:
            return []
        values.append(measure(found))
    most = min(values, default=0.0)
    most += SAME_SUM * abs(most)
    return [found for found, value in zip(choices, values, strict=True) if value <= most]


QUANTITIES: dict[str, type[Quantity]] = {
    kind.name: kind
    for kind in (
        FewestArrays,
        Makespan,
        Latency,
        LatencyNs,
        Interval,
        LeastEnergy,
        LeastEdp,
        Area,
        Sequential,
    )
}
"""Quantities by name: a line of `choices.SHOWN_BY` each."""
OBJECTIVES = {name: cast("type[Objective]", QUANTITIES[name]) for name in shown_by("optimize")}
"""Objectives of `optimize` and of sweeps."""


def root_bound(problem: Problem, stop: Work, known: int = 1) -> int:
    """Return steps that no allocation undercuts, with hardly a search: those known already, or more."""
    if has_boxes(problem):
        free = stop.nested(0)  # a check of a result, not a part of a search
        if known > 1 and not bounder_of(problem).refutes(known, free):
            return known
        return max(known, bounder_of(problem).root_bound(free))
    found = problem.root_bounds
    if "steps" not in found:  # the same for every method tried on a problem
        search = AutoSearch(problem, stop.nested(1, gap=0.0, cores=1), 0, 0, Menu.of(problem))
        found["steps"] = search.run().bound
    return max(known, int(found["steps"]))


def gap_of(value: float, bound: float) -> float:
    """Return the relative distance of a value from its bound; 0 where the value itself is 0."""
    return (value - bound) / value if value else 0.0


def capped_bound(value: float, bound: float) -> float:
    """Return a bound without the rounding by which it may exceed a value that it bounds."""
    return value if value < bound <= value * (1 + SAME_SUM) else bound
