"""`auto`: best makespan under exact timing with a proven bound, improving until proof or end of work.

Two sides take turns, or work side by side where there are two cores: one looks for faster allocations
(improve.py), the other raises the lower bound (prove.py). After every turn they tell each other what they
found, and they meet when it is proven. A turn sees nothing of the other side's turn, so that the answer
is the same on one core and on two.
"""

from __future__ import annotations

from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field

from rramalloc.search import interval, tie_break
from rramalloc.search.archive import NO_SLOTS, Slots
from rramalloc.search.cores import cores
from rramalloc.search.improve import Found, Improver, climb_up, is_better
from rramalloc.search.problem import SECONDS_PER_WORK, Candidate, Problem, Stop
from rramalloc.search.prove import Prover, Step
from rramalloc.timing.simulate import Replication, makespan_of

_FIRST_TURN_S, _LONGEST_TURN_S, _GROWTH = 0.02, 0.5, 1.5
_CLIMB_AFTER, _CLIMB_FOR = 0.1, 0.3
"""Shares of the work allowed: before the climb from the fewest copies, and for it."""


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """What is known of a problem beforehand: an allocation that fits, and a lower bound.

    slots: of an archive that keeps what is fastest for its number of arrays on the way.
    """

    replication: Replication | None = None
    lower_bound: int = 1
    slots: Slots = NO_SLOTS


NOTHING_KNOWN = Known()


def solve(problem: Problem, stop: Stop, seed: int) -> Candidate:
    """Minimise the exact makespan. Same problem, work, gap and seed give the same candidate.

    Source: docs/sources/model.md 4, 6 and 8; bounds as in kernels/propagate.py, kernels/prices.py and
    relaxation.py.
    """
    return meet(problem, stop, seed, 0)


def meet(problem: Problem, stop: Stop, seed: int, target: int, known: Known = NOTHING_KNOWN) -> Candidate:
    """As `solve`, but end as soon as an allocation takes at most `target` steps, or none can."""
    search = _Search(problem, stop, seed, target, known)
    search.run()
    best, words = search.best.replication, search.words()
    if target == 0 and search.bound >= search.best.makespan and not stop.out_of_time:
        best, proven, seconds = tie_break.settled(
            problem, best, search.best.makespan, stop.work * SECONDS_PER_WORK
        )
        search.spent_s += seconds
        words += "; no other is as fast with fewer arrays" if proven else ""
    else:
        best = tie_break.trimmed(problem, best, search.best.makespan)
    return Candidate(best, search.bound, words, search.spent_s)


@dataclass(eq=False)
class _Search:
    problem: Problem
    stop: Stop
    seed: int
    target: int
    known: Known = NOTHING_KNOWN
    best: Found = field(init=False)
    bound: int = 1
    spent_s: float = 0.0
    _told: tuple[int, int] | None = None
    _climbed: bool = False

    def run(self) -> None:
        self.best = self._timed(self.problem.smallest)
        even = interval.solve(self.problem, self.stop, self.seed)
        self.bound = max(even.lower_bound, self.known.lower_bound)
        if self.known.replication is not None:
            self._take(self.known.replication)
        self._take(even.replication)
        self._tell()
        self._prover = Prover(self.problem)
        self._improver = Improver(self.problem, self.seed, self.known.slots)
        bound, corners = self._prover.root(self.bound, self.best.makespan)
        self.bound = max(self.bound, bound)
        self._improver.guides += corners
        for corner in corners:
            self._take(corner)
        turn_s = _FIRST_TURN_S
        with _second_core(self.stop.cores) as pool:
            while not self._done():
                self._climb_once()
                self._turn(turn_s, pool)
                turn_s = min(_GROWTH * turn_s, _LONGEST_TURN_S)

    def _climb_once(self) -> None:
        """After a while without proof, the way up from below is one more start; never where one is known."""
        allowed_s = self.stop.work * SECONDS_PER_WORK
        if self._climbed or self.known.replication is not None or self.spent_s < _CLIMB_AFTER * allowed_s:
            return
        self._climbed = True
        way = climb_up(self.problem, _CLIMB_FOR * allowed_s)
        self.spent_s += way.seconds
        self._improver.guides.append(way.replication)
        self._take(way.replication)

    def _turn(self, seconds: float, pool: Executor | None) -> None:
        """One turn of both sides, then news is exchanged."""
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
        self._learn(proved)

    def _learn(self, proved: Step) -> None:
        for replication in proved.found:
            self._take(replication)
        self.bound = max(self.bound, min(proved.bound, self.best.makespan))
        self._tell()

    def _take(self, replication: Replication) -> None:
        self._keep(self._timed(replication))

    def _timed(self, replication: Replication) -> Found:
        return Found(replication.copy(), makespan_of(self.problem.graph, replication), 0.0)

    def _keep(self, found: Found) -> None:
        if is_better(self.problem, found, self.best) and self.problem.fits(found.replication):
            self.best = found
            self._tell()

    def _tell(self) -> None:
        """Report best and bound when one of them is new."""
        news = self.best.makespan, self.bound
        if news != self._told:
            self._told = news
            self.stop.report(self.spent_s, *news)

    def _done(self) -> bool:
        best = self.best.makespan
        return (
            self.bound >= best
            or best <= self.target
            or 0 < self.target < self.bound
            or self.stop.close_enough(best, self.bound)
            or self.stop.out_of_time
            or self.spent_s >= self.stop.work * SECONDS_PER_WORK
        )

    def words(self) -> str:
        """What the bound rests on, and why the search ended."""
        how = f"branch and bound over exact timing, {self._prover.nodes} nodes"
        if self.bound >= self.best.makespan:
            return f"proven optimal: {how}"
        if self.stop.interrupted:
            return f"bounded, interrupted: {how}"
        if self.stop.out_of_time:
            return f"bounded, stopped by the time limit (depends on the machine): {how}"
        if self.stop.close_enough(self.best.makespan, self.bound):
            return f"bounded, within the gap asked for: {how}"
        return f"bounded, stopped after the work allowed: {how}"


def _second_core(allowed: int | None) -> ThreadPoolExecutor | nullcontext[None]:
    """A thread for one side of the search if there is a core for it and it may be used."""
    return ThreadPoolExecutor(1) if cores(allowed) > 1 else nullcontext()
