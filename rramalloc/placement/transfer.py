"""Transfers over a placement: what stages send each other, and the partial sums within their copies.

One model for all that asks: what `--placed` adds to the time of a step or an edge, and the cost on chiplets.
An array yields its column block's part of the outputs. The arrays of a column block hold one row block each:
a tile adds up what its own arrays yield, and its partial sum travels to the tile of the last row block.
Results leave from there for all arrays of the reader, evenly over all pairs of an array that gives and one
that takes. Ways are those of `Mesh`: XY routing, between chips by way of tile (0, 0) of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.errors import SpecError
from rramalloc.hardware.hardware import Chip, Hardware
from rramalloc.placement.arrange import chip_of
from rramalloc.placement.flows import Flows
from rramalloc.placement.links import Arrays, Loads, routes
from rramalloc.placement.mesh import Ints, Site
from rramalloc.placement.placement import PlacedArray
from rramalloc.timing.access import BITS_PER_BYTE, Transfer

Floats = npt.NDArray[np.float64]


class PartialSums(NamedTuple):
    """Partial sums on their way from a tile to the one where they are added: of some column blocks, with so
    many columns together.
    """

    source: Site
    target: Site
    blocks: int
    columns: int


class Ends(NamedTuple):
    """Where a stage takes its inputs and gives its results, and what its copies add up over tiles."""

    takes: Arrays
    gives: Arrays
    sums: tuple[PartialSums, ...] = ()

    @classmethod
    def of(cls, arrays: Iterable[PlacedArray]) -> Ends:
        """Those of the arrays of one stage."""
        columns: dict[tuple[int, int], list[tuple[int, Site, int]]] = {}
        takes: dict[Site, int] = {}
        for array in arrays:
            site = (*array.chip, *array.tile)
            takes[site] = takes.get(site, 0) + 1
            blocks = columns.setdefault((array.replica, array.column_block), [])
            blocks.append((array.row_block, site, array.columns))
        gives: dict[Site, int] = {}
        sums: dict[tuple[Site, Site], list[int]] = {}
        for blocks in columns.values():
            target = max(blocks)[1]
            gives[target] = gives.get(target, 0) + 1
            for site, count in {(site, count) for _, site, count in blocks if site != target}:
                moved = sums.setdefault((site, target), [0, 0])
                moved[0] += 1
                moved[1] += count
        partial = tuple(PartialSums(*way, *moved) for way, moved in sorted(sums.items()))
        return cls(_entry(takes), _entry(gives), partial)


def ends_of(arrays: Iterable[PlacedArray]) -> dict[str, Ends]:
    """The ends of every layer of a placement."""
    by_layer: dict[str, list[PlacedArray]] = {}
    for array in arrays:
        by_layer.setdefault(array.layer, []).append(array)
    return {layer: Ends.of(own) for layer, own in by_layer.items()}


def _entry(sites: dict[Site, int]) -> Arrays:
    places = sorted(sites)
    return Arrays(np.array(places, dtype=np.int64), np.array([sites[at] for at in places], dtype=np.int64))


class Moved(NamedTuple):
    """Hops over all pairs of arrays that something is sent between; moving: pairs in different tiles."""

    inside: int
    between: int
    moving: int

    def mean_ns(self, inside_ns: float, between_ns: float) -> float:
        """Time of the hops of a pair that moves, on average."""
        return (self.inside * inside_ns + self.between * between_ns) / max(self.moving, 1)


@dataclass(frozen=True)
class Way:
    """Bytes between arrays, spread evenly over the pairs of a source and a target."""

    source: Arrays
    target: Arrays
    size_bytes: float

    def onto(self, loads: Loads) -> None:
        """Add what its links carry."""
        pairs = int(self.source.held.sum()) * int(self.target.held.sum())
        for route in routes(self.source, self.target):
            loads.add(route, self.size_bytes / pairs)

    def hops(self) -> Iterator[tuple[Ints, Ints, Ints]]:
        """From every source to all targets: hops inside chips, between them, and pairs of arrays."""
        to = self.target.sites
        for site, count in zip(self.source.sites, self.source.held.tolist(), strict=True):
            apart = np.abs(to - site)
            between = apart[:, 0] + apart[:, 1]
            gated = int(site[2] + site[3]) + to[:, 2] + to[:, 3]
            yield np.where(between == 0, apart[:, 2] + apart[:, 3], gated), between, count * self.target.held

    def moved(self) -> Moved:
        """Its hops, over all pairs."""
        found = np.zeros(3, dtype=np.int64)
        for inside, between, pairs in self.hops():
            found += ((inside * pairs).sum(), (between * pairs).sum(), pairs[inside + between > 0].sum())
        return Moved(*found.tolist())

    def longest_ns(self, inside_ns: float, between_ns: float) -> float:
        """Time of the hops of the pair that is farthest apart."""
        return max(
            float((inside * inside_ns + between * between_ns).max()) for inside, between, _ in self.hops()
        )

    def slowest_ns(self, loads: Loads, tile_gb_s: float | None, chip_gb_s: float | None) -> float:
        """Time in which the slowest link on the way carries its load; links without a bandwidth take none."""
        slowest = 0.0
        for route in routes(self.source, self.target):
            gb_s = tile_gb_s if route.key is not None else chip_gb_s
            if gb_s is not None:
                carried = route.of(loads.of_key[route.key])[route.pairs > 0]
                slowest = max(slowest, float(carried.max(initial=0.0)) / gb_s)
        return slowest


def sums_of(ends: Ends, bytes_per_column: float) -> list[Way]:
    """Partial sums of a stage that leave their tile."""
    one = np.ones(1, dtype=np.int64)
    return [
        Way(
            Arrays(np.array([each.source], dtype=np.int64), one * each.blocks),
            Arrays(np.array([each.target], dtype=np.int64), one),
            each.columns * bytes_per_column,
        )
        for each in ends.sums
    ]


def missing_of_transfer(hardware: Hardware) -> list[str]:
    """Times and bandwidths that transfer needs and the hardware does not give.

    Raises SpecError without [chip].
    """
    chip = chip_of(hardware)
    needed = ["hop_ns_tile", "bandwidth_tile_gb_s"]
    if chip.chips != (1, 1):
        needed += ["hop_ns_chip", "bandwidth_chip_gb_s"]
    return [name for name in needed if getattr(chip, name) is None]


def check_transfer(hardware: Hardware) -> None:
    """Raise SpecError unless the hardware gives all times and bandwidths that transfer needs."""
    missing, where = missing_of_transfer(hardware), f"hardware {hardware.name[:60]!r}"
    if missing:
        raise SpecError(where, f"[chip] has no {' and no '.join(missing)}, which transfer time needs")


def transfer(
    ends: Sequence[Ends], flows: Flows, replication: Ints, slices: Sequence[int], hardware: Hardware
) -> Transfer:
    """The transfer time of every stage of a placement, as EdgeTransfers; of the slowest of its edges."""
    found = EdgeTransfers.of(ends, flows, replication, slices, hardware)
    slowest = list(found.gathered)
    for p, delay in zip(flows.producer.tolist(), found.edges, strict=True):
        slowest[p] = max(slowest[p], delay, key=lambda each: each.ns)
    per_copy = [each.queue_ns / int(copies) for each, copies in zip(slowest, replication, strict=True)]
    return Transfer(np.array([each.way_ns for each in slowest]), np.array(per_copy))


class Delay(NamedTuple):
    """way_ns: hops of the longest way; queue_ns: time in which the busiest link on the way carries what all
    stages send over it in one batch each; busy: part of the time that it takes up, above 1 if it cannot.
    """

    way_ns: float
    queue_ns: float
    busy: float

    @property
    def ns(self) -> float:
        """From the end of a batch to the arrival of its pixels."""
        return self.way_ns + self.queue_ns

    def after(self, other: Delay) -> Delay:
        """Both, one after the other."""
        return Delay(self.way_ns + other.way_ns, self.queue_ns + other.queue_ns, max(self.busy, other.busy))


@dataclass(frozen=True, eq=False)
class EdgeTransfers:
    """Transfers of the edges of a placement, in the order of its flows: partial sums first, then results.

    gathered: of the partial sums of every stage alone.
    """

    edges: list[Delay]
    gathered: list[Delay]

    @classmethod
    def of(
        cls, ends: Sequence[Ends], flows: Flows, replication: Ints, slices: Sequence[int],
        hardware: Hardware, batch_ns: Floats | None = None,
    ) -> EdgeTransfers:  # fmt: skip
        """slices: columns of a weight of every stage; batch_ns: time of a batch of every stage, None where
        nothing is asked of how busy a link is.

        Raises SpecError if the hardware lacks a number.
        """
        check_transfer(hardware)
        chip, bits = chip_of(hardware), hardware.precision.output_bits
        sent = flows.pixel_bytes * flows.block_pixels * replication[flows.producer]
        sums = [sums_of(own, bits / BITS_PER_BYTE / each) for own, each in zip(ends, slices, strict=True)]
        results = [
            Way(ends[p].gives, ends[c].takes, size_bytes)
            for p, c, size_bytes in zip(
                flows.producer.tolist(), flows.consumer.tolist(), sent.tolist(), strict=True
            )
        ]
        loads, rates = Loads(), Loads()
        for stage, ways in enumerate(sums):
            _add(ways, loads, rates, 0.0 if batch_ns is None else float(batch_ns[stage]))
        for p, way in zip(flows.producer.tolist(), results, strict=True):
            _add([way], loads, rates, 0.0 if batch_ns is None else float(batch_ns[p]))
        gathered = [_times(ways, loads, rates, chip, timed=batch_ns is not None) for ways in sums]
        found = [_times([way], loads, rates, chip, timed=batch_ns is not None) for way in results]
        before = [gathered[p] for p in flows.producer.tolist()]
        return cls([own.after(other) for own, other in zip(found, before, strict=True)], gathered)


def _add(ways: Iterable[Way], loads: Loads, rates: Loads, batch_ns: float) -> None:
    for way in ways:
        way.onto(loads)
        if batch_ns:
            Way(way.source, way.target, way.size_bytes / batch_ns).onto(rates)


def _times(ways: Sequence[Way], loads: Loads, rates: Loads, chip: Chip, *, timed: bool) -> Delay:
    """Of the slowest of some ways that start together."""
    inside, between = chip.hop_ns_tile or 0.0, chip.hop_ns_chip or 0.0
    bandwidths = chip.bandwidth_tile_gb_s, chip.bandwidth_chip_gb_s
    return Delay(
        max((way.longest_ns(inside, between) for way in ways), default=0.0),
        max((way.slowest_ns(loads, *bandwidths) for way in ways), default=0.0),
        max((way.slowest_ns(rates, *bandwidths) for way in ways), default=0.0) if timed else 0.0,
    )
