"""Hardware from a TOML file or a preset's name, and array sizes from the command line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from rramalloc.choices import ValuesLike
from rramalloc.errors import FileError, SpecError, UnknownNameError
from rramalloc.files import names_beside, read_toml
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.other_names import meant_by_document
from rramalloc.hardware.preset_files import PRESETS, preset_names, shipped_preset
from rramalloc.hardware.tables import CrossbarLike, parse_crossbar
from rramalloc.hardware.values import LINES, dotted_names, values_of
from rramalloc.records import brief, parse
from rramalloc.units import printable

_MOST_NAMES = 3  # that one message explains
HardwareLike = Hardware | Mapping[str, Any] | str | os.PathLike[str]
_HARDWARE: TypeAdapter[Hardware] = TypeAdapter(Hardware)


def as_hardware(
    hardware: HardwareLike,
    crossbar: CrossbarLike | None = None,
    set_values: ValuesLike | None = None,
    *,
    of_chip: Mapping[str, object] | None = None,
) -> Hardware:
    """Return the hardware itself, or the one that `load_hardware` finds.

    A dict has the form of a file. crossbar: "256x256" or (256, 256) instead of its arrays; set_values: values
    by dotted name that are replaced, which the hardware then lists; of_chip: values of [chip] that a file or
    dict may leave out.
    Raises FileError, SpecError, UnknownNameError.
    """
    if isinstance(hardware, Hardware):
        loaded = hardware
    else:
        given = (dict(hardware), "hardware") if isinstance(hardware, Mapping) else _read_document(hardware)
        document, where = given
        chip = document.get("chip", {} if "arrays_per_tile" in (of_chip or {}) else None)
        if of_chip and isinstance(chip, Mapping):
            document["chip"] = {**of_chip, **chip}
            if isinstance(document.get("kinds"), list):  # their number is open, too: one tile each
                document["kinds"] = [
                    {**kind, "arrays": None, "tiles": 1} if isinstance(kind, Mapping) else kind
                    for kind in document["kinds"]
                ]
        loaded = hardware_of(document, where)
    values = values_of(set_values)
    if crossbar is not None:
        loaded = loaded.with_crossbar(*parse_crossbar(crossbar))
        if twice := [name for name in ("crossbar", *LINES) if name in values]:
            raise SpecError("--set", f"gives {twice[0]}, and --crossbar too: leave one of them out")
    return loaded.with_set_values(values) if values else loaded


def hardware_of(document: dict[str, Any], where: str) -> Hardware:
    """Return the hardware that a document describes; `where` names its file.

    Raises SpecError, which says for values by the names of other tools what they are here.
    """
    known = frozenset((*dotted_names(), *Hardware.model_fields))
    strange = [
        f"{brief(name)[1:-1]}: this field is not known; {meant.in_file}"
        for name, meant in meant_by_document(document, known)
    ]
    if strange:
        raise SpecError(where, "; ".join(strange[:_MOST_NAMES]))
    chip = document.get("chip")
    if isinstance(chip, Mapping) and "arrays_per_tile" in chip and "tiles" not in chip:
        words = "give rows and columns, e.g. tiles = [16, 8], or let `rramalloc size` find how many"
        raise SpecError(where, f"chip.tiles: this field is missing: {words}")
    return parse(_HARDWARE, document, where)


def load_hardware(spec: str | os.PathLike[str]) -> Hardware:
    """Read the hardware from a TOML file, or a preset by its name.

    Parameters
    ----------
    spec
        A TOML file, or a name such as "isaac". A regular file wins over a preset of the same name.

    Returns
    -------
    Hardware
        What the file says, checked.

    Raises
    ------
    FileError, UnknownNameError
        There is no such file or preset, or it cannot be read.
    SpecError
        It does not describe a hardware.
    """
    return hardware_of(*_read_document(spec))


def _read_document(spec: str | os.PathLike[str]) -> tuple[dict[str, Any], str]:
    """Return the content of a hardware file, and its name. Raises FileError, UnknownNameError."""
    shown = os.fspath(spec)
    if (preset := shipped_preset(shown)) is not None:
        return {"name": preset, **read_toml(PRESETS / f"{preset}.toml")}, f"{preset}.toml"
    path = Path(shown)
    is_file = os.path.exists(shown) and not os.path.isdir(shown)  # unlike Path, never an OSError
    if not is_file and path.name == shown and path.suffix in ("", ".toml"):
        raise UnknownNameError("file or hardware preset", shown, preset_names(), names_beside(shown))
    try:
        return {"name": printable(path.stem), **read_toml(path)}, shown
    except FileError as error:
        raise (
            error if os.path.exists(path) else error.suggesting("preset", path.stem, preset_names())
        ) from None
