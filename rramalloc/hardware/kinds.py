"""Kinds of arrays on one chip: the hardware with some values replaced (docs/sources/model.md 18)."""

from __future__ import annotations

import json
from typing import Annotated, Any, Self, TypeVar

from pydantic import Field, model_validator

from rramalloc.errors import SpecError
from rramalloc.hardware.tables import PARTS_OF_ENERGY, HardwareTables, Processor
from rramalloc.records import Record, absent, brief, fault

MOST_KINDS = 16  # on a chip: every stage has the modes of all of them
MOST_ARRAYS = 2**31 - 1  # of one kind: far above any chip, and sums stay within 64 bits
_OF_CHIP = ("pj_per_byte", "idle", "periphery_um2")
"""Fields of [energy] that are of the chip, whatever its arrays are."""
Values = dict[str, Any]
AnyHardware = TypeVar("AnyHardware", bound=HardwareTables)


class TileOfKind(Record):
    """What a kind replaces of [chip]: the arrays of its tiles."""

    arrays_per_tile: Annotated[int, Field(ge=1, le=MOST_ARRAYS)]


class Kind(Record):
    """A kind of arrays: a partial hardware document.

    name: in options and results; arrays: of this kind on the chip, None for as many as the budget allows;
    crossbar, timing, energy: values that replace those of the hardware; processor: the digital unit that
    stands in place of an array; tiles: of each chip that hold arrays of this kind, of which `chip` may
    replace arrays_per_tile. Raises SpecError for a digital unit that has values of arrays.
    """

    name: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_.-]+$")]
    arrays: Annotated[int, Field(ge=1, le=MOST_ARRAYS)] | None = Field(None, exclude_if=absent)
    crossbar: Values | None = Field(None, exclude_if=absent)
    timing: Values | None = Field(None, exclude_if=absent)
    energy: Values | None = Field(None, exclude_if=absent)
    processor: Processor | None = Field(None, exclude_if=absent)
    tiles: Annotated[int, Field(ge=1, le=MOST_ARRAYS)] | None = Field(None, exclude_if=absent)
    chip: TileOfKind | None = Field(None, exclude_if=absent)

    @model_validator(mode="after")
    def _is_one_engine(self) -> Self:
        tables = [name for name in ("crossbar", "timing", "energy") if getattr(self, name) is not None]
        if self.processor is not None and tables:
            words = f"{tables[0]} is of arrays, and a kind with a processor has none: leave one of them out"
            raise fault(words)
        return self

    def of(self, hardware: AnyHardware) -> AnyHardware:
        """Return the hardware with the values of this kind alone.

        What [energy] says of an array of another size is not given for this one.
        Raises SpecError for a value that a hardware does not have, or that contradicts others.
        """
        document = hardware.to_dict()
        document.pop("kinds", None)
        document.pop("set_values", None)  # of the whole: a kind may replace them, and has no other kinds
        replaced = {"crossbar": self.crossbar, "timing": self.timing, "energy": self.energy}
        if self.chip is not None:
            replaced["chip"] = self.chip.model_dump()
        for table, values in replaced.items():
            if values is not None:
                document[table] = document.get(table, {}) | values
        if self.processor is not None:
            of_unit, of_chip = self.processor.as_energy, document.get("energy", {})
            kept = {
                part: of_chip[part]
                for name in of_unit
                for part in PARTS_OF_ENERGY[name]
                if part in of_chip and part in _OF_CHIP
            }
            document["energy"] = of_unit | kept
        if self.crossbar is not None and {"wordlines", "bitlines"} & set(self.crossbar):
            energy = document.get("energy", {})
            for name, parts in PARTS_OF_ENERGY.items():
                if name in energy and name not in (self.energy or {}):
                    for part in (name, *parts):
                        energy.pop(part, None)
        known = {name: value for name, value in document.items() if value != {}}
        tables = {table: values for table, values in known.items() if isinstance(values, dict)}
        given = {f"{table}.{field}" for table, values in tables.items() for field in values}
        known["unconfirmed"] = [name for name in document.get("unconfirmed", ()) if name in given]
        of_kind = type(hardware).model_validate_json(json.dumps(known))
        of_kind._processor = self.processor
        return of_kind


def numbers_of_kinds(text: str) -> dict[str, int]:
    """Return {"small": 512} from "small=512". Raises SpecError."""
    numbers = dict[str, int]()
    for part in text.split(","):
        name, equals, number = part.partition("=")
        if not equals or not number.strip().isdecimal() or not number.strip().isascii():
            form = "must be a number, or those of kinds such as small=512,large=64"
            raise SpecError("arrays", f"{form} (a hardware with kinds has no minimum), got {brief(text)}")
        numbers[name.strip()] = int(number)
    return numbers
