"""All methods by name: each file of this folder declares its own, `VARIABLE = Method("name", ...)`.

The names are read from the files' text: a method's libraries are imported when it is used, not before. Other
packages name a Method, or a function that solves, as an entry point of the group `rramalloc.methods`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from rramalloc.errors import UnknownNameError
from rramalloc.lazy import foreign, load_foreign, plugin_errors

if TYPE_CHECKING:
    from rramalloc.methods.method import Method, Solve
    from rramalloc.search.problem import Candidate, Problem, Stop

GROUP = "rramalloc.methods"
_DECLARED = re.compile(r'^(\w+) = Method\(\s*"([\w-]+)"', re.MULTILINE)


def declared(folder: Path) -> dict[str, str]:
    """Where each method of a folder stands, as "module:variable"; `auto` first, the others by name."""
    homes = {
        name: f"{__package__}.{path.stem}:{variable}"
        for path in folder.glob("*.py")
        for variable, name in _DECLARED.findall(path.read_text(encoding="utf-8"))
    }
    return {name: homes[name] for name in sorted(homes, key=lambda name: (name != "auto", name))}


METHODS = declared(Path(__file__).parent)
"""The methods of this package."""


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


def _solved(name: str, solve: Solve, problem: Problem, stop: Stop, seed: int) -> Candidate:
    """Return what a method of another package proposes, with one number a stage. Raises PluginError."""
    with plugin_errors(GROUP, name, "method"):
        found = solve(problem, stop, seed)
        copies = [int(number) for number in found.replication]
        if len(copies) != len(problem.demand):
            raise ValueError(f"it returned {len(copies)} numbers of copies for {len(problem.demand)} stages")
        return replace(found, replication=problem.demand * 0 + copies)
