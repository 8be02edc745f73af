"""`auto`: best makespan under exact timing with a proven bound, improving until proof or end of work.

The two sides (turns.py) are improve.py and prove.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from typing_extensions import override

from rramalloc.search import interval
from rramalloc.search.archive import NO_SLOTS, Slots
from rramalloc.search.bound import Bounder, Outcome
from rramalloc.search.improve import Improver, climb_up
from rramalloc.search.problem import SECONDS_PER_WORK, Candidate, Problem, Stop
from rramalloc.search.prove import Prover
from rramalloc.search.turns import TimedAllocation, TwoSidedSearch
from rramalloc.timing.simulate import Replication, makespan_of

_FIRST_TURN_S = 0.02
_CLIMB_AFTER, _CLIMB_FOR = 0.1, 0.3
"""Shares of the work allowed: before the climb from the fewest copies, and for it."""
_TIE_NODES, _TIE_S, _TRIM_S = 2000, 2.0, 0.5
"""Most nodes of one question about a tie, and most counted seconds for all of them and for one trim."""
_NS_PER_BATCH = 4.0


@dataclass(frozen=True, slots=True, eq=False)
class WarmStart:
    """What a search begins with: an allocation that fits, and a lower bound.

    slots: of an archive that keeps what is fastest for its number of arrays on the way.
    """

    replication: Replication | None = None
    lower_bound: int = 1
    slots: Slots = NO_SLOTS


COLD_START = WarmStart()


def solve(problem: Problem, stop: Stop, seed: int) -> Candidate:
    """Minimise the exact makespan. Same problem, work, gap and seed give the same candidate.

    Source: docs/sources/model.md 4, 6 and 8; bounds as in kernels/propagate.py, kernels/prices.py and
    relaxation.py.
    """
    return solve_to_target(problem, stop, seed, 0)


def solve_to_target(
    problem: Problem, stop: Stop, seed: int, target: int, warm_start: WarmStart = COLD_START
) -> Candidate:
    """As `solve`, but end as soon as an allocation takes at most `target` steps, or none can."""
    search = AutoSearch(problem, stop, seed, target, warm_start)
    search.run()
    best, words = search.best.copies, search.words()
    if target == 0 and search.bound >= search.best.makespan and not stop.out_of_time:
        best, proven, seconds = break_tie(problem, best, search.best.makespan, stop.work * SECONDS_PER_WORK)
        search.spent_s += seconds
        words += "; no other is as fast with fewer arrays" if proven else ""
    else:
        best = trim(problem, best, search.best.makespan)
    return Candidate(best, search.bound, words, search.spent_s)


@dataclass(eq=False)
class AutoSearch(TwoSidedSearch):
    """The search for copies of the graph's blocks."""

    warm_start: WarmStart = COLD_START
    _climbed: bool = False

    def run(self) -> None:
        """Start with the smallest interval, then take turns."""
        self.best = self._timed(self.problem.smallest)
        even = interval.solve(self.problem, self.stop, self.seed)
        self.bound = max(even.lower_bound, self.warm_start.lower_bound)
        if self.warm_start.replication is not None:
            self.keep(self._timed(self.warm_start.replication))
        self.keep(self._timed(even.replication))
        self.report()
        self.prover = prover = Prover(self.problem)
        bound, corners = prover.root(self.bound, self.best.makespan)
        self.bound = max(self.bound, bound)
        self._guides = [corner.copies for corner in corners]
        self.improver = Improver(self.problem, self.seed, self.warm_start.slots, self._guides)
        for corner in corners:
            self.keep(corner)
        self.take_turns(_FIRST_TURN_S)

    @override
    def begin_turn(self, turn_s: float, proof_s: float) -> tuple[float, float]:
        self._climb_once()
        return turn_s, self.allowed_s - self.spent_s

    def _climb_once(self) -> None:
        """After a while without proof, the way up from below is one more start; never with a warm start."""
        early = self.spent_s < _CLIMB_AFTER * self.allowed_s
        if self._climbed or self.warm_start.replication is not None or early:
            return
        self._climbed = True
        way = climb_up(self.problem, _CLIMB_FOR * self.allowed_s)
        self.spent_s += way.seconds
        self._guides.append(way.replication)
        self.keep(self._timed(way.replication))

    @override
    def fits(self, found: TimedAllocation) -> bool:
        return self.problem.fits(found.copies)

    @override
    def keep(self, found: TimedAllocation) -> None:
        super().keep(found)
        if self.best is found:
            self.report()

    def _timed(self, replication: Replication) -> TimedAllocation:
        return TimedAllocation.of_copies(self.problem, replication)

    def words(self) -> str:
        """What the bound rests on, and why the search ended."""
        why = self.stop.reason(self.best.makespan, self.bound) or "bounded, stopped after the work allowed"
        return f"{why}: branch and bound over exact timing, {self.prover.nodes} nodes"


def trim(problem: Problem, replication: Replication, makespan: int) -> Replication:
    """Take copies away stage by stage as long as the makespan does not grow, within a limit of work."""
    copies = replication.copy()
    each_s = 1e-9 * _NS_PER_BATCH * float((-(-problem.graph.windows // copies)).sum())
    tries = int(_TRIM_S / each_s)
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


def break_tie(
    problem: Problem, replication: Replication, makespan: int, limit_s: float
) -> tuple[Replication, bool, float]:
    """The allocation that wins the tie at a proven makespan: (allocation, proven to win, seconds of work).

    Fewest arrays, then the lexicographically smallest (docs/sources/model.md 8). First decrease the budget by
    one until the prover shows infeasibility; then, stage after stage in canonical order, find the fewest
    copies with which such an allocation still exists. It ends unproven after about `limit_s` counted seconds
    of work.
    """
    decider = _TieDecider(problem, makespan, min(limit_s, _TIE_S))
    best = trim(problem, replication, makespan)
    while True:
        outcome, copies = decider.decide(problem.arrays(best) - 1, problem.smallest, problem.largest)
        if outcome is not Outcome.FOUND:
            break
        best = trim(problem, copies, makespan)
    proven = outcome is Outcome.REFUTED
    least, most = problem.smallest.copy(), problem.largest.copy()
    for stage in range(len(best)):
        while proven and least[stage] < best[stage]:
            most[stage] = (least[stage] + best[stage] - 1) // 2
            outcome, copies = decider.decide(problem.arrays(best), least, most)
            if outcome is Outcome.FOUND:
                best = copies
            elif outcome is Outcome.REFUTED:
                least[stage] = most[stage] + 1
            proven = outcome is not Outcome.UNDECIDED
        least[stage] = most[stage] = best[stage]
    return best, proven, decider.seconds


class _TieDecider:
    """Asks whether an allocation with a given makespan exists; gives up when its work is used up."""

    def __init__(self, problem: Problem, makespan: int, limit_s: float) -> None:
        self._problem, self._makespan, self._limit_s = problem, makespan, limit_s
        self.seconds = 0.0

    def decide(self, budget: int, least: Replication, most: Replication) -> tuple[Outcome, Replication]:
        """One with at most `budget` arrays and least ... most copies of every stage."""
        if budget < int((least * self._problem.demand).sum()):
            return Outcome.REFUTED, least
        if self.seconds > self._limit_s:
            return Outcome.UNDECIDED, least
        narrowed = replace(self._problem, budget=budget, least=least.copy(), most=most.copy())
        bounder = Bounder(narrowed)
        affordable = 1 + int((self._limit_s - self.seconds) / bounder.node_seconds)
        outcome, nodes, copies = bounder.decide(self._makespan, min(_TIE_NODES, affordable))
        self.seconds += nodes * bounder.node_seconds + bounder.sweep_seconds
        return outcome, copies
