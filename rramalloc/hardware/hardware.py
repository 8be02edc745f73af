"""Hardware: the tables of a description, the kinds of its arrays, and its values by dotted name.

The tables are records of `rramalloc.hardware.tables` (docs/sources/interface.md 5).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, SerializerFunctionWrapHandler, TypeAdapter, model_serializer, model_validator

from rramalloc.errors import SpecError
from rramalloc.files import path_text, to_json, write_text
from rramalloc.hardware.components import array_area_nm2
from rramalloc.hardware.kinds import MOST_ARRAYS, MOST_KINDS, Kind, numbers_of_kinds
from rramalloc.hardware.tables import (
    Chip,
    Crossbar,
    Energy,
    FieldNames,
    HardwareTables,
    SetTexts,
    Write,
    mesh_of,
    parts_of,
)
from rramalloc.hardware.values import OF_ONE_SIZE, lines_apart, put, texts_of, values_of
from rramalloc.network.node import TimedNode
from rramalloc.records import Record, brief, check_known, dict_by_name, fault, from_list, is_whole, parse
from rramalloc.result import frame_table
from rramalloc.view.view import Fact, View

if TYPE_CHECKING:
    import pandas as pd


class Hardware(HardwareTables):
    """An accelerator: its arrays and their precision, and if given its times, memory and hierarchy.

    name: the file's without its ending where the file gives none; source: where the numbers come from;
    kinds: two kinds of arrays or more, each with some values of its own; unconfirmed: dotted names of fields
    ("timing.read_ns") whose values no file or paper at hand confirms; set_values: values that a call
    replaced, as `--set` takes them ("timing.adc_ns=2").
    Raises SpecError if a field does not hold what its record says.
    """

    kinds: Annotated[tuple[Kind, ...], from_list(list[Kind]), Field(max_length=MOST_KINDS)] | None = None
    unconfirmed: FieldNames = ()
    set_values: SetTexts | None = None

    @model_validator(mode="after")
    def _unconfirmed_exist(self) -> Self:
        for dotted in self.unconfirmed:
            table, _, field = dotted.partition(".")
            record = getattr(self, table, None) if table in type(self).model_fields else None
            known = isinstance(record, Record) and field in type(record).model_fields
            if not known or getattr(record, field) is None:
                raise fault(
                    f"unconfirmed: {dotted[:60]!r} is no value of this file; write <table>.<field>, "
                    f'for example "timing.read_ns"'
                )
        return self

    @model_validator(mode="after")
    def _tables_fit(self) -> Self:
        if self.crossbar.polarities is not None and self.precision.signed == "offset":
            raise fault(
                f"crossbar.polarities = {self.crossbar.polarities!r} has no effect with precision.signed = "
                f'"offset", which stores one polarity: leave it out, or write signed = "differential"'
            )
        if self.fills_first_fit:
            if self.chip is None:
                raise fault('counting.row_blocks = "first_fit" needs the tiles of [chip]')
            if self.own_tiles:
                raise fault(
                    'counting.row_blocks = "first_fit" fills tiles with layer after layer, chip.sharing = '
                    '"layer" gives each layer its own: write row_blocks = "anywhere" or sharing = "free"'
                )
        if self.digital is not None and not self.own_clock:
            raise fault(
                "[digital] gives nodes a time of their own, which needs stages with their own clocks: write "
                'clock = "own" in [timing], or leave [digital] out'
            )
        adc = [
            name for name in ("adc_pj", "adc_mw", "adc_um2") if getattr(self.energy, name, None) is not None
        ]
        if adc and (self.timing is None or self.timing.columns_per_adc is None):
            raise fault(
                f"energy.{adc[0]} is of an ADC, and nothing says how many columns share one: give "
                f"timing.columns_per_adc and timing.adc_ns, or leave {' and '.join(adc)} out"
            )
        if self.energy is not None and self.energy.periphery_um2 is not None and self.chip is None:
            raise fault("energy.periphery_um2 is the area of a tile, it needs the tiles of [chip]")
        return self

    @model_validator(mode="after")
    def _kinds_fit(self) -> Self:
        kinds = self.kinds
        if kinds is None:
            return self
        if len(kinds) < 2:
            words = "a single kind is the hardware itself: write its values in the tables, without it"
            raise fault(f"kinds: {words}")
        names = [kind.name for kind in kinds]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise fault(f"kinds: {twice!r} stands twice: give every kind a name of its own")
        if self.chip is None and any(kind.tiles is not None or kind.chip is not None for kind in kinds):
            raise fault("kinds: tiles are of a chip, of which nothing is said: give [chip]")
        if self.chip is not None:
            kinds = _in_tiles(self.chip, kinds)
            self.__dict__["kinds"] = kinds
        if self.fills_first_fit:
            raise fault('kinds: counting.row_blocks = "first_fit" fills the tiles of one kind: leave it out')
        if any(kind.processor is not None for kind in kinds) and not self.own_clock:
            words = (
                "a digital unit (processor) has a time of its own, which needs stages with their own clocks"
            )
            raise fault(f'kinds: {words}: write clock = "own" in [timing], with step_ns or read_ns')
        by_name = dict(zip(names, self.each_kind, strict=True))
        if any(kind.own_clock != self.own_clock or kind.tick_ns != self.tick_ns for kind in by_name.values()):
            words = "timing.clock and timing.tick_ns are of all stages: give them in [timing] alone"
            raise fault(f"kinds: {words}")
        nothing = next((name for name, kind in by_name.items() if array_area_nm2(kind) == 0), None)
        if nothing is not None:
            field = "energy.area_um2" if by_name[nothing].processor is None else "processor.area_um2"
            words = f"an array of {nothing!r} has no area: give it an {field} from 1e-6 on"
            raise fault(f"kinds: {words}, or leave area_um2 out of [energy] and of all kinds")
        if len({kind.compute_ns for kind in by_name.values()}) > 1 and not self.own_clock:
            words = ", ".join(f"{name}: {kind.compute_ns:g} ns" for name, kind in by_name.items())
            raise fault(
                f'kinds: their steps differ ({words}), and all stages step together: write clock = "own" in '
                f"[timing], or give kinds the same step"
            )
        return self

    @model_validator(mode="after")
    def _has_what_was_set(self) -> Self:
        if self.set_values is None:
            return self
        # Validators run in the order of the file: by now kinds have the arrays of their tiles on both sides.
        unchanged = self.model_copy(update={"set_values": None})
        try:
            again = unchanged.with_values(values_of(self.set_values, "set_values"))
        except SpecError as error:
            raise fault(f"set_values: {error.reason}") from None
        if again.model_copy(update={"unconfirmed": unchanged.unconfirmed}) != unchanged:
            raise fault("set_values: is not what the tables say: leave it out")
        return self

    @property
    def fills_first_fit(self) -> bool:
        """Whether tiles are filled with row blocks first fit."""
        return self.counting is not None and self.counting.row_blocks == "first_fit"

    @property
    def kind_of_tiles(self) -> tuple[int, ...]:
        """The number of the kind of every tile of a chip in raster order, -1 for an empty site."""
        chip, kinds = self.chip, self.kinds
        if chip is None:
            return ()
        rows, columns = mesh_of(chip.tiles)
        numbers = [chip.tiles_per_chip] if kinds is None else [kind.tiles or 0 for kind in kinds]
        held = [number for number, tiles in enumerate(numbers) for _ in range(tiles)]
        return (*held, *[-1] * (rows * columns - len(held)))

    @property
    def arrays_per_tile(self) -> tuple[int, ...]:
        """Arrays of a tile of every kind; none without [chip]."""
        return tuple(own.chip.arrays_per_tile for own in self.each_kind if own.chip is not None)

    @property
    def chip_arrays(self) -> tuple[int, ...]:
        """Arrays of every kind on all chips; none without [chip]."""
        if self.chip is None or self.kinds is None:
            return () if self.chip is None else (self.chip.arrays,)
        return tuple(kind.arrays or 0 for kind in self.kinds)

    @property
    def each_kind(self) -> tuple[Hardware, ...]:
        """The hardware with the arrays of every kind; itself where there is one kind."""
        return (self,) if self.kinds is None else self._of_kinds

    @cached_property
    def _of_kinds(self) -> tuple[Hardware, ...]:
        return tuple(kind.of(self) for kind in self.kinds or ())

    @property
    def counts_area(self) -> bool:
        """Whether it has several kinds of arrays, and the area of an array of each."""
        energies = (hardware.energy for hardware in self._of_kinds) if self.kinds is not None else (None,)
        return all(energy is not None and energy.area_um2 is not None for energy in energies)

    def lacking(self, *fields: str) -> str:
        """Return the fields of [energy] that kinds do not give, in words behind a message; "" for none."""
        lacks = list[str]()
        for kind, own in zip(self.kinds or (), self.each_kind, strict=False):
            missing = [field for field in fields if getattr(own.energy, field, None) is None]
            names = [f"energy.{field}" for field in missing]
            if own.processor is not None:
                names = [f"processor.{'pj_per_mac' if field == 'read_pj' else field}" for field in missing]
            if names:
                lacks.append(f"kind {kind.name!r} has no {' and no '.join(names)}")
        return f" ({', '.join(lacks)})" if lacks else ""

    @property
    def sizes(self) -> str:
        """The sizes of arrays in words: "128x128", or "64x64 (small) and 128x128 (large)"."""
        kinds = zip(self.kinds or (), self.each_kind, strict=False)
        sizes = [
            f"{'digital units' if own.processor else own.crossbar.size} ({kind.name})" for kind, own in kinds
        ]
        return " and ".join(sizes) if sizes else self.crossbar.size

    @property
    def has_energy(self) -> bool:
        """Whether it says anything of energy or area, of some kind at least."""
        return any(hardware.energy is not None for hardware in (self, *self.each_kind))

    @property
    def own_tiles(self) -> Chip | None:
        """The chip, if a tile holds arrays of one layer only; else None."""
        return self.chip if self.chip is not None and self.chip.sharing == "layer" else None

    @property
    def dense_groups(self) -> bool:
        """Whether a grouped convolution takes the arrays of one without groups."""
        return self.counting is not None and self.counting.groups == "dense"

    @property
    def slices_per_weight(self) -> int:
        """Cells that hold one value of a weight's bits."""
        return parts_of(self.precision.weight_bits, self.crossbar.cell_bits)

    @property
    def polarities(self) -> str | None:
        """Place of the two polarities of a weight, None if there is one polarity."""
        if self.precision.signed == "offset":
            return None
        return self.crossbar.polarities or "columns"

    @property
    def columns_per_weight(self) -> int:
        """Bitlines that one weight takes (S). Source: docs/sources/model.md 3."""
        slices = 1 if self.crossbar.slices == "arrays" else self.slices_per_weight
        return 2 * slices if self.polarities == "columns" else slices

    @property
    def wordlines_per_input(self) -> int:
        """Wordlines that one input drives (R). Source: docs/sources/model.md 3."""
        return 2 if self.polarities == "rows" else 1

    @property
    def arrays_per_block(self) -> int:
        """Arrays that hold one block of weights together (S_a). Source: docs/sources/model.md 3."""
        slices = self.slices_per_weight if self.crossbar.slices == "arrays" else 1
        return 2 * slices if self.polarities == "arrays" else slices

    def of_layer(self, layer: TimedNode) -> Hardware:
        """Return the same hardware with the precision that a weight layer is computed with."""
        precision = self.precision.of_layer(layer)
        return self if precision is self.precision else self.model_copy(update={"precision": precision})

    @property
    def own_clock(self) -> bool:
        """Whether a batch of each stage takes its own time."""
        return self.timing is not None and self.timing.clock == "own"

    @property
    def rated(self) -> frozenset[str]:
        """Operators of digital nodes that take time."""
        return frozenset(() if self.digital is None else self.digital.ns_per_pixel)

    @property
    def tick_ns(self) -> float:
        """Length of a tick of own clocks, 1 ns unless given."""
        return 1.0 if self.timing is None or self.timing.tick_ns is None else self.timing.tick_ns

    @property
    def compute_ns(self) -> float | None:
        """Time of one step of whole arrays; None where the hardware gives none."""
        if self.timing is None or self.timing.only_measured:
            return None
        return self.timing.compute_ns(self.precision.input_bits, self.crossbar)

    def with_crossbar(self, wordlines: int, bitlines: int) -> Hardware:
        """Return the same hardware with arrays of another size; their energy and area are then unconfirmed.

        Raises SpecError if a size is out of range.
        """
        fields = self.crossbar.model_dump() | {"wordlines": wordlines, "bitlines": bitlines}
        crossbar = Crossbar(**fields)
        energy = self.energy or Energy()
        doubts = [
            name for name in self.unconfirmed if name not in ("crossbar.wordlines", "crossbar.bitlines")
        ]
        listed = self.set_without(("crossbar.wordlines", "crossbar.bitlines"))
        if crossbar != self.crossbar:
            of_arrays = (
                name for name in ("read_pj", "leakage_mw", "area_um2") if getattr(energy, name) is not None
            )
            doubts += [f"energy.{name}" for name in of_arrays if f"energy.{name}" not in doubts]
        new = {"crossbar": crossbar, "unconfirmed": tuple(doubts), "set_values": listed}
        return self.model_copy(update=new)

    @property
    def without_write(self) -> Hardware:
        """The same hardware without [write] and the set values of it."""
        names = [f"write.{name}" for name in Write.model_fields]
        return self.model_copy(update={"write": None, "set_values": self.set_without(names)})

    def set_without(self, names: Collection[str]) -> tuple[str, ...] | None:
        """Return `set_values` without the values of these names; None if none is left."""
        kept = (text for text in self.set_values or () if text.partition("=")[0] not in names)
        return tuple(kept) or None

    def with_values(
        self, values: Mapping[str, object], remedy: str = "give {fields} for the new size too"
    ) -> Hardware:
        """Return the same hardware with values replaced by dotted name, None to take one away.

        All are replaced at once, and the whole is checked as a file is. A value that is set is no longer
        unconfirmed.

        Parameters
        ----------
        values
            Such as {"timing.columns_per_adc": 16, "crossbar": "64x64"}.
        remedy
            What helps where the size of an array is changed and `fields` of [energy] are not.

        Raises
        ------
        SpecError
            A name that no hardware has, a value that does not fit, or a new size of arrays whose area, energy
            or leakage is not given with it.
        """
        document = self.to_dict()
        where = f"hardware {self.name[:60]!r}"
        given = dict(lines_apart(values))
        for dotted, value in given.items():
            put(document, dotted, value)
        document["unconfirmed"] = [name for name in self.unconfirmed if name not in given]
        document["set_values"] = self.set_without(given)
        changed = parse(_HARDWARE, document, where)
        of_size = [
            f"energy.{name}" for name in OF_ONE_SIZE if getattr(changed.energy, name, None) is not None
        ]
        _check_size(self, changed, f"in {where}", [name for name in of_size if name not in given], remedy)
        for old, new, kind in zip(self.each_kind, changed.each_kind, changed.kinds or (), strict=False):
            names = [
                f"kinds.{kind.name}.energy.{name}" for name in OF_ONE_SIZE if name in (kind.energy or {})
            ]
            kept = [name for name in names if name not in given]
            _check_size(old, new, f"of kind {kind.name!r}", kept, remedy)
        return changed

    def with_set_values(self, values: Mapping[str, object]) -> Hardware:
        """Return `with_values` with the values listed in `set_values`. Raises SpecError."""
        changed = self.with_values(values)
        listed = texts_of(dict(lines_apart(values)))
        return changed.model_copy(update={"set_values": (*(changed.set_values or ()), *listed) or None})

    def with_arrays_of_kinds(self, given: str | Mapping[str, int]) -> Hardware:
        """Return the hardware with other numbers of arrays of some kinds, {"small": 512} or "small=512".

        Raises SpecError for another form, an unknown kind, and a number that no chip has.
        """
        kinds = self.kinds or ()
        numbers = numbers_of_kinds(given) if isinstance(given, str) else dict_by_name(given, "arrays")
        known = tuple(kind.name for kind in kinds)
        if self.chip is not None:
            words = f"follow from the tiles of kinds: --set kinds.{known[0] if known else 'NAME'}.tiles=N"
            raise SpecError("arrays", f"{words}, or one number for all kinds")
        for name, number in numbers.items():
            check_known("kind of arrays", name, known)
            if not is_whole(number, 1, MOST_ARRAYS):
                raise SpecError("arrays", f"{name}: must be from 1 to {MOST_ARRAYS}, got {brief(number)}")
        changed = [kind.model_copy(update={"arrays": numbers.get(kind.name, kind.arrays)}) for kind in kinds]
        set_values = self.set_without([f"kinds.{name}.arrays" for name in numbers])
        return self.model_copy(update={"kinds": tuple(changed), "set_values": set_values})

    @model_serializer(mode="wrap")
    def _without_absent(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        document = _given(handler(self))
        for kind in document.get("kinds", ()):
            if kind.get("tiles") is not None:  # which give its arrays
                kind.pop("arrays", None)
        return document

    def to_frame(self) -> pd.DataFrame:
        """Return a row for every value given: its dotted name, "crossbar.wordlines", and the value."""
        import pandas as pd

        rows = [
            (f"{table}.{field}", value)
            for table, values in self.to_dict().items()
            if isinstance(values, dict)
            for field, value in values.items()
        ]
        return pd.DataFrame(rows, columns=["field", "value"], dtype=object)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the hardware as TOML if the name ends with .toml, else as JSON. Raises FileError."""
        is_toml = path_text(path).lower().endswith(".toml")
        write_text(path, self.to_toml() if is_toml else to_json(self.to_dict()))

    def to_toml(self) -> str:
        """Return the text of a TOML file, which `load_hardware` reads as the same hardware."""
        import tomli_w

        return tomli_w.dumps(self.to_dict())

    @property
    def set_words(self) -> str:
        """Values set by the call, each after a comma, for the end of a line; empty without any."""
        return "".join(f", {text}" for text in self.set_values or ())

    @property
    def words(self) -> str:
        """Name and size of the arrays, and the set values."""
        return f"{self.name}{self.set_words}, arrays of {self.sizes}"

    def _headline(self) -> tuple[str, str]:
        array = self.crossbar
        bits = self.precision.weight_bits
        size = f"{array.wordlines} x {array.bitlines}"
        chips = "" if self.chip is None else f", {sum(self.chip_arrays):,} arrays on chips"
        return self.name, f"arrays of {size} cells of {array.cell_bits} bits, weights of {bits} bits{chips}"

    def view(self, **known: Any) -> View:
        """Return the view of its values, with where they come from."""
        doubts = [Fact("not confirmed", ", ".join(self.unconfirmed))] if self.unconfirmed else []
        given = [Fact("set", ", ".join(self.set_values))] if self.set_values else []
        facts = (Fact("source", self.source), *doubts, *given)
        return View.of(self, kind="Hardware", facts=facts, tables=[frame_table("Values", self.to_frame())])


def _given(document: dict[str, Any]) -> dict[str, Any]:
    """Return a table and the tables in it without the values that are not given."""
    return {
        name: _given(value) if isinstance(value, dict) else value
        for name, value in document.items()
        if value is not None
    }


_HARDWARE: TypeAdapter[Hardware] = TypeAdapter(Hardware)


def _in_tiles(chip: Chip, kinds: tuple[Kind, ...]) -> tuple[Kind, ...]:
    """Return the kinds with the arrays of their tiles. Raises the fault of tiles that a chip cannot have."""
    if chip.sharing == "layer":
        raise fault('kinds: chip.sharing = "layer" is not modelled with kinds: leave it out')
    found = list[Kind]()
    for kind in kinds:
        if kind.tiles is None:
            raise fault(f"kinds: {kind.name!r} needs tiles, the number of its tiles on a chip, beside [chip]")
        per_tile = chip.arrays_per_tile if kind.chip is None else kind.chip.arrays_per_tile
        arrays = kind.tiles * per_tile * chip.chip_count
        if arrays > MOST_ARRAYS:
            raise fault(f"kinds: {kind.name!r} has {arrays} arrays in all, the limit is {MOST_ARRAYS}")
        if kind.arrays not in (None, arrays):
            words = f"{kind.arrays} arrays of {kind.name!r} are not the {arrays} of its tiles"
            raise fault(f"kinds: {words}: leave arrays out")
        found.append(kind.model_copy(update={"arrays": arrays}))
    if (taken := sum(kind.tiles or 0 for kind in kinds)) > chip.tiles_per_chip:
        words = f"have {taken} tiles of each chip together, which has {chip.tiles_per_chip}"
        raise fault(f"kinds: {words}: give more tiles in [chip], or fewer of a kind")
    return tuple(found)


def _check_size(old: Hardware, new: Hardware, where: str, kept: list[str], remedy: str) -> None:
    """Raise SpecError if arrays have another size, and the values that are kept are those of the old one."""
    if new.crossbar.size != old.crossbar.size and kept:
        names = " and ".join(kept)
        words = (
            f"is {old.crossbar.size} {where}, and {names} of that size: an array of {new.crossbar.size} has"
        )
        raise SpecError("crossbar", f"{words} others: {remedy.format(fields=names)}")
