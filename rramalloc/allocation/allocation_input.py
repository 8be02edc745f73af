"""Reads an allocation in any form: an object, its file, or copies by layer name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, cast

import numpy as np
from pydantic import ConfigDict, Field, TypeAdapter, field_validator

from rramalloc.allocation.allocation import (
    FORMAT,
    Allocation,
    BareAllocation,
    BlockSize,
    CaseOptions,
    EdgeDelay,
    Layer,
    LayerPlaces,
    NetworkId,
    PositiveCount,
)
from rramalloc.allocation.case import Case
from rramalloc.allocation.case_arguments import AllocationArguments
from rramalloc.allocation.goes_with import refusal
from rramalloc.allocation.limits import CopyLimits
from rramalloc.choices import Divided, Handoff, HostLike, NetworkArguments, ObjectiveName
from rramalloc.csv_rows import csv_rows, unescaped
from rramalloc.errors import SpecError
from rramalloc.files import CSV_LIMIT_BYTES, read_json, read_text
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.kinds import Kind
from rramalloc.hardware.loader import as_hardware, load_hardware
from rramalloc.hardware.preset_files import DEFAULT_PRESET
from rramalloc.hardware.tables import CrossbarLike, NonNegative, Processor
from rramalloc.importers import NetworkLike, network_of
from rramalloc.mapping.mode import Mode, ModeOfEach
from rramalloc.mapping.modes import smallest_block
from rramalloc.mapping.options import DEFAULT_MAPPING, MappingOptions
from rramalloc.network.counts import weights
from rramalloc.network.geometry import Pair
from rramalloc.network.network import Network
from rramalloc.network.node import Name, Stage
from rramalloc.records import Record, brief, check_known, parse
from rramalloc.room import load_from
from rramalloc.timing.access import StepTime, Transfer
from rramalloc.timing.clocks import timed_graph
from rramalloc.timing.latency_table import LatencyTableLike
from rramalloc.timing.measured_steps import MeasuredSteps, measured_steps
from rramalloc.timing.simulate import (
    ExactTiming,
    blocks_by_name,
    copies_by_name,
    cycles_by_name,
    simulate,
)
from rramalloc.timing.stage_graph import StageGraph
from rramalloc.upgrade import upgraded

AllocationLike = (
    Allocation
    | MappingOf[str, int]
    | MappingOf[str, MappingOf[str, int | str | Sequence[int]]]
    | str
    | os.PathLike[str]
)
"""An Allocation, copies by layer name, or what a bare allocation file says, or the path of a file."""


_NO_TRANSFER = (
    "the transfer between tiles that the allocation counts is left out: it is that of its own hardware, "
    "options and step times; for others, optimize with --placed"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationInput:
    """Modes of the layers by name, and the other contents of an allocation file.

    copies: one for layers left out; blocks: windows (height, width) that a copy computes in a step, the
    smallest block for layers left out; kinds: of arrays, where the hardware has several; cycles: ticks that
    a batch lasts, 1 for layers left out, empty where all layers step together or the hardware says how long
    each takes; delays, transfer_ns: ticks of transfer between layers, and time in which the outputs of a
    step of each layer reach their readers' tiles, by the placement that it was optimised for, which are
    part of its time; places: of its pieces on that hardware; left_out: what its time lacks, and what a call
    said in place of the file, in words; stated: what the file says of every layer that follows from the
    rest; bits: of weights and inputs of layers, where the file states them; where: how messages call it;
    measured: step times that replace those of the hardware; network: the one it was made for, None where it
    is not said;
    objective: what it was optimised for, "interval" also of a target of it; limits, divide, at_most: the
    fewest and the most copies of layers that were held or limited, of what copies had to be divisors, and
    limits of other quantities; sequences: that take turns in its network, None where that does not feed back;
    states: layers that read a state, by the stage that writes it.
    """

    copies: MappingOf[str, int]
    where: str
    blocks: MappingOf[str, Pair] = field(default_factory=dict)
    kinds: MappingOf[str, str] = field(default_factory=dict)
    cycles: MappingOf[str, int] = field(default_factory=dict)
    delays: tuple[EdgeDelay, ...] = ()
    hardware: Hardware = field(default_factory=partial(load_hardware, DEFAULT_PRESET))
    options: MappingOptions = DEFAULT_MAPPING
    measured: MeasuredSteps | None = None
    network: NetworkId | None = None
    objective: ObjectiveName = "latency"
    limits: CopyLimits = field(default_factory=dict)
    divide: Divided | None = None
    at_most: MappingOf[str, float] = field(default_factory=dict)
    transfer_ns: MappingOf[str, float] = field(default_factory=dict)
    places: tuple[LayerPlaces, ...] = ()
    left_out: tuple[str, ...] = ()
    sequences: int | None = None
    states: MappingOf[str, str] = field(default_factory=dict)
    bits: MappingOf[str, tuple[int, int]] = field(default_factory=dict)
    stated: MappingOf[str, MappingOf[str, int]] = field(default_factory=dict)

    def differences(self, rows: Iterable[Record]) -> list[str]:
        """Return in a line the fields of layers that differ from the file; rows: of layers, computed anew."""
        other = [
            f"{name} of {brief(layer)} is {found}, stated is {stated}"
            for row in rows
            for layer in [str(getattr(row, "name", ""))]
            for name, stated in self.stated.get(layer, {}).items()
            if (found := getattr(row, name, None)) is not None and found != stated
        ]
        more = f", and {len(other) - _SHOWN} more" if len(other) > _SHOWN else ""
        return [f"{self.where}: derived anew: {'; '.join(other[:_SHOWN])}{more}"] if other else []

    @property
    def bare(self) -> BareAllocation:
        """Its copies and blocks as results keep them."""
        blocks = {name: block for name, block in self.blocks.items() if block != (1, 1)}
        return BareAllocation(copies=dict(self.copies), kind=dict(self.kinds), block=blocks)

    def graph(self, network: Network, stages: StageGraph | None = None) -> StageGraph:
        """Return the stages of a network, with their own clocks if its hardware says so. Raises SpecError.

        stages: those of this network and these options, if they were traced before.
        """
        graph = timed_graph(network, self.hardware, self.options, self.measured, stages)
        if not self.delays:
            return graph
        number = {name: stage for stage, name in enumerate(graph.names)}
        for delay in self.delays:
            for name in (delay.producer, delay.consumer):
                if name not in number:
                    raise SpecError(self.where, f"placed.delays: the network has no stage {name[:60]!r}")
        lags = {(number[delay.producer], number[delay.consumer]): delay.ticks for delay in self.delays}
        return graph.delayed(lags)

    def step_time(self, graph: StageGraph) -> StepTime | None:
        """Return the step time on a graph of its network, with the transfers of its placement if it has one.

        None if nothing gives a time. With own clocks transfers delay edges instead (`graph`). Raises
        UnknownNameError for a transfer of no stage.
        """
        found = StepTime.of(graph, self.hardware, self.measured)
        for name in self.transfer_ns:
            check_known(f"{self.where}: placed.transfer_ns", name, graph.names)
        if found is None or not self.transfer_ns or graph.unit == "ticks":
            return found
        fixed_ns = np.array([self.transfer_ns.get(name, 0.0) for name in graph.names])
        return replace(found, transfer=Transfer(fixed_ns, np.zeros_like(fixed_ns)))

    def timing(self, graph: StageGraph, handoff: Handoff = "next") -> ExactTiming:
        """Return the exact timing on a graph of its network. Raises SpecError."""
        graph = self.in_blocks(graph)
        cycles = cycles_by_name(graph, self.cycles, self.where) if self.cycles else None
        return simulate(graph, copies_by_name(graph, self.copies, self.where), handoff, cycles)

    def in_blocks(self, graph: StageGraph) -> StageGraph:
        """Return the graph of its network with its blocks.

        Raises SpecError for a block that its layer cannot have, or that the mapping of the options cannot.
        """
        blocks = graph.in_modes(self.modes(graph, self.hardware.kinds))
        if blocks.blocks != graph.blocks and self.options.mapping not in ("sdk", "im2col"):
            raise SpecError(
                self.where,
                f"block: mapping {self.options.mapping!r} stores whole kernels apart and has no blocks of "
                f"windows: use 'sdk', or leave the blocks out",
            )
        return blocks

    def modes(self, graph: StageGraph, known: Sequence[Kind] | None) -> ModeOfEach:
        """Return the mode of every stage: its block and the kind of its arrays.

        known: the kinds of the hardware, None where it has one. Raises SpecError for a block or a kind that
        is not there, and where kinds must be named.
        """
        blocks = blocks_by_name(graph, self.blocks, self.where)
        if known is None:
            if self.kinds:
                raise SpecError(self.where, "kind: the hardware has no [[kinds]]: leave kind out")
            return tuple(Mode(*block) for block in blocks)
        number = {kind.name: place for place, kind in enumerate(known)}
        for name, kind in self.kinds.items():
            check_known(f"{self.where}: kind.{name[:60]}", kind, tuple(number))
            check_known(f"{self.where}: kind", name, graph.names)
        stored = zip(graph.names, graph.weighted, strict=True)
        missing = [name for name, on_arrays in stored if on_arrays and name not in self.kinds]
        if missing:
            words = f"must name the kind of arrays ({', '.join(number)}) of every layer"
            raise SpecError(self.where, f"kind: {words}, {missing[0][:60]!r} is missing")
        pairs = zip(graph.names, blocks, strict=True)
        kinds = {name: number[kind] for name, kind in self.kinds.items()}
        for stage, block in zip(graph.stages, blocks, strict=True):
            processor = known[kinds.get(stage.name, 0)].processor
            if isinstance(stage, Stage) and processor is not None:
                self._check_on_unit(graph.network, stage, block, processor)
        return tuple(Mode(*block, kind=kinds.get(name, 0)) for name, block in pairs)

    def _check_on_unit(self, network: Network, stage: Stage, block: Pair, processor: Processor) -> None:
        """Raise SpecError if a digital unit computes no such block, or the layer does not fit it."""
        where, least = stage.name[:60], smallest_block(stage)
        if block != least:
            words = f"digital units compute {least[0]} x {least[1]} windows, got [{block[0]}, {block[1]}]"
            raise SpecError(self.where, f"block.{where}: {words}: leave it out, or name a kind of arrays")
        bits = weights(network, stage) * self.hardware.precision.of_layer(stage).weight_bits
        if not processor.holds(bits):
            words = f"has {-(-bits // 8):,} bytes of weights, more than its digital unit holds"
            raise SpecError(self.where, f"kind.{where}: {words}: name another kind")

    def without_blocks(self, network: Network, reader: str) -> AllocationInput:
        """Return itself. Raises UnsupportedError if copies compute blocks, which `reader` cannot read."""
        for stage in network.stages:
            block = self.blocks.get(stage.name, smallest_block(stage))
            if block != smallest_block(stage):
                raise refusal("sdk", reader, f"{self.where}: block.{stage.name[:60]}")
        return self

    def changed(
        self,
        *,
        hardware: Hardware | None = None,
        mapping: str | None = None,
        fc: str | None = None,
        fold: bool | None = None,
        host: HostLike | None = None,
    ) -> AllocationInput:
        """Return the same copies with the given arguments; other hardware drops measured step times.

        Transfers of a placement hold for its hardware and options alone. Raises SpecError, UnknownNameError.
        """
        options = self.options.changed(mapping=mapping, fc=fc, fold=fold, host=host)
        changed = self if options == self.options else replace(self.without_transfer(), options=options)
        if self.network is not None and (options, hardware or self.hardware) != (self.options, self.hardware):
            changed = replace(changed, stated={})  # of a file that says on which hardware
        if hardware is None:
            return changed
        tables = [table for table in _OF_PLACES if getattr(hardware, table) != getattr(self.hardware, table)]
        if tables and not (self.places and tables == ["chip"] and _differ_in_links(hardware, self.hardware)):
            changed = changed.without_transfer()
        return replace(changed, hardware=hardware, measured=None)

    def without_transfer(self) -> AllocationInput:
        """Return the same copies without the transfers of their placement, and note that in `left_out`."""
        if not self.transfer_ns:
            return self
        unslowed = replace(self, cycles={}, delays=(), transfer_ns={}, places=())  # links slowed batches down
        return replace(unslowed, left_out=(*self.left_out, _NO_TRANSFER))

    def with_arguments(
        self,
        network: Network,
        given: AllocationArguments,
        crossbar: CrossbarLike | None = None,
        fold: bool | None = None,
        latency_table: LatencyTableLike | None = None,
    ) -> AllocationInput:
        """Return the same copies with the arguments of a call instead of its own. Raises RramallocError."""
        hardware, values = given.get("hardware"), given.get("set_values")
        machine = as_hardware(self.hardware if hardware is None else hardware, crossbar, values)
        changed = self.changed(
            mapping=given.get("mapping"), fc=given.get("fc"), fold=fold, host=given.get("host")
        )
        known = self.measured if hardware is None else None
        measured = measured_steps(latency_table, network, changed.options, machine, known)
        if any(new is not None for new in (hardware, crossbar, values, latency_table)):
            changed = changed.changed(hardware=machine)
        changed = replace(changed, measured=measured)
        changed = changed._naming_what_is_replaced(self, network, latency_table)
        if changed.places and (changed.hardware, changed.measured) != (self.hardware, self.measured):
            timed: AllocationInput = load_from("place", "placer:timed_again", "places")(network, changed)
            return timed
        return changed._with_slower_batches(self, network) if changed.cycles else changed

    def _naming_what_is_replaced(
        self, before: AllocationInput, network: Network, latency_table: LatencyTableLike | None
    ) -> AllocationInput:
        """Return it with the names of what a call says in place of the file, which is `before`."""
        if self.network is None:
            return self
        options = {name: getattr(before.options, name) for name in _OPTIONS}
        replaced = [name for name, value in options.items() if getattr(self.options, name) != value]
        replaced += ["hardware"] if self.hardware != before.hardware else []
        replaced += ["latency table"] if latency_table is not None and before.measured is not None else []
        replaced += ["sequences"] if network.sequences != before.sequences else []
        replaced += ["states"] if network.states != before.states else []
        words = [f"{name}: of this call, in place of what {self.where} says" for name in replaced]
        return replace(self, left_out=(*self.left_out, *words))

    def _with_slower_batches(self, before: AllocationInput, network: Network) -> AllocationInput:
        """Return it with batches that last as long as its hardware says, or as links have slowed them down.

        before: the same copies on the hardware that their cycles are of.
        """
        if not (self.transfer_ns and self.hardware.own_clock):
            return self
        graphs = [given.in_blocks(given.graph(network)) for given in (before, self)]
        copies = copies_by_name(graphs[0], self.copies, self.where)
        old, new = (graph.batch_ticks(copies).tolist() for graph in graphs)
        cycles = {
            name: max(ticks, self.cycles[name] if self.cycles.get(name, 0) > before_ticks else 0)
            for name, before_ticks, ticks in zip(graphs[0].names, old, new, strict=True)
        }
        return replace(self, cycles=cycles)

    def network_of(self, network: NetworkLike, given: NetworkArguments) -> Network:
        """Return the network that a call describes, with the turns and bits that the allocation states.

        Turns of the call, and bits that the network gives itself, come first. Raises as `load`, SpecError.
        """
        source = network_of(network, {**given, "feeds_back": None, "sequences": None, "states": None})
        feeds_back, sequences = given.get("feeds_back"), given.get("sequences")
        states = given.get("states")
        if feeds_back is None and self.network is not None:
            is_turning = self.sequences is not None
            feeds_back = None if is_turning is (source.sequences is not None) else is_turning
            sequences = sequences or self.sequences
            states = self.states if states is None else states
        source = source.in_turns(feeds_back, sequences, states)
        if self.network is None or not source.is_of(self.network.sha256):
            return source
        known = self.hardware.precision.weight_bits, self.hardware.precision.input_bits
        left = {
            stage.name: (stage.weight_bits or bits[0], stage.input_bits or bits[1])
            for stage in source.stages
            if None in (stage.weight_bits, stage.input_bits)
            and (bits := self.bits.get(stage.name, known)) != known
        }
        return source.with_bits(left) if left else source

    def made_for(self, network: Network) -> AllocationInput:
        """Return itself. Raises SpecError if it was made for another network, or for other bits."""
        if self.network is None:
            return self
        if not network.is_of(self.network.sha256):
            raise SpecError(
                self.where,
                f"was made for another network, {self.network.name[:60]!r}, not for {network.name[:60]!r} as "
                f'it is given: give that network, or only {{"copies": {{...}}}}',
            )
        for stage in network.stages:
            own = stage.weight_bits, stage.input_bits
            of_file = self.bits.get(stage.name, own)
            if any(bits not in (None, stated) for bits, stated in zip(own, of_file, strict=True)):
                raise SpecError(
                    self.where,
                    f"was made for {of_file[0]} bits of weights and {of_file[1]} of inputs in layer "
                    f"{stage.name[:60]!r}, the network has {own[0]} and {own[1]}: give the network without "
                    f'bits, or only {{"copies": {{...}}}}',
                )
        return self


_OF_PLACES = ("crossbar", "precision", "counting", "chip", "kinds")
"""Tables of the hardware that the places of arrays, and the transfers between them, depend on."""
_LINKS = ("hop_ns_tile", "hop_ns_chip", "bandwidth_tile_gb_s", "bandwidth_chip_gb_s")
"""Fields of [chip] that places do not depend on."""
_OPTIONS = ("mapping", "fold", "fc", "host")
"""Options of an allocation that a call may replace."""


def _differ_in_links(one: Hardware, other: Hardware) -> bool:
    """Return True if the chips of two hardwares differ in the times and bandwidths of links alone."""
    chips = [None if each.chip is None else each.chip.model_dump(exclude={*_LINKS}) for each in (one, other)]
    return chips[0] is not None and chips[0] == chips[1]


def read_case(
    network: NetworkLike,
    allocation: AllocationLike,
    given: AllocationArguments,
    *,
    origin: str = "allocation",
    crossbar: CrossbarLike | None = None,
    fold: bool | None = None,
    latency_table: LatencyTableLike | None = None,
) -> tuple[Case, AllocationInput]:
    """Return what an allocation is timed as, and the allocation itself: as its file says, or as a call does.

    That is its network with turns and bits, hardware, mapping, measured times, and the copies that were held.
    Raises RramallocError.
    """
    what = read_allocation(allocation, origin)
    source = what.network_of(network, given)
    what = what.with_arguments(source, given, crossbar, fold, latency_table)
    return Case(source, what.hardware, what.options, what.measured, what.limits, divide=what.divide), what


def read_allocation(allocation: AllocationLike, origin: str = "allocation") -> AllocationInput:
    """Return the content of an allocation; origin: its name in messages if it is no file.

    Raises FileError, SpecError.
    """
    if isinstance(allocation, Allocation):
        return _of_whole(allocation, origin)
    if isinstance(allocation, MappingOf):
        if any(isinstance(value, MappingOf) for value in allocation.values()):
            return _of_bare({**allocation}, origin)
        return AllocationInput(copies=cast("dict[str, int]", {**allocation}), where=origin)
    where = os.fspath(allocation)
    if where.lower().endswith(".csv"):
        return _of_table(read_text(allocation, CSV_LIMIT_BYTES), where)
    return _of_document(upgraded(read_json(allocation)), where)


_READ = ("name", "copies", "block", "kind")
"""Columns of a table that are read."""
_CELL = re.compile(r"[0-9]{1,18}")
_WHOLE = ("windows", "arrays_per_copy", "arrays", "batches", "start", "finish")
"""Columns that follow from the others, and are compared with what does."""
_OF_EXPORTS = "index op input output kernel stride pads dilation groups".split()
_COLUMNS = (*_READ, *_WHOLE, *sorted({*Layer.model_fields, *_OF_EXPORTS, "stall_steps"} - {*_READ, *_WHOLE}))
"""All columns that `optimize` and `export` write."""
_EXPORT = "rramalloc-export/2"
_SHOWN = 3  # differences that a note lists


def _of_table(text: str, where: str) -> AllocationInput:
    """Return the input of a table that `optimize --format csv` or `export --to csv` wrote."""
    document: dict[str, dict[str, Any]] = {"copies": {}, "block": {}, "kind": {}}
    stated: dict[str, dict[str, int]] = {}
    for place, row in csv_rows(text, where, _COLUMNS, ("name", "copies")):
        name = unescaped(row["name"])
        if name in stated:
            raise SpecError(place, f"{brief(name)} stands twice")
        numbers = {column: row[column] for column in ("copies", *_WHOLE) if row.get(column)}
        for column, cell in numbers.items():
            if not _CELL.fullmatch(cell):
                raise SpecError(place, f"{column}: must be a whole number, got {brief(cell)}")
        stated[name] = {column: int(numbers[column]) for column in _WHOLE if column in numbers}
        if stated[name].get("arrays_per_copy") == 0:  # a digital node has no copies
            continue
        document["copies"][name] = int(numbers.get("copies", "1"))
        if row.get("kind"):
            document["kind"][name] = row["kind"]
        if row.get("block"):
            sides = row["block"].split("x")
            if not all(map(_CELL.fullmatch, sides)):
                raise SpecError(place, f"block: must be such as 2x2, got {brief(row['block'])}")
            document["block"][name] = list(map(int, sides))
    return replace(_of_bare(document, where), stated=stated)


def _stated(layers: list[Any]) -> dict[str, dict[str, int]]:
    """Return the fields of every layer in a document that follow from its other fields."""
    return {
        layer["name"]: {column: layer[column] for column in _WHOLE if isinstance(layer.get(column), int)}
        for layer in layers
    }


class _Lenient(Record):
    """A part of an allocation file of which only some fields are read here."""

    model_config = ConfigDict(extra="ignore")


class _FileLayer(_Lenient):
    name: Name
    kind: str | None = None
    arrays_per_copy: Annotated[int, Field(ge=0)] = 1
    copies: PositiveCount
    block: BlockSize | None = None
    cycles: PositiveCount | None = None
    weight_bits: PositiveCount | None = None
    input_bits: PositiveCount | None = None


class _FilePlaced(_Lenient):
    delays: tuple[EdgeDelay, ...] | None = None
    transfer_ns: dict[Name, NonNegative] = Field(default_factory=dict)


class _FileOptions(CaseOptions, _Lenient):
    target_interval: PositiveCount | None = None
    target_interval_ns: float | None = None
    target_throughput: float | None = None


class _Document(_Lenient):
    """An allocation file as far as copies depend on it; whole files are read by their own type."""

    network: NetworkId | None = None
    hardware: Hardware = Field(default_factory=partial(load_hardware, DEFAULT_PRESET))
    options: _FileOptions = _FileOptions()
    objective: ObjectiveName = "latency"
    placed: _FilePlaced | None = None
    places: tuple[LayerPlaces, ...] | None = None
    layers: list[_FileLayer]

    @field_validator("network", mode="before")
    @classmethod
    def _with_hash(cls, value: object) -> object:
        return None if isinstance(value, dict) and value.get("sha256") is None else value


_BARE: TypeAdapter[BareAllocation] = TypeAdapter(BareAllocation)
_DOCUMENT: TypeAdapter[_Document] = TypeAdapter(_Document)


def _of_document(document: Any, where: str) -> AllocationInput:
    if not isinstance(document, dict):
        raise SpecError(where, f"must be an allocation or {{'copies': ...}}, got {brief(document)}")
    if "copies" in document:
        return _of_bare(document, where)
    if document.get("format") == _EXPORT:
        options = {name: document[name] for name in ("mapping", "fc", "host") if name in document}
        document = document | {"format": FORMAT, "options": options}
        for index, layer in enumerate(document.get("layers", ())):
            for name in layer if isinstance(layer, dict) else ():
                check_known(f"{where}: layers[{index}]: field", name, _COLUMNS)
    if document.get("format") != FORMAT:
        got = brief(document.get("format"))
        raise SpecError(where, f"format: must be {FORMAT!r}, or give 'copies' alone; got {got}")
    stated = parse(_DOCUMENT, document, where)
    seen: set[str] = set()
    for index, layer in enumerate(stated.layers):
        if layer.name in seen:
            raise SpecError(where, f"layers[{index}]: {brief(layer.name)} stands twice")
        seen.add(layer.name)
    return replace(_of_whole(stated, where), stated=_stated(document["layers"]))


_OF_INTERVAL = "target_interval", "target_interval_ns", "target_throughput"
"""Targets of the fewest arrays that are of the interval."""


def _of_whole(stated: Allocation | _Document, where: str) -> AllocationInput:
    """Return the input that a whole allocation states, of its layers on arrays."""
    placed = stated.placed or _FilePlaced()
    stored = [layer for layer in stated.layers if layer.arrays_per_copy]
    of_interval = any(getattr(stated.options, name) for name in _OF_INTERVAL)
    return AllocationInput(
        copies={layer.name: layer.copies for layer in stored},
        blocks={layer.name: layer.block for layer in stored if layer.block is not None},
        kinds={layer.name: layer.kind for layer in stored if layer.kind is not None},
        cycles={layer.name: layer.cycles for layer in stated.layers if placed.transfer_ns and layer.cycles},
        delays=placed.delays or (),
        where=where,
        hardware=stated.hardware,
        options=stated.options.changed(),
        measured=stated.options.latency_table,
        network=stated.network,
        objective="interval" if of_interval else stated.objective,
        limits=stated.options.copies or {},
        divide=stated.options.copies_divide,
        at_most=stated.options.at_most or {},
        transfer_ns=placed.transfer_ns,
        places=stated.places or (),
        sequences=stated.options.sequences,
        states=stated.options.states or {},
        bits={layer.name: _bits_of(layer, stated.hardware) for layer in stored},
    )


def _bits_of(layer: Layer | _FileLayer, hardware: Hardware) -> tuple[int, int]:
    """Return the bits of weights and inputs of a layer in a file, those of the hardware if it has none."""
    precision = hardware.precision
    return layer.weight_bits or precision.weight_bits, layer.input_bits or precision.input_bits


def _of_bare(document: dict[str, Any], where: str) -> AllocationInput:
    """Return the input that a bare allocation states; with blocks the mapping is `sdk`."""
    bare = parse(_BARE, document, where)
    options = DEFAULT_MAPPING.changed(mapping="sdk") if bare.block else DEFAULT_MAPPING
    return AllocationInput(
        copies=bare.copies,
        blocks=bare.block,
        kinds=bare.kind,
        cycles=bare.cycles,
        where=where,
        options=options,
    )
