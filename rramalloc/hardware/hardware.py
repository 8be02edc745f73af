"""Records of a hardware description: one per table of the TOML format (docs/sources/interface.md 5).

A table or value that a source does not give is left out; nothing is filled in silently.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    FailFast,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from rramalloc.errors import SpecError
from rramalloc.files import to_json, write_text
from rramalloc.hardware.kinds import MOST_KINDS, PARTS_OF_ENERGY, Kind, check_kinds
from rramalloc.hardware.performance import UNTIMED, ChipPerformance
from rramalloc.network.node import KINDS, LAYERS, Stage, TimedNode
from rramalloc.records import Record, as_tuple, brief, fault, from_list
from rramalloc.result import ResultRecord, frame_table
from rramalloc.view.view import Fact, View

if TYPE_CHECKING:
    import pandas as pd

MAX_LINES = 65_536  # wordlines or bitlines of an array: far above any device, products stay within 64 bits
MAX_BITS = 64  # bits of a weight, an input or an output: the widest integers of a network file
MAX_CHIP_ARRAYS = 2**31 - 1
MAX_VALUE = 1e15
"""Limit of every time and bandwidth: far above any device, so products stay finite."""
MIN_VALUE = 1e-9
"""Least value that is not 0: 1 byte/s, 1 pW, 1e-18 s; quotients stay finite."""
MAX_HOP_RATIO = 1e6  # 1 ms between chips and 1 ns between tiles; byte hops are counted in 64 bits


def _not_tiny(value: float) -> float:
    """Raise a validation error for a value between 0 and MIN_VALUE."""
    if 0 < value < MIN_VALUE:
        raise fault(f"must be 0, or at least {MIN_VALUE:g}")
    return value


Lines = Annotated[int, Field(ge=1, le=MAX_LINES)]
Bits = Annotated[int, Field(ge=1, le=MAX_BITS)]
Count = Annotated[int, Field(ge=1, le=MAX_CHIP_ARRAYS)]
Positive = Annotated[float, Field(ge=MIN_VALUE, le=MAX_VALUE)]
NonNegative = Annotated[float, Field(ge=0, le=MAX_VALUE)]
ZeroOrPositive = Annotated[NonNegative, AfterValidator(_not_tiny)]
MAX_MESH = MAX_LINES**2
"""Tiles or chips of a mesh at most."""


def mesh_of(number: int) -> tuple[int, int]:
    """Return the rows and columns of the mesh of so many tiles that is nearest to a square, no row taller."""
    rows = next(rows for rows in range(math.isqrt(number), 0, -1) if number % rows == 0)
    return rows, number // rows


def _as_mesh(value: object) -> object:
    """Return a number of tiles as their mesh, anything else as a list in Python may be it."""
    is_number = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_MESH
    return mesh_of(value) if is_number else as_tuple(value)  # type: ignore[arg-type]


Grid = Annotated[
    tuple[Lines, Lines],
    BeforeValidator(_as_mesh, json_schema_input_type=list[Lines] | Annotated[int, Field(ge=1, le=MAX_MESH)]),
]
Text = Annotated[str, Field(min_length=1, max_length=10_000)]
CrossbarLike = str | tuple[int, int]
"""Wordlines and bitlines: "128x256", or (128, 256)."""


def _gone(value: object) -> None:
    """Return nothing for `straddle = true`, which files of earlier versions hold; raise for anything else."""
    if value is False:
        raise fault(
            'is gone, a copy may lie in several tiles: leave it out. The nearest is sharing = "layer", '
            "which is not the same: a tile then holds arrays of one layer, whose copies may span tiles"
        )
    if value is not True and value is not None:
        raise fault("must be left out, or true as in files of earlier versions")


def _without_gone(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if name != "chip.straddle")


FieldNames = Annotated[
    tuple[Text, ...],
    FailFast(),
    from_list(list[Text]),
    Field(max_length=100),
    AfterValidator(_without_gone),
]

SetTexts = Annotated[tuple[Text, ...], from_list(list[Text]), Field(min_length=1, max_length=100)]


class Crossbar(Record):
    """One array of memristor cells. wordlines: rows; bitlines: columns; cell_bits: bits one cell holds.

    slices: the slices of a weight lie side by side in the columns of one array, which None also means, or
    each in an array of its own; polarities: the two polarities of a differential weight lie in columns, which
    None also means, on neighbouring rows, in arrays of their own, or in one unit cell that counts as a cell.
    Raises SpecError if a field is below 1 or above its limit.  Source: docs/sources/model.md 3.
    """

    wordlines: Lines
    bitlines: Lines
    cell_bits: Bits
    slices: Literal["columns", "arrays"] | None = None
    polarities: Literal["columns", "rows", "arrays", "cells"] | None = None

    @property
    def size(self) -> str:
        """Rows by columns as the command line takes them: "128x128"."""
        return f"{self.wordlines}x{self.bitlines}"


class Precision(Record):
    """Bits of weights, inputs and outputs, and how a signed weight is stored.

    signed: "offset" shifts weights to positive values, "differential" stores two polarities of them, which
    carry the sign: `weight_bits` are then those of the magnitude.
    """

    weight_bits: Bits
    input_bits: Bits
    output_bits: Bits
    signed: Literal["offset", "differential"]

    def of_layer(self, layer: TimedNode) -> Precision:
        """Return the precision of a weight layer: its own bits where it has them, else these.

        Source: docs/sources/model.md 11.
        """
        if not isinstance(layer, Stage):
            return self
        own = {"weight_bits": layer.weight_bits, "input_bits": layer.input_bits}
        given = {name: bits for name, bits in own.items() if bits is not None}
        return self.model_copy(update=given) if given else self


class Timing(Record):
    """Time of one step: `step_ns`, or `read_ns` and `dac_bits`, with both ADC fields if columns share an ADC.

    read_ns: one analog read; dac_bits: input bits fed per read; adc_ns: one conversion;
    columns_per_adc: columns that one ADC converts in turn; adc_columns: which, "interleaved" ones (None means
    that too), over which those in use are spread evenly, or "adjacent" ones; rows_per_read: wordlines
    driven at once, None for all; clock: "shared" if all stages step together, which None also means, or
    "own" if a batch of each stage takes its own whole number of ticks; tick_ns: length of a tick of own
    clocks, 1 ns unless given.
    With own clocks and no time at all, every layer needs a measured latency.
    Raises SpecError unless exactly one of the two ways is given.
    """

    step_ns: Positive | None = None
    read_ns: Positive | None = None
    dac_bits: Bits | None = None
    adc_ns: Positive | None = None
    columns_per_adc: Lines | None = None
    adc_columns: Literal["interleaved", "adjacent"] | None = None
    rows_per_read: Lines | None = None
    clock: Literal["shared", "own"] | None = None
    tick_ns: Positive | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        derived = (self.read_ns, self.dac_bits, self.adc_ns, self.columns_per_adc, self.rows_per_read)
        if self.step_ns is not None and any(value is not None for value in derived):
            raise fault(
                "step_ns is the whole step, it excludes read_ns, dac_bits, adc_ns, columns_per_adc and "
                "rows_per_read: give either step_ns or these"
            )
        if self.tick_ns is not None and self.clock != "own":
            raise fault('tick_ns has no effect unless clock = "own"')
        read = self.read_ns is not None and self.dac_bits is not None
        if self.step_ns is None and not read and not self.only_measured:
            raise fault("needs either step_ns, or both read_ns and dac_bits")
        if (self.adc_ns is None) != (self.columns_per_adc is None):
            raise fault("adc_ns and columns_per_adc belong together: give both or neither")
        if self.adc_columns is not None and self.adc_ns is None:
            raise fault("adc_columns has no effect without adc_ns and columns_per_adc: leave it out")
        return self

    @property
    def only_measured(self) -> bool:
        """Whether it gives no time itself, only clocks of their own for all stages."""
        given = self.model_dump(exclude={"clock", "tick_ns"}, exclude_none=True)
        return self.clock == "own" and not given

    @property
    def depends_on_lines(self) -> bool:
        """Whether the time of a step depends on the rows or columns in use."""
        return self.adc_ns is not None or self.rows_per_read is not None

    def compute_ns(
        self, input_bits: int, crossbar: Crossbar, rows: int | None = None, columns: int | None = None
    ) -> float:
        """Return the time of a step of arrays with `rows` and `columns` in use, all unless given.

        Reads and conversions overlap: a read's slot lasts max(read_ns, adc_ns * columns that share an ADC).
        Source: docs/sources/model.md 7 and 11. Raises ValueError if the hardware gives no time.
        """
        if self.step_ns is not None:
            return self.step_ns
        if self.read_ns is None:
            raise ValueError("the hardware gives no time of a step")
        slot_ns = max(self.read_ns, (self.adc_ns or 0.0) * self.conversions(crossbar, columns))
        return slot_ns * self.reads(input_bits, crossbar, rows)

    def conversions(self, crossbar: Crossbar, columns: int | None = None) -> int:
        """Return the conversions that an ADC makes one after another in a read; 0 where none is described."""
        if self.columns_per_adc is None:
            return 0
        used = min(crossbar.bitlines if columns is None else columns, crossbar.bitlines)
        if self.adc_columns == "adjacent":
            return min(self.columns_per_adc, used)
        return _ceil_div(self.columns_per_adc * used, crossbar.bitlines)

    def reads(self, input_bits: int, crossbar: Crossbar, rows: int | None = None) -> int:
        """Return the reads of a step, ceil(input_bits / dac_bits) * ceil(rows / rows_per_read)."""
        active = min(crossbar.wordlines if rows is None else rows, crossbar.wordlines)
        turns = 1 if self.rows_per_read is None else _ceil_div(active, self.rows_per_read)
        return turns * self.cycles(input_bits)

    def cycles(self, input_bits: int) -> int:
        """Return ceil(input_bits / dac_bits), the parts in which inputs are fed one after another."""
        return 1 if self.dac_bits is None else _ceil_div(input_bits, self.dac_bits)


class Memory(Record):
    """The buffer that feeds the arrays.

    reuse: input values read per window ("none": the whole window, "row": its new columns,
    "full": each input once); scope: the bandwidth is each layer's own, or shared by all.
    Source: docs/sources/model.md 7.
    """

    bandwidth_gb_s: Positive
    reuse: Literal["none", "row", "full"]
    scope: Literal["per_layer", "shared"]


class Chip(Record):
    """Arrays in tiles, tiles in chips.

    tiles: rows and columns of tiles of a chip, or their number, which stands for the mesh nearest to a
    square; chips: rows and columns of chips, or their number; sharing: "free", which None
    also means, if a tile may hold arrays of several layers, "layer" if of one only; hop_ns_*: time of a hop
    between neighbouring tiles or chips; bandwidth_*: of a link between neighbouring ones.
    Raises SpecError if there are more than MAX_ARRAYS arrays in all.
    """

    arrays_per_tile: Count
    tiles: Grid
    chips: Grid = (1, 1)
    sharing: Literal["free", "layer"] | None = None
    hop_ns_tile: ZeroOrPositive | None = None
    hop_ns_chip: ZeroOrPositive | None = None
    bandwidth_tile_gb_s: Positive | None = None
    bandwidth_chip_gb_s: Positive | None = None
    straddle: Annotated[
        None,
        BeforeValidator(_gone, json_schema_input_type=Literal[True]),
        Field(exclude=True, repr=False, description="of earlier versions; `true` is read and left out"),
    ] = None

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.arrays > MAX_CHIP_ARRAYS:
            raise fault(f"has {self.arrays} arrays in all, the limit is {MAX_CHIP_ARRAYS}")
        if self.hop_ns_tile and (self.hop_ns_chip or 0.0) > MAX_HOP_RATIO * self.hop_ns_tile:
            raise fault(f"hop_ns_chip is more than {MAX_HOP_RATIO:,.0f} times hop_ns_tile, the limit")
        return self

    @property
    def times_links(self) -> bool:
        """Whether a hop or a byte between neighbouring tiles or chips takes time."""
        hops = (self.hop_ns_tile, self.hop_ns_chip)
        return any((*hops, self.bandwidth_tile_gb_s, self.bandwidth_chip_gb_s))

    @property
    def tile_count(self) -> int:
        """Tiles of all chips."""
        return self.arrays // self.arrays_per_tile

    @property
    def arrays_per_chip(self) -> int:
        """Arrays of one chip."""
        return self.arrays_per_tile * self.tiles[0] * self.tiles[1]

    @property
    def arrays(self) -> int:
        """Arrays of all chips."""
        return self.arrays_per_chip * self.chips[0] * self.chips[1]


class Energy(Record):
    """Energy and area, of one array unless said otherwise; what is left out is not given, never 0.

    read_pj: of reading in one slot, of a whole step without `dac_bits`; leakage_mw: all the time, used or
    not; area_um2: of the array. These three hold what is not given by itself: adc_pj: of one conversion;
    adc_mw, adc_um2: of one ADC, of which an array has ceil(bitlines / columns_per_adc); row_pj: of driving
    one wordline once. pj_per_byte: moved between tiles; periphery_um2: of a tile beside its arrays; idle:
    "on", which None also means, if all arrays of the chip leak, "gated" if only those of tiles in use do.
    Raises SpecError for a value without the one it is a part of.  Source: docs/sources/model.md 12.
    """

    read_pj: ZeroOrPositive | None = None
    leakage_mw: ZeroOrPositive | None = None
    area_um2: ZeroOrPositive | None = None
    pj_per_byte: ZeroOrPositive | None = None
    periphery_um2: ZeroOrPositive | None = None
    idle: Literal["on", "gated"] | None = None
    adc_pj: ZeroOrPositive | None = None
    adc_mw: ZeroOrPositive | None = None
    adc_um2: ZeroOrPositive | None = None
    row_pj: ZeroOrPositive | None = None

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        pairs = [(value, needed) for needed, values in PARTS_OF_ENERGY.items() for value in values]
        for value, needed in pairs:
            if getattr(self, value) is not None and getattr(self, needed) is None:
                raise fault(f"{value} is a part of what {needed} gives: give both, or leave {value} out")
        return self


class Write(Record):
    """Writing weights into arrays, for networks that are larger than the chip.

    write_ns_per_row, write_pj: time and energy of one wordline; those of an array are written one after
    another; parallel: arrays that are written at the same time, 1 unless given.
    Source: docs/sources/model.md 13.
    """

    write_ns_per_row: ZeroOrPositive
    write_pj: ZeroOrPositive | None = None
    parallel: Count | None = None

    @property
    def lanes(self) -> int:
        """Arrays that are written at the same time."""
        return self.parallel or 1


class Digital(Record):
    """Rates of nodes without weights, which take no time of their own where none is given.

    ns_per_pixel: time of an output pixel by operator of the network JSON, one pixel after the other.
    Raises SpecError for an operator that networks do not have, or that is a weight layer.
    Source: docs/sources/model.md 11.
    """

    ns_per_pixel: Annotated[dict[str, Positive], Field(min_length=1)]

    @model_validator(mode="after")
    def _operators_exist(self) -> Self:
        known = [name for name in KINDS if name not in (*LAYERS, *UNTIMED)]
        for name in self.ns_per_pixel:
            if name not in known:
                why = "is on arrays or on the host" if name in LAYERS else "is no operator that takes time"
                raise fault(f"ns_per_pixel: {brief(name)} {why}; digital nodes are {', '.join(known)}")
        return self


class Counting(Record):
    """Rules by which a target counts arrays, where they differ from docs/sources/model.md 3.

    groups: "diagonal" if groups of a convolution share arrays, "dense" if they take those of one without
    groups; classifiers: "stored" if linear layers on a 1 x 1 grid take arrays of the budget even where `fc`
    leaves their time to the host, "host" if they take none there; row_blocks: "first_fit" if the arrays of
    one row block of a copy lie in one tile and tiles are filled first fit in the order of the layers, then a
    lower bound of the arrays that find a place limits the budget. It is "anywhere" if all arrays can be used.
    """

    groups: Literal["diagonal", "dense"]
    classifiers: Literal["host", "stored"]
    row_blocks: Literal["anywhere", "first_fit"]


class Hardware(ResultRecord):
    """An accelerator: its arrays, their precision, and what is given of time, memory and hierarchy.

    name: the file's without its ending where the file gives none; source: where the numbers come from;
    kinds: two kinds of arrays or more, each with some values of its own; unconfirmed: dotted names of fields
    ("timing.read_ns") whose values no file or paper at hand confirms; set_values: values that a call
    replaced, as `--set` takes them ("timing.adc_ns=2").
    Raises SpecError if a field does not hold what its record says.
    """

    name: Text = "unnamed"
    source: Text = "not given"
    crossbar: Crossbar
    precision: Precision
    timing: Timing | None = None
    memory: Memory | None = None
    chip: Chip | None = None
    energy: Energy | None = None
    counting: Counting | None = None
    write: Write | None = None
    digital: Digital | None = None
    units: ChipPerformance | None = None
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
    def _has_what_was_set(self) -> Self:
        if self.set_values is None:
            return self
        from rramalloc.hardware.values import changed_hardware, values_of

        own = self.model_copy(update={"set_values": None})
        try:
            again = changed_hardware(own, values_of(self.set_values, "set_values"))
        except SpecError as error:
            raise fault(f"set_values: {error.reason}") from None
        if again.model_copy(update={"unconfirmed": own.unconfirmed}) != own:
            raise fault("set_values: is not what the tables say: leave it out")
        return self

    @model_validator(mode="after")
    def _tables_fit(self) -> Self:
        if self.crossbar.polarities is not None and self.precision.signed == "offset":
            raise fault(
                f"crossbar.polarities = {self.crossbar.polarities!r} has no effect with precision.signed = "
                f'"offset", which stores one polarity: leave it out, or write signed = "differential"'
            )
        if self.counting is not None and self.counting.row_blocks == "first_fit":
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
        check_kinds(self)
        return self

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
        each = (own.energy for own in self._of_kinds) if self.kinds is not None else (None,)
        return all(energy is not None and energy.area_um2 is not None for energy in each)

    @property
    def sizes(self) -> str:
        """The sizes of arrays in words: "128x128", or "64x64 (small) and 128x128 (large)"."""
        kinds = zip(self.kinds or (), self.each_kind, strict=False)
        each = [f"{own.crossbar.size} ({kind.name})" for kind, own in kinds]
        return " and ".join(each) if each else self.crossbar.size

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
        return _ceil_div(self.precision.weight_bits, self.crossbar.cell_bits)

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
        own = self.crossbar.model_dump() | {"wordlines": wordlines, "bitlines": bitlines}
        crossbar, energy = Crossbar(**own), self.energy or Energy()
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
        """The same hardware without [write], and without what was set of it."""
        names = [f"write.{name}" for name in Write.model_fields]
        return self.model_copy(update={"write": None, "set_values": self.set_without(names)})

    def set_without(self, names: Collection[str]) -> tuple[str, ...] | None:
        """Return what was set but for the values of these names; None if that is nothing."""
        kept = (text for text in self.set_values or () if text.partition("=")[0] not in names)
        return tuple(kept) or None

    def with_values(self, values: Mapping[str, object]) -> Hardware:
        """Return the same hardware with values replaced by dotted name, None to take one away.

        Parameters
        ----------
        values
            Such as {"timing.columns_per_adc": 16, "crossbar": "64x64"}.

        Raises
        ------
        SpecError
            A name that no hardware has, a value that does not fit, or a new size of arrays whose area, energy
            or leakage is not given with it.
        """
        from rramalloc.hardware.values import changed_hardware

        return changed_hardware(self, values)

    @model_serializer(mode="wrap")
    def _without_absent(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return _given(handler(self))

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
        from rramalloc.hardware.loader import hardware_text

        is_toml = os.fspath(path).lower().endswith(".toml")
        write_text(path, hardware_text(self) if is_toml else to_json(self.to_dict()))

    @property
    def set_words(self) -> str:
        """Values set by the call, each after a comma, for the end of a line; empty without any."""
        return "".join(f", {text}" for text in self.set_values or ())

    @property
    def words(self) -> str:
        """Name and size of the arrays, and what was set."""
        return f"{self.name}{self.set_words}, arrays of {self.sizes}"

    def _headline(self) -> tuple[str, str]:
        array, bits = self.crossbar, self.precision.weight_bits
        size = f"{array.wordlines} x {array.bitlines}"
        chips = "" if self.chip is None else f", {self.chip.arrays:,} arrays on chips"
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


def _ceil_div(value: int, by: int) -> int:
    return -(-value // by)


def parse_crossbar(crossbar: CrossbarLike) -> tuple[int, int]:
    """Return the wordlines and bitlines of "128x256" or (128, 256). Raises SpecError."""
    text = crossbar if isinstance(crossbar, str) else "x".join(map(str, crossbar))
    match = re.fullmatch(r"([0-9]{1,9})[xX]([0-9]{1,9})", text.strip())
    if match is None:
        raise SpecError("crossbar", f"must be ROWSxCOLUMNS such as 128x128, got {brief(text)}")
    wordlines, bitlines = int(match[1]), int(match[2])
    for value, what in ((wordlines, "wordlines"), (bitlines, "bitlines")):
        if not 1 <= value <= MAX_LINES:
            raise SpecError("crossbar", f"{what} must be from 1 to {MAX_LINES}, got {value}")
    return wordlines, bitlines
