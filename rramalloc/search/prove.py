"""The lower side of `auto`: targets between bound and best are refuted, or met, one after the other."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rramalloc.search.bound import Bounder, Outcome
from rramalloc.search.branch import Branching
from rramalloc.search.problem import Problem, Stop
from rramalloc.search.tighten import Tightener
from rramalloc.timing.simulate import Replication, makespan_of

_FIRST_EFFORT = 64
_FEW_STAGES = 24
_DEEP_NODES = 2
"""Deep nodes that a turn with them has time for at least."""
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

    nodes: boxes looked at so far.
    """

    problem: Problem
    nodes: int = 0
    _effort: int = _FIRST_EFFORT
    _stride: int = 1
    _begun: bool = False
    _found: list[Replication] = field(default_factory=list)
    _branchings: dict[int, Branching] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.bounder = Bounder(self.problem)
        self._tightener = Tightener(self.bounder)
        self._relaxed_s = self._tightener.guessed_seconds

    def root(self, known: int, makespan: int) -> tuple[int, tuple[Replication, ...]]:
        """A first bound by propagation alone, and the lower corners of the boxes just above it.

        known, makespan: lower bound and makespan to begin with.
        """
        bound = self.bounder.root_bound(known, makespan)
        percents = _ABOVE if self.bounder.node_seconds < _QUICK_S else _ABOVE[:1]
        boxes = [self.bounder.box(bound + bound * percent // 100) for percent in percents]
        return bound, tuple(box[0] for box in boxes if box is not None)

    def run(self, bound: int, makespan: int, seconds: float, left_s: float, stop: Stop) -> Step:
        """Work for about `seconds` on targets from `bound` to below `makespan`.

        Targets go up in growing strides as long as they are refuted, and in shorter ones when one resists.
        left_s: seconds of work that the whole search has left. Same calls, same answer.
        """
        self._found, spent = [], 0.0
        if not self._begun:
            self._begun = True
            bound, spent = self._tighten(bound, makespan - 1, left_s, stop)
        while bound < makespan and not self._found_at_most(bound) and not stop.out_of_time:
            target = min(bound + self._stride, makespan) - 1
            bound, took = self._tighten(bound, target, left_s - spent, stop)
            spent += took
            outcome = Outcome.REFUTED
            if bound <= target:
                outcome, took = self._decide(target, left_s - spent, stop)
                spent += took
            if outcome is Outcome.REFUTED:
                bound, self._stride = max(bound, target + 1), 2 * self._stride
            elif self._stride > 1:
                self._stride = max(1, self._stride // 4)
            elif outcome is Outcome.UNDECIDED:
                self._effort *= 2
            if spent >= seconds:
                break
        return Step(bound, tuple(self._found), spent)

    def _found_at_most(self, bound: int) -> bool:
        """Whether an allocation as fast as the bound was found in this turn."""
        return any(makespan_of(self.problem.graph, found) <= bound for found in self._found[-1:])

    def _decide(self, target: int, left_s: float, stop: Stop) -> tuple[Outcome, float]:
        """Quick nodes first, then few deep ones; with many stages quick nodes do not lead far."""
        node_s = self.bounder.node_seconds
        effort = max(1, min(self._effort, int(left_s / node_s)))
        box, spent = self._tightener.box(target), 0.0
        outcome, deep = Outcome.UNDECIDED, self._relaxed_s <= _SHARE * left_s
        if not deep or target not in self._branchings or len(self.problem.demand) <= _FEW_STAGES:
            outcome, nodes, found = self.bounder.decide(target, effort, box)
            self.nodes += nodes
            spent = nodes * node_s + self.bounder.sweep_seconds
            if outcome is Outcome.FOUND:
                self._found.append(found)
        if outcome is not Outcome.UNDECIDED or not deep or stop.out_of_time:
            return outcome, spent
        if target not in self._branchings:
            self._branchings[target] = Branching(self.bounder, self._tightener.relaxation, target, box)
        turn = self._branchings[target].run(max(effort * node_s, _DEEP_NODES * self._relaxed_s), stop)
        self.nodes += turn.nodes
        if turn.found is not None:
            self._found.append(turn.found)
        return turn.outcome, spent + turn.seconds

    def _tighten(self, bound: int, target: int, left_s: float, stop: Stop) -> tuple[int, float]:
        """Relax the box of a target, once, if there is time for it: (bound, seconds)."""
        affordable = self._relaxed_s <= _SHARE * left_s and not stop.out_of_time
        if target < bound or self._tightener.knows(target) or not affordable:
            return bound, 0.0
        tight = self._tightener.tighten(target)
        self._relaxed_s = tight.seconds / max(1, tight.rounds)
        if tight.copies is not None:
            self._found.append(np.floor(tight.copies + 1e-9).astype(np.int64))
        return max(bound, tight.bound), tight.seconds
