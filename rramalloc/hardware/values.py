"""Values of a hardware by their dotted names, such as `timing.columns_per_adc` (docs/sources/model.md 19)."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from rramalloc.errors import SpecError, suggestion
from rramalloc.hardware.other_names import meant_by
from rramalloc.hardware.tables import HardwareTables, Processor, parse_crossbar
from rramalloc.records import Record, brief, dict_by_name, text_of

HardwareValues = Mapping[str, object]
"""Values by dotted name; `crossbar` is rows and columns together, None removes a value."""
LINES = ("crossbar.wordlines", "crossbar.bitlines")
"""Names of the two values that `crossbar` sets."""
OF_ONE_SIZE = ("area_um2", "read_pj", "leakage_mw")
"""Fields of [energy] that do not hold for an array of another size."""
_DOTTED = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)*|kinds\.[A-Za-z0-9_.-]+")
_OF_KINDS = "kinds"
_TABLES_OF_KINDS = ("crossbar", "timing", "energy")
_NUMBERS_OF_KINDS = ("arrays", "tiles", "chip.arrays_per_tile")


@cache
def dotted_names() -> tuple[str, ...]:
    """Return the names of all values that a hardware file may give, in the order of the format."""
    names = list[str]()
    for table, field in HardwareTables.model_fields.items():
        kinds = [kind for kind in getattr(field.annotation, "__args__", (field.annotation,)) if kind]
        record = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Record)), None)
        names += [f"{table}.{name}" for name in (record.model_fields if record else ())]
    return tuple(names)


@cache
def names_of_kinds() -> tuple[str, ...]:
    """Return the names of all values that a kind may give, without its own name."""
    of_tables = (name for name in dotted_names() if name.startswith(_TABLES_OF_KINDS))
    return (*_NUMBERS_OF_KINDS, *of_tables, *(f"processor.{name}" for name in Processor.model_fields))


def is_value(dotted: str) -> bool:
    """Return True for the name of a value of a table or a kind, `crossbar`, and the rate of an operator."""
    if dotted.startswith(f"{_OF_KINDS}."):
        return any(dotted.endswith(f".{name}") for name in names_of_kinds())
    return dotted in ("crossbar", *dotted_names()) or dotted.startswith("digital.ns_per_pixel.")


def texts_of(values: HardwareValues) -> list[str]:
    """Return values in the texts of `--set`, which `values_of` reads."""
    return [f"{name}={_toml(value)}" for name, value in values.items()]


def values_of(texts: Iterable[str] | HardwareValues | None, option: str = "--set") -> dict[str, object]:
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
        value = tomllib.loads(f"value = {text}")["value"] if "\n" not in text else text
        json.dumps(value, default=str)
        return value
    except (ValueError, RecursionError):  # too many digits or too deep, too: what it is for refuses a text
        return text


def _toml(value: object) -> str:
    """Return the text that `_of_toml` reads as this value."""
    if value is None:
        return "none"
    if isinstance(value, str):
        return value if _of_toml(value) == value else json.dumps(value)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{json.dumps(name)} = {_toml(inner)}' for name, inner in value.items())}}}"
    if isinstance(value, int) and not isinstance(value, bool):
        return text_of(value)
    return json.dumps(value)


def lines_apart(values: HardwareValues) -> Iterable[tuple[str, object]]:
    """Yield every value with `crossbar` as its wordlines and bitlines. Raises SpecError."""
    for name, value in dict_by_name(values, "values").items():
        if name != "crossbar":
            yield name, value
            continue
        twice = [line for line in LINES if line in values]
        if twice:
            raise SpecError("crossbar", f"gives {twice[0]} too: leave one of them out")
        if not isinstance(value, str):
            raise SpecError("crossbar", f"must be a text such as 128x128, got {brief(value)}")
        yield from zip(LINES, parse_crossbar(value), strict=True)


def put(document: dict[str, Any], dotted: str, value: object) -> None:
    """Replace a value of a document, or take it away. Raises SpecError for a name that no hardware has."""
    if dotted.startswith(f"{_OF_KINDS}."):
        _put_of_kind(document, dotted, value)
        return
    *tables, field = dotted.split(".")
    if not tables or not is_value(dotted):
        known = dotted_names()
        lines = document.get("crossbar", {}).get("bitlines")
        meant = meant_by(field, value, lines, frozenset(known))
        hint = suggestion(dotted, known) if meant is None else meant.as_option
        raise SpecError(
            "--set", f"no value of a hardware is called {brief(dotted)}{'; ' if hint else ''}{hint}"
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
    kinds = document.get(_OF_KINDS, [])
    rest = dotted.partition(".")[2]
    name = max((kind["name"] for kind in kinds if rest.startswith(f"{kind['name']}.")), key=len, default="")
    field = rest.removeprefix(f"{name}.")
    if not name or field not in names_of_kinds():
        known = ", ".join(kind["name"] for kind in kinds) or "none"
        tables = ", ".join(_TABLES_OF_KINDS)
        words = f"must be kinds.NAME.arrays, or kinds.NAME. and a value of {tables} or processor"
        raise SpecError("--set", f"{words}, got {brief(dotted)}; kinds: {known}")
    inner = next(kind for kind in kinds if kind["name"] == name)
    if "." in field:
        table, _, field = field.partition(".")
        inner = inner.setdefault(table, {})
    inner.pop(field, None)
    if value is not None:
        inner[field] = value


def value_at(hardware: HardwareTables, dotted: str) -> object:
    """Return the value of a hardware by its dotted name, None if it is not given."""
    inner: Any = hardware.to_dict()
    if dotted.startswith(f"{_OF_KINDS}."):
        kinds = {f"{_OF_KINDS}.{kind['name']}": kind for kind in inner.get(_OF_KINDS, [])}
        prefix = max((kind for kind in kinds if dotted.startswith(f"{kind}.")), key=len, default="")
        inner = kinds.get(prefix, {})
        dotted = dotted.removeprefix(f"{prefix}.")
    for part in dotted.split("."):
        inner = inner.get(part) if isinstance(inner, dict) else None
    return inner
