"""Who proves bounds for a problem: the program over places, then boxes of copies, or labels of modes.

Boxes are not replaced by labels: on copies alone labels leave gaps of 5-6 % where boxes and diagrams leave
2-4 %.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from rramalloc.search.bound.box_prover import BoxProver
from rramalloc.search.bound.boxes import Bounder, bounder_of
from rramalloc.search.bound.flows import run_flows
from rramalloc.search.bound.labels import ModeBounder
from rramalloc.search.bound.mode_prover import ModeProver
from rramalloc.search.bound.places import Places
from rramalloc.search.bound.turns import LowerSide, ProofTurn, raised_bound
from rramalloc.search.menu import Menu
from rramalloc.search.problem import Choice, Problem
from rramalloc.search.work import OutOfTime, Work

_SHARE_OF_FLOWS = 0.3  # of the work left, that the bound of flows may take
_SHARE_OVER_MODES = 0.1  # the same over modes, which are many, so that rounds take longer
_SHARE_BEHIND = 0.25  # of the program's work that branch and bound gets while the program is behind
_LEAST_LEFT_S = 0.5
"""Counted work that is left where the program begins beside boxes: with less, these alone prove more."""
_LEAST_TURN_S = 1e-3  # of work that a turn counts at least


def has_boxes(problem: Problem) -> bool:
    """Return True if the modes of every stage are a range of copies of one block, without gaps."""
    return problem.one_block and not problem.is_limited


class _Branching(LowerSide, Protocol):
    """What branches once the program over places stands still."""

    @property
    def begins_with_program(self) -> bool:
        """True if quick proofs of its own have failed, or it has none."""
        ...

    def restrict(self, target: int, program: Places) -> None:
        """Take over what is left of the candidates for a target."""
        ...


@dataclass(eq=False)
class PlacesProver:
    """The program over places as long as it pays, then in turns with branch and bound on what it leaves.

    _program_pace, _branching_pace: ticks a counted second by which the last turn of each raised the bound; of
    the program infinite as long as it pays; _is_behind: whether its bound is below the one that is known;
    _program_s, _branching_s: work of each, _turn_s: of the last turn of branch and bound.
    """

    problem: Problem
    menu: Menu
    branching: _Branching
    _program: Places | None = None
    _has_begun: bool = False
    _program_pace: float = math.inf
    _branching_pace: float = 0.0
    _is_behind: bool = False
    _program_s: float = 0.0
    _branching_s: float = 0.0
    _turn_s: float = 0.0

    @property
    def nodes(self) -> int:
        """Nodes searched, as of `LowerSide`."""
        return self.branching.nodes

    @property
    def first_s(self) -> float:
        """Seconds of the first target, as of `LowerSide`."""
        return self.branching.first_s

    def root(self, known: int, makespan: int, stop: Work) -> tuple[int, tuple[Choice, ...]]:
        """Return a first bound and allocations to start from, as `LowerSide.root`."""
        return self.branching.root(known, makespan, stop)

    def run(self, bound: int, makespan: int, seconds: float, left_s: float, stop: Work) -> ProofTurn:
        """Raise the bound, as `LowerSide.run`."""
        if self.branching.begins_with_program and not self._has_begun:
            self._has_begun = True
            return self._begin(bound, makespan, left_s, stop)
        program, begun_s = self._program, stop.spent_s
        if program is None or self._is_branching_due:
            turn = self.branching.run(bound, makespan, seconds, left_s, stop)
            self._turn_s = stop.spent_s - begun_s
            if self._has_begun:
                self._branching_s += self._turn_s
                self._branching_pace = (turn.bound - bound) / max(self._turn_s, _LEAST_TURN_S)
            return turn
        known = max(float(bound), program.bound)
        with suppress(OutOfTime):
            bound = self._raise(program, bound, makespan, seconds, left_s, stop)
        bound = raised_bound(bound, program.bound, makespan)  # also where a limit of time ended it
        took_s = stop.spent_s - begun_s
        self._program_s += took_s
        pace = max(program.bound - known, 0.0) / max(took_s, _LEAST_TURN_S)
        if math.isfinite(self._program_pace):
            self._program_pace = pace
            if pace == 0.0:
                self._program = None  # it stands still: branch and bound alone goes on
        elif program.has_pairs and not program.pays(bound, left_s - took_s):
            self._program_pace, self._branching_pace = pace, math.inf
        self._is_behind = program.bound <= bound - 1
        found = (self.problem.choice(program.copies),) if self.problem.one_block else ()
        return ProofTurn(bound, found)

    def _begin(self, bound: int, makespan: int, left_s: float, stop: Work) -> ProofTurn:
        """Raise the bound by flows, and begin the program if there is work for it."""
        turn, start, begun_s = ProofTurn(bound, ()), None, stop.spent_s
        if not self.menu.axes:
            most_s = (_SHARE_OF_FLOWS if self.problem.one_block else _SHARE_OVER_MODES) * left_s
            turn, start = run_flows(self.problem, self.menu, bound, makespan, most_s, stop)
        left_s -= stop.spent_s - begun_s
        has_work = left_s >= _LEAST_LEFT_S or not has_boxes(self.problem)
        if turn.bound < makespan and has_work and not stop.out_of_time:
            self._program = Places.affordable(self.problem, self.menu, makespan - 1, left_s, start)
        return turn

    @property
    def _is_branching_due(self) -> bool:
        """Whether the next turn is that of branch and bound.

        While the program pays, only if that is behind and branch and bound has had less than its share; later
        if the last turn of branch and bound raised the bound faster than that of the program.
        """
        if math.isinf(self._program_pace):
            due_s = _SHARE_BEHIND * self._program_s
            return self._is_behind and self._branching_s + self._turn_s < due_s
        return self._branching_pace > self._program_pace

    def _raise(
        self, program: Places, bound: int, makespan: int, seconds: float, left_s: float, stop: Work
    ) -> int:
        """Run rounds of the program for about `seconds`; return the bound. Raises OutOfTime."""
        begun_s, more = stop.spent_s, True
        while bound < makespan and more and (spent := stop.spent_s - begun_s) < min(seconds, left_s):
            more = program.round(makespan - 1, left_s - spent, stop)
            bound = raised_bound(bound, program.bound, makespan)
            if program.has_pairs or (more and program.pays(bound, left_s - stop.spent_s + begun_s)):
                continue
            if not program.fix():
                return makespan
            # Further behind than what is left to be proven: pair rows do not make up for that.
            more = bound - program.bound <= makespan - bound
            if not more:
                break
            program.begin_pairs()
        if bound < makespan and program.has_pairs:
            if not program.fix():
                return makespan
            self.branching.restrict(makespan - 1, program)
        if not more:
            self._program = None
        return bound


def prover_of(problem: Problem, menu: Menu) -> LowerSide:
    """Return the side of a search that raises the lower bound."""
    branching = BoxProver(problem) if has_boxes(problem) else ModeProver(problem, menu)
    return PlacesProver(problem, menu, branching)


def refutes(problem: Problem, target: int, stop: Work) -> bool:
    """Return True if propagation, or over modes priced paths, refute a target; its work is not charged."""
    if has_boxes(problem):
        return Bounder(problem).box(target) is None
    bounder = ModeBounder(problem, Menu.of(problem))
    return bounder.tighten(bounder.everything, target, stop.nested(1)) is None


def quick_bound(problem: Problem, stop: Work) -> int:
    """Return steps that no allocation undercuts, by rules for a single box, or by the smallest interval."""
    if stop.out_of_time:
        return 1
    if has_boxes(problem):
        return bounder_of(problem).root_bound(stop)
    return Menu.of(problem).smallest_interval(problem)
