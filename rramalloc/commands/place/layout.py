"""Traffic: what stages send each other; copies cut into pieces, their tiles, and what traffic that makes.

The whole output of a producer that any window of a consumer needs, pixels 0 ... the last one needed, is
sent once to that consumer: digital nodes run where their result is read. Blocks of windows go to copies in
turn (block n to copy n mod d, docs/sources/model.md 4 and 10). So the bytes of an edge are spread evenly over
all pairs of an array of the producer that gives results and a row block of a copy of the consumer. Those of
partial sums are spread over the copies (`transfer` says which arrays give, and what a row block reads):

    cost = sum over edges of bytes * (mean of links of these pairs) + sum over partial sums of bytes * hops

with hops between chips weighted (`Mesh.chip_hop`).

A copy that fits a tile is one piece, others are cut. The blocks of a copy fill its pieces column block after
column block, so that few partial sums leave a tile; row block after row block where row blocks must keep to a
tile. What is sent is that of `transfer`: a tile adds up what it holds of a column block, its
partial sum goes to the tile of the last row block, and results leave from there.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.commands.place.links import Readers, Tree
from rramalloc.commands.place.mesh import Ints, Mesh, hops_apart
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.blocks import Block, StoredCopies
from rramalloc.timing.access import BITS_PER_BYTE
from rramalloc.timing.stage_graph import StageGraph

Floats = npt.NDArray[np.float64]


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
        """Return the edges of a network; with very many only those that bind the timing
        (`StageGraph.edges`)."""
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


@dataclass(frozen=True, eq=False)
class Sums:
    """Partial sums between the pieces of copies.

    Those of net e go from every tile that holds one of the pieces source[pointer[e]:pointer[e + 1]] to that
    of piece target[e], size_bytes[e] per input of the network from each.
    """

    size_bytes: Floats
    target: Ints
    pointer: Ints
    source: Ints

    @cached_property
    def net(self) -> Ints:
        """The net of every source."""
        return np.repeat(np.arange(len(self.target)), np.diff(self.pointer))


class _CutCopy(NamedTuple):
    """A copy cut into pieces: column blocks whose results each piece gives, (target, sources) of partial
    sums with their columns, and row blocks by the pieces that they lie in.
    """

    gives: list[int]
    nets: dict[tuple[int, tuple[int, ...]], int]
    units: Counter[tuple[int, ...]]

    @classmethod
    def of(cls, blocks: Sequence[Block], sizes: Sequence[int]) -> _CutCopy:
        """Return the cut copy. sizes: arrays of every piece, in the order in which the blocks fill them."""
        piece_of = np.repeat(np.arange(len(sizes)), sizes).tolist()
        held: dict[int, list[tuple[int, int, int]]] = {}
        columns: dict[int, int] = {}
        rows: dict[int, set[int]] = {}
        for block, piece in zip(blocks, piece_of, strict=True):
            held.setdefault(block.column_block, []).append((block.row_block, block.plane, piece))
            columns[block.column_block] = block.columns
            rows.setdefault(block.row_block, set()).add(piece)
        gives, nets = [0] * len(sizes), dict[tuple[int, tuple[int, ...]], int]()
        for column, parts in held.items():
            target = max(parts)[2]
            gives[target] += 1
            sources = tuple(sorted({piece for *_, piece in parts} - {target}))
            if sources:
                nets[target, sources] = nets.get((target, sources), 0) + columns[column]
        return cls(gives, nets, Counter(tuple(sorted(pieces)) for pieces in rows.values()))


@dataclass(frozen=True, eq=False)
class Pieces:
    """The pieces that the copies of all stages are cut into, one row each.

    held: what the arrays of every stage hold; stage, arrays, copy: int64, `arrays` arrays of set `copy` of
    the stage, rows of a set in the order in which its blocks fill them; gives: int64, column blocks whose
    results leave from the piece; units: int64 (k, 4), rows of stage, number of a unit that reads the same
    inputs, a piece of it, and how many such units there are; sums: between pieces; column_bytes: float64,
    that the partial sum of a column takes per input, of every stage; by_rows: row blocks must keep to a tile.
    """

    held: Sequence[StoredCopies]
    stage: Ints
    arrays: Ints
    copy: Ints
    gives: Ints
    units: Ints
    sums: Sums
    column_bytes: Floats
    by_rows: bool

    @classmethod
    def of(
        cls, held: Sequence[StoredCopies], flows: Flows, stage: Ints, arrays: Ints, copy: Ints, *,
        by_rows: bool,
    ) -> Pieces:  # fmt: skip
        """Return the pieces from what a row says of each."""
        copies = np.array([each.copies for each in held], dtype=np.int64)
        column_bytes = flows.column_bytes * flows.blocks / copies
        gives = np.zeros(len(stage), dtype=np.int64)
        sizes, targets, sources = list[float](), list[int](), list[tuple[int, ...]]()
        known: dict[tuple[int, ...], _CutCopy] = {}
        length, units = arrays.tolist(), list[tuple[int, int, int, int]]()
        members: dict[tuple[int, int], list[int]] = {}
        for piece, of in enumerate(zip(stage.tolist(), copy.tolist(), strict=True)):
            members.setdefault(of, []).append(piece)
        for (s, number), own in members.items():
            key = s, *(length[piece] for piece in own)
            if key not in known:
                known[key] = _CutCopy.of(_in_order(held[s], number, by_rows=by_rows), key[1:])
            gives[own] = known[key].gives
            for pieces, weight in known[key].units.items():
                unit = units[-1][1] + 1 if units else 0
                units += [(s, unit, own[piece], weight) for piece in pieces]
            for (target, others), columns in known[key].nets.items():
                sizes.append(columns * float(column_bytes[s]))
                targets.append(own[target])
                sources.append(tuple(own[other] for other in others))
        lengths = [len(each) for each in sources]
        flat = [piece for each in sources for piece in each]
        sums = Sums(
            np.array(sizes, dtype=np.float64),
            np.array(targets, dtype=np.int64),
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            np.array(flat, dtype=np.int64),
        )
        reads = np.array(units, dtype=np.int64).reshape(-1, 4)
        return cls(held, stage, arrays, copy, gives, reads, sums, column_bytes, by_rows)

    @property
    def stages(self) -> int:
        """Number of all stages."""
        return len(self.held)

    @cached_property
    def alike(self) -> Ints:
        """Pieces of equal numbers can change places without effect: whole copies of a stage."""
        numbers = np.arange(self.stages, self.stages + len(self.stage))
        together = np.array([each.together for each in self.held], dtype=np.int64)
        return np.where(self.arrays == together[self.stage], self.stage, numbers)

    @property
    def sum_bytes(self) -> Floats:
        """Bytes per input of every stage if each column block of its copies sent one partial sum, all as
        narrow as the narrowest.
        """
        narrowest = [min(block.columns for block in each[0].blocks) for each in self.held]
        sent: Floats = self.column_bytes * np.array(narrowest) * self.given
        return sent

    def blocks(self, stage: int, copy: int) -> list[Block]:
        """Return the blocks of a set of arrays, in the order in which it fills pieces."""
        return _in_order(self.held[stage], copy, by_rows=self.by_rows)

    @cached_property
    def taken(self) -> Ints:
        """Arrays of every stage."""
        return np.bincount(self.stage, self.arrays, self.stages).astype(np.int64)

    @cached_property
    def given(self) -> Ints:
        """Column blocks of all copies of every stage: an array of each gives results."""
        return np.bincount(self.stage, self.gives, self.stages).astype(np.int64)


def _in_order(held: StoredCopies, number: int, *, by_rows: bool) -> list[Block]:
    """Return the blocks of a set of arrays in the order in which they fill pieces."""
    blocks = held[number].blocks
    if by_rows:
        return list(blocks)
    return sorted(blocks, key=lambda block: (block.column_block, block.row_block, block.plane))


@dataclass(frozen=True, eq=False)
class Layout:
    """Pieces in tiles of the mesh. site: int64, the tile of every piece; sites: int64 (k, 4), all tiles."""

    pieces: Pieces
    site: Ints
    sites: Ints

    def tree_hops(self, flows: Flows) -> tuple[Ints, Ints]:
        """Return the hops to all tiles of each unit from each array that gives, of each edge: within chips,
        and between chips (unweighted)."""
        place, units = self.sites[self.site], self.pieces.units
        _, rows = np.unique(np.stack([units[:, 1], self.site[units[:, 2]]]), axis=1, return_index=True)
        unit, sites = units[rows, 1], place[units[rows, 2]]
        stage_of = np.zeros(int(units[:, 1].max(initial=0)) + 1, dtype=np.int64)
        stage_of[units[:, 1]] = units[:, 0]
        readers = Readers(unit, sites, units[rows, 3])
        within, between = np.zeros((2, len(flows.producer)), dtype=np.int64)
        chips = np.unique(place[:, :2], axis=0)
        for chip in chips.tolist():
            here = (place[:, :2] == chip).all(axis=1)
            everywhere, inside = readers.within(tuple(chip))
            within += self._apart(flows, here, place[:, 2:], Tree.of(everywhere), stage_of)
            within += self._apart(flows, ~here, np.zeros_like(place[:, 2:]), Tree.of(inside), stage_of)
        if len(chips) > 1:
            between += self._apart(
                flows, np.ones(len(place), bool), place[:, :2], Tree.of(readers.chips), stage_of
            )
        return within, between

    def mean_hops(self, flows: Flows, mesh: Mesh) -> Floats:
        """Return the mean of the weighted hops over pairs of an array that gives and a unit that takes, of
        each edge."""
        within, between = self.tree_hops(flows)
        stage, number, _, weight = self.pieces.units.T
        first = np.unique(number, return_index=True)[1]
        units = np.bincount(stage[first], weight[first], self.pieces.stages)
        pairs = self.pieces.given[flows.producer] * units[flows.consumer]
        mean: Floats = (within + mesh.chip_hop * between) / np.maximum(pairs, 1)
        return mean

    def cost(self, flows: Flows, mesh: Mesh) -> float:
        """Return the bytes x hops of all edges and of all partial sums."""
        return math.fsum((flows.size_bytes * self.mean_hops(flows, mesh)).tolist()) + self._of_sums(mesh)

    def _of_sums(self, mesh: Mesh) -> float:
        sums = self.pieces.sums
        sent = np.unique(np.stack([sums.net, self.site[sums.source]]), axis=1)
        source, target = self.sites[sent[1]], self.sites[self.site[sums.target[sent[0]]]]
        within, between = hops_apart(source, target)
        return math.fsum((sums.size_bytes[sent[0]] * (within + mesh.chip_hop * between)).tolist())

    def _apart(self, flows: Flows, among: Any, place: Ints, tree: Tree, stage_of: Ints) -> Ints:
        """Return the hops of each edge, from the pieces `among` all at their places of a mesh.

        A way is as long as the cuts between lines that it passes.
        """
        p, c, apart = flows.producer, flows.consumer, np.zeros(len(flows.producer), dtype=np.int64)
        for axis, low, high in ((1, tree.left, tree.right), (0, tree.up, tree.down)):
            lines = int(max(place[:, axis].max(), high[:, 0].max(initial=0))) + 1
            given, nearest, farthest = np.zeros((3, self.pieces.stages, lines), dtype=np.int64)
            np.add.at(given, (self.pieces.stage[among], place[among, axis]), self.pieces.gives[among])
            np.add.at(nearest, (stage_of[low[:, -1]], low[:, 0]), low[:, -2])
            np.add.at(farthest, (stage_of[high[:, -1]], high[:, 0]), high[:, -2])
            given, nearest, farthest = (each.cumsum(axis=1) for each in (given, nearest, farthest))
            apart += (given[p] * (farthest[c][:, -1:] - farthest[c])).sum(axis=1)
            apart += ((given[p][:, -1:] - given[p]) * nearest[c]).sum(axis=1)
        return apart
