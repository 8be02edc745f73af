"""All methods by name; a method's libraries are imported when it is used, not before.

Other packages name a Method, or a function that solves, as an entry point of the group `rramalloc.methods`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from rramalloc.errors import UnknownNameError
from rramalloc.lazy import foreign, load_foreign, plugin_errors

if TYPE_CHECKING:
    from rramalloc.methods.method import Method, Solve
    from rramalloc.search.problem import Answer, Problem
    from rramalloc.search.work import Work

GROUP = "rramalloc.methods"
METHODS = {
    "auto": "rramalloc.methods.searches:AUTO",
    "annealing": "rramalloc.methods.annealing:ANNEALING",
    "balance": "rramalloc.methods.balance:BALANCE",
    "bottleneck": "rramalloc.methods.bottleneck:BOTTLENECK",
    "cim-mlc": "rramalloc.methods.cim_mlc:CIM_MLC",
    "gain": "rramalloc.methods.gain:GAIN",
    "genetic": "rramalloc.methods.genetic:GENETIC",
    "interval": "rramalloc.methods.searches:INTERVAL",
    "isaac": "rramalloc.methods.isaac:ISAAC",
    "lagrange": "rramalloc.methods.lagrange:LAGRANGE",
    "milp": "rramalloc.methods.milp:MILP",
    "neurosim": "rramalloc.methods.neurosim_rule:NEUROSIM",
    "none": "rramalloc.methods.none:NONE",
    "proportional": "rramalloc.methods.proportional:PROPORTIONAL",
    "published": "rramalloc.methods.published_recurrence:PUBLISHED",
    "recurrence": "rramalloc.methods.tight_recurrence:RECURRENCE",
    "sdk": "rramalloc.methods.sdk:SDK",
    "sequential": "rramalloc.methods.searches:SEQUENTIAL",
    "uniform": "rramalloc.methods.uniform:UNIFORM",
    "vw-sdk": "rramalloc.methods.vw_sdk:VW_SDK",
}
"""Place of each method of this package, as "module:variable"; `auto` first, the others by name."""


def method_names() -> tuple[str, ...]:
    """Names of all methods, the default one first, those of other packages last."""
    return (*METHODS, *sorted(set(foreign(GROUP)) - set(METHODS)))


def method_named(name: str) -> Method:
    """Return the method of that name; its libraries are imported only now.

    Raises UnknownNameError, PluginError.
    """
    if name in METHODS:
        module, _, variable = METHODS[name].partition(":")
        own: Method = getattr(import_module(module), variable)
        return own
    if name not in foreign(GROUP):
        raise UnknownNameError("method", name, method_names())
    from rramalloc.methods.method import Method

    method = load_foreign(GROUP, name, "method")
    if not isinstance(method, Method):
        method = Method(name, method, minimises="", compared=False)
    return replace(method, solve=partial(_solved, name, method.solve))


def _solved(name: str, solve: Solve, problem: Problem, stop: Work, seed: int) -> Answer:
    """Return what a method of another package proposes, with one number a stage. Raises PluginError."""
    with plugin_errors(GROUP, name, "method"):
        found = solve(problem, stop, seed)
        copies = [int(number) for number in found.choice.copies]
        if len(copies) != len(problem.demand):
            raise ValueError(f"it returned {len(copies)} numbers of copies for {len(problem.demand)} stages")
        choice = problem.choice(problem.demand * 0 + copies, found.choice.modes)
        return replace(found, choice=choice)
