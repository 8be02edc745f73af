"""Tables of a hardware description, a record for each (docs/sources/interface.md 5).

A table or value that a source does not give is left out; nothing is filled in silently.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Literal, Protocol, Self, runtime_checkable

from pydantic import AfterValidator, BeforeValidator, FailFast, Field, PrivateAttr, model_validator

from rramalloc.errors import SpecError
from rramalloc.hardware.performance import UNTIMED, ChipPerformance
from rramalloc.network.node import KINDS, WEIGHT_OPERATORS, Stage, TimedNode
from rramalloc.records import Record, absent, as_tuple, brief, fault, from_list, text_of
from rramalloc.result import ResultRecord

PARTS_OF_ENERGY = {
    "read_pj": ("pj_per_byte", "adc_pj", "row_pj"),
    "leakage_mw": ("idle", "adc_mw"),
    "area_um2": ("periphery_um2", "adc_um2"),
}
"""Fields of [energy] that hold for an array of one size, each with the fields that need it."""
MAX_LINES = 65_536  # wordlines or bitlines of an array: far above any device, products stay within 64 bits
MAX_BITS = 64  # bits of a weight, an input or an output: the widest integers of a network file
MAX_CHIP_ARRAYS = 2**31 - 1  # the largest signed number of 32 bits: far above any chip
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


LineCount = Annotated[int, Field(ge=1, le=MAX_LINES)]
Bits = Annotated[int, Field(ge=1, le=MAX_BITS)]
Count = Annotated[int, Field(ge=1, le=MAX_CHIP_ARRAYS)]
Positive = Annotated[float, Field(ge=MIN_VALUE, le=MAX_VALUE)]
NonNegative = Annotated[float, Field(ge=0, le=MAX_VALUE)]
ZeroOrPositive = Annotated[NonNegative, AfterValidator(_not_tiny)]
MAX_MESH = MAX_LINES**2
"""Tiles or chips of a mesh at most."""


MAX_ASPECT = 2
"""Columns by rows of a full mesh at most; else it is nearer to a square, and its last sites are empty."""


def factors_of(number: int) -> tuple[int, int]:
    """Return (rows, columns) nearest to a square with rows * columns = number and rows <= columns."""
    rows = next(rows for rows in range(math.isqrt(number), 0, -1) if number % rows == 0)
    return rows, number // rows


def mesh_of(size: int | tuple[int, int]) -> tuple[int, int]:
    """Return the rows and columns of a mesh with so many sites in use, the last ones empty.

    Source: docs/sources/model.md 11.
    """
    if not isinstance(size, int):
        return size
    rows, columns = factors_of(size)
    if columns > MAX_ASPECT * rows:
        rows = math.isqrt(size)
        columns = -(-size // rows)
    return rows, columns


def _of_mesh(size: int | tuple[int, int]) -> int:
    """Return the sites in use of a mesh."""
    return size if isinstance(size, int) else size[0] * size[1]


MeshSize = Annotated[
    Annotated[int, Field(ge=1, le=MAX_MESH)] | tuple[LineCount, LineCount],
    BeforeValidator(
        as_tuple, json_schema_input_type=list[LineCount] | Annotated[int, Field(ge=1, le=MAX_MESH)]
    ),
]
Text = Annotated[str, Field(min_length=1, max_length=10_000)]


@runtime_checkable
class Mapped(Protocol):
    """A configuration of aihwkit, whose mapping has the inputs and outputs of a tile at most."""

    @property
    def mapping(self) -> Any:
        """An object with max_input_size and max_output_size."""


CrossbarLike = str | tuple[int, int] | Mapped
"""Wordlines and bitlines: "128x256", (128, 256), or an rpu_config of aihwkit."""


def _without_straddle(value: object) -> None:
    """Drop `straddle = true` of files of earlier versions; raise a validation error for false."""
    if value is False:
        raise fault(
            'is gone, a copy may lie in several tiles: leave it out. The nearest is sharing = "layer", '
            "which is not the same: a tile then holds arrays of one layer, whose copies may span tiles"
        )
    if value is not True and value is not None:
        raise fault("must be left out, or true as in files of earlier versions")


FieldNames = Annotated[
    tuple[Text, ...],
    FailFast(),
    from_list(list[Text]),
    Field(max_length=100),
    AfterValidator(lambda names: tuple(name for name in names if name != "chip.straddle")),
]

SetTexts = Annotated[tuple[Text, ...], from_list(list[Text]), Field(min_length=1, max_length=100)]


class Crossbar(Record):
    """One array of memristor cells. wordlines: rows; bitlines: columns; cell_bits: bits one cell holds.

    slices: the slices of a weight lie side by side in the columns of one array, which None also means, or
    each in an array of its own; polarities: the two polarities of a differential weight lie in columns, which
    None also means, on neighbouring rows, in arrays of their own, or in one unit cell that counts as a cell.
    Raises SpecError if a field is below 1 or above its limit.  Source: docs/sources/model.md 3.
    """

    wordlines: LineCount
    bitlines: LineCount
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
        bits_of_layer = {"weight_bits": layer.weight_bits, "input_bits": layer.input_bits}
        given = {name: bits for name, bits in bits_of_layer.items() if bits is not None}
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
    columns_per_adc: LineCount | None = None
    adc_columns: Literal["interleaved", "adjacent"] | None = None
    rows_per_read: LineCount | None = None
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
        """Whether it asks for own clocks and gives no time: measured latencies then give all times."""
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
        return parts_of(self.columns_per_adc * used, crossbar.bitlines)

    def reads(self, input_bits: int, crossbar: Crossbar, rows: int | None = None) -> int:
        """Return the reads of a step, ceil(input_bits / dac_bits) * ceil(rows / rows_per_read)."""
        active = min(crossbar.wordlines if rows is None else rows, crossbar.wordlines)
        turns = 1 if self.rows_per_read is None else parts_of(active, self.rows_per_read)
        return turns * self.cycles(input_bits)

    def cycles(self, input_bits: int) -> int:
        """Return ceil(input_bits / dac_bits), the parts in which inputs are fed one after another."""
        return 1 if self.dac_bits is None else parts_of(input_bits, self.dac_bits)


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

    tiles: rows and columns of tiles of a chip, or their number, which stands for a mesh near to a square
    whose last sites may be empty; chips: likewise of chips; sharing: "free", which None
    also means, if a tile may hold arrays of several layers, "layer" if of one only; hop_ns_*: time of a hop
    between neighbouring tiles or chips; bandwidth_*: of a link between neighbouring ones.
    Raises SpecError if there are more than MAX_ARRAYS arrays in all.
    """

    arrays_per_tile: Count
    tiles: MeshSize
    chips: MeshSize = (1, 1)
    sharing: Literal["free", "layer"] | None = None
    hop_ns_tile: ZeroOrPositive | None = None
    hop_ns_chip: ZeroOrPositive | None = None
    bandwidth_tile_gb_s: Positive | None = None
    bandwidth_chip_gb_s: Positive | None = None
    straddle: Annotated[
        None,
        BeforeValidator(_without_straddle, json_schema_input_type=Literal[True]),
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
    def link_fields(self) -> tuple[str, ...]:
        """Fields that give hops and links a time, those between chips where there are several."""
        names = ("hop_ns_tile", "bandwidth_tile_gb_s")
        return names if self.chip_count == 1 else (*names, "hop_ns_chip", "bandwidth_chip_gb_s")

    @property
    def given_links(self) -> tuple[str, ...]:
        """Those of them that are given."""
        return tuple(name for name in self.link_fields if getattr(self, name) is not None)

    @property
    def times_links(self) -> bool:
        """Whether a hop or a byte between neighbouring tiles or chips takes time; one chip has no links."""
        return any(getattr(self, name) for name in self.link_fields)

    @property
    def tiles_per_chip(self) -> int:
        """Tiles of one chip."""
        return _of_mesh(self.tiles)

    @property
    def chip_count(self) -> int:
        """Number of chips."""
        return _of_mesh(self.chips)

    @property
    def tile_count(self) -> int:
        """Tiles of all chips."""
        return self.tiles_per_chip * self.chip_count

    @property
    def arrays_per_chip(self) -> int:
        """Arrays of one chip."""
        return self.arrays_per_tile * self.tiles_per_chip

    @property
    def arrays(self) -> int:
        """Arrays of all chips."""
        return self.arrays_per_tile * self.tile_count

    @property
    def grid(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Rows and columns of tiles, and of chips, without an empty site: for tools that know of none."""
        tiles, chips = (
            factors_of(size) if isinstance(size, int) else size for size in (self.tiles, self.chips)
        )
        return tiles, chips

    @property
    def as_one_grid(self) -> tuple[int, int]:
        """Rows and columns of the tiles of all chips as one grid, as `grid`."""
        tiles, chips = self.grid
        return tiles[0] * chips[0], tiles[1] * chips[1]


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
        known = [name for name in KINDS if name not in (*WEIGHT_OPERATORS, *UNTIMED)]
        for name in self.ns_per_pixel:
            if name not in known:
                why = (
                    "is on arrays or on the host"
                    if name in WEIGHT_OPERATORS
                    else "is no operator that takes time"
                )
                raise fault(f"ns_per_pixel: {brief(name)} {why}; digital nodes are {', '.join(known)}")
        return self


class Counting(Record):
    """Rules by which a target counts arrays, where they differ from docs/sources/model.md 3.

    groups: "diagonal" if groups of a convolution share arrays, "dense" if they take those of one without
    groups; classifiers: "stored" if linear layers on a 1 x 1 grid take arrays of the budget even where `fc`
    leaves their time to the host, "host" if they take none there; row_blocks: "anywhere" if all arrays can
    be used, "first_fit" if the arrays of one row block of a copy lie in one tile. Tiles are then filled first
    fit in the order of the layers, and a lower bound of the arrays that find a place limits the budget.
    """

    groups: Literal["diagonal", "dense"]
    classifiers: Literal["host", "stored"]
    row_blocks: Literal["anywhere", "first_fit"]


class Processor(Record):
    """A digital unit, which computes a layer where a kind has no arrays; what is left out is not given.

    macs_per_ns: multiply-accumulates a ns; pj_per_mac: energy of one; area_um2, leakage_mw: of the unit;
    weight_bytes: of the largest layer that fits, None for any.  Source: docs/sources/model.md 18.
    """

    macs_per_ns: Positive
    pj_per_mac: ZeroOrPositive | None = Field(None, exclude_if=absent)
    area_um2: ZeroOrPositive | None = Field(None, exclude_if=absent)
    leakage_mw: ZeroOrPositive | None = Field(None, exclude_if=absent)
    weight_bytes: Annotated[int, Field(ge=1)] | None = Field(None, exclude_if=absent)

    def holds(self, weight_bits: int) -> bool:
        """Return True if so many bits of weights fit one unit."""
        return self.weight_bytes is None or weight_bits <= 8 * self.weight_bytes

    @property
    def as_energy(self) -> dict[str, float]:
        """Its values under the names of [energy]: a unit is read for nothing, its products are counted."""
        values = {"leakage_mw": self.leakage_mw, "area_um2": self.area_um2}
        values["read_pj"] = None if self.pj_per_mac is None else 0.0
        return {name: value for name, value in values.items() if value is not None}


class HardwareTables(ResultRecord):
    """The tables of a hardware; `Hardware` adds kinds of arrays, and which values were set or unconfirmed."""

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
    _processor: Processor | None = PrivateAttr(None)

    @property
    def processor(self) -> Processor | None:
        """The digital unit that stands in place of an array, None for arrays: only a kind has one."""
        return self._processor


def parts_of(value: int, by: int) -> int:
    """Return ceil(value / by): the parts of at most `by` that make up a value."""
    return -(-value // by)


def parse_crossbar(crossbar: CrossbarLike) -> tuple[int, int]:
    """Return the wordlines and bitlines of "128x256", (128, 256) or a configuration of aihwkit.

    Raises SpecError.
    """
    if isinstance(crossbar, Mapped):
        crossbar = crossbar.mapping.max_input_size, crossbar.mapping.max_output_size
    text = crossbar if isinstance(crossbar, str) else "x".join(map(text_of, crossbar))
    match = re.fullmatch(r"([0-9]{1,9})[xX]([0-9]{1,9})", text.strip())
    if match is None:
        raise SpecError("crossbar", f"must be ROWSxCOLUMNS such as 128x128, got {brief(text)}")
    wordlines = int(match[1])
    bitlines = int(match[2])
    for value, what in ((wordlines, "wordlines"), (bitlines, "bitlines")):
        if not 1 <= value <= MAX_LINES:
            raise SpecError("crossbar", f"{what} must be from 1 to {MAX_LINES}, got {value}")
    return wordlines, bitlines
