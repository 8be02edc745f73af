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

import numpy as np

from rramalloc.mapping.mode import Mode
from rramalloc.mapping.modes import breakpoints
from rramalloc.ndarrays import Floats, Ints
from rramalloc.rounding import SAME_SUM
from rramalloc.search import cost
from rramalloc.search.knapsack import HALVINGS, Options, cheapest, dual
from rramalloc.search.menu import StageModes, access_of_modes, all_modes, step_of_modes
from rramalloc.search.problem import Answer, Problem
from rramalloc.search.work import Work
from rramalloc.timing.access import StepTime
from rramalloc.units import duration

_FIRST_RAISE = 1e-3
"""First raise of the target sum where it is in ns, in steps; it doubles each time."""

CostsOf = Callable[[int, StageModes], Floats]
"""Cost of each mode of a stage, by the number of the stage."""


def solve(problem: Problem, stop: Work, seed: int) -> Answer:  # noqa: ARG001
    """Return the least sum of batches within the budget; proven unless the work allowed ends first."""
    return solve_among(problem, stop, all_modes(problem))


def solve_among(problem: Problem, stop: Work, stages: Sequence[StageModes]) -> Answer:
    """Return the least sum of batches of these modes of every stage, among them its cheapest."""
    answer = _solve(problem, stop, None, stages)
    words = f"heuristic: {answer.proof}; no proof of the exact makespan"
    return replace(answer, lower_bound=1, proof=words)


def solve_in_turn(problem: Problem, stop: Work, by_step: StepTime | None) -> Answer:
    """Minimise the sum of batches times each stage's own step, in ns, with a bound of that sum."""
    return _solve(problem, stop, by_step, all_modes(problem))


def _solve(problem: Problem, stop: Work, by_step: StepTime | None, stages: Sequence[StageModes]) -> Answer:
    step = 1.0 if by_step is None else by_step.compute_ns * _FIRST_RAISE
    options, modes = _options(problem, stages, partial(_costs, problem, by_step))
    search = LeastSum(options, stop, step=step)
    chosen, proven = search.run()
    total = float(options.costs[chosen].sum())
    least = f"{round(total)} batches" if by_step is None else duration(total)
    how = "the fewest there are" if by_step is None else "the least there is"
    words = f"{least} in sum, {how if proven else 'not proven the fewest: stopped after the work allowed'}"
    return _answer(problem, search, chosen, modes, words)


def least_access(problem: Problem, stop: Work) -> Answer:
    """Return the modes with the least sum of memory access in a step, and a bound of that sum."""
    return least_cost(problem, stop, partial(access_of_modes, problem))


def least_cost(problem: Problem, stop: Work, costs_of: CostsOf) -> Answer:
    """Return the modes with the least sum of a cost of every stage, and a bound of that sum."""
    listed = all_modes(problem)
    costs = [costs_of(stage, own) for stage, own in enumerate(listed)]
    step = _FIRST_RAISE * sum(float(each.min()) for each in costs) or 1.0
    options, modes = _options(problem, listed, lambda stage, _: costs[stage])
    search = LeastSum(options, stop, step=step)
    return _answer(problem, search, search.run()[0], modes, "")


def _answer(
    problem: Problem, search: LeastSum, chosen: Ints, modes: Sequence[tuple[Mode, int]], proof: str
) -> Answer:
    """Return an answer. modes: mode and copies of every option."""
    each, copies = zip(*(modes[at] for at in chosen.tolist()), strict=True)
    choice = problem.choice(np.array(copies, dtype=np.int64), each)
    return Answer(choice, search.bound, proof)


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


@dataclass(eq=False)
class LeastSum:
    """One option of every stage, least in the sum of costs, of equal sums with the fewest arrays.

    options: of each stage with rising arrays, the one amount that is limited, and falling costs; step: the
    first raise of the sum aimed at: 1 for whole numbers, which makes every sum exact; bound: no choice within
    the budget has a smaller sum.
    """

    options: Options
    stop: Work
    step: float = 1.0
    bound: float = 0.0

    def run(self) -> tuple[Ints, bool]:
        """Return the best options, and whether they are proven to be."""
        options, stop = self.options, self.stop
        prices, least = dual(options)
        stop.charge(cost.OPTION * len(options.costs) * HALVINGS)
        start = self._greedy(options.cheapest(options.priced(prices)))
        most = float(options.costs[start].sum())
        slack = SAME_SUM * most
        aim, step = least - slack, self.step
        if step == 1.0:
            aim = float(np.ceil(aim))
        self.bound = max(0.0, aim)
        while not stop.is_used_up:
            aim = min(aim, most)
            chosen, exact = cheapest(options, stop=stop, prices=prices, window=aim - least + 2 * slack)
            if len(chosen) and float(options.costs[chosen].sum()) <= aim + slack:
                self.bound = max(self.bound, float(options.costs[chosen].sum()) if exact else 0.0)
                return chosen, exact
            if not exact:
                break
            self.bound = max(self.bound, aim)
            aim, step = aim + step, 2 * step
        return start, False

    def _greedy(self, chosen: Ints) -> Ints:
        """Spend the rest of the budget, first where it saves most per array."""
        first, costs, arrays = self.options.first, self.options.costs, self.options.amounts[:, 0]
        left = int(self.options.room[0] - arrays[chosen].sum())

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


def _options(
    problem: Problem, each_stage: Sequence[StageModes], costs_of: CostsOf
) -> tuple[Options, list[tuple[Mode, int]]]:
    """Return the options of all stages, and the mode and copies of each; only the budget limits them.

    Of the entries of a stage those with the fewest arrays for some cost; of equal costs the lowest block.
    """
    made, entries = dict[tuple[int, ...], tuple[Ints, Floats]](), list[Ints]()
    costs, arrays, modes = list[Floats](), list[Ints](), list[tuple[Mode, int]]()
    for stage, listed in enumerate(each_stage):
        key: tuple[int, ...] = (id(listed), problem.graph.kinds[stage])
        if problem.step_time is not None and problem.step_time.transfer is not None:
            key += (stage,)
        if key not in made:
            own = costs_of(stage, listed)
            order = np.lexsort((listed.each.tall, listed.each.total, own, listed.arrays))
            best = np.minimum.accumulate(own[order])
            kept = order[np.concatenate(([True], best[1:] < best[:-1]))]
            made[key] = kept, own[kept]
        kept, own = made[key]
        entries.append(kept)
        costs.append(own)
        arrays.append(listed.arrays[kept])
        modes += [(listed.mode(entry), int(listed.low[entry])) for entry in kept.tolist()]
    fewest = np.repeat([own[0] for own in arrays], [len(own) for own in arrays])
    options = Options(
        np.cumsum([0, *map(len, entries)]),
        np.concatenate(costs),
        (np.concatenate(arrays) - fewest)[:, None],
        np.array([problem.budget - sum(int(own[0]) for own in arrays)]),
        SAME_SUM,
    )
    return options, modes


def useful_copies(windows: int) -> Ints:
    """Return the numbers of copies at which the batches of a stage change, rising."""
    return breakpoints(windows, windows)
