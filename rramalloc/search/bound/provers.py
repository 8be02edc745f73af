"""Who proves bounds for a problem: the program over places, in turns with boxes of copies or labels of modes.

The program is aimed at targets below the incumbent: of allocations that meet a shorter one it leaves fewer
candidates, so that its bound is higher, until it refutes the target or stands still.

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
from rramalloc.search.bound.flows import Flows, run_flows
from rramalloc.search.bound.labels import ModeBounder
from rramalloc.search.bound.mode_prover import ModeProver
from rramalloc.search.bound.places import Places
from rramalloc.search.bound.turns import LowerSide, ProofTurn, raised_bound
from rramalloc.search.menu import Menu
from rramalloc.search.problem import Choice, Problem
from rramalloc.search.work import OutOfTime, Work

_SHARE_OF_FLOWS = 0.3  # of the work planned, that the bound of flows may take
_SHARE_OVER_MODES = 0.1  # the same over modes, which are many, so that rounds take longer
_LEAST_SHARE = 0.25  # of the work of the other one, that program and branch and bound get at least
_FIRST_PART = 0.5  # of the gap between bound and incumbent: the first target of the program below these
_LOWER = 0.25  # of the way from the bound to a target that resists: the next one
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

    def exchange(self, program: Places, stop: Work) -> bool:
        """Leave both sides what neither refutes of the program's target; False if nothing is left."""
        ...


@dataclass(eq=False)
class PlacesProver:
    """The program over places, in turns with branch and bound on what it leaves.

    _program_pace, _branching_pace: ticks a counted second by which the last turn of each raised the bound;
    _program_s, _branching_s: work of each, _turn_s: of the last turn of branch and bound; _part: of the gap,
    up to the next target of the program; _flows: that begin it, _begin_s: work that is planned when it is
    tried to begin it again, infinite once it has stood still.
    """

    problem: Problem
    menu: Menu
    branching: _Branching
    _program: Places | None = None
    _flows: Flows | None = None
    _begin_s: float = 0.0
    _program_pace: float = math.inf
    _branching_pace: float = 0.0
    _program_s: float = 0.0
    _branching_s: float = 0.0
    _turn_s: float = 0.0
    _part: float = _FIRST_PART

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
        if self.branching.begins_with_program and self._program is None and left_s >= self._begin_s:
            return self._begin(bound, makespan, seconds, left_s, stop)
        program, begun_s = self._program, stop.spent_s
        if program is None or self._is_branching_due:
            turn = self.branching.run(bound, makespan, seconds, left_s, stop)
            self._turn_s = stop.spent_s - begun_s
            if program is not None:
                self._branching_s += self._turn_s
                self._branching_pace = (turn.bound - bound) / max(self._turn_s, _LEAST_TURN_S)
            return turn
        known, aimed, value = bound, program.target, program.bound
        with suppress(OutOfTime):
            bound = self._raise(program, bound, makespan, seconds, left_s, stop)
        # Also where a limit of time ended it.
        bound = raised_bound(bound, program.bound, min(makespan, program.target + 1))
        took_s = stop.spent_s - begun_s
        self._program_s += took_s
        raised = max(bound - known, program.bound - value if program.target <= aimed else 0.0)
        self._program_pace = raised / max(took_s, _LEAST_TURN_S)
        found = (self.problem.choice(program.copies),) if self.problem.one_block else ()
        return ProofTurn(bound, found)

    def _begin(self, bound: int, makespan: int, seconds: float, left_s: float, stop: Work) -> ProofTurn:
        """Raise the bound by flows for about `seconds`; after the last of them begin the program.

        Where there is no work for it, it is tried again once twice as much is planned.
        """
        turn, flows = ProofTurn(bound, ()), self._flows
        if not self.menu.axes:
            if flows is None:
                flows = self._flows = Flows(self.problem, self.menu, makespan)
            share = _SHARE_OF_FLOWS if self.problem.one_block else _SHARE_OVER_MODES
            before, most = flows.rounds, int((share * left_s - flows.seconds) / flows.round_s)
            turn = run_flows(flows, bound, makespan, min(most, flows.rounds_in(seconds)), stop)
            left_s -= flows.seconds
            if flows.rounds > before and flows.pays:
                return turn
        if turn.bound < makespan and not stop.out_of_time:
            start = flows.start if flows is not None and flows.rounds else None
            self._program = Places.affordable(self.problem, self.menu, makespan - 1, left_s, stop, start)
            self._begin_s = 2 * left_s
        return turn

    @property
    def _is_branching_due(self) -> bool:
        """Whether the next turn is that of branch and bound.

        Each side has its share; beyond that the one follows whose last turn raised the bound faster.
        """
        if self._branching_s + self._turn_s < _LEAST_SHARE * self._program_s:
            return True
        is_faster = self._branching_pace > self._program_pace
        return is_faster and self._program_s >= _LEAST_SHARE * self._branching_s

    def _raise(
        self, program: Places, bound: int, makespan: int, seconds: float, left_s: float, stop: Work
    ) -> int:
        """Run rounds of the program for about `seconds`; return the bound. Raises OutOfTime."""
        begun_s = stop.spent_s
        if program.target >= makespan:
            program.aim(makespan - 1)
        while bound < makespan and (spent_s := stop.spent_s - begun_s) < min(seconds, left_s):
            more = program.round(left_s - spent_s, stop)
            target, is_aimed = program.target, program.target < makespan - 1
            bound = raised_bound(bound, program.bound, target + 1)
            is_refuted = bound > target or not program.fix()
            if not is_refuted and (is_aimed or program.has_pairs):
                is_refuted = not self.branching.exchange(program, stop)
            if is_refuted:
                bound, self._part = target + 1, min(_FIRST_PART, 2 * self._part)
                program.aim(self._target(bound, makespan))
            elif not more or not program.rises(1 if is_aimed else 2):
                if target > bound:
                    self._part *= _LOWER if is_aimed else 1.0
                    program.aim(min(self._target(bound, makespan), target - 1))
                elif program.has_pairs or program.bound < bound - 1:
                    self._program, self._begin_s = None, math.inf  # it stands still: branching alone goes on
                    break
                else:
                    self._part = _FIRST_PART
                    program.aim(makespan - 1)
                    program.begin_pairs()
        return bound

    def _target(self, bound: int, makespan: int) -> int:
        """Return the next target of the program, by the part of the gap."""
        return bound + int(self._part * (makespan - 1 - bound))


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
