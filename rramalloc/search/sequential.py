"""Sequential execution: the least sum of layer times, as if layers ran one after the other.

Source: LRMP (Nallathambi et al., arXiv 2312.03146) replicates layers to minimise the sum of their
latencies; here the sum of ceil(W_i / d_i) under sum of c_i d_i <= A, a multiple-choice knapsack, solved to
optimality. With modes a stage chooses its block as well. Where memory access lengthens a step, a stage that
runs alone has all of the bandwidth, so its batches take its own step. Of equal sums the one with fewer
arrays wins (docs/sources/companions.md 1, docs/sources/model.md 8).

Method: a price for arrays (Lagrange multiplier) bounds the sum from below. Stage by stage all combinations
are kept (Nemhauser and Ullmann, Management Science 15, 1969) that no other one undercuts in arrays and in
costs, and whose distance from the bound does not exceed that of the sum aimed at. That sum is raised from
the bound until a combination exists; everything that reaches it has then been looked at.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rramalloc.mapping.mode import Mode
from rramalloc.mapping.modes import breakpoints
from rramalloc.ndarrays import Floats, Ints
from rramalloc.rounding import SAME_SUM
from rramalloc.search import cost
from rramalloc.search.menu import StageModes, access_of_modes, all_modes, step_of_modes
from rramalloc.search.problem import Answer, Problem
from rramalloc.search.work import Work
from rramalloc.timing.access import StepTime
from rramalloc.units import duration

_HALVINGS = 100  # bisection of the price: more than the 53 bits of a double
_FIRST_RAISE = 1e-3
"""First raise of the target sum where it is in ns, in steps; it doubles each time."""
_MOST_COMBINATIONS = 2**24
"""Looked at for one stage: bounds the memory."""

CostsOf = Callable[[int, StageModes], Floats]
"""Cost of each mode of a stage, by the number of the stage."""


def solve(problem: Problem, stop: Work, seed: int) -> Answer:  # noqa: ARG001
    """Least sum of batches within the budget; proven unless the work allowed ends first."""
    return solve_among(problem, stop, all_modes(problem))


def solve_among(problem: Problem, stop: Work, stages: Sequence[StageModes]) -> Answer:
    """Return the least sum of batches of these modes of every stage, among them its cheapest."""
    answer = _solve(problem, stop, None, stages)
    words = f"heuristic: {answer.proof}; no proof of the exact makespan"
    return replace(answer, proof=words, objective_bound=None)


def solve_in_turn(problem: Problem, stop: Work, by_step: StepTime | None) -> Answer:
    """Minimise the sum of batches times each stage's own step, in ns; `objective_bound` is of that sum."""
    return _solve(problem, stop, by_step, all_modes(problem))


def _solve(problem: Problem, stop: Work, by_step: StepTime | None, stages: Sequence[StageModes]) -> Answer:
    step = 1.0 if by_step is None else by_step.compute_ns * _FIRST_RAISE
    choices, blocks = _choices(problem, stages, partial(_costs, problem, by_step))
    search = LeastSum(choices, stop, step=step)
    chosen, proven = search.run()
    total = float(search.choices.costs[chosen].sum())
    least = f"{round(total)} batches" if by_step is None else duration(total)
    how = "the fewest there are" if by_step is None else "the least there is"
    words = f"{least} in sum, {how if proven else 'not proven the fewest: stopped after the work allowed'}"
    return _answer(problem, search, chosen, blocks, words)


def least_access(problem: Problem, stop: Work) -> Answer:
    """Return the modes with the least sum of memory access in a step; `objective_bound` is of that sum."""
    return least_cost(problem, stop, partial(access_of_modes, problem))


def least_cost(problem: Problem, stop: Work, costs_of: CostsOf) -> Answer:
    """Return the modes with the least sum of a cost of every stage; `objective_bound` is of that sum."""
    listed = all_modes(problem)
    costs = [costs_of(stage, own) for stage, own in enumerate(listed)]
    step = _FIRST_RAISE * sum(float(each.min()) for each in costs) or 1.0
    choices, blocks = _choices(problem, listed, lambda stage, _: costs[stage])
    search = LeastSum(choices, stop, step=step)
    return _answer(problem, search, search.run()[0], blocks, "")


def _answer(problem: Problem, search: LeastSum, chosen: Ints, blocks: Sequence[Mode], proof: str) -> Answer:
    choice = problem.choice(search.choices.copies[chosen], tuple(blocks[at] for at in chosen.tolist()))
    return Answer(choice, 1, proof, objective_bound=search.bound)


def _costs(problem: Problem, by_step: StepTime | None, stage: int, listed: StageModes) -> Floats:
    """Time of all batches of each of these modes while no other stage runs."""
    length = listed.length.astype(np.float64)
    if by_step is None:
        return length
    step_ns = np.maximum(step_of_modes(problem, stage, listed), by_step.compute_ns)
    if by_step.transfer is not None:
        carried = by_step.transfer.fixed_ns[stage] + by_step.transfer.ns_per_copy[stage] * listed.low
        step_ns = np.maximum(step_ns, carried)
    return length * step_ns


class StageChoices(NamedTuple):
    """Useful copies of all stages, those of stage i from first[i] on, rising.

    arrays: beyond the fewest copies, rising within a stage; costs: float64, falling, whole numbers if they
    are batches; room: arrays for all stages together.
    """

    first: Ints
    copies: Ints
    arrays: Ints
    costs: Floats
    room: int


class _Kept(NamedTuple):
    """Combinations up to some stage and their cost above the bound; what each was made of."""

    arrays: Ints
    costs: Floats
    excess: Floats
    parent: Ints
    option: Ints


@dataclass(eq=False)
class LeastSum:
    """One choice of every stage, least in the sum of costs, of equal sums with the fewest arrays.

    step: the first raise of the sum aimed at: 1 for whole numbers, which makes every sum exact; bound: no
    choice within the budget has a smaller sum.
    """

    choices: StageChoices
    stop: Work
    step: float = 1.0
    bound: float = 0.0
    _given_up: bool = False

    def run(self) -> tuple[Ints, bool]:
        """Return the best choices, and whether they are proven to be."""
        choices = self.choices
        price = self._price()
        start = self._greedy(self._cheapest(price))
        values = choices.costs + price * choices.arrays
        least = np.minimum.reduceat(values, choices.first[:-1])
        excess = values - np.repeat(least, np.diff(choices.first))
        most = float(choices.costs[start].sum())
        slack = SAME_SUM * most
        bound = float(least.sum()) - price * choices.room
        aim, step = bound - slack, self.step
        if step == 1.0:
            aim = float(np.ceil(aim))
        self.bound = max(0.0, aim)
        while not self._out_of_work:
            aim = min(aim, most)
            combined = self._combined(excess, aim - bound + 2 * slack)
            if combined is not None and float(choices.costs[combined].sum()) <= aim + slack:
                self.bound = float(choices.costs[combined].sum())
                return combined, True
            if not self._given_up:
                self.bound = max(self.bound, aim)
            aim, step = aim + step, 2 * step
        return start, False

    def _price(self) -> float:
        """Return the smallest price at which the cheapest options fit: with it the bound is highest."""
        if self._fits(0.0):
            return 0.0
        low, high = 0.0, 2.0 * float(self.choices.costs.max())
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if self._fits(middle) else (middle, high)
        return high

    def _fits(self, price: float) -> bool:
        return int(self.choices.arrays[self._cheapest(price)].sum()) <= self.choices.room

    def _cheapest(self, price: float) -> Ints:
        """Return the choices with the least cost + price * arrays, of equals the smaller one."""
        first, _, arrays, costs, _ = self.choices
        self.stop.charge(cost.OPTION * len(arrays))
        values = costs + price * arrays
        least = np.repeat(np.minimum.reduceat(values, first[:-1]), np.diff(first))
        cheapest = np.flatnonzero(values == least)
        chosen: Ints = cheapest[np.searchsorted(cheapest, first[:-1])]
        return chosen

    def _greedy(self, chosen: Ints) -> Ints:
        """Spend the rest of the budget, first where it saves most per array."""
        first, _, arrays, costs, room = self.choices
        left = room - int(arrays[chosen].sum())

        def saving(stage: int) -> tuple[float, int]:
            at = chosen[stage]
            if at + 1 == first[stage + 1]:
                return 0.0, stage
            return float((costs[at + 1] - costs[at]) / (arrays[at + 1] - arrays[at])), stage

        heap = [saving(stage) for stage in range(len(chosen))]
        heapq.heapify(heap)
        while heap:
            value, stage = heapq.heappop(heap)
            more = int(arrays[chosen[stage] + 1] - arrays[chosen[stage]]) if value < 0 else left + 1
            if more <= left:
                chosen[stage] += 1
                left -= more
                heapq.heappush(heap, saving(stage))
        return chosen

    def _combined(self, excess: Floats, window: float) -> Ints | None:
        """Options of the combination with the least sum; None if all are above the bound by over `window`."""
        none = np.zeros(1, dtype=np.int64)
        kept = _Kept(none, np.zeros(1), np.zeros(1), none, none)
        history = []
        for low, high in pairwise(self.choices.first.tolist()):
            near = low + np.flatnonzero(excess[low:high] <= window)
            if self._out_of_work or len(near) * len(kept.arrays) > _MOST_COMBINATIONS:
                self._given_up = True
                return None
            kept = self._extended(kept, near, excess, window)
            history.append(kept)
            if len(kept.arrays) == 0:
                return None
        at = self._least(kept)
        chosen = []
        for kept in reversed(history):
            chosen.append(kept.option[at])
            at = int(kept.parent[at])
        return np.array(chosen[::-1], dtype=np.int64)

    def _extended(self, kept: _Kept, near: Ints, excess: Floats, window: float) -> _Kept:
        """Every combination with every option, without those that another one undercuts."""
        self.stop.charge(cost.COMBINATION * (len(near) * len(kept.arrays) + 1))
        arrays = (kept.arrays[:, None] + self.choices.arrays[near]).ravel()
        total = (kept.excess[:, None] + excess[near]).ravel()
        within = np.flatnonzero((arrays <= self.choices.room) & (total <= window))
        parent, option = within // max(1, len(near)), near[within % max(1, len(near))]
        arrays, total = arrays[within], total[within]
        costs = kept.costs[parent] + self.choices.costs[option]
        order = np.lexsort((costs, arrays))
        falling = np.minimum.accumulate(costs[order])
        best = order[np.flatnonzero(np.diff(falling, prepend=falling[:1] + 1) < 0)]
        return _Kept(arrays[best], costs[best], total[best], parent[best], option[best])

    @staticmethod
    def _least(kept: _Kept) -> int:
        """Return the combination of least cost; costs that differ by rounding alone are equal."""
        equal = np.flatnonzero(kept.costs <= kept.costs.min() * (1 + SAME_SUM))
        return int(equal[kept.arrays[equal].argmin()])

    @property
    def _out_of_work(self) -> bool:
        return self._given_up or self.stop.is_used_up


def _choices(
    problem: Problem, each_stage: Sequence[StageModes], costs_of: CostsOf
) -> tuple[StageChoices, list[Mode]]:
    """Return the choices of every stage, and the block of each choice; no limit of sensitivities is kept."""
    made, stages = dict[tuple[int, ...], _Stage](), list[_Stage]()
    for stage, listed in enumerate(each_stage):
        key: tuple[int, ...] = (id(listed), problem.graph.kinds[stage])
        if problem.step_time is not None and problem.step_time.transfer is not None:
            key += (stage,)
        if key not in made:
            made[key] = _Stage.of(listed, costs_of(stage, listed))
        stages.append(made[key])
    least = [int(each.arrays[0]) for each in stages]
    choices = StageChoices(
        np.concatenate(([0], np.cumsum([len(each.copies) for each in stages]))).astype(np.int64),
        np.concatenate([each.copies for each in stages]),
        np.concatenate([each.arrays - each.arrays[0] for each in stages]),
        np.concatenate([each.costs for each in stages]),
        problem.budget - sum(least),
    )
    return choices, [block for each in stages for block in each.blocks]


class _Stage(NamedTuple):
    """Choices of one stage: arrays of all copies rise, costs fall. blocks: that of each."""

    copies: Ints
    arrays: Ints
    costs: Floats
    blocks: list[Mode]

    @classmethod
    def of(cls, listed: StageModes, costs: Floats) -> _Stage:
        """Return the fewest copies for each number of batches; of equal costs the lowest block."""
        order = np.lexsort((listed.each.tall, listed.each.total, costs, listed.arrays))
        best = np.minimum.accumulate(costs[order])
        kept = order[np.concatenate(([True], best[1:] < best[:-1]))]
        modes = [listed.mode(entry) for entry in kept.tolist()]
        return cls(listed.low[kept], listed.arrays[kept], costs[kept], modes)


def useful_copies(windows: int) -> Ints:
    """Numbers of copies at which the batches of a stage change, rising."""
    return breakpoints(windows, windows)
