"""Traffic: what stages send each other; copies cut into pieces, their tiles, and what traffic that makes.

The whole output of a producer that any window of a consumer needs, pixels 0 ... the last one needed, is
sent once to that consumer: digital nodes run where their result is read. Blocks of windows go to copies in
turn (block n to copy n mod d, docs/sources/model.md 4 and 10). So the bytes of an edge are spread evenly over
all pairs of an array of the producer that sends results and a row block of a copy of the consumer. Those of
partial sums are spread over the copies (`transfer` says which arrays give, and what a row block reads):

    cost = sum over edges of bytes * (mean of links of these pairs) + sum over partial sums of bytes * hops

with hops between chips weighted (`Mesh.chip_hop`).

A copy that fits a tile is one piece, others are cut. The blocks of a copy fill its pieces stripe after
stripe of row blocks, and in a stripe column block after column block: in one stripe few partial sums leave a
tile, in low ones its inputs go to few tiles; row block after row block where row blocks must keep to a tile.
What is sent is that of `transfer`: a tile adds up what it holds of a column block, its
partial sum goes to the tile of the last row block, and results leave from there.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from rramalloc.commands.place.placement import PlacedArray
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.tables import Chip
from rramalloc.mapping.blocks import Block, StoredCopies
from rramalloc.mapping.mode import array_of
from rramalloc.mapping.tiles import Site
from rramalloc.ndarrays import Floats, Ints
from rramalloc.timing.access import BITS_PER_BYTE
from rramalloc.timing.stage_graph import StageGraph


@dataclass(frozen=True, eq=False)
class Flows:
    """Edges between stages, by producer and consumer.

    producer, consumer: int64, stages; pixels: int64, sent per input; pixel_bytes: float64, of one of them;
    block_pixels: int64, that a copy of the producer yields in a step; of each stage
    blocks: int64, of windows, and column_bytes: float64, of the partial sum of a column for one of them.
    """

    producer: Ints
    consumer: Ints
    pixels: Ints
    pixel_bytes: Floats
    block_pixels: Ints
    blocks: Ints
    column_bytes: Floats

    @classmethod
    def of(cls, graph: StageGraph, hardware: Hardware) -> Flows:
        """Return the edges of a network; with very many only those that bind the timing
        (`StageGraph.edges`)."""
        edges = sorted(graph.edges, key=lambda edge: (edge.producer, edge.consumer))
        channels = [graph.channels(edge.producer) for edge in edges]
        slices = [
            array_of(hardware, layer, mode).columns_per_weight
            for layer, mode in zip(graph.layers, graph.modes, strict=True)
        ]
        value_bytes = hardware.precision.output_bits / BITS_PER_BYTE
        return cls(
            np.array([edge.producer for edge in edges], dtype=np.int64),
            np.array([edge.consumer for edge in edges], dtype=np.int64),
            np.array([graph.sent_pixels(edge) for edge in edges], dtype=np.int64),
            np.array(channels, dtype=np.float64) * value_bytes,
            np.array([math.prod(graph.blocks[edge.producer]) for edge in edges], dtype=np.int64),
            graph.windows,
            value_bytes / np.array(slices, dtype=np.float64),
        )

    @cached_property
    def size_bytes(self) -> Floats:
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


P = TypeVar("P", int, Site)


class Sent(NamedTuple, Generic[P]):
    """Inputs and results of arrays in places, which are pieces or tiles.

    sends: column blocks whose results leave from each place; units: row blocks, which read the same inputs,
    by the places that they lie in; sums: [column blocks, columns] of the partial sums that go to a place from
    each of others.
    """

    sends: Counter[P]
    units: Counter[tuple[P, ...]]
    sums: dict[tuple[P, tuple[P, ...]], list[int]]

    @classmethod
    def of(cls, held: Iterable[tuple[int, Block | PlacedArray, P]]) -> Sent[P]:
        """Return it for (copy, what an array holds of it, place)."""
        columns: dict[tuple[int, int], list[tuple[int, int, P, int]]] = {}
        rows: dict[tuple[int, int], set[P]] = {}
        for copy, block, place in held:
            rows.setdefault((copy, block.row_block), set()).add(place)
            parts = columns.setdefault((copy, block.column_block), [])
            parts.append((block.row_block, block.plane, place, block.columns))
        sends, sums = Counter[P](), dict[tuple[P, tuple[P, ...]], list[int]]()
        for parts in columns.values():
            *_, target, wide = max(parts)
            sends[target] += 1
            if sources := tuple(sorted({place for *_, place, _ in parts} - {target})):
                moved = sums.setdefault((target, sources), [0, 0])
                moved[0] += 1
                moved[1] += wide
        return cls(sends, Counter(tuple(sorted(places)) for places in rows.values()), sums)


@dataclass(frozen=True, eq=False)
class Pieces:
    """The pieces that the copies of all stages are cut into, one row each.

    held: what the arrays of every stage hold; flows: between stages; stage, arrays, copy: int64, `arrays`
    arrays of set `copy` of the stage, rows of a set in the order in which its blocks fill them; heights: row
    blocks of a stripe of every stage. sends: int64, column blocks whose results leave from the piece; units:
    int64 (k, 4), rows of stage, number of a unit that reads the same inputs, a piece of it, and how many such
    units there are; sums: between pieces; known: what sets cut alike send, by stage, height and cut.
    """

    held: Sequence[StoredCopies]
    flows: Flows
    stage: Ints
    arrays: Ints
    copy: Ints
    heights: Sequence[int]
    sends: Ints
    units: Ints
    sums: Sums
    known: dict[tuple[int, ...], Sent[int]]

    @classmethod
    def of(
        cls,
        held: Sequence[StoredCopies],
        flows: Flows,
        rows: tuple[Ints, Ints, Ints],
        heights: Sequence[int],
        known: dict[tuple[int, ...], Sent[int]],
    ) -> Pieces:
        """Return the pieces. rows: stage, arrays and copy of each."""
        stage, arrays, copy = rows
        column_bytes = flows.column_bytes * flows.blocks / [each.copies for each in held]
        sends = np.zeros(len(stage), dtype=np.int64)
        sizes, targets, sources = list[float](), list[int](), list[list[int]]()
        length, units = arrays.tolist(), list[tuple[int, int, int, int]]()
        members: dict[tuple[int, int], list[int]] = {}
        for piece, of in enumerate(zip(stage.tolist(), copy.tolist(), strict=True)):
            members.setdefault(of, []).append(piece)
        for (s, number), own in members.items():
            cut = [length[piece] for piece in own]
            key = s, heights[s], *cut
            if key not in known:  # copies cut alike are alike
                local = np.repeat(np.arange(len(own)), cut).tolist()
                blocks = _in_order(held[s], number, heights[s])
                known[key] = Sent.of((0, block, at) for block, at in zip(blocks, local, strict=True))
            for at, count in known[key].sends.items():
                sends[own[at]] = count
            for places, weight in known[key].units.items():
                unit = units[-1][1] + 1 if units else 0
                units += [(s, unit, own[at], weight) for at in places]
            for (target, others), (_, columns) in known[key].sums.items():
                sizes.append(columns * float(column_bytes[s]))
                targets.append(own[target])
                sources.append([own[other] for other in others])
        sums = Sums(
            np.array(sizes, dtype=np.float64),
            np.array(targets, dtype=np.int64),
            np.cumsum([0, *map(len, sources)], dtype=np.int64),
            np.array([piece for each in sources for piece in each], dtype=np.int64),
        )
        reads = np.array(units, dtype=np.int64).reshape(-1, 4)
        return cls(held, flows, *rows, heights, sends, reads, sums, known)

    @property
    def stages(self) -> int:
        """Number of all stages."""
        return len(self.held)

    @cached_property
    def is_whole(self) -> Any:
        """Return which pieces are whole sets."""
        return self.arrays == np.array([each.together for each in self.held])[self.stage]

    def in_stripes(self, heights: Ints) -> Pieces:
        """Return the same pieces, which the blocks of each stage fill in stripes of so many row blocks."""
        rows = self.stage, self.arrays, self.copy
        return Pieces.of(self.held, self.flows, rows, heights.tolist(), self.known)


def _in_order(held: StoredCopies, number: int, height: int) -> list[Block]:
    """Return the blocks of a set of arrays in the order in which they fill pieces: stripes of `height` row
    blocks, in each column block after column block.
    """
    order = attrgetter("column_block", "row_block", "plane")
    return sorted(held[number].blocks, key=lambda block: (block.row_block // height, *order(block)))


@dataclass(frozen=True, eq=False)
class Layout:
    """Pieces in tiles.

    site: int64, tile of every piece; sites: int64 (k, 4), all tiles; chip: of them; kinds: int64, of the
    arrays of every tile, and room: int64, how many it has for this network.
    """

    pieces: Pieces
    site: Ints
    sites: Ints
    chip: Chip
    kinds: Ints
    room: Ints

    def contents(self) -> Iterator[tuple[int, int, Site, list[Block]]]:
        """Yield the stage, copy, tile and blocks of every piece, stage after stage, set after set.

        Sets of arrays that lie together are numbered in the order of their tiles.
        """
        pieces, rank = self.pieces, np.empty(len(self.sites), dtype=np.int64)
        rank[np.lexsort(self.sites.T[::-1])] = np.arange(len(self.sites))
        sets: list[dict[int, list[int]]] = [{} for _ in pieces.held]
        for piece in np.lexsort((rank[self.site], pieces.stage)).tolist():
            sets[int(pieces.stage[piece])].setdefault(int(pieces.copy[piece]), []).append(piece)
        for stage, of_stage in enumerate(sets):
            for number, own in enumerate(of_stage.values()):
                blocks = iter(_in_order(pieces.held[stage], number, pieces.heights[stage]))
                for piece in sorted(own):
                    site = tuple(self.sites[self.site[piece]].tolist())
                    held = list(islice(blocks, int(pieces.arrays[piece])))
                    yield stage, pieces.held[stage][number].replica, site, held
