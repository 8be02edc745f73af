"""Kinds of arrays on one chip: the hardware with some values replaced (docs/sources/model.md 18)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from rramalloc.errors import SpecError, UnsupportedError
from rramalloc.records import Record, absent, brief, check_known, fault, is_whole

if TYPE_CHECKING:
    from rramalloc.hardware.hardware import Hardware

MOST_KINDS = 16  # on a chip: every stage has the modes of all of them
MOST_ARRAYS = 2**31 - 1  # of one kind: far above any chip, and sums stay within 64 bits
PARTS_OF_ENERGY = {
    "read_pj": ("pj_per_byte", "adc_pj", "row_pj"),
    "leakage_mw": ("idle", "adc_mw"),
    "area_um2": ("periphery_um2", "adc_um2"),
}
"""Fields of [energy] that hold for an array of one size, each with the fields that need it."""
Values = dict[str, Any]


class Kind(Record):
    """A kind of arrays: a partial hardware document.

    name: in options and results; arrays: of this kind on the chip, None for as many as the budget allows;
    crossbar, timing, energy: values that replace those of the hardware.
    """

    name: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_.-]+$")]
    arrays: Annotated[int, Field(ge=1, le=MOST_ARRAYS)] | None = Field(None, exclude_if=absent)
    crossbar: Values | None = Field(None, exclude_if=absent)
    timing: Values | None = Field(None, exclude_if=absent)
    energy: Values | None = Field(None, exclude_if=absent)

    def of(self, hardware: Hardware) -> Hardware:
        """Return the hardware with the values of this kind alone.

        What [energy] says of an array of another size is not given for this one.
        Raises SpecError for a value that a hardware does not have, or that contradicts others.
        """
        document = hardware.to_dict()
        document.pop("kinds", None)
        replaced = {"crossbar": self.crossbar, "timing": self.timing, "energy": self.energy}
        for table, values in replaced.items():
            if values is not None:
                document[table] = document.get(table, {}) | values
        if self.crossbar is not None and {"wordlines", "bitlines"} & set(self.crossbar):
            energy = document.get("energy", {})
            for name, parts in PARTS_OF_ENERGY.items():
                if name in energy and name not in (self.energy or {}):
                    for part in (name, *parts):
                        energy.pop(part, None)
        known = {name: value for name, value in document.items() if value != {}}
        known["unconfirmed"] = [name for name in hardware.unconfirmed if _is_given(known, name)]
        return type(hardware).model_validate_json(_json(known))


def one_kind_only(hardware: Hardware, reader: str) -> UnsupportedError:
    """Return the error that says that `reader` does not know of kinds of arrays."""
    words = f"has several kinds of arrays, of which {reader} does not know yet: give a hardware with one kind"
    return UnsupportedError(f"hardware {hardware.name[:60]!r}", words)


def with_arrays_of_kinds(hardware: Hardware, given: str | Mapping[str, int]) -> Hardware:
    """Return the hardware with other numbers of arrays of some kinds: {"small": 512} or "small=512,large=64".

    Raises SpecError for another form, an unknown kind, and a number that no chip has.
    """
    kinds = hardware.kinds or ()
    numbers = dict(given) if isinstance(given, Mapping) else _numbers(given)
    known = tuple(kind.name for kind in kinds)
    for name, number in numbers.items():
        check_known("kind of arrays", name, known)
        if not is_whole(number, 1, MOST_ARRAYS):
            raise SpecError("arrays", f"{name}: must be from 1 to {MOST_ARRAYS}, got {brief(number)}")
    changed = [kind.model_copy(update={"arrays": numbers.get(kind.name, kind.arrays)}) for kind in kinds]
    set_values = hardware.set_without([f"kinds.{name}.arrays" for name in numbers])
    return hardware.model_copy(update={"kinds": tuple(changed), "set_values": set_values})


def _numbers(text: str) -> dict[str, int]:
    """Return {"small": 512} from "small=512". Raises SpecError."""
    numbers = dict[str, int]()
    for part in text.split(","):
        name, equals, number = part.partition("=")
        if not equals or not number.strip().isdecimal() or not number.strip().isascii():
            form = "must be a number, or those of kinds such as small=512,large=64"
            raise SpecError("arrays", f"{form} (a hardware with kinds has no minimum), got {brief(text)}")
        numbers[name.strip()] = int(number)
    return numbers


def check_kinds(hardware: Hardware) -> None:
    """Raise a validation error for kinds that do not go together, or with the rest of a hardware."""
    from rramalloc.hardware.components import array_area_nm2

    kinds = hardware.kinds
    if kinds is None:
        return
    if len(kinds) < 2:
        raise fault("kinds: a single kind is the hardware itself: write its values in the tables, without it")
    names = [kind.name for kind in kinds]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise fault(f"kinds: {twice!r} stands twice: give every kind a name of its own")
    if hardware.chip is not None:
        raise fault("kinds: tiles of several kinds are not modelled: leave [chip] or [[kinds]] out")
    if hardware.energy is not None and hardware.energy.periphery_um2 is not None:
        raise fault("kinds: periphery_um2 is of tiles, which kinds do not have: leave it out")
    if hardware.counting is not None and hardware.counting.row_blocks == "first_fit":
        raise fault('kinds: counting.row_blocks = "first_fit" fills tiles, which kinds do not have')
    each = hardware.each_kind
    if any(own.own_clock != hardware.own_clock or own.tick_ns != hardware.tick_ns for own in each):
        raise fault("kinds: timing.clock and timing.tick_ns are of all stages: give them in [timing] alone")
    nothing = next((name for name, own in zip(names, each, strict=True) if array_area_nm2(own) == 0), None)
    if nothing is not None:
        words = f"an array of {nothing!r} has no area: give it an energy.area_um2 from 1e-6 on"
        raise fault(f"kinds: {words}, or leave area_um2 out of [energy] and of all kinds")
    steps = {own.compute_ns for own in each}
    if len(steps) > 1 and not hardware.own_clock:
        words = ", ".join(f"{name}: {own.compute_ns:g} ns" for name, own in zip(names, each, strict=True))
        raise fault(
            f'kinds: their steps differ ({words}), and all stages step together: write clock = "own" in '
            f"[timing], or give kinds the same step"
        )


def _is_given(document: Values, dotted: str) -> bool:
    table, _, field = dotted.partition(".")
    values = document.get(table)
    return isinstance(values, dict) and field in values


def _json(document: Values) -> str:
    import json

    return json.dumps(document)
