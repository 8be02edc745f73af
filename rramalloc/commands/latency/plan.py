"""What is timed: layers with an auxiliary layer behind them, auxiliary layers alone, the whole network.

An auxiliary layer makes the output small that is fetched from the device.
Source: docs/sources/companions.md 4.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from typing import Any, Literal

from rramalloc.choices import AuxiliaryLayer
from rramalloc.errors import SpecError, suggestion
from rramalloc.network.geometry import Shape
from rramalloc.network.network import Network
from rramalloc.network.node import Input, Node
from rramalloc.records import Record, brief
from rramalloc.timing.measured_layer import MeasuredLayer, timed_nodes

VALUE_BYTES = 4
"""Inputs and outputs are counted as 32-bit values."""
_SIZES = 6
_LEAST_BYTES, _MOST_BYTES = 2**22, 2**26
_CHANNELS = 16


class TimedRun(Record):
    """Something that is timed as a whole: layer, then auxiliary layer, either of which may be missing."""

    kind: Literal["layer", "auxiliary", "network"]
    layer: MeasuredLayer | None = None
    auxiliary: MeasuredLayer | None = None
    input_bytes: int
    output_bytes: int

    @cached_property
    def text(self) -> str:
        """The run in one line: "layer conv 3x8x8 ... | avgpool 16x8x8 ..."."""
        parts = (part.text for part in (self.layer, self.auxiliary) if part is not None)
        return f"{self.kind} {' | '.join(parts)}"


class MeasurePlan(Record):
    """All runs that the latencies of a network's layers need.

    auxiliary: the kinds of auxiliary layers, with commas between them; name, sha256: of the network.
    """

    name: str
    sha256: str
    auxiliary: str
    runs: tuple[TimedRun, ...]

    @classmethod
    def of(
        cls,
        network: Network,
        auxiliary: AuxiliaryLayer | Sequence[AuxiliaryLayer],
        only: Collection[str] = (),
    ) -> MeasurePlan:
        """Each distinct layer once with every kind of auxiliary layer, which is timed alone as well.

        only: names of the layers to time, all of them and the whole network if there are none.
        Raises SpecError for a name that no timed layer has.
        """
        kinds: Sequence[AuxiliaryLayer] = (auxiliary,) if isinstance(auxiliary, str) else tuple(auxiliary)
        nodes = [node for node in timed_nodes(network) if not only or node.name in only]
        for name in only:
            if name not in {node.name for node in nodes}:
                known = [node.name for node in timed_nodes(network)]
                reason = f"{brief(name)} is no layer that is timed; {suggestion(name, known) or known[:8]}"
                raise SpecError("layer", reason)
        layers: dict[str, MeasuredLayer] = {}
        for node in nodes:
            layer = MeasuredLayer.of(network, node)
            layers.setdefault(layer.text, layer)
        largest = max((_bytes(layer.shapes) for layer in layers.values()), default=0)
        runs = []
        for kind in kinds:
            alone = [behind(kind, layer.output) for layer in layers.values()]
            runs += [layer_run(layer, kind) for layer in layers.values()]
            runs += [auxiliary_run(layer) for layer in (*alone, *calibration(kind, largest))]
        each = {run.text: run for run in (*runs, *(() if only else (network_run(network),)))}
        named = ",".join(kinds)
        return cls(name=network.name, sha256=network.sha256, auxiliary=named, runs=tuple(each.values()))

    def to_dict(self) -> dict[str, Any]:
        """The document that `latency plan --format json` prints."""
        return self.model_dump(mode="json")

    def without(self, texts: Iterable[str]) -> MeasurePlan:
        """The plan without some of its runs."""
        left_out = set(texts)
        return self.model_copy(update={"runs": tuple(r for r in self.runs if r.text not in left_out)})


def behind(auxiliary: AuxiliaryLayer, shape: Shape) -> MeasuredLayer:
    """The auxiliary layer for an output: a mean over the grid, or a convolution to one channel."""
    if auxiliary == "avgpool":
        grid = [shape.height, shape.width]
        return _layer("avgpool", shape, {"kernel": grid, "stride": grid})
    return _convolution(auxiliary, shape, 1)


def calibration(auxiliary: AuxiliaryLayer, largest_bytes: int) -> list[MeasuredLayer]:
    """Auxiliary layers whose input and output sizes vary apart from each other, up to `largest_bytes`.

    Without that the cost of a byte in and of a byte out could not be separated.
    """
    most = min(max(_LEAST_BYTES, largest_bytes), _MOST_BYTES)
    channels = _CHANNELS if auxiliary == "avgpool" else 4
    layers = []
    for size in range(_SIZES):
        target = 1024 * (most / 1024) ** (size / (_SIZES - 1))
        extent = max(4, 4 * round(math.sqrt(target / (VALUE_BYTES * channels)) / 4))
        shape = Shape(channels, extent, extent)
        if auxiliary == "avgpool":
            parts = [{"kernel": part, "stride": part} for part in (1, 2, extent)]
            layers += [_layer("avgpool", shape, part) for part in parts]
        else:
            layers += [_convolution(auxiliary, shape, count) for count in (1, 2, channels)]
    return layers


def layer_run(layer: MeasuredLayer, auxiliary: AuxiliaryLayer) -> TimedRun:
    """A layer with its auxiliary layer."""
    after = behind(auxiliary, layer.output)
    moved = {"input_bytes": read_bytes(layer), "output_bytes": _bytes([after.output])}
    return TimedRun(kind="layer", layer=layer, auxiliary=after, **moved)


def auxiliary_run(layer: MeasuredLayer) -> TimedRun:
    """An auxiliary layer alone."""
    moved = {"input_bytes": read_bytes(layer), "output_bytes": _bytes([layer.output])}
    return TimedRun(kind="auxiliary", auxiliary=layer, **moved)


def network_run(network: Network) -> TimedRun:
    """The whole network without auxiliary layer: what an estimate is compared with."""
    inputs = [network.shapes[node.name] for node in network.nodes if isinstance(node, Input)]
    outputs = [network.shapes[node.name] for node in outputs_of(network)]
    moved = {"input_bytes": _bytes(inputs), "output_bytes": _bytes(outputs)}
    return TimedRun(kind="network", layer=MeasuredLayer.of_network(network), **moved)


def outputs_of(network: Network) -> list[Node]:
    """Nodes whose values a run of the network fetches: those that no other reads, inputs apart."""
    return [node for node in network.nodes if not (network.consumers[node.name] or isinstance(node, Input))]


def _convolution(auxiliary: AuxiliaryLayer, shape: Shape, channels: int) -> MeasuredLayer:
    kernel, pads = (1, 0) if auxiliary == "conv1x1" else (3, 1)
    return _layer("conv", shape, {"out_channels": channels, "kernel": kernel, "pads": pads})


def _layer(operator: str, shape: Shape, parameters: dict[str, Any]) -> MeasuredLayer:
    return MeasuredLayer(operator=operator, shape=shape.as_tuple(), parameters=parameters)


def read_bytes(layer: MeasuredLayer) -> int:
    """Bytes of all inputs of a layer."""
    return _bytes(layer.shapes)


def _bytes(shapes: Iterable[Shape]) -> int:
    return VALUE_BYTES * sum(shape.channels * shape.pixels for shape in shapes)
