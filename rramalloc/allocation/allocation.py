"""Allocation: the result of `optimize` (docs/sources/interface.md)."""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from rramalloc.choices import Divided, ObjectiveName
from rramalloc.files import write_json
from rramalloc.frozen import FrozenDict
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.coverage import Coverage
from rramalloc.network.geometry import Pair
from rramalloc.network.network import Network
from rramalloc.network.node import Name, Stage, TimedNode
from rramalloc.records import Record, Steps, absent
from rramalloc.result import AnswerRecord
from rramalloc.status import Status, Stopped, of_fields
from rramalloc.timing.figures import ENERGY_AREA, EnergyArea, LayerFigures
from rramalloc.timing.measured_steps import MeasuredSteps
from rramalloc.units import Unit, counted, share

FORMAT: Literal["rramalloc-allocation/2"] = "rramalloc-allocation/2"
Count = Annotated[int, Field(ge=0, le=2**53)]
PositiveCount = Annotated[int, Field(ge=1, le=2**53)]
Product = Annotated[int, Field(ge=1)]
"""Product of counts, which may be beyond 2**53: Python reads such integers exactly."""
Piece = tuple[Count, Count, Count, Count, Count, PositiveCount]
BlockSize = tuple[PositiveCount, PositiveCount]
"""Windows (height, width)."""


class NetworkId(Record):
    """Network that an allocation belongs to; sha256 is of the graph without bits, not of a file."""

    name: str
    sha256: str

    @classmethod
    def of(cls, network: Network) -> NetworkId:
        """Return the identity of a network."""
        return cls(name=network.name, sha256=network.plain_sha256)


class NetworkResult(AnswerRecord):
    """Result about a network on a hardware.

    coverage: how much of the network it is about (None in files of older versions). `Case.about` gives these,
    and not_counted.
    """

    format: str
    network: NetworkId
    hardware: Hardware
    coverage: Coverage | None = None


class BareAllocation(Record):
    """The short form that `simulate` also reads: how layers run, by name.

    copies: one for layers left out; kind: of arrays, where the hardware has several; block: windows (height,
    width) that a copy computes in a step, the fewest for layers left out (docs/sources/model.md 10); cycles:
    ticks that a batch lasts, one for layers left out (docs/sources/model.md 11).
    """

    copies: dict[Name, PositiveCount]
    kind: dict[Name, Name] = Field(default_factory=dict, exclude_if=operator.not_)
    block: dict[Name, BlockSize] = Field(default_factory=dict, exclude_if=operator.not_)
    cycles: dict[Name, PositiveCount] = Field(default_factory=dict, exclude_if=operator.not_)


class CaseOptions(MappingOptions):
    """What a case says beyond network and hardware.

    latency_table: measured step times, None if those of the hardware hold; copies: the fewest and the most of
    layers that were held or limited; copies_divide: of what they had to be divisors; at_most: limits of
    quantities; feeds_back: whether the next input needs this one's output, sequences: that take turns then;
    None where it does not; states: the layers that read a state, by the stage that writes it; placed: whether
    transfers between the tiles of a placement count.
    """

    latency_table: MeasuredSteps | None = None
    copies: dict[Name, tuple[PositiveCount, PositiveCount]] | None = Field(None, exclude_if=absent)
    copies_divide: Divided | None = Field(None, exclude_if=absent)
    at_most: dict[str, float] | None = Field(None, exclude_if=absent)
    feeds_back: Literal[True] | None = Field(None, exclude_if=absent)
    sequences: PositiveCount | None = Field(None, exclude_if=absent)
    states: dict[Name, Name] | None = Field(None, exclude_if=absent)
    placed: Literal[True] | None = Field(None, exclude_if=absent)


class SearchOptions(CaseOptions):
    """Options of a search beyond its budget. gap: that was good enough, None where runs have no such end."""

    work: int
    time_limit_s: float | None
    gap: float | None = Field(None, exclude_if=absent)


class Options(SearchOptions):
    """Options of an optimisation.

    inputs: how many stream, where objective latency is the time of several; start: the allocation that the
    search began with; bits: the weight bits, input bits and sensitivity that layers could have; sensitivity:
    the limit of its sum; None where bits were given.
    """

    gap: float
    target_steps: int | None
    target_ns: float | None
    target_interval: PositiveCount | None = Field(None, exclude_if=absent)
    target_interval_ns: float | None = Field(None, exclude_if=absent)
    target_throughput: float | None = Field(None, exclude_if=absent)
    inputs: PositiveCount | None = Field(None, exclude_if=absent)
    start: BareAllocation | None = Field(None, exclude_if=absent)
    bits: dict[Name, tuple[tuple[PositiveCount, PositiveCount, float], ...]] | None = Field(
        None, exclude_if=absent
    )
    sensitivity: float | None = Field(None, exclude_if=absent)


class KindOfArrays(Record):
    """Arrays of a kind: allowed, None for any number, and used."""

    budget: PositiveCount | None
    used: Annotated[int, Field(ge=0)]


class Arrays(Record):
    """Arrays allowed, used, and needed with every layer stored once; None where nothing says it.

    by_kind: of every kind by name; None, and left out of files, where the hardware has one kind.
    """

    budget: PositiveCount | None
    used: PositiveCount
    minimum: PositiveCount | None
    by_kind: dict[Name, KindOfArrays] | None = Field(None, exclude_if=absent)

    @property
    def limits(self) -> str:
        """The arrays allowed and needed, in words, or those used of every kind."""
        if self.by_kind is None:
            return f"of a budget of {self.budget or 0:,}; least {self.minimum or 0:,}"
        kinds = self.by_kind.items()
        of_kinds = [
            f"{name} {arrays.used:,}{f' of {arrays.budget:,}' if arrays.budget else ''}"
            for name, arrays in kinds
        ]
        return ", ".join(of_kinds)

    @property
    def words(self) -> str:
        """The arrays used, of those allowed: "902 of 1,024 arrays"."""
        if self.budget is None:
            return counted(self.used, "array")
        return f"{self.used:,} of {counted(self.budget, 'array')}"


class Foldable(Record):
    """A row about a stage, which may be folded (docs/sources/companions.md 3).

    Fields whose default is None stand last in files, energy and area behind the others, and only where they
    have a value.

    fold: pixels (n_h, n_w) folded into one, (1, 1) where that would not help; None, and left out of files,
    unless folding was asked for. block: windows (height, width) that a copy computes in a step; None, and
    left out of files, unless mapping is "sdk" (docs/sources/model.md 10).
    """

    fold: tuple[PositiveCount, PositiveCount] | None = None
    block: BlockSize | None = None

    @model_serializer(mode="wrap")
    def _with_optional_last(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        document: dict[str, Any] = handler(self)
        fields = type(self).model_fields.items()
        optional = [name for name, field in fields if field.default is None and field.exclude_if is None]
        optional.sort(key=ENERGY_AREA.__contains__)
        last = {name: document.pop(name) for name in optional if name in document}
        return document | {name: value for name, value in last.items() if value is not None}


def layer_bits(stages: Sequence[TimedNode], hardware: Hardware) -> dict[str, dict[str, int]]:
    """Return weight_bits and input_bits of every stage on arrays; empty if no stage has its own bits."""
    layers = [stage for stage in stages if isinstance(stage, Stage)]
    if all(stage.weight_bits is None and stage.input_bits is None for stage in layers):
        return {}
    precisions = {stage.name: hardware.precision.of_layer(stage) for stage in layers}
    return {
        name: {"weight_bits": precision.weight_bits, "input_bits": precision.input_bits}
        for name, precision in precisions.items()
    }


def kind_words(used: dict[str, int]) -> str:
    """Return the arrays of every kind in words: "small 2, large 1"."""
    return ", ".join(f"{name} {number:,}" for name, number in used.items())


class LayerModes(EnergyArea):
    """Modes of the layers of an allocation, for rows that are about many of them.

    copies: of every layer by name; block: windows (height, width) that a copy computes in a
    step; None, and left out of files, unless mapping is "sdk" (docs/sources/model.md 10); kind: of the arrays
    of each layer, by_kind: arrays used of every kind; None, and left out of files, where the hardware has one
    kind (18).
    """

    copies: dict[Name, PositiveCount]
    block: dict[Name, BlockSize] | None = Field(None, exclude_if=absent)
    kind: dict[Name, str] | None = Field(None, exclude_if=absent)
    by_kind: dict[Name, Annotated[int, Field(ge=0)]] | None = Field(None, exclude_if=absent)

    @property
    def kinds(self) -> str | None:
        """The arrays used of every kind, in words: "small 2, large 1"."""
        return None if self.by_kind is None else kind_words(self.by_kind)

    @property
    def allocation(self) -> FrozenDict[str, Any]:
        """Document that `simulate` takes as an allocation, and that a bare allocation file holds."""
        modes = {"copies": self.copies, "kind": self.kind, "block": self.block}
        return FrozenDict({name: by_layer for name, by_layer in modes.items() if by_layer is not None})

    def save_allocation(self, path: str | os.PathLike[str]) -> None:
        """Write the allocation as a file that `simulate` and `place` read. Raises FileError."""
        write_json(path, self.allocation)


class Layer(Foldable, LayerFigures):
    """One stage.

    arrays_per_copy: 0 of a digital node; copies: how often its weights are stored; arrays: of all copies,
    which with mapping "sdk" may share some, 0 where another stage has them; batches: ceil(blocks / copies),
    where a block is one window unless `block` says otherwise.

    normal_op, pre_op, tail, op: terms of the tight recurrence in steps (docs/sources/model.md 5);
    start, finish: exact steps (docs/sources/model.md 4). cycles: ticks that a batch lasts; None, and left
    out of files, unless stages have clocks of their own: all times are ticks then (docs/sources/model.md 11).
    utilisation: share of the cells of its arrays that hold weights; there where `block` is. weight_bits,
    input_bits: there where a layer of the network has bits of its own; kind: of its arrays, where there are
    several.

    LayerFigures: there where the hardware gives them, of a digital node never; rows_used, columns_used:
    wordlines and bitlines in use of all arrays that a full batch reads (docs/sources/model.md 12).
    """

    name: Name
    windows: PositiveCount
    arrays_per_copy: Annotated[int, Field(ge=0)]
    copies: PositiveCount
    arrays: Annotated[int, Field(ge=0)]
    batches: PositiveCount
    normal_op: Steps
    pre_op: Steps
    tail: int
    op: Steps
    start: Steps
    finish: Steps
    cycles: PositiveCount | None = None
    utilisation: float | None = Field(None, exclude_if=absent)
    weight_bits: int | None = None
    input_bits: int | None = None
    kind: str | None = None
    rows_used: int | None = None
    columns_used: int | None = None


class TimedResult(NetworkResult, EnergyArea):
    """Exact times of one allocation, with what they are about and what they leave out.

    makespan, interval: steps, or ticks of tick_ns where stages have their own clocks; step_ns, latency_ns,
    throughput_per_s: None without [timing]; energy and area as in EnergyArea.
    """

    rows_in = "layers"

    makespan: Steps
    interval: Steps
    step_ns: float | None
    latency_ns: float | None
    throughput_per_s: float | None
    tick_ns: float | None = Field(None, exclude_if=absent)
    if TYPE_CHECKING:
        layers: tuple[Layer, ...]  # stands last in files

    @property
    def time_unit(self) -> str:
        """ "step", or "tick" where stages have their own clocks."""
        return "tick" if any(layer.cycles is not None for layer in self.layers) else "step"

    @property
    def unit_ns(self) -> float | None:
        """Length of a step or tick; None where the hardware does not give it."""
        return self.step_ns or self.tick_ns


class Progress(Record):
    """Best makespan and lower bound, in steps or ticks, after that many seconds of counted work."""

    work_s: float
    makespan: Steps
    lower_bound: Steps


class EdgeDelay(Record):
    """Transfer from one layer to another; ticks: from the end of a batch until its pixels can be used."""

    producer: Name
    consumer: Name
    ticks: Steps


class LayerPlaces(Record):
    """Places of the copies of a layer.

    stripe: row blocks of which the blocks of a copy fill its pieces together; pieces: rows of copy (of what
    shares arrays the first), row and column of chip and tile, and arrays there.
    """

    layer: Name
    stripe: PositiveCount
    pieces: tuple[Piece, ...]


class Placed(Record):
    """Transfer between tiles that `optimize --placed` found; the step time then includes it.

    With own clocks it delays edges instead, and layers with overloaded links have more cycles.

    rounds: allocations that were placed, of which this is the best; converged: whether its transfers take no
    time beside the rest; transfer_ns: time in which the outputs of one step of each layer reach their
    readers' tiles; delays: of edges with own clocks, None otherwise.
    """

    rounds: PositiveCount
    converged: bool
    transfer_ns: dict[Name, float]
    delays: tuple[EdgeDelay, ...] | None = Field(None, exclude_if=absent)


class Allocation(TimedResult):
    """Copies of every layer, their exact timing, and the largest distance from the optimum.

    objective_value, lower_bound: of the objective, in objective_unit, such as "steps", "ns" or "pJ"; no
    allocation within the budget is below lower_bound; gap: (objective_value - lower_bound) / objective_value;
    proof: what shows the bound, in words; stopped: why the search ended (None in files of older versions);
    work_s: work of the search in seconds of a reference core, counted and not measured, so that equal runs
    give equal files (None for methods that do not count it); history: how best and bound met; host: weight
    layers left to the host, untimed; placed, places: None unless the step includes the transfer between these
    places; sensitivity: sum over all layers to the bits that were chosen for them, None unless they were.
    """

    format: Literal["rramalloc-allocation/2"] = FORMAT
    options: Options
    objective: ObjectiveName
    objective_value: int | float
    objective_unit: Unit
    method: str
    seed: int
    work_s: float | None
    arrays: Arrays
    lower_bound: int | float
    gap: float
    proof: str
    status: Status = Field(default_factory=of_fields)
    stopped: Stopped | None = Field(None, exclude_if=absent)
    layers: tuple[Layer, ...]
    history: tuple[Progress, ...] = ()
    host: tuple[str, ...] = ()
    placed: Placed | None = Field(None, exclude_if=absent)
    places: tuple[LayerPlaces, ...] | None = Field(None, exclude_if=absent)
    sensitivity: float | None = Field(None, exclude_if=absent)

    @property
    def bits(self) -> FrozenDict[str, tuple[int, int]]:
        """(weight bits, input bits) of every layer; empty where none has bits of its own."""
        return FrozenDict(
            {
                layer.name: (layer.weight_bits, layer.input_bits)
                for layer in self.layers
                if layer.weight_bits is not None and layer.input_bits is not None
            }
        )

    @property
    def copies(self) -> FrozenDict[str, int]:
        """Copies of every layer on arrays by name, in network order."""
        return FrozenDict({layer.name: layer.copies for layer in self.layers if layer.arrays_per_copy})

    @property
    def blocks(self) -> FrozenDict[str, Pair]:
        """Windows (height, width) that a copy of each layer computes in a step; empty without modes."""
        return FrozenDict(
            {
                layer.name: layer.block
                for layer in self.layers
                if layer.arrays_per_copy and layer.block is not None
            }
        )

    @property
    def proven(self) -> str:
        """Words for a result without a gap: "proven optimal", and for how much of the network."""
        return f"proven optimal{self.coverage.extent if self.coverage else ''}"

    def _headline(self) -> tuple[str, str]:
        arrays = self.arrays.words
        end = self.proven if self.gap == 0 else f"at most {share(self.gap)} from optimal"
        return self.network.name, f"{counted(self.makespan, self.time_unit)} on {arrays}, {end}"
