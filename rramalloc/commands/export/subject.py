"""Subject: the allocation that is exported, with everything that a target may want to know of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from rramalloc.allocation.allocation_input import AllocationInput
from rramalloc.allocation.case import Case
from rramalloc.allocation.remedies import Works, chip_words, larger_crossbar, more_chips
from rramalloc.commands.export.bundle import Remark, remark
from rramalloc.commands.place.check import check_placement
from rramalloc.commands.place.placement import Placement
from rramalloc.errors import RramallocError, SpecError, UnsupportedError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.values import HardwareValues
from rramalloc.mapping.demand import block_arrays, demands
from rramalloc.mapping.mode import SINGLE
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.geometry import Pair
from rramalloc.network.network import Network
from rramalloc.network.node import Conv, Linear, Node, Stage
from rramalloc.timing.simulate import blocks_by_name, copies_by_name
from rramalloc.timing.stage_graph import StageGraph

LISTED = "`rramalloc export --check` without --to lists the tools that take this network"
"""Remedies if a tool cannot express a network."""
_MOST_DOUBLINGS = 6
"""Doublings of the chips that are tried for a network that a tool cannot store on those there are."""


@dataclass(frozen=True, eq=False)
class Subject:
    """copies: of every stage by name, in network order; where: the allocation's file, for messages.

    tool: for which it is exported, as its authors write it; see `for_tool`; is_tried: whether it is a change
    that may become advice, of whose refusal nothing is asked; anew: option with which it is to be allocated
    first, of a change that stands for an allocation of modes.
    """

    network: Network
    graph: StageGraph
    copies: MappingOf[str, int]
    hardware: Hardware
    options: MappingOptions
    placement: Placement | None
    where: str
    tool: str = ""
    is_tried: bool = False
    anew: str = ""

    @classmethod
    def build(cls, network: Network, source: AllocationInput, placement: Placement | None = None) -> Subject:
        """Check that the allocation and the placement belong to the network and to each other.

        Raises SpecError, MisplacedError, UnsupportedError.
        """
        graph = StageGraph.build(network, source.options)
        graph = graph.in_blocks(blocks_by_name(graph, source.blocks, source.where))
        counts = copies_by_name(graph, source.copies, source.where).tolist()
        copies = {graph.names[stage]: counts[stage] for stage in graph.network_order}
        subject = cls(network, graph, copies, source.hardware, source.options, placement, source.where)
        if placement is not None:
            _check_placement(subject, placement)
        return subject

    @cached_property
    def blocks(self) -> dict[str, Pair]:
        """Windows (height, width) that a copy of each stage computes in a step."""
        return dict(zip(self.graph.names, self.graph.blocks, strict=True))

    def on(self, hardware: Hardware) -> Subject:
        """Return the same copies on another hardware, to try what a tool says of it."""
        return replace(self, hardware=hardware, is_tried=True)

    @property
    def plain(self) -> Subject:
        """One copy of every layer, in one precision and no modes, to try what a tool says of the network."""
        options = self.options.changed(mapping="im2col" if self.options.mapping == "sdk" else None, host=())
        bits = self.hardware.precision.weight_bits, self.hardware.precision.input_bits
        network = self.network.with_bits(dict.fromkeys((stage.name for stage in self.network.stages), bits))
        graph = StageGraph.build(network, options)
        copies = dict.fromkeys((graph.names[stage] for stage in graph.network_order), 1)
        anew = "--mapping im2col and " if self.options.mapping == "sdk" else ""
        plain = replace(self, network=network, graph=graph, copies=copies, options=options, anew=anew)
        return replace(plain, is_tried=not self.has_one_precision or self.on_host is not None)

    @property
    def is_plain(self) -> bool:
        """Whether its mapping, its bits and its layers on arrays are such that every tool could take them."""
        return self.options.mapping != "sdk" and self.has_one_precision and self.on_host is None

    @property
    def on_host(self) -> Stage | None:
        """The first layer that is left to the host and no classifier, None for none."""
        host = (stage for stage in self.network.stages if stage.name not in self.copies)
        return next((stage for stage in host if not self.is_fully_connected(stage)), None)

    @property
    def has_one_precision(self) -> bool:
        """Whether all layers have the same bits of weights and inputs."""
        own = [self.hardware.precision.of_layer(stage) for stage in self.network.stages]
        return all(precision == own[0] for precision in own)

    def refuse_modes(self, tool: str, fitting: Fitting | None = None) -> None:
        """Raise UnsupportedError if copies compute blocks of windows or share arrays (mapping "sdk").

        fitting: says how allocations are sure to fit the chip of a tool that counts arrays in another way.
        """
        if self.options.mapping != "sdk":
            return
        place = self.where
        name, block = max(self.blocks.items(), key=lambda item: item[1][0] * item[1][1])
        if block != SINGLE:
            place += f": block [{block[0]}, {block[1]}] of {name[:60]!r}"
        raise UnsupportedError(
            place,
            f"{tool} stores each copy in arrays of its own and computes one window with it in a step; with "
            f"mapping 'sdk' copies share arrays and compute blocks",
            self.allocated_for(tool, fitting) or [LISTED],
        )

    def allocated_for(self, tool: str, fitting: Fitting | None) -> list[str]:
        """Return in words how to allocate what a tool takes, none where its chip has not enough room."""
        if fitting is not None and self.hardware.chip is not None:
            return fitting(replace(self.plain, tool=tool))
        return ["allocate with --mapping im2col" if self.options.mapping == "sdk" else "allocate"]

    def for_tool(self, tool: str, fitting: Fitting | None = None) -> Subject:
        """Return the subject for a tool without modes, and with one precision for all layers: that of the
        layers.

        fitting: as in `refuse_modes`.
        Raises UnsupportedError if layers have different bits of weights or inputs, mapping is "sdk", or the
        host has a layer that is no classifier.
        """
        if (stage := self.on_host) is not None:
            ways = [f"{way} without --host" for way in self.allocated_for(tool, fitting)]
            raise UnsupportedError(
                f"{self.network.where}: node {stage.name[:60]!r} ({stage.op})",
                f"is left to the host, {tool} computes all such layers on arrays",
                [*ways, "export to json or csv"],
            )
        self.refuse_modes(tool, fitting)
        own = {stage.name: self.hardware.precision.of_layer(stage) for stage in self.network.stages}
        (first, common), *others = own.items()
        for name, precision in others:
            if precision != common:
                bits = [f"{each.weight_bits}/{each.input_bits}" for each in (common, precision)]
                raise UnsupportedError(
                    f"{self.network.where}: nodes {first[:60]!r} and {name[:60]!r}",
                    f"{tool} has one precision for all layers, these have {bits[0]} and {bits[1]} bits of "
                    f"weights and inputs",
                    ["give all layers the same weight_bits and input_bits", "export to json or csv"],
                )
        return replace(self, hardware=self.hardware.model_copy(update={"precision": common}), tool=tool)

    def arrays(self, stage: Stage, copies: int) -> int:
        """Return the arrays that copies of a stage take together; with mapping "sdk" they may share some."""
        if self.options.mapping == "sdk":
            modes = block_arrays(self.network, stage, self.hardware, self.blocks[stage.name])
            return modes.arrays(copies)
        return copies * self.demand[stage.name]

    @cached_property
    def demand(self) -> dict[str, int]:
        """Arrays of one copy of every weight layer, host layers included. Raises SpecError."""
        stages = self.network.stages
        arrays = demands(self.network, stages, self.hardware, self.options)
        return dict(zip((stage.name for stage in stages), arrays, strict=True))

    def is_fully_connected(self, node: Node) -> bool:
        """Return True for a linear layer on a single pixel, wherever it is computed."""
        return isinstance(node, Linear) and self.network.shapes[node.name].pixels == 1

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
            need, ours = theirs[stage.name], self.demand[stage.name]
            if need != ours and stage.groups > 1:
                text = f"{stage.groups} groups count as a dense convolution: {need} arrays a copy, not {ours}"
                remarks.append(remark("changed", text, stage.name))
            elif need != ours:
                remarks.append(remark("changed", f"{need} arrays a copy, not {ours}: {reason}", stage.name))
            if self.is_fully_connected(stage):
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
        """Return the error for what the tool cannot express.

        advise: says what helps, each of which is tried; without it, or if nothing does, other tools may.
        """
        place = "" if node is None else f": node {node.name[:60]!r} ({node.op})"
        remedies = [] if self.is_tried or advise is None else advise()
        where = f"{self.network.where}{place}"
        return UnsupportedError(where, f"{self.tool} {reason}", remedies or [LISTED])

    @property
    def growing_chips(self) -> Iterator[tuple[dict[str, object], int]]:
        """Values of the hardware with its chips, and with ever more of them, and the tiles of each."""
        chip = self.hardware.chip
        if chip is not None:
            yield {}, chip.tile_count
            for doublings in range(1, _MOST_DOUBLINGS + 1):
                chips = [chip.chips[0], chip.chips[1] << doublings]
                yield {"chip.chips": chips}, chip.tile_count << doublings

    def allocated_anew(self, mapping: str, arrays: int, values: HardwareValues) -> list[str]:
        """Return in words to allocate for `arrays` of a changed hardware, none if they store not every layer.

        values: of the hardware, by dotted name; those that it has already are left out.
        """
        own: dict[str, Any] = self.hardware.to_dict()
        new = {
            name: value
            for name, value in values.items()
            if own.get(name.partition(".")[0], {}).get(name.partition(".")[2]) != value
        }
        try:
            hardware = self.hardware.with_values(new) if new else self.hardware
            options = self.options.changed(mapping=mapping)
            Case(self.network, hardware, options).problem(arrays, advise=False)
        except RramallocError:
            return []
        tables = dict[str, list[str]]()
        for name, value in new.items():
            table, _, field = name.partition(".")
            tables.setdefault(table, []).append(f"{field} = {json.dumps(value)}")
        settings = " and ".join(f"[{table}] {', '.join(each)}" for table, each in tables.items())
        first = f"set {settings} in the hardware file and " if settings else ""
        return [f"{first}allocate with --mapping {mapping} and --arrays {arrays}"]

    def on_more_chips(self, arrays: int, works: Works) -> list[str]:
        """Return in words how many chips, of `arrays` at least, hold this allocation; none for none."""
        machine = None if self.anew else more_chips(self.hardware, arrays, works)
        return [] if machine is None else [f"export it with a --hardware of {chip_words(machine)}"]

    def crossbar_that(self, take: TakenPixels, *, smaller: bool = False) -> list[str]:
        """Return the option for the nearest larger, or smaller, arrays that a tool takes; none for none."""
        own = self.hardware.crossbar

        def works(hardware: Hardware) -> bool:
            return is_taken(take, self.on(hardware))

        if not smaller:
            machine = larger_crossbar(self.hardware, works)
        else:
            rows = (own.wordlines >> halved for halved in range(1, own.wordlines.bit_length()))
            machines = (self.hardware.with_crossbar(each, own.bitlines) for each in rows)
            machine = next(filter(works, machines), None)
        return [] if machine is None else [self.of_crossbar(machine.crossbar.size)]

    def of_crossbar(self, size: str) -> str:
        """Return in words to allocate for arrays of another size."""
        return f"allocate with {self.anew}--crossbar {size}"


def is_taken(take: TakenPixels, subject: Subject) -> bool:
    """Return whether a tool takes a subject."""
    try:
        take(subject)
    except UnsupportedError:
        return False
    return True


def is_dilated(node: Node) -> bool:
    """Return True if a window skips pixels: dilation matters along axes with more than one kernel row."""
    kernel, dilation = getattr(node, "kernel", (1, 1)), getattr(node, "dilation", (1, 1))
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
    check_placement(placement, subject.network, subject.copies, blocks=subject.blocks)


TakenPixels = Callable[[Subject], object]
"""Makes the files of a tool. Raises UnsupportedError for what it cannot express."""
Fitting = Callable[[Subject], list[str]]
"""Says in words with which allocations a tool's chip is sure to have room for all arrays."""
