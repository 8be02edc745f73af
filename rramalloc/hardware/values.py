"""Values of a hardware by their dotted names, such as `timing.columns_per_adc` (docs/sources/model.md 19)."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import TypeAdapter

from rramalloc.errors import SpecError, suggestion
from rramalloc.hardware.hardware import Hardware, parse_crossbar
from rramalloc.hardware.other_names import meant_by
from rramalloc.records import Record, brief, parse

HardwareValues = Mapping[str, object]
"""Values by dotted name; `crossbar` is rows and columns together, None removes a value."""
_HARDWARE: TypeAdapter[Hardware] = TypeAdapter(Hardware)
LINES = ("crossbar.wordlines", "crossbar.bitlines")
"""Names of the two values that `crossbar` sets."""
_OF_ONE_SIZE = ("area_um2", "read_pj", "leakage_mw")
"""Fields of [energy] that do not hold for an array of another size."""
_DOTTED = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)*|kinds\.[A-Za-z0-9_.-]+")
_OF_KINDS = "kinds"
_TABLES_OF_KINDS = ("crossbar", "timing", "energy")


def dotted_names() -> tuple[str, ...]:
    """Return the names of all values that a hardware file may give, in the order of the format."""
    names = list[str]()
    for table, field in Hardware.model_fields.items():
        kinds = [kind for kind in getattr(field.annotation, "__args__", (field.annotation,)) if kind]
        record = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Record)), None)
        names += [f"{table}.{name}" for name in (record.model_fields if record else ())]
    return tuple(names)


def is_value(dotted: str) -> bool:
    """Return True for the name of a value of a table or a kind, `crossbar`, and the rate of an operator."""
    if dotted.startswith(f"{_OF_KINDS}."):
        return dotted.endswith(".arrays") or any(
            dotted.endswith(f".{name}") for name in dotted_names() if name.startswith(_TABLES_OF_KINDS)
        )
    return dotted in ("crossbar", *dotted_names()) or dotted.startswith("digital.ns_per_pixel.")


def changed_hardware(
    hardware: Hardware, values: HardwareValues, remedy: str = "give {fields} for the new size too"
) -> Hardware:
    """Return the hardware with some values replaced, all at once, and checked as a file is.

    A value that is set is no longer unconfirmed. remedy: what helps where the size of an array is changed
    and `fields` of [energy] are not.
    Raises SpecError for a name that no hardware has, a value that does not fit, and a new size of arrays
    whose area, energy or leakage is not given with it.
    """
    document, where = hardware.to_dict(), f"hardware {hardware.name[:60]!r}"
    given = dict(_lines_apart(values))
    for dotted, value in given.items():
        _put(document, dotted, value)
    document["unconfirmed"] = [name for name in hardware.unconfirmed if name not in given]
    document["set_values"] = hardware.set_without(given)
    changed: Hardware = parse(_HARDWARE, document, where)
    if changed.crossbar.size != hardware.crossbar.size:
        kept = [
            f"energy.{name}"
            for name in _OF_ONE_SIZE
            if f"energy.{name}" not in given and getattr(changed.energy, name, None) is not None
        ]
        if kept:
            words = (
                f"is {hardware.crossbar.size} in {where}, and {' and '.join(kept)} of that size: an array "
            )
            words += f"of {changed.crossbar.size} has others: "
            raise SpecError("crossbar", words + remedy.format(fields=" and ".join(kept)))
    _check_sizes_of_kinds(hardware, changed, given, remedy)
    return changed


def _check_sizes_of_kinds(
    hardware: Hardware, changed: Hardware, given: Mapping[str, object], remedy: str
) -> None:
    """Raise SpecError for a kind whose arrays have another size, and the area or energy of the old one."""
    pairs = zip(hardware.each_kind, changed.each_kind, changed.kinds or (), strict=False)
    for own, new, kind in pairs:
        names = [
            f"{_OF_KINDS}.{kind.name}.energy.{name}" for name in _OF_ONE_SIZE if name in (kind.energy or {})
        ]
        kept = [name for name in names if name not in given]
        if new.crossbar.size != own.crossbar.size and kept:
            words = f"is {own.crossbar.size} of kind {kind.name!r}, and {' and '.join(kept)} of that size: "
            raise SpecError("crossbar", words + remedy.format(fields=" and ".join(kept)))


def hardware_with(hardware: Hardware, values: HardwareValues) -> Hardware:
    """Return `changed_hardware` that lists what was set, in the texts of `--set`. Raises SpecError."""
    changed = changed_hardware(hardware, values)
    listed = texts_of(dict(_lines_apart(values)))
    return changed.model_copy(update={"set_values": (*(changed.set_values or ()), *listed) or None})


def texts_of(values: HardwareValues) -> list[str]:
    """Return values in the texts of `--set`, which `values_of` reads."""
    return [f"{name}={_toml(value)}" for name, value in values.items()]


def values_of(texts: Iterable[str] | HardwareValues | None, option: str = "set") -> dict[str, object]:
    """Return {"timing.read_ns": 5.0} from ["timing.read_ns=5.0"]; "none" takes a value away.

    Values are those of TOML; what is none is a text, such as own in timing.clock=own. Raises SpecError for a
    text of another form, and a name that stands twice.
    """
    if isinstance(texts, Mapping):
        return dict(texts)
    values = dict[str, object]()
    for text in texts or ():
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not _DOTTED.fullmatch(name):
            raise SpecError(
                option, f"must be SECTION.FIELD=VALUE such as timing.read_ns=5.0, got {brief(text)}"
            )
        if name in values:
            raise SpecError(option, f"{brief(name)} is given twice: leave one out")
        values[name] = _of_toml(value.strip())
    return values


def _of_toml(text: str) -> object:
    """Return the value of a text of TOML, the text itself if it is none; None for "none"."""
    if text == "none":
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"] if "\n" not in text else text
    except tomllib.TOMLDecodeError:
        return text


def _toml(value: object) -> str:
    """Return the text that `_of_toml` reads as this value."""
    if value is None:
        return "none"
    if isinstance(value, str):
        return value if _of_toml(value) == value else json.dumps(value)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{json.dumps(name)} = {_toml(inner)}' for name, inner in value.items())}}}"
    return json.dumps(value)


def _lines_apart(values: HardwareValues) -> Iterable[tuple[str, object]]:
    """Yield every value with `crossbar` as its wordlines and bitlines. Raises SpecError."""
    for name, value in values.items():
        if name != "crossbar":
            yield name, value
            continue
        twice = [line for line in LINES if line in values]
        if twice:
            raise SpecError("crossbar", f"gives {twice[0]} too: leave one of them out")
        if not isinstance(value, str):
            raise SpecError("crossbar", f"must be a text such as 128x128, got {brief(value)}")
        yield from zip(LINES, parse_crossbar(value), strict=True)


def _put(document: dict[str, Any], dotted: str, value: object) -> None:
    """Replace a value of a document, or take it away. Raises SpecError for a name that no hardware has."""
    if dotted.startswith(f"{_OF_KINDS}."):
        _put_of_kind(document, dotted, value)
        return
    *tables, field = dotted.split(".")
    if not tables or tables[0] not in Hardware.model_fields or not is_value(dotted):
        known = dotted_names()
        lines = document.get("crossbar", {}).get("bitlines")
        meant = meant_by(field, value, lines, frozenset(known))
        hint = suggestion(dotted, known) if meant is None else meant.as_option
        raise SpecError(
            "set", f"no value of a hardware is called {brief(dotted)}{'; ' if hint else ''}{hint}"
        )
    inner = document
    for table in tables:
        inner = inner.setdefault(table, {})
    if value is not None:
        inner[field] = value
        return
    inner.pop(field, None)
    for depth in range(len(tables), 0, -1):  # a table without values is not given
        parent = document
        for table in tables[: depth - 1]:
            parent = parent[table]
        if not parent[tables[depth - 1]]:
            del parent[tables[depth - 1]]


def _put_of_kind(document: dict[str, Any], dotted: str, value: object) -> None:
    """Replace a value of a kind of arrays: kinds.NAME.arrays, kinds.NAME.TABLE.FIELD. Raises SpecError."""
    kinds, rest = document.get(_OF_KINDS, []), dotted.partition(".")[2]
    name = max((kind["name"] for kind in kinds if rest.startswith(f"{kind['name']}.")), key=len, default="")
    field = rest.removeprefix(f"{name}.")
    if not name or not is_value(dotted) or (field != "arrays" and field not in dotted_names()):
        known = ", ".join(kind["name"] for kind in kinds) or "none"
        words = "must be kinds.NAME.arrays, or kinds.NAME. and a value of [crossbar], [timing] or [energy]"
        raise SpecError("set", f"{words}, got {brief(dotted)}; kinds: {known}")
    inner = next(kind for kind in kinds if kind["name"] == name)
    if field != "arrays":
        table, _, field = field.partition(".")
        inner = inner.setdefault(table, {})
    inner.pop(field, None)
    if value is not None:
        inner[field] = value


def value_at(hardware: Hardware, dotted: str) -> object:
    """Return what a hardware has by a dotted name, None for what it does not give."""
    inner: Any = hardware.to_dict()
    if dotted.startswith(f"{_OF_KINDS}."):
        kinds = {f"{_OF_KINDS}.{kind['name']}": kind for kind in inner.get(_OF_KINDS, [])}
        prefix = max((own for own in kinds if dotted.startswith(f"{own}.")), key=len, default="")
        inner, dotted = kinds.get(prefix, {}), dotted.removeprefix(f"{prefix}.")
    for part in dotted.split("."):
        inner = inner.get(part) if isinstance(inner, dict) else None
    return inner
