"""Subject: the allocation that is exported, with everything that a target may want to know of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from rramalloc.allocation.allocation_input import AllocationInput
from rramalloc.allocation.case import Case
from rramalloc.allocation.goes_with import OF_CASE, check
from rramalloc.allocation.optimize import kind_of
from rramalloc.allocation.remedies import Works, chip_words, more_chips
from rramalloc.commands.export.bundle import Remark, remark
from rramalloc.commands.export.room import ROOM
from rramalloc.commands.place.check import check_placement
from rramalloc.commands.place.placement import Placement
from rramalloc.errors import BudgetError, RramallocError, SpecError, UnsupportedError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.tables import MAX_LINES
from rramalloc.hardware.values import HardwareValues
from rramalloc.mapping.demand import block_arrays, demands
from rramalloc.mapping.mode import PLAIN, LayerArray, array_of
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.geometry import Pair
from rramalloc.network.network import Network
from rramalloc.network.node import Conv, Node, Stage
from rramalloc.timing.simulate import copies_by_name
from rramalloc.timing.stage_graph import StageGraph

ALLOCATED_ANEW = ("layer_bits", "sdk", "host")
"""Features of a case that another allocation does not have."""
OTHERS = "export to json or csv"
"""Remedy for what no simulator takes."""
LISTED = "`rramalloc export --check` without --to lists the tools that take this network"
"""Remedy if a tool cannot express a network."""
_MOST_DOUBLINGS = 6
"""Doublings of the chips that are tried for a network that a tool cannot store on those there are."""
_MOST_TRIES = 4
"""Budgets that are tried one after another, as `remedies.of_budget` does."""


@dataclass(frozen=True, eq=False)
class Subject:
    """An allocation that is exported, or a change of it that is tried as a remedy.

    copies: of every stage by name, in network order; source: the allocation as it was read, with its file
    for messages and its user's limits; tool: for which it is exported, as its authors write it (`for_tool`);
    layers_only: whether a tool that reads chains gets the layers of any network, without what joins them.
    Of a change: is_tried: True, then errors have no remedies; origin: the subject that was changed; anew:
    options with which it has to be allocated first, if that has modes.
    """

    network: Network
    graph: StageGraph
    copies: MappingOf[str, int]
    hardware: Hardware
    options: MappingOptions
    placement: Placement | None
    source: AllocationInput
    tool: str = ""
    is_tried: bool = False
    anew: tuple[str, ...] = ()
    origin: Subject | None = None
    layers_only: bool = False

    @classmethod
    def build(cls, network: Network, source: AllocationInput, placement: Placement | None = None) -> Subject:
        """Check that the allocation and the placement belong to the network and to each other.

        Raises SpecError, MisplacedError, UnsupportedError.
        """
        graph = StageGraph.build(network, source.options)
        graph = graph.in_modes(source.modes(graph, source.hardware.kinds))
        counts = copies_by_name(graph, source.copies, source.where).tolist()
        copies = {graph.names[stage]: counts[stage] for stage in graph.network_order}
        subject = cls(network, graph, copies, source.hardware, source.options, placement, source)
        if placement is not None:
            _check_placement(subject, placement)
        return subject

    @cached_property
    def blocks(self) -> dict[str, Pair]:
        """Windows (height, width) that a copy of each stage computes in a step."""
        return dict(zip(self.graph.names, self.graph.blocks, strict=True))

    def on(self, hardware: Hardware) -> Subject:
        """Return the same copies on another hardware, to try whether a tool takes them."""
        return replace(self, hardware=hardware, is_tried=True, origin=self.origin or self)

    @property
    def without_chip(self) -> Subject:
        """The same copies on as many tiles as they need."""
        return self.on(self.hardware.model_copy(update={"chip": None}))

    @property
    def plain(self) -> Subject:
        """One copy of every layer, in one precision, without modes, to try whether a tool takes the network.

        Its bits are the most of a layer.
        """
        options = self.options.changed(mapping="im2col" if self.options.mapping == "sdk" else None, host=())
        bits = self.most_bits
        network = self.network.with_bits(dict.fromkeys((stage.name for stage in self.network.stages), bits))
        graph = StageGraph.build(network, options)
        copies = dict.fromkeys((graph.names[stage] for stage in graph.network_order), 1)
        anew = ("--mapping im2col",) if self.options.mapping == "sdk" else ()
        plain = replace(self, network=network, graph=graph, copies=copies, options=options, anew=anew)
        # Tools read the bits of all layers from the hardware, as `for_tool` returns it.
        common = self.hardware.precision.model_copy(update={"weight_bits": bits[0], "input_bits": bits[1]})
        hardware = self.hardware.model_copy(update={"precision": common})
        plain = replace(plain, hardware=hardware, origin=self.origin or self)
        return replace(plain, is_tried=self.has("layer_bits") or self.has("host"))

    @property
    def is_plain(self) -> bool:
        """Whether its mapping, its bits and its layers on arrays are such that every tool could take them."""
        return not any(map(self.has, ALLOCATED_ANEW))

    def has(self, feature: str) -> bool:
        """Return True if its case has a feature."""
        return bool(OF_CASE[feature].is_in(self.case(self.options.mapping)))

    @property
    def most_bits(self) -> tuple[int, int]:
        """Largest number of bits of weights, and of inputs, of all layers."""
        precisions = [self.hardware.precision.of_layer(stage) for stage in self.network.stages]
        return max(precision.weight_bits for precision in precisions), max(
            precision.input_bits for precision in precisions
        )

    def check_tool(self, tool: str, fitting: Fitting | None = None) -> None:
        """Raise UnsupportedError for what no simulator takes, such as blocks of windows (mapping "sdk").

        fitting: says how allocations are sure to fit the chip of a tool that counts arrays in another way.
        """

        def remedies(feature: str) -> Sequence[str]:
            """Return how to allocate anew where that helps; other tools take the rest."""
            return [*(self.allocated_for(tool, fitting) if feature in ALLOCATED_ANEW else ()), OTHERS]

        check(tool, ROOM.reads["--to TOOL"], self.case(self.options.mapping), remedies=remedies)

    def allocated_for(self, tool: str, fitting: Fitting | None) -> list[str]:
        """Return in words how to make an allocation that a tool takes; none if the chip has too few arrays.

        The words name all options that must change: modes, bits, layers on the host, arrays.
        """
        bits = "give all layers the same weight_bits and input_bits ({} and {}) and ".format(*self.most_bits)
        first = bits if self.has("layer_bits") else ""
        last = " without --host" if self.has("host") else ""
        plain = replace(self.plain, tool=tool)
        allocations = plain.allocated() if fitting is None or self.hardware.chip is None else fitting(plain)
        return [f"{first}{words}{last}" for words in allocations]

    def for_tool(self, tool: str, fitting: Fitting | None = None) -> Subject:
        """Return the subject for a tool without modes that has one precision, which all layers must share.

        fitting: as in `check_tool`. Raises UnsupportedError.
        """
        self.check_tool(tool, fitting)
        common = self.hardware.precision.of_layer(self.network.stages[0])
        return replace(self, hardware=self.hardware.model_copy(update={"precision": common}), tool=tool)

    def arrays(self, stage: Stage, copies: int) -> int:
        """Return the arrays that copies of a stage take together; with mapping "sdk" they may share some."""
        own = self.engine(stage)
        if self.options.mapping == "sdk" and own.processor is None:
            modes = block_arrays(self.network, stage, own, self.blocks[stage.name])
            return modes.arrays(copies)
        return copies * self.demand[stage.name]

    def kind(self, stage: Stage) -> str | None:
        """Return the name of the kind of a stage, None where there is one kind."""
        modes = dict(zip(self.graph.names, self.graph.modes, strict=True))
        return kind_of(self.hardware, modes[stage.name])

    def engine(self, stage: Stage) -> LayerArray:
        """Return the hardware with the arrays, or the digital units, of the kind of a stage."""
        modes = dict(zip(self.graph.names, self.graph.modes, strict=True))
        return array_of(self.hardware, stage, modes.get(stage.name, PLAIN))

    @cached_property
    def demand(self) -> dict[str, int]:
        """Arrays of one copy of every weight layer, host layers included. Raises SpecError."""
        return {
            stage.name: demands(self.network, [stage], self.engine(stage), self.options)[0]
            for stage in self.network.stages
        }

    def dense_arrays(self, stage: Stage, columns: int) -> int:
        """Return the arrays of one copy as tools count them: in im2col, a grouped convolution as if it were
        dense.

        columns: outputs that lie side by side on an array.
        """
        rows = stage.kernel[0] * stage.kernel[1] * self.network.input_shape(stage).channels
        outputs = self.network.shapes[stage.name].channels
        return -(-rows // self.hardware.crossbar.wordlines) * -(-outputs // columns)

    def counted_otherwise(self, theirs: MappingOf[str, int], reason: str) -> list[Remark]:
        """Return remarks on the layers of which a tool stores copies in other arrays, and on classifiers.

        theirs: arrays of a copy as the tool counts them; reason: why they are not ours.
        """
        remarks = []
        for stage in self.network.stages:
            need = theirs[stage.name]
            ours = self.demand[stage.name]
            if need != ours and stage.groups > 1:
                text = f"{stage.groups} groups count as a dense convolution: {need} arrays a copy, not {ours}"
                remarks.append(remark("changed", text, stage.name))
            elif need != ours:
                remarks.append(remark("changed", f"{need} arrays a copy, not {ours}: {reason}", stage.name))
            if self.network.is_classifier(stage):
                text = f"stored once on {need} arrays, whoever computes it here"
                remarks.append(remark("changed", text, stage.name))
        return remarks

    def check_plain(self, node: Conv) -> None:
        """Raise UnsupportedError for a convolution with groups or dilation."""
        if node.groups > 1:
            raise self.refused(f"has no grouped convolution, this one has {node.groups} groups", node)
        if is_dilated(node):
            raise self.refused(f"has no dilated convolution, this one has {node.dilation}", node)

    def refused(
        self, reason: str, node: Node | None = None, advise: Callable[[], Sequence[str]] | None = None
    ) -> UnsupportedError:
        """Return the error that the tool cannot express the subject, or a node of it; reason: in words.

        advise: returns remedies that were tried; without it, or if none helps, other tools are the remedy.
        """
        place = "" if node is None else f": node {node.name[:60]!r} ({node.op})"
        remedies = [] if self.is_tried or advise is None else advise()
        where = f"{self.network.where}{place}"
        return UnsupportedError(where, f"{self.tool} {reason}", remedies or [LISTED])

    @property
    def growing_chips(self) -> Iterator[tuple[dict[str, object], int]]:
        """Values of hardware with 1, 2, 4 ... times the chips, each with its number of tiles."""
        chip = self.hardware.chip
        if chip is not None:
            yield {}, chip.tile_count
            for doublings in range(1, _MOST_DOUBLINGS + 1):
                rows, columns = chip.grid[1]
                yield {"chip.chips": [rows, columns << doublings]}, chip.tile_count << doublings

    def allocated_anew(self, mapping: str, arrays: int, values: HardwareValues) -> list[str]:
        """Return the remedy to allocate `arrays` of a changed hardware; none if they do not store all layers.

        values: of the hardware, by dotted name; the words leave out those that it has already.
        """
        current: dict[str, Any] = self.hardware.to_dict()
        new = {
            name: value
            for name, value in values.items()
            if current.get(name.partition(".")[0], {}).get(name.partition(".")[2]) != value
        }
        try:
            hardware = self.hardware.with_values(new) if new else self.hardware
            self.on(hardware).case(mapping).problem(arrays, advise=False)
        except RramallocError:
            return []
        tables = dict[str, list[str]]()
        for name, value in new.items():
            table, _, field = name.partition(".")
            tables.setdefault(table, []).append(f"{field} = {json.dumps(value)}")
        settings = " and ".join(f"[{table}] {', '.join(fields)}" for table, fields in tables.items())
        first = f"set {settings} in the hardware file and " if settings else ""
        return [f"{first}allocate with --mapping {mapping} and --arrays {arrays}"]

    def case(self, mapping: str) -> Case:
        """Return the case of a new allocation with another mapping, under the limits of the user."""
        return Case(
            self.network,
            self.hardware,
            self.options.changed(mapping=mapping),
            copies=self.source.limits,
            divide=self.source.divide,
            at_most=self.source.at_most,
        )

    @property
    def taken(self) -> int:
        """Arrays of all its copies."""
        stages = (stage for stage in self.network.stages if stage.name in self.copies)
        return sum(self.arrays(stage, self.copies[stage.name]) for stage in stages)

    def allocated(self, *options: str) -> list[str]:
        """Return the remedy to allocate with these options; none if no budget stores every layer.

        The words name the budget if it exceeds the arrays of the present allocation.
        """
        case = self.case(self.options.mapping)
        need = 1
        for _ in range(_MOST_TRIES):
            try:
                case.problem(need, advise=False)
            except BudgetError as short:
                need += short.need - short.have
            except RramallocError:
                return []
            else:
                arrays = [f"--arrays {need}"] if need > (self.origin or self).taken else []
                words = " and ".join((*self.anew, *options, *arrays))
                return [f"allocate with {words}" if words else "allocate"]
        return []

    def on_more_chips(self, arrays: int, works: Works) -> list[str]:
        """Return the remedy of more chips, with `arrays` at least; none if no number of chips helps."""
        machine = None if self.anew else more_chips(self.hardware, arrays, works)
        return [] if machine is None else [self.exported_on(chip_words(machine))]

    def exported_on(self, values: str) -> str:
        """Return the remedy to export with other values of the hardware, without the placement."""
        alone = "" if self.placement is None else "without --placement and "
        return f"export it {alone}with a --hardware of {values}"

    def larger_crossbar(self, take: TakenPixels, fitting: Fitting | None = None) -> list[str]:
        """Return the remedy to allocate for the next larger arrays that a tool takes, if there are any."""
        rows = self.hardware.crossbar.wordlines
        columns = self.hardware.crossbar.bitlines
        doublings = range(1, (MAX_LINES // max(rows, columns)).bit_length())
        sizes = ((rows << doubled, columns << doubled) for doubled in doublings)
        return next(self.on_crossbars(sizes, take, fitting), [])

    def on_crossbars(
        self, sizes: Iterable[Pair], take: TakenPixels, fitting: Fitting | None = None
    ) -> Iterator[list[str]]:
        """Yield the remedies to allocate for arrays of each size with which a tool takes the subject.

        fitting: as in `check_tool`.
        """
        for rows, columns in sizes:
            option = f"--crossbar {rows}x{columns}"
            try:
                other = self.on(self.hardware.with_crossbar(rows, columns))
                if fitting is not None and self.hardware.chip is not None:
                    remedies = [f"{words} and {option}" for words in fitting(other)]
                else:
                    take(other)
                    remedies = other.allocated(option)
            except RramallocError:
                continue
            if remedies:
                yield remedies


def is_taken(take: TakenPixels, subject: Subject) -> bool:
    """Return True if a tool can express a subject."""
    try:
        take(subject)
    except UnsupportedError:
        return False
    return True


def is_dilated(node: Node) -> bool:
    """Return True if a window skips pixels: dilation matters along axes with more than one kernel row."""
    kernel = getattr(node, "kernel", (1, 1))
    dilation = getattr(node, "dilation", (1, 1))
    return any(k > 1 and step > 1 for k, step in zip(kernel, dilation, strict=True))


def _check_placement(subject: Subject, placement: Placement) -> None:
    """Raise unless the placement holds this allocation of this network."""
    hardware = subject.hardware
    ours = (hardware.crossbar, hardware.precision, subject.options.mapping, set(subject.copies))
    theirs = (placement.hardware.crossbar, placement.hardware.precision, placement.options.mapping)
    if ours != (*theirs, {stage.name for stage in placement.options.timed_stages(subject.network)}):
        raise SpecError(
            "placement",
            "was made for other arrays, precision, mapping or layers on arrays: leave out --hardware, "
            "--mapping, --fc and --host",
        )
    kinds = subject.source.kinds
    check_placement(placement, subject.network, subject.copies, blocks=subject.blocks, kinds=kinds)


TakenPixels = Callable[[Subject], object]
"""Makes the files of a tool. Raises UnsupportedError for what it cannot express."""
Fitting = Callable[[Subject], list[str]]
"""Returns remedies in words: allocations for which a tool's chip is sure to have enough arrays."""
