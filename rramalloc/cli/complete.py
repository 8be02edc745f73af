"""Complete the names that ship in a shell, without importing anything slow."""

from __future__ import annotations

from collections.abc import Callable
from pkgutil import resolve_name

Completion = Callable[[str], list[str]]


def names_of(home: str) -> Completion:
    """Return a completion over the names that a function gives, "module:function"; where none fits, the shell
    completes files."""
    return lambda incomplete: _beginning(incomplete, resolve_name(f"rramalloc.{home}")())


def one_of(*names: str) -> Completion:
    """Return a completion over these names."""
    return lambda incomplete: _beginning(incomplete, names)


def _beginning(incomplete: str, names: tuple[str, ...]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


networks = names_of("network.shipped:shipped_names")
presets = names_of("hardware.preset_files:preset_names")
methods = names_of("methods.registry:method_names")
schemas = names_of("schemas:schema_names")
examples = names_of("shipped_files:example_names")


def method_lists(incomplete: str) -> list[str]:
    """Complete the last of several methods: "auto,gain" after "auto,ga"."""
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    return [f"{before}{comma}{name}" for name in methods(last) if name not in taken]
