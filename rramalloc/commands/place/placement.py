"""Placement: which array of which chip holds which block of weights, and what that makes the chips move."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import FailFast, Field, NonNegativeFloat, TypeAdapter, model_validator

from rramalloc.allocation.allocation import Foldable, NetworkId, PositiveCount
from rramalloc.files import read_json
from rramalloc.frozen import FrozenDict
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.tables import MAX_LINES
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.geometry import Pair
from rramalloc.network.node import Name
from rramalloc.records import Record, absent, check_format, parse
from rramalloc.result import AnswerRecord
from rramalloc.status import Status
from rramalloc.timing.measured_steps import MeasuredSteps
from rramalloc.units import counted, rounded
from rramalloc.upgrade import upgraded

if TYPE_CHECKING:
    import pandas as pd

FORMAT: Literal["rramalloc-placement/2"] = "rramalloc-placement/2"
FILE_LIMIT_BYTES = 256 * 2**20
MAX_PLACED = 2**19  # arrays that one placement may use; a file of them is about 130 MB


IndexInFile = Annotated[int, Field(ge=0, le=2**53)]
LineIndex = Annotated[int, Field(ge=0, lt=MAX_LINES)]
Place = tuple[LineIndex, LineIndex]
Names = tuple[Name, ...]


class PlacedArray(Record):
    """One physical array and the block it holds; everything is counted from 0.

    chip: (row, column) in the mesh of chips; tile: (row, column) in the mesh of its chip; index: of the
    array in its tile; replica: copy of the layer, the first that the array holds; copies: that share the
    array, left out of files unless the mapping is "sdk"; row_block, column_block: as `mapping.blocks`
    numbers them; plane: which slice or polarity of them it holds, left out of files where an array holds all;
    rows, columns: wordlines and bitlines in use; of a digital unit those of its matrix of weights.
    """

    chip: Place
    tile: Place
    index: IndexInFile
    layer: Name
    replica: IndexInFile
    copies: PositiveCount = 1
    row_block: IndexInFile
    column_block: IndexInFile
    plane: IndexInFile = 0
    rows: PositiveCount
    columns: PositiveCount


class PlacedLayer(Foldable):
    """One stage. copies: of its weights; tiles: that hold some; straddling: copies in several tiles.

    utilisation: share of the cells of its arrays that hold weights; there where `block` is; kind: of its
    arrays or units, left out of files where there is one.
    """

    name: Name
    arrays_per_copy: PositiveCount
    copies: PositiveCount
    tiles: IndexInFile
    straddling: IndexInFile
    utilisation: NonNegativeFloat | None = Field(None, exclude_if=absent)
    kind: Name | None = Field(None, exclude_if=absent)


class Flow(Record):
    """Bytes that a consumer reads of a producer per input of the network, hops on average, and their product.

    Where both are the same layer: the partial sums of its copies, on their way to the tile that adds them up.
    transfer_ns: from the end of a batch until its pixels are there, partial sums included; None where the
    hardware gives not all hop times and bandwidths; busy: part of the time of the batches in which the
    busiest link on the way is taken; None without a time of a step.
    """

    producer: Name
    consumer: Name
    size_bytes: NonNegativeFloat
    hops: NonNegativeFloat
    byte_hops: NonNegativeFloat
    transfer_ns: NonNegativeFloat | None = None
    busy: NonNegativeFloat | None = None

    @property
    def words(self) -> str:
        """Name of the flow in texts."""
        if self.producer == self.consumer:
            return f"partial sums of {self.producer}"
        return f"from {self.producer} to {self.consumer}"


class Link(Record):
    """A directed link with traffic: between neighbouring tiles of `chip`, or of chips (`chip` is null).

    busy: part of the interval without transfers in which it carries the bytes of an input; above 1 it cannot
    keep up. None where the hardware gives no time of a step or of links.
    """

    chip: Place | None
    start: Place
    end: Place
    size_bytes: NonNegativeFloat
    busy: NonNegativeFloat | None = Field(None, exclude_if=absent)


class TileUse(Record):
    """A tile in use. arrays: in use; utilisation: of its arrays; cells: share of its memristors in use."""

    chip: Place
    tile: Place
    arrays: PositiveCount
    utilisation: NonNegativeFloat
    cells: NonNegativeFloat


class Traffic(Record):
    """Bytes that are moved per input of the network.

    cost: bytes x hops of all flows, partial sums among them; constructed: before the improvement; chip_hop:
    tile hops that a hop between chips counts as.
    """

    cost: NonNegativeFloat
    constructed: NonNegativeFloat
    chip_hop: NonNegativeFloat

    @model_validator(mode="before")
    @classmethod
    def _without_bound(cls, value: object) -> object:
        """Return the value without the bound of byte hops that older versions wrote."""
        bound = ("lower_bound", "gap", "proof", "status")
        return {k: v for k, v in value.items() if k not in bound} if isinstance(value, dict) else value


class PlacementOptions(MappingOptions):
    """Mapping of weights on crossbars, layers that are stages, and work of the improvement.

    latency_table: measured step times, None if those of the hardware hold.
    """

    seed: int
    work: int
    latency_table: MeasuredSteps | None = None


class Placement(AnswerRecord):
    """Every array in use, what it holds, and the traffic that follows; `rramalloc-placement/2`.

    arrays: each physical array at most once, each needed block exactly once, by chip, tile and index;
    latency_ns_alone, interval_ns_alone: without transfers between tiles; latency_ns, interval_ns: with them,
    as steps get longer, or edges are delayed with own clocks; all None where the hardware gives no time of a
    step or of links; status, proof: whether any placement of these copies is faster;
    not_counted: what these times leave out;
    flows: by (producer, consumer); links: with traffic, the busiest first; tiles: those in use.
    """

    rows_in = "layers"

    format: Literal["rramalloc-placement/2"] = FORMAT
    network: NetworkId
    hardware: Hardware
    options: PlacementOptions
    traffic: Traffic
    latency_ns_alone: NonNegativeFloat | None = Field(None, exclude_if=absent)
    latency_ns: NonNegativeFloat | None = Field(None, exclude_if=absent)
    interval_ns_alone: NonNegativeFloat | None = Field(None, exclude_if=absent)
    interval_ns: NonNegativeFloat | None = Field(None, exclude_if=absent)
    status: Status = Status.FEASIBLE
    proof: str | None = Field(None, exclude_if=absent)
    layers: Annotated[tuple[PlacedLayer, ...], FailFast()]
    flows: Annotated[tuple[Flow, ...], FailFast()]
    links: Annotated[tuple[Link, ...], FailFast()]
    tiles: Annotated[tuple[TileUse, ...], FailFast()]
    arrays: Annotated[tuple[PlacedArray, ...], FailFast(), Field(max_length=MAX_PLACED)]

    @property
    def copies(self) -> FrozenDict[str, int]:
        """Copies of every layer by name, in network order."""
        return FrozenDict({layer.name: layer.copies for layer in self.layers})

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with one row per array: chip_row, chip_column, tile_row, tile_column, then the
        fields of PlacedArray."""
        import pandas as pd

        names = [name for name in PlacedArray.model_fields if name not in ("chip", "tile", *self.left_out)]
        places = ["chip_row", "chip_column", "tile_row", "tile_column"]
        rows = [(*a.chip, *a.tile, *(getattr(a, name) for name in names)) for a in self.arrays]
        return pd.DataFrame(rows, columns=[*places, *names])

    def to_dict(self) -> dict[str, Any]:
        """Return the document of the placement file, without fields of arrays that say nothing."""
        return self.model_dump(mode="json", exclude={"arrays": {"__all__": {*self.left_out}}})

    @property
    def blocks(self) -> FrozenDict[str, Pair]:
        """Windows (height, width) that a copy of a layer computes in a step, with mapping "sdk"."""
        return FrozenDict({layer.name: layer.block for layer in self.layers if layer.block is not None})

    @property
    def left_out(self) -> frozenset[str]:
        """Fields of arrays that say nothing under this mapping and hardware."""
        planes = any(array.plane for array in self.arrays)
        without = {"copies": self.options.mapping != "sdk", "plane": not planes}
        return frozenset(name for name, absent in without.items() if absent)

    def _headline(self) -> tuple[str, str]:
        held = f"{counted(len(self.arrays), 'array')} in {counted(len(self.tiles), 'tile')}"
        slower = "" if self.factor is None else f", {self.factor:.3g} times the latency without transfers"
        return self.network.name, f"{held}, {rounded(self.traffic.cost)} byte hops{slower}"

    @property
    def factor(self) -> float | None:
        """Latency with transfers as a multiple of that without; None where it has none."""
        if self.latency_ns is None or not self.latency_ns_alone:
            return None
        return self.latency_ns / self.latency_ns_alone


PlacementLike = Placement | str | os.PathLike[str]
_PLACEMENT: TypeAdapter[Placement] = TypeAdapter(Placement)


def as_placement(placement: PlacementLike) -> Placement:
    """Return the placement itself, or the one in its file. Raises FileError, SpecError."""
    return placement if isinstance(placement, Placement) else read_placement(placement)


def read_placement(path: str | os.PathLike[str]) -> Placement:
    """Read a placement file as `place` writes it; its records are checked, not whether it holds its network.

    Raises FileError, SpecError (also for a file of another format).
    """
    where = os.fspath(path)
    document = upgraded(read_json(path, FILE_LIMIT_BYTES))
    check_format(document, FORMAT, where, " as `rramalloc place` writes it")
    return parse(_PLACEMENT, document, where)
