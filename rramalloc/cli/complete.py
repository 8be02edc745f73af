"""What a shell completes: names that ship, found without importing anything slow."""

from __future__ import annotations

from collections.abc import Iterable


def networks(incomplete: str) -> list[str]:
    """Shipped networks; where none fits, the shell completes files."""
    from rramalloc.network.shipped import shipped_names

    return _beginning(incomplete, shipped_names())


def presets(incomplete: str) -> list[str]:
    """Hardware presets; where none fits, the shell completes files."""
    from rramalloc.hardware.preset_files import preset_names

    return _beginning(incomplete, preset_names())


def methods(incomplete: str) -> list[str]:
    """Methods."""
    from rramalloc.methods.registry import method_names

    return _beginning(incomplete, method_names())


def method_lists(incomplete: str) -> list[str]:
    """The last of several methods: "auto,gain" after "auto,ga"."""
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    return [f"{before}{comma}{name}" for name in methods(last) if name not in taken]


def targets(incomplete: str) -> list[str]:
    """Tools that can be exported to."""
    from rramalloc.export.discovery import target_names

    return _beginning(incomplete, target_names())


def simulators(incomplete: str) -> list[str]:
    """Tools that `tune` asks; where none fits, the shell completes files."""
    from rramalloc.studies.tune.simulators import simulator_names

    return _beginning(incomplete, simulator_names())


def schemas(incomplete: str) -> list[str]:
    """File formats that have a schema."""
    from rramalloc.schemas import schema_names

    return _beginning(incomplete, schema_names())


def devices(incomplete: str) -> list[str]:
    """Kinds of devices."""
    return _beginning(incomplete, ("onnxruntime", "simulated", "replay:"))


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
