"""The names of `rramalloc` itself: those of the core, and the calls of commands."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from inspect import isfunction
from pkgutil import resolve_name
from typing import Any

from rramalloc.room import rooms

_CORE = (
    "allocation.allocation:Allocation",
    "allocation.inspection:Inspection",
    "allocation.simulation:Simulation",
    "api:convert",
    "api:inspect",
    "api:optimize",
    "api:simulate",
    "errors:BudgetError",
    "errors:CapacityError",
    "errors:DeviceError",
    "errors:FileError",
    "errors:InfeasibleError",
    "errors:LimitError",
    "errors:MisplacedError",
    "errors:MissingLatencyError",
    "errors:NetworkError",
    "errors:PluginError",
    "errors:RramallocError",
    "errors:SimulatorError",
    "errors:SolverError",
    "errors:SpecError",
    "errors:TargetError",
    "errors:UnknownNameError",
    "errors:UnsupportedError",
    "errors:WorkerError",
    "hardware.hardware:Hardware",
    "hardware.loader:load_hardware",
    "importers:load",
    "importers.torch:from_torch",
    "mapping.fold:fold_index",
    "mapping.fold:fold_input",
    "mapping.fold:fold_weights",
    "network.network:Network",
    "reading:read",
    "search.problem:Problem",
    "timing.latency_table:load_latency_table",
    "timing.stage_graph:StageGraph",
    "version:__version__",
)
"""Attributes of the package that are public and of no command, as "module:name"."""


@cache
def homes() -> dict[str, str]:
    """Return "module:name" of every public name, in alphabetical order."""
    attributes = [f"rramalloc.{attribute}" for attribute in _CORE]
    for room in rooms().values():
        attributes += map(room.full, room.calls)
    return {_name(attribute): attribute for attribute in sorted(attributes, key=_name)}


def _name(attribute: str) -> str:
    return attribute.partition(":")[2]


def public(name: str) -> Any:
    """Return the object of a public name, a call with its arguments checked. Raises AttributeError."""
    if name == "__all__":
        return [*homes()]
    if name == "plugin":
        return import_module("rramalloc.plugin")
    if name not in homes():
        raise AttributeError(f"module 'rramalloc' has no attribute {name!r}")
    value = resolve_name(homes()[name])
    if isfunction(value):
        from rramalloc.arguments import checked

        value = checked(value)
        value.__module__ = "rramalloc"  # pickled by this name, so it has one object
        value.__qualname__ = name
    return value
