"""All methods by name; a method's libraries are imported when it is used, not before.

Other packages name a Method, or a function that solves, as an entry point of the group `rramalloc.methods`.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

from rramalloc.errors import SpecError, UnknownNameError
from rramalloc.lazy import entry_point, foreign, load_foreign, plugin_errors

if TYPE_CHECKING:
    from rramalloc.methods.method import Method, MethodLike
    from rramalloc.search.problem import Answer, Problem
    from rramalloc.search.work import Work

METHOD_GROUP = "rramalloc.methods"
METHODS = {
    "auto": "rramalloc.methods.searches:AUTO",
    "annealing": "rramalloc.methods.annealing:ANNEALING",
    "balance": "rramalloc.methods.balance:BALANCE",
    "bottleneck": "rramalloc.methods.bottleneck:BOTTLENECK",
    "cim-mlc": "rramalloc.methods.cim_mlc:CIM_MLC",
    "fullest-kind": "rramalloc.methods.fullest_kind:FULLEST_KIND",
    "gain": "rramalloc.methods.gain:GAIN",
    "genetic": "rramalloc.methods.genetic:GENETIC",
    "interval": "rramalloc.methods.searches:INTERVAL",
    "isaac": "rramalloc.methods.isaac:ISAAC",
    "lagrange": "rramalloc.methods.lagrange:LAGRANGE",
    "milp": "rramalloc.methods.milp:MILP",
    "neurosim": "rramalloc.methods.neurosim_rule:NEUROSIM",
    "none": "rramalloc.methods.none:ONE_COPY",
    "proportional": "rramalloc.methods.proportional:PROPORTIONAL",
    "published": "rramalloc.methods.published_recurrence:PUBLISHED",
    "recurrence": "rramalloc.methods.tight_recurrence:RECURRENCE",
    "sdk": "rramalloc.methods.sdk:SDK",
    "sequential": "rramalloc.methods.searches:SEQUENTIAL",
    "single-kind": "rramalloc.methods.single_kind:SINGLE_KIND",
    "uniform": "rramalloc.methods.uniform:UNIFORM",
    "vw-sdk": "rramalloc.methods.vw_sdk:VW_SDK",
}
"""Place of each method of this package, as "module:variable"; `auto` first, the others by name."""


def method_names() -> tuple[str, ...]:
    """Return the names of all methods, the default one first, those of other packages last."""
    return (*METHODS, *sorted(set(foreign(METHOD_GROUP)) - set(METHODS)))


def method_named(name: str) -> Method:
    """Return the method of that name; its libraries are imported only now.

    Raises UnknownNameError, PluginError.
    """
    if name in METHODS:
        module, _, variable = METHODS[name].partition(":")
        method: Method = getattr(import_module(module), variable)
        return method
    if name not in foreign(METHOD_GROUP):
        raise UnknownNameError("method", name, method_names())
    from rramalloc.methods.method import Method

    method = load_foreign(METHOD_GROUP, name, "method")
    if not isinstance(method, Method):
        method = Method(name, method, minimises="", compared=False)
    return of_others(method, entry_point(METHOD_GROUP, name, "method"))


def method_of(given: MethodLike) -> Method:
    """Return the method of a name, or a Method that wraps the caller's function.

    A function has its own name in results, and must keep to the budget.
    Raises UnknownNameError, PluginError; SpecError for a function that is called as a method of this program.
    """
    if isinstance(given, str):
        return method_named(given)
    from rramalloc.methods.method import Method

    if isinstance(given, Method):
        method = given
    else:
        function = getattr(given, "func", given)  # that of a functools.partial
        name = getattr(function, "__name__", type(function).__name__)
        method = Method(name, given, minimises="", compared=False, repaired=False)
    if method.name in method_names():
        words = f"a function or Method of yours is called {method.name!r}, as a method of this program is"
        raise SpecError("method", f"{words}: give it another name")
    return of_others(method, f"method {method.name!r}, which was given as a function,")


def of_others(method: Method, what: str) -> Method:
    """Return a method from outside this package with its answers checked; what: whose it is, in words."""
    from rramalloc.methods.answers import accepted_answer

    def solve(problem: Problem, stop: Work, seed: int) -> Answer:
        with plugin_errors(what):
            found: object = method.solve(problem.apart, stop, seed)
        return accepted_answer(found, problem, what, repaired=method.repaired)

    return replace(method, solve=solve)
