"""Branch and bound with the linear relaxation in every node: few nodes, each cut deep.

The open boxes of a target are kept, so that the search goes on where it stopped.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rramalloc.search.bound import Bounder, Box, Outcome, width
from rramalloc.search.problem import Stop
from rramalloc.search.relaxation import Floats, Relaxation
from rramalloc.timing.simulate import Replication, makespan_of

_ROUNDS = 2
_ENOUGH = 0.8
"""A relaxation that leaves more than this part of a box is the last one of its node."""
_STAKE = 0.1
"""Weight of a box's width beside the distance of the relaxed copies from its ends."""


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """What a turn came to; found: an allocation that meets the target, if there is one; counted seconds."""

    outcome: Outcome
    found: Replication | None
    nodes: int
    seconds: float


@dataclass(eq=False)
class Branching:
    """A search of one box for an allocation that meets one target."""

    bounder: Bounder
    relaxation: Relaxation
    target: int
    root: Box
    _open: list[Box] = field(default_factory=list)
    _near: int = -1
    _doubt: bool = False

    def __post_init__(self) -> None:
        self._problem = self.bounder.problem
        self._open.append(self.root)

    def run(self, seconds: float, stop: Stop) -> Turn:
        """Go on for about `seconds` of counted work, one node at least."""
        nodes, spent = 0, 0.0
        while self._open and (nodes == 0 or spent < seconds) and not stop.out_of_time:
            nodes += 1
            box, copies, took = self._cut(self._open.pop())
            spent += took
            if box is None or copies is None:
                continue
            if makespan_of(self._problem.graph, box[0]) <= self.target:
                if self._problem.fits(box[0]):
                    return Turn(Outcome.FOUND, box[0], nodes, spent)
                self._doubt = self._doubt or not self._never_fits(box[0])
            else:
                self._split(box, copies)
        if self._open or self._doubt:
            return Turn(Outcome.UNDECIDED, None, nodes, spent)
        return Turn(Outcome.REFUTED, None, nodes, spent)

    def _cut(self, box: Box) -> tuple[Box | None, Floats | None, float]:
        """What propagation and relaxation leave of a box, the relaxed copies, and the seconds it took."""
        copies, spent = None, 0.0
        for _ in range(_ROUNDS):
            spent += self.bounder.node_seconds
            left = self.bounder.shrunk(self.target, box, self._near)
            if left is None or self._never_fits(left.box[0]):
                return None, None, spent
            self._near = left.price
            relaxed = self.relaxation.solve(left.box, left.start, left.rest, self.target)
            spent += relaxed.seconds
            if relaxed.box is None or relaxed.bound > self.target + 1e-6:
                return None, None, spent
            box, copies = relaxed.box, relaxed.copies
            if width(box) > _ENOUGH * width(left.box):
                break
        return box, copies, spent

    def _never_fits(self, replication: Replication) -> bool:
        """Whether copies cannot be placed in tiles, proven; no more copies can either."""
        tiles = self._problem.tiles
        return tiles is not None and tiles.pack(self._problem.demand, replication).fit == "does not fit"

    def _split(self, box: Box, copies: Floats) -> None:
        """Cut a box at the relaxed copies of the stage whose arrays they leave most undecided."""
        low, high = box
        if (low == high).all():
            return
        demand = self._problem.demand
        undecided = np.minimum(copies - low, high - copies) * demand + _STAKE * (high - low) * demand
        chosen = int(np.where(high > low, undecided, -1.0).argmax())
        middle = min(max(int(copies[chosen]), int(low[chosen])), int(high[chosen]) - 1)
        above, below = low.copy(), high.copy()
        above[chosen], below[chosen] = middle + 1, middle
        self._open += [(above, high), (low, below)]
