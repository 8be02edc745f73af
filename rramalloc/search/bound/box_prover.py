"""The lower side of `auto`: targets between lower bound and incumbent are refuted or met, one by one.

`BoxProver` chooses targets, and spends its turns on quick nodes of compiled branch and bound first, then on
decision diagrams.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rramalloc.search.bound.boxes import Box, Outcome, bounder_of
from rramalloc.search.bound.diagram import Diagrams
from rramalloc.search.bound.places import Places
from rramalloc.search.bound.turns import ProofTurn
from rramalloc.search.kernels.refute import OpenBoxes
from rramalloc.search.problem import Choice, Problem
from rramalloc.search.work import Work

_FIRST_EFFORT = 64
"""Nodes of branch and bound that the first target gets; twice as many each time that one stays undecided."""
_ROOM = 2**20  # nodes for whose open boxes there is room: depth first leaves at most 64 a stage
_FIRST_BRANCHING_S = 0.03
"""Work that branch and bound takes before the program over places begins."""
_ABOVE = (4, 16, 8, 2, 1, 0)  # per cent above the first bound at which boxes are looked at
_QUICK_S = 0.01  # time of a box from which on only the first of these is looked at
FINEST = 4096
"""Parts of the makespan below which two targets are one where times are ticks."""
_BEFORE_DIAGRAMS_S = 0.1  # seconds that branch and bound is alone before


@dataclass(eq=False)
class BoxProver:
    """The `LowerSide` of one problem.

    _boxes: what holds every allocation that meets a target, of targets for which that is known; _near: the
    price of arrays that propagated the last of them best.
    """

    problem: Problem
    first_s: float = 0.0
    _nodes: int = 0
    _other_s: float = 0.0
    _effort: int = _FIRST_EFFORT
    _stride: int = 1
    _resisted: bool = False
    """Whether a target resisted branch and bound: small networks are proven without a linear program."""
    _found: list[Choice] = field(default_factory=list)
    _open: tuple[int, OpenBoxes] | None = None
    """The target that stayed undecided last, and its open boxes."""
    _boxes: dict[int, Box] = field(default_factory=dict)
    _near: int = -1

    def __post_init__(self) -> None:
        self.bounder = bounder_of(self.problem)
        self._diagrams = Diagrams(self.bounder)

    def root(self, known: int, makespan: int, stop: Work) -> tuple[int, tuple[Choice, ...]]:
        """Return a first bound by propagation alone, and the lower corners of the boxes just above it."""
        bound = self.bounder.root_bound(stop, known, makespan)
        if stop.out_of_time:
            return bound, ()
        percents = _ABOVE if self.bounder.node_seconds < _QUICK_S else _ABOVE[:1]
        boxes = [self.bounder.box(bound + bound * percent // 100) for percent in percents]
        stop.charge(len(boxes) * self.bounder.root_seconds)
        return bound, tuple(self.problem.choice(box[0]) for box in boxes if box is not None)

    @property
    def nodes(self) -> int:
        """Nodes searched, as of `LowerSide`."""
        return self._nodes + self._diagrams.nodes

    @property
    def begins_with_program(self) -> bool:
        """Whether a target has resisted branch and bound."""
        return self._resisted

    def exchange(self, program: Places, stop: Work) -> bool:
        """Propagate what this side and the program know of its target; False if nothing meets it."""
        target, (low, high) = program.target, self._box(program.target)
        box = np.maximum(low, program.box[0]), np.minimum(high, program.box[1])
        near = self._near if target in self._boxes else -1
        stop.charge(self.bounder.node_seconds if near >= 0 else self.bounder.sweep_seconds)
        left = self.bounder.propagated(target, box, near)
        if left is None:
            return False
        self._boxes[target], self._near = left.box, left.price
        return program.keep_box(left.box)

    def _box(self, target: int) -> Box:
        """Return the tightest box known to hold every allocation that meets the target."""
        wider = [known for known in self._boxes if known >= target]
        # The box of a longer target holds every allocation that meets a shorter one.
        low, high = self._boxes[min(wider)] if wider else self.bounder.widest
        return low.copy(), high.copy()

    def run(self, bound: int, makespan: int, seconds: float, left_s: float, stop: Work) -> ProofTurn:
        """Raise the bound, as `LowerSide.run`. Diagrams take most of the work once other proofs take long."""
        self._found, begun_s, end_s = [], stop.spent_s, stop.spent_s + left_s
        resisted = self._resisted
        while bound < makespan and not stop.out_of_time:
            if any(found.makespan <= bound for found in self._found[-1:]):
                break
            due_s = self._diagrams.weight * (self._other_s - _BEFORE_DIAGRAMS_S)
            if self._diagrams.seconds < due_s and self._diagrams.fits(end_s - stop.spent_s):
                target, left_s = self._diagrams.target(bound, makespan), end_s - stop.spent_s
                bound = self._diagrams.raised(target, self._box(target), bound, makespan, left_s, stop)
            else:
                before_s = stop.spent_s
                bound = self._climb(bound, makespan, end_s - before_s, stop)
                self._other_s += stop.spent_s - before_s
            if stop.spent_s - begun_s >= seconds or self._resisted != resisted:
                break
        return ProofTurn(bound, tuple(self._found))

    def _climb(self, bound: int, makespan: int, left_s: float, stop: Work) -> int:
        """Decide the next target by branch and bound; return the lower bound.

        Targets go up in growing strides as long as they are refuted, and in shorter ones when one resists;
        not in single ticks where stages have their own clocks and times are long.
        """
        if not self._resisted:
            left_s = _FIRST_BRANCHING_S - self._other_s
            if left_s < self.bounder.sweep_seconds:
                self._resisted, self._stride = True, 1
                return bound
        self._stride = max(self._stride, self._finest(makespan))
        target = min(bound + self._stride, makespan) - 1
        outcome = self._decide(target, left_s, stop)
        if outcome is Outcome.REFUTED:
            bound, self._stride = target + 1, 2 * self._stride
        elif outcome is Outcome.UNDECIDED and not self._resisted:
            self._resisted, self._stride = True, 1
        elif self._stride > self._finest(makespan):
            self._stride //= 4
        elif outcome is Outcome.UNDECIDED:
            self._effort *= 2
        return bound

    def _finest(self, makespan: int) -> int:
        """Return the shortest stride."""
        return 1 if self.problem.time_unit == "steps" else max(1, makespan // FINEST)

    def _decide(self, target: int, left_s: float, stop: Work) -> Outcome:
        """Prove a target infeasible or find an allocation that meets it, by branch and bound.

        The last target that stayed undecided is gone on with, in what has been proven of it since.
        """
        nodes_s = left_s - self.bounder.sweep_seconds
        effort = max(1, min(self._effort, int(nodes_s / self.bounder.node_seconds)))
        box = self._box(target)
        if self._open is None or self._open[0] != target:
            self._open = target, self.bounder.open_boxes(box, _ROOM)
        boxes = self._open[1]
        boxes.restrict(*box)
        outcome, nodes, found = self.bounder.decide(target, effort, stop, boxes)
        self._nodes += nodes
        if outcome is Outcome.FOUND:
            self._found.append(self.problem.choice(found))
        if outcome is not Outcome.UNDECIDED:
            self._open = None
        return outcome
