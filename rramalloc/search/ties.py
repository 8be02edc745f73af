"""Of allocations that are equally fast: the one with the fewest arrays, or the one that wins the tie."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rramalloc.search.bound import Bounder, Outcome
from rramalloc.search.improve import Timer
from rramalloc.search.kernels.moves import NS_PER_BATCH
from rramalloc.search.problem import Problem, Stop
from rramalloc.search.turns import TimedAllocation
from rramalloc.timing.simulate import Replication

_TIE_NODES, _TIE_S, _TRIM_S = 2000, 2.0, 0.5
"""Most nodes of one question about a tie, and most counted seconds for all of them and for one trim."""


def trim(timer: Timer, found: TimedAllocation, stop: Stop) -> TimedAllocation:
    """Take arrays away stage by stage as long as the makespan does not grow, within a limit of work."""
    problem, menu, best = timer.problem, timer.menu, found
    batches = float((-(-problem.graph.windows // found.copies)).sum())
    tries = int(_TRIM_S / (1e-9 * NS_PER_BATCH * batches))
    order = np.argsort(-problem.arrays_of_stages(best.copies, best.blocks), kind="stable")
    for stage in order.tolist():
        for block, copies in menu.cheaper(stage, best.blocks[stage], int(best.copies[stage])):
            if tries == 0 or stop.out_of_time:
                return best
            tries -= 1
            blocks, fewer = list(best.blocks), best.copies.copy()
            blocks[stage], fewer[stage] = block, copies
            trial = timer.of_blocks(tuple(blocks), fewer)
            saves = trial.makespan <= best.makespan and trial.arrays < best.arrays
            if not saves or not problem.holds(trial.copies, trial.blocks):
                break
            best = trial
    return best


def break_tie(timer: Timer, found: TimedAllocation, stop: Stop) -> tuple[TimedAllocation, bool, float]:
    """The allocation that wins the tie at a proven makespan: (allocation, proven to win, seconds of work).

    Of copies that all step together. Fewest arrays, then the lexicographically smallest
    (docs/sources/model.md 8). First decrease the budget by one until the prover shows infeasibility; then,
    stage after stage in canonical order, find the fewest copies with which such an allocation still exists.
    It ends unproven with the search, or after a limit of work.
    """
    problem = timer.problem
    decider = _TieDecider(problem, found.makespan, stop)
    best = trim(timer, found, stop)
    while True:
        outcome, copies = decider.decide(best.arrays - 1, problem.smallest, problem.largest)
        if outcome is not Outcome.FOUND:
            break
        best = trim(timer, TimedAllocation.of_copies(problem, copies), stop)
    proven = outcome is Outcome.REFUTED
    chosen, least, most = best.copies, problem.smallest.copy(), problem.largest.copy()
    for stage in range(len(chosen)):
        while proven and least[stage] < chosen[stage]:
            most[stage] = (least[stage] + chosen[stage] - 1) // 2
            outcome, copies = decider.decide(best.arrays, least, most)
            if outcome is Outcome.FOUND:
                chosen = copies
            elif outcome is Outcome.REFUTED:
                least[stage] = most[stage] + 1
            proven = outcome is not Outcome.UNDECIDED
        least[stage] = most[stage] = chosen[stage]
    return TimedAllocation.of_copies(problem, chosen), proven, decider.seconds


class _TieDecider:
    """Asks whether an allocation with a given makespan exists; gives up when its work is used up."""

    def __init__(self, problem: Problem, makespan: int, stop: Stop) -> None:
        self._problem, self._makespan, self._stop = problem, makespan, stop
        self._limit_s = min(stop.work_s, _TIE_S)
        self.seconds = 0.0

    def decide(self, budget: int, least: Replication, most: Replication) -> tuple[Outcome, Replication]:
        """One with at most `budget` arrays and least ... most copies of every stage."""
        if budget < int((least * self._problem.demand).sum()):
            return Outcome.REFUTED, least
        if self.seconds > self._limit_s or self._stop.out_of_time:
            return Outcome.UNDECIDED, least
        narrowed = replace(self._problem, budget=budget, least=least.copy(), most=most.copy())
        bounder = Bounder(narrowed)
        affordable = 1 + int((self._limit_s - self.seconds) / bounder.node_seconds)
        outcome, nodes, copies = bounder.decide(self._makespan, min(_TIE_NODES, affordable))
        self.seconds += nodes * bounder.node_seconds + bounder.sweep_seconds
        return outcome, copies
