"""Among equally fast allocations: fewest arrays, then the lexicographically smallest (MODEL.md 8)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rramalloc.search.bound import Bounder, Outcome
from rramalloc.search.problem import Problem
from rramalloc.timing.simulate import Replication, makespan_of

_MOST_NODES = 2000
_MOST_SECONDS = 2.0
_TRIM_SECONDS = 0.5
_NS_PER_BATCH = 4.0


def trimmed(problem: Problem, replication: Replication, makespan: int) -> Replication:
    """Take copies away stage by stage as long as the makespan does not grow, within a limit of work."""
    copies = replication.copy()
    each_s = 1e-9 * _NS_PER_BATCH * float((-(-problem.graph.windows // copies)).sum())
    tries = int(_TRIM_SECONDS / each_s)
    for stage in np.argsort(-problem.demand, kind="stable"):
        windows = int(problem.graph.windows[stage])
        while copies[stage] > problem.smallest[stage] and tries > 0:
            tries -= 1
            fewer = copies.copy()
            batches = -(-windows // int(copies[stage])) + 1
            fewer[stage] = max(problem.smallest[stage], min(-(-windows // batches), copies[stage] - 1))
            if makespan_of(problem.graph, fewer) > makespan:
                break
            copies = fewer
    return copies


def settled(
    problem: Problem, replication: Replication, makespan: int, limit_s: float
) -> tuple[Replication, bool, float]:
    """The allocation that wins the tie at a proven makespan: (allocation, proven to win, seconds of work).

    First the fewest arrays are found by asking for one less until that is refuted; then, stage after
    stage in canonical order, the fewest copies with which such an allocation still exists. It ends
    unproven after about `limit_s` counted seconds of work.
    """
    decider = _Decider(problem, makespan, min(limit_s, _MOST_SECONDS))
    best = trimmed(problem, replication, makespan)
    while True:
        outcome, found = decider.ask(problem.arrays(best) - 1, problem.smallest, problem.largest)
        if outcome is not Outcome.FOUND:
            break
        best = trimmed(problem, found, makespan)
    proven = outcome is Outcome.REFUTED
    least, most = problem.smallest.copy(), problem.largest.copy()
    for stage in range(len(best)):
        while proven and least[stage] < best[stage]:
            most[stage] = (least[stage] + best[stage] - 1) // 2
            outcome, found = decider.ask(problem.arrays(best), least, most)
            if outcome is Outcome.FOUND:
                best = found
            elif outcome is Outcome.REFUTED:
                least[stage] = most[stage] + 1
            proven = outcome is not Outcome.UNDECIDED
        least[stage] = most[stage] = best[stage]
    return best, proven, decider.seconds


class _Decider:
    """Asks whether an allocation with a given makespan exists; gives up when its work is used up."""

    def __init__(self, problem: Problem, makespan: int, limit_s: float) -> None:
        self._problem, self._makespan, self._limit_s = problem, makespan, limit_s
        self.seconds = 0.0

    def ask(self, budget: int, least: Replication, most: Replication) -> tuple[Outcome, Replication]:
        """One with at most `budget` arrays and least ... most copies of every stage."""
        if budget < int((least * self._problem.demand).sum()):
            return Outcome.REFUTED, least
        if self.seconds > self._limit_s:
            return Outcome.UNDECIDED, least
        narrowed = replace(self._problem, budget=budget, least=least.copy(), most=most.copy())
        bounder = Bounder(narrowed)
        affordable = 1 + int((self._limit_s - self.seconds) / bounder.node_seconds)
        outcome, nodes, found = bounder.decide(self._makespan, min(_MOST_NODES, affordable))
        self.seconds += nodes * bounder.node_seconds + bounder.sweep_seconds
        return outcome, found
