"""Traffic: what stages send each other, and what their partial sums take.

The whole output of a producer that any window of a consumer needs, pixels 0 ... the last one needed, is
sent once to that consumer: digital nodes run where their result is read. Blocks of windows go to copies in
turn (block n to copy n mod d, docs/sources/model.md 4 and 10), so the bytes of an edge are spread evenly over
all pairs of an array of the producer that gives results and a row block of a copy of the consumer, and those
of partial sums over the copies (`placement.transfer` says which arrays give, and what a row block reads):

    cost = sum over edges of bytes * (mean of links of these pairs) + sum over partial sums of bytes * hops

with hops between chips weighted (`Mesh.chip_hop`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rramalloc.hardware.hardware import Hardware
from rramalloc.placement.mesh import Ints
from rramalloc.timing.access import BITS_PER_BYTE
from rramalloc.timing.stage_graph import StageGraph


@dataclass(frozen=True, eq=False)
class Flows:
    """Edges between stages, by producer and consumer.

    producer, consumer: int64, stages; pixels: int64, sent per input; pixel_bytes: float64, of one of them;
    block_pixels: int64, that a copy of the producer yields in a step; stages: number of all stages; of each
    blocks: int64, of windows, and column_bytes: float64, of the partial sum of a column for one of them.
    """

    stages: int
    producer: Ints
    consumer: Ints
    pixels: Ints
    pixel_bytes: npt.NDArray[np.float64]
    block_pixels: Ints
    blocks: Ints
    column_bytes: npt.NDArray[np.float64]

    @classmethod
    def of(cls, graph: StageGraph, hardware: Hardware) -> Flows:
        """The edges of a network; with very many only those that bind the timing (`StageGraph.edges`)."""
        edges = sorted(graph.edges, key=lambda edge: (edge.producer, edge.consumer))
        channels = [graph.channels(edge.producer) for edge in edges]
        slices = [hardware.of_layer(layer).columns_per_weight for layer in graph.layers]
        value_bytes = hardware.precision.output_bits / BITS_PER_BYTE
        return cls(
            len(graph.stages),
            np.array([edge.producer for edge in edges], dtype=np.int64),
            np.array([edge.consumer for edge in edges], dtype=np.int64),
            np.array([graph.sent_pixels(edge) for edge in edges], dtype=np.int64),
            np.array(channels, dtype=np.float64) * value_bytes,
            np.array([math.prod(graph.blocks[edge.producer]) for edge in edges], dtype=np.int64),
            graph.windows,
            value_bytes / np.array(slices, dtype=np.float64),
        )

    @cached_property
    def size_bytes(self) -> npt.NDArray[np.float64]:
        """Bytes of each edge per input of the network."""
        return self.pixels * self.pixel_bytes
