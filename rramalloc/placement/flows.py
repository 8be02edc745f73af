"""Traffic: what stages send each other, and over how many hops (XY routing).

The whole output of a producer that any window of a consumer needs, pixels 0 ... the last one needed, is
sent once to that consumer: digital nodes run where their result is read. Blocks of windows go to copies in
turn (block n to copy n mod d, docs/sources/model.md 4 and 10) and the arrays of a copy, or the copies in an
array, share inputs and outputs, so the bytes of an edge are spread evenly over all pairs of one array of the
producer and one of the consumer:

    cost = sum over edges of bytes * (mean of hops over the array pairs)

with hops between chips weighted (`Mesh.chip_hop`). Partial sums within a copy that straddles are not counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rramalloc.placement.mesh import Ints, Mesh
from rramalloc.timing.access import BITS_PER_BYTE
from rramalloc.timing.stage_graph import StageGraph


@dataclass(frozen=True, eq=False)
class Flows:
    """Edges between stages, by producer and consumer.

    producer, consumer: int64, stages; pixels: int64, sent per input; pixel_bytes: float64, of one of them;
    block_pixels: int64, that a copy of the producer yields in a step; stages: number of all stages.
    """

    stages: int
    producer: Ints
    consumer: Ints
    pixels: Ints
    pixel_bytes: npt.NDArray[np.float64]
    block_pixels: Ints

    @classmethod
    def of(cls, graph: StageGraph, output_bits: int) -> Flows:
        """The edges of a network; with very many only those that bind the timing (`StageGraph.edges`)."""
        edges = sorted(graph.edges, key=lambda edge: (edge.producer, edge.consumer))
        channels = [graph.channels(edge.producer) for edge in edges]
        return cls(
            len(graph.stages),
            np.array([edge.producer for edge in edges], dtype=np.int64),
            np.array([edge.consumer for edge in edges], dtype=np.int64),
            np.array([graph.sent_pixels(edge) for edge in edges], dtype=np.int64),
            np.array(channels, dtype=np.float64) * output_bits / BITS_PER_BYTE,
            np.array([math.prod(graph.blocks[edge.producer]) for edge in edges], dtype=np.int64),
        )

    @cached_property
    def size_bytes(self) -> npt.NDArray[np.float64]:
        """Bytes of each edge per input of the network."""
        return self.pixels * self.pixel_bytes


@dataclass(frozen=True, eq=False)
class Spread:
    """Where the arrays of every stage are, without which is which.

    stage, site, arrays: int64, `arrays` of `stage` are in tile `site`; sites: int64 (k, 4).
    """

    stages: int
    sites: Ints
    stage: Ints
    site: Ints
    arrays: Ints

    @cached_property
    def total(self) -> Ints:
        """Arrays of every stage."""
        return np.bincount(self.stage, self.arrays, self.stages).astype(np.int64)

    @cached_property
    def entries(self) -> list[tuple[Ints, Ints]]:
        """Of every stage: its tiles, shape (k, 4), and its arrays in each."""
        order = np.argsort(self.stage, kind="stable")
        ends = np.cumsum(np.bincount(self.stage, minlength=self.stages))[:-1]
        parts = np.split(order, ends)
        return [(self.sites[self.site[part]], self.arrays[part]) for part in parts]

    def pair_hops(self, flows: Flows) -> tuple[Ints, Ints]:
        """Hops over all array pairs of each edge: within chips, and between chips (unweighted)."""
        place = self.sites[self.site]
        chips, chip = np.unique(place[:, :2], axis=0, return_inverse=True)
        mass = self._counted(chip.ravel(), len(chips))
        gate = self._counted(chip.ravel(), len(chips), place[:, 2] + place[:, 3])
        p, c = flows.producer, flows.consumer
        within = np.zeros(len(p), dtype=np.int64)
        for axis in (2, 3):
            lines = int(place[:, axis].max()) + 1
            counts = self._counted(chip.ravel() * lines + place[:, axis], len(chips) * lines)
            below = counts.reshape(self.stages, len(chips), lines).cumsum(axis=2)
            for number in range(len(chips)):
                within += _apart(below[:, number], p, c)
        for one, other in ((p, c), (c, p)):
            everywhere = gate[one].sum(axis=1) * mass[other].sum(axis=1)
            within += everywhere - (gate[one] * mass[other]).sum(axis=1)
        between = np.zeros(len(p), dtype=np.int64)
        for axis in (0, 1):
            counts = self._counted(place[:, axis], int(place[:, axis].max()) + 1)
            between += _apart(counts.cumsum(axis=1), p, c)
        return within, between

    def mean_hops(self, flows: Flows, mesh: Mesh) -> npt.NDArray[np.float64]:
        """Mean of the weighted hops over the array pairs of each edge."""
        within, between = self.pair_hops(flows)
        pairs = self.total[flows.producer] * self.total[flows.consumer]
        mean: npt.NDArray[np.float64] = (within + mesh.chip_hop * between) / np.maximum(pairs, 1)
        return mean

    def cost(self, flows: Flows, mesh: Mesh) -> float:
        """Bytes x hops of all edges."""
        return math.fsum((flows.size_bytes * self.mean_hops(flows, mesh)).tolist())

    def _counted(self, line: Ints, lines: int, weight: Ints | None = None) -> Ints:
        """Arrays (times `weight`) of every stage on every line; shape (stages, lines)."""
        counts = np.zeros((self.stages, lines), dtype=np.int64)
        np.add.at(counts, (self.stage, line), self.arrays if weight is None else self.arrays * weight)
        return counts


def _apart(below: Ints, one: Ints, other: Ints) -> Ints:
    """Sum of |i - j| over all pairs of arrays on lines i and j of two stages, for each edge.

    below: arrays of each stage on lines 0 ... i. A pair is apart by the cuts between lines that separate it.
    """
    a, b = below[one], below[other]
    apart: Ints = (a * (b[:, -1:] - b) + (a[:, -1:] - a) * b).sum(axis=1)
    return apart
