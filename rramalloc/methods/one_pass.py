"""Answers of the one-pass methods, with which `auto` begins (docs/sources/model.md 21)."""

from __future__ import annotations

from rramalloc.methods.method import proposed
from rramalloc.methods.registry import method_named
from rramalloc.search import repair
from rramalloc.search.problem import Choice, Problem
from rramalloc.search.work import Work

ONE_PASS = ("interval", "isaac", "neurosim", "none", "proportional", "sdk", "uniform", "vw-sdk")
"""The one-pass methods, a fixed list: a method of another package never changes an answer of `auto`."""


def one_pass_choices(problem: Problem, stop: Work) -> list[Choice]:
    """Return what the one-pass methods for such a problem propose, made to fit; charge their work.

    None where stages choose a kind of arrays or bits, which `search.kind_starts` does.
    """
    found = list[Choice]()
    for name in ONE_PASS if problem.alternatives is None else ():
        method = method_named(name)
        if stop.out_of_time or (method.needs == "sdk" and not problem.chooses_blocks):
            continue
        choice = proposed(method, problem, stop, 0).choice
        copies = repair.fitting(problem, choice.copies, choice.modes)
        if problem.keeps_limits(copies, choice.modes) and problem.holds(copies, choice.modes):
            found.append(problem.choice(copies, choice.modes))
    return found
