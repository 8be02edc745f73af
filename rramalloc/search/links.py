"""Objectives with links: the value of an allocation is that under the placement found for it.

A `Placer`, which room `place` registers, gives an allocation its places, the lags of its edges and the length
of its steps, and remembers them. No transfer makes anything faster, so bounds without links hold and prune
what is placed. One exception: slower links lower the power, so its limit is left out of bounds
(docs/sources/model.md 21).

The search walks. First the answer without links is placed; where that hides its transfers, it is the answer.
Else allocations of rising numbers of arrays are placed: minimum * 1.25^(k/2). These numbers are the same for
every budget and take the same work each. So a larger budget first repeats a smaller one's, and no value rises
with the budget. Between the first two of them, where a few arrays hold many copies of the layers that take
longest, what is best with 1, 2, 4, 8 ... arrays more than the fewest is placed quickly. At every number the
best allocation without links is placed, and the best for the transfers of the best placement so far, which
takes copies from stages that load links. Of a small problem each allocation is placed that may be the best,
step after step of the walk, in a step the fastest first. A walk whose work ends goes on in long steps, each
to twice as many arrays beyond the fewest; where its answer takes more than twice as long as what a budget
alone finds, that counts.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from typing import cast

import numpy as np
from typing_extensions import override

from rramalloc.choices import DEFAULT_WORK
from rramalloc.errors import BudgetError, LimitError, RramallocError, TargetError
from rramalloc.rounding import SAME_SUM
from rramalloc.search.enumeration import every_choice
from rramalloc.search.front import Front, FrontProgress, Point, front_of, undominated
from rramalloc.search.limited import UnderLimits, lowest, with_limits
from rramalloc.search.menu import Menu
from rramalloc.search.objective import FewestArrays, Interval, Latency, Objective, Quantity
from rramalloc.search.problem import Answer, Choice, Placed, Placer, Problem
from rramalloc.search.resources import Cost
from rramalloc.search.work import Work
from rramalloc.timing.access import Transfer
from rramalloc.timing.simulate import ExactTiming
from rramalloc.units import plain_quantity

_GROWTH = 1.25**0.5  # ratio of successive numbers of arrays of the walk
_WHOLE_TILES = 4  # up to which the walk looks at numbers that fill them: fewer links are in use
_RUNG = 0.015  # of the work, for each search at one of them
_FAR = 2  # ratio of the arrays beyond the fewest with which a walk goes on when its work is done
_MUCH = 2.0  # times the value of what a budget alone finds, beyond which the walk has not come far enough
_WALK = 2.0  # of the work, that the walk may take beyond the search without links
_MOST_TIMED = 2_000  # allocations of a small problem
_MOST_PLACED = 60  # of them that are placed, about 40 ms each
_LEADERS = 6  # of a small problem that are placed again at the end
_NEAR = 1.2  # times the best value, up to which they are
_NEARLY = 1.03  # times the best value, up to which one of as many arrays is placed with as much work as pays
_ROUNDS = 6  # of searches at a number of arrays, while each finds a better one for the best's transfers
_PLACING_S = 5e-5  # for an array: measured with 20,000 and 60,000 of them
_PLACING_STAGE_S = 4e-4  # for a stage: measured with 5,000 of them
_MOST_PLACING = 0.75  # of a limit of time that is kept for a placement
_BISECTIONS = 5  # of the numbers of arrays between one that misses a target and one that meets it


def alone(quantity: Quantity) -> Quantity:
    """Return a quantity without links."""
    return quantity.alone if isinstance(quantity, WithLinks) else quantity


def quantity_with_links(problem: Problem, make: Callable[[Problem], Quantity]) -> Quantity:
    """Return a quantity of a problem, with links if it counts them and they change it."""
    found = make(problem)
    if problem.placer is None or not isinstance(found, Objective) or isinstance(found, FewestArrays):
        return found
    return WithLinks(problem, cast("Callable[[Problem], Objective]", make))


def placed_front(
    across: Quantity, along: Quantity, stop: Work, seed: int, on_progress: FrontProgress | None = None
) -> Front:
    """Return the front of two quantities, with links where their problem counts them.

    The points of the front without links are placed one by one, until the time ends, and with them what a
    search of the default work finds best within the budget; those that others then dominate go. The bound of
    a point is that without links, of all that has less of the first quantity than the next point.
    """
    front = front_of(alone(across), alone(along), stop, seed, on_progress)
    if across.problem.placer is None:
        return front
    found = list[Choice]()
    for point in front.points:
        if found and stop.out_of_time:
            break
        across.problem.placer.placed(point.found, stop, quick=True)
        found.append(point.found)
    if isinstance(along, WithLinks) and not stop.out_of_time:
        share = stop.nested(min(stop.work, DEFAULT_WORK))
        found.append(along.solve(share, seed).choice)
        stop.charge(share.spent_s)
    placed = [across.problem.choice(each.copies, each.modes) for each in found]
    kept = undominated([Point(each, across.value(each), along.value(each), 0.0) for each in placed])
    bounded = list[Point]()
    for i, point in enumerate(kept):
        until = kept[i + 1].across if i + 1 < len(kept) else math.inf
        bounds = [each.lower_bound for each in front.points if _in_unit(across, each.across) < until]
        bounded.append(point._replace(lower_bound=_in_unit(along, min(bounds, default=0.0))))
    return replace(front, points=tuple(bounded))


def _in_unit(quantity: Quantity, value: float) -> float:
    return quantity.in_unit(value) if isinstance(quantity, WithLinks) else value


_Key = tuple[float, float, float, int]
"""Part by which limits are exceeded, value, tie, and arrays: the least is the best."""


class WithLinks(Objective):
    """An objective whose values are those under the placements of allocations.

    make: the objective over a problem; its problems here have no placer.
    """

    def __init__(self, problem: Problem, make: Callable[[Problem], Objective]) -> None:
        limits = problem.limits.at_most
        alone = replace(problem, placer=None)
        if limits is not None and "power_mw" in limits:
            left = {name: limit for name, limit in limits.items() if name != "power_mw"}
            alone = with_limits(alone, left)
        self._make, self.alone = make, make(alone)
        inner = self.alone.inner if isinstance(self.alone, UnderLimits) else self.alone
        self.target = inner.target if isinstance(inner, FewestArrays) else None
        of_interval = self.target is not None and self.target.is_of_interval
        if problem.placer is not None and (isinstance(inner, Interval) or of_interval):
            problem = replace(problem, placer=problem.placer.for_interval())
        super().__init__(problem)
        self.name, self.label, self.words = inner.name, inner.label, inner.words  # type: ignore[misc]
        nothing = Transfer(*np.zeros((2, len(problem.demand))))
        if alone.step_time is not None and alone.graph.unit == "steps":  # else transfers delay edges
            alone = replace(alone, step_time=replace(alone.step_time, transfer=nothing))
        self.unit = make(alone).unit

    @property
    def placer(self) -> Placer:
        """The `Placer` of its problem, which is there."""
        if self.problem.placer is None:
            raise AssertionError("links are counted")
        return self.problem.placer

    def of(self, found: Placed) -> Objective:
        """Return the objective on the problem that is timed with the transfers of a placement."""
        return self._make(found.choice.problem)

    def faster(self, problem: Problem) -> Objective:
        """Return what finds fast allocations: the objective, or the time that its target limits."""
        if self.target is None:
            return self._make(problem)
        return Interval(problem) if self.target.is_of_interval else Latency(problem)

    def placement(self, found: Choice) -> Placed:
        """Return an allocation of this or of a similar problem with its placement."""
        return self.placer.placed(self.problem.choice(found.copies, found.modes))

    def in_unit(self, value: float) -> float:
        """Return a value or bound without links in the unit of this objective."""
        step_time = self.problem.step_time
        if step_time is None or self.unit == self.alone.unit:
            return value
        return value * step_time.compute_ns

    @override
    def value_of(self, timing: ExactTiming) -> float:
        placed = self.placement(self.problem.choice(timing.copies, timing.graph.modes))
        return self.of(placed).value_of(timing)

    @override
    def value(self, found: Choice) -> float:
        placed = self.placement(found)
        return self.of(placed).value(placed.choice)

    @override
    def tie(self, found: Choice) -> float:
        placed = self.placement(found)
        return self.of(placed).tie(placed.choice)

    @override
    def allows(self, found: Choice) -> bool:
        return not self.excess(self.placement(found))

    def excess(self, placed: Placed) -> float:
        """Return the part by which a placed allocation exceeds its worst limit or its target."""
        problem = placed.choice.problem
        of_target = {} if self.target is None else self.target.limits
        limits = lowest(problem.limits.at_most or {}, self.alone.problem.limits.at_most or {}, of_target)
        return with_limits(problem, limits).excess(placed.choice)

    def key(self, placed: Placed) -> _Key:
        """Return what is the least of the best placed allocation."""
        objective = self.of(placed)
        value, tie = objective.value(placed.choice), objective.tie(placed.choice)
        return self.excess(placed), value, tie, placed.choice.arrays

    @property
    def fewest_arrays(self) -> Choice:
        """One copy of every layer, or the fewest that are allowed, in modes of the fewest arrays."""
        menu = Menu.of(self.alone.problem)
        return menu.choice(self.alone.problem, menu.smallest)

    def no_worse(self, answer: Answer, stop: Work) -> Answer:
        """Return the answer of a method, or the allocation with the fewest arrays where that is better."""
        fewest = self.fewest_arrays
        placed = [self.placer.placed(each, stop) for each in (answer.choice, fewest)]
        if stop.out_of_time or self.key(placed[0]) <= self.key(placed[1]):
            return answer
        words = f"{answer.proof}; the fewest copies have less {self.label} with the transfers of their places"
        return replace(answer, choice=fewest, proof=words)

    @override
    def bound(self, steps: int, stop: Work) -> float:
        return self.in_unit(self.alone.bound(steps, stop))

    @override
    def search(self, stop: Work, seed: int) -> Answer:
        return self.solve(stop, seed)

    @override
    def solve(self, stop: Work, seed: int) -> Answer:
        walk = _Walk(self, stop, seed)
        return walk.all_that_may_be_best(self.problem.budget) or walk.run()


@dataclass(eq=False)
class _Walk:
    """The search of an objective with links.

    best: of what was placed, or the nearest to what limits and target ask for, and the same with the bits
    that it chose; key: of it; placing_s: longest placement so far, which the next one must leave time for;
    quick: keys of what was placed quickly; leader: best of it since the last one was placed again; asked:
    what was placed, and whether again; end_s: charged work after which it takes long steps.
    """

    objective: WithLinks
    stop: Work
    seed: int
    best: tuple[Placed, Choice] | None = None
    placing_s: float = 0.0
    quick: list[tuple[_Key, Choice]] = field(default_factory=list)
    leader: tuple[_Key, Choice] | None = None
    asked: set[tuple[bytes, bool]] = field(default_factory=set)
    key: _Key = field(default=(math.inf, math.inf, math.inf, 0))
    end_s: float = math.inf

    def all_that_may_be_best(self, arrays: Cost) -> Answer | None:
        """Place all allocations within `arrays` that may be the best, if they are few.

        None where they are not, too many would have to be placed, or they are not all of the problem.
        """
        objective = self.objective
        alone = replace(objective.alone.problem, budget=arrays)
        every = every_choice(alone, self.stop, _MOST_TIMED) or ()
        keys = [(self._least(found), found) for found in every if objective.alone.allows(found)]
        if not keys:
            return None
        least, fastest = min(keys, key=lambda each: each[0])
        choice = objective.problem.choice(fastest.copies, fastest.modes)
        if objective.placer.placed(choice, self.stop, quick=True).is_hidden:
            keys = [(least, fastest)]
        self._begin()
        numbers = self._numbers()
        # Step after step of the walk, as for every budget, so that a larger one repeats a smaller one's; in
        # a step the fastest without links first, which leave few of the others a chance.
        steps = [(bisect_left(numbers, each[1].arrays), *each) for each in keys]
        for _, of_step in groupby(sorted(steps, key=itemgetter(0, 1)), key=itemgetter(0)):
            for _, own, found in of_step:
                if own >= self.key and not self.key[0]:
                    continue
                if len(self.quick) == _MOST_PLACED or self.is_over:
                    return None
                self.place(found)
            self.place_leader_again()
        for key, found in sorted(self.quick, key=itemgetter(0))[:_LEADERS]:
            if key[1] <= _NEAR * self.key[1] and not self.is_over:
                self._place(found, again=True)
        if self.best is None or self.key[0] or arrays < objective.problem.budget:
            return None
        self.stop.is_exhausted = True
        words = f"all {len(every)} allocations timed, each placed that may be better"
        return self._answer(self.best[1], least[1], words)

    def run(self) -> Answer:
        """Place the answer without links; walk where that does not hide its transfers."""
        objective, stop = self.objective, self.stop
        turn = replace(stop, spent_s=0.0)
        if stop.time_limit_s is not None:  # the search leaves time to place what it finds
            placing_s = _PLACING_S * objective.problem.budget + _PLACING_STAGE_S * len(
                objective.problem.demand
            )
            turn.time_limit_s = stop.time_limit_s - min(placing_s, _MOST_PLACING * stop.time_limit_s)
        answer = objective.alone.solve(turn, self.seed)
        stop.is_exhausted = turn.is_exhausted
        bound = objective.in_unit(answer.lower_bound)
        own = _Walk(objective, stop, self.seed)  # what no larger budget places again
        stop.charge(turn.spent_s)
        own.place(answer.choice)
        given = objective.problem.start_within
        if given is not None:
            own.place(given)
        own.place_leader_again()
        self.placing_s = own.placing_s
        is_proven = (own.best is not None and own.best[0].is_hidden) or bound >= own.key[1] * (1 - SAME_SUM)
        if is_proven and not own.key[0]:
            self._keep(own.best, own.key)
        else:
            if objective.target is not None:
                self._keep(own.best, own.key)
            elif self.best is None:  # of a larger problem a part that is small
                for arrays in reversed(self._numbers()):
                    if self.all_that_may_be_best(arrays) or self.best:
                        break
            self._begin()
            if not self.is_over:  # whatever the work, for no answer is slower than this one
                self.place(objective.fewest_arrays)
            self._walk()
            stop.is_exhausted = not self.is_over
            if given is not None:
                self.place(given)
            # What time cuts is not the same for every budget; a walk that did not come far is worth less.
            if self.key[0] or self.is_late or _MUCH * own.key[1] < self.key[1]:
                self._keep(own.best, own.key)
        if self.best is None:
            raise AssertionError("the answer without links was placed")
        if self.key[0]:
            raise self._refusal(self.best[0])
        return self._answer(self.best[1], bound, answer.proof)

    def _walk(self) -> None:
        """Place allocations of rising numbers of arrays; of all for a target, or while none is allowed.

        When the work is done it goes on in long steps, the same for every budget.
        """
        least, budget = self.objective.problem.minimum, self.objective.problem.budget
        missed = least
        has_target = self.objective.target is not None
        numbers = self._numbers()
        powers = int((_GROWTH - 1) * least).bit_length()
        first = [Cost(least + 2**power) for power in range(powers)]
        with_leaders = {*numbers, *first[-1:]}
        for arrays in (*numbers, budget) if has_target else sorted({*numbers, *first}):
            if self.is_late or arrays > budget:
                break
            if self.is_over and arrays - least < _FAR * (missed - least):
                continue
            if self._try(arrays, again=has_target or arrays in with_leaders) and has_target:
                self._bisect(missed, arrays)
                break
            missed = arrays
        if self.key[0] and not self.is_over:
            self._try(budget)

    def _begin(self) -> None:
        """Allow as much work as for every other budget."""
        self.end_s = self.stop.spent_s + _WALK * self.stop.work_s

    @property
    def is_late(self) -> bool:
        """Whether the time left does not suffice for another placement."""
        limit_s = self.stop.time_limit_s
        is_late = limit_s is not None and self.stop.seconds + self.placing_s >= limit_s
        return is_late or self.stop.out_of_time

    @property
    def is_over(self) -> bool:
        """Whether the work is done, or the time."""
        return self.is_late or self.stop.spent_s >= self.end_s

    def _numbers(self) -> list[Cost]:
        """Return the numbers of arrays of the walk, up to the budget, and those of the first whole tiles."""
        problem = self.objective.problem
        numbers, arrays, hardware = set[int](), float(problem.minimum), problem.storage.hardware
        if hardware is not None and hardware.chip is not None and len(problem.resources.weights) == 1:
            of_tile = hardware.chip.arrays_per_tile
            numbers |= {of_tile * tiles for tiles in range(1, _WHOLE_TILES + 1)}
        while arrays <= problem.budget:
            numbers.add(math.ceil(arrays))
            arrays *= _GROWTH
        return [Cost(number) for number in sorted(numbers) if problem.minimum <= number <= problem.budget]

    def _bisect(self, missed: int, met: int) -> None:
        """Look for fewer arrays that meet the target, between numbers that miss and meet it."""
        for _ in range(_BISECTIONS):
            middle = Cost((missed + met) // 2)
            if middle <= missed or self.is_over:
                return
            missed, met = (missed, middle) if self._try(middle) else (middle, met)

    def _try(self, arrays: Cost, *, again: bool = True) -> bool:
        """Place the best within `arrays`, without links and with those of the best placement so far.

        again: place the leader with as much work as pays. Returns True if it is allowed.
        """
        alone = replace(self.objective.alone.problem, budget=arrays)
        problem = alone
        for _ in range(1 if self.is_over else _ROUNDS):
            before = self.key
            share = self.stop.nested(max(1, round(_RUNG * self.stop.work)))
            try:
                answer = self.objective.faster(problem).solve(share, self.seed)
            except (BudgetError, LimitError, TargetError):
                break
            finally:
                self.stop.charge(share.spent_s)
            self.place(answer.choice)
            # Transfers of a placement are those of its blocks and bits: they say nothing of other ones.
            if self.best is None or self.best[0].is_hidden or not alone.one_block:
                break
            if problem is not alone and self.key == before:
                break
            problem = self.best[0].applied_to(alone)
        return again and self.place_leader_again()

    def _least(self, found: Choice) -> _Key:
        """Return the least key that a placement of an allocation can have."""
        alone = self.objective.alone
        return 0.0, self.objective.in_unit(alone.value(found)), alone.tie(found), found.arrays

    def place(self, found: Choice) -> None:
        """Place an allocation quickly, unless no placement of it can be the best."""
        problem = self.objective.problem
        found = problem.choice(found.copies, found.modes)
        if not problem.holds(found.copies, found.modes):
            return
        if self.best is not None and not self.key[0] and self._least(found) >= self.key:
            return
        key = self._place(found)
        self.quick.append((key, found))
        if self.leader is None or key < self.leader[0]:
            self.leader = key, found

    def place_leader_again(self) -> bool:
        """Place the leader with as much work as pays, where it may become the best.

        Returns True if it is allowed. Only of equally many arrays or of a step of the walk, so that a larger
        budget, which has the same leaders, repeats it.
        """
        if self.leader is None:
            return False
        key, found = self.leader
        self.leader = None
        if (self.key[0] or key[1] <= _NEARLY * self.key[1]) and not self.is_late:
            key = self._place(found, again=True)
        return not key[0]

    def _place(self, found: Choice, *, again: bool = False) -> _Key:
        """Place an allocation, and keep it if it is the best."""
        begun_s, asked = self.stop.seconds, (found.identity, again)
        # What another walk placed is charged as if it were new, so that all budgets get equally far.
        charged = self.stop.nested(0) if asked in self.asked else self.stop
        self.asked.add(asked)
        placed = self.objective.placer.placed(found, charged, quick=not again, again=again)
        self.placing_s = max(self.placing_s, self.stop.seconds - begun_s)
        key = self.objective.key(placed)
        self._keep((placed, found), key)
        return key

    def _keep(self, placed: tuple[Placed, Choice] | None, key: _Key) -> None:
        """Keep a placed allocation if it is the best."""
        if key < self.key:
            self.best = placed
            self.key = key

    def _answer(self, found: Choice, bound: float, proof: str) -> Answer:
        """Return an allocation with a bound without links."""
        objective = self.objective
        proof = f"{objective.label} bound {plain_quantity(bound, objective.unit)} without transfer: {proof}"
        return Answer(objective.problem.choice(found.copies, found.modes), bound, proof)

    def _refusal(self, nearest: Placed) -> RramallocError:
        """Return the error that says which limit or target was not met with links."""
        objective = self.objective.of(nearest)
        if isinstance(objective, UnderLimits):
            return objective.broken_by(nearest.choice, proven=False)
        target = self.objective.target
        if target is None:
            raise AssertionError("only a target can be missed without limits")
        alone = self.objective.alone.problem
        time = Interval(alone) if target.is_of_interval else Latency(alone)
        bound = time.bound(1, self.stop.nested(1))
        in_steps = {"target_steps", "target_interval"} & {*target.given}
        bound = bound if in_steps else time.in_ns(bound)
        return target.missed_by(nearest.choice, bound, 1 + self.objective.excess(nearest))
