"""Transfers over a placement: what stages send each other, and the partial sums within their copies.

One model for all that asks: the traffic and links of `place` (which `layout` minimises), what `--placed` adds
to the time of a step or an edge, and the cost on chiplets.
An array yields its column block's part of the outputs. The arrays of a column block hold one row block each,
or a slice or polarity of one: a tile adds up what its own arrays yield, and its partial sum travels to the
tile of the last row block. Results leave from there for the units of the reader, evenly over all pairs of an
array that gives and a unit that takes. A unit is a row block of a copy: its arrays, in all column blocks and
planes, read the same inputs, which are sent to each of its tiles, over each link once. Ways are those of
`Mesh`: XY routing, between chips by way of tile (0, 0) of both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.commands.place.arrange import chip_of
from rramalloc.commands.place.layout import Flows
from rramalloc.commands.place.links import HeldArrays, LinkRoute, Loads, Readers, routes, single_routes
from rramalloc.commands.place.mesh import Ints, Site, hops_apart
from rramalloc.commands.place.placement import PlacedArray
from rramalloc.errors import SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.timing.access import Transfer

Floats = npt.NDArray[np.float64]


class Moved(NamedTuple):
    """Hops over all pairs of arrays that something is sent between; moving: pairs in different tiles."""

    inside: int
    between: int
    moving: int

    def mean_ns(self, inside_ns: float, between_ns: float) -> float:
        """Time of the hops of a pair that moves, on average."""
        return (self.inside * inside_ns + self.between * between_ns) / max(self.moving, 1)


@dataclass(frozen=True, eq=False)
class Way(ABC):
    """Traffic between tiles, and the links that it takes."""

    @cached_property
    @abstractmethod
    def routes(self) -> tuple[LinkRoute, ...]:
        """Its links, and how many shares of what it carries go over each."""

    @property
    @abstractmethod
    def shares(self) -> int:
        """Equal shares of what it carries."""

    @abstractmethod
    def hops(self) -> Iterator[tuple[Ints, Ints, Ints]]:
        """Yield sources to targets: hops inside chips, between them, and pairs of arrays."""

    def mean_hops(self, chip_hop: float) -> float:
        """Return the mean of the hops of a byte, those between chips weighted, each link of a unit's way
        once."""
        within, between = (
            sum(int(route.pairs.sum()) for route in self.routes if (route.key is None) is apart)
            for apart in (False, True)
        )
        return (within + chip_hop * between) / max(self.shares, 1)

    def onto(self, loads: Loads, size_bytes: float) -> None:
        """Add the load of its links for `size_bytes` bytes."""
        for route in self.routes:
            loads.add(route, size_bytes / self.shares)

    def moved(self) -> Moved:
        """Return the hops and bytes moved over all pairs."""
        found = np.zeros(3, dtype=np.int64)
        for inside, between, pairs in self.hops():
            found += ((inside * pairs).sum(), (between * pairs).sum(), pairs[inside + between > 0].sum())
        return Moved(*found.tolist())

    def longest_ns(self, inside_ns: float, between_ns: float) -> float:
        """Time of the hops of the pair that is farthest apart."""
        return max(
            float((inside * inside_ns + between * between_ns).max(initial=0.0))
            for inside, between, _ in self.hops()
        )

    def slowest_ns(self, loads: Loads, tile_gb_s: float | None, chip_gb_s: float | None) -> float:
        """Time in which the slowest link on the way carries its load; links without a bandwidth take none."""
        slowest = 0.0
        for route in self.routes:
            gb_s = tile_gb_s if route.key is not None else chip_gb_s
            if gb_s is not None:
                carried = route.of(loads.of_key[route.key])[route.pairs > 0]
                slowest = max(slowest, float(carried.max(initial=0.0)) / gb_s)
        return slowest


@dataclass(frozen=True, eq=False)
class Results(Way):
    """Results, spread evenly over the pairs of an array that gives and a unit that takes."""

    source: HeldArrays
    target: Readers

    @cached_property
    def routes(self) -> tuple[LinkRoute, ...]:
        """Links by XY routing."""
        return tuple(routes(self.source, self.target))

    @property
    def shares(self) -> int:
        """Pairs of an array and a unit."""
        return int(self.source.held.sum()) * self.target.units

    def hops(self) -> Iterator[tuple[Ints, Ints, Ints]]:
        """Yield the hops from every source to all tiles of units."""
        sites, which = np.unique(self.target.sites, axis=0, return_inverse=True)
        units = np.bincount(which.ravel(), self.target.weight).astype(np.int64)
        for site, count in zip(self.source.sites, self.source.held.tolist(), strict=True):
            yield *hops_apart(site, sites), count * units


@dataclass(frozen=True, eq=False)
class PartialSums(Way):
    """Partial sums from tiles to those where they are added, shape (k, 4) both: of so many column blocks,
    with so many columns together, int64 (k,).
    """

    source: Ints
    target: Ints
    blocks: Ints
    columns: Ints

    @cached_property
    def routes(self) -> tuple[LinkRoute, ...]:
        """Links by XY routing."""
        return tuple(single_routes(self.source, self.target, self.columns))

    @property
    def shares(self) -> int:
        """Columns."""
        return int(self.columns.sum())

    def hops(self) -> Iterator[tuple[Ints, Ints, Ints]]:
        """Yield the hops of all pairs at once."""
        yield *hops_apart(self.source, self.target), self.blocks


class Ends(NamedTuple):
    """Tiles where a stage takes its inputs and gives its results, and the sums of its copies over tiles."""

    takes: Readers
    gives: HeldArrays
    sums: PartialSums

    @classmethod
    def of(cls, arrays: Iterable[PlacedArray]) -> Ends:
        """Return the ends of the arrays of one stage."""
        columns: dict[tuple[int, int], list[tuple[int, int, Site, int]]] = {}
        units: dict[tuple[int, int], set[Site]] = {}
        for array in arrays:
            site = (*array.chip, *array.tile)
            units.setdefault((array.replica, array.row_block), set()).add(site)
            blocks = columns.setdefault((array.replica, array.column_block), [])
            blocks.append((array.row_block, array.plane, site, array.columns))
        gives: dict[Site, int] = {}
        sums: dict[tuple[Site, Site], list[int]] = {}
        for blocks in columns.values():
            target = max(blocks)[2]
            gives[target] = gives.get(target, 0) + 1
            for site, count in {(site, count) for *_, site, count in blocks if site != target}:
                moved = sums.setdefault((site, target), [0, 0])
                moved[0] += 1
                moved[1] += count
        alike = Counter(tuple(sorted(tiles)) for tiles in units.values())
        rows = [(*source, *target, *moved) for (source, target), moved in sorted(sums.items())]
        table = np.array(rows, dtype=np.int64).reshape(-1, 10)
        takes = [(*site, weight) for tiles, weight in alike.items() for site in tiles]
        taking = np.array(takes, dtype=np.int64).reshape(-1, 5)
        unit = np.repeat(np.arange(len(alike)), [len(tiles) for tiles in alike])
        readers = Readers(unit, taking[:, :4], taking[:, 4])
        return cls(readers, _entry(gives), PartialSums(table[:, :4], table[:, 4:8], *table[:, 8:].T))


def ends_of(arrays: Iterable[PlacedArray]) -> dict[str, Ends]:
    """Return the ends of every layer of a placement."""
    by_layer: dict[str, list[PlacedArray]] = {}
    for array in arrays:
        by_layer.setdefault(array.layer, []).append(array)
    return {layer: Ends.of(own) for layer, own in by_layer.items()}


def _entry(sites: dict[Site, int]) -> HeldArrays:
    places = sorted(sites)
    return HeldArrays(
        np.array(places, dtype=np.int64), np.array([sites[at] for at in places], dtype=np.int64)
    )


@dataclass(frozen=True, eq=False)
class Ways:
    """All that the stages of a placement send: the partial sums of every stage, the results of every flow."""

    flows: Flows
    copies: Ints
    sums: tuple[PartialSums, ...]
    results: tuple[Results, ...]

    @classmethod
    def of(cls, arrays: Iterable[PlacedArray], names: Sequence[str], flows: Flows, copies: Ints) -> Ways:
        """Return the ways. names, copies: of the stages."""
        by_layer = ends_of(arrays)
        ends = [by_layer[name] for name in names]
        edges = zip(flows.producer.tolist(), flows.consumer.tolist(), strict=True)
        results = tuple(Results(ends[p].gives, ends[c].takes) for p, c in edges)
        return cls(flows, copies, tuple(own.sums for own in ends), results)

    def __iter__(self) -> Iterator[Way]:
        return iter((*self.sums, *self.results))

    @property
    def sender(self) -> Ints:
        """The stage that sends each of them."""
        return np.concatenate([np.arange(len(self.sums)), self.flows.producer])

    @property
    def receiver(self) -> Ints:
        """The stage that each of them goes to."""
        return np.concatenate([np.arange(len(self.sums)), self.flows.consumer])

    @property
    def input_bytes(self) -> Floats:
        """Bytes that each carries per input of the network."""
        of_column = self.flows.column_bytes * self.flows.blocks / self.copies
        return np.concatenate([of_column * self._columns, self.flows.size_bytes])

    @property
    def batch_bytes(self) -> Floats:
        """Bytes that each carries per batch of its sender."""
        pixels = self.flows.block_pixels * self.copies[self.flows.producer]
        return np.concatenate([self.flows.column_bytes * self._columns, self.flows.pixel_bytes * pixels])

    @property
    def _columns(self) -> Ints:
        return np.array([way.shares for way in self.sums], dtype=np.int64)

    def loads(self, size_bytes: Floats) -> Loads:
        """Return the loads of all links if each way carries its number of bytes."""
        loads = Loads()
        for way, size in zip(self, size_bytes.tolist(), strict=True):
            way.onto(loads, size)
        return loads


def missing_of_transfer(hardware: Hardware) -> list[str]:
    """Return the times and bandwidths that transfer needs and the hardware does not give.

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


def transfer(ways: Ways, hardware: Hardware) -> Transfer:
    """Return the transfer time of every stage of a placement, as EdgeTransfers; of the slowest of
    its edges."""
    slowest = [Delay(0.0, 0.0, 0.0)] * len(ways.copies)
    for p, delay in zip(ways.sender.tolist(), EdgeTransfers.of(ways, hardware).all, strict=True):
        slowest[p] = max(slowest[p], delay, key=lambda each: each.ns)
    per_copy = [each.queue_ns / int(copies) for each, copies in zip(slowest, ways.copies, strict=True)]
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
        """Time from the end of a batch to the arrival of its pixels."""
        return self.way_ns + self.queue_ns

    def after(self, other: Delay) -> Delay:
        """Return the delay of both, one after the other."""
        return Delay(self.way_ns + other.way_ns, self.queue_ns + other.queue_ns, max(self.busy, other.busy))


@dataclass(frozen=True, eq=False)
class EdgeTransfers:
    """Transfers of the edges of a placement, in the order of its flows: partial sums first, then results.

    gathered: of the partial sums of every stage alone.
    """

    edges: list[Delay]
    gathered: list[Delay]

    @property
    def all(self) -> list[Delay]:
        """Delays of all ways, in the order of `Ways`."""
        return [*self.gathered, *self.edges]

    @classmethod
    def of(cls, ways: Ways, hardware: Hardware, batch_ns: Floats | None = None) -> EdgeTransfers:
        """Return the transfers. batch_ns: time of a batch of every stage, None where nothing is asked of how
        busy a link is.

        Raises SpecError if the hardware lacks a number.
        """
        check_transfer(hardware)
        chip, sent = chip_of(hardware), ways.batch_bytes
        inside, between = chip.hop_ns_tile or 0.0, chip.hop_ns_chip or 0.0
        bandwidths = chip.bandwidth_tile_gb_s, chip.bandwidth_chip_gb_s
        loads = ways.loads(sent)
        rates = None if batch_ns is None else ways.loads(sent / batch_ns[ways.sender])
        delays = [
            Delay(
                way.longest_ns(inside, between),
                way.slowest_ns(loads, *bandwidths),
                0.0 if rates is None else way.slowest_ns(rates, *bandwidths),
            )
            for way in ways
        ]
        gathered, results = delays[: len(ways.sums)], delays[len(ways.sums) :]
        before = [gathered[p] for p in ways.flows.producer.tolist()]
        return cls([own.after(other) for own, other in zip(results, before, strict=True)], gathered)
