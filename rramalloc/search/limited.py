"""An objective under limits of other quantities: energy, power, latency, interval (docs/sources/model.md 15).

What the objective finds without the limits is the answer where it keeps to them, and its bound holds in any
case. Else allocations that keep to them are sought over ranges of arrays: a range whose floor of a limited
quantity is above the limit is left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from typing_extensions import override

from rramalloc.errors import BudgetError, LimitError, RramallocError, SpecError, TargetError
from rramalloc.rounding import SAME_SUM
from rramalloc.search.energy import EnergyFloor
from rramalloc.search.menu import Menu, limited_to, with_least_cost
from rramalloc.search.objective import (
    FewestArrays,
    Interval,
    Latency,
    LeastEnergy,
    Objective,
    RangedByArrays,
    gap_of,
    steps_within,
)
from rramalloc.search.problem import Answer, Choice, Problem
from rramalloc.search.resources import Cost, Resources
from rramalloc.search.target import Target
from rramalloc.search.work import Work

OF_ARRAYS = frozenset({"area_um2"})
"""Quantities that follow from the numbers of arrays alone: the budget or an axis keeps to their limits."""
_BROKEN = 1e200
"""Value of allocations that break a limit, times how far: more than any value that keeps to all."""
_MINIMISED: Mapping[str, type[Objective]] = {
    "latency_ns": Latency,
    "interval_ns": Interval,
    "energy_pj": LeastEnergy,
}
"""Objective that finds the least of a limited quantity."""


class UnderLimits(RangedByArrays):
    """An objective over a problem with limits."""

    label = "under limits"

    def __init__(self, inner: Objective, target: str = "") -> None:
        super().__init__(inner.problem)
        self._target = target  # the limit that is the target of the fewest arrays, empty if that is none
        self.inner, self.unit = inner, inner.unit
        energy = self.problem.energy
        self._energy = None if energy is None else EnergyFloor(self.problem, energy)
        self._bound = 0.0

    @override
    def value(self, found: Choice) -> float:
        return self.inner.value(found)

    @override
    def starts(self, stop: Work) -> list[Choice]:
        spent = {"energy_pj", "power_mw"}.intersection(self.problem.limits.at_most or {})
        return [self._energy.frugal(stop)] if self._energy is not None and spent else []

    @override
    def measure(self, found: Choice) -> float:
        excess = self.problem.excess(found)
        return _BROKEN * (1 + excess) if excess else self.inner.value(found)

    @override
    def least(self, arrays: int, latency_ns: float) -> float:
        limits = self.problem.limits.at_most or {}
        if self._energy is not None and "power_mw" in limits:
            latency_ns = max(latency_ns, self._energy.least_ns(arrays, limits["power_mw"]))
        if latency_ns > limits.get("latency_ns", _BROKEN) * (1 + SAME_SUM):
            return math.inf
        if self._energy is not None and "energy_pj" in limits:
            energy_pj = self._energy.energy_pj(arrays, latency_ns)
            if energy_pj > limits["energy_pj"] * (1 + SAME_SUM):
                return math.inf
        return max(self._bound, self.inner.at_least(arrays, latency_ns))

    @override
    def allows(self, found: Choice) -> bool:
        return not self.problem.excess(found)

    @override
    def tie(self, found: Choice) -> float:
        return self.inner.tie(found)

    @override
    def refusal(self, every: Sequence[Choice], stop: Work, seed: int) -> RramallocError:
        limits, excess = self.problem.limits.at_most or {}, self.problem.excess
        for name, limit in limits.items():
            others = [other for other in limits if other != name]
            kept = [found for found in every if not any(excess(found, other) for other in others)]
            if kept:
                least = limit * (1 + min(excess(found, name) for found in kept))
                return LimitError(name, limit, least, proven=True)
        nearest = min(every, key=excess)
        return self.broken_by(nearest, proven=True)

    @override
    def search(self, stop: Work, seed: int) -> Answer:
        """Return the best of searches with more and more work: what they begin with depends on that."""
        answers = list[Answer]()
        found: Answer | None = None
        unmet: RramallocError | None = None
        for share in stop.rungs():
            try:
                answers.append(self._search(share, seed))
            except (LimitError, TargetError) as error:
                if error.proven:
                    raise
                unmet = error
                continue
            best = min(answers, key=lambda answer: (self.value(answer.choice), answer.choice.arrays))
            bound = max(answer.lower_bound for answer in answers)
            last = answers[-1]
            gap = gap_of(self.value(best.choice), bound)
            proof = last.proof
            if gap <= SAME_SUM < gap_of(self.value(last.choice), last.lower_bound):
                proof = "proven optimal under the limits, by searches with different work"
            found = replace(best, lower_bound=bound, proof=proof)
            if gap <= max(stop.gap, SAME_SUM):
                break
        if found is None:
            raise unmet or AssertionError("a search ends with an answer or an error")
        return found

    def _search(self, stop: Work, seed: int) -> Answer:
        """Search once: without the limits, and where that breaks one, over ranges of arrays."""
        share = stop.nested(stop.work)
        try:
            answer = self.inner.solve(share, seed)
        except TargetError:
            if not self._target:
                raise
            raise self._missed(share, seed) from None
        self._bound = answer.lower_bound
        stop.charge(share.taken())
        if not self.problem.excess(answer.choice):
            return answer
        starts = [answer.choice]
        for name in self.problem.limits.at_most or {}:
            kind = _MINIMISED.get(name)
            if kind is not None and self.problem.excess(answer.choice, name):
                starts.append(self._least_of(kind(self.problem), name, share, seed))
                stop.charge(share.taken())
        found = self.search_from(starts, share, seed)
        stop.charge(share.taken())
        bound = found.lower_bound
        if (
            self.unit in ("steps", "ticks", "arrays")
            and self.problem.resources.per_unit == 1
            and bound < _BROKEN
        ):
            bound = math.ceil(bound * (1 - SAME_SUM))
        found = replace(found, lower_bound=bound)
        if self.problem.excess(found.choice):
            raise self.broken_by(found.choice, proven=bound >= _BROKEN)
        if gap_of(self.inner.value(found.choice), bound) <= SAME_SUM:
            return replace(found, proof=f"proven optimal under the limits: {found.proof}")
        return replace(found, proof=f"bounded, stopped after the work allowed: {found.proof}")

    def broken_by(self, found: Choice, *, proven: bool) -> LimitError:
        """Return the error that names the limit that an allocation breaks most."""
        limits = self.problem.limits.at_most or {}
        name = max(limits, key=lambda each: self.problem.excess(found, each))
        known = limits[name] * (1 + self.problem.excess(found, name))
        return LimitError(name, limits[name], known, proven=proven)

    def _missed(self, share: Work, seed: int) -> LimitError:
        """Return the error that says that the limit which is the target was not met."""
        name, limit = self._target, (self.problem.limits.at_most or {})[self._target]
        try:
            nearest = self._least_of(_MINIMISED[name](self.problem), name, share, seed)
        except LimitError as error:
            return error
        return LimitError(name, limit, limit * (1 + self.problem.excess(nearest, name)), proven=False)

    def _least_of(self, objective: Objective, name: str, share: Work, seed: int) -> Choice:
        """Return the allocation with the least of a quantity. Raises LimitError if that is too much."""
        answer, limit = objective.solve(share, seed), (self.problem.limits.at_most or {})[name]
        least = answer.lower_bound
        if isinstance(objective, Latency | Interval):
            least = objective.in_ns(least)
        if least > limit * (1 + SAME_SUM):
            raise LimitError(name, limit, least, proven=True)
        return answer.choice

    @override
    def bound(self, steps: int, stop: Work) -> float:
        return self.inner.bound(steps, stop)


def limited(objective: Objective) -> Objective:
    """Return the objective under the limits of its problem, if there are any; a target is one of them."""
    limits = dict(objective.problem.limits.at_most or {})
    if not limits:
        return objective
    name = ""
    if isinstance(objective, FewestArrays):
        target = objective.target
        if not target.given:
            name = next((each for each in ("latency_ns", "interval_ns") if each in limits), "")
            latency_ns = limits.get("latency_ns")
            interval_ns = limits.get("interval_ns") if latency_ns is None else None
            target = Target(target_ns=latency_ns, target_interval_ns=interval_ns)
        objective = FewestArrays(with_limits(objective.problem, lowest(limits, target.limits)), target)
    return UnderLimits(objective, name)


def lowest(*limits: Mapping[str, float]) -> dict[str, float]:
    """Return the lowest limit of every quantity that is limited."""
    names = dict.fromkeys(name for each in limits for name in each)
    return {name: min(each[name] for each in limits if name in each) for name in names}


def whole(problem: Problem, limits: Mapping[str, float]) -> Problem:
    """Return a problem with the least cost of every stage, and under its limits.

    Raises BudgetError and LimitError where one copy of everything is too large; SpecError where no choice of
    kinds keeps to their arrays, and as `under_limits`.
    """
    resources = problem.resources
    if len(resources.weights) > 1:
        try:
            problem = with_least_cost(problem)
        except BudgetError as error:
            raise _not_stored(resources, error, limits) from None
    elif problem.held.least is not None or not problem.storage.is_chosen_freely:
        problem = with_least_cost(problem)
    return under_limits(problem, limits)


def _not_stored(resources: Resources, error: BudgetError, limits: Mapping[str, float]) -> RramallocError:
    """Return the error that says which limit of several kinds of arrays does not store every layer once."""
    area_um2, most = limits.get("area_um2"), resources.words(error.have)
    if error.need < 2**60 and area_um2 is not None and resources.in_unit(error.need) > area_um2:
        return LimitError("area_um2", area_um2, resources.in_unit(error.need), proven=True)
    of_axes = ", ".join(f"{axis.limit} {axis.name}" for axis in resources.axes if any(axis.per_array))
    words = f"no choice of a kind for every layer keeps to all limits: {of_axes}"
    if error.need < 2**60:
        words = f"every layer once takes {resources.words(error.need)} or more, "
        words += f"{of_axes} take {most} at most" if of_axes else f"no more than {most} are counted"
    if not of_axes:
        return SpecError("arrays", f"{words}: give arrays of less area, or leave layers to the host (--host)")
    return SpecError("arrays", f"{words}: raise the `arrays` of kinds (or --arrays NAME=N), or --arrays N")


def under_limits(problem: Problem, limits: Mapping[str, float]) -> Problem:
    """Return the problem with its limits: of area as a budget, of the interval also as one of its modes.

    Raises LimitError where one copy of everything is too large, or no allocation streams so fast; SpecError
    for a quantity that the hardware does not give.
    """
    _check_given(problem, limits)
    area_um2, interval_ns = limits.get("area_um2"), limits.get("interval_ns")
    if area_um2 is not None and problem.energy is not None and len(problem.resources.weights) == 1:
        area_of = problem.energy.area_um2
        low, high = problem.minimum - 1, int(problem.budget)
        while low < high:  # area rises with the arrays
            middle = (low + high + 1) // 2
            low, high = (middle, high) if (area_of(middle) or 0.0) <= area_um2 else (low, middle - 1)
        if low < problem.minimum:
            raise LimitError("area_um2", area_um2, area_of(problem.minimum) or 0.0, proven=True)
        problem = replace(problem, budget=Cost(low))
    if interval_ns is not None and problem.step_time is not None:
        # The shortest step of all allocations, so no mode is lost that a longer step would allow.
        step_ns = problem.step_time.compute_ns
        try:
            problem = limited_to(problem, max(1, steps_within(interval_ns, step_ns)))
        except BudgetError:
            least = Menu.of(problem).smallest_interval(problem)
            raise LimitError("interval_ns", interval_ns, least * step_ns, proven=True) from None
    model = problem.energy
    in_tiles = len(problem.resources.weights) > 1 and model is not None and model.counts_periphery
    # The budget keeps to a limit of the area, but not of the tiles that several kinds take beside it.
    left = {name: limit for name, limit in limits.items() if name not in OF_ARRAYS or in_tiles}
    return with_limits(problem, left) if limits else problem  # empty: the budget keeps to them all


def with_limits(problem: Problem, at_most: Mapping[str, float]) -> Problem:
    """Return the problem with other limits of quantities."""
    return replace(problem, limits=problem.limits._replace(at_most=at_most))


def _check_given(problem: Problem, limits: Mapping[str, float]) -> None:
    """Raise SpecError for a limit of what the hardware does not give."""
    energy = problem.energy
    has_energy = energy is not None and energy.gives_energy
    energies = f"read_pj and leakage_mw in [energy], and [timing]{problem.lacking('read_pj', 'leakage_mw')}"
    needs = {
        "area_um2": (energy is not None and energy.array_nm2 is not None, "area_um2 in [energy]"),
        "energy_pj": (has_energy, energies),
        "power_mw": (has_energy, energies),
    }
    for name in limits:
        known, words = needs.get(name, (True, "[timing] or a latency table"))
        if not known or (name not in OF_ARRAYS and problem.step_time is None):
            raise SpecError("at_most", f"{name}: the hardware does not give it: it needs {words}")
