"""`auto`: best makespan under exact timing with a proven bound, improving until proof or end of work.

Two sides take turns, or work side by side where there are two cores: one looks for faster allocations
(improve.py), the other raises the lower bound (prove.py). After every turn they exchange incumbent and
lower bound; where both are equal, it is proven optimal. A turn sees nothing of the other side's turn, so that
the answer is the same on one core and on two.
"""

from __future__ import annotations

from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

import numpy as np

from rramalloc.search import interval
from rramalloc.search.archive import NO_SLOTS, Slots
from rramalloc.search.bound import Bounder, Outcome
from rramalloc.search.cores import cores
from rramalloc.search.improve import Found, Improver, climb_up, is_better
from rramalloc.search.problem import SECONDS_PER_WORK, Candidate, Problem, Stop
from rramalloc.search.prove import ProofTurn, Prover
from rramalloc.timing.simulate import Replication, makespan_of

_FIRST_TURN_S, _LONGEST_TURN_S, _GROWTH = 0.02, 0.5, 1.5
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
    best, words = search.best.replication, search.words()
    if target == 0 and search.bound >= search.best.makespan and not stop.out_of_time:
        best, proven, seconds = break_tie(problem, best, search.best.makespan, stop.work * SECONDS_PER_WORK)
        search.spent_s += seconds
        words += "; no other is as fast with fewer arrays" if proven else ""
    else:
        best = trim(problem, best, search.best.makespan)
    return Candidate(best, search.bound, words, search.spent_s)


@dataclass(eq=False)
class AutoSearch:
    """The incumbent and the lower bound of one problem, and the two sides that improve them."""

    problem: Problem
    stop: Stop
    seed: int
    target: int
    warm_start: WarmStart = COLD_START
    best: Found = field(init=False)
    bound: int = 1
    spent_s: float = 0.0
    _climbed: bool = False

    def run(self) -> None:
        """Work until incumbent and bound are close enough, or the work or time allowed is used up."""
        self.best = self._timed(self.problem.smallest)
        even = interval.solve(self.problem, self.stop, self.seed)
        self.bound = max(even.lower_bound, self.warm_start.lower_bound)
        if self.warm_start.replication is not None:
            self._try(self.warm_start.replication)
        self._try(even.replication)
        self._report()
        self._prover = Prover(self.problem)
        self._improver = Improver(self.problem, self.seed, self.warm_start.slots)
        bound, corners = self._prover.root(self.bound, self.best.makespan)
        self.bound = max(self.bound, bound)
        self._improver.guides += corners
        for corner in corners:
            self._try(corner)
        turn_s = _FIRST_TURN_S
        with second_core(self.stop.cores) as pool:
            while not self._done():
                self._climb_once()
                self._turn(turn_s, pool)
                turn_s = min(_GROWTH * turn_s, _LONGEST_TURN_S)

    def _climb_once(self) -> None:
        """After a while without proof, the way up from below is one more start; never with a warm start."""
        allowed_s = self.stop.work * SECONDS_PER_WORK
        if (
            self._climbed
            or self.warm_start.replication is not None
            or self.spent_s < _CLIMB_AFTER * allowed_s
        ):
            return
        self._climbed = True
        way = climb_up(self.problem, _CLIMB_FOR * allowed_s)
        self.spent_s += way.seconds
        self._improver.guides.append(way.replication)
        self._try(way.replication)

    def _turn(self, seconds: float, pool: Executor | None) -> None:
        """One turn of both sides, then both learn incumbent and lower bound."""
        best, bound = self.best, self.bound
        left_s = self.stop.work * SECONDS_PER_WORK - self.spent_s
        enough = max(bound, self.target)
        improving: Future[Found] | None = None
        if pool is not None:
            improving = pool.submit(self._improver.run, best, enough, seconds, self.stop)
        proved = self._prover.run(bound, best.makespan, seconds, left_s, self.stop)
        if improving is None:
            improved = self._improver.run(best, enough, seconds, self.stop)
        else:
            improved = improving.result()
        self.spent_s += proved.seconds + improved.seconds
        self._keep(improved)
        self._use(proved)

    def _use(self, proved: ProofTurn) -> None:
        for replication in proved.found:
            self._try(replication)
        self.bound = max(self.bound, min(proved.bound, self.best.makespan))
        self._report()

    def _try(self, replication: Replication) -> None:
        self._keep(self._timed(replication))

    def _timed(self, replication: Replication) -> Found:
        return Found(replication.copy(), makespan_of(self.problem.graph, replication), 0.0)

    def _keep(self, candidate: Found) -> None:
        if is_better(self.problem, candidate, self.best) and self.problem.fits(candidate.replication):
            self.best = candidate
            self._report()

    def _report(self) -> None:
        self.stop.report(self.spent_s, self.best.makespan, self.bound)

    def _done(self) -> bool:
        return self.stop.ends(self.best.makespan, self.bound, self.target, self.spent_s)

    def words(self) -> str:
        """What the bound rests on, and why the search ended."""
        why = self.stop.reason(self.best.makespan, self.bound) or "bounded, stopped after the work allowed"
        return f"{why}: branch and bound over exact timing, {self._prover.nodes} nodes"


def second_core(allowed: int | None) -> ThreadPoolExecutor | nullcontext[None]:
    """A thread for one side of the search if there is a core for it and it may be used."""
    return ThreadPoolExecutor(1) if cores(allowed) > 1 else nullcontext()


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
