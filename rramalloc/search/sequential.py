"""Sequential execution: the least sum of layer times, as if layers ran one after the other.

Source: LRMP (Nallathambi et al., arXiv 2312.03146) replicates layers to minimise the sum of their
latencies; here the sum of ceil(W_i / d_i) under sum of c_i d_i <= A, a multiple-choice knapsack, solved to
optimality. With modes a stage chooses its block as well. Where memory access lengthens a step, a stage that
runs alone has all of the bandwidth, so its batches take its own step. Of equal sums the one with fewer
arrays wins (docs/sources/companions.md 1, docs/sources/model.md 8).

Method: a price for arrays (Lagrange multiplier) bounds the sum from below. Stage by stage all combinations
are kept (Nemhauser and Ullmann, Management Science 15, 1969) that no other one undercuts in arrays and in
costs, and whose distance from the bound does not exceed that of a greedy choice (`search.knapsack`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from rramalloc.ndarrays import Floats, Ints
from rramalloc.rounding import SAME_SUM
from rramalloc.search.knapsack import Knapsack, least_sum
from rramalloc.search.menu import StageModes, access_of_modes, all_modes, step_of_modes
from rramalloc.search.problem import Answer, Problem
from rramalloc.search.work import Work
from rramalloc.timing.access import StepTime
from rramalloc.units import duration

CostsOf = Callable[[int, StageModes], Ints | Floats]
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
    answer, total, proven = _least(problem, stop, stages, partial(_time, problem, by_step))
    least = f"{round(total)} batches" if by_step is None else duration(total)
    how = "the fewest there are" if by_step is None else "the least there is"
    words = f"{least} in sum, {how if proven else 'not proven the fewest: stopped after the work allowed'}"
    return replace(answer, proof=words, stopped=None if proven else stop.cut)


def least_access(problem: Problem, stop: Work) -> Answer:
    """Return the modes with the least sum of memory access in a step, and a bound of that sum."""
    return least_cost(problem, stop, partial(access_of_modes, problem))


def least_cost(problem: Problem, stop: Work, costs_of: CostsOf) -> Answer:
    """Return the modes with the least sum of a cost of every stage, and a bound of that sum."""
    return _least(problem, stop, all_modes(problem), costs_of)[0]


def _time(problem: Problem, by_step: StepTime | None, stage: int, listed: StageModes) -> Ints | Floats:
    """Return the time of all batches of each of these modes while no other stage runs."""
    if by_step is None:
        return listed.length
    step_ns = np.maximum(step_of_modes(problem, stage, listed), by_step.compute_ns)
    if by_step.transfer is not None:
        carried = by_step.transfer.fixed_ns[stage] + by_step.transfer.ns_per_copy[stage] * listed.low
        step_ns = np.maximum(step_ns, carried)
    return listed.length * step_ns


def _least(
    problem: Problem, stop: Work, stages: Sequence[StageModes], costs_of: CostsOf
) -> tuple[Answer, float, bool]:
    """Return the modes with the least sum of costs within all limits, that sum, and whether it is proven."""
    axes = problem.resources.axes
    costs = [costs_of(stage, listed) for stage, listed in enumerate(stages)]
    kept = [_undominated(listed, own, by_kind=bool(axes)) for listed, own in zip(stages, costs, strict=True)]
    options = Knapsack.of(
        [own[entries] for own, entries in zip(costs, kept, strict=True)],
        [listed.take(entries).taken(axes) for listed, entries in zip(stages, kept, strict=True)],
        [problem.budget, *(axis.limit for axis in axes)],
        SAME_SUM,
    )
    found = least_sum(options, stop)
    places = found.chosen - options.first[:-1]
    chosen = [(listed, int(entries[at])) for listed, entries, at in zip(stages, kept, places, strict=True)]
    copies = np.array([listed.low[entry] for listed, entry in chosen], dtype=np.int64)
    modes = tuple(listed.mode(entry) for listed, entry in chosen)
    total = float(options.costs[found.chosen].sum())
    return Answer(problem.choice(copies, modes), found.bound, ""), total, found.proven


def _undominated(listed: StageModes, costs: Ints | Floats, *, by_kind: bool) -> Ints:
    """Return the entries of a stage with the fewest arrays for some cost; of equal costs the lowest block.

    by_kind: those of every kind of arrays and sensitivity, where more than arrays is limited.
    """
    kept = list[Ints]()
    for among in listed.alike() if by_kind else [np.arange(len(listed))]:
        own = listed.take(among)
        order = np.lexsort((own.each.tall, own.each.total, costs[among], own.arrays))
        best = np.minimum.accumulate(costs[among[order]])
        kept.append(among[order[np.concatenate(([True], best[1:] < best[:-1]))]])
    return np.concatenate(kept)
