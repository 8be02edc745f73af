"""The upper side of `auto`: rebalancing and annealing in turns, each going on from the best known."""

from __future__ import annotations

from dataclasses import dataclass, field

from rramalloc.search.archive import NO_SLOTS, Slots
from rramalloc.search.local import Found, LocalSearch
from rramalloc.search.problem import Problem, Stop
from rramalloc.timing.simulate import Replication

_SMALLEST_COUNT_S = 1e-4


@dataclass(eq=False)
class Improver:
    """Looks for faster allocations of one problem; what it draws goes on from call to call.

    slots: of an archive that keeps what is fastest for its number of arrays on the way;
    guides: other allocations to start from now and then, such as the corners of boxes.
    """

    problem: Problem
    seed: int
    slots: Slots = NO_SLOTS
    guides: list[Replication] = field(default_factory=list)
    _walk: Found | None = None
    _starts: int = 0

    def __post_init__(self) -> None:
        self._local = LocalSearch(self.problem, self.seed, self.slots)

    def run(self, best: Found, enough: int, seconds: float, stop: Stop) -> Found:
        """A better allocation or `best`, with the seconds counted; ends early at `enough` steps.

        Each half takes about `seconds`. Same calls, same answer: it looks at nothing that changes
        meanwhile but the end of all work.
        """
        shaken = self._rebalance(best, enough, seconds, stop)
        spent = shaken.seconds
        if shaken.makespan > enough and not stop.out_of_time:
            walked = self._anneal(shaken, enough, seconds)
            spent += max(walked.seconds, _SMALLEST_COUNT_S)
            shaken = walked if is_better(self.problem, walked, shaken) else shaken
        return Found(shaken.replication, shaken.makespan, spent)

    def _rebalance(self, best: Found, enough: int, seconds: float, stop: Stop) -> Found:
        """Rebalance from the best and from the guides, all shaken."""
        spent = 0.0
        while spent < seconds and best.makespan > enough and not stop.out_of_time:
            self._starts += 1
            start = best.replication
            if self._starts % 3 == 1 and self.guides:
                start = self.guides[self._starts // 3 % len(self.guides)]
            found = self._local.rebalanced(self._local.shaken(start) if self._starts > 2 else start)
            spent += 1e-3 if found is None else max(found.seconds, _SMALLEST_COUNT_S)
            if found is not None and is_better(self.problem, found, best):
                best = found
        return Found(best.replication, best.makespan, spent)

    def _anneal(self, best: Found, enough: int, seconds: float) -> Found:
        """Anneal from the best, or from another allocation as fast that the last run has drifted to."""
        drifted = self._walk is not None and self._walk.makespan <= best.makespan
        start = self._walk.replication if drifted and self._walk is not None else best.replication
        found = self._local.annealed(start, seconds, enough)
        self._walk = found
        return found


def is_better(problem: Problem, found: Found, best: Found) -> bool:
    """Whether `found` is faster than `best`, or as fast with fewer arrays."""
    order = (found.makespan, problem.arrays(found.replication))
    return order < (best.makespan, problem.arrays(best.replication))
