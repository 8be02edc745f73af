"""The hardware presets that ship with the package, by name."""

from __future__ import annotations

from pathlib import Path

PRESETS = Path(__file__).resolve().parent / "presets"
"""Folder of the presets, one TOML file each."""


def preset_names() -> tuple[str, ...]:
    """Names of all presets, sorted."""
    return tuple(sorted(path.stem for path in PRESETS.glob("*.toml")))
