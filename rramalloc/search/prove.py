"""The lower side of `auto`: targets between bound and best are refuted, or met, one after the other."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rramalloc.search.bound import Bounder, Outcome
from rramalloc.search.problem import Problem, Stop
from rramalloc.search.tighten import Tightener
from rramalloc.timing.simulate import Replication

_FIRST_EFFORT = 64
_ABOVE, _QUICK_S = (4, 16, 8, 2, 1, 0), 0.01
"""Per cent above the first bound at which boxes are looked at; only the first where boxes take long."""
_SHARE = 0.2
"""Part of the work left that a single relaxation may take."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What a turn came to: the bound, allocations worth a look, and the seconds of work counted."""

    bound: int
    found: tuple[Replication, ...]
    seconds: float


@dataclass(eq=False)
class Prover:
    """Raises the lower bound of one problem; what it has learnt of a target stays from turn to turn.

    nodes: boxes looked at so far; guide: the relaxation's last allocation, None before the first.
    """

    problem: Problem
    nodes: int = 0
    guide: Replication | None = None
    _effort: int = _FIRST_EFFORT
    _undecided: int | None = None
    _found: list[Replication] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bounder = Bounder(self.problem)
        self._tightener = Tightener(self.bounder)
        self._relaxed_s = self._tightener.guessed_seconds

    def root(self) -> tuple[int, tuple[Replication, ...]]:
        """A first bound by propagation alone, and the lower corners of the boxes just above it."""
        bound = self.bounder.root_bound()
        percents = _ABOVE if self.bounder.node_seconds < _QUICK_S else _ABOVE[:1]
        boxes = [self.bounder.box(bound + bound * percent // 100) for percent in percents]
        return bound, tuple(box[0] for box in boxes if box is not None)

    def run(self, bound: int, makespan: int, seconds: float, left_s: float, stop: Stop) -> Step:
        """Work for about `seconds` on targets from `bound` to below `makespan`.

        left_s: seconds of work that the whole search has left. Same calls, same answer.
        """
        self._found = []
        spent = 0.0
        undecided = makespan if self._undecided is None else min(self._undecided, makespan)
        if undecided <= bound:
            self._effort, undecided = 2 * self._effort, makespan
        node_s = self.bounder.node_seconds
        nodes_left = max(min(self._effort, int(left_s / node_s)), int(seconds / node_s), 1)
        if self._undecided is None:
            bound, spent = self._tighten(bound, makespan - 1, left_s, stop)
        while bound < undecided and nodes_left > 0 and spent < max(seconds, 1e-9) and not stop.out_of_time:
            target = (bound + undecided - 1) // 2
            raised, took = self._tighten(bound, target, left_s - spent, stop)
            bound, spent = raised, spent + took
            if bound > target:
                continue
            effort = min(self._effort, nodes_left)
            outcome, nodes, found = self.bounder.decide(target, effort, self._tightener.box(target))
            nodes_left -= nodes
            self.nodes += nodes
            spent += nodes * node_s
            if outcome is Outcome.REFUTED:
                bound = target + 1
            elif outcome is Outcome.FOUND:
                self._found.append(found)
                undecided = min(undecided, target)
            else:
                undecided = target
        self._undecided = undecided
        return Step(bound, tuple(self._found), spent)

    def _tighten(self, bound: int, target: int, left_s: float, stop: Stop) -> tuple[int, float]:
        """Relax the box of a target, once, if there is time for it: (bound, seconds)."""
        affordable = self._relaxed_s <= _SHARE * left_s and not stop.out_of_time
        if target < bound or self._tightener.knows(target) or not affordable:
            return bound, 0.0
        tight = self._tightener.tighten(target)
        self._relaxed_s = tight.seconds
        if tight.copies is not None:
            self.guide = np.floor(tight.copies + 1e-9).astype(np.int64)
            self._found.append(self.guide)
        return max(bound, tight.bound), tight.seconds
