"""Copies cut into pieces, the tiles they lie in, and what traffic that makes.

A copy that fits a tile is one piece, others are cut. The blocks of a copy fill its pieces column block after
column block, so that few partial sums leave a tile; row block after row block where row blocks must keep to a
tile. What is sent is that of `placement.transfer`: a tile adds up what it holds of a column block, its
partial sum goes to the tile of the last row block, and results leave from there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.placement.blocks import Block, StoredCopies
from rramalloc.placement.flows import Flows
from rramalloc.placement.mesh import Ints, Mesh, hops_apart

Floats = npt.NDArray[np.float64]


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
    """A copy cut into pieces: column blocks whose results each piece gives, and (target, sources) of partial
    sums with their columns.
    """

    gives: list[int]
    nets: dict[tuple[int, tuple[int, ...]], int]

    @classmethod
    def of(cls, blocks: Sequence[Block], sizes: Sequence[int]) -> _CutCopy:
        """sizes: arrays of every piece, in the order in which the blocks fill them."""
        piece_of = np.repeat(np.arange(len(sizes)), sizes).tolist()
        held: dict[int, list[tuple[int, int, int]]] = {}
        columns: dict[int, int] = {}
        for block, piece in zip(blocks, piece_of, strict=True):
            held.setdefault(block.column_block, []).append((block.row_block, block.plane, piece))
            columns[block.column_block] = block.columns
        gives, nets = [0] * len(sizes), dict[tuple[int, tuple[int, ...]], int]()
        for column, parts in held.items():
            target = max(parts)[2]
            gives[target] += 1
            sources = tuple(sorted({piece for *_, piece in parts} - {target}))
            if sources:
                nets[target, sources] = nets.get((target, sources), 0) + columns[column]
        return cls(gives, nets)


@dataclass(frozen=True, eq=False)
class Pieces:
    """The pieces that the copies of all stages are cut into, one row each.

    held: what the arrays of every stage hold; stage, arrays, copy: int64, `arrays` arrays of set `copy` of
    the stage, rows of a set in the order in which its blocks fill them; gives: int64, column blocks whose
    results leave from the piece; sums: between pieces; column_bytes: float64, that the partial sum of a
    column takes per input, of every stage; by_rows: row blocks must keep to a tile.
    """

    held: Sequence[StoredCopies]
    stage: Ints
    arrays: Ints
    copy: Ints
    gives: Ints
    sums: Sums
    column_bytes: Floats
    by_rows: bool

    @classmethod
    def of(
        cls, held: Sequence[StoredCopies], flows: Flows, stage: Ints, arrays: Ints, copy: Ints, *,
        by_rows: bool,
    ) -> Pieces:  # fmt: skip
        """From what a row says of each."""
        copies = np.array([each.copies for each in held], dtype=np.int64)
        column_bytes = flows.column_bytes * flows.blocks / copies
        gives = np.zeros(len(stage), dtype=np.int64)
        sizes, targets, sources = list[float](), list[int](), list[tuple[int, ...]]()
        known: dict[tuple[int, ...], _CutCopy] = {}
        length = arrays.tolist()
        members: dict[tuple[int, int], list[int]] = {}
        for piece, of in enumerate(zip(stage.tolist(), copy.tolist(), strict=True)):
            members.setdefault(of, []).append(piece)
        for (s, number), own in members.items():
            key = s, *(length[piece] for piece in own)
            if key not in known:
                known[key] = _CutCopy.of(_in_order(held[s], number, by_rows=by_rows), key[1:])
            gives[own] = known[key].gives
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
        return cls(held, stage, arrays, copy, gives, sums, column_bytes, by_rows)

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
        """What a set of arrays holds, in the order in which it fills pieces."""
        return _in_order(self.held[stage], copy, by_rows=self.by_rows)

    @cached_property
    def taken(self) -> Ints:
        """Arrays of every stage: each takes inputs."""
        return np.bincount(self.stage, self.arrays, self.stages).astype(np.int64)

    @cached_property
    def given(self) -> Ints:
        """Column blocks of all copies of every stage: an array of each gives results."""
        return np.bincount(self.stage, self.gives, self.stages).astype(np.int64)


def _in_order(held: StoredCopies, number: int, *, by_rows: bool) -> list[Block]:
    """The blocks of a set of arrays in the order in which they fill pieces."""
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

    def pair_hops(self, flows: Flows) -> tuple[Ints, Ints]:
        """Hops over all pairs of an array that gives and one that takes, of each edge: within chips, and
        between chips (unweighted).
        """
        place = self.sites[self.site]
        chips, chip = np.unique(place[:, :2], axis=0, return_inverse=True)
        inside, p, c = chip.ravel(), flows.producer, flows.consumer
        gate = place[:, 2] + place[:, 3]
        within, between = np.zeros((2, len(p)), dtype=np.int64)
        for axis in (2, 3):
            lines = int(place[:, axis].max()) + 1
            given, taken = (
                counts.reshape(self.pieces.stages, len(chips), lines).cumsum(axis=2)
                for counts in self._counted(inside * lines + place[:, axis], len(chips) * lines)
            )
            for number in range(len(chips)):
                within += _apart(given[p, number], taken[c, number])
        masses, gates = self._counted(inside, len(chips)), self._counted(inside, len(chips), gate)
        for way, mass in ((gates[0][p], masses[1][c]), (gates[1][c], masses[0][p])):
            within += way.sum(axis=1) * mass.sum(axis=1) - (way * mass).sum(axis=1)
        for axis in (0, 1):
            given, taken = self._counted(place[:, axis], int(place[:, axis].max()) + 1)
            between += _apart(given.cumsum(axis=1)[p], taken.cumsum(axis=1)[c])
        return within, between

    def mean_hops(self, flows: Flows, mesh: Mesh) -> Floats:
        """Mean of the weighted hops over those pairs, of each edge."""
        within, between = self.pair_hops(flows)
        pairs = self.pieces.given[flows.producer] * self.pieces.taken[flows.consumer]
        mean: Floats = (within + mesh.chip_hop * between) / np.maximum(pairs, 1)
        return mean

    def cost(self, flows: Flows, mesh: Mesh) -> float:
        """Bytes x hops of all edges and of all partial sums."""
        return math.fsum((flows.size_bytes * self.mean_hops(flows, mesh)).tolist()) + self._of_sums(mesh)

    def _of_sums(self, mesh: Mesh) -> float:
        sums = self.pieces.sums
        sent = np.unique(np.stack([sums.net, self.site[sums.source]]), axis=1)
        source, target = self.sites[sent[1]], self.sites[self.site[sums.target[sent[0]]]]
        within, between = hops_apart(source, target)
        return math.fsum((sums.size_bytes[sent[0]] * (within + mesh.chip_hop * between)).tolist())

    def _counted(self, line: Ints, lines: int, weight: Ints | None = None) -> tuple[Ints, Ints]:
        """Arrays that give and that take (times `weight`) of every stage on every line; (stages, lines)."""
        given, taken = np.zeros((2, self.pieces.stages, lines), dtype=np.int64)
        for counts, masses in ((given, self.pieces.gives), (taken, self.pieces.arrays)):
            np.add.at(counts, (self.pieces.stage, line), masses if weight is None else masses * weight)
        return given, taken


def _apart(a: Ints, b: Ints) -> Ints:
    """Sum of |i - j| over all pairs of arrays on lines i and j, for each edge.

    a, b: arrays of its two ends on lines 0 ... i. A pair is apart by the cuts between lines that separate it.
    """
    apart: Ints = (a * (b[:, -1:] - b) + (a[:, -1:] - a) * b).sum(axis=1)
    return apart
