"""StageGraph: the network reduced to its stages and the windows they need of each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.choices import FullyConnected
from rramalloc.errors import UnsupportedError
from rramalloc.network.network import Network
from rramalloc.network.node import Linear, Stage
from rramalloc.timing.dependencies import Edge, trace

STAGE_LIMIT = 2**14
"""Stages of one network; bounds the time of a single look at all of them."""
WINDOW_LIMIT = 2**25
"""Windows of all stages together; bounds the memory and time of one simulation."""


class FlatEdges(NamedTuple):
    """Windows and edges of a graph in the form that compiled kernels read, edges grouped by consumer.

    windows: int64, output pixels of each stage. Edges pointer[i] ... pointer[i + 1] - 1 enter stage i; edge e
    comes from producer[e] and its table of needed windows starts at need[offset[e]], one entry per window
    of the consumer.
    """

    windows: npt.NDArray[np.int64]
    pointer: npt.NDArray[np.int32]
    producer: npt.NDArray[np.int32]
    offset: npt.NDArray[np.int64]
    need: npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class StageGraph:
    """What timing and search know of a network.

    stages: in canonical order, producers first, the same for every order of nodes in the file;
    windows: int64, output pixels of each stage;
    edges: every (producer, consumer) pair that exchanges pixels, grouped by consumer;
    binding: the edges that suffice for exact timing, the others follow from them.
    """

    network: Network
    stages: tuple[Stage, ...]
    windows: npt.NDArray[np.int64]
    edges: tuple[Edge, ...]
    binding: tuple[Edge, ...]

    @classmethod
    def build(cls, network: Network, fc: FullyConnected = "host") -> StageGraph:
        """Stages and edges of a network; linear layers on a 1 x 1 grid are stages with fc "crossbar".

        Raises UnsupportedError if no stage is left, or there are too many of them or of their windows.
        Source: docs/sources/model.md 2 and 4.
        """
        nodes = network.canonical_nodes
        stages = timed_stages(network, fc)
        if not stages:
            raise UnsupportedError(
                network.where,
                "has no stage: no convolution and no linear layer on a grid; "
                "fully connected layers become stages with --fc crossbar",
            )
        if len(stages) > STAGE_LIMIT:
            raise UnsupportedError(
                network.where,
                f"has {len(stages)} weight layers to be timed, the limit is {STAGE_LIMIT}; "
                "allocate parts of it one by one",
            )
        names = {stage.name for stage in stages}
        ordered = tuple(node for node in nodes if isinstance(node, Stage) and node.name in names)
        index = {node.name: position for position, node in enumerate(ordered)}
        windows = np.array([network.shapes[node.name].pixels for node in ordered], dtype=np.int64)
        if windows.sum() > WINDOW_LIMIT:
            raise UnsupportedError(
                network.where,
                f"its stages have {windows.sum()} windows together, the limit is {WINDOW_LIMIT}; "
                "use a smaller input shape",
            )
        binding = trace(network, nodes, index, only_binding=True)
        edges = trace(network, nodes, index, only_binding=False)
        return cls(network, ordered, windows, edges or binding, binding)

    @property
    def lists_all_edges(self) -> bool:
        """Whether `edges` holds all of them; with very many only the binding ones are kept."""
        return not self.binding or self.edges is not self.binding

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the stages, in canonical order."""
        return tuple(stage.name for stage in self.stages)

    @cached_property
    def network_order(self) -> tuple[int, ...]:
        """Stage indices in the order of the network file, in which results are shown."""
        position = {stage.name: index for index, stage in enumerate(self.network.nodes)}
        return tuple(sorted(range(len(self.stages)), key=lambda index: position[self.names[index]]))

    @cached_property
    def flat_edges(self) -> FlatEdges:
        """All edges, for the recurrence and the buffers."""
        return flatten(self.edges, self.windows)

    @cached_property
    def flat_binding(self) -> FlatEdges:
        """The edges that decide the exact timing."""
        return flatten(self.binding, self.windows)


def is_stage(network: Network, node: Stage, fc: FullyConnected) -> bool:
    """Whether a weight layer is timed; a linear layer on a 1 x 1 grid is left to the host by default."""
    return fc == "crossbar" or not isinstance(node, Linear) or network.shapes[node.name].pixels > 1


def timed_stages(network: Network, fc: FullyConnected) -> tuple[Stage, ...]:
    """Weight layers that are not left to the host, in network order."""
    return tuple(stage for stage in network.stages if is_stage(network, stage, fc))


def flatten(edges: Sequence[Edge], windows: npt.NDArray[np.int64]) -> FlatEdges:
    """Concatenate the tables of edges that are grouped by consumer; equal tables are stored once."""
    offsets: dict[int, int] = {}
    tables: list[npt.NDArray[np.int32]] = []
    total = 0
    for edge in edges:
        if id(edge.need) not in offsets:
            offsets[id(edge.need)] = total
            tables.append(edge.need)
            total += len(edge.need)
    counts = np.bincount([edge.consumer for edge in edges], minlength=len(windows))
    return FlatEdges(
        windows=windows,
        pointer=np.concatenate(([0], np.cumsum(counts))).astype(np.int32),
        producer=np.array([edge.producer for edge in edges], dtype=np.int32),
        offset=np.array([offsets[id(edge.need)] for edge in edges], dtype=np.int64),
        need=np.concatenate([*tables, np.zeros(1, dtype=np.int32)]),
    )
