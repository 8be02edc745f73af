"""Searches of two sides that take turns, or work side by side where there are two cores.

One side looks for faster allocations, the other raises the lower bound. After every turn they exchange
incumbent and lower bound; where both are equal, it is proven optimal. A turn sees nothing of the other
side's turn, so that the answer is the same on one core and on two.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from rramalloc.search.cores import cores
from rramalloc.search.problem import SECONDS_PER_WORK, Blocks, Problem, Stop
from rramalloc.timing.simulate import Replication, makespan_of

_GROWTH, _LONGEST_TURN_S = 1.5, 0.5


@dataclass(frozen=True, slots=True, eq=False)
class TimedAllocation:
    """Blocks and copies of every stage, the exact makespan, and the arrays that they use."""

    blocks: Blocks
    copies: Replication
    makespan: int
    arrays: int

    @classmethod
    def of_copies(cls, problem: Problem, copies: Replication, makespan: int | None = None) -> TimedAllocation:
        """Copies of the graph's blocks; makespan: theirs if it is known."""
        graph = problem.graph
        makespan = makespan_of(graph, copies) if makespan is None else int(makespan)
        return cls(graph.blocks, copies.copy(), makespan, problem.arrays(copies))

    @property
    def key(self) -> tuple[int, int]:
        """Faster ones first, of equals those with fewer arrays."""
        return self.makespan, self.arrays


@dataclass(frozen=True, slots=True, eq=False)
class ProofTurn:
    """What a turn came to: the bound, allocations worth a look, and the seconds of work counted."""

    bound: int
    found: tuple[TimedAllocation, ...]
    seconds: float


class UpperSide(Protocol):
    """Looks for faster allocations; what it draws goes on from turn to turn."""

    def run(
        self, best: TimedAllocation, enough: int, seconds: float, stop: Stop
    ) -> tuple[TimedAllocation, float]:
        """A better allocation or `best`, and the seconds counted; ends early at `enough` steps."""
        ...


class LowerSide(Protocol):
    """Raises the lower bound; what it has learnt of a target stays from turn to turn."""

    @property
    def nodes(self) -> int:
        """Boxes looked at so far."""
        ...

    def run(self, bound: int, makespan: int, seconds: float, left_s: float, stop: Stop) -> ProofTurn:
        """Work for about `seconds` on targets from `bound` to below `makespan`.

        left_s: seconds of work that the whole search has left. Same calls, same answer.
        """
        ...


@dataclass(eq=False)
class TwoSidedSearch(ABC):
    """The incumbent and the lower bound of one problem, and the two sides that improve them.

    target: a makespan that is good enough, 0 for none; spent_s: seconds of work, counted.
    """

    problem: Problem
    stop: Stop
    seed: int
    target: int
    best: TimedAllocation = field(init=False)
    bound: int = field(default=1, init=False)
    spent_s: float = field(default=0.0, init=False)
    improver: UpperSide = field(init=False)
    prover: LowerSide = field(init=False)

    def take_turns(self, first_s: float) -> None:
        """Work until incumbent and bound are close enough, or the work or time allowed is used up."""
        turn_s, proof_s = first_s, 0.0
        with _second_core(self.stop.cores) as pool:
            while not self.done():
                search_s, left_s = self.begin_turn(turn_s, proof_s)
                best, bound = self.best, self.bound
                searching = best, max(bound, self.target), search_s, self.stop
                improving = None if pool is None else pool.submit(self.improver.run, *searching)
                proved = self.prover.run(bound, best.makespan, turn_s, left_s, self.stop)
                if improving is None:
                    improved, seconds = self.improver.run(*searching)
                else:
                    improved, seconds = improving.result()
                self.end_turn(improved, proved, proved.seconds + seconds)
                turn_s, proof_s = min(_GROWTH * turn_s, _LONGEST_TURN_S), proved.seconds

    @property
    def allowed_s(self) -> float:
        """Seconds of work that the search may take."""
        return self.stop.work * SECONDS_PER_WORK

    @abstractmethod
    def begin_turn(self, turn_s: float, proof_s: float) -> tuple[float, float]:
        """Seconds for the improver in a turn of so many seconds, and those that the search has left.

        proof_s: what the prover took in the last turn.
        """

    def end_turn(self, improved: TimedAllocation, proved: ProofTurn, seconds: float) -> None:
        """Learn what both sides found in so many seconds of work."""
        self.spent_s += seconds
        for found in (improved, *proved.found):
            self.keep(found)
        self.bound = max(self.bound, min(proved.bound, self.best.makespan))
        self.report()

    def done(self) -> bool:
        """Whether the search ends here."""
        return self.stop.ends(self.best.makespan, self.bound, self.target, self.spent_s)

    def keep(self, found: TimedAllocation) -> None:
        """Make it the incumbent if it is better and fits."""
        if found.key < self.best.key and self.fits(found):
            self.best = found

    def fits(self, found: TimedAllocation) -> bool:
        """Whether an allocation may be the incumbent."""
        return self.problem.holds(found.copies, found.blocks)

    def report(self) -> None:
        """Note incumbent and bound where one of them is new."""
        self.stop.report(self.spent_s, self.best.makespan, self.bound)


def _second_core(allowed: int | None) -> ThreadPoolExecutor | nullcontext[None]:
    """A thread for one side of a search if there is a core for it and it may be used."""
    return ThreadPoolExecutor(1) if cores(allowed) > 1 else nullcontext()
