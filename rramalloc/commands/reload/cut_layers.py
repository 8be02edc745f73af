"""Layers that alone need more arrays than there are, cut into parts that fit (docs/sources/model.md 13).

A layer is cut by output channels; where not even one fits, by input channels too, whose partial sums are
added digitally. Groups of a convolution are first dealt out to parts. The parts are layers of their own with
digital nodes around them, so that whatever reads a network reads a cut one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from rramalloc.errors import SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.demand import WeightMatrix, demand
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.counts import weights
from rramalloc.network.network import MAX_NAME, Network
from rramalloc.network.node import Concat, Elementwise, Linear, Node, Recurrent, Select, Stage

Engine = tuple[Hardware, int]
"""The hardware with one kind of arrays or digital units, and how many of them may hold a layer."""


@dataclass(frozen=True, slots=True)
class CutNetwork:
    """A network in which every layer fits. parts: of the layers that were cut, by name."""

    network: Network
    parts: dict[str, int]


def cut_to_fit(
    network: Network, layers: Collection[str], engines: Sequence[Engine], options: MappingOptions
) -> CutNetwork:
    """Return the network with those of `layers` cut that fit none of the engines.

    Raises SpecError for a layer of which not even one kernel of one channel fits, and for a recurrence, which
    needs its whole state in every step.
    """
    nodes: list[Node] = []
    parts: dict[str, int] = {}
    names = {node.name for node in network.nodes}
    for node in network.nodes:
        if isinstance(node, Stage) and node.name in layers:
            cutter = _Cutter(network, node, engines, options, names)
            if not cutter.fits(cutter.weights.groups, cutter.weights.inputs, cutter.channels):
                nodes += cutter.cut()
                parts[node.name] = cutter.parts
                continue
        nodes.append(node)
    if not parts:
        return CutNetwork(network, parts)
    alone = [
        node.model_copy(update={"shares": None}) if isinstance(node, Stage) and node.shares in parts else node
        for node in nodes
    ]
    cut = Network.build(
        network.name, alone, source=network.source, where=network.where, unmodelled=network.unmodelled,
        approximations=network.approximations, precomputed=network.precomputed,
    )  # fmt: skip
    return CutNetwork(replace(cut, warnings=network.warnings), parts)


@dataclass(eq=False)
class _Cutter:
    """Cuts one layer. parts: that it was cut into so far; names: of all nodes, which new ones must avoid.

    A part fits where one of the engines holds it.
    """

    network: Network
    layer: Stage
    engines: Sequence[Engine]
    options: MappingOptions
    names: set[str]
    parts: int = 0
    nodes: list[Node] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.arrays = max(arrays for _, arrays in self.engines)
        self._wholes = [WeightMatrix.of(self.network, self.layer, hardware) for hardware, _ in self.engines]
        self.weights = self._wholes[0]
        self.channels = self.layer.outputs // self.weights.groups
        self._where = f"{self.network.where}: node {self.layer.name[:60]!r}"

    def fits(self, groups: int, inputs: int, outputs: int) -> bool:
        """Return True if `groups` groups of `inputs` and `outputs` channels fit one of the engines."""
        for (hardware, arrays), whole in zip(self.engines, self._wholes, strict=True):
            part = replace(
                whole,
                groups=groups,
                inputs=inputs,
                outputs=outputs * (whole.outputs // self.channels),
                columns=outputs * (whole.columns // self.channels),
            )
            if hardware.processor is None:
                fits = demand(part, hardware.crossbar, self.options.mapping, self._where) <= arrays
            else:
                each = weights(self.network, self.layer) // (whole.groups * whole.inputs * self.channels)
                bits = hardware.of_layer(self.layer).precision.weight_bits
                fits = hardware.processor.holds(groups * inputs * outputs * each * bits)
            if fits:
                return True
        return False

    def cut(self) -> list[Node]:
        """Return the nodes that take the place of the layer; the last one has its name."""
        if isinstance(self.layer, Recurrent):
            raise SpecError(
                self._where,
                f"is a recurrence that needs more than {self.arrays} arrays; every step needs its whole "
                f"state, so it cannot be cut: use more or larger arrays",
            )
        groups, inputs = self.weights.groups, self.weights.inputs
        together = _most(groups, lambda count: self.fits(count, inputs, self.channels))
        made = [self._of_groups(count) for count in _pieces(groups, max(together, 1))]
        self._add(Concat, self.layer.name, made)
        return self.nodes

    def _of_groups(self, groups: int) -> str:
        """Append the parts for the next `groups` groups; return the node that has their output."""
        inputs, source = self.weights.inputs, self.layer.inputs[0]
        if groups < self.weights.groups:
            source = self._select(source, groups * inputs)
        if groups > 1 or self.fits(1, inputs, self.channels):
            return self._part(source, groups, groups * self.channels)
        if _most(self.channels, lambda count: self.fits(1, inputs, count)):
            return self._of_outputs(source, inputs)
        at_once = _most(inputs, lambda count: self.fits(1, count, 1))
        if not at_once:
            raise SpecError(
                self._where,
                f"one kernel of one channel needs more than the {self.arrays} arrays that may hold it: use "
                f"more or larger arrays",
            )
        sums = [self._of_outputs(self._select(source, n), n) for n in _pieces(inputs, at_once)]
        return sums[0] if len(sums) == 1 else self._add(Elementwise, self._name("sum"), sums, op="add")

    def _of_outputs(self, source: str, inputs: int) -> str:
        """Append the parts of a group of `inputs` inputs, cut by outputs; return the node that joins them."""
        most = _most(self.channels, partial(self.fits, 1, inputs))
        made = [self._part(source, 1, count) for count in _pieces(self.channels, most)]
        return made[0] if len(made) == 1 else self._add(Concat, self._name("outputs"), made)

    def _part(self, source: str, groups: int, outputs: int) -> str:
        self.parts += 1
        changes: dict[str, Any] = {"name": self._name("part"), "inputs": (source,), "shares": None}
        changes |= {"out_features": outputs} if isinstance(self.layer, Linear) else {"out_channels": outputs}
        if not isinstance(self.layer, Linear):
            changes["groups"] = groups
        self.nodes.append(self.layer.model_copy(update=changes))
        return self.nodes[-1].name

    def _select(self, source: str, channels: int) -> str:
        return self._add(Select, self._name("inputs"), [source], channels=channels)

    def _add(self, kind: type[Node], name: str, inputs: list[str], **fields: Any) -> str:
        self.nodes.append(kind(name=name, inputs=tuple(inputs), **fields))
        return name

    def _name(self, what: str) -> str:
        """Return a name that no node has."""
        number = 1
        while (name := f"{self.layer.name[:MAX_NAME]}/{what}{number}") in self.names:
            number += 1
        self.names.add(name)
        return name


def _most(limit: int, fits: Callable[[int], bool]) -> int:
    """Return the largest of 1 ... limit that fits by bisection, 0 if none does."""
    return bisect_left(range(1, limit + 1), True, key=lambda count: not fits(count))


def _pieces(total: int, most: int) -> Iterator[int]:
    """Yield pieces of `most`, and the remainder."""
    for first in range(0, total, most):
        yield min(most, total - first)
