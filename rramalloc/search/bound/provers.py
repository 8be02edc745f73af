"""Who proves bounds for a problem: boxes of copies, or labels of modes.

Both stay: on copies alone labels leave gaps of 5-6 % where boxes and diagrams leave 2-4 %.
"""

from __future__ import annotations

from rramalloc.search.bound.box_prover import BoxProver
from rramalloc.search.bound.boxes import Bounder, bounder_of
from rramalloc.search.bound.labels import ModeBounder
from rramalloc.search.bound.mode_prover import ModeProver
from rramalloc.search.bound.turns import LowerSide
from rramalloc.search.menu import Menu
from rramalloc.search.problem import Problem
from rramalloc.search.work import Work


def has_boxes(problem: Problem) -> bool:
    """Return True if the modes of every stage are a range of copies of one block, without gaps."""
    return problem.one_block and not problem.is_limited


def prover_of(problem: Problem, menu: Menu) -> LowerSide:
    """Return the side of a search that raises the lower bound."""
    return BoxProver(problem) if has_boxes(problem) else ModeProver(problem, menu)


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
