"""Who proves bounds for a problem: the program over places, then boxes of copies, or labels of modes.

Both stay: on copies alone labels leave gaps of 5-6 % where boxes and diagrams leave 2-4 %.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from rramalloc.search.bound.box_prover import BoxProver
from rramalloc.search.bound.boxes import Bounder, bounder_of
from rramalloc.search.bound.labels import ModeBounder
from rramalloc.search.bound.mode_prover import ModeProver
from rramalloc.search.bound.places import Places
from rramalloc.search.bound.turns import LowerSide, ProofTurn
from rramalloc.search.menu import Menu
from rramalloc.search.problem import Choice, Problem
from rramalloc.search.work import OutOfTime, Work


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
    """The program over places as long as it pays, then branch and bound on what it leaves."""

    problem: Problem
    menu: Menu
    branching: _Branching
    _program: Places | None = None
    _ended: bool = False

    @property
    def nodes(self) -> int:
        """Nodes searched, as of `LowerSide`."""
        return self.branching.nodes

    @property
    def first_s(self) -> float:
        """Seconds of the first target, as of `LowerSide`."""
        return self.branching.first_s if self._ended else 0.0

    def root(self, known: int, makespan: int, stop: Work) -> tuple[int, tuple[Choice, ...]]:
        """Return a first bound and allocations to start from, as `LowerSide.root`."""
        return self.branching.root(known, makespan, stop)

    def run(self, bound: int, makespan: int, seconds: float, left_s: float, stop: Work) -> ProofTurn:
        """Raise the bound, as `LowerSide.run`."""
        if self._ended or not self.branching.begins_with_program:
            return self.branching.run(bound, makespan, seconds, left_s, stop)
        begun_s = stop.spent_s
        with suppress(OutOfTime):
            if self._program is None:
                self._program = Places.affordable(self.problem, self.menu, makespan - 1, left_s)
            program = self._program
            if program is None:
                self._ended = True
                return self.branching.run(bound, makespan, seconds, left_s, stop)
            while bound < makespan and (spent := stop.spent_s - begun_s) < min(seconds, left_s):
                more = program.round(makespan - 1, left_s - spent, stop)
                bound = max(bound, min(math.ceil(program.bound), makespan))
                if program.stands_still or not more:
                    if not program.fix():
                        bound = makespan
                    elif not program.has_pairs:
                        program.begin_pairs()
                        continue
                    elif bound < makespan:
                        self.branching.restrict(makespan - 1, program)
                    self._ended = True
                    break
        return ProofTurn(bound, ())


def prover_of(problem: Problem, menu: Menu) -> LowerSide:
    """Return the side of a search that raises the lower bound."""
    branching = BoxProver(problem) if has_boxes(problem) else ModeProver(problem, menu)
    return PlacesProver(problem, menu, branching)


def refutes(problem: Problem, target: int, stop: Work) -> bool:
    """Return True if propagation, or over modes the relaxation, refutes a target; its work is not charged."""
    if has_boxes(problem):
        return Bounder(problem).box(target) is None
    bounder = ModeBounder(problem, Menu.of(problem))
    return bounder.tighten(bounder.everything, target, stop.nested(1)).rows is None


def quick_bound(problem: Problem, stop: Work) -> int:
    """Return steps that no allocation undercuts, by rules for a single box, or by the smallest interval."""
    if stop.out_of_time:
        return 1
    if has_boxes(problem):
        return bounder_of(problem).root_bound(stop)
    return Menu.of(problem).smallest_interval(problem)
