"""Objective: what is minimised over a problem, in which unit, how it is searched for, and what bounds it.

One class per objective; `optimize`, `compare`, `pareto`, sweeps and the report use what it says of itself.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import ClassVar

import numpy as np
from typing_extensions import override

from rramalloc.choices import ObjectiveName
from rramalloc.errors import SpecError
from rramalloc.search import (
    bandwidth,
    fewest,
    front,
    interval,
    latency_front,
    mode_objectives,
    sequential,
)
from rramalloc.search.array_ranges import ArrayRangeSearch, FasterThan
from rramalloc.search.auto import solve as solve_makespan
from rramalloc.search.bound import bounder_of
from rramalloc.search.energy import EnergyFloor
from rramalloc.search.front import Front, Point
from rramalloc.search.front import Progress as FrontProgress
from rramalloc.search.problem import Candidate, Problem, Stop
from rramalloc.timing.access import StepTime
from rramalloc.timing.metrics import EnergyArea
from rramalloc.timing.simulate import ExactTiming
from rramalloc.units import Unit

_ROUNDING = 1e-9
_MOST_STEPS = 2**53 - 2
"""Of a target in ns: more than any makespan, and exact as a float."""
_ROOT_WORK = 12
"""Units of search for the bound of an energy that no search was made for."""


class Objective(ABC):
    """What is minimised over one problem.

    name: in options and files; label: what it measures, for axes and headings; unit: of its value and of
    every bound of it; by_methods: whether methods other than `auto` are judged by it.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    by_methods: ClassVar[bool] = False
    unit: Unit

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    @abstractmethod
    def value(self, timing: ExactTiming) -> float:
        """The objective of an allocation of the problem."""

    @abstractmethod
    def solve(self, stop: Stop, seed: int) -> Candidate:
        """The search of `auto`. Raises TargetError, SpecError."""

    @abstractmethod
    def bound(self, candidate: Candidate, stop: Stop) -> float:
        """A value that no allocation within the budget undercuts, by what a method proved and the root.

        stop: of the search that it belongs to, whose clock and token end it too.
        """

    def front(self, stop: Stop, seed: int, on_progress: FrontProgress | None) -> Front:
        """All non-dominated points of (arrays, value) up to the budget. Raises SpecError."""
        raise SpecError("objective", f"there is no front of arrays against {self.name!r}")

    def bound_of_point(self, point: Point, value: float) -> float:
        """The bound of a point of `front`, in the unit of the objective."""
        if self.unit != "ns":
            return int(point.lower_bound)
        return min(value, value * (point.lower_bound / point.value))


class TimeObjective(Objective):
    """A time: in steps or ticks, or in ns where the length of a step depends on the allocation."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.unit = self.problem.time_unit if self._by_step is None else "ns"

    @property
    def _by_step(self) -> StepTime | None:
        """The step time where its length depends on the allocation, None where all steps are as long."""
        step_time = self.problem.step_time
        return step_time if step_time is not None and step_time.depends_on_copies else None

    def in_ns(self, value: float) -> float:
        """A value or a bound of it in ns. Only where a time of a step is given."""
        step_time = self.problem.step_time
        return value if self.unit == "ns" or step_time is None else value * step_time.compute_ns

    def _step_time_of(self, timing: ExactTiming) -> StepTime | None:
        """The step time with the blocks that an allocation has, None where steps are counted."""
        return self.problem.in_blocks(timing.graph.blocks).step_time if self.unit == "ns" else None


class Latency(TimeObjective):
    """Time for one input."""

    name, label, by_methods = "latency", "latency", True

    @override
    def value(self, timing: ExactTiming) -> float:
        step_time = self._step_time_of(timing)
        return timing.makespan * (1 if step_time is None else step_time.step_ns(timing.replication))

    @override
    def solve(self, stop: Stop, seed: int) -> Candidate:
        by_product = self._by_step is not None and self._by_step.moves
        by_step = mode_objectives.solve_latency_ns if self.problem.on_menu else bandwidth.solve
        return (by_step if by_product else solve_makespan)(self.problem, stop, seed)

    @override
    def bound(self, candidate: Candidate, stop: Stop) -> float:
        if candidate.objective_bound is not None:
            return candidate.objective_bound
        steps = root_bound(self.problem, stop, candidate.lower_bound)
        if self.unit != "ns" or self.problem.step_time is None:
            return steps
        if self.problem.on_menu:
            return mode_objectives.root_bound_ns(self.problem, stop)
        shortest_ns = self.problem.step_time.step_ns(self.problem.smallest)
        return max(steps * shortest_ns, bandwidth.root_bound_ns(self.problem, stop))

    @override
    def front(self, stop: Stop, seed: int, on_progress: FrontProgress | None) -> Front:
        if self.problem.on_menu:
            return mode_objectives.solve_front(self, stop, seed, on_progress)
        if self.unit == "ns" and self._by_step is not None:
            return latency_front.solve(self.problem, self._by_step, stop, seed, on_progress)
        return front.solve(self.problem, stop, seed, on_progress)


class Makespan(Latency):
    """Time for one input in steps, however long they are."""

    name, label = "makespan", "makespan"

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.unit = self.problem.time_unit


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


class Interval(TimeObjective):
    """Time between inputs that stream."""

    name, label = "interval", "interval"

    @override
    def value(self, timing: ExactTiming) -> float:
        step_time = self._step_time_of(timing)
        return timing.interval * (1 if step_time is None else step_time.step_ns(timing.replication))

    @override
    def solve(self, stop: Stop, seed: int) -> Candidate:
        """Smallest interval * step_ns, then the least makespan among the allocations that reach it."""
        problem, step_time = self.problem, self.problem.step_time
        if problem.on_menu:
            return mode_objectives.solve_interval(problem, stop, seed)
        steps = interval.fastest_interval(problem)
        least = interval.fewest_copies(problem, steps)
        most, fixed_ns = None, 0.0
        if step_time is not None:
            fixed_ns = step_time.step_ns(least)
            most = step_time.most_copies(fixed_ns, least)
        candidate = solve_makespan(replace(problem, least=least, most=most), stop, seed)
        if step_time is not None and step_time.step_ns(candidate.replication) > fixed_ns * (1 + 1e-12):
            candidate = replace(candidate, replication=least)
        words = (
            f"interval {steps} proven best by trying every one; makespan at that interval, at least "
            f"{candidate.lower_bound} steps: {candidate.proof}"
        )
        return replace(candidate, lower_bound=1, objective_bound=self._least(stop), proof=words)

    @override
    def bound(self, candidate: Candidate, stop: Stop) -> float:
        return self._least(stop) if candidate.objective_bound is None else candidate.objective_bound

    @override
    def front(self, stop: Stop, seed: int, on_progress: FrontProgress | None) -> Front:
        if self.problem.on_menu:
            return mode_objectives.solve_front(self, stop, seed, on_progress)
        return front.solve_interval(self.problem, self._by_step)

    def _least(self, stop: Stop) -> float:
        """The smallest value by trying every interval, of allocations that tiles need not hold."""
        problem = replace(self.problem, tiles=None)
        if problem.on_menu:
            if self._by_step is None:
                return mode_objectives.smallest_interval(problem)
            share = stop.nested(stop.work, gap=0.0)
            return mode_objectives.solve_interval(problem, share, 0).objective_bound or 0.0
        steps = interval.fastest_interval(problem)
        if self._by_step is None:
            return steps
        return steps * self._by_step.step_ns(interval.fewest_copies(problem, steps))


class FewestArrays(Objective):
    """Arrays used, of the allocations that meet a target latency."""

    name, label = "arrays", "arrays"
    unit = "arrays"

    def __init__(
        self, problem: Problem, target_steps: int | None = None, target_ns: float | None = None
    ) -> None:
        super().__init__(problem)
        self._target_steps, self._target_ns = target_steps, target_ns

    @override
    def value(self, timing: ExactTiming) -> float:
        return self.problem.arrays(timing.replication, timing.graph.blocks)

    @override
    def solve(self, stop: Stop, seed: int) -> Candidate:
        return fewest.solve(self.problem, stop, seed, self.target)

    @override
    def bound(self, candidate: Candidate, stop: Stop) -> float:
        return self.problem.minimum if candidate.objective_bound is None else candidate.objective_bound

    @property
    def target(self) -> int:
        """The target in steps. Raises SpecError unless there is exactly one that can be had in steps."""
        steps, target_ns, step_time = self._target_steps, self._target_ns, self.problem.step_time
        if steps is not None and target_ns is None:
            return steps
        if target_ns is None or steps is not None:
            raise SpecError("target", "objective 'arrays' needs either --target STEPS or --target-ns NS")
        if step_time is None:
            raise SpecError(
                "target_ns", "the hardware has no [timing], so give --target in steps or --latency-table"
            )
        if step_time.depends_on_copies:
            raise SpecError(
                "target_ns", "the hardware's [memory] changes the step time: give --target in steps"
            )
        return steps_within(target_ns, step_time.compute_ns)


def steps_within(target_ns: float, step_ns: float) -> int:
    """Most steps that take at most a time, as a latency in ns is computed; a quotient may round past them."""
    steps = int(min(target_ns, _MOST_STEPS * step_ns) / step_ns) if step_ns else _MOST_STEPS
    return next(some for some in (steps + 1, steps, steps - 1) if some * step_ns <= target_ns)


class Sequential(TimeObjective):
    """Sum of layer times, as if one layer ran after the other while all copies keep their arrays.

    In ns each layer takes the step that it needs with the memory to itself.
    """

    name, label = "sequential", "sum of layer times"

    @override
    def value(self, timing: ExactTiming) -> float:
        step_time = self._step_time_of(timing)
        if step_time is None:
            return int((timing.batches * timing.cycles).sum())
        stages = np.arange(len(timing.batches))
        return math.fsum((timing.batches * step_time.alone_ns(stages, timing.replication)).tolist())

    @override
    def solve(self, stop: Stop, seed: int) -> Candidate:
        return sequential.solve_in_turn(self.problem, stop, self._by_step)

    @override
    def bound(self, candidate: Candidate, stop: Stop) -> float:
        bound = candidate.objective_bound
        if bound is None:
            bound = self.solve(stop.nested(stop.work, gap=0.0), 0).objective_bound or 0.0
        return round(bound) if self.unit != "ns" else bound


class LeastEnergy(Objective):
    """Energy for one input: static energy grows with the arrays and with the latency."""

    name, label, by_methods = "energy", "energy", True
    unit: Unit = "pJ"

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        model, step_time = problem.energy, problem.step_time
        given = model is not None and None not in (model.energy.read_pj, model.energy.leakage_mw)
        if model is None or step_time is None or not given:
            raise SpecError(
                "objective",
                f"{self.name!r} needs a hardware with read_pj and leakage_mw in [energy], and the time of a "
                f"step in [timing] or a latency table",
            )
        self._floor = EnergyFloor(problem, model)

    @override
    def value(self, timing: ExactTiming) -> float:
        metrics = self.problem.metrics(timing)
        value = None if metrics is None else self._of(metrics.total)
        if value is None:
            raise AssertionError("checked when the objective was made")
        return value

    @override
    def solve(self, stop: Stop, seed: int) -> Candidate:
        def fastest(problem: Problem, work: int) -> FasterThan:
            share = stop.nested(work)
            latency = Latency(problem)
            candidate = latency.solve(share, seed)
            return FasterThan(candidate, latency.in_ns(latency.bound(candidate, share)))

        return ArrayRangeSearch(self.problem, stop, self.value, self.floor, fastest).run()

    @override
    def bound(self, candidate: Candidate, stop: Stop) -> float:
        if candidate.objective_bound is not None:
            return candidate.objective_bound
        known = self.problem.root_bounds
        if self.name not in known:  # the same for every method tried on a problem
            share = stop.nested(_ROOT_WORK, gap=0.0, cores=1)
            known[self.name] = self.solve(share, 0).objective_bound or 0.0
        return known[self.name]

    def floor(self, arrays: int, latency_ns: float) -> float:
        """What no allocation undercuts with at least so many arrays and so much time."""
        return self._floor.energy_pj(arrays, latency_ns)

    def _of(self, total: EnergyArea) -> float | None:
        return total.energy_pj


class LeastEdp(LeastEnergy):
    """Energy times latency."""

    name, label = "edp", "energy * latency"
    unit: Unit = "pJ ns"

    @override
    def floor(self, arrays: int, latency_ns: float) -> float:
        return self._floor.energy_pj(arrays, latency_ns) * latency_ns

    @override
    def _of(self, total: EnergyArea) -> float | None:
        return total.edp


OBJECTIVES: dict[ObjectiveName, type[Objective]] = {
    "latency": Latency,
    "interval": Interval,
    "arrays": FewestArrays,
    "energy": LeastEnergy,
    "edp": LeastEdp,
    "sequential": Sequential,
}
"""Those of `optimize` and of sweeps."""
FRONTS: dict[str, type[Objective]] = {
    "makespan": Makespan,
    "interval": Interval,
    "latency_ns": LatencyNs,
}
"""Those that `pareto` puts against arrays."""


def check_method(objective: ObjectiveName, method: str) -> None:
    """Raise SpecError for a method that does not propose anything for an objective."""
    if method != "auto" and not OBJECTIVES[objective].by_methods:
        raise SpecError("method", f"{method!r} minimises latency only; objective {objective!r} needs 'auto'")


def root_bound(problem: Problem, stop: Stop, known: int = 1) -> int:
    """Steps that no allocation undercuts, without a search: those known already, or more."""
    if known > 1 and not problem.on_menu and not bounder_of(problem).refutes(known):
        return known
    if problem.on_menu:
        return max(known, mode_objectives.root_bound(problem, stop))
    return max(known, bounder_of(problem).root_bound(stop))


def gap_of(value: float, bound: float) -> float:
    """Relative distance of a value from its bound; 0 where the value itself is 0."""
    return (value - bound) / value if value else 0.0


def within(value: float, bound: float) -> float:
    """A bound without the rounding by which it may exceed a value that it bounds."""
    return value if value < bound <= value * (1 + _ROUNDING) else bound
