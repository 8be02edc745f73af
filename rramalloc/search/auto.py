"""`auto`: best makespan under exact timing with a proven bound, improving until proof or end of work.

Three searches take turns: rebalancing from many starts and annealing lower the best makespan, branch and
bound raises the lower bound (and sometimes finds the better allocation). They meet when it is proven.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rramalloc.search import interval, tie_break
from rramalloc.search.bound import Bounder, Outcome
from rramalloc.search.local import Found, LocalSearch
from rramalloc.search.problem import SECONDS_PER_WORK, Candidate, Problem, Stop
from rramalloc.timing.simulate import Replication, makespan_of

_FIRST_SLICE_SECONDS, _LONGEST_SLICE_SECONDS = 0.1, 0.5
_UNKNOWN = 2**62


def solve(problem: Problem, stop: Stop, seed: int) -> Candidate:
    """Minimise the exact makespan. Same problem, work, gap and seed give the same candidate.

    Source: MODEL.md 4, 6 and 8; bound as in bound_kernel.py.
    """
    return meet(problem, stop, seed, 0)


def meet(problem: Problem, stop: Stop, seed: int, target: int) -> Candidate:
    """As `solve`, but end as soon as an allocation takes at most `target` steps, or none can."""
    search = _Search(problem, stop, seed, target)
    search.run()
    best, words = search.best, search.proof
    if target == 0 and search.bound >= search.makespan and not stop.out_of_time:
        best, proven, seconds = tie_break.settled(
            problem, best, search.makespan, stop.work * SECONDS_PER_WORK
        )
        search.spent_s += seconds
        words += "; no other is as fast with fewer arrays" if proven else ""
    else:
        best = tie_break.trimmed(problem, best, search.makespan)
    return Candidate(best, search.bound, words, search.spent_s)


@dataclass(eq=False)
class _Search:
    problem: Problem
    stop: Stop
    seed: int
    target: int
    best: Replication = field(init=False)
    makespan: int = field(init=False)
    bound: int = 1
    proof: str = ""
    spent_s: float = 0.0
    _nodes: int = 0
    _starts: int = 0

    def run(self) -> None:
        self._bounder = Bounder(self.problem)
        self._local = LocalSearch(self.problem, self.seed)
        self.best, self.makespan = self.problem.smallest, _UNKNOWN
        self.bound = self._bounder.root_bound()
        self._take(self.problem.smallest)
        self._take(interval.solve(self.problem, self.stop, self.seed).replication)
        self._from_box()
        self._walk = self.best
        effort, undecided, seconds = 64, self.makespan, _FIRST_SLICE_SECONDS
        while not self._done():
            self._rebalance(seconds)
            if not self._done():
                self._anneal(seconds)
            undecided = min(undecided, self.makespan)
            if self.bound >= self.makespan:
                break
            if undecided <= self.bound:
                effort, undecided = 2 * effort, self.makespan
            undecided = self._branch(effort, undecided, seconds)
            seconds = min(1.5 * seconds, _LONGEST_SLICE_SECONDS)
        self.proof = self._words()

    def _from_box(self) -> None:
        """Allocations at the lower corner of the box that is left at targets just above the bound."""
        self._corner = self.best
        for percent in (16, 8, 4, 2, 1, 0):
            box = self._bounder.box(self.bound + self.bound * percent // 100)
            if box is not None:
                self._corner = box[0]
                self._take(box[0])

    def _rebalance(self, seconds: float) -> None:
        """Rebalance from the best and from the corner of the box, both shaken."""
        until = self.spent_s + seconds
        while self.spent_s < until and self.bound < self.makespan and not self.stop.out_of_time:
            self._starts += 1
            start = self._corner if self._starts % 3 == 1 else self.best
            found = self._local.rebalanced(self._local.shaken(start) if self._starts > 2 else start)
            if found is None:
                self.spent_s += 1e-3
            else:
                self._use(found)

    def _anneal(self, seconds: float) -> None:
        """Anneal from the best, or from another allocation as fast that the last run has drifted to."""
        found = self._local.annealed(self._walk, seconds, max(self.bound, self.target))
        self._use(found)
        self._walk = found.replication if found.makespan <= self.makespan else self.best

    def _use(self, found: Found) -> None:
        self.spent_s += max(found.seconds, 1e-4)
        self._keep(found.replication, found.makespan)

    def _branch(self, effort: int, undecided: int, seconds: float) -> int:
        """Try to settle targets between bound and best; the smallest target left undecided."""
        node_s = self._bounder.node_seconds
        affordable = int((self.stop.work * SECONDS_PER_WORK - self.spent_s) / node_s)
        nodes_left = max(min(effort, affordable), int(seconds / node_s), 1)
        while self.bound < undecided and nodes_left > 0 and not self.stop.out_of_time:
            target = (self.bound + undecided - 1) // 2
            outcome, nodes, found = self._bounder.decide(target, min(effort, nodes_left))
            nodes_left -= nodes
            self._nodes += nodes
            self.spent_s += nodes * node_s
            if outcome is Outcome.REFUTED:
                self._raise(target + 1)
            elif outcome is Outcome.FOUND:
                self._take(found)
                undecided = min(undecided, self.makespan)
            else:
                undecided = target
        return undecided

    def _take(self, replication: Replication) -> None:
        if self.problem.fits(replication):
            self._keep(replication, makespan_of(self.problem.graph, replication))

    def _keep(self, replication: Replication, makespan: int) -> None:
        fewer = self.problem.arrays(replication) < self.problem.arrays(self.best)
        if makespan < self.makespan or (makespan == self.makespan and fewer):
            improved = makespan < self.makespan
            self.best, self.makespan = replication.copy(), makespan
            if improved:
                self._walk = self.best
                self.stop.report(self.makespan, self.bound)

    def _raise(self, bound: int) -> None:
        if bound > self.bound:
            self.bound = bound
            self.stop.report(self.makespan, self.bound)

    def _done(self) -> bool:
        return (
            self.bound >= self.makespan
            or self.makespan <= self.target
            or 0 < self.target < self.bound
            or self.stop.close_enough(self.makespan, self.bound)
            or self.stop.out_of_time
            or self.spent_s >= self.stop.work * SECONDS_PER_WORK
        )

    def _words(self) -> str:
        how = f"branch and bound over exact timing, {self._nodes} nodes"
        if self.bound >= self.makespan:
            return f"proven optimal: {how}"
        if self.stop.interrupted:
            return f"bounded, interrupted: {how}"
        if self.stop.out_of_time:
            return f"bounded, stopped by the time limit (depends on the machine): {how}"
        if self.stop.close_enough(self.makespan, self.bound):
            return f"bounded, within the gap asked for: {how}"
        return f"bounded, stopped after the work allowed: {how}"
