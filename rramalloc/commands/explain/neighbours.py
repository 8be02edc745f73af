"""The next points of the front beside an allocation, and the fewest arrays for a speedup."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import cast

import numpy as np
import numpy.typing as npt

from rramalloc.allocation.allocation import kind_words
from rramalloc.allocation.case import Case
from rramalloc.allocation.check import check_answer
from rramalloc.choices import MAX_ARRAYS, ExplainedObjective
from rramalloc.commands.explain.explanation import NOT_TRIED, Change, ExplainedPoint, Neighbour
from rramalloc.commands.explain.step_parts import step_layers
from rramalloc.errors import BudgetError, TargetError
from rramalloc.rounding import SAME_PRODUCT, SAME_SUM
from rramalloc.search.links import WithLinks
from rramalloc.search.menu import all_modes, unlimited
from rramalloc.search.objective import OBJECTIVES, FewestArrays, Objective, TimeObjective, capped_bound
from rramalloc.search.problem import Answer, Choice, Problem
from rramalloc.search.resources import Cost
from rramalloc.search.target import Target
from rramalloc.search.work import Tell, Work
from rramalloc.timing.access import Absolute, access_ns
from rramalloc.timing.critical_path import critical_path
from rramalloc.timing.simulate import ExactTiming, simulate
from rramalloc.units import area, duration, number_of, plain_quantity, share

_MOST_NEAR = 6  # allocations with a copy more or less that are placed, 0.1 s to 1 s each
_LESS = 1 - SAME_SUM  # of a time in ns: one that is shorter by less than rounding is no faster
_MORE = 1 + SAME_SUM  # of a time in ns: one that is longer by less than rounding is no longer
_BANDWIDTH = "memory.bandwidth_gb_s"
_NUMBERS = {"read_ns": "timing.read_ns", "converter_ns": "timing.adc_ns", "memory_ns": _BANDWIDTH}
"""Number of the hardware by which each part of a step is long."""

_Keyed = tuple[tuple[float, ...], Choice]
"""An allocation behind its key: the best placed allocation is the one with the least key."""


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Searches around one allocation. objective: over any number of arrays, on as many chips.

    With links it is over the arrays of the chip, each point is placed, and values are those with transfers.
    value: of the allocation, on its own places; numbers: arrays of every kind on the chip, where it has
    several and says how many; tell: callback that gets the progress of every search; not_placed: allocations
    near by that some search left out, as they were too many or no work was left.
    """

    case: Case
    timing: ExactTiming
    objective: TimeObjective
    value: float
    stop: Work
    seed: int
    numbers: Mapping[str, int]
    tell: Tell | None = None
    not_placed: set[bytes] = field(default_factory=set, init=False)

    @classmethod
    def of(
        cls,
        case: Case,
        timing: ExactTiming,
        absolute: Absolute,
        objective: ExplainedObjective,
        stop: Work,
        seed: int,
        tell: Tell | None = None,
    ) -> Neighbours:
        """Return the searches of a case. Raises BudgetError, SpecError.

        Kinds of arrays are counted by area, any number of each; without areas, or with links, their numbers
        hold.
        """
        kinds = case.hardware.kinds or ()
        numbers = {kind.name: kind.arrays for kind in kinds if kind.arrays is not None}
        if case.hardware.counts_area and not case.placed:
            free = tuple(kind.model_copy(update={"arrays": None}) for kind in kinds)
            case = case.on(case.hardware.model_copy(update={"kinds": free}))
        on_chip = case.problem(MAX_ARRAYS)
        problem = unlimited(on_chip)
        if case.placed:
            problem = replace(problem, budget=min(problem.budget, on_chip.budget))
        counted = _counted(problem, OBJECTIVES[objective])
        of_time = cast("TimeObjective", OBJECTIVES[objective](counted.problem))
        of_time.unit = counted.unit
        steps = timing.interval if objective == "interval" else timing.makespan
        value = steps * (absolute.step_ns or 1) if case.placed else of_time.value_of(timing)
        return cls(case, timing, of_time, value, stop, seed, numbers, tell)

    @property
    def problem(self) -> Problem:
        """The problem of the objective."""
        return self.objective.problem

    @property
    def taken(self) -> npt.NDArray[np.int64]:
        """Arrays of all copies of every stage, canonical order."""
        return self.problem.storage.taken(self.timing.graph.modes, self.timing.copies)

    @property
    def arrays(self) -> int:
        """Arrays of the allocation."""
        return int(self.taken.sum())

    @property
    def cost(self) -> Cost:
        """Cost of the arrays of the allocation."""
        return self.problem.arrays(self.timing.copies, self.timing.graph.modes)

    def _cost_of(self, point: ExplainedPoint) -> Cost:
        """Return the cost of the arrays of a point."""
        resources = self.problem.resources
        in_unit = point.arrays if point.area_um2 is None or resources.unit == "arrays" else point.area_um2
        return Cost(round(in_unit * resources.per_unit))

    @property
    def left_out(self) -> list[str]:
        """A warning of the allocations that were not placed, if there are any."""
        words = number_of(len(self.not_placed), "allocation")
        verb = "was" if len(self.not_placed) == 1 else "were"
        words += f" with a copy more or less of a layer {verb} not placed to find the points beside it"
        return [words] if self.not_placed else []

    def cheaper(self) -> Neighbour:
        """Return the fastest point with fewer arrays, and of those the one with the fewest arrays."""
        if self.stop.out_of_time:
            return Neighbour(point=None, proven=False, words=NOT_TRIED)
        try:
            fewer = replace(self.problem, budget=Cost(self.cost - 1))
            point = self._fastest(fewer)
        except BudgetError as error:
            words = f"with fewer than {error.need} arrays"
            if self.case.hardware.kinds is not None:
                words = f"with less than the {self.problem.resources.words(self.cost)} that it takes"
            words = f"none: {words} the network is not stored once"
            return Neighbour(point=None, proven=True, words=words)
        try:
            fewest = self._fewest(replace(fewer, budget=self._cost_of(point)), point.value)
            point = fewest.model_copy(update={"value_bound": point.value_bound})
        except TargetError:  # not found again within the work
            point = point.model_copy(update=self._bound(fewer.minimum))
        less = "less area" if self.problem.resources.unit == "um2" else "fewer arrays"
        if self._is_fastest(point):
            words = f"proven the fastest with {less}"
        else:
            words = f"{self._at_least(point)} with {less}"
        if not self._is_fewest(point):
            words += f", at least {self._bound_words(point)} for it"
        return self._neighbour(point, words)

    @property
    def _within(self) -> str:
        """Limit of arrays above which nothing was searched, in words; "" if there is none."""
        words = "of the chip" if self.case.placed else self.problem.resources.beyond(self.problem.budget)
        return f" {words}" if words else ""

    def _bound(self, cost: float) -> dict[str, float]:
        """Return the field of a point for the fewest arrays, or the least area, that a value needs."""
        if self.problem.resources.unit == "um2":
            return {"area_bound_um2": self.problem.resources.in_unit(cost)}
        return {"arrays_bound": math.ceil(self.problem.resources.in_unit(cost))}

    def _bound_words(self, point: ExplainedPoint) -> str:
        if point.area_bound_um2 is not None:
            return f"{area(point.area_bound_um2)} is needed"
        return f"{point.arrays_bound} are needed"

    def faster(self) -> Neighbour:
        """Return the point with the fewest arrays that is faster, and as fast as they allow."""
        ns = self.objective.unit == "ns"
        target = self.value * _LESS if ns else self.value - 1
        if self.stop.out_of_time:
            return Neighbour(point=None, proven=False, words=NOT_TRIED)
        try:
            first = self._fewest(self.problem, target)
        except TargetError as error:
            least = max(error.bound, self.objective.in_unit(self._least()[0]), self._moved_ns() if ns else 0)
            within = self._within
            proven = error.proven or least > target
            words = f"no number of arrays{within} is faster"
            if not proven:
                words = "none was found within the work, and none takes less than "
                words += plain_quantity(least, self.objective.unit)
            return Neighbour(point=None, proven=proven, words=words)
        fastest = self._fastest(replace(self.problem, budget=self._cost_of(first)))
        point = fastest if fastest.value <= first.value else first
        bounds = {name: getattr(first, name) for name in ("arrays_bound", "area_bound_um2")}
        bounds |= {"value_bound": fastest.value_bound}
        point = point.model_copy(update=bounds)
        words = self._fewest_words(point)
        if not self._is_fastest(point):
            words += f", {self._at_least(point)} with as {'much' if point.area_bound_um2 else 'many'}"
        return self._neighbour(point, words)

    def speedup(self, factor: float) -> Neighbour:
        """Return the fewest arrays with which the objective is `factor` times as small, or the reason."""
        target: float = self.value / factor
        made = Neighbour(point=None, proven=False, words=NOT_TRIED)
        if not self.stop.out_of_time:
            try:
                point = self._fewest(self.problem, target)
                made = self._neighbour(point, self._fewest_words(point))
            except TargetError as error:
                made = self._refused(target, error)
        return made.model_copy(update={"factor": factor, "target": target})

    def _neighbour(self, point: ExplainedPoint, words: str) -> Neighbour:
        """Return a point with its proof: of the fewest arrays, and of the value too if that was searched."""
        proven = self._is_fewest(point) and (point.value_bound is None or self._is_fastest(point))
        return Neighbour(point=point, proven=proven, words=f"{self._words(point)}, {words}")

    def _is_fewest(self, point: ExplainedPoint) -> bool:
        if point.area_bound_um2 is not None:
            return point.area_bound_um2 >= (point.area_um2 or 0.0) * _LESS
        return point.arrays_bound == point.arrays

    def _is_fastest(self, point: ExplainedPoint) -> bool:
        return point.value_bound is not None and point.value_bound >= point.value * _LESS

    def _fewest_words(self, point: ExplainedPoint) -> str:
        if not self._is_fewest(point):
            return f"at least {self._bound_words(point)}"
        return "proven the fewest" if point.area_bound_um2 is None else "proven the least"

    def _at_least(self, point: ExplainedPoint) -> str:
        return f"at least {plain_quantity(point.value_bound or 0, self.objective.unit)}"

    def _solved(self, objective: Objective, what: str) -> Answer:
        """Return the answer to an objective, with as much work as all of these searches have."""
        stop = self.stop.nested(self.stop.work).reporting_to(self.tell, what)
        try:
            if isinstance(objective, WithLinks):
                return self._placed(objective, stop)
            return objective.solve(stop, self.seed)
        finally:
            self.stop.charge(stop.spent_s)

    @cached_property
    def _near(self) -> list[Choice]:
        """The allocations with one copy more or less of one layer."""
        graph = self.timing.graph
        change = np.eye(len(graph.names), dtype=np.int64)[graph.weighted]
        rows = self.timing.copies + np.concatenate((-change, change))
        possible = ((rows > 0) & (rows <= graph.most_copies)).all(axis=1)
        every = [self.problem.choice(row, graph.modes) for row in rows[possible]]
        return [each for each in every if self.problem.keeps_limits(each.copies, each.modes)]

    def _placed(self, objective: WithLinks, stop: Work) -> Answer:
        """Return the best of the answer without links and of the allocations near by that are placed.

        None is placed that is no better without links than the best so far is with them. A target that none
        of these reaches is walked to.
        """
        near = [each for each in self._near if objective.problem.holds(each.copies, each.modes)]
        near = [each for each in near if objective.alone.allows(each)]
        near.sort(key=lambda each: (objective.alone.value(each), each.makespan))

        def better(best: _Keyed | None, found: Choice) -> _Keyed:
            """Return the better of two; the second is placed where it may be better without links."""
            if best is not None and not best[0][0]:
                value = objective.in_unit(objective.alone.value(found))
                least = 0.0, value, objective.alone.tie(found), found.arrays
                if least >= best[0] or not objective.alone.allows(found):
                    return best
            key = objective.key(objective.placer.placed(found, stop, again=True))
            return (key, found) if best is None or key < best[0] else best

        best: _Keyed | None = None
        for number, each in enumerate(near):
            if number >= _MOST_NEAR or stop.is_used_up:
                self.not_placed.add(each.identity)
            else:
                best = better(best, each)
        if objective.target is not None and (best is None or best[0][0]):
            return objective.solve(stop, self.seed)
        answer = objective.alone.solve(stop.nested(stop.work), self.seed)
        best = better(best, self.problem.choice(answer.choice.copies, answer.choice.modes))
        best = better(best, objective.fewest_arrays)
        bound = objective.in_unit(answer.lower_bound)
        proof = f"bound {plain_quantity(bound, objective.unit)} without transfer: {answer.proof}"
        return replace(answer, choice=best[1], lower_bound=bound, proof=proof)

    def _fastest(self, problem: Problem) -> ExplainedPoint:
        """Return the fastest point of a problem, with the bound of its value."""
        found = self._solved(_counted(problem, type(self.objective)), "the next faster point")
        return self._point(problem, found, value_bound=found.lower_bound)

    def _fewest(self, problem: Problem, target: float) -> ExplainedPoint:
        """Return the fewest arrays with which the objective is at most `target`, with their bound.

        Raises TargetError.
        """
        unit = self.objective.unit
        steps = int(target * (1 + SAME_PRODUCT))  # of a quotient that rounding put below a whole number
        if unit != "ns" and steps < 1:
            raise TargetError(target, 1, unit)
        if self.objective.name == "interval":
            goal = Target(target_interval_ns=target) if unit == "ns" else Target(target_interval=steps)
        else:
            goal = Target(target_ns=target) if unit == "ns" else Target(target_steps=steps)
        fewest = _counted(problem, partial(FewestArrays, target=goal))
        found = self._solved(fewest, "the fewest arrays of a point")
        least = (found.lower_bound or 1) * problem.resources.per_unit
        return self._point(problem, found, **self._bound(least))

    def _point(
        self,
        problem: Problem,
        found: Answer,
        arrays_bound: float | None = None,
        area_bound_um2: float | None = None,
        value_bound: float | None = None,
    ) -> ExplainedPoint:
        """Return an allocation as a point, simulated again and checked."""
        checked = check_answer(problem, found, problem.budget, "explain")
        timing = checked.timing
        value = _counted(problem, type(self.objective)).value_of(checked.timing)
        chip = self.case.hardware.chip
        tiles = None if chip is None else -(-checked.used // chip.arrays_per_tile)
        return ExplainedPoint(
            copies=checked.copies,
            block=checked.blocks,
            kind=checked.kind,
            by_kind=checked.by_kind,
            area_um2=self.problem.resources.in_unit(found.choice.arrays)
            if problem.resources.unit == "um2"
            else None,
            arrays=checked.used,
            tiles=tiles,
            chips=None if chip is None or tiles is None else -(-tiles // chip.tiles_per_chip),
            makespan=timing.makespan,
            interval=timing.interval,
            latency_ns=Absolute.of(checked.problem.step_time, timing).latency_ns,
            value=value,
            ratio=value / self.value,
            arrays_bound=None if arrays_bound is None else min(round(arrays_bound), checked.used),
            area_bound_um2=area_bound_um2,
            value_bound=None if value_bound is None else capped_bound(value, value_bound),
            proof=found.proof,
        )

    def _words(self, point: ExplainedPoint) -> str:
        """Return a point in words, beside the allocation."""
        more = point.arrays - self.arrays
        chip = self.case.hardware.chip
        arrays = f"{number_of(point.arrays, 'array')} ({more:+d})"
        if point.by_kind is not None:
            arrays += f", {kind_words(point.by_kind)}"
        if point.area_um2 is not None:
            now, sign = (
                self.problem.resources.in_unit(self.cost),
                "+" if self._cost_of(point) >= self.cost else "-",
            )
            arrays = f"{area(point.area_um2)} ({sign}{area(abs(point.area_um2 - now))}) of {arrays}"
        if chip is not None and point.tiles is not None and point.chips is not None:
            arrays += f" in {number_of(point.tiles, 'tile')} of {number_of(point.chips, 'chip')}"
        change = "as fast"
        if point.ratio != 1:
            change = f"{share(abs(1 - point.ratio))} {'shorter' if point.ratio < 1 else 'longer'}"
        words = f"{arrays}: {plain_quantity(point.value, self.objective.unit)}, {change}"
        used = point.by_kind or {}
        short = [f"{number:,} {name}" for name, number in self.numbers.items() if used.get(name, 0) > number]
        return words + (f", more than the {' and '.join(short)} of the chip" if short else "")

    def _refused(self, target: float, error: TargetError) -> Neighbour:
        """Return the neighbour without a point: why a target is missed, and the numbers that limit it."""
        unit, step_time, memory = self.objective.unit, self.problem.step_time, self.case.hardware.memory
        least, chain = self._least()
        floor = self.objective.in_unit(least)
        moved_ns = self._moved_ns()
        target_ns = None if step_time is None else self.objective.in_ns(target)
        changes = list[Change]()
        proven = True

        def amount(value: float) -> str:
            """Return a time in words: in steps or ticks also how long they last."""
            if unit == "ns" or target_ns is None:
                return plain_quantity(value, unit)
            return f"{value:.10g} {unit} ({duration(self.objective.in_ns(value))})"

        # Which number of the hardware holds several kinds back differs from kind to kind.
        if target_ns is not None and floor > target and self.case.hardware.kinds is None:
            changes += self._changes(chain, least, target_ns)
        if memory is not None and target_ns is not None and moved_ns > target_ns * _MORE:
            have = memory.bandwidth_gb_s
            changes = [change for change in changes if change.number != _BANDWIDTH]
            changes.append(Change(number=_BANDWIDTH, have=have, need=have * moved_ns / target_ns))
        reason = f"no number of arrays{self._within} does: "
        if floor > target:
            held = f"{chain[0]} takes"
            if chain[1:]:
                held = f"the {len(chain)} layers {chain[0]} ... {chain[-1]}, one after another, take"
            reason += f"{held} {amount(floor)} with all copies allowed"
        elif changes:
            reason += f"memory access takes at least {duration(moved_ns)}"
        else:
            proven = error.proven
            reason = reason if proven else "none was found within the work: "
            reason += f"at least {amount(error.bound)} is proven"
            changes += [] if memory is None else [Change(number=_BANDWIDTH)]
        reason += f", the target is {amount(target)}"
        if changes:
            reason += f"; what holds it back: {', '.join(change.words for change in changes)}"
        return Neighbour(point=None, proven=proven, words=reason, changes=tuple(changes))

    def _least(self) -> tuple[int, list[str]]:
        """Return a lower bound of the objective [steps] for any number of arrays, and the layers that set it.

        Every window starts as soon as its inputs exist and one of the copies allowed is free: of the latency
        the longest chain, of the interval the longest layer.
        """
        problem, graph = self.problem, self.problem.graph
        most = graph.most_copies
        if not problem.chooses_blocks and problem.held.most is not None:
            most = np.minimum(most, problem.held.most)
        ticks, rounds = graph.batch_ticks(np.ones_like(most)), -(-graph.windows // most)
        if problem.alternatives is not None:
            finishs = enumerate(map(problem.alternatives.of, range(len(most))))
            ticks = np.array(
                [min(problem.ticks(stage, mode, 1) for mode in modes) for stage, modes in finishs]
            )
        if self.objective.name == "interval":
            stage = int((ticks * rounds).argmax())
            return int((ticks * rounds)[stage]), [graph.names[stage]]
        edges, done = graph.flat_binding, list[npt.NDArray[np.int64]]()
        for stage, count in enumerate(rounds.tolist()):
            available = np.zeros(
                (count, int(most[stage])), dtype=np.int64
            )  # a row for each round of the copies
            by_window = available.reshape(-1)[: graph.windows[stage]]
            for edge in range(edges.pointer[stage], edges.pointer[stage + 1]):
                need, made = edges.of(edge, stage), done[edges.producer[edge]]
                np.maximum(by_window, np.where(need < 0, 0, made[need] + edges.lag[edge]), out=by_window)
            order = np.arange(count)[:, None] * ticks[stage]
            start = np.maximum.accumulate(available - order, axis=0) + order
            done.append(start.reshape(-1)[: graph.windows[stage]] + ticks[stage])
        path = critical_path(simulate(graph, most))
        return max(int(finishs.max()) for finishs in done), [segment.stage for segment in path]

    def _changes(self, chain: list[str], least: int, target_ns: float) -> Iterator[Change]:
        """Yield the numbers of the hardware whose part of these layers alone is longer than the target."""
        case, graph, problem = self.case, self.problem.graph, self.problem
        layers = step_layers(case, simulate(graph, problem.smallest), {}, problem.demand)
        batches = dict(zip(graph.names, (-(-graph.windows // graph.most_copies)).tolist(), strict=True))
        array = (
            "timing.step_ns"
            if case.hardware.timing and case.hardware.timing.step_ns
            else "digital.ns_per_pixel"
        )
        parts = {**_NUMBERS, "array_ns": "latency table" if case.measured else array}
        for part, number in parts.items():
            times_ns = {layer.name: getattr(layer, part) or 0.0 for layer in layers}
            total_ns = sum(times_ns[name] * batches[name] for name in chain)
            if not case.hardware.own_clock:
                memory = case.hardware.memory
                together = part == "memory_ns" and memory is not None and memory.scope == "shared"
                total_ns = least * (sum(times_ns.values()) if together else max(times_ns.values()))
            if total_ns > target_ns * _MORE:
                table, _, field = number.partition(".")
                have = getattr(getattr(case.hardware, table, None), field or table, None)
                have = have if isinstance(have, float | int) else None
                ratio = total_ns / target_ns if part == "memory_ns" else target_ns / total_ns
                yield Change(number=number, have=have, need=None if have is None else have * ratio)

    def _moved_ns(self) -> float:
        """Return the memory time for the inputs and outputs of all windows [ns], 0 without a memory."""
        problem, hardware, graph = self.problem, self.case.hardware, self.problem.graph
        if hardware.memory is None or problem.step_time is None:
            return 0.0
        times = list[float]()
        for stage, (node, listed) in enumerate(zip(graph.stages, all_modes(problem), strict=True)):
            modes = set(listed.modes)
            times.append(
                min(
                    problem.time.total(stage, mode) * access_ns(graph.network, node, mode.block, hardware)
                    for mode in modes
                )
            )
        if hardware.memory.scope == "per_layer":
            return max(times)
        return max(times) * int(graph.weighted.sum()) if hardware.own_clock else sum(times)


def _counted(problem: Problem, make: Callable[[Problem], Objective]) -> Objective:
    """Return an objective of a problem, with links if it counts them."""
    return make(problem) if problem.placer is None else WithLinks(problem, make)
