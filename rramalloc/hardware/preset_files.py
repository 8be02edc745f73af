"""The hardware presets that ship with the package, by name."""

from __future__ import annotations

from pathlib import Path

from rramalloc.errors import UnknownNameError
from rramalloc.files import TOML_LIMIT_BYTES, read_text

PRESETS = Path(__file__).resolve().parent / "presets"
"""Folder of the presets, one TOML file each."""


def preset_names() -> tuple[str, ...]:
    """Return the names of all presets, sorted."""
    return tuple(sorted(path.stem for path in PRESETS.glob("*.toml")))


def preset_text(name: str) -> str:
    """Return the TOML of a preset with its comments. Raises UnknownNameError."""
    if name not in preset_names():
        raise UnknownNameError("hardware preset", name, preset_names())
    return read_text(PRESETS / f"{name}.toml", TOML_LIMIT_BYTES)
