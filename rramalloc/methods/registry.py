"""All methods by the name users call them by: the searches and the baselines they are compared with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from rramalloc.errors import SpecError, UnknownNameError

if TYPE_CHECKING:
    from rramalloc.search.problem import Method


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a method is found, so that its libraries are imported only when it is used.

    path: module:function; seeded: whether the answer depends on the seed beyond ties, so that a comparison
    tells its spread; compared: whether a comparison runs it unless told otherwise.
    """

    path: str
    seeded: bool = False
    compared: bool = True


METHODS = {
    "auto": Entry("rramalloc.search.auto:solve"),
    "interval": Entry("rramalloc.search.interval:solve"),
    "recurrence": Entry("rramalloc.methods.recurrence:solve"),
    "published": Entry("rramalloc.methods.published:solve", compared=False),
    "milp": Entry("rramalloc.methods.milp:solve_highs"),
    "milp-cbc": Entry("rramalloc.methods.milp:solve_cbc", compared=False),
    "none": Entry("rramalloc.methods.none:solve"),
    "uniform": Entry("rramalloc.methods.uniform:solve"),
    "proportional": Entry("rramalloc.methods.proportional:solve"),
    "isaac": Entry("rramalloc.methods.isaac:solve"),
    "neurosim": Entry("rramalloc.methods.neurosim:solve"),
    "bottleneck": Entry("rramalloc.methods.bottleneck:solve"),
    "balance": Entry("rramalloc.methods.balance:solve"),
    "lagrange": Entry("rramalloc.methods.lagrange:solve"),
    "sequential": Entry("rramalloc.methods.sequential:solve"),
    "gain": Entry("rramalloc.methods.gain:solve"),
    "annealing": Entry("rramalloc.methods.annealing:solve", seeded=True),
    "genetic": Entry("rramalloc.methods.genetic:solve", seeded=True),
    "published-dp": Entry("rramalloc.methods.published_dp:solve"),
}


GROUP = "rramalloc.methods"
"""Entry points in which other packages name their methods: "name = module:function"."""


def method_names() -> tuple[str, ...]:
    """Names of all methods, the default one first, those of other packages last."""
    return (*METHODS, *sorted(set(_foreign()) - set(METHODS)))


def entry(name: str) -> Entry:
    """What is known of the method of that name. Raises UnknownNameError."""
    if name in METHODS:
        return METHODS[name]
    if name not in _foreign():
        raise UnknownNameError("method", name, method_names())
    return Entry(_foreign()[name].value, compared=False)


def method(name: str) -> Method:
    """The method of that name; its libraries are imported only now. Raises UnknownNameError."""
    module, _, function = entry(name).path.partition(":")
    try:
        found: Method = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        if name in METHODS:
            raise
        raise SpecError(
            f"method {name!r}", f"the entry point {entry(name).path!r} cannot be imported: {error}"
        ) from error
    return found


@lru_cache(maxsize=1)
def _foreign() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}
