"""Subject: the allocation that is exported, with everything that a target may want to know of it."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, replace
from functools import cached_property

from rramalloc.allocation.allocation_input import AllocationInput
from rramalloc.commands.export.bundle import Remark, remark
from rramalloc.commands.place.check import check
from rramalloc.commands.place.placement import Placement
from rramalloc.errors import SpecError, UnsupportedError
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.demand import block_arrays, demands
from rramalloc.mapping.modes import SINGLE
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.geometry import Pair
from rramalloc.network.network import Network
from rramalloc.network.node import Conv, Linear, Node, Stage
from rramalloc.timing.simulate import blocks_by_name, replication_by_name
from rramalloc.timing.stage_graph import StageGraph


@dataclass(frozen=True, eq=False)
class Subject:
    """copies: of every stage by name, in network order; where: the allocation's file, for messages.

    tool: for which it is exported, as its authors write it; see `for_tool`.
    """

    network: Network
    graph: StageGraph
    copies: MappingOf[str, int]
    hardware: Hardware
    options: MappingOptions
    placement: Placement | None
    where: str
    tool: str = ""

    @classmethod
    def build(cls, network: Network, source: AllocationInput, placement: Placement | None = None) -> Subject:
        """Check that the allocation and the placement belong to the network and to each other.

        Raises SpecError, MisplacedError, UnsupportedError.
        """
        graph = StageGraph.build(network, source.options)
        graph = graph.in_blocks(blocks_by_name(graph, source.blocks, source.where))
        counts = replication_by_name(graph, source.replication, source.where).tolist()
        copies = {graph.names[stage]: counts[stage] for stage in graph.network_order}
        subject = cls(network, graph, copies, source.hardware, source.options, placement, source.where)
        if placement is not None:
            _check_placement(subject, placement)
        return subject

    @cached_property
    def blocks(self) -> dict[str, Pair]:
        """Windows (height, width) that a copy of each stage computes in a step."""
        return dict(zip(self.graph.names, self.graph.blocks, strict=True))

    def refuse_modes(self, tool: str) -> None:
        """Raise UnsupportedError if copies compute blocks of windows or share arrays (mapping "sdk")."""
        if self.options.mapping != "sdk":
            return
        place = self.where
        name, block = max(self.blocks.items(), key=lambda item: item[1][0] * item[1][1])
        if block != SINGLE:
            place += f": block [{block[0]}, {block[1]}] of {name[:60]!r}"
        raise UnsupportedError(
            place,
            f"{tool} stores each copy in arrays of its own and computes one window with it in a step; with "
            f"mapping 'sdk' copies share arrays and compute blocks: allocate with --mapping im2col",
        )

    def for_tool(self, tool: str) -> Subject:
        """Return the subject for a tool without modes, and with one precision for all layers: that of the
        layers.

        Raises UnsupportedError if layers have different bits of weights or inputs, mapping is "sdk", or the
        host has a layer that is no classifier.
        """
        self.refuse_modes(tool)
        for stage in self.network.stages:
            if stage.name not in self.copies and not self.is_fully_connected(stage):
                raise UnsupportedError(
                    f"{self.network.where}: node {stage.name[:60]!r} ({stage.op})",
                    f"is left to the host, {tool} computes all such layers on arrays: allocate without "
                    f"--host, or export to json or csv",
                )
        own = {stage.name: self.hardware.precision.of_layer(stage) for stage in self.network.stages}
        (first, common), *others = own.items()
        for name, precision in others:
            if precision != common:
                bits = [f"{each.weight_bits}/{each.input_bits}" for each in (common, precision)]
                raise UnsupportedError(
                    f"{self.network.where}: nodes {first[:60]!r} and {name[:60]!r}",
                    f"{tool} has one precision for all layers, these have {bits[0]} and {bits[1]} bits of "
                    f"weights and inputs: give all layers the same weight_bits and input_bits, or export to "
                    f"json or csv",
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

    def refused(self, reason: str, node: Node | None = None) -> UnsupportedError:
        """Return the error for what the tool cannot express."""
        place = "" if node is None else f": node {node.name[:60]!r} ({node.op})"
        return UnsupportedError(f"{self.network.where}{place}", f"{self.tool} {reason}")


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
    check(placement, subject.network, subject.copies, blocks=subject.blocks)
