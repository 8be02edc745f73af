"""All methods by the name users call them by."""

from __future__ import annotations

from importlib import import_module

from rramalloc.errors import UnknownNameError
from rramalloc.search.problem import Method

_MODULES = {
    "auto": "rramalloc.search.auto:solve",
    "interval": "rramalloc.search.interval:solve",
    "recurrence": "rramalloc.search.recurrence:solve",
    "published": "rramalloc.search.published:solve",
    "milp": "rramalloc.search.milp:solve_highs",
    "milp-cbc": "rramalloc.search.milp:solve_cbc",
    "separable": "rramalloc.search.separable:solve",
}


def method_names() -> tuple[str, ...]:
    """Names of all methods, the default one first."""
    return tuple(_MODULES)


def method(name: str) -> Method:
    """The method of that name; its libraries are imported only now. Raises UnknownNameError."""
    if name not in _MODULES:
        raise UnknownNameError("method", name, method_names())
    module, _, function = _MODULES[name].partition(":")
    found: Method = getattr(import_module(module), function)
    return found
