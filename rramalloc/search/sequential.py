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
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.errors import SpecError
from rramalloc.mapping.modes import breakpoints
from rramalloc.search import repair
from rramalloc.search.menu import Menu, access_ns_of
from rramalloc.search.problem import Blocks, Candidate, Problem, Stop
from rramalloc.timing.access import StepTime
from rramalloc.units import duration

_HALVINGS = 100
_FIRST_RAISE = 1e-3
"""Of the sum aimed at where it is in ns, in steps; it doubles each time."""
_SLACK = 1e-9
"""Rounding of prices times arrays, as a fraction of the sum; keeping a little more is harmless."""
_NS_PER_COMBINATION, _NS_PER_OPTION = 100.0, 20.0
_MOST_COMBINATIONS = 2**24
"""Looked at for one stage: bounds the memory."""

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def solve(problem: Problem, stop: Stop, seed: int) -> Candidate:  # noqa: ARG001
    """Least sum of batches within the budget; proven unless the work allowed ends first."""
    candidate = _solve(problem, stop, None)
    words = f"heuristic: {candidate.proof}; no proof of the exact makespan"
    return replace(candidate, proof=words, objective_bound=None)


def solve_in_turn(problem: Problem, stop: Stop, by_step: StepTime | None) -> Candidate:
    """The same of batches times each stage's own step, in ns, and in tiles; by_step: None to count batches.

    `objective_bound` is of that sum. Raises SpecError for modes with transfer between tiles.
    """
    candidate = _solve(problem, stop, by_step)
    if problem.holds(candidate.replication, candidate.blocks):
        return candidate
    copies, blocks = _placed(problem, candidate.replication, candidate.blocks)
    words = f"{candidate.proof} in arrays without tiles; copies taken away until the tiles hold them"
    return replace(candidate, replication=copies, blocks=blocks, proof=words, repaired=True)


def _solve(problem: Problem, stop: Stop, by_step: StepTime | None) -> Candidate:
    choices, every_block = _choices(problem, by_step)
    step = 1.0 if by_step is None else by_step.compute_ns * _FIRST_RAISE
    search = LeastSum(choices, stop, step=step)
    chosen, proven = search.run()
    blocks: Blocks | None = None
    if every_block is not None:
        blocks = tuple((tall, wide) for tall, wide in every_block[chosen].tolist())
    total = float(choices.costs[chosen].sum())
    least = f"{round(total)} batches" if by_step is None else duration(total)
    how = "the fewest there are" if by_step is None else "the least there is"
    words = f"{least} in sum, {how if proven else 'not proven the fewest: stopped after the work allowed'}"
    copies = choices.copies[chosen]
    return Candidate(copies, 1, words, search.seconds, objective_bound=search.bound, blocks=blocks)


def _placed(problem: Problem, copies: Ints, blocks: Blocks | None) -> tuple[Ints, Blocks | None]:
    """Fewer copies that tiles hold; of single windows if the blocks do not fit them in any number."""
    fewer = repair.fitting(problem, copies, blocks)
    return (fewer, blocks) if problem.holds(fewer, blocks) else (problem.smallest, None)


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
    stop: Stop
    step: float = 1.0
    seconds: float = 0.0
    bound: float = 0.0
    _given_up: bool = False

    def run(self) -> tuple[Ints, bool]:
        """The best choices, and whether they are proven to be."""
        choices = self.choices
        price = self._price()
        start = self._greedy(self._cheapest(price))
        values = choices.costs + price * choices.arrays
        least = np.minimum.reduceat(values, choices.first[:-1])
        excess = values - np.repeat(least, np.diff(choices.first))
        most = float(choices.costs[start].sum())
        slack = _SLACK * most
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
        """The smallest price at which the cheapest options fit: with it the bound is highest."""
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
        """The choice of every stage with the least cost + price * arrays, of equals the smaller one."""
        first, _, arrays, costs, _ = self.choices
        self.seconds += 1e-9 * _NS_PER_OPTION * len(arrays)
        values = costs + price * arrays
        least = np.repeat(np.minimum.reduceat(values, first[:-1]), np.diff(first))
        cheapest = np.flatnonzero(values == least)
        chosen: Ints = cheapest[np.searchsorted(cheapest, first[:-1])]
        return chosen

    def _greedy(self, chosen: Ints) -> Ints:
        """Spend what is left of the budget, first where it saves most per array."""
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
        self.seconds += 1e-9 * _NS_PER_COMBINATION * (len(near) * len(kept.arrays) + 1)
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
        """The combination of least cost; costs that differ by rounding alone are equal."""
        equal = np.flatnonzero(kept.costs <= kept.costs.min() * (1 + _SLACK))
        return int(equal[kept.arrays[equal].argmin()])

    @property
    def _out_of_work(self) -> bool:
        allowed = self.stop.work_s
        return self._given_up or self.stop.out_of_time or self.seconds >= allowed


def _choices(problem: Problem, by_step: StepTime | None) -> tuple[StageChoices, Ints | None]:
    """What every stage can do, and with modes the block (height, width) of each choice."""
    if not problem.on_menu:
        return _joined([_of_copies(problem, stage, by_step) for stage in range(len(problem.demand))], problem)
    if by_step is not None and by_step.transfer is not None:
        raise SpecError("mapping", "'sdk' cannot be optimised for a placement: use --mapping im2col")
    menu, made, stages = Menu.of(problem), dict[tuple[int, int], _Stage](), list[_Stage]()
    for stage, each in enumerate(menu.stages):
        key = id(each), problem.graph.kinds[stage]
        if key not in made:
            made[key] = _of_modes(problem, menu, stage, by_step)
        stages.append(made[key])
    return _joined(stages, problem)


class _Stage(NamedTuple):
    """Choices of one stage: arrays of all copies rise, costs fall."""

    copies: Ints
    arrays: Ints
    costs: Floats
    blocks: Ints | None = None

    def falling(self, *ties: Ints) -> _Stage:
        """Those that none with as few arrays undercuts; ties: of equals the smallest in the last of these."""
        order = np.lexsort((*ties, self.costs, self.arrays))
        best = np.minimum.accumulate(self.costs[order])
        kept = order[np.concatenate(([True], best[1:] < best[:-1]))]
        blocks = None if self.blocks is None else self.blocks[kept]
        return _Stage(self.copies[kept], self.arrays[kept], self.costs[kept], blocks)


def _of_copies(problem: Problem, stage: int, by_step: StepTime | None) -> _Stage:
    """The fewest copies of a stage, and all beyond at which its batches change."""
    windows = int(problem.graph.windows[stage])
    least, most = int(problem.smallest[stage]), int(problem.largest[stage])
    useful = useful_copies(windows)
    useful = useful[(useful > least) & (useful <= most)]
    copies = np.concatenate((np.array([least], dtype=np.int64), useful))
    costs = (-(-windows // copies)).astype(np.float64)
    if by_step is not None:
        costs = costs * by_step.alone_ns(np.full(len(copies), stage), copies)
    return _Stage(copies, copies * problem.demand[stage], costs).falling()


def _of_modes(problem: Problem, menu: Menu, stage: int, by_step: StepTime | None) -> _Stage:
    """The same of every block; the fewest copies for each number of batches."""
    every = menu.stages[stage]
    modes = every.modes
    costs = modes.length.astype(np.float64)
    if by_step is not None:
        access_ns = access_ns_of(problem, stage, every.blocks)[every.block] * modes.low
        costs = costs * np.maximum(access_ns, by_step.compute_ns)
    blocks = np.stack([modes.tall, modes.wide], axis=1)
    return _Stage(modes.low, modes.arrays, costs, blocks).falling(modes.tall, modes.total)


def _joined(stages: list[_Stage], problem: Problem) -> tuple[StageChoices, Ints | None]:
    first = np.concatenate(([0], np.cumsum([len(each.copies) for each in stages]))).astype(np.int64)
    least = [int(each.arrays[0]) for each in stages]
    choices = StageChoices(
        first,
        np.concatenate([each.copies for each in stages]),
        np.concatenate([each.arrays - each.arrays[0] for each in stages]),
        np.concatenate([each.costs for each in stages]),
        problem.budget - sum(least),
    )
    blocks = [each.blocks for each in stages if each.blocks is not None]
    return choices, np.concatenate(blocks) if blocks else None


@lru_cache(maxsize=256)
def useful_copies(windows: int) -> Ints:
    """Numbers of copies at which the batches of a stage change, rising."""
    return breakpoints(windows, windows)
