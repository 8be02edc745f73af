"""Tightening: propagation and relaxation in turn, until the box of a target shrinks no more."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from rramalloc.search.bound import Bounder, Box, width
from rramalloc.search.relaxation import Floats, Relaxation

_ROUNDS = 6
_ENOUGH = 0.95
"""A round that leaves more than this part of the box is the last one."""


@dataclass(frozen=True, slots=True, eq=False)
class Tight:
    """What is left of a target.

    bound: no allocation within the budget has a smaller makespan; box: holds all that meet the target,
    None if none does; copies: the relaxation's, None if it was not needed; seconds: counted, of
    so many rounds.
    """

    bound: int
    box: Box | None
    copies: Floats | None
    seconds: float
    rounds: int


@dataclass(eq=False)
class Tightener:
    """Tightens the boxes of one problem; what holds for a target holds for every smaller one."""

    bounder: Bounder
    _boxes: dict[int, Box] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.relaxation = Relaxation(self.bounder.problem)

    def tighten(self, target: int) -> Tight:
        """Shrink the box of a target as far as it goes."""
        box = self.box(target)
        bound, copies, seconds, rounds = 1, None, self.bounder.sweep_seconds, 0
        near = -1
        for rounds in range(1, _ROUNDS + 1):
            seconds += self.bounder.node_seconds
            left = self.bounder.shrunk(target, box, near)
            if left is None:
                return Tight(target + 1, None, copies, seconds, rounds)
            near, before = left.price, width(left.box)
            relaxed = self.relaxation.solve(left.box, left.start, left.rest, target)
            seconds += relaxed.seconds
            copies = relaxed.copies
            bound = max(bound, min(math.ceil(relaxed.bound - 1e-6), target + 1))
            if relaxed.box is None or bound > target:
                return Tight(target + 1, None, copies, seconds, rounds)
            box = relaxed.box
            if width(box) >= _ENOUGH * before:
                break
        self._boxes[target] = box
        return Tight(bound, box, copies, seconds, rounds)

    def knows(self, target: int) -> bool:
        """Whether the box of exactly this target has been tightened."""
        return target in self._boxes

    @property
    def guessed_seconds(self) -> float:
        """What tightening the first target may take, from the number of stages."""
        return 3e-5 * len(self.bounder.problem.demand) ** 2

    def box(self, target: int) -> Box:
        """The tightest box known to hold every allocation that meets the target."""
        wider = [known for known in self._boxes if known >= target]
        low, high = self._boxes[min(wider)] if wider else self.bounder.widest
        return low.copy(), high.copy()
