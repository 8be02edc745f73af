"""Results that the two sides of a search exchange after every turn: allocations, and lower bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from rramalloc.search.problem import Choice
from rramalloc.search.work import Work


@dataclass(frozen=True, slots=True, eq=False)
class ProofTurn:
    """Result of one proof turn: the bound, and allocations worth a look."""

    bound: int
    found: tuple[Choice, ...]


def raised_bound(bound: int, proven: float, makespan: int) -> int:
    """Return a bound raised to a proven one, rounded up: at most to the makespan of what was found."""
    return max(bound, min(math.ceil(proven), makespan))


class LowerSide(Protocol):
    """Raises the lower bound; what it has learnt of a target stays from turn to turn."""

    @property
    def nodes(self) -> int:
        """Boxes looked at so far."""
        ...

    @property
    def first_s(self) -> float:
        """Seconds that the first target takes at least, counted."""
        ...

    def root(self, known: int, makespan: int, stop: Work) -> tuple[int, tuple[Choice, ...]]:
        """Return a first bound, and allocations to start from that need not fit.

        known, makespan: lower bound and makespan to begin with.
        """
        ...

    def run(self, bound: int, makespan: int, seconds: float, left_s: float, stop: Work) -> ProofTurn:
        """Work for about `seconds` on targets from `bound` to below `makespan`.

        left_s: seconds of work that the whole search has left; stop: is charged for what is done. Same calls,
        same answer.
        """
        ...
