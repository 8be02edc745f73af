"""The hardware presets that ship with the package, by name."""

from __future__ import annotations

from pathlib import Path

from rramalloc.errors import UnknownNameError
from rramalloc.files import TOML_LIMIT_BYTES, ShippedName, read_text, shipped_name

PRESETS = Path(__file__).resolve().parent / "presets"
"""Folder of the presets, one TOML file each."""
DEFAULT_PRESET = ShippedName("plain")


def preset_names() -> tuple[ShippedName, ...]:
    """Return the names of all presets, sorted."""
    return tuple(sorted(ShippedName(path.stem) for path in PRESETS.glob("*.toml")))


def shipped_preset(entry: str, folder: str = "") -> ShippedName | None:
    """Return the name of the preset that an entry means, None if it means a file."""
    return shipped_name(entry, preset_names(), ".toml", folder)


def preset_text(name: str) -> str:
    """Return the TOML of a preset with its comments. Raises UnknownNameError."""
    if name not in preset_names():
        raise UnknownNameError("hardware preset", name, preset_names())
    return read_text(PRESETS / f"{name}.toml", TOML_LIMIT_BYTES)
